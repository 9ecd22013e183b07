"""A custom tool's grammar as a pattern of JSON Schema: the same texts, or no pattern at all."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_middleware.json_schema.grammars.plain_regex import json_safe
from toolcall_middleware.json_schema.grammars.text import text_pattern, with_grammar
from toolcall_middleware.json_schema.pattern import matcher
from toolcall_middleware.model import Tool

TEXTS = ("", "a", "ab", "abab", "abx", "ab-12", "a\nb", "a.b", 'a"b', "a\\b", "-", "z9", "é", "a b", "a\rb", "aa$")


@pytest.mark.parametrize(
    "definition",
    [
        "[a-z]+-[0-9]{2}", "^ab$", "^a", "b$", "(?:ab|cd)*?x?", "a.b", "a[^x]b", r"[\w.-]+", "[a-z-]", "[-a]+", "[^-]",
        r"a\$", r"aa\$$", r"\\", r"a\\b", 'a"b', "(a|b){1,4}", "a{2,}", r"[ -~]*", "é+", r"a\sb", r"\w+\d", "[a&]b?",
    ],
)  # fmt: skip
def test_the_pattern_matches_the_whole_texts_that_the_grammar_matches(definition: str) -> None:
    pattern = text_pattern(definition, "regex")
    assert pattern is not None
    for text in TEXTS:
        expected = re.fullmatch(definition, text, re.ASCII) is not None
        assert (matcher(pattern).search(text) is not None) == expected, text


@pytest.mark.parametrize(
    "definition",
    [
        "", "(?i)a", r"\p{L}", r"a\b", "^a|b$", "(?P<n>a)", "(?<n>a)", "(?=a)", "[a&&b]", "[a--b]", "[[:alpha:]]",
        r"[a-\d]", "[z-a]", "a{3,1}", "(a", "a)", "**", "a**", r"\Aa\z", r"\x41", "a]", "(" * 60 + ")" * 60,
        "a" * 5000, "(a{1000}){1000}", "[]a]",
    ],
)  # fmt: skip
def test_what_is_not_certain_is_no_pattern(definition: str) -> None:
    assert text_pattern(definition, "regex") is None


@pytest.mark.parametrize("definition", ["[a-z]+-[0-9]{2}", r"\w+", "é", "(yes|no)", "[ !#-.]", r"a\.b/"])
def test_what_json_need_not_escape_is_safe(definition: str) -> None:
    assert json_safe(text_pattern(definition, "regex") or "")


@pytest.mark.parametrize(
    "definition", ["a.b", "[^x]", 'say "x"', r"\\", r"a\nb", r"\s", r"[ -~]", "a\tb", "[\\]-_]x.", r"[A-z]"]
)
def test_what_json_has_to_escape_is_not_safe(definition: str) -> None:
    assert not json_safe(text_pattern(definition, "regex") or "")


@given(definition=st.text('ab\\.[]-^$(){}|*+?1"n &', max_size=12), text=st.text('ab-.^"\\n1& ', max_size=5))
def test_any_pattern_says_what_the_grammar_says(definition: str, text: str) -> None:
    pattern = text_pattern(definition, "regex")
    if pattern is None:
        return
    matches = matcher(pattern).search(text) is not None
    assert matches == (re.fullmatch(definition, text, re.ASCII) is not None)
    if matches and json_safe(pattern):
        assert json.dumps(text, ensure_ascii=False) == f'"{text}"'


PATCH = """
// Lines of a few shapes, as in the grammars of patches.
start: head file+ "# end" LF?
head: "# begin" LF
file: "# add " name LF added+ -> add
    | "# drop " name LF
name: /(.+)/
?added.2: ("+" | " ") /(.*)/ LF
%import common.LF
"""


@pytest.mark.parametrize(
    ("text", "fits"),
    [
        ("# begin\n# add a b\n+x\n \n# drop c\n# end", True),
        ("# begin\n# drop c\n# end\n", True),
        ("# begin\n# end", False),
        ("# begin\n# add a\nx\n# end", False),
        ("# begin\n# drop c\n# end\nmore", False),
        ("x# begin\n# drop c\n# end", False),
    ],
)
def test_a_grammar_of_lines_is_one_pattern(text: str, fits: bool) -> None:
    pattern = text_pattern(PATCH, "lark")
    assert pattern is not None
    assert (matcher(pattern).search(text) is not None) == fits
    assert not json_safe(pattern)


@pytest.mark.parametrize(
    ("grammar", "fitting", "other"),
    [
        ('start: NUM ("+" NUM)~0..2\nNUM: /[0-9]+/', "1+22+3", "1+2+3+4"),
        ('start: [sign] INT\nsign: "+" | "-"\n%import common.INT', "-12", "--1"),
        ('start: "a" b*\nb: ("x" | "y\\"") // two', 'axy"', "ab"),
        ('start: "[a]." "*"?', "[a].", "a."),
        ("start: /a\\/b|c/ D\n%import common.DIGIT -> D", "a/b1", "cc"),
        ('start: "ab"+', "abab", "abb"),
    ],
)
def test_a_grammar_says_the_same_as_a_pattern(grammar: str, fitting: str, other: str) -> None:
    found = matcher(text_pattern(grammar, "lark") or "never")
    assert found.search(fitting)
    assert not found.search(other)


@pytest.mark.parametrize(
    "grammar",
    [
        "", "start: a", 'begin: "a"', 'start: expr\nexpr: "1" | "(" expr ")"', 'start: "a"\n%ignore " "', 'start: "a"i',
        "start: /a/i", "start: _x{a}", 'start: ("a"', 'start: "a")', 'start: ("a"]', 'start: "a"~3..1', 'start: "a"**',
        'start: "a"\nstart: "b"', "start: ESCAPED\n%import common.ESCAPED_STRING -> ESCAPED", "start: /(?=a)/",
        'start: "\\x41"', "start: " + '"abcdefgh" ' * 1000, 'start: "a" .. "z"',
        "\n".join(["start: r0", *(f"r{n}: r{n + 1} r{n + 1}" for n in range(40)), 'r40: "a"']),
    ],
)  # fmt: skip
def test_what_is_no_pattern_stays_a_description(grammar: str) -> None:
    assert text_pattern(grammar, "lark") is None


def test_the_grammar_stands_in_the_parameters_where_they_are_used() -> None:
    parameters = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    assert with_grammar(Tool("t", "", parameters)) is parameters
    assert with_grammar(Tool("t", "", parameters, grammar="^(a)$"))["properties"] == {
        "input": {"type": "string", "pattern": "^(a)$"}
    }
    odds: list[dict[str, Any]] = [{}, {"properties": []}, {"properties": {"input": 1}}]
    for odd in odds:
        assert with_grammar(Tool("t", "", odd, grammar="^(a)$")) is odd


def test_time_for_a_hostile_grammar_is_linear() -> None:
    begun = time.process_time()
    chain = "\n".join(["start: r0", *(f"r{n}: r{n + 1}" for n in range(190)), 'r190: "a"'])
    for hostile in (chain, "start: " + "(" * 4000, "start: " + "[" * 4000, 'start: "' + "\\" * 4000, "a: b\n" * 800):
        assert text_pattern(hostile, "lark") is None
    assert time.process_time() - begun < 2


def test_time_is_linear() -> None:
    begun = time.process_time()
    for hostile in ("(" * 4000, "[" * 4000, "a{1,2}" * 680, "\\" * 4000, "[" + "-a" * 2000 + "]", "|" * 4000):
        text_pattern(hostile, "regex")
    assert time.process_time() - begun < 2
