"""What a schema admits at a place, and the JSON that bare text becomes there."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_middleware.parsing.values import typing
from toolcall_middleware.parsing.values.typing import ALL, STRING, Places, is_json, json_of, literal, repaired_json

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
    ({"type": "integer"}, {"integer"}),
    ({"type": "number"}, {"number", "integer"}),
    ({"type": "boolean"}, {"boolean"}),
    ({"type": "null"}, {"null"}),
    ({"type": "array", "items": {"type": "string"}}, {"array"}),
    ({"type": "object"}, {"object"}),
    ({"type": ["string", "null"]}, {"string", "null"}),
    ({"type": "string", "nullable": True}, {"string", "null"}),
    ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"integer", "null"}),
    ({"oneOf": [{"type": "string"}, {"type": "object"}]}, {"string", "object"}),
    ({"allOf": [{"type": ["string", "integer"]}, {"type": ["number", "null"]}]}, {"integer"}),
    ({"allOf": [{"type": "string"}, {"type": "number"}]}, set(ALL)),  # nothing fits: then anything does
    ({"anyOf": [{"anyOf": [{"type": "array"}]}, {"const": 1.5}]}, {"array", "number", "integer"}),
    ({"enum": ["a", "b"]}, {"string"}),
    ({"enum": [1, "a", None, True, [], {}]}, set(ALL)),
    ({"enum": []}, set(ALL)),
    ({"const": None}, {"null"}),
    ({"const": False}, {"boolean"}),
    ({"properties": {"x": {}}}, {"object"}),
    ({"$ref": "#/$defs/point"}, {"object"}),
    ({"$ref": "#/$defs/a~1b~0c"}, {"boolean"}),
    ({"$ref": "#/$defs/items", "description": "x"}, {"integer", "null"}),
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
    assert Places({**ROOT, "properties": {"x": schema}}).argument("x") == types


PARAMETERS: list[tuple[dict[str, Any] | None, str, set[str]]] = [
    ({"properties": {"y": {}}, "additionalProperties": {"type": "boolean"}}, "y", set(ALL)),
    ({"properties": {"y": {}}, "additionalProperties": {"type": "boolean"}}, "other", {"boolean"}),
    ({"additionalProperties": False}, "other", set(ALL)),
    (None, "x", set(ALL)),
    ({"properties": ["x"]}, "x", set(ALL)),
    ({"$ref": "#/$defs/t", "$defs": {"t": {"properties": {"x": {"type": "string"}}}}}, "x", {"string"}),
]


@pytest.mark.parametrize(("parameters", "name", "types"), PARAMETERS)
def test_the_types_of_a_parameter(parameters: dict[str, Any] | None, name: str, types: set[str]) -> None:
    assert Places(parameters).argument(name) == types


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
    for parameters in ({"properties": {"x": schema}}, schema if isinstance(schema, dict) else {}):
        places = Places(parameters)
        assert places.argument("x") <= ALL
        assert places.argument("y") <= ALL


def test_schemas_that_refer_to_each_other_are_read_once_and_no_more_than_a_call_may_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """64 times 64 times 64 ways lead down, and a model writes any number of keys."""
    read: list[int] = []
    own_types = typing._own_types

    def counted(schema: Any) -> frozenset[str]:
        read.append(id(schema))
        return own_types(schema)

    monkeypatch.setattr(typing, "_own_types", counted)
    layers: dict[str, Any] = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"} for _ in range(64)]} for n in range(3)}
    root = {"$defs": {**layers, "d3": {"type": "integer"}}, "properties": {"x": {"$ref": "#/$defs/d0"}}}
    assert Places(root).argument("x") == {"integer"}
    assert len(read) <= 64 * 3 + 6

    def wide(levels: int) -> dict[str, Any]:
        return {"anyOf": [wide(levels - 1) for _ in range(64)]} if levels else {"const": 1}

    alternatives = {"properties": {}, "additionalProperties": {"$ref": "#/$defs/wide"}}
    tool = {"anyOf": [dict(alternatives) for _ in range(60)], "$defs": {"wide": wide(3)}}
    read.clear()
    places = Places(tool)
    assert all(places.argument(f"key{n}") == ALL for n in range(40))
    assert 1000 < len(read) <= 2048


NUMBER, BOOLEAN, NULL = frozenset({"number", "integer"}), frozenset({"boolean"}), frozenset({"null"})
ARRAY, OBJECT = frozenset({"array"}), frozenset({"object"})

# Text, declared types, JSON.
VALUES: list[tuple[str, frozenset[str], str]] = [
    ("5", STRING, '"5"'),
    ("null", STRING, '"null"'),
    (' {"a": 1} ', STRING, '" {\\"a\\": 1} "'),
    ("", STRING, '""'),
    ("5", NUMBER, "5"),
    (" -7 ", NUMBER, "-7"),
    ("2.50", NUMBER, "2.50"),
    ("1e400", NUMBER, "1e400"),
    ("+5", NUMBER, "5"),
    ("0x10", NUMBER, "16"),
    ("123456789012345678901234567890", NUMBER, "123456789012345678901234567890"),
    ('"5"', NUMBER, "5"),
    ("five", NUMBER, '"five"'),
    ("5 km", NUMBER, '"5 km"'),
    ("[5]", NUMBER, "[5]"),
    ("", NUMBER, '""'),
    ("True", BOOLEAN, "true"),
    ("FALSE", BOOLEAN, "false"),
    ("yes", BOOLEAN, '"yes"'),
    ("None", NULL, "null"),
    ("", NULL, "null"),
    ("[1, 2]", ARRAY, "[1, 2]"),
    ("['a', None]", ARRAY, '["a", null]'),
    ("[1, 2", ARRAY, '"[1, 2"'),
    ('"[1]"', ARRAY, "[1]"),
    ("a, b", ARRAY, '"a, b"'),
    ('{"a": {}}', OBJECT, '{"a": {}}'),
    ("{'a': True}", OBJECT, '{"a": true}'),
    ('{"a": 1', OBJECT, r'"{\"a\": 1"'),
    ("null", STRING | NULL, "null"),
    ("none", STRING | NULL, '"none"'),
    (" null ", STRING | NULL, "null"),
    ("5", STRING | NULL, '"5"'),
    ("null", NUMBER | NULL, "null"),
    ("", NUMBER | NULL, "null"),
    ("5", STRING | NUMBER, "5"),
    ("02139", STRING | NUMBER, '"02139"'),
    ("2 dollars", STRING | NUMBER, '"2 dollars"'),
    ('{"a": 1}', STRING | OBJECT, '{"a": 1}'),
    ("{a}", STRING | OBJECT, '"{a}"'),
    ("true", ALL, "true"),
    ("True", ALL, '"True"'),
    (' [1, {"a": null}] ', ALL, '[1, {"a": null}]'),
    ("text", ALL, '"text"'),
    ("NaN", ALL, '"NaN"'),
    ("", ALL, '""'),
    ("\ud83d", ALL, '"\ud83d"'),
]


@pytest.mark.parametrize(("text", "types", "made"), VALUES)
def test_text_becomes_a_declared_type(text: str, types: frozenset[str], made: str) -> None:
    assert json_of(text, types) == made


LITERALS: list[tuple[str, frozenset[str], str]] = [
    ("None", STRING, "null"),
    ("null", ALL, "null"),
    ("True", ALL, "true"),
    ("True", STRING, '"True"'),
    ("5", STRING, '"5"'),
    ("5", ALL, "5"),
    ("-1_000.5", ALL, "-1000.5"),
    ("5", STRING | NUMBER, "5"),
    ("5", ARRAY, "5"),
    ("word", ALL, '"word"'),
    ("a.b(c)", NUMBER, '"a.b(c)"'),
]


@pytest.mark.parametrize(("word", "types", "made"), LITERALS)
def test_an_unquoted_word_becomes_a_literal(word: str, types: frozenset[str], made: str) -> None:
    assert literal(word, types) == made


def test_deep_json_is_left_alone() -> None:
    deep = "[" * 100_000 + "]" * 100_000
    assert not is_json(deep)
    assert json_of(deep, ALL) == f'"{deep}"'
    assert repaired_json(deep) == deep


TYPES = st.frozensets(st.sampled_from(sorted(ALL)), min_size=1)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=10,
)
LOOSE = st.lists(st.sampled_from([*"{}[]\",:'\\ \n\t0159-+.eE", "null", "True", "a", "é", "🎉", "\x00"])).map("".join)


@given(st.text() | LOOSE, TYPES)
def test_any_text_becomes_json(text: str, types: frozenset[str]) -> None:
    json.loads(json_of(text, types))
    json.loads(literal(text.strip(), types))


@given(st.text() | LOOSE)
def test_a_declared_string_stays_the_text_it_is(text: str) -> None:
    assert json.loads(json_of(text, STRING)) == text


@given(JSON)
def test_json_of_its_own_type_comes_back(value: Any) -> None:
    kind = {type(None): "null", bool: "boolean", int: "number", float: "number", str: "", list: "array", dict: "object"}
    name = kind[type(value)]
    if not name:
        return
    text = json.dumps(value)
    for types in (frozenset({name}), frozenset({name, "null"}), ALL):
        made = json_of(text, types)
        assert json.loads(made) == value
        assert math.isfinite(len(made))
