"""Values get the types that a tool's schema asks for, whole and in a stream; what fits is left as it was written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcall_middleware.parsing.values.typing import Coercion

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "days": {"type": "integer"},
        "share": {"type": "number"},
        "flag": {"type": "boolean"},
        "none": {"type": ["integer", "null"]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "counts": {"type": "array", "items": {"type": "integer"}},
        "place": {"$ref": "#/$defs/Place"},
        "maybe": {"anyOf": [{"$ref": "#/$defs/Place"}, {"type": "null"}]},
        "text": {"type": "string"},
        "either": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        "several": {"anyOf": [{"type": "boolean"}, {"type": "integer"}, {"type": "array"}]},
        "level": {"enum": [1, 2, 3]},
        "free": {},
        "mode": {"type": "string", "enum": ["edit", "create"]},
        "fixed": {"const": "a"},
        "nullable_mode": {"anyOf": [{"enum": ["edit", "create"]}, {"type": "null"}]},
        "quotes": {"enum": ["edit", '"edit"']},
        "mode_or_text": {"anyOf": [{"enum": ["edit"]}, {"type": "string"}]},
    },
    "additionalProperties": {"type": "boolean"},
    "$defs": {"Place": {"type": "object", "properties": {"lat": {"type": "number"}, "name": {"type": "string"}}}},
}


def through(text: str, schema: dict[str, Any] = SCHEMA) -> tuple[str, Coercion]:
    made = Coercion(schema)
    return made.feed(text) + made.finish(), made


def of(name: str, value: Any) -> Any:
    out, made = through(json.dumps({name: value}))
    read = json.loads(out)[name]
    assert made.coerced == (read != value or type(read) is not type(value))
    assert made.path == (name if made.coerced else "")
    return read


@pytest.mark.parametrize(
    ("name", "value", "wanted"),
    [
        ("days", "2", 2),
        ("days", " -2 ", -2),
        ("share", "2.5", 2.5),
        ("share", "1e3", 1000.0),
        ("flag", "true", True),
        ("none", "null", None),
        ("none", "None", None),
        ("none", "7", 7),
        ("tags", '["a", "b"]', ["a", "b"]),
        ("counts", '["1", 2]', [1, 2]),
        ("counts", "['1', 2]", [1, 2]),
        ("tags", "['a', 'b']", ["a", "b"]),
        ("tags", r"""['it\'s', "a'b", '\n']""", ["it's", "a'b", "\n"]),
        ("tags", "['a',]", ["a"]),
        ("place", "{'lat': '1.5', 'name': 'x'}", {"lat": 1.5, "name": "x"}),
        ("several", "[True, None]", [True, None]),
        ("counts", ["1", 2], [1, 2]),
        ("place", '{"lat": "1.5", "name": "7"}', {"lat": 1.5, "name": "7"}),
        ("maybe", '{"lat": 1}', {"lat": 1}),
        ("maybe", {"lat": "1"}, {"lat": 1}),
        ("maybe", "null", None),
        ("several", "true", True),
        ("several", "5", 5),
        ("several", "[1]", [1]),
        ("level", "2", 2),
        ("extra", "true", True),
        ("tags", "['it's', 'b']", ["it's", "b"]),
        ("mode", ' "edit" ', "edit"),
        ("mode", r'"\"edit\""', "edit"),
        ("fixed", '"a"', "a"),
        ("nullable_mode", '"edit"', "edit"),
        ("nullable_mode", "null", None),
    ],
)
def test_a_string_that_stands_for_the_type_that_is_asked_for_becomes_it(name: str, value: Any, wanted: Any) -> None:
    made = json.dumps({name: value})
    out = json.loads(through(made)[0])[name]
    assert (out, type(out)) == (wanted, type(wanted))
    assert through(made)[1].coerced
    assert through(made)[1].path.partition(".")[0].partition("[")[0] == name


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("text", "2"),
        ("text", "null"),
        ("mode", "edit"),
        ("mode", "other"),
        ("quotes", '"edit"'),
        ("mode_or_text", '"edit"'),
        ("either", "2"),
        ("free", "2"),
        ("days", "two"),
        ("days", "2.5"),
        ("days", "[1]"),
        ("days", "true"),
        ("flag", "1"),
        ("tags", "a, b"),
        ("tags", '["a"'),
        ("tags", "['a'"),
        ("tags", "['a'] and more"),
        ("tags", "{'a', 'b'}"),
        ("place", "{'a', 'b'}"),
        ("place", "{'lat': 1.5, 'name'}"),
        ("tags", '{"a": 1}'),
        ("days", 2),
        ("tags", ["1"]),
        ("share", 5),
        ("text", 5),
    ],
)
def test_what_fits_or_has_no_such_reading_is_left(name: str, value: Any) -> None:
    assert of(name, value) == value


def test_what_needs_no_change_stays_to_the_byte() -> None:
    text = '{ "text" : "a\\u00e9\\"b", "days":2 ,"tags":[ "x" , "1"], "free": {"days": "3"} }'
    assert through(text)[0] == text


def test_only_a_value_that_may_change_is_held_and_only_to_its_end() -> None:
    made = Coercion(SCHEMA)
    assert made.feed('{"text": "so') == '{"text": "so'
    assert made.feed(' on", "days": "1') == ' on", "days": '
    assert made.feed('2"') == "12"
    assert made.feed(', "flag": tr') == ', "flag": tr'
    assert made.feed('ue, "tags": ["a') == 'ue, "tags": ["a'


def test_a_text_that_breaks_off_in_a_held_value_ends_with_what_was_written() -> None:
    assert through('{"days": "1')[0] == '{"days": "1'
    assert through('{"days": "1\\')[0] == '{"days": "1\\'


def test_a_value_of_which_nothing_is_known_passes_and_what_stands_behind_it_is_read() -> None:
    value = '{"days": "3", "a": [["1", "]"], {"}": "\\"{"}], "b": "\\\\"}'
    text = '{"free": ' + value + ', "days": "2"}'
    assert through(text)[0] == '{"free": ' + value + ', "days": 2}'
    one = Coercion(SCHEMA)
    assert "".join(one.feed(char) for char in text) + one.finish() == through(text)[0]


@pytest.mark.parametrize(
    "schema",
    [
        {"anyOf": [{"type": "object", "properties": {"n": {"type": "integer"}}}, {"type": "string"}]},
        {"type": ["object", "string"], "additionalProperties": {"type": "integer"}},
        {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "string"}]},
    ],
)
def test_inside_of_what_may_be_a_string_too_values_get_their_types(schema: dict[str, Any]) -> None:
    schema = {
        "properties": {"a": schema},
        "$defs": {"N": {"type": "object", "properties": {"n": {"type": "integer"}}}},
    }
    assert through('{"a": {"n": "1"}}', schema)[0] == '{"a": {"n": 1}}'
    assert through('{"a": "1"}', schema)[0] == '{"a": "1"}'
    items = {"properties": {"a": {"type": ["array", "string"], "items": {"type": "integer"}}}}
    assert through('{"a": ["1"]}', items)[0] == '{"a": [1]}'


# What a schema says beside its properties, as `required` in alternatives, can only admit less.
BESIDE: list[dict[str, Any]] = [
    {"anyOf": [{"required": ["n"]}, {"required": ["other"]}]},
    {"oneOf": [{"required": ["n"]}, {"not": {"required": ["n"]}}]},
    {"allOf": [{"if": {"required": ["n"]}, "then": {"required": ["other"]}}]},
    {"patternProperties": {"^x-": {"type": "string"}}},
    {"$ref": "#/$defs/more", "$defs": {"more": {"required": ["n"]}}},
]


@pytest.mark.parametrize("beside", BESIDE, ids=[next(iter(beside)) for beside in BESIDE])
def test_what_a_schema_says_beside_its_properties_does_not_hide_them(beside: dict[str, Any]) -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}}, **beside}
    assert through('{"n": "1"}', schema)[0] == '{"n": 1}'
    # It may say something of another key.
    open_ended = {**schema, "additionalProperties": {"type": "integer"}}
    assert through('{"n": "1", "x-a": "2"}', open_ended)[0] == '{"n": 1, "x-a": "2"}'


def test_schemas_that_refer_to_themselves_and_deep_values_are_bounded() -> None:
    tree = {"type": "object", "properties": {"next": {"$ref": "#"}, "n": {"type": "integer"}}}
    deep = '{"next": ' * 60 + '{"n": "1"}' + "}" * 60
    assert json.loads(through(deep, tree)[0])
    assert through('{"next": ' * 5000 + '{"n": "1"', tree)[0].endswith('{"n": "1"')
    loop = {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}
    assert through('{"a": "1"}', loop)[0] == '{"a": "1"}'


def test_alternatives_of_alternatives_are_read_a_bounded_number_of_times() -> None:
    """16 times 16 … ways lead to a schema that admits nothing, so none of them counts as found."""
    reads: list[str] = []

    class Counted(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            reads.append(key)
            return super().get(key, default)

    nested = Counted(anyOf=[])
    for _ in range(6):
        nested = Counted(anyOf=[nested] * 16)
    steps = {f"d{n}": Counted(oneOf=[Counted({"$ref": f"#/$defs/d{n + 1}"})] * 64) for n in range(3)}
    referring = Counted({"$ref": "#/$defs/d0", "$defs": {**steps, "d3": Counted(anyOf=[])}})
    for schema in (nested, referring, {"properties": {"n": nested}}, {"properties": {"n": {"allOf": [nested]}}}):
        assert through('{"n": {"m": "1"}}', schema)[0] == '{"n": {"m": "1"}}'
    assert 1000 < len(reads) < 60_000


VALUES = st.recursive(
    st.one_of(
        st.integers(-99, 99),
        st.booleans(),
        st.none(),
        st.sampled_from(["1", "2.5", "true", "null", '["1"]', '{"lat": "1"}', 'a\\"b', "é\n", '"', "[", "\\"]),
        st.text(max_size=6),
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from([*SCHEMA["properties"], "x"]), inner, max_size=4)
    ),
    max_leaves=8,
)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from([*SCHEMA["properties"], "x"]), VALUES, max_size=5), st.booleans())
@settings(max_examples=50, deadline=None)
def test_every_cut_gives_the_same_and_what_came_out_stays(arguments: dict[str, Any], ascii_only: bool) -> None:
    text = json.dumps(arguments, ensure_ascii=ascii_only)
    whole, made = through(text)
    json.loads(whole)
    for cut in range(len(text) + 1):
        two = Coercion(SCHEMA)
        assert two.feed(text[:cut]) + two.feed(text[cut:]) + two.finish() == whole
        assert (two.coerced, two.path) == (made.coerced, made.path)
    one = Coercion(SCHEMA)
    assert "".join(one.feed(char) for char in text) + one.finish() == whole
    assert through(whole)[0] == whole
