"""Arguments against the tool's schema: the verdict is jsonschema's, and bounded in time."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcall_middleware.json_schema.validate_arguments import ArgumentChecker, checker_for
from toolcall_middleware.model import Tool, ToolSet

NODE = {"type": "object", "properties": {"name": {"type": "string"}, "next": {"$ref": "#/$defs/Node"}}}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "pattern": "^[A-Z]"},
        "days": {"type": "integer", "minimum": 1},
        "unit": {"enum": ["c", "f"]},
        "node": {"$ref": "#/$defs/Node"},
        "tags": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    },
    "required": ["city"],
    "additionalProperties": False,
    "$defs": {"Node": NODE},
}


@pytest.fixture
def checker() -> ArgumentChecker:
    return ArgumentChecker(ToolSet.of([Tool("f", parameters=SCHEMA)]))


@pytest.mark.parametrize(
    ("arguments", "path"),
    [
        ({"city": "Paris"}, None),
        ({"city": "Paris", "days": 2, "unit": "c", "tags": ["a", "b"], "node": {"next": {"name": "x"}}}, None),
        ({}, "(root)"),
        ({"city": 3}, "city"),
        ({"city": "paris"}, "city"),
        ({"city": "Paris", "days": 0}, "days"),
        ({"city": "Paris", "unit": "k"}, "unit"),
        ({"city": "Paris", "node": {"next": {"name": 3}}}, "node.next.name"),
        ({"city": "Paris", "tags": ["a", 1]}, "tags[1]"),
        ({"city": "Paris", "tags": ["a", "a"]}, "tags"),
        ({"city": "Paris", "more": 1}, "(root)"),
    ],
)
def test_faults_are_named_with_their_place(checker: ArgumentChecker, arguments: Any, path: str | None) -> None:
    faults = checker.faults("f", json.dumps(arguments))
    assert [fault.partition(": ")[0] for fault in faults] == ([] if path is None else [path])


@pytest.mark.parametrize("arguments", ["", "{", "[1]", "3", '"x"', "{" * 100_000])
def test_what_is_no_object_is_a_fault(checker: ArgumentChecker, arguments: str) -> None:
    assert len(checker.faults("f", arguments)) == 1


def test_a_tool_that_is_not_offered_is_not_checked(checker: ArgumentChecker) -> None:
    assert checker.faults("other", "{") == []


ONE: dict[str, Any] = {"properties": {"a": {}}}


def deep(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"a": value}
    return value


def x(schema: dict[str, Any]) -> dict[str, Any]:
    return {"type": "object", "properties": {"x": schema}}


@pytest.mark.parametrize("frames", range(0, 60, 3))
def test_arguments_deeper_than_the_stack_are_a_fault_and_no_panic(frames: int) -> None:
    tree = {"type": "object", "additionalProperties": {"$ref": "#"}}
    made = ArgumentChecker(ToolSet.of([Tool("f", parameters=tree)]))
    text = json.dumps(deep(300))

    def below(levels: int) -> list[str]:
        """The faults, wherever the stack ends."""
        return made.faults("f", text) if levels == 0 else below(levels - 1)

    assert len(below(frames)) == 1


@pytest.mark.parametrize(
    ("dialect", "fits"),
    [("http://json-schema.org/draft-04/schema#", False), ("http://json-schema.org/draft-07/schema#", True)],
)
def test_a_whole_float_is_an_integer_since_draft_6(dialect: str, *, fits: bool) -> None:
    made = ArgumentChecker(ToolSet.of([Tool("f", parameters={"$schema": dialect, **x({"type": "integer"})})]))
    assert (made.faults("f", '{"x": 1.0}') == []) is fits
    assert made.faults("f", '{"x": 1}') == []
    assert len(made.faults("f", '{"x": true}')) == len(made.faults("f", '{"x": 1.5}')) == 1


@pytest.mark.parametrize(
    ("value", "fits", "other"),
    [
        (1, 1.0, True),
        (True, True, 1),
        (None, None, 0),
        ({"a": [1, 2]}, {"a": [1.0, 2]}, {"a": [2, 1]}),
        ("é", "é", "e"),
    ],
)
def test_values_are_equal_as_json_is(value: Any, fits: Any, other: Any) -> None:
    for rule in ({"const": value}, {"enum": ["-", value]}):
        made = ArgumentChecker(ToolSet.of([Tool("f", parameters=x(rule))]))
        assert made.faults("f", json.dumps({"x": fits})) == []
        assert len(made.faults("f", json.dumps({"x": other}))) == 1


@pytest.mark.parametrize(
    ("schema", "arguments", "valid"),
    [
        ({"patternProperties": {"^a": {"type": "integer"}}, "additionalProperties": False}, {"ab": 1}, True),
        ({"patternProperties": {"^a": {"type": "integer"}}, "additionalProperties": False}, {"b": 1}, False),
        ({"patternProperties": {"^a": {}}, "additionalProperties": {"type": "null"}}, {"a": 1, "b": None}, True),
        ({"patternProperties": {"^a": {}}, "additionalProperties": {"type": "null"}}, {"a": 1, "b": 2}, False),
        ({"properties": {"b": {}}, "additionalProperties": True}, {"a": 1}, True),
        ({"$defs": {"A": ONE}, "$ref": "#/$defs/A", "unevaluatedProperties": False}, {"a": 1}, True),
        ({"$defs": {"A": ONE}, "$ref": "#/$defs/A", "unevaluatedProperties": False}, {"b": 1}, False),
    ],
)
def test_properties_that_are_not_named(schema: Any, arguments: Any, valid: bool) -> None:
    made = ArgumentChecker(ToolSet.of([Tool("f", parameters={"type": "object", **schema})]))
    assert (made.faults("f", json.dumps(arguments)) == []) == valid


def test_more_values_than_can_be_checked_are_a_fault(checker: ArgumentChecker) -> None:
    faults = checker.faults("f", json.dumps({"city": "Paris", "tags": [str(number) for number in range(30_000)]}))
    assert "too large" in faults[0]


def test_nothing_is_fetched(checker: ArgumentChecker, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        pytest.fail("a reference was fetched")

    monkeypatch.setattr("urllib.request.urlopen", refuse)
    schema = {"$schema": "http://127.0.0.1:9/schema", "type": "object", "properties": {"a": {"type": "integer"}}}
    faults = ArgumentChecker(ToolSet.of([Tool("f", parameters=schema)])).faults("f", '{"a": "x"}')
    assert [fault.partition(": ")[0] for fault in faults] == ["a"]
    assert checker.faults("f", "{}")


def test_a_tool_list_keeps_its_checker() -> None:
    tools = ToolSet.of([Tool("f", parameters=SCHEMA)])
    assert checker_for(b"bytes", tools) is checker_for(b"bytes", ToolSet.of(list(tools.tools)))
    assert checker_for(b"other", tools) is not checker_for(b"bytes", tools)


def test_the_checker_of_an_enormous_list_of_tools_is_not_kept() -> None:
    tools = ToolSet.of([Tool("f", parameters=SCHEMA)])
    assert checker_for(b"x" * (1 << 20), tools) is not checker_for(b"x" * (1 << 20), tools)
