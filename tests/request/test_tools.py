"""Tool definitions, their limits and the cache; the deprecated functions."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcall_middleware.lru_cache import LRUCache
from toolcall_middleware.model import LOADED_FIELD, ChoiceMode, Tool, ToolChoice
from toolcall_middleware.request import tools as tools_module

from .offers import error, function, read, refusal

EMPTY = {"type": "object", "properties": {}}
A = function("a")

# Definitions


def test_definitions_are_read() -> None:
    parameters = {"type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"]}
    chat = read(
        {**function("full", description="d", parameters=parameters, strict=True, extra=1), "name": "x"},
        function("bare"),
        function("nulls", description=None, parameters=None, strict=None),
        function("empty", description="", parameters={}, strict=False),
        {"function": {"name": "untyped"}},
    )
    assert chat.tools.tools == (
        Tool("full", "d", parameters, strict=True),
        *(Tool(name, "", EMPTY, strict=False) for name in ("bare", "nulls", "empty", "untyped")),
    )


@pytest.mark.parametrize(
    ("tool", "code", "path"),
    [
        (5, "invalid_request", ""),
        ({}, "invalid_request", ".type"),
        ({"type": "retrieval"}, "invalid_request", ".type"),
        ({"type": []}, "invalid_request", ".type"),
        ({"type": "function"}, "invalid_request", ".function"),
        ({"type": "function", "function": []}, "invalid_request", ".function"),
        ({"type": "function", "function": {}}, "invalid_request", ".function.name"),
        (function(None), "invalid_request", ".function.name"),
        (function(5), "invalid_request", ".function.name"),
        (function("b", description=5), "invalid_request", ".function.description"),
        (function("b", strict="yes"), "invalid_request", ".function.strict"),
        (function("look"), "invalid_tool_schema", ".function.name"),
        (function("b", parameters="x"), "invalid_tool_schema", ".function.parameters"),
        (function("b", parameters=[]), "invalid_tool_schema", ".function.parameters"),
        (function("b", parameters=True), "invalid_tool_schema", ".function.parameters"),
        ({"type": "custom"}, "invalid_request", ".custom"),
        ({"type": "custom", "custom": {"name": "look"}}, "invalid_tool_schema", ".custom.name"),
        ({"type": "custom", "custom": {"name": "b", "format": "x"}}, "invalid_request", ".custom.format"),
    ],
)
def test_a_bad_definition_is_named_by_its_path(tool: Any, code: str, path: str) -> None:
    assert refusal(function("look"), tool) == (code, f"tools[1]{path}")


@pytest.mark.parametrize("name", ["a", "A_b-9", "mcp.server/tool", "ns:tool", "größe", "工具", "x" * 64, "f()", "0"])
def test_names_that_clients_use_are_accepted(name: str) -> None:
    assert list(read(function(name)).tools.by_name) == [name]


@pytest.mark.parametrize(
    "name", ["", " ", "a b", "a\n", "a\x00", "a\u2028b", "<a", "a>", '"a', "a'", "`a`", "{a", "a}"]
)
def test_names_that_would_break_the_markup_are_refused(name: str) -> None:
    assert refusal(function(name)) == ("invalid_tool_schema", "tools[0].function.name")


def test_what_a_face_says_of_a_tool_is_not_sent() -> None:
    chat = read({**function("a"), LOADED_FIELD: True}, function("b"))
    assert [tool.loaded for tool in chat.tools.tools] == [True, False]
    assert json.loads(bytes(chat.fields["tools"])) == [function("a"), function("b")]


def test_custom_tools_take_one_string() -> None:
    grammar = {"type": "grammar", "grammar": {"syntax": "regex", "definition": "[a-z]+"}}
    chat = read(
        function("plain"),
        {"type": "custom", "custom": {"name": "free", "description": "d"}},
        {"type": "custom", "custom": {"name": "bound", "format": grammar}},
    )
    assert chat.custom == {"free", "bound"}
    for name in chat.custom:
        parameters = chat.tools.by_name[name].parameters
        assert parameters["required"] == list(parameters["properties"]) == ["input"]
        assert parameters["properties"]["input"]["type"] == "string"
    assert chat.tools.by_name["free"].description == "d"
    bound = chat.tools.by_name["bound"].parameters["properties"]["input"]
    assert (bound["pattern"], "[a-z]+" in bound["description"]) == ("^([a-z]+)$", True)


# Limits


@pytest.mark.parametrize(
    ("limit", "value", "tool", "code", "param"),
    [
        ("max_tools", 1, None, "too_many_tools", "tools"),
        ("max_tool_name_length", 64, function("x" * 65), "limit_exceeded", "tools[1].function.name"),
        (
            "max_description_length",
            3,
            function("b", description="four"),
            "limit_exceeded",
            "tools[1].function.description",
        ),
        (
            "max_schema_depth",
            2,
            function("b", parameters={"type": "object", "properties": {"a": {"items": {"type": "string"}}}}),
            "limit_exceeded",
            "tools[1].function.parameters",
        ),
    ],
)
def test_limits_hold_at_their_value(limit: str, value: int, tool: Any, code: str, param: str) -> None:
    tool = tool or function("second")
    caught = error(function("first"), tool, options={limit: value})
    assert (caught.code, caught.param) == (code, param)
    assert str(value) in caught.message
    if code == "limit_exceeded":
        assert limit in caught.message
        assert tool["function"]["name"][:40] in caught.message
    assert len(read(function("first"), tool, options={limit: value + 1}).tools) == 2
    assert len(read(function("first"), tool, options={limit: None}).tools) == 2


def test_levels_are_those_of_nested_values() -> None:
    parameters = {
        "type": "object",
        "properties": {"a": {"anyOf": [{"allOf": [{"type": "array", "items": {"$ref": "#"}}]}, {"type": "null"}]}},
    }
    read(function(parameters=parameters), options={"max_schema_depth": 3})
    assert refusal(function(parameters=parameters), options={"max_schema_depth": 2})[0] == "limit_exceeded"


def test_the_same_bytes_are_read_once_and_limits_still_hold() -> None:
    tool = function("remembered", description="0123456789")
    first, second = read(tool), read(tool)
    assert first.tools is second.tools
    assert refusal(tool, options={"max_description_length": 5})[0] == "limit_exceeded"
    assert read(tool).tools is first.tools


@pytest.mark.parametrize(("entries", "size"), [(1, 1 << 20), (100, 100)])
def test_what_is_remembered_is_bounded(entries: int, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tools_module, "_CACHE", LRUCache(max_entries=entries, max_size=size))
    first = read(function("first"))
    read(function("second"))
    assert read(function("first")).tools is not first.tools


# The deprecated functions


def test_functions_become_tools() -> None:
    functions = [{"name": "a", "description": "d", "parameters": {"type": "object"}}, {"name": "b"}]
    chat = read(functions=functions, function_call={"name": "b"})
    assert chat.tools.tools == (Tool("a", "d", {"type": "object"}), Tool("b"))
    assert chat.choice == ToolChoice(ChoiceMode.NAMED, "b", parallel=False)
    assert chat.legacy
    assert chat.tools_raw
    assert not read(functions=functions).choice.parallel  # such an answer has room for one call
    assert read(functions=functions, function_call="none").choice.mode is ChoiceMode.NONE


def test_bad_functions_are_named_by_their_path() -> None:
    assert refusal(functions=[{"name": "a"}, {"name": "a"}]) == ("invalid_tool_schema", "functions[1].name")
    assert refusal(functions=[{"name": "a", "parameters": 5}]) == ("invalid_tool_schema", "functions[0].parameters")
    assert refusal(functions=[{"name": "a"}], function_call={"name": "b"}) == ("invalid_tool_choice", "function_call")
    assert refusal(functions=[5]) == ("invalid_request", "functions[0]")
    assert refusal(functions={"a": 1}) == ("invalid_request", "functions")


def test_the_same_bytes_mean_other_tools_in_the_other_field() -> None:
    both = {"type": "function", "name": "outer", "function": {"name": "inner"}}
    tools, functions = read(both), read(functions=[both])
    assert list(tools.tools.by_name) == ["inner"]
    assert list(functions.tools.by_name) == ["outer"]
    assert tools.tools_raw != functions.tools_raw


def test_tools_win_over_functions() -> None:
    chat = read(A, functions=[{"name": "b"}])
    assert (list(chat.tools.by_name), chat.legacy) == (["a"], False)


SEARCH = {"type": "openrouter:web_search", "parameters": {"engine": "exa"}}


def test_a_providers_own_tool_is_kept_apart() -> None:
    chat = read(SEARCH, function("a"), {"type": "provider:code.run/2"}, function("b"))
    assert list(chat.tools.by_name) == ["a", "b"]
    assert chat.provider == {0: "openrouter:web_search", 2: "provider:code.run/2"}
    assert json.loads(bytes(chat.fields["tools"]))[0] == SEARCH
    alone = read(SEARCH)
    assert not alone.offers_tools


def test_allowed_tools_leave_a_providers_tools_out() -> None:
    chat = read(SEARCH, function("a"), function("b"), tool_choice={"type": "allowed_tools", "tools": [function("b")]})
    assert json.loads(bytes(chat.fields["tools"])) == [function("b")]


@pytest.mark.parametrize("kind", [":", "a:", ":b", "a b:c", "retrieval", "a:b\n"])
def test_a_type_without_a_provider_is_no_tool(kind: str) -> None:
    assert refusal({"type": kind}) == ("invalid_request", "tools[0].type")
