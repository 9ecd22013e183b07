"""Anthropic's API on loopback: it answers from a script, and as strictly as the SDK's types and the API's rules are."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

from anthropic.types import Message, ModelInfo
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from ...apis.messages import anthropic_api as api

KEY = "sk-ant-test"


@dataclass
class Failure:
    """An error answer."""

    status: int
    kind: str
    text: str
    headers: dict[str, str] = field(default_factory=dict)


@dataclass
class Break:
    """A stream that goes wrong after `events` of `message`: by an error event, or (None) by its connection's end."""

    message: Message
    events: int
    kind: str | None = None


@dataclass
class AnthropicUpstream:
    """`script` is what it answers, in turn; `asked` are the bodies it got, `headers` theirs."""

    script: list[Message | Failure | Break] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    pause: float = 0.0

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
        # The second is what the SDK sends since its version 2.
        shown = request.headers.get("x-api-key") or request.headers.get("authorization", "").removeprefix("Bearer ")
        if shown != KEY:
            return _failure(Failure(401, "authentication_error", "invalid x-api-key"))
        version = request.headers.get("anthropic-version")
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
        item = self.script.pop(0)
        if isinstance(item, Failure):
            return _failure(item)
        headers = {"request-id": "req_011"}
        if body.get("stream"):
            return StreamingResponse(self._events(item), media_type="text/event-stream", headers=headers)
        assert isinstance(item, Message)
        return Response(item.model_dump_json(exclude_none=True), media_type="application/json", headers=headers)

    async def _events(self, item: Message | Break) -> AsyncIterator[bytes]:
        message = item.message if isinstance(item, Break) else item
        for number, event in enumerate(api.events(message)):
            if isinstance(item, Break) and number == item.events:
                if item.kind is None:
                    raise ConnectionResetError
                error = {"type": "error", "error": {"type": item.kind, "message": "Overloaded"}}
                yield b"event: error\ndata: " + json.dumps(error).encode() + b"\n\n"
                return
            yield api.wire([event])
            await asyncio.sleep(self.pause)

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
