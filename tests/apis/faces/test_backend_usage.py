"""Usage is the backend's word: its total, reasoning beside the completion, and the fields in which it says so."""

from __future__ import annotations

import json
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from tests.apis.faces.asking import body_of, chat_tool, post
from toolcall_middleware import ToolCallMiddleware

XAI = {
    "prompt_tokens": 10,
    "completion_tokens": 4,
    "total_tokens": 354,
    "completion_tokens_details": {"reasoning_tokens": 340},
}
HEAD = {"id": "x", "created": 1, "model": "m"}
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


class Counted:
    """A backend whose answer ends in `last`: the fields of the last event, or of the whole answer."""

    def __init__(self, last: dict[str, Any], *, with_choice: bool = False) -> None:
        self.last = last
        self.with_choice = with_choice

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        body = json.loads(await Request(scope, receive).body())
        await self._answer(stream=bool(body.get("stream")))(scope, receive, send)

    def _answer(self, *, stream: bool) -> Response:
        if not stream:
            choice = {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
            return JSONResponse({**HEAD, "object": "chat.completion", "choices": [choice], **self.last})
        finish = {"index": 0, "delta": {}, "finish_reason": "stop"}
        events: list[dict[str, Any]] = [
            {"choices": [{"index": 0, "delta": {"role": "assistant", "content": "Hi"}, "finish_reason": None}]},
            *([] if self.with_choice else [{"choices": [finish]}]),
            {"choices": [finish] if self.with_choice else [], **self.last},
        ]
        lines = [json.dumps({**HEAD, "object": "chat.completion.chunk", **event}) for event in events]
        return Response("".join(f"data: {line}\n\n" for line in [*lines, "[DONE]"]), media_type="text/event-stream")


async def usage_of(face: str, backend: Counted, *, stream: bool) -> dict[str, Any]:
    """What the client is told."""
    app = ToolCallMiddleware(backend, faces="chat,messages,responses")
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
    usage = await usage_of("chat", Counted({"usage": XAI}, with_choice=with_choice), stream=stream)
    assert usage == XAI


@pytest.mark.parametrize("stream", [False, True])
async def test_a_total_that_is_missing_is_the_sum(*, stream: bool) -> None:
    totals: tuple[dict[str, Any], ...] = ({}, {"total_tokens": 0}, {"total_tokens": None})
    for total in totals:
        usage = await usage_of(
            "chat", Counted({"usage": {"prompt_tokens": 10, "completion_tokens": 4, **total}}), stream=stream
        )
        assert usage["total_tokens"] == 14


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("face", ["messages", "responses"])
async def test_reasoning_beside_the_completion_is_output(face: str, *, stream: bool) -> None:
    usage = await usage_of(face, Counted({"usage": XAI}), stream=stream)
    assert (usage["input_tokens"], usage["output_tokens"]) == (10, 344)
    inside = {**XAI, "completion_tokens": 344}
    usage = await usage_of(face, Counted({"usage": inside}), stream=stream)
    assert (usage["input_tokens"], usage["output_tokens"]) == (10, 344)


@pytest.mark.parametrize("face", ["chat", "messages", "responses"])
@pytest.mark.parametrize("stream", [False, True])
async def test_groqs_usage_is_read(face: str, *, stream: bool) -> None:
    groq = {"x_groq": {"id": "req_1", "usage": {"prompt_tokens": 18, "completion_tokens": 55, "total_tokens": 73}}}
    usage = await usage_of(face, Counted(groq, with_choice=True), stream=stream)
    read, written = ("prompt_tokens", "completion_tokens") if face == "chat" else ("input_tokens", "output_tokens")
    assert (usage[read], usage[written]) == (18, 55)
    assert "estimated" not in usage
