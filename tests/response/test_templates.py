"""Chunks that fit a template: the answer, its limits and its usage are those of chunks that are read in full."""

from __future__ import annotations

import itertools
import json
import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers.policies import policy as made_policy
from tests.helpers.stream_rules import check_stream
from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolCall, ToolSet
from toolcall_middleware.response.choice import ChoiceAnswer, Verbatim
from toolcall_middleware.response.chunk import Part, Template
from toolcall_middleware.response.stream import StreamRewriter
from toolcall_middleware.usage.meter import UsageMeter
from toolcall_middleware.wire import openai
from toolcall_middleware.wire.openai import frame_of_content

from .streams import DONE, HEAD, chat_stream, chunk, event

TOOLS = ToolSet.of([Tool(name="f", parameters={"type": "object"})])
CODE = json.dumps(
    {"path": "a/b.py", "content": 'def f(x):\n\treturn {"a": f"{x!r}\\n"}  # \\ é\n' * 4, "n": [1, -2.5e3]}
)
WORDS = 'Words of an answer; "quoted", (fine) for fun - it\'s off\n\n> and 5 < 6, [a] {b} functions of f\nunderfoot\n'
CALL = f'<tool_call>\n{{"name": "f", "arguments": {CODE}}}\n</tool_call>'
IN_STRING = f'<tool_call>\n{{"name": "f", "arguments": {json.dumps(CODE)}}}\n</tool_call>'
ANSWERS = {
    "prose": WORDS * 3,
    "prose of other scripts": "Ærø is an island – “quiet” 日本語 and so on, with words behind it. " * 4,
    "a call": CALL,
    "prose and a call": f"{WORDS}{CALL}",
    "arguments in a string": IN_STRING,
    "a fence": f"Here:\n```python\n{CODE}\n# ~~~ and `tick` and\n```\n{WORDS}",
    "a fence that holds a call as an example": f"Here it is, in words:\n\n```\n{CALL}\n```\n{WORDS}",
    "a marker behind a fence": f"Here it is:\n```\nwords of code\nmore of it\n```\n{CALL}",
    "a code span": f"Use `{CALL}` in a line of words, as so many do.\n{WORDS}",
    "reasoning": f'<think>\nSo "I" think <b> and so on, for long\n</think>\n\n{WORDS}{CALL}',
    "functools": f'{WORDS}\nfunctools[{{"name": "f", "arguments": {CODE}}}]',
    "no call behind `:`": f'{WORDS} data = {{"key": {{"tool_calls": [{{"name": "f", "arguments": {{}}}}]}}}} and words',
    "a list and a fence in it": f"{WORDS}\n- ```json\n{CALL}\n```\n{WORDS}",
}


def rewriter(format_name: str, usage: UsageMeter | None = None, **policy: Any) -> StreamRewriter:
    def make_choice() -> ChoiceAnswer:
        return ChoiceAnswer(registry.get(format_name).parser(TOOLS, ParserOptions()), made_policy(**policy))

    return chat_stream(make_choice, usage or UsageMeter(), include_usage=usage is not None)


def compact(payload: dict[str, Any], *, ascii_only: bool = False) -> bytes:
    text = json.dumps(payload, separators=(",", ":"), ensure_ascii=ascii_only)
    return b"data: " + text.encode() + b"\n\n"


def messages(pieces: list[str], **how: Any) -> list[bytes]:
    """As engines stream: one event a message, each like the one before."""
    said = [compact(chunk({"content": piece}), **how) for piece in pieces]
    return [event(chunk({"role": "assistant", "content": ""})), *said, event(chunk({}, "stop")), DONE]


def send(made: StreamRewriter, sent: list[bytes]) -> tuple[bytes, int]:
    """What leaves, and how many messages fitted a template."""
    out, fitted = [], 0
    for data in sent:
        fitted += made._last is not None and made._last.text_of(data) is not None
        out.append(made.feed(data))
    out += [made.finish(), made.end()]
    return b"".join(out), fitted


def said(body: bytes) -> Any:
    only = check_stream(body, include_usage=None).only
    return only.content, only.named_calls, only.finish_reason


def cuts(text: str, seed: str) -> list[str]:
    chance = random.Random(seed)
    pieces, at = [], 0
    while at < len(text):
        size = chance.choice((1, 2, 3, 4, 4, 5, 7, 12))
        pieces.append(text[at : at + size])
        at += size
    return pieces


@pytest.mark.slow
@pytest.mark.parametrize("format_name", ["auto", "hermes", "json"])
@pytest.mark.parametrize("text", ANSWERS.values(), ids=ANSWERS.keys())
def test_the_answer_is_the_same_as_of_one_piece(text: str, format_name: str) -> None:
    whole, fitted = send(rewriter(format_name), messages([text]))
    assert not fitted
    for number in range(12):
        pieces = cuts(text, f"{number}") if number else list(text)
        for ascii_only in (False, True):
            out, _ = send(rewriter(format_name), messages(pieces, ascii_only=ascii_only))
            assert said(out) == said(whole), pieces


@pytest.mark.parametrize("text", [WORDS * 4, CALL, IN_STRING, f"a b\n```\n{WORDS}{WORDS}"])
def test_all_pieces_but_the_first_fit_a_template(text: str) -> None:
    sent = messages(cuts(text, "some"))
    assert send(rewriter("auto"), sent)[1] == len(sent) - 4  # the role, the first piece, the end, [DONE]


def of_choice(index: int, piece: str) -> dict[str, Any]:
    made = chunk({"content": piece})
    made["choices"][0]["index"] = index
    return made


@pytest.mark.parametrize("choices", [2, 5])
def test_choices_take_turns(choices: int) -> None:
    pieces = cuts(f"{WORDS}{CALL}", "turns")
    role = {"role": "assistant", "content": ""}
    sent = [event({**HEAD, "choices": [{"index": n, "delta": role} for n in range(choices)]})]
    sent += [compact(of_choice(n, piece)) for piece in pieces for n in range(choices)]
    out, _ = send(rewriter("hermes"), [*sent, DONE])
    whole, _ = send(rewriter("hermes"), messages([f"{WORDS}{CALL}"]))
    answer = check_stream(out, include_usage=None, n=choices)
    assert [(choice.content, choice.named_calls) for choice in answer.choices] == [said(whole)[:2]] * choices


@pytest.mark.slow
@pytest.mark.parametrize("format_name", registry.names())
def test_a_call_is_the_same_as_of_one_piece_in_each_format(format_name: str) -> None:
    arguments = {"s": CODE, "b": 'a "b", <c> & d\n', "n": [1, -2.5e3, True, None, {"x": "é😀"}], "t": "\n"}
    call = ToolCall("f", json.dumps(arguments, ensure_ascii=False))
    text = registry.get(format_name).render_calls([call, call])
    whole, _ = send(rewriter(format_name), messages([text]))
    assert len(said(whole)[1]) == 2
    for number in range(12):
        pieces = cuts(text, f"{number}") if number else list(text)
        out, fitted = send(rewriter(format_name), messages(pieces))
        assert said(out) == said(whole), pieces
        assert fitted == len(pieces) - 1


@pytest.mark.parametrize("format_name", registry.names())
def test_short_values_fit_a_template_in_each_format(format_name: str) -> None:
    rows = [{"id": n, "name": f"row {n}", "at": [n + 0.5, -1], "on": n % 2 > 0, "no": None} for n in range(12)]
    text = registry.get(format_name).render_calls([ToolCall("f", json.dumps({"rows": rows}))])
    whole, _ = send(rewriter(format_name), messages([text]))
    for size in (1, 4, 9):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        out, fitted = send(rewriter(format_name), messages(pieces))
        assert said(out) == said(whole)
        assert fitted == len(pieces) - 1


def test_prose_that_fits_a_template_is_the_message_itself() -> None:
    made = rewriter("auto")
    sent = messages(["Some", " words", " in", " a", " text", " and more"])
    assert [made.feed(data) for data in sent[:-2]] == sent[:-2]
    data = sent[-3]
    assert made.feed(data) is data


@pytest.mark.parametrize(
    "odd",
    [
        b'data: {"choices":[{"index":0,"delta":{"content":"a","content":"b"}}]}\n\n',
        compact({**HEAD, "choices": [{"index": 0, "delta": {"content": "word"}, "x": '"'}]}),
        compact(chunk({"content": 'a\\"'})),
        compact(chunk({"content": ""})),
        compact(chunk({"content": "word"}))[:-1],
    ],
)
def test_a_message_of_another_shape_is_read(odd: bytes) -> None:
    made = rewriter("auto")
    for data in messages(["Some", " words", " in"])[:-2]:
        made.feed(data)
    rest = made.feed(odd) + made.feed(b"\n" if not odd.endswith(b"\n\n") else b"")
    content = "".join(
        json.loads(line[6:])["choices"][0]["delta"].get("content") or "" for line in rest.splitlines() if line
    )
    assert content == json.loads(odd.strip()[6:])["choices"][0]["delta"]["content"]


@pytest.mark.slow
@pytest.mark.parametrize("size", [3, 4, 50])
@pytest.mark.parametrize("text", ["plain words of text ", 'line\\n\\"of\\" text '], ids=["plain", "escapes"])
def test_the_limit_of_arguments_is_exact(size: int, text: str) -> None:
    limit = 100_000
    opening = '<tool_call>{"name": "f", "arguments": {"s": "'
    written = "".join(itertools.islice(itertools.cycle(text), limit))
    pieces = [opening, *(written[at : at + size] for at in range(0, len(written), size))]
    made = rewriter("hermes", max_arguments_bytes=limit)
    out = b"".join(made.feed(data) for data in messages(pieces)[:-2])
    fragments = [
        call["function"]["arguments"]
        for line in out.splitlines()
        if line
        for call in json.loads(line[6:])["choices"][0]["delta"].get("tool_calls") or ()
    ]
    assert made.failed is not None
    assert made.failed.code == "limit_exceeded"
    assert limit - size - 2 <= len("".join(fragments)) <= limit


@pytest.mark.parametrize("text", [WORDS * 20, CALL, IN_STRING], ids=["prose", "call", "string"])
def test_usage_counts_what_fitted_a_template(text: str) -> None:
    def counted(pieces: list[str]) -> Any:
        meter = UsageMeter()
        send(rewriter("auto", meter), messages(pieces))
        return meter.total()

    assert counted(cuts(text, "usage")) == counted([text])


# -- the place of the text in a chunk ------------------------------------------------------------------------------


def written(text: str, before: str = "", after: str = "", **more: Any) -> bytes:
    choice = f'{{"index":0,"delta":{{{before}"content":{json.dumps(text)}{after}}},"finish_reason":null}}'
    return json.dumps({"id": "x", **more}).encode()[:-1] + f',"choices":[{choice}]}}'.encode()


def template_of(data: bytes) -> Template | None:
    top = openai.read_object(data) or {}
    choices = openai.read_objects(top.get("choices")) or []
    delta = openai.read_object(choices[0].get("delta")) or {}
    around = frame_of_content(openai.event(data), data, delta["content"])
    choice = ChoiceAnswer(Verbatim(), made_policy())
    part = Part(choice, {}, delta, "", [], None, unchanged=False)
    return None if around is None else Template(around, part, top)


@settings(deadline=None)
@given(st.text(), st.text())
def test_a_template_reads_the_content_of_its_likes(first: str, second: str) -> None:
    template = template_of(written(first))
    assert template is not None
    assert template.text_of(openai.event(written(second))) == second


@pytest.mark.parametrize(
    "other",
    [
        written("b", created=2),
        written("b", after=',"x":1'),
        written("b").replace(b"null", b'"stop"'),
        written("b").replace(b"null", b"true"),
        written("b").replace(b'"b"', b"null"),
        written("b").replace(b'"b"', b'"b","x":"c"'),
        written("b").replace(b'"b"', b'["b"]'),
        written("b").replace(b'"b"', b""),
        written("b").replace(b'"b"', b'"'),
        b"[DONE]",
    ],
)
def test_what_differs_elsewhere_is_not_of_the_template(other: bytes) -> None:
    template = template_of(written("a"))
    assert template is not None
    assert template.text_of(openai.event(other)) is None


@pytest.mark.parametrize(
    ("text", "more"),
    [
        # The same text in another place, first.
        ("a", {"note": {"content": "a"}}),
        ("id", {}),
        ("content", {}),
        ('"content"', {}),
        ("a", {"before": '"x":{"content":"a"},'}),
        ("a", {"before": '"content":"a",'}),
        ("a", {"after": ',"content":"a"'}),
        ("a", {"after": ',"x":{"content":"a"}'}),
    ],
)
def test_a_template_is_never_taken_from_the_wrong_place(text: str, more: dict[str, Any]) -> None:
    template = template_of(written(text, **more))
    other = written("new", **more)
    due = json.loads(other)["choices"][0]["delta"]["content"]
    assert template is None or template.text_of(openai.event(other)) in {None, due}
    assert template is None or template.text_of(openai.event(written(text, **more))) == text


# -- chunks of which no two are alike ------------------------------------------------------------------------------


def with_logprobs(pieces: list[str], **more: Any) -> list[bytes]:
    sent = [event(chunk({"role": "assistant", "content": ""}))]
    for number, piece in enumerate(pieces):
        made = chunk({"content": piece})
        made["choices"][0]["logprobs"] = {"content": [{"token": piece, "logprob": -0.5 - number, "top_logprobs": []}]}
        sent.append(event({**made, **more}))
    return [*sent, event(chunk({}, "stop")), DONE]


def logged(body: bytes) -> list[float]:
    """The logprob of each token in what left."""
    found = []
    for line in body.splitlines():
        if line.startswith(b"data: {"):
            for choice in json.loads(line[6:])["choices"]:
                found += [token["logprob"] for token in (choice.get("logprobs") or {}).get("content") or ()]
    return found


@pytest.mark.parametrize("format_name", ["auto", "hermes"])
@pytest.mark.parametrize("text", [WORDS * 4, f"{WORDS}{WORDS}{CALL}", CALL], ids=["prose", "prose and a call", "call"])
@pytest.mark.parametrize("more", [{}, {"x": {"kept": 1}}], ids=["known", "with a field of its own"])
def test_the_answer_and_all_logprobs_arrive(text: str, format_name: str, more: dict[str, Any]) -> None:
    whole, _ = send(rewriter(format_name), messages([text]))
    for seed in range(6):
        sent = with_logprobs(cuts(text, f"{seed}"), **more)
        out, _ = send(rewriter(format_name), sent)
        assert said(out) == said(whole)
        assert logged(out) == logged(b"".join(sent))


def test_prose_leaves_as_it_came() -> None:
    made = rewriter("auto")
    sent = with_logprobs([f"word {number} " for number in range(60)])[:-2]
    assert [made.feed(data) for data in sent] == sent


def test_usage_is_that_of_chunks_without_logprobs() -> None:
    def counted(sent: list[bytes]) -> Any:
        meter = UsageMeter()
        send(rewriter("auto", meter), sent)
        return meter.total()

    pieces = cuts(f"{WORDS}{WORDS}{CALL}", "usage")
    assert counted(with_logprobs(pieces)) == counted(messages(pieces))
