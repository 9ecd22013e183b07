"""`send=completions`: the app's `/completions` in the place of its `/chat/completions`, its answers as a chat's."""

from __future__ import annotations

import asyncio
import logging
import re

from starlette.types import ASGIApp, Receive, Scope, Send

from ...apis.completions import CompletionAnswer, wanted_logprobs
from ...upstream.raw_prompt import RawPrompt
from ..http.answer import Answer, Reads
from ..http.head import normal_path

_log = logging.getLogger("toolcall_middleware")
_CHAT = re.compile(r"/+chat/+completions/*\Z", re.IGNORECASE)
_COMPLETIONS = "/completions"
_NOT_THERE = frozenset({404, 405, 501})


async def written(app: ASGIApp, body: bytes, prompt: RawPrompt) -> tuple[ASGIApp, bytes]:
    """An app that is asked at the path of chat completions, and the body to ask it with, once the prompt is written.

    The body is a text completion's, the answer a chat's. body: a chat completion's. Raises ToolCallError.
    """
    await asyncio.to_thread(prompt.write)
    top, limit = wanted_logprobs(body), prompt.limit

    async def completions(scope: Scope, receive: Receive, send: Send) -> None:
        answer = _ChatAnswer(send, CompletionAnswer(top=top, limit=limit), limit)
        await app(_completions_scope(scope), receive, answer.send)
        await answer.broken_off()

    return completions, prompt.body(body)


def _completions_scope(scope: Scope) -> Scope:
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


class _ChatAnswer(Answer):
    """A text completion on its way to the exchange, which gets a chat's."""

    def __init__(self, send: Send, answer: CompletionAnswer, limit: int | None) -> None:
        super().__init__(send, limit)
        self._answer = answer
        self._raw = False

    def begun(self) -> Reads:
        """See Answer."""
        status = self.start["status"]
        if status in _NOT_THERE:
            _log.warning(
                "send=completions: the backend answers %d, it may have no /completions at this address.", status
            )
        if not 200 <= status < 300:
            return Reads.NOTHING
        streams = self.header(b"content-type").startswith(b"text/event-stream")
        self.decode(self._limit)
        return Reads.PIECES if streams else Reads.WHOLE

    async def piece(self, data: bytes, *, last: bool) -> bytes:
        """See Answer."""
        if self._raw:
            return data
        out = self._answer.feed(data)
        return out + self._answer.finish() if last else out

    async def whole(self, body: bytes) -> bytes:
        """See Answer."""
        return self._answer.whole(body)

    async def too_long(self) -> None:
        """See Answer. The exchange refuses what is too long."""
        await self.flush()
        self._raw, self.reads = True, Reads.PIECES

    async def broken_off(self) -> None:
        """The app has returned. The exchange judges what it left unfinished."""
        if self.ended:
            return
        if self.reads is Reads.PIECES and not self._raw and (rest := self._answer.finish()):
            await self.give(rest, more=True)
        await self.flush()
