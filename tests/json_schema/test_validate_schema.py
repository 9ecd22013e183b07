"""Which schemas are accepted, and that none of them can hurt."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator, SchemaError
from jsonschema.validators import validator_for

from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.request.parse import read_request
from toolcall_middleware.settings import Settings

from ..request.offers import fault, function, read, schema


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object"},
        {"properties": {"a": {}}},
        {"description": "no type at all"},
        {"type": ["object", "null"]},
        {"anyOf": [{"type": "object"}]},
        {"type": "object", "properties": {"$ref": {"type": "string"}, "pattern": {"enum": ["("]}, "type": {}}},
        {"type": "object", "x-vendor": {"type": "strin"}, "default": {"$ref": "http://x/"}, "const": {"pattern": "("}},
        {"$schema": "http://json-schema.org/draft-07/schema#", "type": "object", "properties": {"a": {"items": [{}]}}},
        {"$schema": "http://json-schema.org/draft-07/schema", "type": "object", "dependencies": {"a": ["b"], "c": {}}},
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "type": "object",
            "properties": {"a": {"minimum": 0, "exclusiveMinimum": True}},
        },
        {"$schema": "https://json-schema.org/draft/2019-09/schema", "type": "object", "$recursiveAnchor": True},
        {"$schema": "https://example.com/unknown", "type": "object"},
        {"$schema": "http://[", "type": "object"},
        {"type": "object", "items": {"$ref": "#/$defs/N"}, "$defs": {"N": {"items": {"$ref": "#/$defs/N"}}}},
        {"type": "object", "properties": {"a": {"$ref": "#"}}},
        {"type": "object", "properties": {"a/b~c": {}, "d": {"$ref": "#/properties/a~1b~0c"}}},
        {"type": "object", "properties": {"a b": {}, "d": {"$ref": "#/properties/a%20b"}}},
        {"type": "object", "properties": {"a": {"prefixItems": [True]}, "d": {"$ref": "#/properties/a/prefixItems/0"}}},
        {"type": "object", "properties": {"a": {"$anchor": "here"}, "b": {"$ref": "#here"}}},
        {"type": "object", "$id": "https://x.y/s", "items": {"$ref": "https://x.y/s#/$defs/A"}, "$defs": {"A": {}}},
        {"type": "object", "properties": {"a": {"$ref": "inner"}}, "$defs": {"I": {"$id": "inner"}}},
        {"type": "object", "components": {"A": {"type": "string"}}, "properties": {"a": {"$ref": "#/components/A"}}},
        {"type": "object", "properties": {"a": {"exclusiveMinimum": 0, "maximum": 2**53, "multipleOf": 0.1}}},
        {"$schema": "http://json-schema.org/draft-07/schema", "type": "object", "prefixItems": [5], "$defs": {"A": 5}},
        {"type": "object", "patternProperties": {"^x-": {}}, "propertyNames": {"pattern": "^[a-z]+$"}},
    ],
)  # fmt: skip
def test_schemas_of_objects_are_accepted_unchanged(parameters: dict[str, Any]) -> None:
    assert schema(parameters) == parameters


@pytest.mark.parametrize(
    ("parameters", "says"),
    [
        ({"type": "string"}, 'type: "object"'),
        ({"type": None}, 'type: "object"'),
        ({"type": ["string", "null"]}, 'type: "object"'),
        ({"items": {}}, 'type: "object"'),
        ({"enum": ["a"]}, 'type: "object"'),
        ({"type": "object", "properties": {"a": {"type": "strin"}}}, "('properties', 'a', 'type'), 'strin'"),
        ({"type": "object", "properties": {"a": {"type": ["string", "strin"]}}}, "['string', 'strin']"),
        ({"type": "object", "properties": {"a": {"type": ["string", "string"]}}}, "'type'"),
        ({"type": "object", "properties": {"a": {"type": []}}}, "'type'"),
        ({"type": "object", "properties": {"a": 5}}, "('properties', 'a'), 5"),
        ({"type": "object", "properties": []}, "('properties',), []"),
        ({"type": "object", "required": True}, "('required',), True"),
        ({"type": "object", "required": ["a", 1]}, "1 is not of type 'string'"),
        ({"type": "object", "required": ["a", "a"]}, "'required'"),
        ({"type": "object", "properties": {"a": {"minLength": -1}}}, "-1"),
        ({"type": "object", "properties": {"a": {"minLength": 0.5}}}, "0.5"),
        ({"type": "object", "properties": {"a": {"enum": "x"}}}, "'enum'"),
        ({"type": "object", "properties": {"a": {"anyOf": []}}}, "'anyOf'"),
        ({"type": "object", "properties": {"a": {"items": [{}]}}}, "'items'"),
        ({"type": "object", "properties": {"a": {"description": 5}}}, "'description'), 5"),
        ({"type": "object", "properties": {"a": {"minimum": 0, "exclusiveMinimum": True}}}, "exclusiveMinimum"),
        ({"type": "object", "dependentRequired": {"a": ["b", "b"]}}, "dependentRequired"),
        ({"type": "object", "dependentRequired": {"a": "b"}}, "dependentRequired"),
        ({"type": "object", "properties": {"a": {"$anchor": "not one"}}}, "$anchor"),
        ({"type": "object", "$id": "x#y"}, "$id"),
        ({"type": "object", "properties": {"a": {"pattern": "("}}}, "'(' is not a 'regex'"),
        ({"type": "object", "patternProperties": {"[a": {}}}, "'[a' is not a 'regex'"),
        ({"type": "object", "properties": {"a": {"pattern": 5}}}, "5 is not of type 'string'"),
        ({"$schema": "http://json-schema.org/draft-04/schema#", "type": "object", "required": []}, "'required'"),
        ({"$schema": 5, "type": "object"}, "$schema"),
    ],
)  # fmt: skip
def test_broken_schemas_are_refused_with_the_place(parameters: dict[str, Any], says: str) -> None:
    assert says in fault(parameters)


@pytest.mark.parametrize("reference", ["http://169.254.169.254/latest", "other.json"])
def test_references_never_leave_the_document(reference: str) -> None:
    parameters = {"type": "object", "properties": {"a": {"$ref": reference}}}
    assert "nothing is fetched" in fault(parameters)
    assert "nothing is fetched" in fault({**parameters, "$id": "http://x/y"})


def test_what_is_no_address_is_refused() -> None:
    assert "is no address" in fault({"type": "object", "$id": "http://["})
    assert "nothing is fetched" in fault({"type": "object", "properties": {"a": {"$ref": "http://["}}})


@pytest.mark.parametrize("reference", ["#/$defs/missing", "#/properties/a/type", "#/required/0"])
def test_references_to_nothing_are_refused(reference: str) -> None:
    parameters = {
        "type": "object",
        "properties": {"a": {"type": "string"}, "b": {"$ref": reference}},
        "required": ["a"],
    }
    assert "refers to nothing" in fault(parameters)


def test_what_a_reference_leads_to_is_checked_too() -> None:
    parameters = {
        "type": "object",
        "components": {"A": {"type": "strin"}},
        "properties": {"a": {"$ref": "#/components/A"}},
    }
    assert "strin" in fault(parameters)
    assert "string" in fault({"type": "object", "properties": {"a": {"$ref": 5}}})


@pytest.mark.parametrize(
    "parameters",
    [
        {"$ref": "#"},
        {"type": "object", "properties": {"a": {"$ref": "#/properties/a"}}},
        {"type": "object", "anyOf": [{"$ref": "#"}]},
        {"type": "object", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"allOf": [{"not": {"$ref": "#/$defs/A"}}]}}},
    ],
)
def test_references_that_never_end_are_refused(parameters: dict[str, Any]) -> None:
    assert "cannot be checked" in fault(parameters)


@pytest.mark.parametrize(
    "pattern",
    [
        r"^(?!__.*__$)[^\p{Cc}\p{Cf}\"\\./[\]]{1,200}$",
        r"^[\w-.]+@[.-\w]+$",
        r"(?<year>\d{4})-\k<year>",
        r"(?<=a+)b(?<!c*)",
        r"\u{1F600}[\u4e00-\u9fff]\cJ\/\-",
        r"^(?i)abc(?i:d)$",
        r"(?<n>a)|(?<n>b)",
        "[αβγ😀-🙏]",
        r"[[a-z]&&[b]]",
    ],
)
def test_patterns_of_javascript_are_accepted(pattern: str) -> None:
    schema({"type": "object", "properties": {"a": {"type": "string", "pattern": pattern}}})


@pytest.mark.parametrize(
    "pattern", ["(", "a)", "[", "a**", "a{2,1}", "(?<a", "*", "[z-a]", "\\", "x{99999999999999999999}"]
)
def test_what_is_no_pattern_anywhere_is_refused(pattern: str) -> None:
    assert "is not a 'regex'" in fault({"type": "object", "properties": {"a": {"pattern": pattern}}})


def wide(count: int, value: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {f"p{index}": value for index in range(count)}}


def deep(levels: int) -> dict[str, Any]:
    inner: dict[str, Any] = {}
    for _ in range(levels):
        inner = {"type": "object", "properties": {"a": inner}}
    return inner


@pytest.mark.slow
@pytest.mark.parametrize(
    "parameters",
    [
        wide(300_000, {"type": "string"}),
        wide(1_000_000, {}),
        {"type": "object", "properties": {"a": {"enum": list(range(1_000_000))}}},
        wide(21_000, True),
        deep(90),
        {"type": "object", "default": [[i] if i % 2 else i for i in range(15_000)]},
        wide(20, {"pattern": "[\x00-\uffff]" * 1000}),
        {"type": "object", "properties": {f"p{i}": {"pattern": f"(a+)+{i}" * 300} for i in range(40)}},
        {"type": "object", "properties": {"a": {"pattern": "(" * 2000 + ")" * 2000}}},
        {"type": "object", "$id": "x" * 5000},
    ],
    ids=["many", "million", "huge enum", "flat", "deep", "values", "classes", "patterns", "groups", "address"],
)
def test_what_costs_too_much_is_refused_quickly(parameters: dict[str, Any]) -> None:
    read(function())  # jsonschema is loaded
    body = json.dumps(
        {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": [function(parameters=parameters)]}
    ).encode()
    start = time.process_time()
    with pytest.raises(ToolCallError) as caught:
        read_request(body, Settings())
    assert time.process_time() - start < 1
    assert caught.value.code == "invalid_tool_schema"
    assert "check" in caught.value.message or "regex" in caught.value.message
    assert len(caught.value.body()) < 2000


@pytest.mark.parametrize(
    "parameters",
    [
        {"type": "object", "properties": {"a": {"enum": [[i] if i % 2 else i for i in range(6000)]}}},
        {"type": "object", "required": [f"r{i}" for i in range(15_000)]},
        {"$schema": "http://json-schema.org/draft-04/schema#", **wide(2000, {"enum": [{}, []]})},
        {"type": "object", "properties": {f"p{i}": {"minLength": i, "title": str(i)} for i in range(2800)}},
        {"type": "object", "properties": {"a": {"pattern": "(a+)+$", "description": "x" * 1_000_000}}},
        {"type": "object", "properties": {"a": {"pattern": "(?i)" + "[\x00-\uffff]" * 800}}},
        {"type": "object", "$defs": {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(4000)} | {"d4000": {}}},
    ],
    ids=["pairwise", "names", "draft4", "distinct", "evil", "classes", "chain"],
)
def test_what_is_merely_large_is_accepted_quickly(parameters: dict[str, Any]) -> None:
    read(function())
    start = time.process_time()
    schema(parameters)
    assert time.process_time() - start < 1


def test_a_million_tools_are_refused_quickly() -> None:
    tools = b",".join([b'{"type":"function","function":{"name":"f"}}'] * 200_000)
    start = time.process_time()
    with pytest.raises(ToolCallError) as caught:
        read_request(b'{"model":"m","messages":[{}],"tools":[%b]}' % tools, Settings())
    assert time.process_time() - start < 1
    assert caught.value.code in {"too_many_tools", "invalid_request"}


WORDS = """
type properties required items enum const minLength minimum multipleOf title default uniqueItems anyOf not if
additionalProperties prefixItems dependentRequired dependencies patternProperties examples readOnly format $comment
exclusiveMinimum minItems propertyNames
"""
KEYWORDS = st.sampled_from(sorted(WORDS.split()))
SCALARS = (
    st.none() | st.booleans() | st.integers(-2, 3) | st.sampled_from([0.5, -0.5, 2.0, "string", "object", "x", ""])
)
SCHEMAS = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYWORDS, inner, max_size=4),
    max_leaves=12,
)
DRAFTS = st.sampled_from(
    [None, "http://json-schema.org/draft-07/schema#", "http://json-schema.org/draft-06/schema#",
     "https://json-schema.org/draft/2019-09/schema"]
)  # fmt: skip


@pytest.mark.slow
@settings(max_examples=400, deadline=None)
@given(st.dictionaries(KEYWORDS.filter(lambda name: name != "type"), SCHEMAS, max_size=3), DRAFTS)
def test_the_verdict_is_that_of_the_metaschema(parameters: dict[str, Any], draft: str | None) -> None:
    parameters = {"type": "object", **parameters, **({"$schema": draft} if draft else {})}
    validator: Any = validator_for(parameters, default=Draft202012Validator)
    valid, refused = True, None
    try:
        validator.check_schema(parameters, format_checker=None)
    except SchemaError:
        valid = False
    try:
        schema(parameters)
    except ToolCallError as raised:
        refused = raised.code
    assert refused == (None if valid else "invalid_tool_schema")
