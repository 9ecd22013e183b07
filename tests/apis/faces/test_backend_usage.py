"""Usage is the backend's word: its total, reasoning beside the completion, and the fields in which it says so."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.apis.faces.asking import body_of, chat_tool, post
from tests.apis.responses import chat
from tests.helpers.asgi_client import JSON_TYPE, Backend
from toolcall_middleware import ToolCallMiddleware

XAI = {
    "prompt_tokens": 10,
    "completion_tokens": 4,
    "total_tokens": 354,
    "completion_tokens_details": {"reasoning_tokens": 340},
}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


def counts(last: dict[str, Any], *, stream: bool, with_choice: bool = False) -> Backend:
    """A backend whose answer ends in `last`: the fields of the last event, or of the whole answer."""
    if not stream:
        made = json.loads(chat.whole("Hi"))
        del made["usage"]
        return Backend(json.dumps({**made, **last}).encode(), headers=[JSON_TYPE])
    finish = {"index": 0, "delta": {}, "finish_reason": "stop"}
    end = chat.event({**chat.HEAD, "choices": [finish] if with_choice else [], **last}) + b"data: [DONE]\n\n"
    return Backend(chat.stream(chat.text("Hi"), None if with_choice else "stop", usage=None, done=False) + end)


async def usage_of(face: str, last: dict[str, Any], *, stream: bool, with_choice: bool = False) -> dict[str, Any]:
    """What the client is told."""
    app = ToolCallMiddleware(counts(last, stream=stream, with_choice=with_choice), faces="chat,messages,responses")
    asks: dict[str, Any] = {"stream_options": {"include_usage": True}} if stream and face == "chat" else {}
    answer = await post(app, face, body_of(face, chat_tool("lookup", SCHEMA), stream=stream, **asks))
    assert answer.status_code == 200, answer.text
    if not stream:
        return dict(answer.json()["usage"])
    found: dict[str, Any] = {}
    for line in answer.text.splitlines():
        if line.startswith("data: {"):
            event = json.loads(line[6:])
            found |= event.get("usage") or event.get("response", {}).get("usage") or {}
    return found


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("with_choice", [False, True])
async def test_a_total_that_was_given_stays(*, stream: bool, with_choice: bool) -> None:
    usage = await usage_of("chat", {"usage": XAI}, stream=stream, with_choice=with_choice)
    assert usage == XAI


@pytest.mark.parametrize("stream", [False, True])
async def test_a_total_that_is_missing_is_the_sum(*, stream: bool) -> None:
    totals: tuple[dict[str, Any], ...] = ({}, {"total_tokens": 0}, {"total_tokens": None})
    for total in totals:
        last = {"usage": {"prompt_tokens": 10, "completion_tokens": 4, **total}}
        usage = await usage_of("chat", last, stream=stream)
        assert usage["total_tokens"] == 14


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("face", ["messages", "responses"])
async def test_reasoning_beside_the_completion_is_output(face: str, *, stream: bool) -> None:
    usage = await usage_of(face, {"usage": XAI}, stream=stream)
    assert (usage["input_tokens"], usage["output_tokens"]) == (10, 344)
    inside = {**XAI, "completion_tokens": 344}
    usage = await usage_of(face, {"usage": inside}, stream=stream)
    assert (usage["input_tokens"], usage["output_tokens"]) == (10, 344)


@pytest.mark.parametrize("face", ["chat", "messages", "responses"])
@pytest.mark.parametrize("stream", [False, True])
async def test_groqs_usage_is_read(face: str, *, stream: bool) -> None:
    groq = {"x_groq": {"id": "req_1", "usage": {"prompt_tokens": 18, "completion_tokens": 55, "total_tokens": 73}}}
    usage = await usage_of(face, groq, stream=stream, with_choice=True)
    read, written = ("prompt_tokens", "completion_tokens") if face == "chat" else ("input_tokens", "output_tokens")
    assert (usage[read], usage[written]) == (18, 55)
    assert "estimated" not in usage
