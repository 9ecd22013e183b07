"""Anthropic's API in front of an OpenAI app: a model server that speaks only that, made from a scripted one.

It is written from the SDK's types and shares nothing with the translation under test, which goes the other way.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from anthropic.types import (
    InputJSONDelta,
    MessageDeltaUsage,
    RawContentBlockDeltaEvent,
    RawContentBlockStartEvent,
    RawContentBlockStopEvent,
    RawMessageDeltaEvent,
    RawMessageStartEvent,
    RawMessageStopEvent,
    StopReason,
    TextDelta,
    Usage,
)
from anthropic.types.raw_message_delta_event import Delta

from ..apis.messages import anthropic_api as api

if TYPE_CHECKING:
    import pydantic
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

REASONS: dict[str, StopReason] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}


class AnthropicFace:
    """`POST /v1/messages` over the chat completions of `app`. Requests that break the API's rules are a 400."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert scope["path"] == "/v1/messages"
        body = json.loads((await receive())["body"])
        try:
            api.check_request(body)
        except (AssertionError, ValueError, KeyError) as error:
            await _send(send, 400, _error("invalid_request_error", f"broken rule: {error!r}"))
            return
        asked = json.dumps(openai_request(body)).encode()
        waiting = [asked]

        async def next_message() -> Message:
            if waiting:
                return {"type": "http.request", "body": waiting.pop(), "more_body": False}
            return await receive()

        answer = _Answer(send, stream=body.get("stream", False))
        inner = {**scope, "path": "/v1/chat/completions", "raw_path": b"/v1/chat/completions"}
        inner["headers"] = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(asked))]
        await self.app(inner, next_message, answer.send)


def openai_request(body: dict[str, Any]) -> dict[str, Any]:
    messages: list[dict[str, Any]] = []
    if "system" in body:
        messages.append({"role": "system", "content": body["system"]})
    for message in body["messages"]:
        blocks = api.blocks_of(message)
        for block in blocks:
            if block["type"] == "tool_result":
                fields = {"content": block.get("content", ""), "is_error": block.get("is_error", False)}
                messages.append({"role": "tool", "tool_call_id": block["tool_use_id"], **fields})
        texts = [block["text"] for block in blocks if block["type"] == "text"]
        calls = [
            {
                "id": block["id"],
                "type": "function",
                "function": {"name": block["name"], "arguments": json.dumps(block["input"])},
            }
            for block in blocks
            if block["type"] == "tool_use"
        ]
        if texts or calls:
            said: dict[str, Any] = {"role": message["role"], "content": "\n\n".join(texts) or None}
            messages.append({**said, "tool_calls": calls} if calls else said)
    asked: dict[str, Any] = {"model": body["model"], "messages": messages, "max_tokens": body["max_tokens"]}
    if body.get("tools"):
        asked["tools"] = [
            {
                "type": "function",
                "function": {"name": tool["name"], "parameters": tool["input_schema"]}
                | ({"description": tool["description"]} if "description" in tool else {}),
            }
            for tool in body["tools"]
        ]
    # A scripted model says what it says, whatever the choice: what it owes then the middleware has to see.
    if body.get("tool_choice", {}).get("type") == "none":
        asked["tool_choice"] = "none"
    if body.get("tool_choice", {}).get("disable_parallel_tool_use"):
        asked["parallel_tool_calls"] = False
    if body.get("stream"):
        asked |= {"stream": True, "stream_options": {"include_usage": True}}
    return asked


class _Answer:
    def __init__(self, send: Send, *, stream: bool) -> None:
        self._send = send
        self._stream = stream
        self._status = 200
        self._data = b""
        self._index = -1
        self._kind = ""
        self._reason: StopReason = "end_turn"
        self._usage = {"prompt_tokens": 0, "completion_tokens": 0}

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self._status = message["status"]
            self._stream = self._stream and self._status == 200
            if self._stream:
                headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
                await self._send({"type": "http.response.start", "status": 200, "headers": headers})
            return
        self._data += message.get("body", b"")
        more = message.get("more_body", False)
        if self._stream:
            *events, self._data = self._data.split(b"\n\n")
            out = b"".join(self._event(event) for event in events if event.startswith(b"data: "))
            await self._send({"type": "http.response.body", "body": out, "more_body": more})
        elif not more:
            await _send(self._send, self._status, self._whole(json.loads(self._data)))

    def _whole(self, answer: dict[str, Any]) -> bytes:
        if "error" in answer:
            return _error(answer["error"]["type"], answer["error"]["message"])
        choice = answer["choices"][0]
        message = choice["message"]
        blocks: list[Any] = [api.text(message["content"])] if message["content"] else []
        blocks += [
            api.call(call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
            for call in message.get("tool_calls", ())
        ]
        # A model server of this kind always counts.
        count = answer.get("usage") or self._usage
        usage = Usage(input_tokens=count["prompt_tokens"], output_tokens=count["completion_tokens"])
        said = api.answer(*blocks, stop_reason=REASONS[choice["finish_reason"]], usage=usage)
        body = said.model_dump_json(exclude_none=True)
        for call in message.get("tool_calls", ()):
            # As the model spelled them: that is not lost on the way.
            arguments = call["function"]["arguments"]
            body = body.replace(json.dumps(json.loads(arguments), separators=(",", ":"), ensure_ascii=False), arguments)
        return body.encode()

    def _event(self, event: bytes) -> bytes:
        payload = event.removeprefix(b"data: ")
        if payload == b"[DONE]":
            counted = MessageDeltaUsage(
                input_tokens=self._usage["prompt_tokens"], output_tokens=self._usage["completion_tokens"]
            )
            delta = Delta(stop_reason=self._reason, stop_sequence=None)
            return api.wire(
                [
                    *self._closed(),
                    RawMessageDeltaEvent(type="message_delta", delta=delta, usage=counted),
                    RawMessageStopEvent(type="message_stop"),
                ],
                ping=False,
            )
        chunk = json.loads(payload)
        if "error" in chunk:
            return b"event: error\ndata: " + _error(chunk["error"]["type"], chunk["error"]["message"]) + b"\n\n"
        self._usage = chunk.get("usage") or self._usage
        out: list[pydantic.BaseModel] = []
        for choice in chunk["choices"]:
            out += self._delta(choice["delta"])
            self._reason = REASONS.get(choice["finish_reason"], self._reason)
        return api.wire(out, ping=False)

    def _delta(self, delta: dict[str, Any]) -> list[pydantic.BaseModel]:
        out: list[pydantic.BaseModel] = []
        if delta.get("role"):
            empty = api.answer(usage=Usage(input_tokens=1, output_tokens=1))
            out.append(RawMessageStartEvent(type="message_start", message=empty))
        if delta.get("content"):
            if self._kind != "text":
                out += self._opened("text", api.text(""))
            out.append(self._said(TextDelta(type="text_delta", text=delta["content"])))
        for item in delta.get("tool_calls", ()):
            if "id" in item:
                out += self._opened("tool_use", api.call(item["id"], item["function"]["name"], {}))
            out.append(self._said(InputJSONDelta(type="input_json_delta", partial_json=item["function"]["arguments"])))
        return out

    def _said(self, delta: Any) -> pydantic.BaseModel:
        return RawContentBlockDeltaEvent(type="content_block_delta", index=self._index, delta=delta)

    def _opened(self, kind: str, block: Any) -> list[pydantic.BaseModel]:
        out = self._closed()
        self._index += 1
        self._kind = kind
        return [*out, RawContentBlockStartEvent(type="content_block_start", index=self._index, content_block=block)]

    def _closed(self) -> list[pydantic.BaseModel]:
        if not self._kind:
            return []
        self._kind = ""
        return [RawContentBlockStopEvent(type="content_block_stop", index=self._index)]


def _error(kind: str, text: str) -> bytes:
    return json.dumps({"type": "error", "error": {"type": kind, "message": text}}).encode()


async def _send(send: Send, status: int, body: bytes) -> None:
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body, "more_body": False})
