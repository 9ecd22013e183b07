"""What an upstream signs of its thoughts and calls: a client gives it back, and the upstream gets it as it came."""

from __future__ import annotations

import json
from typing import Any

import pytest

from toolcall_middleware.apis.responses.request import Carried, read_carried, write_carried

from . import chat
from .asking import WEATHER, asked, messages_of, streamed
from .chat import call, text, thought
from .received import Received, check_stream, check_whole

KEPT = {"tools": [WEATHER], "include": ["reasoning.encrypted_content"]}
SIGNED = {"type": "reasoning.text", "text": "let me see", "signature": "c2ln", "format": "anthropic", "index": 0}
REDACTED = {"type": "reasoning.encrypted", "data": "eA==", "index": 1}
LATER = {"type": "reasoning.text", "text": "hm", "signature": "c2ln2", "index": 2, "calls_before": 1}
GOOGLE = {"google": {"thought_signature": "QUJD"}}
USER = {"role": "user", "content": "hi"}


def details(*items: dict[str, Any]) -> list[chat.Delta]:
    return [{"reasoning_details": [item]} for item in items]


def signed_call(index: int, **extra: Any) -> list[chat.Delta]:
    opened, *rest = call(index, "get_weather", "{}")
    opened["tool_calls"][0].update(extra)
    return [opened, *rest]


def stream_of(deltas: list[chat.Delta], **fields: Any) -> Received:
    return check_stream(streamed(chat.stream(deltas, "tool_calls"), **{**KEPT, **fields}))


def whole_of(message: dict[str, Any], **fields: Any) -> Received:
    face, _ = asked(**{**KEPT, **fields})
    return check_whole(face.whole(200, {}, chat.whole(reason="tool_calls", **message)).body)


def said_again(got: Received) -> dict[str, Any]:
    """The message of the assistant in the next request, whose items are what came, as Codex sends them."""
    items = [{**item, "content": None} if item["type"] == "reasoning" else item for item in got.output]
    results = [{"type": "function_call_output", "call_id": call_id, "output": "1"} for call_id in got.ids]
    history = messages_of(USER, *items, *results, **KEPT)
    assert [message["role"] for message in history] == ["user", "assistant", *["tool"] * len(results)]
    return history[1]


def test_signed_and_redacted_thoughts_come_back_with_their_message() -> None:
    deltas = [*thought("let me ", "see"), *details(SIGNED, REDACTED), *text("Look."), *call(0, "get_weather", "{}")]
    message = {"content": "Look.", "reasoning": "let me see", "reasoning_details": [SIGNED, REDACTED]}
    for got in (stream_of(deltas), whole_of({**message, "calls": [("get_weather", "{}")]})):
        assert [item["type"] for item in got.output] == ["reasoning", "message", "function_call"]
        assert got.thought == "let me see"
        again = said_again(got)
        assert again["reasoning_details"] == [SIGNED, REDACTED]
        assert again["reasoning_content"] == "let me see"


def test_thoughts_between_calls_come_back_in_their_order() -> None:
    first, second = call(0, "get_weather", "{}"), call(1, "get_weather", "{}")
    got = stream_of(
        [*thought("let me see"), *details(SIGNED), *first, *thought("hm"), *details(LATER), *second],
    )
    assert [item["type"] for item in got.output] == ["reasoning", "function_call"] * 2
    assert said_again(got)["reasoning_details"] == [SIGNED, LATER]


def test_a_redacted_thought_alone_is_an_item_without_text() -> None:
    for got in (
        stream_of([*details(REDACTED), *call(0, "get_weather", "{}")]),
        whole_of({"reasoning_details": [REDACTED], "calls": [("get_weather", "{}")]}),
    ):
        assert [item["type"] for item in got.output] == ["reasoning", "function_call"]
        assert got.output[0]["content"] == got.output[0]["summary"] == []
        again = said_again(got)
        assert again["reasoning_details"] == [REDACTED]
        assert "reasoning_content" not in again


@pytest.mark.parametrize("before", [[], thought("hm"), [*thought("hm"), *text("Look.")]])
def test_the_signature_of_a_call_comes_back_with_it(before: list[chat.Delta]) -> None:
    got = stream_of([*before, *signed_call(0, extra_content=GOOGLE), *signed_call(1)])
    at = next(at for at, item in enumerate(got.output) if item["type"] == "function_call")
    assert got.output[at - 1]["type"] == "reasoning"
    calls = said_again(got)["tool_calls"]
    assert [one.get("extra_content") for one in calls] == [GOOGLE, None]
    message = chat.pieces_of([*before, *signed_call(0), *signed_call(1)], "tool_calls")["choices"][0]["message"]
    message["tool_calls"][0]["extra_content"] = GOOGLE
    face, _ = asked(**KEPT)
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    whole = check_whole(face.whole(200, {}, json.dumps({**chat.HEAD, "choices": [choice]}).encode()).body)
    assert [one.get("extra_content") for one in said_again(whole)["tool_calls"]] == [GOOGLE, None]


def test_who_does_not_ask_for_it_gets_nothing_of_it() -> None:
    deltas = [*thought("let me see"), *details(SIGNED), *signed_call(0, extra_content=GOOGLE)]
    got = stream_of(deltas, include=[])
    assert [item["type"] for item in got.output] == ["reasoning", "function_call"]
    assert b"c2ln" not in json.dumps(got.response).encode()
    assert "encrypted_content" not in got.output[0]


@pytest.mark.parametrize("odd", ["x", 3, {"a": 1}, [3, "x", None], [[SIGNED]]])
def test_details_of_another_form_are_no_fault(odd: Any) -> None:
    got = stream_of([*thought("hm"), {"reasoning_details": odd}, *signed_call(0, extra_content=odd)])
    assert got.response["status"] == "completed"
    assert got.thought == "hm"


def test_a_detail_that_comes_again_beside_another_piece_is_not_lost() -> None:
    """The bytes around the text are the same, and some decode such a chunk once."""
    deltas = [{"reasoning": piece, "reasoning_details": [REDACTED]} for piece in ("a", "b", "c")]
    assert said_again(stream_of([*deltas, *call(0, "get_weather", "{}")]))["reasoning_details"] == [REDACTED] * 3


@pytest.mark.parametrize(
    "damage", [lambda s: s[:-3], lambda s: s[:30] + "A" + s[31:], lambda s: s.replace("2", "3", 1)]
)
def test_what_was_damaged_is_not_read(damage: Any) -> None:
    written = write_carried(Carried("hm", [SIGNED], {"call_a": GOOGLE}))
    assert read_carried(written) == Carried("hm", [SIGNED], {"call_a": GOOGLE})
    assert read_carried(damage(written)) is None
