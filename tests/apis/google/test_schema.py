"""Tools' schemas for Google: each one that is sent has documented keywords alone and all properties, or is refused."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from tests.helpers.google_fake import check_json_schema
from toolcall_middleware.apis.google.schema import Allowance, parameters_of, response_schema_of
from toolcall_middleware.errors import ToolCallError

PARAM = "tools[3].function.parameters"


def written(schema: Any) -> dict[str, Any]:
    """What the declaration says of the parameters; the official types read it."""
    made = parameters_of(schema, "t", PARAM, Allowance())
    json.dumps(made, allow_nan=False)
    if made:
        assert made.keys() == {"parametersJsonSchema"}
        check_json_schema(made["parametersJsonSchema"], top=True)
    types.FunctionDeclaration.model_validate({"name": "t", **made})
    return made


def one(schema: Any) -> Any:
    """The schema of a single property."""
    return written({"type": "object", "properties": {"x": schema}})["parametersJsonSchema"]["properties"]["x"]


def refused(schema: Any) -> ToolCallError:
    with pytest.raises(ToolCallError) as caught:
        written(schema)
    error = caught.value
    assert (error.code, error.status, error.type) == ("tool_schema_incompatible", 400, "semantic_error")
    assert "'t'" in error.message
    assert error.extra["tool"] == "t"
    assert error.extra["incompatible_features"]
    assert str(error.param).startswith(PARAM)
    return error


BESIDE_A_CHOICE: dict[str, Any] = {
    "type": "object", "description": "either", "properties": {"a": {"type": "string"}, "b": {"type": "string"}},
    "anyOf": [{"type": "object", "description": "one"}, {"type": "object", "description": "the other"}],
}  # fmt: skip


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ({"type": "string"}, {"type": "string"}),
        ({"type": ["string", "null"]}, {"type": ["string", "null"]}),
        ({"type": "string", "nullable": True}, {"type": ["string", "null"]}),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        ({"oneOf": [{"type": "null"}, False, {"type": "boolean"}]}, {"anyOf": [{"type": "null"}, {"type": "boolean"}]}),
        ({"type": "null"}, {"type": "null"}),
        ({"const": "a"}, {"type": "string", "enum": ["a"]}),
        ({"const": 5}, {"type": "integer", "enum": [5]}),
        ({"const": 1.5}, {"type": "number", "enum": [1.5]}),
        ({"const": True}, {"type": "boolean", "description": "(only true)"}),
        ({"enum": [False], "description": "Off"}, {"type": "boolean", "description": "Off (only false)"}),
        ({"enum": [True, False]}, {"type": "boolean"}),
        ({"enum": [True, None]},
         {"anyOf": [{"type": "boolean"}, {"type": "null"}], "description": "(only true, null)"}),
        ({"enum": [2, 3, 1]}, {"type": "integer", "enum": [2, 3, 1]}),
        ({"enum": [1, 2, 3], "const": 2}, {"type": "integer", "enum": [2]}),
        ({"type": "number", "enum": [1, 2.5]},
         {"anyOf": [{"type": "integer", "enum": [1]}, {"type": "number", "enum": [2.5]}]}),
        ({"enum": ["a", None]}, {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "null"}]}),
        ({"enum": ["", "a"]}, {"type": "string", "description": '(only "", "a")'}),
        ({"const": "", "pattern": "^$"}, {"type": "string", "description": '(pattern: "^$", only "")'}),
        ({"type": "string", "enum": ["a", 1]}, {"type": "string", "enum": ["a"]}),
        (
            {"oneOf": [{"const": "a"}, {"const": "b"}]},
            {"anyOf": [{"type": "string", "enum": ["a"]}, {"type": "string", "enum": ["b"]}]},
        ),
        ({"type": "integer", "minimum": 3}, {"type": "integer", "minimum": 3}),
        (
            {"type": "integer", "minimum": 0, "exclusiveMinimum": True},
            {"type": "integer", "minimum": 0, "description": "(exclusiveMinimum: true)"},
        ),
        (
            {"type": "number", "exclusiveMinimum": 0, "description": "Size"},
            {"type": "number", "description": "Size (exclusiveMinimum: 0)"},
        ),
        ({"type": "number", "multipleOf": 0.5}, {"type": "number", "description": "(multipleOf: 0.5)"}),
        ({"type": "string", "format": "date-time"}, {"type": "string", "format": "date-time"}),
        ({"type": "string", "format": "uri"}, {"type": "string", "description": '(format: "uri")'}),
        ({"type": "integer", "format": "int64"}, {"type": "integer", "format": "int64"}),
        (
            {"type": "string", "pattern": "^a+$", "minLength": 1, "maxLength": 9, "default": "a", "title": "A"},
            {
                "type": "string", "title": "A",
                "description": '(pattern: "^a+$", minLength: 1, maxLength: 9, default: "a")',
            },
        ),
        (
            {"type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2, "uniqueItems": True},
            {
                "type": "array", "items": {"type": "string"}, "minItems": 1, "maxItems": 2,
                "description": "(uniqueItems: true)",
            },
        ),
        (
            {"type": ["string", "integer", "null"], "minimum": 3, "description": "A size"},
            {"type": ["string", "integer", "null"], "minimum": 3, "description": "A size"},
        ),
        ({"properties": {"y": {"type": "string"}}}, {"properties": {"y": {"type": "string"}}}),
        (
            {"type": "object", "additionalProperties": {"type": "object", "properties": {"z": {"type": "integer"}}}},
            {"type": "object", "additionalProperties": {"type": "object", "properties": {"z": {"type": "integer"}}}},
        ),
        (
            {"type": "object", "patternProperties": {"^(.*)$": {"type": "string"}}},
            {"type": "object", "additionalProperties": {"type": "string"}},
        ),
        ({"type": "object"}, {"type": "object"}),
        ({"type": "object", "additionalProperties": True}, {"type": "object", "additionalProperties": True}),
        ({"enum": [1, 5]}, {"type": "integer", "enum": [1, 5]}),
        (
            {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}], "items": False},
            {"type": "array", "prefixItems": [{"type": "string"}, {"type": "number"}], "maxItems": 2},
        ),
        (
            {"type": "array", "items": [{"type": "string"}], "additionalItems": {"type": ["null", "integer"]}},
            {"type": "array", "prefixItems": [{"type": "string"}], "items": {"type": ["null", "integer"]}},
        ),
        (
            {"allOf": [{"type": "array", "prefixItems": [{"type": "string"}]},
                       {"type": "array", "maxItems": 2, "prefixItems": [{"enum": ["a"]}, {"type": "number"}]}]},
            {"type": "array", "maxItems": 2, "prefixItems": [{"type": "string"}]},
        ),
        (
            {"type": "string", "pattern": "^a$", "maxLength": 3, "format": "uri", "description": "Name"},
            {"type": "string", "description": 'Name (format: "uri", pattern: "^a$", maxLength: 3)'},
        ),
        (BESIDE_A_CHOICE, BESIDE_A_CHOICE),
        ({"type": "array"}, {"type": "array"}),
        ({}, {}),
        ({"description": "anything", "default": 3}, {"description": "anything (default: 3)"}),
    ],
)  # fmt: skip
def test_a_schema_in_googles_keywords(schema: Any, expected: Any) -> None:
    assert one(schema) == expected


def test_references_are_put_in_place_with_what_stands_beside_them() -> None:
    schema = {
        "type": "object",
        "properties": {
            "a": {"$ref": "#/$defs/A", "description": "mine"},
            "b": {"type": "array", "items": {"$ref": "#/definitions/x~1y%20z"}},
        },
        "$defs": {"A": {"type": "object", "properties": {"k": {"$ref": "#/$defs/K"}}, "description": "theirs"},
                  "K": {"type": "integer"}},
        "definitions": {"x/y z": {"type": "boolean"}},
    }  # fmt: skip
    made = written(schema)["parametersJsonSchema"]["properties"]
    assert made["a"] == {"type": "object", "properties": {"k": {"type": "integer"}}, "description": "mine"}
    assert made["b"] == {"type": "array", "items": {"type": "boolean"}}


def test_all_of_is_one_schema_with_every_property() -> None:
    made = written(
        {
            "type": "object",
            "properties": {
                "x": {
                    "allOf": [
                        {"$ref": "#/$defs/Base"},
                        {"properties": {"b": {"type": "integer", "minimum": 2}}, "required": ["b"]},
                        {"properties": {"b": {"maximum": 9}}},
                    ]
                }
            },
            "$defs": {
                "Base": {
                    "type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"],
                    "additionalProperties": False,
                }
            },
        }
    )["parametersJsonSchema"]["properties"]["x"]  # fmt: skip
    assert made == {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"type": "integer", "minimum": 2, "maximum": 9}},
        "required": ["a", "b"],
    }


@pytest.mark.parametrize(
    "schema", [{}, {"type": "object"}, {"type": "object", "properties": {}}, {"properties": {}, "required": []}]
)
def test_a_tool_that_takes_nothing_has_no_parameters(schema: Any) -> None:
    assert written(schema) == {}


def test_a_choice_at_the_top_stays_an_object() -> None:
    made = written(
        {"type": "object", "oneOf": [{"properties": {"a": {"const": "x"}}}, {"properties": {"b": {"type": "string"}}}]}
    )["parametersJsonSchema"]
    assert made["type"] == "object"
    assert [branch["properties"].keys() for branch in made["anyOf"]] == [{"a"}, {"b"}]


@pytest.mark.parametrize(
    ("schema", "features", "path"),
    [
        ({"properties": {"n": {"$ref": "#"}}}, ["recursive $ref"], ".properties.n.properties.n.$ref"),
        (
            {"properties": {"a": {"$ref": "#/$defs/A"}},
             "$defs": {"A": {"type": "object", "properties": {"b": {"$ref": "#/$defs/B"}}},
                       "B": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/A"}]}}},
            ["recursive $ref"], None,
        ),
        ({"properties": {"n": {"$ref": "https://example.com/s.json"}}}, ["$ref out of the document"], None),
        ({"properties": {"n": {"$ref": "#/$defs/none"}}}, ["$ref without a target"], ".properties.n.$ref"),
        ({"properties": {"n": {"$ref": "#anchor"}}}, ["$ref without a target"], None),
        ({"properties": {"n": {"not": {"type": "string"}}}}, ["not"], ".properties.n.not"),
        ({"if": {}, "then": {"required": ["a"]}}, ["if", "then"], ".if"),
        ({"properties": {"n": {"patternProperties": {"^x-": {}}}}}, ["patternProperties"], None),
        ({"properties": {"n": {"const": {"a": 1}}}}, ["enum of arrays or objects"], ".properties.n.enum"),
        ({"dependentRequired": {"a": ["b"]}}, ["dependentRequired"], ".dependentRequired"),
        ({"properties": {"n": False}, "required": ["n"]}, ["schema that nothing fits"], ".properties.n"),
        ({"properties": {"n": {"type": "string", "enum": [1]}}}, ["schema that nothing fits"], ".properties.n"),
        ({"properties": {"n": {"items": [False]}}}, ["schema that nothing fits"], ".properties.n.prefixItems[0]"),
        ({"properties": {"n": {"$dynamicRef": "#m"}}}, ["$dynamicRef"], None),
        ({"properties": {"a": {"not": {}}, "n": {"contains": {"type": "string"}}}}, ["not", "contains"], None),
    ],
)  # fmt: skip
def test_what_cannot_be_expressed_is_refused_by_name(schema: Any, features: list[str], path: str | None) -> None:
    error = refused({"type": "object", **schema})
    assert error.extra["incompatible_features"] == features
    assert path is None or error.param == PARAM + path


def test_a_schema_that_may_not_be_there_is_not_offered() -> None:
    made = written({"type": "object", "properties": {"n": False, "m": {"type": "string"}}})
    assert made["parametersJsonSchema"]["properties"] == {"m": {"type": "string"}}


def test_a_schema_that_explodes_is_refused_quickly() -> None:
    def level(number: int) -> dict[str, Any]:
        inner = {"$ref": f"#/$defs/d{number + 1}"}
        return {"type": "object", "properties": {"x": inner, "y": inner}}

    definitions = {f"d{number}": level(number) for number in range(40)} | {"d40": {"type": "string"}}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}
    begun = time.process_time()
    assert refused(schema).extra["incompatible_features"] == ["size"]
    assert time.process_time() - begun < 2


def _referred(definition: dict[str, Any], times: int = 3000) -> dict[str, Any]:
    reference = {"$ref": "#/$defs/e"}
    return {"$defs": {"e": definition}, "properties": {f"p{number}": reference for number in range(times)}}


_NAMES = [str(number) for number in range(3000)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "schema",
    [
        pytest.param(
            {**_referred({"enum": _NAMES}), "properties": {"x": {"allOf": [{"$ref": "#/$defs/e"}] * 3000}}},
            id="merged lists",
        ),
        pytest.param(
            {"properties": {"x": {"allOf": [{"properties": {name: {}}} for name in _NAMES]}}}, id="merged properties"
        ),
        pytest.param(_referred({"type": "string", "description": "x" * 100_000}), id="text"),
        pytest.param(_referred({"type": "object", "properties": {"x" * 100_000: {"type": "string"}}}), id="names"),
        pytest.param(_referred({"enum": _NAMES}), id="lists"),
        pytest.param(
            _referred({"type": "object", "properties": {"x": {"type": "string"}}, "required": _NAMES}), id="required"
        ),
    ],
)
def test_a_schema_that_grows_by_its_references_is_refused_quickly(schema: dict[str, Any]) -> None:
    begun = time.process_time()
    assert refused({"type": "object", **schema}).extra["incompatible_features"] == ["size"]
    assert time.process_time() - begun < 2


def test_a_large_default_is_not_repeated() -> None:
    made = written({"type": "object", **_referred({"type": "string", "default": list(range(9000))}, times=300)})
    assert "default" not in json.dumps(made)


def test_a_schema_that_is_too_deep_is_refused() -> None:
    definitions: dict[str, Any] = {
        f"d{number}": {"type": "object", "properties": {"x": {"$ref": f"#/$defs/d{number + 1}"}}}
        for number in range(2000)
    }
    definitions["d2000"] = {"type": "string"}
    schema = {"type": "object", "properties": {"x": {"$ref": "#/$defs/d0"}}, "$defs": definitions}
    assert refused(schema).extra["incompatible_features"] == ["size"]


def test_all_tools_of_a_request_share_one_allowance() -> None:
    allowance = Allowance(25)
    schema = {"type": "object", "properties": {f"p{number}": {"type": "string"} for number in range(10)}}
    parameters_of(schema, "a", PARAM, allowance)
    parameters_of(schema, "b", PARAM, allowance)
    with pytest.raises(ToolCallError, match="too large"):
        parameters_of(schema, "c", PARAM, allowance)


def test_a_response_format_has_the_same_forms() -> None:
    made = response_schema_of({"type": "object", "properties": {"a": {"type": "string"}}}, "p", Allowance())
    assert made == {"responseJsonSchema": {"type": "object", "properties": {"a": {"type": "string"}}}}
    made = response_schema_of({"type": "object"}, "p", Allowance())
    assert made == {"responseJsonSchema": {"type": "object"}}


# -- any schema ----------------------------------------------------------------------------------------------------

_TEXTS = st.text("ab ", max_size=3)
_LEAVES: st.SearchStrategy[Any] = st.one_of(
    st.just({"type": "string"}),
    st.builds(lambda low: {"type": "integer", "exclusiveMinimum": low}, st.integers(-3, 3)),
    st.builds(lambda low, high: {"type": "number", "minimum": low, "maximum": low + high},
              st.integers(-3, 3), st.integers(0, 4)),
    st.just({"type": "boolean"}),
    st.just({"type": ["string", "null"], "maxLength": 2}),
    st.builds(lambda values: {"enum": values},
              st.lists(st.sampled_from(["a", "b", 1, 2, 7, None, True]), min_size=1, max_size=4)),
    st.builds(lambda value: {"const": value}, st.sampled_from(["x", 3, False, None])),
    st.just({"$ref": "#/$defs/D"}),
)  # fmt: skip


def _around(inner: st.SearchStrategy[Any], *, merged: bool = True) -> st.SearchStrategy[Any]:
    names = st.sampled_from(["p", "q", "r"])
    objects = st.builds(
        lambda properties, required, extra: {
            "type": "object",
            "properties": properties,
            "required": [name for name in properties if name in required],
            **extra,
        },
        st.dictionaries(names, inner, min_size=1, max_size=3),
        st.sets(names),
        st.sampled_from([{}, {"additionalProperties": False}]),
    )
    return st.one_of(
        objects,
        st.builds(lambda items: {"type": "array", "items": items}, inner),
        st.builds(lambda values: {"type": "object", "additionalProperties": values}, inner),
        st.builds(lambda one, two: {"anyOf": [one, two]}, inner, inner),
        *([st.builds(lambda one, two: {"allOf": [one, two]}, objects, objects)] if merged else ()),
    )


_SCHEMAS = st.recursive(_LEAVES, _around, max_leaves=6)
_VALUES = st.recursive(
    st.sampled_from([None, True, False, "", "a", "b", "x", "aaa", 0, 1, 2, 3, 7, -4, 1.5]),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["p", "q", "r"]), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@given(_SCHEMAS, _SCHEMAS, _VALUES)
@settings(max_examples=80)
def test_a_value_that_fits_the_clients_schema_fits_what_is_sent(schema: Any, definition: Any, value: Any) -> None:
    """Nothing is narrowed, and what is sent keeps Google's rules."""
    root = {"type": "object", "properties": {"x": schema}, "required": ["x"], "$defs": {"D": definition}}
    try:
        made = written(root)
    except ToolCallError as error:
        assert error.code == "tool_schema_incompatible"  # noqa: PT017 - one of two good ends
        return
    sent = made["parametersJsonSchema"]
    if Draft202012Validator(root).is_valid({"x": value}):
        assert Draft202012Validator(sent).is_valid({"x": value}), (sent, value)


@pytest.mark.slow
@given(st.recursive(_LEAVES, lambda inner: _around(inner, merged=False), max_leaves=6))
@settings(max_examples=60)
def test_no_property_is_lost(schema: Any) -> None:
    root = {"type": "object", "properties": {"x": schema}, "$defs": {"D": {"type": "string"}}}
    try:
        made = written(root)
    except ToolCallError:
        return
    assert _names(root["properties"]) <= _names(made)


def _names(value: Any) -> set[str]:
    if isinstance(value, list):
        return set().union(*map(_names, value))
    if not isinstance(value, dict):
        return set()
    own = set(value["properties"]) if isinstance(value.get("properties"), dict) else set()
    return own.union(*map(_names, value.values()))
