from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcall_middleware.parsing.calls.literal_calls import read_gemma
from toolcall_middleware.parsing.values.literal_reader import Notation

from .bodies import Reader, hostile, opener, started
from .streams import calls_in

Q = '<|"|>'
TOOLS: dict[str, dict[str, Any]] = {
    "f": {
        "properties": {
            "s": {"type": "string"},
            "t": {"type": "string"},
            "n": {"type": "integer"},
            "a": {"type": "array"},
            "o": {"type": "object"},
            "any": {},
        }
    },
    "g": {},
}


def reader(marker: str, close: str, mark: str, inner: str = "") -> Reader:
    notation = Notation(quotes=(mark, '"', "'"), verbatim=frozenset({mark}), inner=inner, ends=(close,))
    return Reader([opener(marker, lambda c: read_gemma(c, notation))], TOOLS)


CALLS = reader("<|tool_call>", "<tool_call|>", Q, '"')
ESCAPED = reader("<start_function_call>", "<end_function_call>", "<escape>")


def call(arguments: str) -> str:
    """`'` stands for the strings' marker."""
    return f"<|tool_call>call:f{{{arguments}}}<tool_call|>".replace("'", Q)


ARGUMENTS: list[tuple[str, Any]] = [
    ("", {}),
    ("s:'a'", {"s": "a"}),
    ("s:'a',t:'b',", {"s": "a", "t": "b"}),
    ("\n s : 'a' ,\n t : 'b' \n", {"s": "a", "t": "b"}),
    ("n:1,any:-2.5e3", {"n": 1, "any": -2500.0}),
    ("any:true,o:null,a:false", {"any": True, "o": None, "a": False}),
    ("a:[],o:{}", {"a": [], "o": {}}),
    ("a:[1,'x',[2],{k:null}]", {"a": [1, "x", [2], {"k": None}]}),
    ("o:{k:{l:[true]},m n:'x'}", {"o": {"k": {"l": [True]}, "m n": "x"}}),
    ("o:{'k l':1,\"m\":2}", {"o": {"k l": 1, "m": 2}}),
    ("s:'a{b}[c],d:e'", {"s": "a{b}[c],d:e"}),
    ("s:'say \"hi\" \\n'", {"s": 'say "hi" \\n'}),
    ("s:''", {"s": ""}),
    ("s:'a<b <|\" <tool_call|'", {"s": 'a<b <|" <tool_call|'}),
    ("s:'ends in <tool_call|> here'", {"s": "ends in <tool_call|> here"}),
    # Other quotes.
    ('s:"a",a:["b","it\'s"]'.replace("'", "\\u0027"), {"s": "a", "a": ["b", "it's"]}),
    ('o:{"k": "say \\"hi\\""}', {"o": {"k": 'say "hi"'}}),
    # A quote that does not end the string.
    ("s:'f('a')',n:1", {"s": 'f("a")', "n": 1}),
    ("s:'x = '''doc'''',n:1", {"s": 'x = """doc"""', "n": 1}),
    ("s:'{'a': 'b', 'c': 1}'", {"s": '{"a": "b", "c": 1}'}),
    ("s:'f('a', x='b')',t:'c'", {"s": 'f("a", x="b")', "t": "c"}),
    # Two that end the string.
    ('s:"a"\'', {"s": "a"}),
    ("s:\"a\"',t:'b'", {"s": "a", "t": "b"}),
    ('a:["b"\',"c"\'],n:1', {"a": ["b", "c"], "n": 1}),
    ('o:{"k":"x"\'}', {"o": {"k": "x"}}),
    ('s:"say "\' and go"', {"s": 'say "<|"|> and go'}),
    # Missing ones.
    ("s:a b',t:'c'", {"s": "a b", "t": "c"}),
    ("s:a, b'", {"s": "a, b"}),
    ("s:a, b,t:c", {"s": "a, b", "t": "c"}),
    ("s:'a't:'b'", {"s": "a", "t": "b"}),
    ("s:,t:'b'", {"s": None, "t": "b"}),
    ("s", {"s": None}),
    ("a:[1,,2],", {"a": [1, 2]}),
    ("a:[1,{k:2]", {"a": [1, {"k": 2}]}),
    # Typed by the schema.
    ("s:5,t:true", {"s": "5", "t": "true"}),
    ("s:null", {"s": None}),
    ("n:'5',a:'[1]'", {"n": 5, "a": [1]}),
    ("any:'5',other:5", {"any": "5", "other": 5}),
]


@pytest.mark.parametrize(("written", "meant"), ARGUMENTS, ids=[written for written, _ in ARGUMENTS])
def test_arguments_mean_what_the_notation_says(written: str, meant: Any) -> None:
    assert CALLS.calls(call(written)) == [("f", meant)]


@pytest.mark.parametrize("written", ["", "s:'a'", "n:1,any:null", "a:[1,'x'],o:{k:{}}"])
def test_what_the_notation_says_is_no_repair(written: str) -> None:
    assert not CALLS.call(call(written)).repaired


LAYOUTS: list[tuple[str, list[tuple[str, Any]], str]] = [
    ("<|tool_call>call:f{}<tool_call|><|tool_call>call:g{}<tool_call|>", [("f", {}), ("g", {})], ""),
    ("<|tool_call>call:f{}call:g{x:1}<tool_call|>b", [("f", {}), ("g", {"x": 1})], "b"),
    ("<|tool_call>call:f{} b", [("f", {})], "b"),
    ("<|tool_call> call : f {} <tool_call|>", [("f", {})], ""),
    ("<|tool_call>:f{}<tool_call|>", [("f", {})], ""),
    ("<|tool_call>:call:f{}<tool_call|>b", [("f", {})], "b"),
    (f"<|tool_call>call:f(s={Q}a{Q}, n=1)<tool_call|>", [("f", {"s": "a", "n": 1})], ""),
    ('<|tool_call>call:f({"s": "a", "a": ["b"]})<tool_call|>', [("f", {"s": "a", "a": ["b"]})], ""),
    ('<|tool_call>call:f({"n": "1", "s": "({a})"}) <tool_call|>b', [("f", {"n": 1, "s": "({a})"})], "b"),
    (f"<|tool_call>call:f({{s:{Q}a{Q},o:{{k:1}}}}<tool_call|>", [("f", {"s": "a", "o": {"k": 1}})], ""),
    ('<|tool_call>call:f({})<tool_call|><|tool_call>call:g({"x": "y"})', [("f", {}), ("g", {"x": "y"})], ""),
    ('<|tool_call>call:f(s="a", o={"k": [1]})<tool_call|>', [("f", {"s": "a", "o": {"k": [1]}})], ""),
    (f"<|tool_call>call:f{{s:{Q}a{Q}<tool_call|>b", [("f", {"s": "a"})], "b"),
    (f"<|tool_call>call:f{{a:[{Q}a{Q}<tool_call|>b", [("f", {"a": ["a"]})], "b"),
    (f"<|tool_call>call:f{{s:{Q}a{Q}}}\nand text", [("f", {"s": "a"})], "and text"),
]


@pytest.mark.parametrize(("text", "calls", "rest"), LAYOUTS, ids=[text for text, *_ in LAYOUTS])
def test_how_calls_stand_together(text: str, calls: list[tuple[str, Any]], rest: str) -> None:
    assert CALLS.calls(text) == calls
    assert CALLS.text(text).strip() == rest


def test_an_inner_quote_that_means_no_quote_mark_stays() -> None:
    text = "<start_function_call>call:f{s:<escape>a <escape>b<escape> c<escape>}<end_function_call>"
    assert ESCAPED.calls(text) == [("f", {"s": "a <escape>b<escape> c"})]


@pytest.mark.parametrize(
    "text",
    ["<|tool_call>", "<|tool_call>x", "<|tool_call>call", "<|tool_call>call:f", "<|tool_call>call:{}", "<|tool_call>call:f[",
     f"<|tool_call>call:zz{{s:{Q}<tool_call|>{Q},n:1}}<tool_call|> b", "<|tool_call>call" + " " * 900 + ":f{}"],
)  # fmt: skip
def test_what_is_no_call_comes_out_to_the_byte(text: str) -> None:
    assert CALLS.text(text) == text


def test_strings_stream_and_words_do_not() -> None:
    assert CALLS.delay(f"<|tool_call>call:f{{s:{Q}", "abc def " * 9, f"{Q}}}<tool_call|>") == 0
    word = CALLS.fresh()
    word.feed("<|tool_call>call:f{n:")
    assert [event for char in "12345" for event in word.feed(char)] == []


def test_a_name_is_told_before_its_arguments_are_known() -> None:
    assert started(CALLS.fresh().feed("<|tool_call>call:f{")) == ["f"]


def test_a_cut_call_is_a_prefix_of_json() -> None:
    text = call("s:'say \"hi\" <b>',a:[1,{k:'v'}],n:5")
    CALLS.check_cut(text, text.index("{") + 1, text.rindex("}"))


def written(value: Any) -> str:
    match value:
        case str():
            return f"{Q}{value}{Q}"
        case dict():
            return "{" + ",".join(f"{key}:{written(item)}" for key, item in value.items()) + "}"
        case list():
            return "[" + ",".join(map(written, value)) + "]"
    return json.dumps(value)


KEYS = st.from_regex(r"[A-Za-z_][A-Za-z0-9_ .-]{0,8}[a-z]", fullmatch=True)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text().filter(lambda text: Q not in text and not text.endswith(("<", "<|", '<|"', '<|"|'))),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=100)
@given(VALUES)
def test_any_value_comes_back(value: Any) -> None:
    text = f"<|tool_call>call:f{{any:{written(value)},more:{written([value])}}}<tool_call|>"
    assert CALLS.calls(text) == [("f", {"any": value, "more": [value]})]


MARKUP = ["<|tool_call>", "<|tool_call>call:f{", "call:", "f{", "s:", "n:", "a:[", "o:{", Q, f"{Q},t:{Q}", f"{Q}}}", "},",
          "<tool_call|>", '<|"', "(s=", 'call:f({"s": "', '"})']  # fmt: skip


@pytest.mark.slow
@settings(max_examples=150)
@given(hostile(*MARKUP), st.randoms(use_true_random=False), st.booleans())
def test_any_text_reads_the_same_however_it_is_cut(text: str, rng: random.Random, cut: bool) -> None:
    CALLS.check_any("<|tool_call>call:f{" + text, rng, cut=cut)
    CALLS.check_any(text, rng, cut=cut)


@pytest.mark.slow
@settings(max_examples=150)
@given(hostile(*MARKUP))
def test_any_text_comes_out_where_nothing_is_offered(text: str) -> None:
    CALLS.check_refused(f"a<|tool_call>call:f{{{text}b")


@pytest.mark.slow
def test_deep_nesting_is_read() -> None:
    for deep in ("[" * 50_000, "{a:" * 20_000):
        (made,) = calls_in(CALLS.events([f"<|tool_call>call:f{{any:{deep}"]))
        assert not made.complete  # it ends before a value
        assert made.arguments.count("[") + made.arguments.count("{") >= 20_000


@pytest.mark.parametrize("unit", ["a b ", Q, f"{Q}}}", f"{Q},s:", f"{Q},", "<|", "}]"])
@pytest.mark.parametrize("begin", [f"s:{Q}", "s:", "any:[", ""])
@pytest.mark.parametrize("step", [4, 0])
def test_work_grows_with_the_text_and_no_faster(
    unit: str, begin: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    CALLS.check_linear("<|tool_call>call:f{" + begin, unit, monkeypatch, step=step, size=3_000)
