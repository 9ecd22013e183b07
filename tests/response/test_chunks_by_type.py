"""Chunks with logprobs, of which no two are alike: what leaves is the same, and nobody loses a token's logprobs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcall_middleware.usage.meter import UsageMeter
from toolcall_middleware.wire import openai

from .streams import DONE, chunk, event
from .test_templates import CALL, WORDS, cuts, messages, rewriter, said, send


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


def read_by_type(data: bytes) -> tuple[int, str] | None:
    try:
        choice = openai.read_by_type(data).choices[0]
    except openai.FAILURES:
        return None
    return choice.index, choice.delta.content


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, (0, "a")),
        ({"usage": None, "system_fingerprint": "x"}, (0, "a")),
        ({"usage": {"prompt_tokens": 1}}, None),
        ({"error": {"message": "x"}}, None),
        ({"x": 1, "timings": {"n": 1}}, (0, "a")),
        ({"choices": []}, None),
        ({"choices": [*chunk({"content": "a"})["choices"]] * 2}, None),
        ({"choices": [{"index": 1.0, "delta": {"content": "a"}}]}, None),
        ({"choices": [{"index": True, "delta": {"content": "a"}}]}, None),
        ({"choices": [{"delta": {"content": "a"}}]}, None),
        ({"choices": [{"index": 3, "delta": {"content": "a"}, "token_ids": [1], "finish_reason": ""}]}, (3, "a")),
    ],
)
def test_only_a_chunk_that_says_nothing_else_is_read_so(changed: dict[str, Any], expected: Any) -> None:
    assert read_by_type(json.dumps({**chunk({"content": "a"}), **changed}).encode()) == expected


NULLS = dict.fromkeys(("reasoning", "reasoning_content", "tool_calls", "function_call", "refusal"))


def test_what_is_null_in_a_delta_says_nothing() -> None:
    delta = {"role": "assistant", "content": "a", **NULLS}
    assert read_by_type(json.dumps(chunk(delta)).encode()) == (0, "a")


@pytest.mark.parametrize(
    "delta",
    [{"content": None}, {"content": "a", "x": 1}, *({"content": "a", name: "b"} for name in NULLS), {}],
)
def test_another_delta_is_not_read_so(delta: dict[str, Any]) -> None:
    assert read_by_type(json.dumps(chunk(delta)).encode()) is None


def test_an_end_is_not_read_so() -> None:
    assert read_by_type(json.dumps(chunk({"content": "a"}, "stop")).encode()) is None
    assert read_by_type(b"[DONE]") is None
    assert read_by_type(b'{"choices":[{"index":0,"delta":{"content":"a"},"logprobs":NaN}]}') is None
