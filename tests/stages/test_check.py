"""Arguments against the tool's schema: the same verdict with and without jsonschema-rs, and bounded in time."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_middleware.model import Tool, ToolSet
from toolcall_middleware.stages import check
from toolcall_middleware.stages.check import ArgumentChecker, checker_for

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


@pytest.fixture(params=["jsonschema", "jsonschema-rs"])
def checker(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ArgumentChecker:
    if request.param == "jsonschema":
        monkeypatch.setattr(check, "_quick", lambda _schema: None)
    else:
        pytest.importorskip("jsonschema_rs")
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


@given(
    st.dictionaries(
        st.sampled_from(["city", "days", "unit", "tags", "node", "x"]),
        st.recursive(
            st.none()
            | st.booleans()
            | st.integers(-3, 3)
            | st.floats(allow_nan=False, allow_infinity=False)
            | st.text(),
            lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["name", "next"]), inner),
            max_leaves=5,
        ),
    )
)
def test_the_verdict_is_jsonschemas(arguments: dict[str, Any]) -> None:
    checker = ArgumentChecker(ToolSet.of([Tool("f", parameters=SCHEMA)]))
    expected = jsonschema.Draft202012Validator(SCHEMA).is_valid(arguments)
    assert (checker.faults("f", json.dumps(arguments)) == []) == expected


def test_an_evil_pattern_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "_quick", lambda _schema: None)
    evil = {"type": "object", "properties": {"a": {"type": "string", "pattern": r"^(\w+\s?)*\1$"}}}
    faults = ArgumentChecker(ToolSet.of([Tool("f", parameters=evil)])).faults(
        "f", json.dumps({"a": "ab " * 4000 + "!"})
    )
    assert len(faults) == 1


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
