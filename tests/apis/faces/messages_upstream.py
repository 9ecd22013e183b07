"""Anthropic's API as an upstream behind the Messages face, and what is asked of it."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from typing import Any

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

READ: dict[str, Any] = {
    "name": "Read",
    "description": "Reads a file.",
    "input_schema": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
    "cache_control": {"type": "ephemeral", "ttl": "1h"},
}
SEARCH: dict[str, Any] = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
THOUGHT = {"type": "thinking", "thinking": "Read it.", "signature": "EqQBCgIYAhIM+sig/=="}
CALL = {"type": "tool_use", "id": "toolu_01", "name": "Read", "input": {"path": "/a"}}
VERSION = {"anthropic-version": "2026-10-21", "anthropic-beta": "context-management-2025-06-27", "x-api-key": "k"}


def message(*blocks: dict[str, Any], **fields: Any) -> dict[str, Any]:
    """A whole answer, with a field that nobody here knows."""
    calls = any(block["type"] == "tool_use" for block in blocks)
    return {
        "id": "msg_1", "type": "message", "role": "assistant", "model": "claude", "content": list(blocks),
        "stop_reason": "tool_use" if calls else "end_turn", "stop_sequence": None, "container": None,
        "usage": {"input_tokens": 3, "cache_creation_input_tokens": 5, "output_tokens": 7, "new_field": [1.50]},
        **fields,
    }  # fmt: skip


def spelled(value: Any) -> bytes:
    """JSON in a spelling that no encoder of this package has."""
    return json.dumps(value, indent=1).encode()


def events(*blocks: dict[str, Any], pieces: int = 3) -> list[bytes]:
    """The stream of an answer, an item for each event."""
    whole = message(*blocks)
    out: list[dict[str, Any]] = [
        {"type": "message_start", "message": {**whole, "content": [], "stop_reason": None}},
        {"type": "ping"},
    ]
    for index, block in enumerate(blocks):
        deltas: list[dict[str, Any]] = []
        match block["type"]:
            case "text":
                start: dict[str, Any] = {"type": "text", "text": ""}
                deltas = [{"type": "text_delta", "text": block["text"]}]
            case "thinking":
                start = {"type": "thinking", "thinking": "", "signature": ""}
                deltas = [
                    {"type": "thinking_delta", "thinking": block["thinking"]},
                    {"type": "signature_delta", "signature": block["signature"]},
                ]
            case "tool_use":
                start = {**block, "input": {}}
                text = block.get("raw") or json.dumps(block["input"])
                start.pop("raw", None)
                size = len(text) // pieces + 1
                cuts = [text[at : at + size] for at in range(0, len(text), size)]
                deltas = [{"type": "input_json_delta", "partial_json": cut} for cut in ["", *cuts]]
            case _:
                start = block
        out.append({"type": "content_block_start", "index": index, "content_block": start})
        out += [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
        out.append({"type": "content_block_stop", "index": index})
    delta = {"stop_reason": whole["stop_reason"], "stop_sequence": None, "container": None}
    out += [{"type": "message_delta", "delta": delta, "usage": whole["usage"]}, {"type": "message_stop"}]
    return [b"event: %b\ndata: %b\n\n" % (one["type"].encode(), json.dumps(one).encode()) for one in out]


@dataclass
class Upstream:
    """Anthropic's API, which answers with bytes. bodies, headers, targets: what it was asked.

    first: the first answer, whole and as a stream, where it is another.
    """

    whole: bytes = b""
    stream: list[bytes] = field(default_factory=list)
    status: int = 200
    first: tuple[bytes, list[bytes]] | None = None
    bodies: list[bytes] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    targets: list[str] = field(default_factory=list)

    @property
    def app(self) -> Starlette:
        routes = [Route("/v1/messages", self._answer, methods=["POST"]),
                  Route("/v1/messages/count_tokens", self._count, methods=["POST"])]  # fmt: skip
        return Starlette(routes=routes)

    async def _note(self, request: Request) -> bytes:
        body = await request.body()
        self.bodies.append(body)
        self.headers.append(dict(request.headers))
        self.targets.append(request.url.path + ("?" + request.url.query if request.url.query else ""))
        return body

    async def _count(self, request: Request) -> Response:
        await self._note(request)
        return Response(b'{ "input_tokens": 1234 }', media_type="application/json")

    async def _answer(self, request: Request) -> Response:
        body = await self._note(request)
        headers = {"request-id": "req_upstream", "anthropic-ratelimit-requests-remaining": "9"}
        whole, stream = self.first if self.first is not None and len(self.bodies) == 1 else (self.whole, self.stream)
        if self.status == 200 and json.loads(body).get("stream"):
            return StreamingResponse(self._pieces(stream), media_type="text/event-stream", headers=headers)
        return Response(whole, self.status, media_type="application/json", headers=headers)

    async def _pieces(self, stream: list[bytes]) -> AsyncIterator[bytes]:
        for piece in stream:
            yield piece


Start = Callable[..., tuple[Upstream, str]]


def body(**fields: Any) -> bytes:
    said = {"model": "claude", "max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "tools": [READ]}
    return spelled({**said, **fields})


def ask(url: str, data: bytes, path: str = "/v1/messages?beta=true", **headers: str) -> httpx.Response:
    return httpx.post(url + path, content=data, headers={**VERSION, "content-type": "application/json", **headers})
