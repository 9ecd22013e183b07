"""The allowlist and the strict dialect."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any

import pytest

from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.request.parse import ChatRequest, read_request
from toolcall_middleware.request.policy import check_request
from toolcall_middleware.settings import Settings

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


def strict_schema(change: Callable[[dict[str, Any]], Any]) -> dict[str, Any]:
    schema: dict[str, Any] = json.loads(json.dumps(SCHEMA))
    change(schema)
    return tool(strict=True, parameters=schema)


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

# (the part that refuses it, the request, code, param): what compat accepts and strict does not.
PARTS: list[tuple[str, dict[str, Any], str, str]] = [
    ("refuse_deprecated", {"tools": None, "functions": [FUNCTION]}, "invalid_request", "functions"),
    ("refuse_deprecated", {"function_call": "none"}, "invalid_request", "function_call"),
    (
        "refuse_deprecated",
        {"messages": [*ASK, OLD_CALL, {"role": "function", "name": "weather", "content": "x"}]},
        "invalid_request",
        "messages[1].function_call",
    ),
    ("strict_names", {"tools": [tool("get-weather")]}, "invalid_tool_schema", "tools[0].function.name"),
    ("strict_names", {"tools": [tool("mcp.weather")]}, "invalid_tool_schema", "tools[0].function.name"),
    (
        "require_descriptions",
        {"tools": [tool(description=" ")]},
        "invalid_tool_schema",
        "tools[0].function.description",
    ),
    (
        "require_descriptions",
        {"tools": [tool(parameters={"type": "object", "properties": {"x": {}}})]},
        "invalid_tool_schema",
        "tools[0].function.parameters.properties.x",
    ),
    (
        "require_descriptions",
        {"tools": [tool(parameters={**DEFINED, "$defs": {"x": {"description": " "}}})]},
        "invalid_tool_schema",
        "tools[0].function.parameters.properties.x",
    ),
    (
        "require_descriptions",
        {"tools": [tool(parameters=UNDESCRIBED)]},
        "invalid_tool_schema",
        "tools[0].function.parameters.properties.x.anyOf[0].properties.y",
    ),
    ("strict_schemas", {"parallel_tool_calls": None}, "invalid_tool_schema", "parallel_tool_calls"),
    (
        "strict_schemas",
        {"tools": [strict_schema(lambda s: s.pop("additionalProperties"))]},
        "invalid_tool_schema",
        "tools[0].function.parameters.additionalProperties",
    ),
    (
        "strict_schemas",
        {"tools": [strict_schema(lambda s: s["properties"].update(city={**CITY, "type": ["object", "null"]}))]},
        "invalid_tool_schema",
        "tools[0].function.parameters.properties.city.additionalProperties",
    ),
    (
        "strict_schemas",
        {"tools": [strict_schema(lambda s: s.update(required=[]))]},
        "invalid_tool_schema",
        "tools[0].function.parameters.required",
    ),
    (
        "strict_schemas",
        {"tools": [strict_schema(lambda s: s["properties"].update(city=IN_ITEMS))]},
        "invalid_tool_schema",
        "tools[0].function.parameters.properties.city.items.additionalProperties",
    ),
    (
        "strict_schemas",
        {"tools": [tool(strict=True, parameters=levels(6))]},
        "invalid_tool_schema",
        "tools[0].function.parameters" + ".properties.a" * 5,
    ),
    (
        "strict_schemas",
        {"tools": [tool(strict=True, parameters=wide(101))]},
        "invalid_tool_schema",
        "tools[0].function.parameters",
    ),
    (
        "strict_ids",
        {"messages": [*ASK, called("toolu_01A"), answered("toolu_01A")]},
        "invalid_tool_call_id",
        "messages[1].tool_calls[0].id",
    ),
    (
        "require_descriptions",
        {"tools": [tool(description="")]},
        "invalid_tool_schema",
        "tools[0].function.description",
    ),
    (
        "require_descriptions",
        {"tools": [tool(parameters=INNER)]},
        "invalid_tool_schema",
        "tools[0].function.parameters.properties.at.properties.hour",
    ),
    (
        "strict_results",
        {"messages": [*ASK, called("call_1")]},
        "invalid_message_order",
        "messages[1].tool_calls[0].id",
    ),
    (
        "strict_results",
        {"messages": [*ASK, called("call_1", "call_2"), answered("call_1"), *ASK]},
        "invalid_message_order",
        "messages[1].tool_calls[1].id",
    ),
    (
        "strict_results",
        {"messages": [*ASK, called("call_1"), answered("call_1"), answered("call_1")]},
        "invalid_tool_call_id",
        "messages[3].tool_call_id",
    ),
    (
        "strict_results",
        {"messages": [*ASK, called("call_1"), *ASK, answered("call_1")]},
        "invalid_message_order",
        "messages[1].tool_calls[0].id",
    ),
    (
        "strict_results",
        {"messages": [*ASK, called("call_1", "call_1"), answered("call_1")]},
        "invalid_tool_call_id",
        "messages[1].tool_calls[1].id",
    ),
]


@pytest.mark.parametrize(
    ("part", "fields", "code", "param"), PARTS, ids=[f"{part}-{number}" for number, (part, *_) in enumerate(PARTS)]
)
def test_each_part_of_the_strict_dialect_also_alone(part: str, fields: dict[str, Any], code: str, param: str) -> None:
    check(Settings(), **fields)
    for settings in (Settings(profile="strict"), part_alone(part)):
        with pytest.raises(ToolCallError) as caught:
            check(settings, **fields)
        assert (caught.value.code, caught.value.param, caught.value.status) == (code, param, 400)
    others = {name for name, *_ in PARTS} - {part}
    for other in sorted(others):
        check(part_alone(other), **fields)


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"messages": [*ASK, called("call_1", "call_2"), answered("call_2"), answered("call_1")]},
        {"tools": [tool(strict=True, parameters=levels(5))]},
        {"tools": [tool(strict=True, parameters=wide(100))]},
        {"tools": [tool("get_weather_2")], "parallel_tool_calls": None},
        {"tools": [tool(parameters={**DEFINED, "$defs": {"x": {"description": "d"}}})]},
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
