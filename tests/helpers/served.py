"""An app behind the middleware that other servers than uvicorn run: `python -m tests.helpers.served SERVER PORT`.

A request whose text is "endless" gets a stream that ends only when the client leaves or the middleware has enough, one
whose text is "dies" an app that raises in the middle, or before its answer where that is whole. "html" and "teapot" get
such an answer.
`GET /running` tells how many answers are being written.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from tests.helpers.asgi_client import BLOCK
from toolcall_middleware import ToolCallMiddleware

running = 0


class EngineDiedError(Exception):
    """What the app raises where it is told to."""


async def _write(*, endless: bool, dies: bool) -> AsyncIterator[bytes]:
    global running  # noqa: PLW0603 - one number of one process
    running += 1
    try:
        text = "The weather: " + ("" if endless else BLOCK)
        for at in range(0, len(text), 3):
            yield _event({"content": text[at : at + 3]})
            await asyncio.sleep(0)
            if dies and at > 6:
                raise EngineDiedError
        while endless:
            yield _event({"content": "and so on "})
            await asyncio.sleep(0.01)
        yield _event({}, "stop")
        yield b"data: [DONE]\n\n"
    finally:
        running -= 1


def _event(delta: dict[str, str], finish_reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps({**head, "choices": [choice]}).encode() + b"\n\n"


async def _chat(request: Request) -> Response:
    body = await request.json()
    said = body["messages"][-1]["content"]
    if "html" in said:
        return Response("<html>Bad gateway</html>", media_type="text/html")
    if "teapot" in said:
        return Response("no coffee", status_code=418)
    if body.get("stream"):
        written = _write(endless="endless" in said, dies="dies" in said)
        return StreamingResponse(written, media_type="text/event-stream")
    if "dies" in said:
        raise EngineDiedError
    message = {"role": "assistant", "content": "The weather: " + BLOCK}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    return JSONResponse({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})


async def _running(_request: Request) -> Response:
    return JSONResponse(running)


app = ToolCallMiddleware(
    Starlette(routes=[Route("/v1/chat/completions", _chat, methods=["POST"]), Route("/running", _running)])
)


def main(server: str, port: int) -> None:
    if server == "uvicorn":
        import uvicorn

        uvicorn.run(app, port=port, log_level="error")
    elif server == "hypercorn":
        from hypercorn.asyncio import serve
        from hypercorn.config import Config

        config = Config()
        config.bind = [f"127.0.0.1:{port}"]
        asyncio.run(serve(app, config))  # type: ignore[arg-type]
    elif server == "granian":
        from granian import Granian
        from granian.constants import Interfaces

        Granian("tests.helpers.served:app", port=port, interface=Interfaces.ASGI).serve()
    else:
        raise SystemExit(f"no server {server!r}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
