"""The schema that a backend's constrained decoding is given accepts exactly the calls that are valid: of an offered
name, with arguments that fit the tool's own schema, whose definitions and references have moved into one document.
"""

from __future__ import annotations

import functools
import json
import re
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.formats.family import Family
from toolcall_middleware.json_schema.compact import call_list_schema, calls_schema, either_schema
from toolcall_middleware.model import ChoiceMode, Tool, ToolCall, ToolChoice, ToolSet
from toolcall_middleware.parsing.events import CallStart

from ..parsing.streams import calls_in, read
from . import goldens

Schema = dict[str, Any]

# One kind of reference each: definitions of both spellings, into a definition, to a property, to the root, names that
# have to be escaped, one definition through another, and the same names in several tools with other meanings.
TREE: Schema = {
    "type": "object",
    "properties": {"value": {"$ref": "#/$defs/V"}, "left": {"$ref": "#"}, "right": {"$ref": "#"}},
    "required": ["value"],
    "additionalProperties": False,
    "$defs": {"V": {"type": "integer"}},
}
POINTERS: Schema = {
    "type": "object",
    "properties": {
        "a": {"$ref": "#/definitions/x~1y"},
        "b": {"$ref": "#/properties/c"},
        "c": {"type": "array", "items": {"$ref": "#/definitions/V"}, "maxItems": 2},
        "d": {"$ref": "#/definitions/deep/properties/inner"},
        "e": {"$ref": "#/definitions/50%25"},
    },
    "definitions": {
        "x/y": {"enum": ["x", "y"]},
        "V": {"type": "string"},
        "deep": {"type": "object", "properties": {"inner": {"anyOf": [{"$ref": "#/definitions/V"}, {"type": "null"}]}}},
        "50%": {"const": 50},
    },
}
CHAIN: Schema = {
    "type": "object",
    "properties": {"v": {"allOf": [{"$ref": "#/$defs/A"}]}},
    "$defs": {"A": {"$ref": "#/$defs/V"}, "V": {"type": "boolean"}},
    "required": ["v"],
}
DATA: Schema = {"type": "object", "properties": {"title": {"const": {"$ref": "#/$defs/nowhere", "title": "t"}}}}
SCHEMAS: list[Schema] = [TREE, POINTERS, CHAIN, DATA, {}, {"type": "object", "additionalProperties": False}]
NAMES = ["tree", "pointers", "chain", "data", "any", "none"]
TOOLS = [Tool(name, parameters=schema) for name, schema in zip(NAMES, SCHEMAS, strict=True)]

KEYS = ["value", "left", "right", "a", "b", "c", "d", "e", "v", "title"]
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 50) | st.sampled_from(["x", "y", "z"])
    | st.just({"$ref": "#/$defs/nowhere", "title": "t"}),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.sampled_from(KEYS), inner, max_size=3),
    max_leaves=6,
)  # fmt: skip
CALLS = st.fixed_dictionaries({"name": st.sampled_from([*NAMES, "other"]), "arguments": VALUES})


def fits(call: dict[str, Any], tools: list[Tool]) -> bool:
    """By the tool's own schema."""
    tool = next((tool for tool in tools if tool.name == call["name"]), None)
    return tool is not None and isinstance(call["arguments"], dict) and accepts(tool.parameters, call["arguments"])


def accepts(schema: Schema, value: Any) -> bool:
    return bool(_validator(json.dumps(schema)).is_valid(value))


@functools.lru_cache(maxsize=1000)
def _validator(schema: str) -> Any:
    loaded = json.loads(schema)
    jsonschema.Draft202012Validator.check_schema(loaded)
    return jsonschema.Draft202012Validator(loaded)


@pytest.mark.slow
@given(
    st.lists(CALLS, max_size=3),
    st.lists(st.sampled_from(TOOLS), min_size=1, unique_by=lambda tool: tool.name),
    st.booleans(),
)
def test_it_accepts_exactly_the_valid_calls(calls: list[dict[str, Any]], tools: list[Tool], parallel: bool) -> None:
    valid = bool(calls) and (parallel or len(calls) == 1) and all(fits(call, tools) for call in calls)
    assert accepts(calls_schema(tools, parallel=parallel), {"tool_calls": calls}) == valid
    assert accepts(call_list_schema(tools, parallel=parallel), calls) == valid
    assert not accepts(calls_schema(tools, parallel=parallel), {"tool_calls": calls, "more": 1})


@pytest.mark.parametrize(
    ("name", "arguments", "valid"),
    [
        ("tree", {"value": 1, "left": {"value": 2, "right": {"value": 3}}}, True),
        ("tree", {"value": 1, "left": {"value": "x"}}, False),
        ("pointers", {"a": "x", "b": ["s"], "c": [], "d": None, "e": 50}, True),
        ("pointers", {"b": ["s", "t", "u"]}, False),
        ("pointers", {"d": 3}, False),
        ("pointers", {"e": 51}, False),
        ("chain", {"v": True}, True),
        ("chain", {"v": 1}, False),
        ("data", {"title": {"$ref": "#/$defs/nowhere", "title": "t"}}, True),
        ("any", {"what": ["ever"]}, True),
        ("none", {}, True),
        ("none", {"x": 1}, False),
    ],
)
def test_references_mean_what_they_meant(name: str, arguments: Any, valid: bool) -> None:
    call = {"name": name, "arguments": arguments}
    assert fits(call, TOOLS) == valid
    assert accepts(calls_schema(TOOLS, parallel=True), {"tool_calls": [call]}) == valid


@pytest.mark.slow
@settings(max_examples=60)
@given(VALUES, CALLS)
def test_an_answer_of_the_clients_own_schema_or_calls(value: Any, call: dict[str, Any]) -> None:
    answer: Schema = {"type": "object", "properties": {"value": {"$ref": "#/$defs/V"}}, "required": ["value"],
                      "additionalProperties": False, "$defs": {"V": {"type": "boolean"}}}  # fmt: skip
    schema = either_schema(answer, TOOLS, parallel=False)
    assert accepts(schema, value) == jsonschema.Draft202012Validator(answer).is_valid(value)
    assert accepts(schema, {"tool_calls": [call]}) == fits(call, TOOLS)
    assert not accepts(schema, {"tool_calls": [call, call]})


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "#/$defs/missing"},
        {"$id": "https://example.com/y", "properties": {}},
        {"properties": {"a": {"$ref": "https://example.com/x"}}},
        {"properties": {"a": {"$ref": "file:///etc/passwd"}}},
        {"properties": {"a": {"$ref": "#/$defs/missing"}}},
        {"properties": {"a": {"$ref": "#anchor"}}},
        {"properties": {"a": {"$ref": 5}}},
        {"properties": {"a": {"$dynamicRef": "#x"}}},
        {"properties": {"a": {"$id": "https://example.com/", "$ref": "#"}}},
        {"properties": {"a": {"$anchor": "x", "type": "string"}, "b": {"$ref": "#x"}}},
    ],
    ids=str,
)
def test_what_cannot_be_moved_is_any_object(schema: Schema) -> None:
    made = calls_schema([Tool("f", parameters={"type": "object", **schema})], parallel=True)
    assert accepts(made, {"tool_calls": [{"name": "f", "arguments": {"a": 1}}]})
    assert not accepts(made, {"tool_calls": [{"name": "f", "arguments": [1]}]})
    assert not accepts(made, {"tool_calls": [{"name": "f", "arguments": "text"}]})
    assert not re.search(r"example\.com|\$ref", json.dumps(made))


JSON_ANSWERS = {"json", "llama3_json", "xlam"}


@pytest.mark.parametrize("name", goldens.formats())
def test_a_formats_tags_are_its_own_syntax(name: str) -> None:
    """What a model that is held to a tag writes is read as that call. Calls that are not JSON have tags only where
    xgrammar knows their style.
    """
    fmt = registry.get(name)
    made = fmt.constraint(TOOLS[:2], ToolChoice(ChoiceMode.REQUIRED))
    is_json = '{"x":  1.50}' in fmt.render_calls([ToolCall("f", '{"x":  1.50}', "call_1")])
    has_style = isinstance(fmt, Family) and fmt.calls.structural_tag is not None
    assert (made is not None) is ((is_json or has_style) and name != "action_json")
    assert bool(made is not None and made.tags) is (made is not None and name not in JSON_ANSWERS)
    if made is None or not made.tags:
        return
    arguments = [{"value": 1, "left": {"value": 2}}, {"a": "x", "e": 50}]
    assert len(made.tags) == 2
    for tag, tool, given_arguments in zip(made.tags, TOOLS, arguments, strict=False):
        assert tag.trigger
        assert tag.begin.startswith(tag.trigger)
        assert accepts(tag.schema, given_arguments)
        assert not accepts(tag.schema, {"value": "x", "a": 1})
        if tag.style:
            continue  # the arguments are no JSON: test_constraint_styles.py
        text = tag.begin + json.dumps(given_arguments) + tag.end
        for written in (text, f"Let me see.\n{text}", text + "\n" + text):
            events = read(fmt.parser(ToolSet.of(TOOLS), ParserOptions()), list(written))
            found = [(call.name, json.loads(call.arguments)) for call in calls_in(events) if call.complete]
            if written is text or any(isinstance(event, CallStart) for event in events):
                assert set(map(str, found)) == {str((tool.name, given_arguments))}
                assert len(found) >= (2 if written.count(tag.begin) == 2 else 1)
    named = fmt.constraint(TOOLS[:2], ToolChoice(ChoiceMode.NAMED, "pointers", parallel=False))
    assert named is not None
    assert [tag.begin for tag in named.tags] == [made.tags[1].begin]
