from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcall_middleware.formats.families.messages import END, HARMONY
from toolcall_middleware.parsing.calls.harmony_messages import read_message
from toolcall_middleware.parsing.cursor import read_thought
from toolcall_middleware.parsing.events import Reasoning, Text
from toolcall_middleware.parsing.text.grammar import Opener, Where

from .bodies import Reader, hostile, started
from .streams import alike, calls_in, text_in, thought_in

ENDS = HARMONY.markup.ends
TOOLS: dict[str, dict[str, Any]] = {
    "f": {"properties": {"s": {"type": "string"}, "n": {"type": "integer"}}},
    "g": {},
    "python": {"properties": {"code": {"type": "string"}}},
    "a.b": {},
    "two": {"properties": {"s": {"type": "string"}, "n": {"type": "integer"}}, "required": ["s", "n"]},
}
MESSAGES = Reader(
    [
        END,
        Opener(marker="<|channel|>", body=read_message),
        Opener(marker="<|start|>assistant", body=read_message),
        *(Opener(marker=head, body=read_message, where=Where.START) for head in ("to=", "assistant<|channel|>")),
    ],
    TOOLS,
)
ANSWERS = Reader(MESSAGES.openers, TOOLS, ends=ENDS)
SPACED = Reader(
    [*MESSAGES.openers, Opener(marker="<|start|> assistant", body=MESSAGES.openers[1].body)], TOOLS, ends=ENDS
)
THOUGHTS = Reader([Opener(marker="<|channel>thought", body=lambda c: read_thought(c, "<channel|>"))])

HEADERS = {
    "channel, recipient, type": "<|channel|>commentary to=functions.f <|constrain|>json<|message|>",
    "no space": "<|channel|>commentary to=functions.f<|constrain|>json<|message|>",
    "no type": "<|channel|>commentary to=functions.f<|message|>",
    "type as a word": "<|channel|>commentary to=functions.f code<|message|>",
    "recipient first": "<|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json<|message|>",
    "the prompt holds the start": "to=functions.f<|channel|>commentary<|message|>",
    "space before that": " to=functions.f<|channel|>commentary json<|message|>",
    "no channel": "<|start|>assistant to=functions.f<|message|>",
    "another channel": "<|channel|>analysis to=functions.f<|message|>",
    "no namespace": "<|channel|>commentary to=f<|message|>",
    "spaces": "<|start|> assistant to=functions.f<|channel|> commentary <|constrain|>  json<|message|> ",
    "start and channel": "<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>",
}


@pytest.mark.parametrize("header", HEADERS.values(), ids=HEADERS)
@pytest.mark.parametrize("end", ["<|call|>", "<|end|>", "<|return|>", "", "\n<|call|>"])
def test_a_message_to_a_function_is_a_call(header: str, end: str) -> None:
    assert SPACED.calls(header + '{"n": 1}' + end) == [("f", {"n": 1})]
    assert SPACED.text(header + '{"n": 1}' + end) == ""


# As LLM-jp's tokenizer gives its messages: (text, content, thoughts).
SPACES = [
    ("<|channel|> final<|message|> one<|return|>", "one", ""),
    ("<|channel|> final<|message|>  two<|return|>", " two", ""),
    ("<|channel|> final<|message|>none<|return|>", "none", ""),
    ("<|channel|>final<|message|> gpt-oss's own<|return|>", " gpt-oss's own", ""),
    ("<|start|> assistant<|channel|> analysis<|message|> a <|start|> b<|end|>", "", "a <|start|> b"),
    (
        "<|channel|> analysis<|message|> a<|end|><|start|> assistant<|channel|> final<|message|> b",
        "b",
        "a",
    ),
    ("<|channel|> analysis<|message|> a<|start|> assistant<|channel|> final<|message|> b", "b", "a"),
    ("<|channel|> analysis<|message|> a<|start|> assistants", "", "a<|start|> assistants"),
    ("<|channel|> final<|message|> ", "", ""),
]


ARGUMENTS: list[tuple[str, Any]] = [
    ("{}", {}),
    ("", {}),
    ("null", {}),
    (' \n{"s": "<|call|> <|end|>"}', {"s": "<|call|> <|end|>"}),
    ('"{\\"n\\": 1}"', {"n": 1}),
    ("{'n': 1,}", {"n": 1}),
    ('{"n": 1', {"n": 1}),
]


@pytest.mark.parametrize(("written", "meant"), ARGUMENTS)
def test_arguments_are_json_more_or_less(written: str, meant: Any) -> None:
    assert MESSAGES.calls(f"<|channel|>commentary to=functions.f<|message|>{written}<|call|>") == [("f", meant)]


def test_text_for_a_tool_that_takes_text_is_its_first_parameter() -> None:
    header = "<|channel|>analysis to=python code<|message|>"
    assert MESSAGES.calls(header + 'print("hi")\nx<|call|>') == [("python", {"code": 'print("hi")\nx'})]
    assert MESSAGES.calls(header + "x = 1") == [("python", {"code": "x = 1"})]
    assert MESSAGES.calls("<|channel|>commentary to=functions.g<|message|>a <|b<|end|>") == [("g", {"input": "a <|b"})]
    assert MESSAGES.delay(header, "abc def " * 9, "<|call|>") <= 1
    # After a message to a recipient, such text ends where the next message begins.
    text = "to=self<|message|>a to=python<|message|>x = 1 to=user<|message|>b"
    assert MESSAGES.calls(text) == [("python", {"code": "x = 1"})]


@pytest.mark.parametrize(
    "body", ["<atem:function_calls>", "<b>bold</b>", "<", "<|x", "some words", "nothing", "nul", "nullable = 1"]
)
def test_a_body_that_is_no_json_is_no_call_where_the_tool_takes_more_than_text(body: str) -> None:
    for header in ("<|start|>assistant to=functions.two<|message|>", "<|channel|>commentary to=two <|message|>\n"):
        for end in ("", "<|call|>", "<|end|>"):
            text = header + body + end
            assert not MESSAGES.calls(text)
            assert MESSAGES.text(text) == text
    # What begins with a tag is no text for a tool either.
    if body[0] == "<":
        assert not MESSAGES.calls(f"<|channel|>commentary to=functions.f<|message|>{body}<|call|>")


def test_a_call_that_was_cut_off_behind_its_header_is_begun() -> None:
    (call,) = calls_in(MESSAGES.events(["<|channel|>commentary to=functions.two<|message|>\n"], cut=True))
    assert (call.name, call.complete) == ("two", False)
    for body in ("null", "", "\n"):
        assert MESSAGES.calls(f"<|channel|>commentary to=functions.two<|message|>{body}<|call|>") == [("two", {})]
        assert MESSAGES.calls(f"<|channel|>commentary to=functions.two<|message|>{body}") == [("two", {})]


RECIPIENTS: list[tuple[str, str, str]] = [
    ("to=self<|message|>a<|eom|><|start|>assistant to=user<|message|>b<|eot|>", "b", "a"),
    ("to=user<|message|>b<|eot|>", "b", ""),
    ("<|start|>assistant to=self<|message|>a<|eom|>", "", "a"),
    ("to=self<|message|>a to=me or to=you, to=<|eom|>", "", "a to=me or to=you, to="),
    ("to=self<|message|>a to=user<|message|>b", "b", "a"),
    ("to=self<|message|>a to=self<|message|>b", "", "ab"),
    ("to=user<|message|>b to", "b to", ""),
    ("to=user<|message|>b to=x<|mess", "b to=x<|mess", ""),
]


SHOWN: list[tuple[str, str, str]] = [
    # Text, content, reasoning.
    ("<|channel|>final<|message|>a<|return|>", "a", ""),
    ("<|channel|>final<|message|>a", "a", ""),
    ("<|channel|>commentary<|message|>a<|end|>", "a", ""),
    ("<|channel|>analysis<|message|>a<|end|>", "", "a"),
    ("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b<|return|>", "b", "a"),
    ("<|channel|>analysis<|message|>a<|start|>assistant<|channel|>final<|message|>b", "b", "a"),
    ("<|channel|>analysis<|message|>a<|channel|>final<|message|>b", "b", "a"),
    ("<|start|>assistant<|message|>a<|end|>", "a", ""),
    ("<|channel|>commentary to=assistant<|message|>a<|end|>", "a", ""),
    ("<|channel|>commentary??<|message|>a<|end|>", "a", ""),
    ("<|channel|>nonsense<|message|>a<|end|>", "a", ""),
    ("<|channel|>final<|message|>a <|end|> b", "a <|end|> b", ""),
    ("<|channel|>final<|message|>a <|channel|> b <|start|> c", "a <|channel|> b <|start|> c", ""),
    ("<|channel|>analysis<|message|>a <|channel|>final: b<|end|>", "", "a <|channel|>final: b"),
    ("<|channel|>final<|message|>a<|end|><|start|>assistant", "a", ""),
    ("<|channel|>final<|message|>a <", "a <", ""),
    ("assistant<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b", "b", "a"),
    ("assistant<|channel|>analysis<|message|>a<|end|>assistant<|channel|>final<|message|>b<|end|>", "b", "a"),
    ("<|channel|>analysis<|message|>a <|end|>assistants<|end|>", "", "a <|end|>assistants"),
    ("<|channel|>analysis<|message|>a <|end|>assistant<|x", "", "a <|end|>assistant<|x"),
    ("assistant<|channel|> is", "assistant<|channel|> is", ""),
    ("<|channel|>commentary?commentary?<|end|><|start|>assistant<|channel|>final<|message|>b", "b", ""),
    ("<|channel|>??<|end|><|start|>assistant<|channel|>analysis<|message|>a<|end|>", "", "a"),
    ("<|channel|>commentary 2?<|end|><|channel|>final<|message|>b", "b", ""),
    ("<|channel|>Hm.<|end|><|start|>assistant<|channel|>final<|message|>b", "<|channel|>Hm.<|end|>b", ""),
    ("<|channel|>?<|end|> is it", "<|channel|>?<|end|> is it", ""),
    ("plain", "plain", ""),
    ("to=me it may concern", "to=me it may concern", ""),
    ("the <|channel|> token", "the <|channel|> token", ""),
    ("the <|channel|>", "the <|channel|>", ""),
    ("<|channel|>final\n<|message|>a", "<|channel|>final\n<|message|>a", ""),
    ('<|channel|>final {"a": 1}<|message|>a', '<|channel|>final {"a": 1}<|message|>a', ""),
    ("<|start|>assistant t&lt;f<|message|>a", "<|start|>assistant t&lt;f<|message|>a", ""),
    ("<|start|>assistant t\u2028o=functions.f<|message|>a", "<|start|>assistant t\u2028o=functions.f<|message|>a", ""),
    ("<|start|>assistant to``nctions.f<|message|>a", "<|start|>assistant to``nctions.f<|message|>a", ""),
    ("<|start|>assistant t'functions.f<|message|>a", "<|start|>assistant t'functions.f<|message|>a", ""),
    ("<|channel|>analysis xm\u2028l<|message|>a", "<|channel|>analysis xm\u2028l<|message|>a", ""),
    ("<|channel|>" + "x" * 300 + "<|message|>", "<|channel|>" + "x" * 300 + "<|message|>", ""),
]


@pytest.mark.parametrize(
    "text",
    ['<|channel|>commentary to=functions.zz <|constrain|>json<|message|>{"s": "<|call|>"}<|call|>',
     '<|channel|>analysis to=browser.search code<|message|>{"q": 1}<|call|>', "to=browser.open<|message|>text<|end|>"],
)  # fmt: skip
def test_a_message_to_a_tool_that_is_not_offered_comes_out_to_the_byte(text: str) -> None:
    assert MESSAGES.text(text) == text
    assert MESSAGES.text(text, unknown_tool="drop") == ""


@pytest.mark.parametrize(
    "header",
    [
        "<|channel|>",
        "<|channel|>analysis",
        "<|start|>assistant to=functions.f<|channel|>commentary <|constrain|>json<|mess",
    ],
)
def test_a_header_that_was_cut_off_is_no_content(header: str) -> None:
    assert MESSAGES.events([header], cut=True) == []
    assert MESSAGES.events(header, cut=True) == []


def test_everything_streams() -> None:
    assert MESSAGES.delay('<|channel|>commentary to=functions.f<|message|>{"s": "', "abc def " * 9, '"}<|call|>') == 0
    assert started(MESSAGES.fresh().feed("<|channel|>commentary to=functions.f<|message|> {")) == ["f"]
    for channel in ("final", "analysis"):
        scanner = MESSAGES.fresh()
        scanner.feed(f"<|channel|>{channel}<|message|>")
        assert all(scanner.feed(char) for char in "some words of it")


def test_a_cut_call_is_a_prefix_of_json() -> None:
    text = '<|channel|>commentary to=functions.f<|message|>{"s": "say \\"hi\\"", "n": 15}<|call|>'
    MESSAGES.check_cut(text, text.index("{"), text.index("}"))


THOUGHT: list[tuple[str, str, str]] = [
    ("<|channel>thought\na\n<channel|>b", "b", "a\n"),
    ("<|channel>thoughta<channel|>b", "b", "a"),
    ("<|channel>thought\n<channel|>b", "b", ""),
    ("<|channel>thought\na <channel b", "", "a <channel b"),
    ("a<|channel>thought\nb<channel|>c", "ac", "b"),
    ("<|channel>thought\n\na<channel|>", "", "\na"),
]


@pytest.mark.parametrize(
    ("reader", "text", "content", "reasoning"),
    [
        *((SPACED, *row) for row in SPACES),
        *((ANSWERS, *row) for row in RECIPIENTS),
        *((ANSWERS, *row) for row in SHOWN),
        *((THOUGHTS, *row) for row in THOUGHT),
    ],
)
def test_channels_and_recipients_say_what_a_message_is(reader: Reader, text: str, content: str, reasoning: str) -> None:
    events = alike(reader.fresh, text)
    assert all(isinstance(event, (Text, Reasoning)) for event in events)
    assert all(event.channel for event in events if isinstance(event, Reasoning))
    assert (text_in(events), thought_in(events)) == (content, reasoning)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(st.dictionaries(st.text(max_size=5), JSON, max_size=4), st.text().filter(lambda text: "<" not in text))
def test_any_arguments_and_any_text_come_back(arguments: dict[str, Any], text: str) -> None:
    call = f"<|channel|>commentary to=functions.f<|message|>{json.dumps(arguments)}<|call|>"
    events = MESSAGES.events([f"<|channel|>analysis<|message|>{text}<|end|><|start|>assistant{call}"])
    assert thought_in(events) == text
    assert MESSAGES.calls(call) == [("f", arguments)]
    assert text_in(ANSWERS.events([f"<|channel|>final<|message|>a{text}<|return|>"])) == f"a{text}"


MARKUP = ["<|channel|>", "<|start|>assistant", "<|message|>", "<|end|>", "<|call|>", "<|return|>", "<|start|>", "final",
          "analysis", "commentary", " to=functions.f", " to=zz", " to=python", "<|constrain|>json", '{"n": 1}']  # fmt: skip


@pytest.mark.slow
@settings(max_examples=100)
@given(hostile(*MARKUP), st.randoms(use_true_random=False), st.booleans())
def test_any_text_reads_the_same_however_it_is_cut(text: str, rng: random.Random, cut: bool) -> None:
    MESSAGES.check_any(text, rng, cut=cut)
    MESSAGES.check_any("<|channel|>analysis<|message|>" + text, rng, cut=cut)


@pytest.mark.parametrize(
    "unit", ["a b ", "<|end|> ", "<|channel|>", "<|channel|>x", "<|start|>", "<", "<|message|>", " "]
)
@pytest.mark.parametrize(
    "begin", ["<|channel|>final<|message|>", "<|channel|>analysis to=python<|message|>x", "<|channel|>"]
)
@pytest.mark.parametrize("step", [4, 0])
def test_work_grows_with_the_text_and_no_faster(
    unit: str, begin: str, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    MESSAGES.check_linear(begin, unit, monkeypatch, step=step, size=3_000)


@pytest.mark.parametrize("space", [" ", "\n", " \n\t "])
def test_white_space_before_the_first_message_is_no_content(space: str) -> None:
    assert ANSWERS.text(f"{space}<|channel|>final<|message|>a<|return|>") == "a"
    assert MESSAGES.text(f"{space}to=functions.zz<|message|>a<|end|>") == f"{space}to=functions.zz<|message|>a<|end|>"
    assert MESSAGES.text(f"{space}to=me") == f"{space}to=me"
    assert MESSAGES.call(f"{space}to=f<|message|>{{}}<|call|>", keep_raw=True).name == "f"
