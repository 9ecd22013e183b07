"""`send=completions`: the app's `/completions` in the place of its `/chat/completions`, its answers as a chat's."""

from __future__ import annotations

import asyncio
import logging
import re

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...apis.completions.answer import CompletionAnswer
from ...apis.completions.request import wanted_logprobs
from ...upstream.completions.pending import PendingPrompt
from ..http.bodies import Inflate
from ..http.headers import ENTITY_HEADERS, without
from ..http.paths import normal_path

_log = logging.getLogger("toolcall_middleware")
_CHAT = re.compile(r"/+chat/+completions/*\Z", re.IGNORECASE)
_COMPLETIONS = "/completions"
_NOT_THERE = frozenset({404, 405, 501})


async def written(app: ASGIApp, body: bytes, prompt: PendingPrompt) -> tuple[ASGIApp, bytes]:
    """The app to ask, and the body to ask it with, once the prompt is written. Raises ToolCallError.

    body: a chat completion's.
    """
    await asyncio.to_thread(prompt.write)
    return Completions(app, top=wanted_logprobs(body), limit=prompt.limit), prompt.body(body)


class Completions:
    """An ASGI app: takes a text completion's body at the path of chat completions, and answers with a chat's.

    top: how many of the likeliest tokens the client wants beside each. limit: bytes of a whole answer that are kept.
    """

    def __init__(self, app: ASGIApp, *, top: int | None, limit: int | None) -> None:
        self._app = app
        self._top = top
        self._limit = limit

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        answer = _Answer(send, CompletionAnswer(top=self._top, limit=self._limit), self._limit)
        await self._app(_beside(scope), receive, answer.send)
        await answer.broken_off()


def _beside(scope: Scope) -> Scope:
    """The scope for `/completions` on the same server."""
    path, raw = scope["path"], scope.get("raw_path")
    if not _CHAT.search(path):
        path, raw = normal_path(path), None  # spelled otherwise, as the most lenient server would read it
    raw_path = None if raw is None else raw.decode("latin-1")
    if raw_path is None or not _CHAT.search(raw_path):
        raw_path = path
    return {
        **scope,
        "path": _CHAT.sub(_COMPLETIONS, path),
        "raw_path": _CHAT.sub(_COMPLETIONS, raw_path).encode("latin-1", "replace"),
    }


class _Answer:
    """What the app sends, on its way to the exchange."""

    def __init__(self, send: Send, answer: CompletionAnswer, limit: int | None) -> None:
        self._send = send
        self._answer = answer
        self._limit = limit
        self._inflate: Inflate | None = None
        self._reads = False  # the answer is a success
        self._streams = False
        self._ended = False
        self._parts: list[bytes] = []
        self._size = 0

    async def send(self, message: Message) -> None:
        """The app's side of ASGI's `send`."""
        if message["type"] == "http.response.start":
            await self._send(self._on_start(message))
        elif message["type"] == "http.response.body" and self._reads:
            await self._on_body(bytes(message.get("body", b"")), more=message.get("more_body", False))
        else:
            await self._send(message)

    async def broken_off(self) -> None:
        """The app has returned. What it left unfinished is for the exchange to judge."""
        if self._reads and not self._ended:
            rest = self._answer.finish() if self._streams else b"".join(self._parts)
            if rest:
                await self._send({"type": "http.response.body", "body": rest, "more_body": True})

    def _on_start(self, message: Message) -> Message:
        status, headers = message["status"], list(message.get("headers", ()))
        if status in _NOT_THERE:
            _log.warning(
                "send=completions: the backend answers %d, it may have no /completions at this address.", status
            )
        if not 200 <= status < 300:
            return {**message, "headers": headers}
        self._reads = True
        told = {name.lower(): value.strip().lower() for name, value in headers}
        self._streams = told.get(b"content-type", b"").startswith(b"text/event-stream")
        coding = told.get(b"content-encoding", b"identity")
        if coding not in {b"", b"identity"}:
            self._inflate = Inflate(coding.decode("latin-1"), self._limit)
        return {**message, "headers": without(headers, ENTITY_HEADERS)}

    async def _on_body(self, data: bytes, *, more: bool) -> None:
        if self._inflate is not None:
            data = self._inflate.feed(data)
        if self._streams:
            out = self._answer.feed(data)
            if not more:
                out += self._answer.finish()
        else:
            self._parts.append(data)
            self._size += len(data)
            if more and (self._limit is None or self._size <= self._limit):
                return
            out, self._parts = b"".join(self._parts), []
            if more:
                self._reads = False  # too long to be kept: who reads it says so
            else:
                out = self._answer.whole(out)
        self._ended = not more
        if out or not more:
            await self._send({"type": "http.response.body", "body": out, "more_body": more})
