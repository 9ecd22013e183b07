"""The allowlist and the strict dialect."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.request.policy import check_request
from toolcall_middleware.settings import Settings

from .chats import CLOCK, HELLO, WEATHER, calling, request

CALL = {
    "role": "assistant",
    "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "clock", "arguments": "{}"}}],
}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "12"}


def described(parameters: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    function = {"name": "clock", "description": "The time.", "parameters": parameters or {"type": "object"}, **fields}
    return {"type": "function", "function": function}


def refused(settings: Settings, *messages: Any, **fields: Any) -> tuple[str | int | None, str | None, int]:
    with pytest.raises(ToolCallError) as caught:
        check_request(request(*(messages or (HELLO,)), **fields), settings)
    return caught.value.code, caught.value.param, caught.value.status


def accepted(settings: Settings, *messages: Any, **fields: Any) -> None:
    check_request(request(*(messages or (HELLO,)), **fields), settings)


@pytest.mark.parametrize("allowlist", ["weather,clock", "w*, c?ock", "*"])
def test_what_is_on_the_allowlist_passes(allowlist: str) -> None:
    accepted(Settings(allowlist=allowlist, allowlist_mode="enforce"), tools=(WEATHER, CLOCK))


@pytest.mark.parametrize("allowlist", ["weather", "W*,weather", "none"])
def test_what_is_not_on_it_is_refused_by_name(allowlist: str) -> None:
    settings = Settings(allowlist=allowlist, allowlist_mode="enforce")
    assert refused(settings, tools=(CLOCK,)) == ("tool_not_allowed", "tools[0].function.name", 403)


def test_the_allowlist_can_warn_or_be_off(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        accepted(Settings(allowlist="weather", allowlist_mode="off"), tools=(CLOCK,))
        assert not caplog.records
        accepted(Settings(allowlist="weather", allowlist_mode="warn"), tools=(CLOCK,))
    assert "clock" in caplog.text


@pytest.mark.parametrize(
    ("tool", "param"),
    [
        (described(description=""), "tools[0].function.description"),
        (
            described({"type": "object", "properties": {"zone": {"type": "string"}}}),
            "tools[0].function.parameters.properties.zone",
        ),
        (
            described(
                {
                    "type": "object",
                    "properties": {
                        "at": {"type": "object", "description": "When.", "properties": {"hour": {"type": "integer"}}}
                    },
                }
            ),
            "tools[0].function.parameters.properties.at.properties.hour",
        ),
    ],
)
def test_descriptions_can_be_required(tool: dict[str, Any], param: str) -> None:
    assert refused(Settings(require_descriptions=True), tools=(tool,)) == ("invalid_tool_schema", param, 400)
    accepted(Settings(), tools=(tool,))


STRICT = Settings(profile="strict")


def test_a_good_request_passes_the_strict_dialect() -> None:
    accepted(STRICT, HELLO, CALL, RESULT, tools=(described(),))


@pytest.mark.parametrize(
    ("messages", "code", "param"),
    [
        ((HELLO, CALL, HELLO), "invalid_message_order", "messages[1].tool_calls[0].id"),
        ((HELLO, CALL), "invalid_message_order", "messages[1].tool_calls[0].id"),
        ((HELLO, CALL, RESULT, RESULT), "invalid_tool_call_id", "messages[3].tool_call_id"),
        ((HELLO, calling(("toolu_01", "clock", "{}"))), "invalid_tool_call_id", "messages[1].tool_calls[0].id"),
    ],
)
def test_strict_conversations(messages: Any, code: str, param: str) -> None:
    assert refused(STRICT, *messages, tools=(described(),)) == (code, param, 400)
    accepted(Settings(), *messages, tools=(described(),))


def test_strict_names_and_no_deprecated_fields() -> None:
    assert refused(STRICT, tools=(described(name="get-time"),))[1] == "tools[0].function.name"
    old = {"functions": [described()["function"]]}
    assert refused(STRICT, tools=(), **old)[:2] == ("invalid_request", "functions")


@pytest.mark.parametrize(
    ("parameters", "end"),
    [
        ({"type": "object", "properties": {}}, "additionalProperties"),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "string", "description": "A."}},
                "additionalProperties": False,
            },
            "required",
        ),
    ],
)
def test_strict_true_is_held_to_its_rules(parameters: dict[str, Any], end: str) -> None:
    tool = described(parameters, strict=True)
    assert refused(STRICT, tools=(tool,))[1] == "parallel_tool_calls"
    code, param, _ = refused(STRICT, tools=(tool,), parallel_tool_calls=False)
    assert code == "invalid_tool_schema"
    assert str(param).endswith(end)
