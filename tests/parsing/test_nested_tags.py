"""Calls whose arguments are elements within elements: however the text is cut, the same comes out."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcall_middleware.parsing.calls.nested_calls import read_nested

from .bodies import Reader, hostile, opener
from .streams import calls_in

M = "]<]minimax[>["
TOOLS: dict[str, dict[str, Any]] = {
    "f": {
        "properties": {
            "s": {"type": "string"},
            "n": {"type": "integer"},
            "a": {"type": "array", "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
            "o": {"type": "object"},
            "either": {
                "anyOf": [{"type": "object", "properties": {"k": {"type": "string"}}}, {"type": "null"}],
            },
            "any_of": {
                "properties": {"k": {"type": "string"}, "n": {"type": "integer"}},
                "anyOf": [{"required": ["k"]}, {"required": ["n"]}],
            },
            "extra": {"type": "object", "additionalProperties": {"type": "string"}},
        }
    },
    "g": {},
}
CALLS = Reader([opener(f"{M}<tool_call>", lambda c: read_nested(c, M, "tool_call"))], TOOLS)


def tags(text: str) -> str:
    """`<` stands for the mark and a tag."""
    return text.replace("<", f"{M}<")


def call(arguments: str, name: str = "f") -> str:
    return tags(f'<tool_call><invoke name="{name}">{arguments}</invoke></tool_call>')


ARGUMENTS: list[tuple[str, Any]] = [
    ("", {}),
    ("<s>a</s><n>5</n>", {"s": "a", "n": 5}),
    ("\n<s>\na ]] b\n</s>\n<n> 5 </n>\n", {"s": "\na ]] b\n", "n": 5}),
    ("<s>a <b>c</b> d</s>", {"s": f"a {M}<b>c{M}</b> d"}),
    ("<a><item><k>5</k></item><item><k>x</k></item></a>", {"a": [{"k": "5"}, {"k": "x"}]}),
    ("<o><x>1</x><x>2</x><y><z>true</z></y></o>", {"o": {"x": [1, 2], "y": {"z": True}}}),
    ("<a></a><o></o>", {"a": [], "o": {}}),
    ("<more>1</more><more>2</more>", {"more": [1, 2]}),
    ("<either><k>5</k></either>", {"either": {"k": "5"}}),
    ("<any_of><k>5</k><n>6</n></any_of>", {"any_of": {"k": "5", "n": 6}}),
    ("<extra><x>5</x></extra>", {"extra": {"x": "5"}}),
]


@pytest.mark.parametrize(("written", "meant"), ARGUMENTS, ids=[written for written, _ in ARGUMENTS])
def test_elements_mean_what_the_schema_says(written: str, meant: Any) -> None:
    assert CALLS.calls(call(written)) == [("f", meant)]


@pytest.mark.parametrize("before", ["", "<tool_call>"])
def test_a_mention_is_text(before: str) -> None:
    text = tags(f'Write {before}<invoke name="f"> first, then the arguments.')
    assert CALLS.text(text) == text
    assert CALLS.calls(tags(f'Write {before}<invoke name="f"> first. ') + call("<n>5</n>")) == [("f", {"n": 5})]


def test_two_calls_stand_together() -> None:
    text = call("<s>a</s>").replace(f"{M}</tool_call>", tags('\n<invoke name="g"><x>1</x></invoke>\n</tool_call>'))
    assert CALLS.calls(f"{text}\n") == [("f", {"s": "a"}), ("g", {"x": 1})]


def test_the_mark_may_be_missing_around_the_calls() -> None:
    text = call("<s>a</s>").replace(f"{M}<invoke", "\n<invoke")
    assert CALLS.calls(text) == [("f", {"s": "a"})]
    assert CALLS.calls(text.replace(f"{M}</tool_call>", "\n</tool_call>")) == [("f", {"s": "a"})]
    second = tags('\n@<invoke name="g"><x>1</x></invoke>\n</tool_call>').replace(f"@{M}", "")
    assert CALLS.calls(text.replace(f"{M}</tool_call>", second)) == [("f", {"s": "a"}), ("g", {"x": 1})]


def test_other_tags_without_a_mark_are_none_of_the_calls() -> None:
    text = call("<s>a</s>").removesuffix(f"{M}</tool_call>")
    for rest in ("<b>bold</b>", "\n<b", "<invoker>"):
        assert CALLS.calls(text + rest) == [("f", {"s": "a"})]
        assert CALLS.text(text + rest) == rest
    assert CALLS.text(f"{M}<tool_call>\n<b>bold</b>") == f"{M}<tool_call>\n<b>bold</b>"


def test_a_string_streams_and_other_elements_wait() -> None:
    opening = tags('<tool_call><invoke name="f">')
    assert CALLS.delay(f"{opening}{M}<s>", "some text", tags("</s></invoke></tool_call>")) == 0
    assert CALLS.delay(f"{opening}{M}<n>", "12345", tags("</n></invoke></tool_call>")) == 5


@pytest.mark.slow
@pytest.mark.parametrize("end", ["</invoke></tool_call> and", "</tool_call> and", "", "<", "</invoke>", "<]"])
def test_ends_are_the_same_at_every_cut(end: str) -> None:
    text = call("<a><item><k>5</k></item></a><s>text</s>").replace(tags("</invoke></tool_call>"), tags(end))
    whole = CALLS.events([text])
    assert calls_in(whole)
    for first, second in itertools.combinations(range(len(text)), 2):
        if second - first < 30:
            assert CALLS.events([text[:first], text[first:second], text[second:]]) == whole


MARKUP = [M, f"{M}<s>", f"{M}</s>", f"{M}<a>", f"{M}<item>", f"{M}</item>", f"{M}</a>", f"{M}<n>", f"{M}</n>",
          f"{M}</invoke>", f'{M}<invoke name="g">', f"{M}</tool_call>", f"{M} <o>", "]<]", "]<]mini", f"{M}<i", "item>",
          "<" + "x" * 290 + ">"]  # fmt: skip


@pytest.mark.slow
@settings(max_examples=200)
@given(hostile(*MARKUP), st.randoms(use_true_random=False), st.booleans())
def test_any_text_reads_the_same_however_it_is_cut(text: str, rng: random.Random, cut: bool) -> None:
    CALLS.check_any(tags('<tool_call><invoke name="f"><a>') + text, rng, cut=cut)


@pytest.mark.slow
@settings(max_examples=80)
@given(hostile(*MARKUP))
def test_any_text_comes_out_where_nothing_is_offered(text: str) -> None:
    CALLS.check_refused(tags('<tool_call><invoke name="f">') + text + "b")


@pytest.mark.parametrize("unit", ["a b ", "]<]", M, f"{M}<", f"{M}<item>", f"{M}<k>1{M}</k>", f"{M}<{'x' * 90}", "]"])
@pytest.mark.parametrize("begin", ["<s>", "<n>", "<a><item>", ""])
def test_work_grows_with_the_text_and_no_faster(unit: str, begin: str, monkeypatch: pytest.MonkeyPatch) -> None:
    CALLS.check_linear(tags(f'<tool_call><invoke name="f">{begin}'), unit, monkeypatch, step=4, size=3_000)
