"""Chunks with logprobs, of which no two are alike: what leaves is the same, and nobody loses a token's logprobs."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcall_middleware.stages.said import read_said
from toolcall_middleware.stages.usage import UsageMeter

from .streams import DONE, chunk, event
from .test_past_the_parser import CALL, WORDS, cuts, messages, rewriter, said, send


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


@pytest.mark.parametrize(
    ("changed", "expected"),
    [
        ({}, (0, "a")),
        ({"usage": None, "system_fingerprint": "x"}, (0, "a")),
        ({"usage": {"prompt_tokens": 1}}, None),
        ({"error": {"message": "x"}}, None),
        ({"x": 1}, None),
        ({"choices": []}, None),
    ],
)
def test_only_a_chunk_that_says_nothing_else_is_read_so(changed: dict[str, Any], expected: Any) -> None:
    assert read_said(json.dumps({**chunk({"content": "a"}), **changed}).encode()) == expected


@pytest.mark.parametrize(
    "delta", [{"content": None}, {"content": "a", "role": "assistant"}, {"content": "a", "reasoning": "b"}, {}]
)
def test_another_delta_is_not_read_so(delta: dict[str, Any]) -> None:
    assert read_said(json.dumps(chunk(delta)).encode()) is None


def test_an_end_is_not_read_so() -> None:
    assert read_said(json.dumps(chunk({"content": "a"}, "stop")).encode()) is None
    assert read_said(b"[DONE]") is None
    assert read_said(b'{"choices":[{"index":0,"delta":{"content":"a"},"logprobs":NaN}]}') is None
