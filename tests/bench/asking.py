"""A real engine, asked through the middleware as its clients would ask."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
from starlette.types import Message, Receive, Scope, Send

from toolcall_middleware import Settings, ToolCallMiddleware
from toolcall_middleware.cli.demo import local
from toolcall_middleware.cli.faces.answers import Received, read_answer
from toolcall_middleware.hosts.proxy.upstream.forwarder import Forwarder

_SECONDS = 600.0


class Backend:
    """The engine at `url`, as an app. `asked`: the body and the status of each request that reached it."""

    def __init__(self, url: str, key: str | None = None) -> None:
        self._app = Forwarder(url, Settings(upstream_key=key, upstream_timeout=_SECONDS, upstream_retries=0))
        self.asked: list[tuple[dict[str, Any], int]] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        body = b""

        async def noted() -> Message:
            nonlocal body
            message = await receive()
            body += message.get("body", b"")
            return message

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start" and body:
                self.asked.append((json.loads(body), message["status"]))
            await send(message)

        await self._app(scope, noted, counted)

    async def close(self) -> None:
        """Close its connections."""
        asked = iter(("lifespan.startup", "lifespan.shutdown"))

        async def receive() -> Message:
            return {"type": next(asked)}

        async def send(message: Message) -> None:
            pass

        await self._app({"type": "lifespan", "asgi": {"version": "3.0"}}, receive, send)


class Asker:
    """A client of the middleware before a backend."""

    def __init__(self, client: httpx.AsyncClient, backend: Backend) -> None:
        self.client = client
        self.backend = backend

    async def ask(self, text: str | list[dict[str, Any]], *, key: str = "alice", **fields: Any) -> Received:
        """One request, at temperature 0. text: what the user says, or all messages. key: the client's."""
        messages = [{"role": "user", "content": text}] if isinstance(text, str) else text
        body = {"model": local.MODEL, "messages": messages, "temperature": 0, "seed": 1, **fields}
        headers = {"authorization": f"Bearer {key}"}
        response = await self.client.post("/chat/completions", json=body, headers=headers)
        return read_answer(
            "chat",
            response.content,
            status=response.status_code,
            streamed=fields.get("stream", False),
            content_type=response.headers["content-type"],
        )


@asynccontextmanager
async def asker(url: str, key: str | None = None, **settings: Any) -> AsyncIterator[Asker]:
    """A client of the engine at `url` through the middleware with these settings."""
    backend = Backend(url, key)
    transport = httpx.ASGITransport(app=ToolCallMiddleware(backend, **settings))
    async with httpx.AsyncClient(transport=transport, base_url="http://app/v1", timeout=_SECONDS) as client:
        try:
            yield Asker(client, backend)
        finally:
            await backend.close()


def weights(given: Path | None) -> Path:
    """The model's file: the given one or the demo's. Ends the program with status 2 and a hint where there is none."""
    path = given or local.weights()
    if path is None:
        print(local.missing())
        raise SystemExit(2)
    return path
