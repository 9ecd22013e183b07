from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcall_middleware.parsing.calls.literal_calls import PythonicSyntax, read_python
from toolcall_middleware.parsing.text.grammar import Opener as GrammarOpener
from toolcall_middleware.parsing.text.grammar import Where

from .bodies import Reader, hostile, opener, started
from .streams import calls_in

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
    "mod.f": {},
}


def reader(marker: str, **syntax: Any) -> Reader:
    made = PythonicSyntax(**syntax)
    return Reader([opener(marker, lambda c: read_python(c, made))], TOOLS)


LIST = reader("<calls>", close=("</calls>",))
LINES = reader("<lines>", brackets=False, close=("</lines>",))
_BARE = PythonicSyntax(bare=True)
BARE = Reader(
    [GrammarOpener(marker="[", body=lambda c: read_python(c, _BARE), where=Where.START, consume=False)],
    TOOLS,
)


def call(arguments: str) -> str:
    return f"<calls>[f({arguments})]</calls>"


# What stands in the parentheses, and what it means.
ARGUMENTS: list[tuple[str, Any]] = [
    ("", {}),
    ("s='a'", {"s": "a"}),
    ('s="a", t="b",', {"s": "a", "t": "b"}),
    ("\n  s = 'a' ,\n  t = 'b'\n", {"s": "a", "t": "b"}),
    ("n=1, any=-2.5e3", {"n": 1, "any": -2500.0}),
    ("any=+1", {"any": 1}),
    ("any=.5", {"any": 0.5}),
    ("any=1_000", {"any": 1000}),
    ("any=0xff", {"any": 255}),
    ("any=007", {"any": 7}),
    ("any=True, o=False", {"any": True, "o": False}),
    ("any=None", {"any": None}),
    ("any=true, o=null", {"any": True, "o": None}),
    ("a=[], o={}", {"a": [], "o": {}}),
    ("a=[1, 'x', [2], {'k': None}]", {"a": [1, "x", [2], {"k": None}]}),
    ("o={'k': {\"l\": [True]}, 5: 'five', j: 1}", {"o": {"k": {"l": [True]}, "5": "five", "j": 1}}),
    ("a=(1, 2)", {"a": [1, 2]}),
    ("a=[(1, 'b)'), ()]", {"a": [[1, "b)"], []]}),
    ("a=(1,)", {"a": [1]}),
    ("any=f(x)", {"any": "f(x)"}),
    ("any=f(')', [1, 2]), n=1", {"any": "f(')', [1, 2])", "n": 1}),
    ("any=1 + 2", {"any": "1 + 2"}),
    ("s='it\\'s'", {"s": "it's"}),
    ("s='\\n\\t\\\\ \\x41\\u00e9\\U0001F389'", {"s": "\n\t\\ Aé🎉"}),
    ("s='\\101\\0'", {"s": "A\0"}),
    ("s='\\d \\q'", {"s": "\\d \\q"}),
    ("s='a\\\nb'", {"s": "ab"}),
    ("s='a\nb'", {"s": "a\nb"}),
    ("s=''", {"s": ""}),
    ("s='', t=\"\"", {"s": "", "t": ""}),
    ("s='''a'b\"\n'''", {"s": "a'b\"\n"}),
    ('s="""a"b""", n=1', {"s": 'a"b', "n": 1}),
    ("s=r'\\n\\d'", {"s": "\\n\\d"}),
    ("s=f'{x}', t=b'y'", {"s": "{x}", "t": "y"}),
    ("s='\\ud83c\\udf89'", {"s": "🎉"}),
    ("s='a]b)c', t='</calls'", {"s": "a]b)c", "t": "</calls"}),
    ("s='a </calls> b'", {"s": "a </calls> b"}),
    # Quotes that should have been escaped.
    ("s='it's'", {"s": "it's"}),
    ("s='it's', t='x'", {"s": "it's", "t": "x"}),
    ("s='f('a', 'b')'", {"s": "f('a', 'b')"}),
    ("s='f(x, label='a')', n=2", {"s": "f(x, label='a')", "n": 2}),
    ("s='sed -n '1,2p' x'", {"s": "sed -n '1,2p' x"}),
    ('s="say "hi""', {"s": 'say "hi"'}),
    ("a=['it's', 'b']", {"a": ["it's", "b"]}),
    # Typed by the schema.
    ("s=5, t=True", {"s": "5", "t": "True"}),
    ("s=None", {"s": None}),
    ("n='5', a='[1]'", {"n": 5, "a": [1]}),
    ("n='five'", {"n": "five"}),
    ("any='5'", {"any": "5"}),
    ("other='5', more=5", {"other": "5", "more": 5}),
    # Not quite keywords.
    ("'a', 'b', 5", {"s": "a", "t": "b", "n": 5}),
    ("'a', n=5", {"s": "a", "n": 5}),
    ("s: 'a', n: 5", {"s": "a", "n": 5}),
    ("'s': 'a', \"n\": 5", {"s": "a", "n": 5}),
    ("**{'s': 'a', 'n': 5}, t='b'", {"s": "a", "n": 5, "t": "b"}),
    ("**{}", {}),
    ("**{}, n=5", {"n": 5}),
    ("*x, n=5", {"s": "x", "n": 5}),
    ("s=, n=5", {"s": None, "n": 5}),
    ("s='a' n=5", {"s": "a", "n": 5}),
    (", s='a',, n=5", {"s": "a", "n": 5}),
    ("a=[1,, 2", {"a": [1, 2]}),
    # Text without quotes: only a key of the tool, or the end, is behind its last comma.
    ("s=New York, NY", {"s": "New York, NY"}),
    ("s=New York,", {"s": "New York"}),
    ("s=New York, NY, n=5", {"s": "New York, NY", "n": 5}),
    ('s=go(bar ", ) n=7", y), n=5', {"s": 'go(bar ", ) n=7", y)', "n": 5}),
    ('s=go(a "b")c, n=5', {"s": 'go(a "b")c', "n": 5}),
    ("s=Trenton, NJ (or Newark, NJ), t=b", {"s": "Trenton, NJ (or Newark, NJ)", "t": "b"}),
    ("s=at 5, 6, or 7, t=b", {"s": "at 5, 6, or 7", "t": "b"}),
    ("s=x, y = 2, and a==b, n=5", {"s": "x, y = 2, and a==b", "n": 5}),
    ("any=New York, NY, t=b", {"any": "New York, NY", "t": "b"}),
    ("n=about five, or six", {"n": "about five, or six"}),
    ("o={'k': New York, NY, 'l': 1}, n=5", {"o": {"k": "New York, NY", "l": 1}, "n": 5}),
    ("a=[New York, NY]", {"a": ["New York", "NY"]}),
    ("New York, b, 5", {"s": "New York", "t": "b", "n": 5}),
    ("s=a b, 'c', 5", {"s": "a b", "t": "c", "n": 5}),
    ("any=007, 'b', n=+6", {"any": 7, "t": "b", "n": 6}),
    ("s=5, 'b', n=6", {"s": "5", "t": "b", "n": 6}),
]


@pytest.mark.parametrize(("written", "meant"), ARGUMENTS, ids=[written for written, _ in ARGUMENTS])
def test_arguments_mean_what_python_means(written: str, meant: Any) -> None:
    assert LIST.calls(call(written)) == [("f", meant)]


@pytest.mark.parametrize("written", ["", "s='a'", "n=1, any=None", "a=[(1,), 'x'], o={'k': True}", "s='it\\'s'"])
def test_what_python_can_read_is_no_repair(written: str) -> None:
    assert not LIST.call(call(written)).repaired


LAYOUTS: list[tuple[Reader, str, list[tuple[str, Any]], str]] = [
    (LIST, "<calls>[f(), g(x=1)]</calls>", [("f", {}), ("g", {"x": 1})], ""),
    (LIST, "<calls> [ f ( ) ; g() ] </calls> b", [("f", {}), ("g", {})], " b"),
    (LIST, "<calls>[f()", [("f", {})], ""),
    (LIST, "<calls>[f(s='a'", [("f", {"s": "a"})], ""),
    (LIST, "<calls>[f(s='a']</calls>b", [("f", {"s": "a"})], "b"),
    (LIST, "<calls>[f(n=1</calls>b", [("f", {"n": 1})], "b"),
    (LIST, "<calls>[f()][g()]</calls>", [("f", {}), ("g", {})], ""),
    (LIST, "<calls>[f()] b", [("f", {})], " b"),
    (LIST, "<calls>[mod.f()]</calls>", [("mod.f", {})], ""),
    (LINES, "<lines>f()\ng(x=1)\n</lines>", [("f", {}), ("g", {"x": 1})], ""),
    (LINES, "<lines>f(s='it's')\ng()</lines>", [("f", {"s": "it's"}), ("g", {})], ""),
    (LINES, "<lines>[f(), g()]</lines>", [("f", {}), ("g", {})], ""),
    (LINES, "<lines>f(s='a')", [("f", {"s": "a"})], ""),
    (BARE, "[f(s='a'), g()]", [("f", {"s": "a"}), ("g", {})], ""),
    (BARE, "[f()]\n\n[g()] b", [("f", {}), ("g", {})], " b"),
    (BARE, "[f()]\n[link](x)", [("f", {})], "\n[link](x)"),
    (BARE, "[f('a')]", [("f", {"s": "a"})], ""),
    (BARE, "[f(s='print('a')')]", [("f", {"s": "print('a')"})], ""),
]


@pytest.mark.parametrize(("of", "text", "calls", "rest"), LAYOUTS, ids=[text for _, text, *_ in LAYOUTS])
def test_how_calls_stand_together(of: Reader, text: str, calls: list[tuple[str, Any]], rest: str) -> None:
    assert of.calls(text) == calls
    assert of.text(text).strip() == rest.strip()


@pytest.mark.parametrize(
    "text",
    ["[1, 2]", "[f]", "[f](x)", "[f(x) for x in y]", "[f(x == 1)]", "[zz(s='a')]", "[f", "[f(", "[f(s", "[ f ]", "x [f()]",
     "[" + " " * 900 + "f()]", "[f" + " " * 900 + "()]"],
)  # fmt: skip
def test_a_list_without_a_marker_is_a_call_only_where_it_can_be_nothing_else(text: str) -> None:
    assert BARE.text(text) == text


@pytest.mark.parametrize(
    "text",
    ["<calls>", "<calls>f()", "<calls>[", "<calls>[]</calls>", "<calls>[5]</calls>", "<calls>[zz(s='it's')]</calls>"],
)
def test_what_is_no_call_comes_out_to_the_byte(text: str) -> None:
    assert LIST.text(text) == text


def test_strings_stream_and_words_do_not() -> None:
    assert LIST.delay("<calls>[f(s='", "abc def " * 9, "')]</calls>") == 0
    assert LIST.delay("<calls>[f(a=['", "abc def " * 9, "'])]</calls>") == 0
    word = LIST.fresh()
    word.feed("<calls>[f(n= ")
    assert [event for char in "12345" for event in word.feed(char)] == []


def test_a_name_is_told_before_its_arguments_are_known() -> None:
    assert started(LIST.fresh().feed("<calls>[f(")) == ["f"]
    assert started(BARE.fresh().feed("[f(s='")) == ["f"]


def test_a_cut_call_is_a_prefix_of_json() -> None:
    text = call("s='say \\'hi\\' \\x41', a=[1, {'k': 'v'}], n=5")
    LIST.check_cut(text, text.index("(") + 1, text.index(")"))


# A quote inside a nested string or key can still be taken for its end: that is mending, and not what is tested here.
WORDS = st.text("abc 1_-é🎉", max_size=5)
PYTHON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | WORDS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(WORDS, inner, max_size=4) | st.tuples(inner),
    max_leaves=8,
)


@pytest.mark.slow
@settings(max_examples=100)
@given(PYTHON)
def test_any_literal_means_what_python_means(value: Any) -> None:
    meant = json.loads(json.dumps(value))
    assert LIST.calls(f"<calls>[f(any={value!r})]</calls>") == [("f", {"any": meant})]
    assert LIST.calls(f"<calls>[f(any={value!r}, more={value!r}), g()]</calls>") == [
        ("f", {"any": meant, "more": meant}),
        ("g", {}),
    ]


MARKUP = {
    "list": (LIST, ["<calls>[", "f(", "g()", "s='", 's="', "', ", "')]", "a=[", "o={'k': ", "**{", "'''", "\\'", "\\x4", "r'", "</calls>"]),
    "lines": (LINES, ["<lines>", "f(", "g()\n", "s='", "', t='", "')", "n=", "</lines>", "zz("]),
    "bare": (BARE, ["[", "f(", "g()", "s='", "', ", "')]", "]\n[", "zz(", "'", "**{"]),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", MARKUP)
def test_any_text_reads_the_same_however_it_is_cut(name: str) -> None:
    of, markup = MARKUP[name]

    @settings(max_examples=120)
    @given(hostile(*markup), st.randoms(use_true_random=False), st.booleans())
    def holds(text: str, rng: random.Random, cut: bool) -> None:
        of.check_any(markup[0] + text, rng, cut=cut)

    holds()


@pytest.mark.slow
@pytest.mark.parametrize("name", MARKUP)
def test_any_text_comes_out_where_nothing_is_offered(name: str) -> None:
    of, markup = MARKUP[name]

    @settings(max_examples=80)
    @given(hostile(*markup))
    def holds(text: str) -> None:
        of.check_refused(f"{markup[0]}{text}b")

    holds()


@pytest.mark.slow
def test_deep_nesting_is_read() -> None:
    for deep in ("[" * 50_000, "{'a':" * 20_000, "(" * 50_000):
        (made,) = calls_in(LIST.events([call(f"any={deep}")]))
        assert made.complete
        assert made.arguments.count("[") + made.arguments.count("{") >= 20_000


@pytest.mark.parametrize("unit", ["a b ", "it's ", "')]}", "', ", "', s='", "\\", '"', "</", "x = f(')\n"])
@pytest.mark.parametrize("step", [4, 0])
def test_work_grows_with_the_text_and_no_faster(unit: str, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    LIST.check_linear("<calls>[f(s='", unit, monkeypatch, step=step, size=8_000)


def test_a_string_without_its_end_stays_cut() -> None:
    (made,) = calls_in(LIST.events(["<calls>[f(s='a</calls>b"]))
    assert (made.arguments, made.complete) == ('{"s": "a</calls>b', False)
