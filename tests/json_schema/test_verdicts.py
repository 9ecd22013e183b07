"""Where our own keywords stand in for jsonschema's, the verdict is jsonschema's; and no admitted schema raises."""

from __future__ import annotations

import contextlib
import json
import re
from random import Random
from typing import Any

import jsonschema
import pytest
import regex
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.json_schema.pattern import translated
from toolcall_middleware.json_schema.validate_arguments import ArgumentChecker
from toolcall_middleware.model import Tool, ToolSet

from ..request.offers import schema as admitted
from .test_pointer import document

NAMES = ["a", "b", "ab", "c"]
DRAFTS = {
    2020: ("https://json-schema.org/draft/2020-12/schema", jsonschema.Draft202012Validator),
    2019: ("https://json-schema.org/draft/2019-09/schema", jsonschema.Draft201909Validator),
    7: ("http://json-schema.org/draft-07/schema#", jsonschema.Draft7Validator),
    4: ("http://json-schema.org/draft-04/schema#", jsonschema.Draft4Validator),
}


def value(rng: Random, depth: int = 0) -> Any:
    """A small JSON value."""
    kind = rng.randint(0, 7 if depth < 3 else 5)
    if kind == 6:
        return [value(rng, depth + 1) for _ in range(rng.randint(0, 3))]
    if kind == 7:
        return {name: value(rng, depth + 1) for name in rng.sample(NAMES, rng.randint(0, 3))}
    return [None, True, rng.randint(-1, 3), rng.choice([0.5, 1.0, 2.5]), rng.choice(["", "a", "ab", "b"]), {}][kind]


def checked(rng: Random, draft: int, depth: int = 0) -> Any:
    """A schema of the keywords that have a check of ours, and of those around them."""
    if depth > 3 or rng.random() < 0.1:
        return {} if draft == 4 else rng.choice([True, False, {}])

    def inner() -> Any:
        return checked(rng, draft, depth + 1)

    made: dict[str, Any] = {}
    makers: dict[str, Any] = {
        "$ref": lambda: rng.choice(["#/$defs/x", "#/$defs/y"]),
        "properties": lambda: {name: inner() for name in rng.sample(NAMES, 2)},
        "patternProperties": lambda: {rng.choice(["^a", "b$", "."]): inner()},
        "additionalProperties": lambda: rng.choice([False, True, inner()]),
        "unevaluatedProperties": lambda: rng.choice([False, False, True, inner()]),
        "unevaluatedItems": lambda: rng.choice([False, False, True, inner()]),
        "items": inner,
        "contains": inner,
        "allOf": lambda: [inner() for _ in range(rng.randint(1, 2))],
        "anyOf": lambda: [inner() for _ in range(rng.randint(1, 2))],
        "oneOf": lambda: [inner() for _ in range(rng.randint(1, 2))],
        "not": inner,
        "if": inner,
        "then": inner,
        "else": inner,
        "dependentSchemas": lambda: {rng.choice(NAMES): inner()},
        "enum": lambda: [value(rng) for _ in range(rng.randint(1, 3))],
        "const": lambda: value(rng),
        "uniqueItems": lambda: rng.choice([True, False]),
        "pattern": lambda: rng.choice(["^a", "b$", "^(a|b)+$"]),
        "type": lambda: rng.choice(["object", "array", "string", "number"]),
        "required": lambda: [rng.choice(NAMES)],
        "multipleOf": lambda: rng.choice([1, 2, 0.5]),
    }
    if draft == 2020:
        makers["prefixItems"] = lambda: [inner() for _ in range(rng.randint(1, 2))]
    else:
        makers["items"] = lambda: rng.choice([inner(), [inner(), inner()]])
        makers["additionalItems"] = lambda: {} if draft == 4 else rng.choice([False, inner()])
    if draft < 2020:  # for 2019, jsonschema reads `additionalProperties: {}` as an object without names here
        del makers["unevaluatedProperties"]
    if draft < 2019:
        del makers["unevaluatedItems"], makers["dependentSchemas"]
    for keyword in rng.sample(sorted(makers), rng.randint(1, 4)):
        made[keyword] = makers[keyword]()
    return made


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.integers(0, 2**32), st.sampled_from(sorted(DRAFTS)))
def test_the_verdict_is_jsonschemas(seed: int, draft: int) -> None:
    rng = Random(seed)
    address, validator = DRAFTS[draft]
    root = checked(rng, draft)
    if not isinstance(root, dict):
        root = {"not": root}
    root = {"$schema": address, **root, "$defs": {"x": checked(rng, draft, 3), "y": checked(rng, draft, 2)}}
    # What refers to what refers … has no end.
    text = json.dumps(root["$defs"])
    root["$defs"] = json.loads(text.replace('"#/$defs/y"', '"#/$defs/x"').replace('"$ref": "#/$defs/x"', '"title": ""'))
    checker = ArgumentChecker(ToolSet.of([Tool("f", parameters=root)]))
    for _ in range(6):
        arguments = {name: value(rng) for name in rng.sample(NAMES, rng.randint(0, 4))}
        ours = checker.faults("f", json.dumps(arguments)) == []
        with contextlib.suppress(TypeError):  # jsonschema's, for `additionalItems` beside `items: true`
            assert validator(root).is_valid(arguments) == ours, (root, arguments)


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_no_admitted_schema_raises(seed: int) -> None:
    rng = Random(seed)
    parameters = document(seed)
    with contextlib.suppress(ToolCallError):  # the reason is another test's
        admitted({**parameters, "type": "object"})
        _check_some(parameters, rng)


def _check_some(parameters: dict[str, Any], rng: Random) -> None:
    checker = ArgumentChecker(ToolSet.of([Tool("f", parameters={**parameters, "type": "object"})]))
    for _ in range(4):
        found = checker.faults("f", json.dumps({name: value(rng) for name in ["Id", "a/b", "é", "", "items"]}))
        assert not any("leads nowhere" in fault for fault in found)


def test_items_that_are_not_listed() -> None:
    address, _ = DRAFTS[7]
    for items, rule, fits in (
        (True, False, True),
        ({}, False, True),
        ([{}], False, False),
        ([{}], {"type": "string"}, False),
        ([{}], {"type": "integer"}, True),
    ):
        inner: dict[str, Any] = {"items": items, "additionalItems": rule}
        parameters = {"$schema": address, "type": "object", "properties": {"a": inner}}
        checker = ArgumentChecker(ToolSet.of([Tool("f", parameters=admitted(parameters))]))
        assert (checker.faults("f", '{"a": [1, 2]}') == []) == fits


@pytest.mark.parametrize(
    ("number", "factor", "fits"),
    [
        ("19.99", 0.01, True), ("0.3", 0.1, True), ("0.35", 0.1, False), ("1" + "0" * 400, 0.1, True), ("1" * 400, 1e300, False),
        ("7", 2, False), ("8", 2, True), ("1e308", 1e-300, True), ("0", 0.1, True), ("-0.3", 0.1, True), ("2.5", 2, False),
    ],
)  # fmt: skip
def test_multiples_are_those_of_the_numbers_as_written(number: str, factor: float, fits: bool) -> None:
    parameters = {"type": "object", "properties": {"a": {"multipleOf": factor}}}
    checker = ArgumentChecker(ToolSet.of([Tool("f", parameters=parameters)]))
    assert (checker.faults("f", f'{{"a": {number}}}') == []) == fits


PIECES = ["a", "b", "-", "é", ".", "\\w", "\\d", "\\s", "\\b", "[ab]", "[^a]", "[a-c\\d]", "[\\w.]", "(a|b)", "(?:ab)", "(?=a)",
          "(?!b)", "a*", "b+?", "a{2}", "(?:a|b){1,2}", "^", "$", "|", "\\.", "\\/", "\\x61", "\\u0062", "{", "}", "[-a]", "[a\\]]", "1", " "]  # fmt: skip


@pytest.mark.slow
@settings(max_examples=500, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=8).map("".join), st.text(alphabet="ab1 .-]{}/", max_size=8))
def test_a_translated_pattern_finds_what_the_pattern_finds(pattern: str, text: str) -> None:
    try:
        expected = re.search(pattern, text, re.ASCII) is not None
    except re.error:
        return
    ours = translated(pattern)
    assert ours is not None
    assert (regex.compile(ours.text, cache_pattern=False).search(text) is not None) == expected, ours


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^a$", "a\n", False),
        (r"^\d$", "٣", False),
        (r"^[\d]$", "٣", False),
        (r"^\w$", "é", False),
        (r"^\p{L}$", "é", True),
        (r"^\u{1F600}$", "😀", True),
        ("^[😀-🙏]$", "😁", True),
        ("[]", "]", False),
        ("^[^]$", "x", True),
        (r"^[\w-.]+$", "a-.", True),
        (r"(?<y>\d)-\k<y>", "1-1", True),
        (r"(\d)\1", "12", False),
        (r"\cJ", "\n", True),
        (r"a{e}", "b", False),
        (r"^[\b]$", "\b", True),
        (r"^[[]$", "[", True),
        (r"^\/$", "/", True),
        ("^(?i:A)$", "a", True),
    ],
)
def test_patterns_mean_what_they_mean_in_javascript(pattern: str, text: str, found: bool) -> None:
    ours = translated(pattern)
    assert ours is not None
    assert (regex.search(ours.text, text) is not None) is found
