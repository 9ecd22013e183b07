"""Token counts: the backend's own where it gives any, an estimate that says so where it gives none."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest

from tests.helpers.asgi_client import JSON_TYPE, SSE_TYPE, TOOL, Backend, Client, ask, middleware
from tests.helpers.stream_rules import check_stream
from toolcall_middleware.usage.meter import UsageMeter
from toolcall_middleware.usage.tap import UsageTap, may_lack_numbers, with_numbers, without_numbers
from toolcall_middleware.usage.tokenizers.base import APPROXIMATE, Tokenizer, read_prompt
from toolcall_middleware.usage.tokenizers.vocabularies import of_tiktoken
from toolcall_middleware.wire import openai

from ..response.streams import DONE, HEAD, chunk, event, role, says, stream
from .tiny import encoding

USAGE = {"prompt_tokens": 3, "completion_tokens": 4, "total_tokens": 7}
BODY = json.dumps({"model": "m", "messages": [{"role": "user", "content": "How are you today?"}]}).encode()


def estimate_prompt(body: bytes) -> int:
    return APPROXIMATE.count_prompt(read_prompt(body)).tokens


def meter(**options: Any) -> UsageMeter:
    made = UsageMeter(**options)
    made.sent(BODY)
    return made


# -- estimates -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "least", "most"),
    [
        ("", 0, 0),
        ("x", 1, 1),
        ("The quick brown fox jumps over the lazy dog.", 8, 14),
        ("internationalization", 2, 5),
        ("1234567890", 3, 6),
        ("你好，世界", 3, 8),
        ('{"city": "Paris"}', 5, 12),
        ("    \n\n", 1, 2),
    ],
)
def test_an_estimate_is_of_the_right_size(text: str, least: int, most: int) -> None:
    assert least <= APPROXIMATE.count(text) <= most


@pytest.mark.parametrize(
    ("content", "least"),
    [("Hello there", 9), ([{"type": "text", "text": "Hello there"}, {"type": "image_url"}], 264), (None, 7), ("", 7)],
)
def test_the_prompt_is_estimated_by_its_messages(content: Any, least: int) -> None:
    body = {"messages": [{"role": "user", "content": content}], "other": "x" * 1000}
    assert least <= estimate_prompt(json.dumps(body).encode()) <= least + 3


@pytest.mark.parametrize("body", [b"not json", b'{"messages":5}', b'{"messages":[{"content":5}]}', b"\xff" * 20, b""])
def test_a_prompt_that_cannot_be_read_is_estimated_by_its_length(body: bytes) -> None:
    assert estimate_prompt(body) <= max(len(body), 1)


# -- the meter -----------------------------------------------------------------------------------------------------


NEXT, TOTAL = "(the next attempt)", "(the numbers are asked for)"
P = estimate_prompt(BODY)


def numbers(prompt: int, completion: int, **more: Any) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion, **more}


def guessed(prompt: int, completion: int, **more: Any) -> dict[str, Any]:
    return numbers(prompt, completion, estimated=True, **more)


DETAILED = {**USAGE, "prompt_tokens_details": {"cached_tokens": 1}, "completion_tokens_details": None}
ZEROS = numbers(0, 0)
NO_USAGE: list[Any] = [None, 5, [], {}, {"completion_tokens": "4"}, {"completion_tokens": True}]
# The options of a meter; what happens (text that the model writes, numbers of the backend); which of those numbers can
# go to the client as they are; what the client gets.
TOTALS: dict[str, tuple[dict[str, Any], list[Any], list[bool], Any]] = {
    "without the backend's all is estimated": ({}, ["one two", " three"], [], guessed(P, 3)),
    "the backend's win and keep their details": ({}, ["one two three four five", DETAILED], [True], DETAILED),
    "the last of an attempt count": ({}, [numbers(3, 1), numbers(3, 2), numbers(3, 3)], [True] * 3, numbers(3, 3)),
    "gaps are filled": ({}, [{"completion_tokens": 4}], [False], guessed(P, 4)),
    "until the backend fills them": (
        {},
        [{"completion_tokens": 4}, TOTAL, {"prompt_tokens": 1, "completion_tokens": 2}],
        [False, False],
        numbers(1, 2),
    ),
    "attempts add up": (
        {},
        [{**USAGE, "details": {"a": 1, "b": None}, "note": "x"}, NEXT, {**USAGE, "details": {"a": 2, "c": 3}}],
        [True, False],
        numbers(6, 8, details={"a": 3, "b": None, "c": 3}, note="x"),
    ),
    "so do numbers of any kind": (
        {},
        [{**USAGE, "cost": 0.25}, NEXT, {**USAGE, "cost": 0.5}],
        [True, False],
        numbers(6, 8, cost=0.75),
    ),
    "an attempt that was estimated says so in the sum": ({}, ["one two", NEXT, USAGE], [False], guessed(P + 3, 2 + 4)),
    "so does one that the backend estimated": (
        {},
        [{**USAGE, "estimated": True}, NEXT, {**USAGE, "estimated": False}],
        [True, False],
        guessed(6, 8),
    ),
    "nothing is counted unless wanted": ({"count": False}, ["one two"], [], None),
    "but the backend's are": ({"count": False}, ["one two", TOTAL, NEXT, USAGE], [False], USAGE),
    "where we count the backend's are ignored": ({"known": False}, ["one two", USAGE], [False], guessed(P, 2)),
    "but for its details": (
        {"known": False},
        ["one two", {**USAGE, "prompt_tokens_details": {"cached_tokens": 2}}],
        [False],
        guessed(P, 2, prompt_tokens_details={"cached_tokens": 2}),
    ),
    "zeros of what was not counted are not believed": ({}, ["one two", ZEROS], [False], guessed(P, 2)),
    "nor one of them": ({}, ["one two", numbers(9, 0)], [False], guessed(9, 2)),
    "nor the other": ({}, ["one two", numbers(0, 2)], [False], guessed(P, 2)),
    "an answer of nothing costs nothing": ({}, [numbers(9, 0)], [True], numbers(9, 0)),
    "a total that was given stays": (
        {},
        ["one two", {**USAGE, "total_tokens": 99}],
        [True],
        {**USAGE, "total_tokens": 99},
    ),
    "also where nothing is counted": (
        {"count": False},
        [{**USAGE, "total_tokens": 99}],
        [True],
        {**USAGE, "total_tokens": 99},
    ),
    "and what we count adds up": ({"known": False}, ["one two", {**USAGE, "total_tokens": 99}], [False], guessed(P, 2)),
    **{f"what is no usage is ignored: {odd!r}": ({}, [odd], [False], guessed(P, 0)) for odd in NO_USAGE},
}


@pytest.mark.parametrize("name", TOTALS)
def test_the_numbers_of_an_exchange(name: str) -> None:
    options, steps, whole, expected = TOTALS[name]
    counted, saw = meter(**options), []
    for step in steps:
        match step:
            case "(the next attempt)":
                counted.next_attempt()
            case "(the numbers are asked for)":
                counted.total()
            case str():
                counted.wrote(step)
            case _:
                saw.append(counted.saw(step))
    assert saw == whole
    assert counted.total() == expected


@pytest.mark.slow
def test_counting_keeps_no_long_text() -> None:
    counted = meter()
    tracemalloc.start()
    for _ in range(500_000):
        counted.wrote("abcd" + " ")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4_000_000
    total = counted.total()
    assert total is not None
    assert 450_000 <= total["completion_tokens"] <= 550_000


@pytest.mark.parametrize(
    ("texts", "reasoning"),
    [
        (["<think>one two</think>", "three"], 8),
        (["one two</th", "ink>three"], 5),
        (["<think>one", " two"], 5),
        (["one two three"], None),
        (["three </think> <think>"], 4),
        (["say <think>one</think>"], None),
    ],
)
def test_reasoning_in_the_text_is_told_apart(texts: list[str], reasoning: int | None) -> None:
    counted = meter()
    for text in texts:
        counted.wrote(text)
    total = counted.total()
    assert total is not None
    details = total.get("completion_tokens_details")
    assert details == (None if reasoning is None else {"reasoning_tokens": reasoning})
    assert reasoning is None or reasoning <= total["completion_tokens"]


def test_what_is_written_beside_the_content_counts() -> None:
    def outside(**message: Any) -> dict[str, Any]:
        counted = meter(tokenizer=of_tiktoken(encoding()))
        fields = openai.read_object(json.dumps({"role": "assistant", "content": None, **message}).encode())
        assert counted.wrote_outside_content(fields or {}) == bool(message)
        total = counted.total()
        assert total is not None
        assert total["total_tokens"] == total["prompt_tokens"] + total["completion_tokens"]
        assert total.get("estimated", False) == ("refusal" not in message and bool(message))
        return total

    both = outside(reasoning="abc", reasoning_content="abc")
    assert (both["completion_tokens"], both["completion_tokens_details"]) == (3, {"reasoning_tokens": 3})
    assert outside(refusal="no")["completion_tokens"] == 2
    call = {"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert outside(tool_calls=[call, {"custom": {"name": "g", "input": "abc"}}, 5])["completion_tokens"] == 3 + 4
    assert outside(tool_calls=[json.loads("[" * 900 + "]" * 900), call])["completion_tokens"] == 3
    assert outside(function_call={"name": "f", "arguments": "{}"})["completion_tokens"] == 3
    assert outside()["completion_tokens"] == 0


def test_choices_are_counted_each_for_itself() -> None:
    counted = meter(tokenizer=of_tiktoken(encoding()))
    for piece in ("He", "ll", "o"):
        for choice in (0, 1):
            counted.wrote(piece, choice)
    total = counted.total()
    assert total is not None
    assert total["completion_tokens"] == 2  # `Hello` is one


def test_thoughts_of_choices_are_counted_each_for_itself() -> None:
    counted = meter(tokenizer=of_tiktoken(encoding()))
    counted.wrote("Hello" * 20)
    for piece in ("He", "ll", "o"):
        for choice in (0, 1):
            counted.thought(piece, choice)
    total = counted.total()
    assert total is not None
    assert total["completion_tokens_details"] == {"reasoning_tokens": 2}


@pytest.mark.slow
def test_a_long_whole_answer_is_counted_at_the_end_alone() -> None:
    """The end is counted in a thread; a model's text is noted on the event loop."""
    read: list[int] = []

    def one(text: str) -> int:
        read.append(len(text))
        return 1

    counted = meter(tokenizer=Tokenizer(one, chars_at_once=100))
    answer = {"choices": [{"index": 0, "message": {"content": "<think>a</think>" + "ab " * 100_000}}]}
    assert without_numbers(json.dumps(answer).encode(), counted) is not None
    assert (counted.is_due, read) == (True, [])
    counted.count()
    total = counted.total()
    assert total is not None
    assert total["completion_tokens_details"]["reasoning_tokens"] > 0


def test_a_long_answer_is_counted_in_blocks_and_not_kept() -> None:
    tokenizer = of_tiktoken(encoding())
    text = "Hello world, this is a sentence of some words. " * 20_000
    counted = meter(tokenizer=tokenizer)
    tracemalloc.start()
    for at in range(0, len(text), 5):
        counted.wrote(text[at : at + 5])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 4_000_000
    total = counted.total()
    assert total is not None
    assert total["completion_tokens"] == tokenizer.count(text)
    assert "estimated" not in total


# -- the tap -------------------------------------------------------------------------------------------------------

TEXT = (role(), *says("one", " two"), chunk({}, "stop"))


def tapped(body: bytes, size: int | None = None, limit: int | None = None) -> bytes:
    tap = UsageTap(meter(), limit)
    step = size or max(len(body), 1)
    return b"".join(tap.feed(body[at : at + step]) for at in range(0, len(body), step)) + tap.finish()


def both(body: bytes) -> bytes:
    """What leaves, whichever way it is cut."""
    out = tapped(body)
    assert {tapped(body, size) for size in (1, 2, 7, 50)} == {out}
    return out


def test_one_chunk_is_added_where_the_backend_counts_nothing() -> None:
    body = stream(*TEXT)
    out = both(body)
    assert out.startswith(body.removesuffix(DONE))
    answer = check_stream(out, include_usage=True)
    assert answer.usage is not None
    assert answer.usage["completion_tokens"] == 2
    assert answer.usage["estimated"] is True
    assert answer.chunks[-1] == {**HEAD, "choices": [], "usage": answer.usage}


@pytest.mark.parametrize("kind", ["logprobs", "choices", "both"])
def test_chunks_of_which_no_two_are_alike_are_counted_and_leave_as_they_came(kind: str) -> None:
    def each(number: int, text: str) -> Any:
        made = chunk({"content": text})
        if kind != "choices":
            made["choices"][0]["logprobs"] = {"content": [{"token": text, "logprob": -number}]}
        made["choices"][0]["index"] = number % 2 if kind != "logprobs" else 0
        return made

    texts = [f"word{number} and " for number in range(60)]
    body = stream(*(each(number, text) for number, text in enumerate(texts)))
    late = stream(chunk({"content": "", "reasoning": "so many more words " * 9}), chunk({}, "stop"), done=False)
    out = tapped(body.removesuffix(DONE) + late + DONE, 500)
    assert out.startswith(body.removesuffix(DONE) + late)
    told = json.loads(out.removesuffix(DONE).rsplit(b"data: ", 1)[1])["usage"]
    choices = [texts[::2], texts[1::2]] if kind != "logprobs" else [texts]
    choices[0].append("so many more words " * 9)
    assert told["completion_tokens"] == sum(APPROXIMATE.count("".join(own)) for own in choices)


def test_a_chunk_with_text_alone_is_not_read_in_full(monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[bytes] = []
    real = openai.read_object

    def counting(data: Any) -> Any:
        parsed.append(data)
        return real(data)

    monkeypatch.setattr(openai, "read_object", counting)
    out = tapped(stream(role(), *says(*["word "] * 500), chunk({}, "stop")), 10_000)
    assert len(parsed) < 30
    assert check_stream(out, include_usage=True).usage is not None


def test_choices_in_turns_are_counted() -> None:
    texts = [says(text, index=index)[0] for text in ("one", " two", " three") for index in (0, 1, 2)]
    body = stream(*(chunk({"role": "assistant"}, index=index) for index in range(3)), *texts * 10)
    body = body.removesuffix(DONE) + stream(*(chunk({}, "stop", index=index) for index in range(3)))
    out = both(body)
    usage = check_stream(out, include_usage=True, n=3).usage
    assert usage is not None
    assert usage["completion_tokens"] == 90


def test_zeros_of_the_backend_are_replaced() -> None:
    zeros = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
    body = stream(*TEXT, {**HEAD, "choices": [], "usage": zeros})
    answer = check_stream(both(body), include_usage=True)
    assert answer.usage is not None
    assert answer.usage["completion_tokens"] == 2


def test_reasoning_counts() -> None:
    answer = check_stream(both(stream(role(), chunk({"reasoning": "one two three"}), *TEXT[1:])), include_usage=True)
    assert answer.usage is not None
    assert answer.usage["completion_tokens"] == 5


@pytest.mark.parametrize(
    "body",
    [
        stream(*TEXT, {**HEAD, "choices": [], "usage": USAGE}),
        stream({**HEAD, "choices": [], "usage": USAGE}, *TEXT),
        stream(*({**one, "usage": USAGE} for one in TEXT)),
        stream(*TEXT[:-1], {**TEXT[-1], "usage": USAGE}),
        stream(*TEXT, {"error": {"message": "boom"}}),
        stream(*TEXT, done=False),
        stream(*TEXT) + b": bye\n\n" + DONE,
        stream(),
        stream("nonsense", "{}", "[]", '{"choices":[]}'),
        b"data: {",
        b"",
    ],
    ids=["usage", "early", "each", "finish", "error", "no done", "after", "empty", "nonsense", "cut", "nothing"],
)
def test_bytes_pass_unchanged_where_nothing_is_to_be_added(body: bytes) -> None:
    out = both(body)
    if body.startswith(stream(*TEXT)):
        assert out.count(b'"usage"') == 1
        assert out.endswith(DONE + b": bye\n\n" + DONE)
    else:
        assert out == body


@pytest.mark.parametrize("end", [b"\r\n", b"\r"])
def test_any_spelling_passes(end: bytes) -> None:
    body = b"\xef\xbb\xbf: hi\n\n" + stream(*TEXT, {**HEAD, "choices": [], "usage": USAGE})
    body = body.replace(b"\n", end)
    assert both(body) == body


def test_the_word_usage_in_text_is_no_usage() -> None:
    body = stream(role(), *says('"usage": {"x": 1}', "{'error': 1}", '"error"'), chunk({}, "stop"))
    assert b'"estimated":true' in both(body)
    assert b'"estimated":true' in both(stream(*({**one, "usage": None, "error": None} for one in TEXT)))


def test_an_event_that_never_ends_passes_without_being_kept() -> None:
    body = event(role()) + b"data: " + b"x" * 5000 + b"\n\n" + stream(*TEXT)
    for size in (1, 100, 900):
        assert tapped(body, size, limit=1000) == body


@pytest.mark.parametrize("tools", [(TOOL,), ()], ids=["tools", "no tools"])
@pytest.mark.parametrize("stream", [False, True])
async def test_half_of_a_surrogate_pair_in_details_is_passed_on(stream: bool, tools: Any) -> None:
    usage = {"completion_tokens": 2, "prompt_tokens_details": {"by": "\ud83d"}}
    name, ended = ("delta", "[DONE]") if stream else ("message", "")
    choice = {"index": 0, name: {"role": "assistant", "content": "x"}, "finish_reason": "stop"}
    whole = json.dumps({"choices": [choice], "usage": usage}).encode()
    said = b"data: " + whole + b"\n\ndata: [DONE]\n\n" if stream else whole
    options: dict[str, Any] = {"stream_options": {"include_usage": True}} if stream else {}
    client = Client(ask(stream=stream, tools=tools, **options))
    backend = Backend(said, headers=[SSE_TYPE if stream else JSON_TYPE])
    await middleware(backend, usage="count")(client.scope, client.receive, client.send)
    sent = b"".join(message.get("body", b"") for message in client.got)
    assert b'"by":"\\ud83d"' in sent.replace(b" ", b"")
    assert ended.encode() in sent


# -- whole answers -------------------------------------------------------------------------------------------------

SAID = {"choices": [{"message": {"content": "Hello there", "reasoning": "Hm."}, "finish_reason": "stop"}]}
ZEROS = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}


@pytest.mark.parametrize("given", [{}, {"usage": None}, {"usage": ZEROS}, {"usage": {"prompt_tokens": 3}}])
def test_a_whole_answer_gets_the_numbers_that_it_lacks(given: dict[str, Any]) -> None:
    answer = json.dumps({**SAID, "mine": 1.50, **given}).encode()
    counted = meter(tokenizer=of_tiktoken(encoding()))
    assert may_lack_numbers(answer) or given == {"usage": {"prompt_tokens": 3}}
    fields = without_numbers(answer, counted)
    assert fields is not None
    out = with_numbers(answer + b" \n", fields, counted)
    usage = json.loads(out).pop("usage")
    assert (usage["completion_tokens"], usage["completion_tokens_details"]) == (10, {"reasoning_tokens": 3})
    assert (counted.attempts[0].ended, out.count(b'"usage"')) == (1, 1)
    assert json.loads(out) == {**json.loads(answer), "usage": usage}
    assert "usage" in given or out.startswith(answer[:-1])


@pytest.mark.parametrize(
    "answer",
    [
        {**SAID, "usage": USAGE},
        {"choices": []},
        {"choices": [{"message": None}]},
        {"choices": [*SAID["choices"], {"delta": {}}]},
        {"error": {"message": "no"}},
        [],
    ],
)
def test_an_answer_that_has_numbers_or_is_no_completion_is_left_alone(answer: Any) -> None:
    data = json.dumps(answer).encode()
    assert without_numbers(data, meter()) is None
    assert may_lack_numbers(data) is (b"prompt_tokens" not in data)
