"""An app that fails on request, for the soak: `metadata.fault` of a request says how.

`python -m tests.bench.faulty PORT` serves it behind the middleware. `GET /state` tells what still runs.
"""

from __future__ import annotations

import asyncio
import gc
import gzip
import json
import resource
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, MutableMapping
from pathlib import Path
from typing import Any

from starlette.requests import ClientDisconnect, Request

from toolcall_middleware import ToolCallMiddleware

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

FAULTS = [
    *["none"] * 4, "bytes", "crlf", "comments", "no_done", "no_finish", "cut", "dies", "dies_before", "error_event",
    "garbage_event", "html", "error_500", "error_400", "refused", "no_content", "redirect", "gzip", "wrong_type",
    "empty", "stalls", "whole_stream", "returns", "call_twice", "long_event",
]  # fmt: skip
HTML = b"<html><body>Bad gateway</body></html>"


class EngineDiedError(RuntimeError):
    """What the app raises where it is told to."""


class Faulty:
    """The app. `running`: answers that are being written."""

    def __init__(self) -> None:
        self.running = 0

    async def __call__(self, scope: Any, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._lifespan(receive, send)
        elif scope["path"] == "/state":
            await _answer(send, 200, json.dumps(self._state()).encode())
        else:
            self.running += 1
            try:
                await self._chat(scope, receive, send)
            finally:
                self.running -= 1

    @staticmethod
    async def _lifespan(receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            kind = message["type"]
            await send({"type": f"{kind}.complete"})
            if kind == "lifespan.shutdown":
                return

    def _state(self) -> dict[str, int]:
        gc.collect()
        pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
        return {"running": self.running, "tasks": len(asyncio.all_tasks()), "rss": pages * resource.getpagesize()}

    async def _chat(self, scope: Any, receive: Receive, send: Send) -> None:
        try:
            body = await Request(scope, receive).json()
        except ClientDisconnect:
            return
        plan = body.get("metadata") or {}
        fault, text, at = plan["fault"], plan["text"], int(plan["at"])
        if fault == "refused" and "response_format" not in body and "tools" not in body:
            fault = "none"
        early = _EARLY.get(fault)
        if early is not None:
            status, kind, content = early
            await _answer(send, status, content, kind)
        elif fault == "dies_before":
            raise EngineDiedError(fault)
        elif body.get("stream") and fault != "whole_stream":
            await _stream(send, fault, text, at)
        else:
            await _whole(send, fault, text, at)


_JSON = b"application/json"
_EARLY: dict[str, tuple[int, bytes, bytes]] = {
    "html": (200, b"text/html", HTML),
    "error_500": (500, _JSON, b'{"error": {"message": "engine died", "code": 500}}'),
    "error_400": (400, _JSON, b'{"detail": "bad temperature"}'),
    "refused": (400, _JSON, b'{"error": {"message": "response_format is not supported"}}'),
    "no_content": (204, _JSON, b""),
    "redirect": (307, _JSON, b""),
    "empty": (200, b"text/event-stream", b""),
}


async def _answer(send: Send, status: int, content: bytes, kind: bytes = _JSON, *more: tuple[bytes, bytes]) -> None:
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-type", kind), *more]})
    await send({"type": "http.response.body", "body": content})


async def _whole(send: Send, fault: str, text: str, at: int) -> None:
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    body = json.dumps({"id": "c", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]})
    content = body.encode()
    if fault == "gzip":
        return await _answer(send, 200, gzip.compress(content), _JSON, (b"content-encoding", b"gzip"))
    if fault == "wrong_type":
        return await _answer(send, 200, content, b"text/plain")
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", _JSON)]})
    if fault in {"dies", "stalls"}:
        await send({"type": "http.response.body", "body": content[:at], "more_body": True})
        await asyncio.sleep(0.05 if fault == "stalls" else 0)
        if fault == "dies":
            raise EngineDiedError(fault)
        content = content[at:]
    elif fault in {"cut", "returns", "garbage_event"}:
        content = content[:at]
    if fault == "returns":
        return await send({"type": "http.response.body", "body": content, "more_body": True})
    return await send({"type": "http.response.body", "body": content})


async def _stream(send: Send, fault: str, text: str, at: int) -> None:
    kind = b"application/json" if fault == "wrong_type" else b"text/event-stream"
    if fault == "gzip":
        content = gzip.compress(b"".join([event async for event in _events(fault, text, at)]))
        return await _answer(send, 200, content, kind, (b"content-encoding", b"gzip"))
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
    sent = 0
    async for event in _events(fault, text, at):
        size = 7 if fault == "bytes" else len(event)
        for number in range(0, len(event), size):
            await send({"type": "http.response.body", "body": event[number : number + size], "more_body": True})
        sent += 1
        if fault in {"dies", "returns"} and sent > at % 20:
            if fault == "dies":
                raise EngineDiedError(fault)
            return None
        if sent % 5 == 0:
            await asyncio.sleep(0.002)
        if fault == "stalls" and sent == at % 20:
            await asyncio.sleep(0.2)
    return await send({"type": "http.response.body", "body": b""})


async def _events(fault: str, text: str, at: int) -> AsyncIterator[bytes]:
    end = b"\r\n\r\n" if fault == "crlf" else b"\n\n"
    size = max(1, at % 9)
    if fault == "call_twice":
        text += "\n" + text

    def event(delta: dict[str, str], reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        comment = b": still here" + end if fault == "comments" else b""
        chunk = {**head, "choices": [choice]}
        if fault == "long_event":
            chunk["padding"] = "x" * 100_000
        return comment + b"data: " + json.dumps(chunk, ensure_ascii=False).encode() + end

    yield event({"role": "assistant", "content": ""})
    for number, start in enumerate(range(0, len(text), size)):
        if fault == "cut" and number > at % 20:
            return
        if fault == "error_event" and number > at % 20:
            yield b'data: {"error": {"message": "engine died", "code": 500}}' + end
            break
        if fault == "garbage_event" and number == at % 20:
            yield b"data: {not json" + end
        yield event({"content": text[start : start + size]})
    else:
        if fault != "no_finish":
            yield event({}, "stop")
    if fault != "no_done":
        yield b"data: [DONE]" + end


app = ToolCallMiddleware(Faulty(), mode="prompt", format="auto")


def main(port: int) -> None:
    import uvicorn

    uvicorn.run(app, port=port, log_level="critical", timeout_graceful_shutdown=5)


if __name__ == "__main__":
    main(int(sys.argv[1]))
