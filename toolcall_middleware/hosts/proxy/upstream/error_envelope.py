"""An upstream's refusals, as clients may see them: in OpenAI's form on chat paths, never with the upstream's key."""

from __future__ import annotations

from functools import partial

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ....errors import ToolCallError
from ....wire.openai import read_error, read_value
from ...http.bodies import Inflate
from ...http.headers import ENTITY_HEADERS, OF_ITS_BYTES, without
from ...http.messages import is_chat
from ...http.offload import CODED, LARGE, offloaded
from .masking import Mask, MaskedStream

# A longer one is no error message; it passes.
_LIMIT = 256 * 1024
_MOST_INFLATED = 16 << 20
_MEMBERS = frozenset({"message", "type", "param", "code"})


class ErrorEnvelope:
    """Passes everything but answers of status 400 and more: these get OpenAI's envelope where POST `paths` were asked.

    `secrets`: replaced by `***` in bodies and in the headers of every answer; some servers quote what they refuse. An
    error, or a stream, in a content coding is decoded for that; one whose coding is not known leaves without its body.
    """

    def __init__(self, app: ASGIApp, *, paths: tuple[str, ...], secrets: tuple[str, ...] = ()) -> None:
        self._app = app
        self._paths = paths
        self._mask = Mask(secrets)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = _Answer(send, self._mask, chat=is_chat(scope, self._paths))
        await self._app(scope, receive, answer.send)


class _Answer:
    """One answer on its way to the client."""

    def __init__(self, send: Send, mask: Mask, *, chat: bool) -> None:
        self._client = send
        self._mask = mask
        self._chat = chat
        self._start: Message | None = None  # of an error that is held
        self._parts: list[bytes] = []
        self._size = 0
        self._stream: MaskedStream | None = None
        self._inflate: Inflate | None = None
        self._unreadable = False
        self._passes = False  # nothing is done to its body

    async def send(self, message: Message) -> None:
        """ASGI's `send`."""
        if self._passes:
            await self._client(message)
        elif message["type"] == "http.response.start":
            await self._begin(message)
        elif message["type"] == "http.response.body":
            await self._body(message)
        else:
            await self._client(message)

    async def _begin(self, message: Message) -> None:
        headers = list(message.get("headers", ()))
        if self._mask:
            headers = [(name, self._mask.whole(value)) for name, value in headers]
        is_error = message["status"] >= 400
        kind = next((value for name, value in headers if name.lower() == b"content-type"), b"")
        is_stream = kind.lower().startswith(b"text/event-stream")
        coding = _coding(headers)
        if coding and (is_error or (is_stream and self._mask)):
            headers = without(headers, ENTITY_HEADERS)
            coding, inflated = "", coding
            try:
                self._inflate = Inflate(inflated, _MOST_INFLATED if is_error else None)
            except ToolCallError:
                self._unreadable = True
        message = {**message, "headers": headers}
        if is_error:
            self._start = message
        else:
            # What is coded is not read, unless it is decoded.
            if self._mask and not coding:
                self._stream = self._masked(headers)
            self._passes = self._stream is None and self._inflate is None and not self._unreadable
            await self._client(message)

    def _masked(self, headers: list[tuple[bytes, bytes]]) -> MaskedStream:
        return MaskedStream(self._mask, keeps_length=any(name.lower() == b"content-length" for name, _ in headers))

    async def _body(self, message: Message) -> None:
        data, more = message.get("body", b""), message.get("more_body", False)
        try:
            if self._unreadable:
                data = b""
            elif self._inflate is not None:
                data = await offloaded(LARGE + 1 if len(data) > CODED else 0, self._inflate.feed, data)
        except ToolCallError:
            data, self._unreadable = b"", True
        start = self._start
        if start is None:
            out = data
            if self._stream is not None:
                out = await offloaded(len(data), partial(self._stream.feed, last=not more), data)
            if out is data and data is message.get("body"):
                await self._client(message)
            elif out or not more:
                await self._client({**message, "body": out})
            return
        self._parts.append(data)
        self._size += len(data)
        if not more:
            await self._finish(start, b"".join(self._parts))
        elif self._size > _LIMIT:
            self._start = None
            self._stream = self._masked(start["headers"])
            await self._client(start)
            await self._client({**message, "body": self._stream.feed(b"".join(self._parts), last=False)})

    async def _finish(self, start: Message, body: bytes) -> None:
        out = await offloaded(len(body), self._mask.whole, body)
        headers = list(start["headers"])
        if self._chat and not await offloaded(len(out), _is_envelope, out):
            out = await offloaded(len(out), _in_envelope, out, start["status"])
            headers = without(headers, OF_ITS_BYTES | {b"content-type"})
            headers.append((b"content-type", b"application/json"))
        if out != body or self._inflate is not None or self._unreadable:
            headers = without(headers, {b"content-length"})
            headers.append((b"content-length", b"%d" % len(out)))
        await self._client({**start, "headers": headers})
        await self._client({"type": "http.response.body", "body": out, "more_body": False})


def _coding(headers: list[tuple[bytes, bytes]]) -> str:
    codings = [value.strip().lower() for name, value in headers if name.lower() == b"content-encoding"]
    return b", ".join(coding for coding in codings if coding not in {b"", b"identity"}).decode("latin-1")


def _in_envelope(body: bytes, status: int) -> bytes:
    return read_error(body, status).body()


def _is_envelope(body: bytes) -> bool:
    value = read_value(body)
    error = value.get("error") if isinstance(value, dict) else None
    return isinstance(error, dict) and isinstance(error.get("message"), str) and error.keys() >= _MEMBERS
