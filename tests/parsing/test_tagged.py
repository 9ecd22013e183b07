from __future__ import annotations

import json
import random
import re
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from toolcall_middleware.formats.families import glm, invoke, qwen
from toolcall_middleware.formats.syntax.slots import FUNCTIONS, Slots
from toolcall_middleware.parsing.cursor import Make

from .bodies import Reader, hostile, opener, started
from .streams import calls_in

TOOLS: dict[str, dict[str, Any]] = {
    "f": {
        "properties": {
            "s": {"type": "string"},
            "t": {"type": "string"},
            "n": {"type": "integer"},
            "o": {"type": "object"},
            "ns": {"type": ["string", "null"]},
        }
    },
    "g": {},
}


def reader(marker: str, make: Make, *, consume: bool = True) -> Reader:
    return Reader([opener(marker, make, consume=consume)], TOOLS)


FUNCTION = reader("<tool_call>", FUNCTIONS)
INVOKE = reader("<minimax:tool_call>", invoke.MINIMAX_M2.calls)
DSML = reader("<｜DSML｜function_calls>", invoke.DEEPSEEK_V32.calls)
XML = reader("<function name=", qwen.MINICPM5.calls, consume=False)
KEYS = reader("<tool_call>", glm.GLM45.calls)
STEP = reader("<｜tool_calls_begin｜>", qwen.STEP3.calls)
READERS = {"function": FUNCTION, "invoke": INVOKE, "dsml": DSML, "xml": XML, "keys": KEYS, "step": STEP}


def function(inner: str) -> str:
    return f"<tool_call>\n<function=f>\n{inner}\n</function>\n</tool_call>"


def value(text: str, key: str = "s") -> str:
    return function(f"<parameter={key}>{text}</parameter>")


# What stands between a parameter's tags, and what it means as a string.
VALUES = {
    "inline": ("a", "a"),
    "one newline on each side is markup": ("\na\n", "a"),
    "its own newlines stay": ("\n\na\n\n", "\na\n"),
    "a trailing newline stays where none has opened": ("a\n", "a\n"),
    "carriage returns": ("\r\na\r\nb\r\n", "a\r\nb"),
    "empty": ("", ""),
    "an empty line": ("\n\n", ""),
    "spaces": ("  a  ", "  a  "),
    "tags of others": ("<b>a</b> <i", "<b>a</b> <i"),
    "a closing tag that closes nothing": ("a </parameter> b", "a </parameter> b"),
    "closing tags within a sentence": ("a </function> b </tool_call> c", "a </function> b </tool_call> c"),
    "an opening tag within a sentence": ("\ntype <parameter=t> here\n", "type <parameter=t> here"),
    "a parameter that is there already": ("\na\n<parameter=s>\nb\n", "a\n<parameter=s>\nb"),
    "a parameter that no one declared": ("\na\n<parameter=zz>\n", "a\n<parameter=zz>"),
    "a parameter's tags within a line": ("\na <parameter=zz>1</parameter>\n", "a <parameter=zz>1</parameter>"),
    "half a closing tag": ("a</paramete", "a</paramete"),
    "the whole syntax": (
        "\n<function=f>\n<parameter=s>\n1\n</parameter>\n</function>\n",
        "<function=f>\n<parameter=s>\n1\n</parameter>\n</function>",
    ),
    "entities": ("&lt;&amp;", "&lt;&amp;"),
}


@pytest.mark.parametrize(("written", "meant"), VALUES.values(), ids=VALUES)
def test_a_value_means_what_stands_between_its_tags(written: str, meant: str) -> None:
    assert FUNCTION.calls(value(written)) == [("f", {"s": meant})]


MISSING = {
    "value": ("<tool_call><function=f><parameter=s>\na\n</function></tool_call>", {"s": "a"}),
    "value, inline": ("<tool_call><function=f><parameter=s>a</function></tool_call>", {"s": "a"}),
    "value before the next one": ("<tool_call><function=f><parameter=s>\na\n<parameter=n>\n1\n</parameter></function></tool_call>", {"s": "a", "n": 1}),
    "value before the next one, inline": ("<tool_call><function=f><parameter=s>a<parameter=n>1</parameter></function></tool_call>", {"s": "a", "n": 1}),
    "call": ("<tool_call><function=f><parameter=s>a</parameter></tool_call>", {"s": "a"}),
    "value and call": ("<tool_call><function=f><parameter=s>a</tool_call>", {"s": "a"}),
    "call before the next one": ("<tool_call><function=f><parameter=s>a</parameter><tool_call><function=g></function></tool_call>", {"s": "a"}),
    "all but the end of the turn": ("<tool_call><function=f><parameter=s>\na\n</parameter>\n<|im_end|>", {"s": "a"}),
    "all, and the turn ends in the value": ("<tool_call><function=f><parameter=s>\na\n<|im_end|>", {"s": "a"}),
    "everything behind the name": ("<tool_call><function=f>", {}),
}  # fmt: skip


@pytest.mark.parametrize(("text", "arguments"), MISSING.values(), ids=MISSING)
def test_a_closing_tag_may_be_missing(text: str, arguments: dict[str, Any]) -> None:
    first, *_ = calls_in(FUNCTION.events([text]))
    assert json.loads(first.arguments) == arguments
    assert first.complete
    assert first.repaired
    assert FUNCTION.calls(text)[0] == ("f", arguments)


def test_only_the_outer_tag_may_be_missing_without_a_repair() -> None:
    call = FUNCTION.call("<tool_call><function=f><parameter=s>a</parameter></function>")
    assert (call.complete, call.repaired) == (True, False)


ODD = {
    "cdata": (XML, '<function name="f"><param name="s"><![CDATA[<a>\n&amp;]]></param></function>', {"s": "<a>\n&amp;"}),
    "cdata in two": (XML, '<function name="f"><param name="s"><![CDATA[]]]]><![CDATA[>]]></param></function>', {"s": "]]>"}),
    "entities": (XML, '<function name="f"><param name="s">&lt;a&gt; &amp; &x; &</param></function>', {"s": "<a> & &x; &"}),
    "typed cdata": (XML, '<function name="f"><param name="o"><![CDATA[{"k": "<"}]]></param></function>', {"o": {"k": "<"}}),
    "no spaces": (reader("<functionname=", qwen.MINICPM5.calls, consume=False), '<functionname="f"><paramname="s">a</param></function>', {"s": "a"}),
    "value tag missing": (KEYS, "<tool_call>f<arg_key>s</arg_key>a b</arg_value></tool_call>", {"s": "a b"}),
    "key tags doubled": (KEYS, "<tool_call>f<arg_key><arg_key>s</arg_key></arg_key><arg_value>a</arg_value></tool_call>", {"s": "a"}),
    "key's end missing": (KEYS, "<tool_call>f<arg_key>s<arg_value>a</arg_value></tool_call>", {"s": "a"}),
    "key's end that of a value": (KEYS, "<tool_call>f\n<arg_key>s</arg_value>\n<arg_value>a</arg_value></tool_call>", {"s": "a"}),
    "both of its tags missing": (KEYS, "<tool_call>f<arg_key>s</arg_value>a</arg_value></tool_call>", {"s": "a"}),
    "two keys on end": (KEYS, "<tool_call>f\n<arg_key>s</arg_key>\n<arg_key>t</arg_key>\n<arg_value>a</arg_value>\n</tool_call>", {"s": "", "t": "a"}),
    "key's beginning missing": (KEYS, "<tool_call>fs</arg_key><arg_value>a</arg_value></tool_call>", {"s": "a"}),
    "... behind a space": (KEYS, "<tool_call>f s</arg_key><arg_value>a</arg_value><arg_key>n</arg_key><arg_value>1</arg_value></tool_call>", {"s": "a", "n": 1}),
    "... and the calls' own tag there": (KEYS, "<tool_call>f<tool_call>s</arg_key><arg_value>a</arg_value></tool_call>", {"s": "a"}),
    "... with a longer key": (KEYS, "<tool_call>f\nns</arg_key>\n<arg_value>a</arg_value>\n</tool_call>", {"ns": "a"}),
    "value missing": (KEYS, "<tool_call>f<arg_key>s</arg_key></tool_call>", {"s": ""}),
    "only a name": (KEYS, "<tool_call>f", {}),
    "a name and the end of a value": (KEYS, "<tool_call>f</arg_value></tool_call>", {}),
    "... on lines of their own, and no more": (KEYS, "<tool_call>f\n</arg_value>\n", {}),
    "closes itself": (DSML, '<｜DSML｜function_calls><｜DSML｜invoke name="f"/></｜DSML｜function_calls>', {}),
    "said to be a string": (DSML, '<｜DSML｜function_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="n" string="true">5</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>', {"n": "5"}),
    "said to be json": (DSML, '<｜DSML｜function_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="s" string="false">"5"</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>', {"s": "5"}),
    "as it stands": (DSML, '<｜DSML｜function_calls><｜DSML｜invoke name="f"><｜DSML｜parameter name="s" string="true">\na\n</｜DSML｜parameter></｜DSML｜invoke></｜DSML｜function_calls>', {"s": "\na\n"}),
    "json in place of tags": (FUNCTION, function('{"s": "a", "n": [1]}'), {"s": "a", "n": [1]}),
    "repaired json in place of tags": (FUNCTION, function("{'s': 'a'"), {"s": "a"}),
    "keys for tags": (FUNCTION, function("<s>\na\n</s>\n<n>1</n>"), {"s": "a", "n": 1}),
    "... around tags": (FUNCTION, function("<s><b>a</b> and </s>, </s><o>{}</o>"), {"s": "<b>a</b> and </s>, ", "o": {}}),
    "... in another tag": (FUNCTION, function("<parameters><s>a</s></parameters>"), {"s": "a"}),
    "... of another family": (INVOKE, '<minimax:tool_call><invoke name="f"><s>a</s><n>1</n></invoke></minimax:tool_call>', {"s": "a", "n": 1}),
    "... before the family's own": (FUNCTION, function("<s>a</s>\n<parameter=n>\n1\n</parameter>"), {"s": "a", "n": 1}),
    "... twice": (FUNCTION, function("<s>a</s><n>1</n><s>b</s>"), {"s": "a", "n": 1}),
    "half of an attribute's quotes": (FUNCTION, '<tool_call>\n<function=f">\n<parameter=s">a</parameter>\n</function>', {"s": "a"}),
    "markers between": (STEP, '<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="f"></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>', {}),
}  # fmt: skip


@pytest.mark.parametrize(("of", "text", "arguments"), ODD.values(), ids=ODD)
def test_what_else_a_family_writes(of: Reader, text: str, arguments: dict[str, Any]) -> None:
    assert of.calls(text) == [("f", arguments)]


def test_a_tag_missing_at_a_key_is_a_repair() -> None:
    for inner in ("f<arg_key>s<arg_value>a", "f<arg_key>s</arg_value><arg_value>a", "fs</arg_key><arg_value>a"):
        call = KEYS.call(f"<tool_call>{inner}</arg_value></tool_call>")
        assert (call.complete, call.repaired) == (True, True)


def test_a_key_for_a_tag_is_a_repair_and_its_value_streams() -> None:
    call = FUNCTION.call(function("<s>a</s>"))
    assert (call.complete, call.repaired) == (True, True)
    (cut,) = calls_in(FUNCTION.events(["<tool_call><function=f><s>a"]))
    assert (cut.arguments, cut.complete) == ('{"s": "a', False)


@pytest.mark.parametrize("joined", ["fzz", "zzs", "f zz", "f", "s", " fs s"])
def test_a_name_joined_with_a_key_is_an_offered_one_with_a_key_of_its_own(joined: str) -> None:
    text = f"<tool_call>{joined}</arg_key><arg_value>a</arg_value></tool_call>"
    assert KEYS.text(text) == text


def test_a_name_has_no_space_where_any_is_offered() -> None:
    anything = Reader([opener("<tool_call>", glm.GLM45.calls)])
    assert anything.calls("<tool_call>now") == [("now", {})]
    assert anything.calls("the <tool_call> tag ends.") == []


def test_two_keys_on_end_read_the_same_where_no_schema_names_them() -> None:
    text = "<tool_call>g\n<arg_key>a</arg_key>\n<arg_key>b</arg_key>\n<arg_value>1</arg_value>\n</tool_call>"
    assert KEYS.calls(text) == [("g", {"a": "", "b": 1})]


REFUSED = [
    "<tool_call>",
    "<tool_call></tool_call>",
    "<tool_call> is a tag",
    "<tool_call><function=>",
    "<tool_call><function=zz><parameter=s>a</parameter></function></tool_call>",
    "<tool_call>\n<function=zz>\n<parameter=s>\n</tool_call> </parameter> b\n</parameter>\n</function>\n</tool_call> c",
    "<tool_call><function=f",
    "<tool_call>" + " " * 2000 + "<function=f>",
]


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_no_call_comes_out_to_the_byte(text: str) -> None:
    assert FUNCTION.text(text) == text


def test_a_string_streams_and_other_values_do_not() -> None:
    assert (
        FUNCTION.delay(
            "<tool_call><function=f><parameter=s>\n", "abc def " * 9, "\n</parameter></function></tool_call>"
        )
        == 0
    )
    assert (
        FUNCTION.delay(
            "<tool_call><function=f><parameter=ns>\n", "abc def " * 9, "\n</parameter></function></tool_call>"
        )
        <= 1
    )
    number = FUNCTION.fresh()
    number.feed("<tool_call><function=f><parameter=n>\n")
    assert [event for char in "12345" for event in number.feed(char)] == []


def test_a_nullable_string_is_null_only_where_it_says_so() -> None:
    assert FUNCTION.calls(value("null", "ns")) == [("f", {"ns": None})]
    assert FUNCTION.calls(value("\n null\n", "ns")) == [("f", {"ns": None})]
    assert FUNCTION.calls(value("nullable", "ns")) == [("f", {"ns": "nullable"})]
    assert FUNCTION.calls(value(" " * 99, "ns")) == [("f", {"ns": " " * 99})]


def test_a_name_is_emitted_when_a_slot_follows_it() -> None:
    scanner = FUNCTION.fresh()
    assert started(scanner.feed("<tool_call>\n<function=f>\n<parameter")) == []
    assert started(scanner.feed("=s>")) == ["f"]


def test_text_behind_the_calls_is_text() -> None:
    text = "<tool_call><function=f></function></tool_call> after"
    assert FUNCTION.text(text) == " after"
    assert FUNCTION.text(text.replace("</tool_call>", "")) == " after"


def test_a_cut_call_is_a_prefix_of_json() -> None:
    text = value('say "hi" <b>\n')
    FUNCTION.check_cut(text, text.index("<parameter"), text.index("</parameter") + 12)


MARKUP = {
    "function": ["<tool_call>", "<function=f>", "<function=zz>", "<parameter=s>", "<s>", "</s>", "<parameter=n>", "<parameter=ns>",
                 "</parameter>", "</function>", "</tool_call>", "<|im_end|>"],
    "invoke": ["<minimax:tool_call>", '<invoke name="f">', "<invoke name='g'>", '<parameter name="s">', '<invoke name="f"/>',
               '<parameter name="o">', "</parameter>", "</invoke>", "</minimax:tool_call>"],
    "dsml": ["<｜DSML｜function_calls>", '<｜DSML｜invoke name="f">', '<｜DSML｜parameter name="s" string="true">',
             '<parameter name="n">', "</｜DSML｜parameter>", "</｜DSML｜invoke>", "</｜DSML｜function_calls>"],
    "xml": ['<function name="f">', '<function name="zz">', '<param name="s">', '<param name="o">', "<![CDATA[", "]]>",
            "</param>", "</function>", "&lt;", "&am"],
    "keys": ["<tool_call>f", "<tool_call>", "<arg_key>s</arg_key>", "<arg_key>", "</arg_key>", "<arg_value>", "</arg_value>",
             "</tool_call>", "\n"],
    "step": ["<｜tool_calls_begin｜>", "<｜tool_call_begin｜>", "function<｜tool_sep｜>", '<steptml:invoke name="f">',
             '<steptml:parameter name="s">', "</steptml:parameter>", "</steptml:invoke>", "<｜tool_call_end｜>"],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", READERS)
def test_any_text_reads_the_same_however_it_is_cut(name: str) -> None:
    @settings(max_examples=80)
    @given(hostile(*MARKUP[name]), st.randoms(use_true_random=False), st.booleans())
    def holds(text: str, rng: random.Random, cut: bool) -> None:
        READERS[name].check_any(MARKUP[name][0] + text, rng, cut=cut)

    holds()


NOISE = r"(?:\s|<｜tool_(?:call_begin|call_end|sep)｜>|function<｜tool_sep｜>)*"
EMPTY = re.compile(rf"<([｜|:\w]*calls?)>{NOISE}</\1>|<｜tool_calls_begin｜>{NOISE}<｜tool_calls_end｜>")


@pytest.mark.parametrize("name", READERS)
def test_any_text_comes_out_where_nothing_is_offered(name: str) -> None:
    @settings(max_examples=30)
    @given(hostile(*MARKUP[name]))
    def holds(text: str) -> None:
        assume(not EMPTY.search(MARKUP[name][0] + text))  # no call at all is nothing but markup
        READERS[name].check_refused(f"a{MARKUP[name][0]}{text}b")

    holds()


STRINGS = st.text(max_size=40) | st.lists(
    st.sampled_from(["<", "</", "a", "\n", "\r\n", "&", '"', "\\", "é🎉", "]]"])
).map("".join)


@given(STRINGS)
def test_any_string_comes_back_from_cdata(text: str) -> None:
    section = "<![CDATA[" + text.replace("]]>", "]]]]><![CDATA[>") + "]]>"
    assert XML.calls(f'<function name="f"><param name="s">{section}</param></function>') == [("f", {"s": text})]


@given(STRINGS)
def test_any_string_without_tags_comes_back_from_its_lines(text: str) -> None:
    if "<" not in text:
        assert FUNCTION.calls(value(f"\n{text}\n")) == [("f", {"s": text})]


def test_white_space_between_closing_tags_may_have_any_length() -> None:
    for size in range(490, 530):
        text = f"<tool_call><function=f><parameter=s>a</parameter>{' ' * size}</function></tool_call>"
        assert FUNCTION.calls(text) == [("f", {"s": "a"})], size


@pytest.mark.parametrize(
    "unit", ["a b ", "\n", "<b>", "</parameter> ", "\n</function>\n", "\n<parameter=zz>", "</", "&lt;"]
)
@pytest.mark.parametrize("step", [4, 0])
def test_work_grows_with_the_text_and_no_faster(unit: str, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    FUNCTION.check_linear("<tool_call><function=f><parameter=s>\n", unit, monkeypatch, step=step, size=8_000)


def test_a_call_may_be_closed_in_another_way_or_by_the_texts_end() -> None:
    slots = Slots(call="<c={name}>{slots}<|call|>", slot="<p={key}>{value}</p>", ends=("<|end|>",), open_end=True)
    calls = reader("<c=", slots, consume=False)
    for end in ("<|call|>", "<|end|>", ""):
        call = calls.call(f"<c=f><p=n>1</p>{end}")
        assert (call.arguments, call.complete, call.repaired) == ('{"n": 1}', True, False)
    assert calls.calls("<c=f><p=n>1</p><|end|><c=g><|call|><c=f>") == [("f", {"n": 1}), ("g", {}), ("f", {})]
    # Within a value the end of the text is none of the call.
    (cut,) = calls_in(calls.events(["<c=f><p=s>a"]))
    assert not cut.complete
