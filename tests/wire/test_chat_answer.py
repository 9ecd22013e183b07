"""The forgiving reader of chat completions: whole and streamed say the same, wherever the bytes are cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcall_middleware.wire.chat_answer import ChatAnswer

CALLS = [
    {"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
    {"index": 1, "id": "b", "type": "custom", "custom": {"name": "g", "input": "text"}},
]
MESSAGE = {"role": "assistant", "content": "Hm.", "reasoning_content": "Well.", "tool_calls": CALLS}
WHOLE = {"choices": [{"index": 0, "message": MESSAGE, "finish_reason": "tool_calls"}], "usage": {"total_tokens": 3}}
DELTAS: list[dict[str, Any]] = [
    {"role": "assistant", "reasoning_content": "We"},
    {"reasoning_content": "ll."},
    {"content": "Hm"},
    {"content": "."},
    {"tool_calls": [{"index": 0, "id": "a", "type": "function", "function": {"name": "f", "arguments": ""}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": '{"x":'}}]},
    {"tool_calls": [{"index": 0, "function": {"arguments": " 1}"}}]},
    {"tool_calls": [{"index": 1, "id": "b", "type": "custom", "custom": {"name": "g", "input": "text"}}]},
]
CHUNKS = [
    *({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in DELTAS),
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]},
    {"choices": [], "usage": {"total_tokens": 3}},
]
STREAM = "".join(f"data: {json.dumps(chunk)}\n\n" for chunk in CHUNKS).encode() + b"data: [DONE]\n\n"


def said(answer: ChatAnswer) -> tuple[Any, ...]:
    choice = answer.choice(0)
    calls = [(call.id, call.kind, call.name, call.arguments) for call in choice.calls]
    return choice.text, choice.reasoning, calls, choice.finish_reason, answer.usage, answer.unreadable


EXPECTED = (
    "Hm.",
    "Well.",
    [("a", "function", "f", '{"x": 1}'), ("b", "custom", "g", "text")],
    "tool_calls",
    {"total_tokens": 3},
    False,
)


@pytest.mark.parametrize("data", [json.dumps(WHOLE).encode(), STREAM], ids=["whole", "stream"])
@pytest.mark.parametrize("size", [1, 7, 10_000])
def test_both_forms_say_the_same_wherever_they_are_cut(data: bytes, size: int) -> None:
    answer = ChatAnswer()
    for at in range(0, len(data), size):
        answer.feed(data[at : at + size])
    answer.finish()
    assert said(answer) == EXPECTED
    assert answer.is_stream == data.startswith(b"data:")


def test_a_mark_tells_the_bytes_in_which_a_piece_or_a_call_began() -> None:
    answer = ChatAnswer()
    for mark, event in enumerate(STREAM.split(b"\n\n")):
        answer.feed(event + b"\n\n", mark)
    answer.finish()
    assert answer.choice(0).pieces == [(2, "Hm"), (3, ".")]
    assert [call.mark for call in answer.choice(0).calls] == [4, 7]


def test_calls_without_an_index_open_where_a_name_comes() -> None:
    pieces = [
        {"function": {"name": "f", "arguments": "{"}},
        {"function": {"arguments": "}"}},
        {"function": {"name": "g"}},
    ]
    chunks = [{"choices": [{"delta": {"tool_calls": [piece]}}]} for piece in pieces]
    answer = ChatAnswer.of("".join(f"data: {json.dumps(chunk)}\n\n" for chunk in chunks).encode())
    assert [(call.name, call.arguments) for call in answer.choice(0).calls] == [("f", "{}"), ("g", "")]


@pytest.mark.parametrize(
    "value",
    [[], None, {"choices": 1}, {"choices": [1]}, {"choices": [{"message": []}]}, {"choices": [{"index": "x"}]},
     {"choices": [{"message": {"tool_calls": [{"index": -1}, {"index": 9}, 1, {"index": None, "function": {}}]}}]},
     {"choices": [{"message": {"content": [{"text": 1}, 2]}}]}, {"usage": [], "error": []}],
)  # fmt: skip
def test_nothing_that_it_reads_makes_it_raise(value: Any) -> None:
    for data in (json.dumps(value).encode(), f"data: {json.dumps(value)}\n\n".encode()):
        assert ChatAnswer.of(data).choice(0).calls == []
