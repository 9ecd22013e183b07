from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_middleware.json_schema import types
from toolcall_middleware.json_schema.pointer import Scope
from toolcall_middleware.json_schema.types import ALL, STRING, TypeReader, types_of
from toolcall_middleware.parsing.values.typing import ArgumentTypes, argument_types

ROOT: dict[str, Any] = {
    "$defs": {
        "point": {"type": "object"},
        "loop": {"$ref": "#/$defs/loop"},
        "a/b~c": {"type": "boolean"},
        "items": {"type": ["integer", "null"]},
    }
}

SCHEMAS: list[tuple[Any, set[str]]] = [
    ({"type": "string"}, {"string"}),
    ({"type": "integer"}, {"number"}),
    ({"type": "number"}, {"number"}),
    ({"type": "boolean"}, {"boolean"}),
    ({"type": "null"}, {"null"}),
    ({"type": "array", "items": {"type": "string"}}, {"array"}),
    ({"type": "object"}, {"object"}),
    ({"type": ["string", "null"]}, {"string", "null"}),
    ({"type": "string", "nullable": True}, {"string", "null"}),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"number", "null"}),
    ({"oneOf": [{"type": "string"}, {"type": "object"}]}, {"string", "object"}),
    ({"allOf": [{"type": ["string", "number"]}, {"type": ["number", "null"]}]}, {"number"}),
    ({"allOf": [{"type": "string"}, {"type": "number"}]}, set(ALL)),  # nothing fits: then anything does
    ({"anyOf": [{"anyOf": [{"type": "array"}]}, {"const": 1.5}]}, {"array", "number"}),
    ({"enum": ["a", "b"]}, {"string"}),
    ({"enum": [1, "a", None, True, [], {}]}, set(ALL)),
    ({"enum": []}, set(ALL)),
    ({"const": None}, {"null"}),
    ({"const": False}, {"boolean"}),
    ({"properties": {"x": {}}}, {"object"}),
    ({"$ref": "#/$defs/point"}, {"object"}),
    ({"$ref": "#/$defs/a~1b~0c"}, {"boolean"}),
    ({"$ref": "#/$defs/items", "description": "x"}, {"number", "null"}),
    ({"$ref": "#/$defs/loop"}, set(ALL)),
    ({"$ref": "#/$defs/nothing"}, set(ALL)),
    ({"$ref": "https://example.com/schema"}, set(ALL)),
    ({"type": "date"}, set(ALL)),
    ({"type": 5}, set(ALL)),
    ({"anyOf": "x"}, set(ALL)),
    ({}, set(ALL)),
    (True, set(ALL)),
    (None, set(ALL)),
]


@pytest.mark.parametrize(("schema", "types"), SCHEMAS)
def test_the_types_that_a_schema_allows(schema: Any, types: set[str]) -> None:
    assert types_of(schema, Scope(ROOT)) == types


def test_the_types_of_a_parameter() -> None:
    tool = {
        "properties": {"x": {"type": "integer"}, "y": {}},
        "additionalProperties": {"type": "boolean"},
    }
    assert argument_types(tool, "x") == {"number"}
    assert argument_types(tool, "y") == ALL
    assert argument_types(tool, "other") == {"boolean"}
    assert argument_types({"additionalProperties": False}, "other") == ALL
    assert argument_types(None, "x") == ALL
    assert argument_types({"properties": ["x"]}, "x") == ALL
    outside = {"$ref": "#/$defs/t", "$defs": {"t": {"properties": {"x": STRING_SCHEMA}}}}
    assert argument_types(outside, "x") == STRING


STRING_SCHEMA = {"type": "string"}
TYPE: st.SearchStrategy[Any] = st.sampled_from(["string", "integer", "x", None, 5, ["null", "string"], [None], {}])
POINTER: st.SearchStrategy[Any] = st.sampled_from(["#", "#/", "#/properties/x", "#/anyOf/0", "x", "#/$defs/x", None, 5])
SCHEMA: st.SearchStrategy[Any] = st.recursive(
    st.sampled_from([None, True, {}, "x", {"type": "string"}]),
    lambda inner: st.fixed_dictionaries(
        {},
        optional={
            "type": TYPE, "anyOf": st.lists(inner, max_size=2), "allOf": inner, "oneOf": st.lists(inner, max_size=2), "enum": TYPE,
            "$ref": POINTER, "properties": st.fixed_dictionaries({"x": inner}), "additionalProperties": inner, "const": TYPE,
        },
    ),
    max_leaves=6,
)  # fmt: skip


@given(SCHEMA)
def test_no_schema_raises(schema: Any) -> None:
    assert types_of(schema, Scope(schema)) <= ALL
    if isinstance(schema, dict):
        assert argument_types(schema, "x") <= ALL
        assert argument_types(schema, "y") <= ALL


def test_alternatives_that_refer_to_each_other_are_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 times 64 times 64 ways lead down here."""
    read: list[int] = []
    own_types = types._own_types

    def counted(schema: Any) -> frozenset[str]:
        read.append(id(schema))
        return own_types(schema)

    monkeypatch.setattr(types, "_own_types", counted)
    defs: dict[str, Any] = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"} for _ in range(64)]} for n in range(3)}
    root = {"$defs": {**defs, "d3": {"type": "integer"}}, "properties": {"x": {"$ref": "#/$defs/d0"}}}
    assert types_of(root["properties"]["x"], Scope(root)) == {"number"}
    assert len(read) <= 64 * 3 + 5

    wide = {
        "anyOf": [
            {"anyOf": [{"anyOf": [{"const": i + j + k} for k in range(64)]} for j in range(64)]} for i in range(64)
        ]
    }
    read.clear()
    types_of(wide, Scope(wide))
    assert len(read) <= types._MAX_SCHEMAS


def test_many_keys_of_a_wide_schema_are_looked_up_in_bounded_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model chooses how many keys it writes, and the client what lies behind each."""
    layers: dict[str, Any] = {"0": {"type": "string"}}
    for level in range(1, 7):
        layers[str(level)] = {"anyOf": [{"$ref": f"#/$defs/{level - 1}", "title": str(i)} for i in range(60)]}
    tool = {
        "anyOf": [{"properties": {}, "additionalProperties": {"$ref": "#/$defs/6"}} for _ in range(60)],
        "$defs": layers,
    }
    read = 0
    real = TypeReader._types

    def counted(self: TypeReader, *given: Any) -> Any:
        nonlocal read
        read += 1
        return real(self, *given)

    monkeypatch.setattr(TypeReader, "_types", counted)
    types = ArgumentTypes(tool)
    assert {frozenset(types.of(f"key{i}")) for i in range(40)} <= {STRING, ALL}
    assert read <= 2048
