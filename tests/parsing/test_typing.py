"""Bare text becomes JSON of a declared type."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_middleware.json_schema.types import ALL, STRING
from toolcall_middleware.parsing.values.typing import is_json, json_of, literal, repaired_json

NUMBER, BOOLEAN, NULL = frozenset({"number"}), frozenset({"boolean"}), frozenset({"null"})
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
