from __future__ import annotations

import json
import random
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from toolcall_middleware.parsing.calls.json_calls import JsonCallSyntax, read_json
from toolcall_middleware.parsing.cursor import Cursor, NotACall, Steps
from toolcall_middleware.parsing.events import CallArgs, CallEnd, CallStart, Event, Malformed, Reasoning, Stop, Text
from toolcall_middleware.parsing.sink import ReaderOptions
from toolcall_middleware.parsing.text.grammar import Grammar, Opener, Where
from toolcall_middleware.parsing.text.scanner import Scanner

from .meter import work
from .streams import alike, calls_in, cut_at, merged, random_cuts, read, shown_in, text_in, thought_in

BARE = JsonCallSyntax(bare=True, wrappers=frozenset({"tool_calls"}))
WRAPPED = JsonCallSyntax(bare=True, wrappers=frozenset({"tool_calls"}), wrapper_only=True)


def tag(marker: str, close: str) -> Opener:
    syntax = JsonCallSyntax(close=(close,) if close else ())
    return Opener(marker=marker, body=lambda c: read_json(c, syntax))


# Markers that begin alike, a marker that begins as a bare call does, and one that only a pattern can tell.
GRAMMAR = Grammar(
    openers=(
        Opener(
            pattern=r"\{[ \n]{0,8}\"tool_calls\"[ ]{0,8}:",
            consume=False,
            body=lambda c: read_json(c, BARE if c.at_start else WRAPPED),
            fences=frozenset({"json"}),
        ),
        Opener(marker="{", where=Where.START, consume=False, body=lambda c: read_json(c, BARE)),
        Opener(marker="[", where=Where.START, consume=False, body=lambda c: read_json(c, BARE)),
        tag("<tool_call>", "</tool_call>"),
        tag("<tool_calls>", "</tool_calls>"),
        tag("[CALL]", "[/CALL]"),
        tag("<tool_call>>", ""),
    ),
    reasoning=(("<think>", "</think>"), ("[THINK]", "[/THINK]")),
    stops=("<tool_response>", "[INST]"),
    closers=("</function>",),
)
NAMES = frozenset({"f", "g", "get_weather"})
F = '{"name": "f", "arguments": {"x": 1}}'
CALL = f"<tool_call>{F}</tool_call>"
FENCED = f'```json\n{{"tool_calls": [{F}]}}\n```'


def fresh(
    *,
    unknown_tool: str = "text",
    parse_reasoning: bool = False,
    keep_raw: bool = False,
    grammar: Grammar = GRAMMAR,
) -> Scanner:
    return Scanner(
        grammar,
        NAMES.__contains__,
        options=ReaderOptions(unknown_tool=unknown_tool, parse_reasoning=parse_reasoning, keep_raw=keep_raw),
    )


def parts(text: str) -> tuple[str, int]:
    """The text outside of calls and how many calls there are; the same however the text is cut."""
    whole = alike(fresh, text)
    return shown_in(whole), len(calls_in(whole))


# -- what is a call, and what is an example --------------------------------------------------------------------------

# A call that is nothing but markup.
CALLS = [
    CALL,
    f"<tool_call>\n{F}\n</tool_call>",
    f"<tool_calls>[{F}]</tool_calls>",
    f"[CALL]{F}[/CALL]",
    F,
    f"[{F}]",
    f'{{"tool_calls": [{F}]}}',
    f"```json\n{F}\n```",
    f"```\n{CALL}\n```",
    f"~~~\n{CALL}\n~~~",
    f"  ```json\n  {F}\n  ```",
    f"\n\n```xml\n\n{CALL}\n```\n",
    f"````\n{CALL}\n````",
]


# Text and a call: what is left when the call is taken out.
BESIDE = [
    (f"Hi {CALL} there", "Hi  there", 1),
    (f"Hi\n{CALL}\nthere", "Hi\n\nthere", 1),
    (f'Sure:\n```json\n{{"tool_calls": [{F}]}}\n```\nDone.', "Sure:\n\nDone.", 1),
    (f'Sure:\n~~~json\n{{"tool_calls": [{F}]}}\n~~~\nDone.', "Sure:\n\nDone.", 1),
    (f'Sure: {{"tool_calls": [{F}]}} Done.', "Sure:  Done.", 1),
    (f"```python\nprint(1)\n```\n{CALL}", "```python\nprint(1)\n```\n", 1),
    (f"a `b` {CALL}", "a `b` ", 1),
    (f"5` and\n{CALL}", "5` and\n", 1),
    (f"5` {CALL}", "5` ", 1),
    (f"a ``b` {CALL}", "a ``b` ", 1),
    (f"a ``` b\n{CALL}", "a ``` b\n", 1),
    (f"{CALL}```", "```", 1),
    (f"{F}; {F} ; and", " ; and", 2),
    (f"```json\n{F}\n```\n```json\n{F}\n```", "\n```json\n" + F + "\n```", 1),  # only the first opens the answer
    (f"x<tool_call><tool_call>{F}</tool_call>y", "xy", 1),
    (f"x<tool_call>{CALL}y", "xy", 1),
    (f"x\n</function>```\n{CALL}\n```\ny", "x\n</function>```\n\n```\ny", 1),  # no fence: text precedes it on its line
    (f"<tool_call>>{F} z", " z", 1),
    (FENCED + FENCED, "", 2),  # six backticks that close one and open the next
    (f"a\n{FENCED + FENCED + FENCED}\nb", "a\n\nb", 3),
    (f"{FENCED}```xml\n{CALL}\n```", "```xml\n" + CALL + "\n```", 1),
    (f"{FENCED}```\nb", "\nb", 1),
    (f"{FENCED}``` b", " b", 1),
    (f"{FENCED}```json", "```json", 1),
]


# A fence that held a call is closed by a run at least as long; models go on behind it on the same line. Where a language
# stands right behind the run, that one opens.
CLOSED_BY = [
    (f"```json\n{F}\n``````", "", 1),
    (f"```json\n{F}\n``````\nDone", "\nDone", 1),
    (f"```json\n{F}\n``` \t\r\nDone", " \t\r\nDone", 1),
    (f"~~~json\n{F}\n~~~~~\nDone", "\nDone", 1),
    (f"```json\n{F}\n```", "", 1),
    (f"```json\n{F}\n``", "", 1),  # half of it, where the text ends
    (f"~~~~json\n{F}\n~~~", "", 1),
    (f"````\n{CALL}\n`````<tool_response>x", "", 1),
    (f"```\n{CALL}\n```{CALL}", "", 2),
    (f"```json\n{F}\n```````json\n{F}\n```\nDone", f"\n```````json\n{F}\n```\nDone", 1),
    (f"```json\n{F}\n``` Now x", " Now x", 1),
    (f"```json\n{F}\n```. Now", ". Now", 1),
    (f"```json\n{F}\n``` and\n{CALL}\n", " and\n", 2),
    (f'```json\n{F}\n```json\n{{"tool_calls": [{F}]}}\n```\nDone', "\nDone", 2),
    (f"```json\n{F}\n```python\ncode\n```\nDone", "```python\ncode\n```\nDone", 1),
    (f"```json\n{F}\n```python", "```python", 1),
    (f"````json\n{F}\n```\n{CALL}\n````\n{CALL}", f"\n```\n{CALL}\n````\n", 2),
    (f"~~~json\n{F}\n```\n{CALL}\n~~~\n{CALL}", f"\n```\n{CALL}\n~~~\n", 2),
    (f"~~~json\n{F}\n~~~ <tool_re\n{CALL}", " <tool_re\n", 2),
]


ENDED = replace(GRAMMAR, ends=("<|end|>", "</s>"))
CODE = "So:\n```\nx\n```"


@pytest.mark.parametrize(
    ("text", "left", "calls"),
    [
        (f"{CODE}<|end|>", CODE, 0),
        (f"{CODE} </s>\n", f"{CODE} ", 0),
        (f"{CODE}<|end|>{CALL}", f"{CODE}<|end|>", 1),
        (f"{CODE}<|en {CALL}\n```", f"{CODE}<|en {CALL}\n```", 0),
        (f"So:\n````\nx\n```<|end|>{CALL}\n````", f"So:\n````\nx\n```<|end|>{CALL}\n````", 0),
    ],
)
def test_a_token_that_ends_the_turn_may_follow_a_closing_fence(text: str, left: str, calls: int) -> None:
    events = alike(lambda: fresh(grammar=ENDED), text)
    assert (text_in(events), len(calls_in(events))) == (left, calls)


EXAMPLES = [
    f"So:\n```\n{CALL}\n```\nok",
    f"So:\n```xml\n{CALL}\n```\nok",
    f"So:\n~~~\n{CALL}\n~~~\nok",
    f"So:\n~~~ `x`\n{CALL}\n~~~\nok",
    f"So:\n````\n```\n{CALL}\n```\n````\nok",
    f"So:\n~~~\n```\n~~\n~ {CALL}",
    f"So:\n~~~~\n~~~\n{CALL}\n~~~~~ x\n{CALL}\n~~~~~\nok",
    f"So:\n```\n``````json\n{CALL}\n``````\nok",
    f"```\ncode\n```{CALL}",
    f"So:\n```\n~~~\n{CALL}\n~~~\n{CALL}\n```\nok",
    f"So:\n```\n``` x\n{CALL}\n```\nok",  # a closing fence has nothing behind it
    f"So:\n```\n x ```\n{CALL}\n```\nok",  # and nothing before it
    f"- one\n  ```\n  {CALL}\n  ```\n- two",
    f"- ```\n  {CALL}\n  ```\n- two",
    f"1. ```json\n   {CALL}\n   ```\n",
    f"> ```\n> {CALL}\n> ```\n",
    f"* > 2) ```\n{CALL}\n```\n",
    f"So:\n\t```\n\t{CALL}\n\t```\n",
    f"So:\n{' ' * 80}```\n{CALL}\n```\n",
    f'So:\n```python\n{{"tool_calls": [{F}]}}\n```\n',
    f'So:\n```\n{{"tool_calls": [{F}]}}\n```\n',
    f"So:\n```json\n{F}\n```\n",
    f"So:\n```\n{CALL}",  # never closed
    f"Write `{CALL}` so.",
    f"Write ``{CALL}`` so.",
    f"Write `` ` {CALL} ` `` so.",
    f"Write ```{CALL}``` so.",
    f"`a` and `{CALL}` and `{CALL}`",
    f'`{{"tool_calls": [{F}]}}`',
    f"Text. {F}",
    f"Text.\n{F}",
    f"Text. [{F}]",
    f"```python\nx = 1\n```\n```json\n{F}\n```",
    "<tool_call>", "</tool_call>", "<tool_call", "<tool_call >", "<tool_call>{", '<tool_call>{"name"', "<tool_calls>[]",
    '<tool_call>{"name": ', "<tool_call>f</tool_call>", '<tool_call>{"a": 1}</tool_call>', "<tool_call>[1]",
    '{"name": "Alice", "age": 3}', '{"names": []}', "{}", "[]", "{", "[", '{"tool_calls": []}', '{"tool_calls": 3}',
    '[{"name": "Alice"}]', "[CAL", "[CALL]", "[1, 2]", '{"name": "f"}', '{"name": "f", "arguments": {bad json}}',
    '{"name": "f", "arguments": {"x"}}', '{"name": "zz", "arguments": {}}', "{{name}}", "{% if f %}", "[f](http://f)",
    "", " ", "\n\n", "  \n\t", "`", "```", "```json", "```json\n", "```json\n{", "~~~", "~", "``", "<", "<t",
    "`" * 150 + "\n" + "`" * 150, "```" + "x" * 150 + "\n<think>", "```json" + "\n" * 250 + F, "~" * 150 + "\n" + F,
    "a <think> b", "x\ny <think>z</think>",
]  # fmt: skip


# White space alone beside calls is markup.
SPACE = [
    (f"  {CALL}", "", 1),
    (f"{CALL}\n\n  \n{CALL}", "", 2),
    (f"{CALL}\n", "", 1),
    (f"\n \n{CALL}\n \n", "", 1),
    (f"  a\n\n{CALL}\n\nb\n", "  a\n\n\n\nb\n", 1),
    (f"{CALL} \n b", " \n b", 1),
    (f"a {CALL} \n {CALL}b", "a b", 2),
    ("  \n ", "  \n ", 0),
    (f"<think>t</think>\n\n{CALL}", "<think>t</think>", 1),
    ("<think>t</think>\n\nx", "<think>t</think>\n\nx", 0),
    (f"\n<think>t</think>{CALL}", "\n<think>t</think>", 1),
    (f"{CALL}\n```\nx", "\n```\nx", 1),
    (f"```json\n{F}\n```\n\n", "", 1),
    (f"```json\n{F}\n\nmore\n```\nafter", "\n\nmore\n```\nafter", 1),
]


@pytest.mark.parametrize(
    ("text", "left", "calls"),
    [*((text, "", 1) for text in CALLS), *BESIDE, *CLOSED_BY, *((text, text, 0) for text in EXAMPLES), *SPACE],
)
def test_what_a_text_leaves_outside_of_its_calls(text: str, left: str, calls: int) -> None:
    assert parts(text) == (left, calls)


# -- what is held back -----------------------------------------------------------------------------------------------

# After this has been fed, character by character, exactly this has come out.
HELD = [
    ("Hello", "Hello"),
    ("Hello ", "Hello "),
    ("Hello\n", "Hello\n"),
    ("a < b", "a < b"),
    ("a <", "a "),
    ("a <b", "a <b"),
    ("a <tool_cal", "a "),
    ("a <tool_cat", "a <tool_cat"),
    ("a <tool_call>", "a "),
    ("a <tool_call> not", "a <tool_call> not"),
    ('a <tool_call>{"name": "f', "a "),
    ('a <tool_call>{"nome": "f"', "a "),
    ('a <tool_call>{"nome": "f"}', 'a <tool_call>{"nome": "f"}'),
    ('a <tool_call>{"name": "zz"', 'a <tool_call>{"name": "zz"'),
    ("a [", "a "),
    ("a [x", "a [x"),
    ("a {", "a "),
    ('a {"', "a "),
    ('a {"t', "a "),
    ('a {"x', 'a {"x'),
    ("{", ""),
    ('{"', ""),
    ('{"title": ', '{"title": '),
    ('{"name": "Al', ""),
    ('{"name": "Alice"', '{"name": "Alice"'),
    ("[1", "[1"),
    ("  ", ""),
    ("  a", "  a"),
    ("a `b", "a `b"),
    ("a `", "a "),
    ("a ``", "a "),
    ("a `b <tool_call>", "a `b "),  # a marker behind an unpaired backtick, until the line tells
    ("a `b <tool_call> c", "a `b "),
    ("a `b <tool_call> c` d", "a `b <tool_call> c` d"),
    ("a `b <tool_call> c\n", "a `b <tool_call> c\n"),
    ("a\n``", "a\n"),
    ("a\n```py", "a\n"),  # a fence, until its line is known
    ("a\n```python\n", "a\n```python\n"),
    ("a\n```python\n<tool_call>{", "a\n```python\n<tool_call>{"),
    ("a\n```json\n", "a\n"),  # which may hold a call
    ("a\n```json\n{", "a\n"),
    ('a\n```json\n{"x', 'a\n```json\n{"x'),
    ("a\n```py\nx\n``", "a\n```py\nx\n"),
    ("a\n```py\nx `", "a\n```py\nx `"),
    ("a\n```py\nx\n```", "a\n```py\nx\n"),
    ("a\n```py\nx\n```\n", "a\n```py\nx\n```\n"),
    ("<", ""),
    ("<think", ""),
    ("<think>Hm", "<think>Hm"),
    ("<think>Hm</", "<think>Hm"),
    ("<think>Hm</thing", "<think>Hm</thing"),
    ("<think>Hm</think>", "<think>Hm</think>"),
    ("<think>Hm</think>\n\n", "<think>Hm</think>"),
    (f"{CALL}\n", ""),
    (f"{CALL}\nx", "\nx"),
    (f"{CALL} <tool_resp", ""),
    (f"{CALL} <tool_repo", " <tool_repo"),
    ("x <tool_resp", "x "),
]


@pytest.mark.parametrize(("fed", "out"), HELD)
def test_holds_back_only_what_it_must(fed: str, out: str) -> None:
    scanner = fresh()
    events = [event for char in fed for event in scanner.feed(char)]
    assert shown_in(events) == out
    scanner = fresh()
    assert shown_in(scanner.feed(fed)) == out


def test_a_call_leaves_as_it_is_written() -> None:
    scanner = fresh()

    def after(text: str) -> list[Event]:
        return merged(event for char in text for event in scanner.feed(char))

    assert after('<tool_call>{"name": "f') == []
    assert after('", "arguments": ') == []
    assert after('{"city": "Par') == [CallStart("f"), CallArgs('{"city": "Par')]
    assert after("is") == [CallArgs("is")]
    assert after('"}') == [CallArgs('"}')]
    assert after("}") == [CallEnd()]
    assert after("</tool_call>\n") == []
    assert after("So") == [Text("\nSo")]


# -- reasoning -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "thought", "shown", "calls"),
    [
        ("<think>a b</think>c", "a b", "c", 0),
        ("[THINK]a[/THINK]c", "a", "c", 0),
        ("<think>a [/THINK] b</think>c", "a [/THINK] b", "c", 0),
        (f"<think>{CALL}</think>", CALL, "", 0),
        ("<think>```\n</think>c", "```\n", "c", 0),
        ("<think>a", "a", "", 0),
        ("<think>a</thin", "a</thin", "", 0),
        ("<think></think>", "", "", 0),
        (f"<think>a</think>{F}", "a", "", 1),
        (f"<think>a</think>\n```json\n{F}\n```", "a", "", 1),
        (f"<think>a</think>b<think>c</think>{CALL}", "a", "b<think>c</think>", 1),  # not in the middle of a line
        (f"<think>a</think>b\n<think>c</think>{CALL}", "ac", "b\n", 1),
        (f"{CALL}\n<think>c</think>\n{CALL}", "c", "", 2),
        ("b\n</function><think>c</think>d", "", "b\n</function><think>c</think>d", 0),
        ("`<think>` is a tag", "", "`<think>` is a tag", 0),
        ("So:\n```\n<think>\n```\n", "", "So:\n```\n<think>\n```\n", 0),
        (f"thought</think>{F}", "", "thought</think>", 1),  # the template had opened it
        (f"thought</think>\n\n{CALL}", "", "thought</think>", 1),
        ("thought</think>\n\nHi", "", "thought</think>\n\nHi", 0),
        (f"It ends with `</think>` {F}", "", f"It ends with `</think>` {F}", 0),
    ],
)
def test_reasoning_is_told_from_text(text: str, thought: str, shown: str, calls: int) -> None:
    events = alike(fresh, text)
    assert (thought_in(events), text_in(events), len(calls_in(events))) == (thought, shown, calls)


def test_tags_of_reasoning_are_told_from_thought() -> None:
    events = read(fresh(), ["\n<think>a</think>b"])
    assert events == [
        Reasoning("\n<think>", markup=True),
        Reasoning("a"),
        Reasoning("</think>", markup=True),
        Text("b"),
    ]


@pytest.mark.parametrize(
    ("text", "thought", "shown", "calls"),
    [
        (f"<think>a {CALL} b</think>c", "a  b", "c", 1),
        (f"<think>a</think>{CALL}", "a", "", 1),
        (f"<think>a `{CALL}`</think>", f"a `{CALL}`", "", 0),
        ("<think>a ` b</think>c", "a ` b", "c", 0),
        (f"<think>{F}</think>c", F, "c", 0),  # what only opens an answer does not open in reasoning
        ("<think>a [/THINK]</think>c", "a [/THINK]", "c", 0),
        (f"<think>a\n{FENCED}\nb</think>c", "a\n\nb", "c", 1),
        (f"<think>a {FENCED} b</think>c", "a  b", "c", 1),
        (f"<think>{FENCED[:-4]}</think>c", "", "c", 1),
        (f"<think>{FENCED[:-4]}\nb</think>c", "\nb", "c", 1),
        (f"<think>{FENCED[:-4]}\n</think>c", "\n", "c", 1),
        (f"<think>{FENCED}\n</think>c", "\n", "c", 1),
        (f"<think>\n</think>{CALL}", "\n", "", 1),
        # White space before a closing tag that belongs to no call goes with that tag.
        (f"<think>a{CALL}\n\n</function>b</think>c", "ab", "c", 1),
        (f"<think>{CALL}\n</function>\n</think>c", "\n", "c", 1),
        (f"<think>a{FENCED}\n</function> b</think>c", "a b", "c", 1),
        (f"<think>a{CALL}\n{CALL} b", "a b", "", 2),
        (f"<think>a{CALL}\n", "a\n", "", 1),
        ("<think>a\n```json\n{}\n</think>c", "a\n```json\n{}\n", "c", 0),
        (
            '<think>```json\n{"tool_calls": [{"name": "h"}]}\n</think>c',
            '```json\n{"tool_calls": [{"name": "h"}]}\n',
            "c",
            0,
        ),
    ],
)
def test_calls_in_reasoning_are_read_where_asked(text: str, thought: str, shown: str, calls: int) -> None:
    events = alike(lambda: fresh(parse_reasoning=True), text)
    assert (thought_in(events), text_in(events), len(calls_in(events))) == (thought, shown, calls)


# -- somebody else's turn --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "shown", "stopped"),
    [
        (f"{CALL}<tool_response>20", "", True),
        (f"{CALL}\n<tool_response>20</tool_response>{CALL}", "", True),
        (f"a {CALL} b [INST] c", "a  b ", True),
        (f"```json\n{F}\n```\n<tool_response>20", "", True),
        ("a <tool_response> b", "a <tool_response> b", False),  # only after a call
        (f"{CALL} `<tool_response>` b", " `<tool_response>` b", False),
        (f"{CALL}\n```\n<tool_response>\n```\n", "\n```\n<tool_response>\n```\n", False),
        (f"{CALL}<think><tool_response></think>b", "b", False),
        (f"{CALL} <tool_respons", " <tool_respons", False),
    ],
)
def test_after_a_call_somebody_elses_turn_ends_the_answer(text: str, shown: str, stopped: bool) -> None:
    events = alike(fresh, text)
    assert text_in(events) == shown
    assert any(isinstance(event, Stop) for event in events) == stopped
    assert len(calls_in(events)) <= 1


def test_nothing_is_read_after_the_stop() -> None:
    scanner = fresh()
    scanner.feed(f"{CALL}<tool_response>")
    assert scanner.stopped
    assert scanner.feed("x") == []
    assert scanner.finish() == []


# -- names that are not offered --------------------------------------------------------------------------------------

UNKNOWN = '<tool_call>{"name": "zz", "arguments": {"q": 1}}</tool_call>'


@pytest.mark.parametrize(
    ("mode", "text", "shown", "names"),
    [
        ("text", f"a {UNKNOWN} b", f"a {UNKNOWN} b", []),
        ("text", f"a {UNKNOWN}{CALL} b", f"a {UNKNOWN} b", ["f"]),
        ("drop", f"a {UNKNOWN} b", "a  b", []),
        ("drop", f"{UNKNOWN}\n{CALL}", "", ["f"]),
        ("forward", f"a {UNKNOWN} b", "a  b", ["zz"]),
        ("forward", f"{UNKNOWN}{CALL}", "", ["zz", "f"]),
        ("error", f"a {UNKNOWN} b", f"a {UNKNOWN} b", []),
        ("text", '{"name": "zz", "arguments": {}}', '{"name": "zz", "arguments": {}}', []),
        ("forward", '{"name": "zz", "arguments": {}}', '{"name": "zz", "arguments": {}}', []),  # no marker: it is data
        ("drop", '{"name": "zz", "arguments": {}}', '{"name": "zz", "arguments": {}}', []),
    ],
)
def test_a_name_that_is_not_offered(mode: str, text: str, shown: str, names: list[str]) -> None:
    events = alike(lambda: fresh(unknown_tool=mode), text)
    assert text_in(events) == shown
    assert [call.name for call in calls_in(events)] == names
    errors = [(event.name, event.reason) for event in events if isinstance(event, Malformed)]
    assert errors == ([("zz", "unknown_tool")] if mode == "error" else [])


# -- endings ---------------------------------------------------------------------------------------------------------


# The text after a call's name, where it ends there by itself, and where the model was cut off: arguments, complete.
ENDINGS = [
    (', "arguments": {"a": [1, "b"', ('{"a": [1, "b"]}', True), ('{"a": [1, "b"', False)),
    (', "arguments": {"a": [1, "b', ('{"a": [1, "b', False), ('{"a": [1, "b', False)),
    (', "arguments": {"a": 12', ('{"a": 12', False), ('{"a": 12', False)),
    (', "arguments": {"a": 1,', ('{"a": 1', False), ('{"a": 1', False)),
    (', "arguments": {"a": tru', ('{"a": tru', False), ('{"a": tru', False)),
    (', "arguments": {"a":', ('{"a":', False), ('{"a":', False)),
    (', "arguments": {"a', ('{"a', False), ('{"a', False)),
    (', "arguments": "{\\"a\\": 1', ('{"a": ', False), ('{"a": ', False)),
    (', "arguments": {}', ("{}", True), ("{}", False)),
    (', "argum', ("", False), ("", False)),
    (", argum", ("", False), ("", False)),
    ("", ("{}", True), ("", False)),
]


@pytest.mark.parametrize(("written", "ended", "cut"), ENDINGS)
def test_a_call_that_ends_early_is_closed_or_cut(written: str, ended: tuple[str, bool], cut: tuple[str, bool]) -> None:
    for was_cut, expected in ((False, ended), (True, cut)):
        (call,) = calls_in(alike(fresh, f'<tool_call>{{"name": "f"{written}', cut=was_cut))
        assert (call.name, call.arguments, call.complete) == ("f", *expected)
        assert call.repaired or was_cut


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("On it.\n<tool_call>", "On it.\n"),
        ("On it.\n<tool_call>\n", "On it.\n"),
        ("On it.\n<tool_ca", "On it.\n<tool_ca"),
        ('On it.\n<tool_call>{"name": "get_w', 'On it.\n<tool_call>{"name": "get_w'),
        ("<", "<"),
        ("{", "{"),
        ("[", "["),
    ],
)
def test_text_that_was_cut_off_before_a_call_is_kept_but_not_a_marker_alone(text: str, shown: str) -> None:
    for pieces in ([text], list(text)):
        assert shown_in(read(fresh(), pieces, cut=True)) == shown
        assert shown_in(read(fresh(), pieces)) == text


def test_the_raw_call_is_kept_where_asked() -> None:
    events = alike(lambda: fresh(keep_raw=True), f"a {CALL} b")
    assert [event.raw for event in events if isinstance(event, CallEnd)] == [CALL]


# -- any text --------------------------------------------------------------------------------------------------------

FRAGMENTS = [
    "<tool_call>", "</tool_call>", "<tool_calls>", "[CALL]", "[/CALL]", F, '{"name": "g", "arguments": "{\\"a\\": 2}"}',
    '{"tool_calls": [', '{"name": "f"', '"arguments": ', "]}", "`", "``", "```", "```json\n", "\n", "\n\n", " ",
    "hello", "<think>", "</think>", "[THINK]", "[/THINK]", "~~~", "{", "}", "[", "]", '"', ",", "<", "x", ":", ";",
    '{"name": "zz", "arguments": {}}', "<tool_response>", "[INST]", "'", "\\", "</tool", "_call>", "json", "\n- ",
    '{"arguments": {"q": 1}, "name": "f"}', "> ", " " * 70, "`" * 130, "~" * 110, "\n" * 260, "{bad json}", "null",
    '"parameters": ', '"id": "7", ', '"function": {"name": "g", ', "\xa0", '{"name": "f", "arguments": "{"a": "b"}"}',
    'name: "f"', "True", CALL, "<tool_call>>",
]  # fmt: skip
texts = st.lists(st.sampled_from(FRAGMENTS) | st.text(max_size=3), max_size=10).map("".join)


@pytest.mark.slow
@settings(max_examples=300)
@given(
    texts,
    st.sampled_from(["text", "text", "drop", "forward", "error"]),
    st.booleans(),
    st.booleans(),
    st.booleans(),
    st.integers(0, 9),
)
@example("[THINK]", "text", False, False, False, 0)
@example("`" * 130 + "\n" + CALL, "text", False, False, False, 0)
@example(" " * 70 + "```\n" + CALL, "text", False, False, False, 0)
@example(F + "\n" * 260 + F, "text", False, False, False, 0)
@example('{"name": "f", "arguments": {bad json}', "text", False, False, False, 0)
@example("<think>> x} " + F, "text", True, False, False, 0)
def test_any_text_reads_the_same_however_it_is_cut(
    text: str, unknown: str, parse_reasoning: bool, keep_raw: bool, cut: bool, seed: int
) -> None:
    def reader() -> Scanner:
        return fresh(unknown_tool=unknown, parse_reasoning=parse_reasoning, keep_raw=keep_raw)

    whole = read(reader(), [text], cut=cut)
    assert read(reader(), list(text), cut=cut) == whole
    for pieces in random_cuts(text, 8, seed):
        assert read(reader(), pieces, cut=cut) == whole
    calls = calls_in(whole)
    for call in calls:
        if call.complete:
            json.loads(call.arguments)
    stopped = any(isinstance(event, Stop) for event in whole)
    if not calls and not stopped and unknown in {"text", "error"}:
        shown = shown_in(whole)
        assert shown == text or (cut and text.startswith(shown)), "nothing is lost where there is no call"


prose = st.text(st.characters(exclude_characters="`~<[{", exclude_categories=["Cs"]), max_size=20)
calls_written = st.sampled_from([CALL, f"<tool_call>\n{F}\n</tool_call>", f"[CALL]{F}[/CALL]",
                                 f"<tool_calls>[{F}, {F}]</tool_calls>"])  # fmt: skip


@given(st.lists(st.tuples(prose, calls_written), min_size=1, max_size=5), prose)
@example([("", CALL)], "")
@example([(" ", CALL), ("\n", CALL)], "\n")
def test_the_text_outside_of_calls_is_exact(pairs: list[tuple[str, str]], after: str) -> None:
    written = "".join(text + call for text, call in pairs) + after
    events = read(fresh(), [written])
    expected = [text for text, _ in pairs] + [after]
    assert text_in(events) == "".join(text for text in expected if not blank(text))
    assert len(calls_in(events)) == sum(call.count(F) for _, call in pairs)
    assert read(fresh(), list(written)) == events


def blank(text: str) -> bool:
    return not text or text.isspace()


# -- linear work -----------------------------------------------------------------------------------------------------

UNITS = [
    "x", " ", "\n", "`", "``", "`a", "```", "```\n", "\n```\n", "\n```json\n", "\n```json\n{", "~", "~~~\n", "\n~~~x\n",
    "<", "<t", "<tool_cal", "<tool_call>", '<tool_call>{"a":', '<tool_call>{"name":', '<tool_call>{"name": "zz",',
    '<tool_call>{"name": "f", "arguments": {', "`<tool_call>", "` <tool_call> x\n", "a`b <tool_call>{", "</tool_call>",
    CALL, CALL + " ", CALL + "x ", UNKNOWN, "<think>", "</think>", "<think></think>", "\n<think>a</think>", "[", "{",
    '{"tool_calls":', '{"tool_calls": [', '{"tool_calls": []}', '{"name":', '{"name": "f",', '{"name": "f", "id": ',
    "]", "[THINK", "[CALL", "[CALL][", "<tool_response", "> ", "- ", "\n- ", "1. ```\n", '"', "\\", '"a": ', "{}", "[]",
    '{"a": "', "'", '<tool_call>{"name": "f", "arguments": "', "<tool_call>[" + F + ",", '<tool_call>{"arguments": {}',
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("step", [5, 0], ids=["in pieces", "whole"])
@pytest.mark.parametrize("before", ["", "a ", CALL, "`", '<tool_call>{"name": "f", "arguments": {"a": "'])
def test_work_grows_with_the_text_and_no_faster(before: str, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for unit in UNITS:
        texts = (before + unit * (size // len(unit)) for size in (1_500, 3_000))
        small, large = (work(fresh, text, step, monkeypatch) for text in texts)
        assert large <= 2.3 * small + 2_500, f"{unit!r} behind {before!r}: {small} and {large}"


@pytest.mark.slow
@pytest.mark.timeout(60)
@pytest.mark.parametrize("unit", ["<tool_call>", "`", "``a`", "<tool_cal", "x ", "> "])
def test_an_answer_of_megabytes_without_a_line_end_is_read(unit: str) -> None:
    # Looking back, or copying the rest, at each marker would be 10**11 characters here.
    text = unit * (1_000_000 // len(unit))
    for pieces in ([text], cut_at(text, range(0, len(text), 65_536))):
        scanner = fresh()
        shown = sum(len(shown_in(scanner.feed(piece))) for piece in pieces) + len(shown_in(scanner.finish()))
        assert shown == len(text)


def test_one_scanner_is_not_another() -> None:
    # The grammar is shared between requests; nothing else is.
    rng = random.Random(1)
    texts = [f"a {CALL}", "`x", "<think>t", '{"name": "f", "arguments": {"a": "']
    scanners = [fresh() for _ in texts]
    events: list[list[Event]] = [[] for _ in texts]
    waiting = [list(text) for text in texts]
    while any(waiting):
        which = rng.choice([number for number, rest in enumerate(waiting) if rest])
        events[which] += scanners[which].feed(waiting[which].pop(0))
    for number, scanner in enumerate(scanners):
        events[number] += scanner.finish()
    assert [merged(found) for found in events] == [read(fresh(), [text]) for text in texts]


# -- bodies ----------------------------------------------------------------------------------------------------------


def refuses(_: Cursor) -> Steps[None]:
    """A reader that is not for what is here, and says so before it has read anything."""
    yield from ()
    raise NotACall


@pytest.mark.timeout(10)
def test_a_body_that_refuses_its_own_opening_is_not_opened_there_again() -> None:
    grammar = Grammar((Opener(marker="<f=", consume=False, body=refuses),))
    text = "a <f=<f= b<f="
    assert alike(lambda: fresh(grammar=grammar), text) == [Text(text)]


@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (f'Call it: {{"tool_calls": [{F}]}}', 1),
        (f'"message": {{"tool_calls": [{F}]}}', 0),
        (f'"message":\n{" " * 40}{{"tool_calls": [{F}]}}', 0),
        (f'x = {{"tool_calls": [{F}]}}', 0),
        (f'send({{"tool_calls": [{F}]}})', 0),
    ],
)
def test_an_opening_may_not_stand_behind_what_makes_it_data(text: str, calls: int) -> None:
    opener = replace(GRAMMAR.openers[0], not_after=('":', "=", "("))
    grammar = replace(GRAMMAR, openers=(opener, *GRAMMAR.openers[1:]))
    assert len(calls_in(alike(lambda: fresh(grammar=grammar), text))) == calls


@pytest.mark.parametrize(("text", "raw"), [(CALL, ""), (CALL[:-20], CALL[:-20])], ids=["complete", "cut off"])
def test_the_raw_text_of_a_complete_call_is_kept_only_where_it_is_wanted(text: str, raw: str) -> None:
    reader = Scanner(GRAMMAR, NAMES.__contains__, options=ReaderOptions(keep_raw=True, keep_complete=False))
    events = [*reader.feed(text), *reader.finish(cut=True)]
    assert [event.raw for event in events if isinstance(event, CallEnd)] == [raw]


# -- white space without an end ------------------------------------------------------------------------------------

_MUCH = 1 << 14  # more is not held


@pytest.mark.parametrize("before", ["", CALL, f"```json\n{F}"])
def test_white_space_without_an_end_leaves(before: str) -> None:
    scanner = fresh()
    scanner.feed(before)
    left = "".join(text_in(scanner.feed(" \n" * 8)) for _ in range(_MUCH // 8))
    assert len(left) > _MUCH
    assert left == " \n" * (len(left) // 2)


@pytest.mark.parametrize("count", [_MUCH - 1, _MUCH, _MUCH + 1, 2 * _MUCH])
@pytest.mark.parametrize("before", ["", CALL])
@pytest.mark.parametrize("behind", [CALL, F, "text", ""])
def test_much_white_space_is_the_same_however_it_is_cut(before: str, behind: str, count: int) -> None:
    text = before + " " * count + behind
    whole = read(fresh(), [text])
    is_text = behind == "text" or (behind == F and before) or not (before or behind)
    assert (len(text_in(whole)) >= count) == bool(count > _MUCH or is_text)
    rng = random.Random(count)
    begin, end = len(before) + _MUCH, len(before) + count
    cuts = [[begin - 1], [begin], [begin + 1], [end], [end + 1], [5, begin, end], list(range(0, len(text), 97))]
    for at in [*map(sorted, cuts), sorted(rng.sample(range(len(text)), 40))]:
        assert merged(read(fresh(), cut_at(text, at))) == merged(whole)
