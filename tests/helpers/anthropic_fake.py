"""Anthropic's API, as strict as the SDK's types and the API's rules.

It answers from a script, or (`AnthropicFace`) in the words of an app that speaks OpenAI's API.

It shares nothing with the translation under test, which goes the other way.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import httpx
from anthropic.types import Message, ModelInfo, StopReason, Usage
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.helpers import anthropic_api as api

KEY = "sk-ant-test"
_REASONS: dict[str, StopReason] = {
    "stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens", "content_filter": "refusal",
}  # fmt: skip


@dataclass
class Failure:
    """An error answer."""

    status: int
    kind: str
    text: str
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class AnthropicUpstream:
    """`script` is what it answers, in turn; `asked` are the bodies it got, `headers` theirs."""

    script: list[Message | Failure] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    key: str | None = KEY

    async def _next(self, _body: dict[str, Any]) -> Message | Failure:
        return self.script.pop(0)

    @property
    def app(self) -> Starlette:
        return Starlette(
            routes=[
                Route("/v1/messages", self._messages, methods=["POST"]),
                Route("/v1/models", self._models),
                Route("/v1/models/{name:path}", self._model),
            ]
        )

    async def _messages(self, request: Request) -> Response:
        self.headers.append(dict(request.headers))
        version = request.headers.get("anthropic-version")
        if self.key is not None:
            # The second is what the SDK sends since its version 2.
            shown = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
            if shown != self.key:
                return _failure(Failure(401, "authentication_error", "invalid x-api-key"))
            if version not in {"2023-06-01", "2026-10-21"}:
                return _failure(Failure(400, "invalid_request_error", "anthropic-version: header is required"))
        body = await request.json()
        if version == "2026-10-21" and api.SAMPLING & body.keys():
            return _failure(Failure(400, "invalid_request_error", "temperature: Extra inputs are not permitted"))
        self.asked.append(body)
        try:
            api.check_request(body)
        except (AssertionError, ValueError, KeyError) as error:
            return _failure(Failure(400, "invalid_request_error", f"{error}"))
        item = await self._next(body)
        if isinstance(item, Failure):
            return _failure(item)
        headers = {"request-id": "req_011"}
        if body.get("stream"):
            return StreamingResponse(self._events(item), media_type="text/event-stream", headers=headers)
        assert isinstance(item, Message)
        return Response(item.model_dump_json(exclude_none=True), media_type="application/json", headers=headers)

    async def _events(self, message: Message) -> AsyncIterator[bytes]:
        for event in api.events(message):
            yield api.wire([event])
            await asyncio.sleep(0)

    async def _models(self, request: Request) -> Response:
        self.headers.append(dict(request.headers))
        return JSONResponse({"data": [_model("claude-opus-5")], "has_more": False, "first_id": None, "last_id": None})

    async def _model(self, request: Request) -> Response:
        name = request.path_params["name"]
        if name != "claude-opus-5":
            return _failure(Failure(404, "not_found_error", f"model: {name}"))
        return JSONResponse(_model(name))


def _model(name: str) -> dict[str, Any]:
    fields = {
        "id": name,
        "type": "model",
        "display_name": "Claude Opus 5",
        "created_at": "2026-07-01T00:00:00Z",
        "lifecycle": "active",
    }
    checked: dict[str, Any] = ModelInfo.model_validate(fields).model_dump(mode="json", exclude_none=True)
    return checked


def _failure(item: Failure) -> Response:
    body = {"type": "error", "error": {"type": item.kind, "message": item.text}, "request_id": "req_011"}
    return JSONResponse(body, status_code=item.status, headers={"request-id": "req_011", **item.headers})


class AnthropicFace(AnthropicUpstream):
    """`POST /v1/messages` over the chat completions of `inner`. It looks at no header."""

    def __init__(self, inner: ASGIApp) -> None:
        super().__init__(key=None)
        self._inner = inner
        self._outer = self.app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._outer(scope, receive, send)

    async def _next(self, body: dict[str, Any]) -> Message | Failure:
        transport = httpx.ASGITransport(app=self._inner)
        async with httpx.AsyncClient(transport=transport, base_url="http://inner") as client:
            response = await client.post("/v1/chat/completions", json=_chat_of(body))
        said = response.json()
        if "error" in said:
            return Failure(response.status_code, said["error"]["type"], said["error"]["message"])
        (choice,) = said["choices"]
        message = choice["message"]
        blocks: list[Any] = [api.text(message["content"])] if message["content"] else []
        for call in message.get("tool_calls") or ():
            function = call["function"]
            blocks.append(api.call(call["id"], function["name"], json.loads(function["arguments"])))
        # A model server of this kind always counts.
        count = said.get("usage") or {"prompt_tokens": 0, "completion_tokens": 0}
        usage = Usage(input_tokens=count["prompt_tokens"], output_tokens=count["completion_tokens"])
        return api.answer(*blocks, stop_reason=_REASONS[choice["finish_reason"]], usage=usage)


def _chat_of(body: dict[str, Any]) -> dict[str, Any]:
    """A request of Messages as a chat completion. A scripted model says what it says, whatever `tool_choice` is: what
    it owes then the middleware has to see.
    """
    messages: list[dict[str, Any]] = [{"role": "system", "content": body["system"]}] if "system" in body else []
    for message in body["messages"]:
        texts: list[str] = []
        calls: list[dict[str, Any]] = []
        for block in api.blocks_of(message):
            match block:
                case {"type": "tool_result", "tool_use_id": call_id}:
                    fields = {"content": block.get("content", ""), "is_error": block.get("is_error", False)}
                    messages.append({"role": "tool", "tool_call_id": call_id, **fields})
                case {"type": "tool_use"}:
                    function = {"name": block["name"], "arguments": json.dumps(block["input"])}
                    calls.append({"id": block["id"], "type": "function", "function": function})
                case {"type": "text", "text": words}:
                    texts.append(words)
        if texts or calls:
            said: dict[str, Any] = {"role": message["role"], "content": "\n\n".join(texts) or None}
            messages.append({**said, "tool_calls": calls} if calls else said)
    asked: dict[str, Any] = {"model": body["model"], "messages": messages, "max_tokens": body["max_tokens"]}
    if body.get("tools"):
        asked["tools"] = [
            {"type": "function", "function": {"name": tool["name"], "parameters": tool["input_schema"]}
             | ({"description": tool["description"]} if "description" in tool else {})}
            for tool in body["tools"]
        ]  # fmt: skip
    choice = body.get("tool_choice", {})
    asked |= {"tool_choice": "none"} if choice.get("type") == "none" else {}
    asked |= {"parallel_tool_calls": False} if choice.get("disable_parallel_tool_use") else {}
    return asked
