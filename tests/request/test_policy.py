"""The allowlist and the strict dialect."""

from __future__ import annotations

import fnmatch
import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.request.parse import ChatRequest, read_request
from toolcall_middleware.request.policy import check_request
from toolcall_middleware.settings import Settings
from toolcall_middleware.settings.settings import admits

from .chats import CLOCK, HELLO, WEATHER, request


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


def test_a_pattern_is_read_once_and_not_for_each_tool(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []
    translate = fnmatch.translate

    def counted(pattern: str) -> str:
        read.append(pattern)
        return translate(pattern)

    monkeypatch.setattr(fnmatch, "translate", counted)
    monkeypatch.setattr(fnmatch, "fnmatchcase", lambda *_: pytest.fail("a tool is compared with one pattern"))
    patterns = tuple(f"read_{number}_*" for number in range(30))
    names = [f"read_{number}_it" for number in range(0, 60, 2)]
    for _ in range(2):
        assert [admits(patterns, name) for name in names] == [number < 30 for number in range(0, 60, 2)]
    assert read == [*patterns]


@pytest.mark.parametrize("pattern", ["a|b", "[!a]", "[a", "a\n", "(", "^a$", "a.", "[]-a]", "", "*", "?", "[z-a]"])
def test_only_asterisks_question_marks_and_brackets_have_a_meaning(pattern: str) -> None:
    for name in ("a", "b", "a|b", "(", "[a", "a\n", "]", "^a$", "ax", "a.", ""):
        assert admits((pattern,), name) == fnmatch.fnmatchcase(name, pattern)
        assert admits(("other", pattern, "x|"), name) == fnmatch.fnmatchcase(name, pattern)
    assert not admits((), pattern)


# -- the strict dialect --------------------------------------------------------------------------------------------

CITY = {"type": "string", "description": "Where."}
SCHEMA = {"type": "object", "properties": {"city": CITY}, "required": ["city"], "additionalProperties": False}
ASK = [{"role": "user", "content": "The weather in Paris?"}]


def tool(name: str = "weather", **fields: Any) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {"name": name, "description": "The weather.", "parameters": SCHEMA, **fields},
    }


def part_alone(name: str) -> Settings:
    given: dict[str, Any] = {name: True}
    return Settings(**given)


def check(settings: Settings, **fields: Any) -> None:
    body = {"model": "m", "messages": ASK, "tools": [tool(strict=True)], "parallel_tool_calls": False, **fields}
    sent = {name: value for name, value in body.items() if value is not None}
    chat = read_request(json.dumps(sent).encode(), settings)
    assert isinstance(chat, ChatRequest)
    check_request(chat, settings)


def called(*ids: str) -> dict[str, Any]:
    calls = [{"id": i, "type": "function", "function": {"name": "weather", "arguments": {"city": "x"}}} for i in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def answered(call_id: str) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": "x"}


def levels(number: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object", "additionalProperties": False}
    for _ in range(number - 1):
        inner = {**schema, "description": "d"}
        schema = {"type": "object", "properties": {"a": inner}, "required": ["a"], "additionalProperties": False}
    return schema


def wide(number: int) -> dict[str, Any]:
    names = [f"p{i}" for i in range(number)]
    properties = {name: {"type": "string", "description": "d"} for name in names}
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}


FUNCTION = tool()["function"]
OLD_CALL = {"role": "assistant", "content": None, "function_call": {"name": "weather", "arguments": "{}"}}
IN_ITEMS = {"type": "array", "description": "d", "items": {"type": "object", "properties": {}}}
INNER = {
    "type": "object",
    "properties": {"at": {"type": "object", "description": "When.", "properties": {"hour": {"type": "integer"}}}},
}
DEFINED = {"type": "object", "properties": {"x": {"$ref": "#/$defs/x"}}}
UNDESCRIBED = {"type": "object", "properties": {"x": {"anyOf": [{"properties": {"y": {}}}], "description": "d"}}}


def schema(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    """A strict tool whose schema is changed."""
    made: dict[str, Any] = json.loads(json.dumps(SCHEMA))
    change(made)
    return {"tools": [tool(strict=True, parameters=made)]}


def parameters(value: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"tools": [tool(parameters=value, **more)]}


OLD = [*ASK, OLD_CALL, {"role": "function", "name": "weather", "content": "x"}]
F, P = "tools[0].function", "tools[0].function.parameters"
# What compat accepts and strict does not: by the part that refuses it and the code, the request and the param.
PARTS: dict[tuple[str, str], list[tuple[dict[str, Any], str]]] = {
    ("refuse_deprecated", "invalid_request"): [
        ({"tools": None, "functions": [FUNCTION]}, "functions"),
        ({"function_call": "none"}, "function_call"),
        ({"messages": OLD}, "messages[1].function_call"),
    ],
    ("strict_names", "invalid_tool_schema"): [
        ({"tools": [tool("get-weather")]}, f"{F}.name"),
        ({"tools": [tool("mcp.weather")]}, f"{F}.name"),
    ],
    ("require_descriptions", "invalid_tool_schema"): [
        ({"tools": [tool(description=" ")]}, f"{F}.description"),
        ({"tools": [tool(description="")]}, f"{F}.description"),
        (parameters({"type": "object", "properties": {"x": {}}}), f"{P}.properties.x"),
        (parameters({**DEFINED, "$defs": {"x": {"description": " "}}}), f"{P}.properties.x"),
        (parameters(UNDESCRIBED), f"{P}.properties.x.anyOf[0].properties.y"),
        (parameters(INNER), f"{P}.properties.at.properties.hour"),
    ],
    ("strict_schemas", "invalid_tool_schema"): [
        ({"parallel_tool_calls": None}, "parallel_tool_calls"),
        (schema(lambda s: s.pop("additionalProperties")), f"{P}.additionalProperties"),
        (
            schema(lambda s: s["properties"].update(city={**CITY, "type": ["object", "null"]})),
            f"{P}.properties.city.additionalProperties",
        ),
        (schema(lambda s: s.update(required=[])), f"{P}.required"),
        (schema(lambda s: s["properties"].update(city=IN_ITEMS)), f"{P}.properties.city.items.additionalProperties"),
        (parameters(levels(6), strict=True), P + ".properties.a" * 5),
        (parameters(wide(101), strict=True), P),
    ],
    ("strict_ids", "invalid_tool_call_id"): [
        ({"messages": [*ASK, called("toolu_01A"), answered("toolu_01A")]}, "messages[1].tool_calls[0].id"),
    ],
    ("strict_results", "invalid_message_order"): [
        ({"messages": [*ASK, called("call_1")]}, "messages[1].tool_calls[0].id"),
        (
            {"messages": [*ASK, called("call_1", "call_2"), answered("call_1"), *ASK]},
            "messages[1].tool_calls[1].id",
        ),
        ({"messages": [*ASK, called("call_1"), *ASK, answered("call_1")]}, "messages[1].tool_calls[0].id"),
    ],
    ("strict_results", "invalid_tool_call_id"): [
        ({"messages": [*ASK, called("call_1"), answered("call_1"), answered("call_1")]}, "messages[3].tool_call_id"),
        ({"messages": [*ASK, called("call_1", "call_1"), answered("call_1")]}, "messages[1].tool_calls[1].id"),
    ],
}


@pytest.mark.parametrize(
    ("part", "code", "fields", "param"),
    [(part, code, *row) for (part, code), rows in PARTS.items() for row in rows],
)
def test_each_part_of_the_strict_dialect_also_alone(part: str, code: str, fields: dict[str, Any], param: str) -> None:
    check(Settings(), **fields)
    for settings in (Settings(profile="strict"), part_alone(part)):
        with pytest.raises(ToolCallError) as caught:
            check(settings, **fields)
        assert (caught.value.code, caught.value.param, caught.value.status) == (code, param, 400)
    for other in sorted({name for name, _ in PARTS} - {part}):
        check(part_alone(other), **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"messages": [*ASK, called("call_1", "call_2"), answered("call_2"), answered("call_1")]},
        parameters(levels(5), strict=True),
        parameters(wide(100), strict=True),
        {"tools": [tool("get_weather_2")], "parallel_tool_calls": None},
        parameters({**DEFINED, "$defs": {"x": {"description": "d"}}}),
        {
            "tool_choice": {"type": "function", "function": {"name": "weather"}},
            "parallel_tool_calls": None,
            "stream": None,
        },
        {"functions": None, "function_call": None},
        {"messages": [*ASK, called("call_1"), answered("call_1")], "tools": [tool()]},
    ],
)
def test_what_strict_accepts(fields: dict[str, Any]) -> None:
    check(Settings(profile="strict"), **fields)


def test_the_refusal_of_deprecated_fields_says_what_to_use() -> None:
    with pytest.raises(ToolCallError, match="'tools', 'tool_choice'"):
        check(Settings(profile="strict"), tools=None, functions=[FUNCTION])
