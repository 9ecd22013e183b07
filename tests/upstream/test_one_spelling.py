"""What clients spell in several ways is sent on in one, to every upstream that takes tools itself."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.driven import Driven
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.settings import Settings

USER = {"role": "user", "content": "Go."}
FUNCTION = {"name": "f", "description": "F.", "parameters": {"type": "object", "properties": {}}}
TOOL = {"type": "function", "function": FUNCTION}
NAMED = {"type": "function", "function": {"name": "f"}}
STRICT: dict[str, Any] = {"profile": "strict", "mode": "native"}


def sent(settings: dict[str, Any] | None = None, **fields: Any) -> dict[str, Any]:
    body = {"model": "m", "messages": [USER], "tools": [TOOL], **fields}
    raw = Driven(Settings(**{"mode": "native", **(settings or {})})).on_request(json.dumps(body).encode())
    made: dict[str, Any] = json.loads(raw or b"")
    return made


@pytest.mark.parametrize(
    "choice", [{"function": {"name": "f"}}, {"type": "function", "name": "f"}, {"name": "f"}, NAMED]
)
@pytest.mark.parametrize("api", ["openai", "anthropic", "google"])
def test_a_choice_that_names_a_tool(choice: Any, api: str) -> None:
    assert sent({"upstream_api": api}, tool_choice=choice)["tool_choice"] == NAMED


G = {"type": "function", "function": {**FUNCTION, "name": "g"}, "x": 1}
ONLY_G = {"mode": "auto", "tools": [{"type": "function", "function": {"name": "g"}}]}


@pytest.mark.parametrize("api", ["openai", "anthropic", "google"])
@pytest.mark.parametrize(
    ("allowed", "tools", "choice"),
    [
        (ONLY_G, [G], "auto"),
        ({**ONLY_G, "mode": "required"}, [G], "required"),
        ({**ONLY_G, "tools": [NAMED, *ONLY_G["tools"]]}, [TOOL, G], "auto"),
        ({"mode": "auto", "tools": []}, [TOOL, G], "none"),
    ],
    ids=["one", "required", "both", "none"],
)
def test_allowed_tools_are_the_only_ones_offered(
    allowed: dict[str, Any], tools: list[dict[str, Any]], choice: str, api: str
) -> None:
    """vLLM takes named tools, `none`, `auto` and `required`."""
    for given in ({"type": "allowed_tools", "allowed_tools": allowed}, {"type": "allowed_tools", **allowed}):
        made = sent({"upstream_api": api}, tools=[TOOL, G], tool_choice=given)
        assert (made["tools"], made["tool_choice"]) == (tools, choice)


def test_a_tool_without_its_type() -> None:
    assert sent(tools=[{"function": FUNCTION}, {**TOOL, "x": 1, "function": {**FUNCTION, "name": "g"}}])["tools"] == [
        TOOL,
        {**TOOL, "x": 1, "function": {**FUNCTION, "name": "g"}},
    ]


@pytest.mark.parametrize("arguments", [{"a": 1}, '{"a":1}'])
@pytest.mark.parametrize("typed", [{}, {"type": "function"}])
def test_a_call_in_the_history(arguments: Any, typed: dict[str, Any]) -> None:
    call = {"id": "call_1", **typed, "function": {"name": "f", "arguments": arguments}}
    turns = [USER, {"role": "assistant", "content": None, "tool_calls": [call]}]
    turns.append({"role": "tool", "tool_call_id": "call_1", "content": "x"})
    spelled = arguments if isinstance(arguments, str) else '{"a": 1}'
    wanted = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": spelled}}
    assert sent(messages=turns)["messages"][1]["tool_calls"] == [wanted]


def test_what_has_the_usual_spelling_leaves_with_its_own_bytes() -> None:
    tools = b'"tools":[{"type":"function","function":{"name":"f"}}]'
    body = b'{"model":"m", "messages":[{"role":"user","content":"Go."}],' + tools + b"}"
    raw = Driven(Settings(mode="native")).on_request(body)
    assert raw is not None
    assert json.loads(raw) == json.loads(body)
    assert tools in raw


CALL = {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
ASKED = {"role": "assistant", "content": None, "tool_calls": [CALL]}
TOLD = {"role": "tool", "tool_call_id": "call_1", "content": "x"}


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        (
            {"tools": [{"type": "function", "function": {"name": "f", "description": "F."}}]},
            "tools[0].function.parameters",
        ),
        (
            {"tools": [{"type": "function", "function": {**FUNCTION, "parameters": {"properties": {}}}}]},
            "tools[0].function.parameters.type",
        ),
        ({"tools": [{"function": FUNCTION}]}, "tools[0].type"),
        ({"messages": [USER, ASKED, TOLD, ASKED, TOLD]}, "messages[3].tool_calls[0].id"),
        ({"messages": [{**USER, "tool_call_id": "call_1"}]}, "messages[0].tool_call_id"),
        ({"messages": [{**USER, "tool_calls": [CALL]}]}, "messages[0].tool_calls"),
        ({"messages": [{**USER, "tool_calls": [None]}]}, "messages[0].tool_calls"),
        ({"messages": [USER, {"role": "assistant", "tool_calls": [None]}]}, "messages[1].tool_calls[0]"),
        ({"messages": [USER, ASKED, {**TOLD, "content": None}]}, "messages[2].content"),
    ],
)
def test_the_strict_dialect_refuses_what_is_missing_or_misplaced(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(ToolCallError) as caught:
        sent(STRICT, **fields)
    assert (caught.value.status, caught.value.param) == (400, param)
    if param != "messages[1].tool_calls[0]":
        assert sent({"mode": "prompt"}, **fields)


def test_the_fault_of_a_schema_is_told_with_its_place() -> None:
    wrong = {"type": "object", "properties": {"a": {"type": "strin"}}}
    with pytest.raises(ToolCallError) as caught:
        sent(tools=[{"type": "function", "function": {**FUNCTION, "parameters": wrong}}])
    assert caught.value.param == "tools[0].function.parameters.properties.a.type"


@pytest.mark.parametrize(
    "more", [{"max_tool_rounds": 1}, {"rewrite_ids": True}, {"extension_field": "x"}, {"strict_ids": True}]
)
def test_calls_of_others_than_the_assistant_are_none(more: dict[str, Any]) -> None:
    turns = [USER, ASKED, {**USER, "tool_calls": [None]}, TOLD]
    assert sent(more, messages=turns)
