"""A pattern that is said to match everywhere does; many literals are one pattern."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from toolcall_middleware.formats import markup
from toolcall_middleware.formats.family import all_openers
from toolcall_middleware.formats.syntax.slots import FUNCTIONS
from toolcall_middleware.parsing.patterns import WHITE_SPACE, Trie, anywhere, begun, half, half_at, half_of
from toolcall_middleware.parsing.text.grammar import Grammar, compile_grammar

WORDS = st.lists(st.text("ab<|", min_size=1, max_size=5), min_size=1, max_size=6)
TEXT = st.text("ab<|c", max_size=8)


def alternatives(patterns: Iterable[str]) -> str:
    return "|".join(patterns) or "(?!)"


@given(WORDS, TEXT)
def test_the_longest_word_that_stands_there_is_found(words: list[str], text: str) -> None:
    trie = Trie.of(words)
    found = re.match(alternatives([re.escape(char) + way.longest() for char, way in trie.ways.items()]), text)
    expected = max((word for word in words if text.startswith(word)), key=len, default=None)
    assert (found.group() if found else None) == expected


@given(WORDS, TEXT)
def test_beginnings_are_those_of_longer_words(words: list[str], text: str) -> None:
    found = re.fullmatch(alternatives(Trie.of(words).beginnings().values()), text)
    expected = bool(text) and any(word.startswith(text) and word != text for word in words)
    assert bool(found) == expected


@given(WORDS, TEXT, st.integers(0, 3))
def test_half_a_marker_is_found_at_the_end_of_the_text_only(words: list[str], text: str, begin: int) -> None:
    markers, begin = tuple(words), min(begin, len(text))
    halves = [
        at
        for at in range(begin, len(text))
        if any(len(word) > len(text) - at and word.startswith(text[at:]) for word in words)
    ]
    assert half_at(text, markers, begin) == min(halves, default=len(text))
    assert {at for at in range(begin, len(text)) if half(markers).match(text, at)} == set(halves)
    assert not half(markers).match(text, len(text))


def test_half_of_no_marker_is_nowhere_and_a_long_marker_is_no_error() -> None:
    assert half(()).match("") is None
    assert half_at("a" * 100, ("b" * 5000,)) == 100
    assert half_at("a" + "b" * 60, ("b" * 5000,)) == 1


def test_first_finds_every_marker_and_every_beginning_of_one() -> None:
    compiled = compile_grammar(Grammar(all_openers(), (("<think>", "</think>"),), ("<|user|>",), ("<x>",), ("</s>",)))
    markers = [opener.marker for opener in all_openers() if opener.marker and opener.where.value == 0]
    for marker in [*markers, "<think>", "</think>", "<|user|>", "<x>", "</s>"]:
        assert compiled.first.match(f"a {marker} b", 2), marker
        assert compiled.anywhere.marker_at(f"a {marker} b", 2), marker
        for size in range(1, len(marker)):
            assert compiled.first.match(f"a {marker[:size]}", 2), marker[:size]
            assert compiled.anywhere.may_begin_at(f"a {marker[:size]}", 2), marker[:size]


def test_halves_of_markers_are_passed_over_at_once() -> None:
    compiled = compile_grammar(Grammar(all_openers()))
    assert compiled.first.search("<" * 1000 + " ") is None
    assert compiled.first.search("]" * 1000 + " ") is None


def test_a_value_is_looked_through_for_what_can_end_it() -> None:
    layout = FUNCTIONS.layout(markup.turn_markers())
    assert layout is FUNCTIONS.layout(markup.turn_markers())
    for tag in ("</parameter>", "</function>", "</tool_call>", "<parameter=", "<|im_end|>"):
        for size in range(1, len(tag) + 1):
            assert layout.value_end.match(tag[:size]), tag[:size]
    for text in ("<b", "<v", "< ", "<1"):
        assert layout.value_end.match(f"{text} ") is None
    assert layout.may_go_on("<para", 0)
    assert layout.may_go_on("</tool_call>", 0)
    assert layout.may_go_on("x <parameter=x", 2)
    assert not layout.may_go_on("<parameter=x>", 0)


def test_a_pattern_that_matches_everywhere_needs_no_question() -> None:
    assert anywhere("[a-z]*").match("ab1", 1).end() == 2
    assert WHITE_SPACE.match("a \t\r\nb", 1).end() == 5
    with pytest.raises(ValueError, match="does not match everywhere"):
        anywhere("[a-z]+")


# A pattern, texts that may become a match, and texts that may not, or are one already.
BEGUN: list[tuple[str, list[str], list[str]]] = [
    ("abc", ["a", "ab"], ["b", "ac", "abc", "abcd"]),
    (r"a[ ]{0,2}\(", ["a", "a ", "a  "], ["a   ", "a(", " "]),
    (r"(?:ab|cd)e", ["a", "ab", "c", "cd"], ["abe", "ad", "e"]),
    (r"(?:ab)?c", ["a", "ab"], ["c", "b", "aba"]),
    (r"(?:ab ?){1,3}c", ["a", "ab", "ab a", "ab abab"], ["abababab", "abc", "ac"]),
    (r"x{3}y", ["x", "xx", "xxx"], ["xxxx", "xxxy"]),
    (r"x(?=[ ]{0,4}<n>)", ["x", "x ", "x  <", "x<n"], ["x<n>", "xn", "x     "]),
    (r"(?=<)(?:<s>)?t=", ["<", "<s", "<s>", "<s>t"], ["t", "<s>t="]),
    (r"<(?!i)", [], ["<", "<i"]),
    (r"(?:\d{1,3}(?=[a-z]))?[a-z]\w{0,5}\(", ["1", "12", "12ab", "a"], ["1234", "a(", "12("]),
    (r"(?P<q>[\"'])?n(?(q)[\"']|>)=", ['"', "'n", '"n"', "n", "n>"], ["=", '"n"=']),
    (r"(?P<name>a(?:\nbc)?)</k>", ["a", "a\n", "a\nb", "a\nbc<", "a</"], ["a\n<", "a</k>"]),
    (r"(?:[^<]|(?!<k>)<)d", ["x", "<"], ["xd", "d<"]),
    (r"[\]\-|]\|z", ["]", "-|", "||"], ["[", "z"]),
]


@pytest.mark.parametrize(("pattern", "may", "may_not"), BEGUN, ids=[pattern for pattern, *_ in BEGUN])
def test_what_may_become_a_match_is_derived_from_the_pattern(pattern: str, may: list[str], may_not: list[str]) -> None:
    half = re.compile(begun(pattern))
    assert [text for text in [*may, *may_not, ""] if half.fullmatch(text)] == [*may, ""]


def test_the_beginning_of_a_match_is_not_tried_after_each_of_its_characters() -> None:
    assert begun(r"a[?}]{1,9}?b*?c??d") == begun(r"a[?}]{1,9}b*c?d")


def test_a_pattern_is_not_hashed_to_find_its_beginning() -> None:
    # It is looked for with each piece of a call; the hash of a compiled pattern costs as much as all its code.
    class Unhashable:
        pattern = "abc"
        __hash__ = None  # type: ignore[assignment]

    assert half_of(cast("re.Pattern[str]", Unhashable())) is half_of(re.compile("abc"))
