"""An upstream's refusals, as clients may see them: in OpenAI's form on chat paths, never with the upstream's key."""

from __future__ import annotations

from functools import partial
from http import HTTPStatus

from starlette.types import ASGIApp, Receive, Scope, Send

from ....errors import ToolCallError
from ....wire.openai import read_error, read_value
from ...http.answer import Answer, Reads
from ...http.headers import without
from ...http.offload import LARGE, offloaded
from ...http.paths import is_chat
from .masking import Mask, MaskedStream

# A longer one is no error message; it passes.
_LIMIT = 256 * 1024
_MOST_INFLATED = 16 << 20
_MEMBERS = frozenset({"message", "type", "param", "code"})


class ErrorEnvelope:
    """Passes everything but answers of status 400 and more: these get OpenAI's envelope where POST `paths` were asked.

    `secrets`: replaced by `***` in bodies and in the headers of every answer; some servers quote what they refuse. An
    error, or a stream, in a content coding is decoded for that; one whose coding is not known is sent without its body.
    `hint`: added to the message of a 404.
    """

    def __init__(self, app: ASGIApp, *, paths: tuple[str, ...], secrets: tuple[str, ...] = (), hint: str = "") -> None:
        self._app = app
        self._hint = hint
        self._paths = paths
        self._mask = Mask(secrets)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Refusal(send, self._mask, chat=is_chat(scope, self._paths), hint=self._hint)
        await self._app(scope, receive, answer.send)


class _Refusal(Answer):
    """An answer without secrets; where it is an error, in OpenAI's envelope for `chat`."""

    def __init__(self, send: Send, mask: Mask, *, chat: bool, hint: str) -> None:
        super().__init__(send, _LIMIT)
        self._hint = hint
        self._mask = mask
        self._chat = chat
        self._stream: MaskedStream | None = None
        self._unreadable = False

    def begun(self) -> Reads:
        """See Answer."""
        start, is_error = self.start, self.start["status"] >= 400
        if self._mask:
            start["headers"] = [(name, self._mask.whole(value)) for name, value in start["headers"]]
        if self.coding and (is_error or (self._mask and self.header(b"content-type").startswith(b"text/event-stream"))):
            try:
                self.decode(_MOST_INFLATED if is_error else None)
            except ToolCallError:
                self._unreadable = True
        if is_error:
            return Reads.WHOLE
        if not self._mask or self.coding:  # a body that is still coded is not read
            return Reads.NOTHING
        self._begin_stream()
        return Reads.PIECES

    def _begin_stream(self) -> None:
        self._stream = MaskedStream(self._mask, keeps_length=bool(self.header(b"content-length")))

    async def decoded(self, data: bytes) -> bytes:
        """See Answer. What cannot be decoded is sent without its body."""
        if not self._unreadable:
            try:
                return await super().decoded(data)
            except ToolCallError:
                self._unreadable = True
        return b""

    async def piece(self, data: bytes, *, last: bool) -> bytes:
        """See Answer."""
        assert self._stream is not None  # noqa: S101 - it is read in pieces
        if len(data) <= LARGE:
            return self._stream.feed(data, last=last)
        return await offloaded(len(data), partial(self._stream.feed, last=last), data)

    async def whole(self, body: bytes) -> bytes | None:
        """See Answer."""
        out = await offloaded(len(body), self._mask.whole, body)
        hint = self._hint if self.start["status"] == HTTPStatus.NOT_FOUND else ""
        if self._chat and (hint or not await offloaded(len(out), _is_envelope, out)):
            out = await offloaded(len(out), _in_envelope, out, self.start["status"], hint)
            self.replaced((b"content-type", b"application/json"), length=len(out))
        elif out != body or self._decodes:
            self.start["headers"] = without(self.start["headers"], {b"content-length"})
            self.start["headers"].append((b"content-length", b"%d" % len(out)))
        else:
            return None
        return out

    async def too_long(self) -> None:
        """See Answer."""
        self.reads = Reads.PIECES
        self._begin_stream()
        for message in self.taken():
            await self.give(await self.piece(message["body"], last=False), more=True)


def _in_envelope(body: bytes, status: int, hint: str) -> bytes:
    error = read_error(body, status)
    error.message += f" {hint}" if hint else ""
    return error.body()


def _is_envelope(body: bytes) -> bool:
    value = read_value(body)
    error = value.get("error") if isinstance(value, dict) else None
    return isinstance(error, dict) and isinstance(error.get("message"), str) and error.keys() >= _MEMBERS
