"""An app behind the middleware for uvicorn's workers: it calls as many tools as the last message says."""

from __future__ import annotations

import json
import os
from typing import Any

from tests.helpers.fakes import TextBackend, write_calls
from toolcall_middleware import ToolCallMiddleware


def model(body: dict[str, Any]) -> str:
    number = int(body["messages"][-1]["content"].split()[0])
    return write_calls("hermes", *[("f", {"x": i}) for i in range(number)]) if number else "No call."


async def app(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] == "lifespan":
        for kind in ("startup", "shutdown"):
            await receive()
            await send({"type": f"lifespan.{kind}.complete"})
    elif scope["path"] == "/pid":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"connection", b"close")]})
        await send({"type": "http.response.body", "body": str(os.getpid()).encode()})
    elif b"refused" in json.dumps([value.decode() for _, value in scope["headers"]]).encode():
        await send({"type": "http.response.start", "status": 401, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": b'{"error": {"message": "who are you"}}'})
    else:
        await TextBackend(model)(scope, receive, send)


def create() -> ToolCallMiddleware:
    return ToolCallMiddleware(app)
