"""How an upstream is asked: one interface, and which HTTP client has it, our own on httptools' parser or httpx."""

from __future__ import annotations

import asyncio
import importlib.util
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, cast

import anyio
from starlette.types import Message, Receive

from ....errors import ToolCallError
from ...http.client_library import httpx
from .connection import proxy_of_environment


class ClientGoneError(Exception):
    """The client does not wait for the answer any more."""


class RequestBody(httpx.AsyncByteStream):
    """The client's request body, piece by piece. `on_end` is called once, when nothing more is to be received."""

    def __init__(self, first: Message, receive: Receive, *, on_end: Callable[[], object]) -> None:
        self._first = first
        self._receive = receive
        self._on_end: Callable[[], object] | None = on_end
        self.length: int | None = None
        """Known when the whole body came at once."""
        self._declared: int | None = None
        if not first.get("more_body", False):
            self.length = len(first.get("body", b""))
            self.stop()

    def declare(self, length: bytes | None) -> None:
        """The length that the upstream is sent. A body that does not fit it raises ToolCallError."""
        self._declared = None if length is None else int(length)

    def stop(self) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()

    @property
    def whole(self) -> bytes | None:
        """All of it, where it came at once. Raises ToolCallError where it is not what was declared."""
        if self.length is None:
            return None
        self._check(self.length, more=False)
        body: bytes = self._first.get("body", b"")
        return body

    def _check(self, size: int, *, more: bool) -> None:
        if self._declared is not None and (size > self._declared or (not more and size < self._declared)):
            raise ToolCallError("invalid_request", "The request's body does not fit its content-length.")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        message = self._first
        more, size = True, 0
        while more:
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            part, more = message.get("body", b""), message.get("more_body", False)
            if not more:
                self.stop()
            size += len(part)
            self._check(size, more=more)
            if part:
                yield part
            if more:
                message = await self._receive()


Headers = list[tuple[bytes, bytes]]


class Progress:
    """How far a request got. `reused`: its connection was not opened for it. `sent`: all of it has left."""

    __slots__ = ("reused", "sent")

    def __init__(self) -> None:
        self.reused = False
        self.sent = False


@dataclass(frozen=True, slots=True)
class Question:
    """A request to an upstream. `seconds`: the timeouts, by httpx's names. The client writes to `progress`."""

    method: str
    target: bytes
    headers: Headers
    body: RequestBody
    seconds: Mapping[str, float | None]
    progress: Progress


class Reply(Protocol):
    """An answer whose head has come. It must be closed."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Headers:
        """As they came."""
        ...

    @property
    def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises httpx.TransportError."""
        ...

    async def close(self) -> None:
        """Give the connection back, or close it; also where this task is cancelled meanwhile."""


class Client(Protocol):
    """Asks one upstream."""

    async def ask(self, question: Question) -> Reply:
        """The answer as soon as its head has come. Raises httpx.TransportError, and what the body raises."""

    async def aclose(self) -> None:
        """Close all connections."""


# Below the five seconds after which uvicorn and Node close an idle connection, so that none is used while it closes.
_KEEPALIVE = 3.0
# Connections that are kept for later, at most.
_IDLE = 100

HAS_PARSER = importlib.util.find_spec("httptools") is not None
"""Whether httptools is there: it is compiled, and not for every machine."""


def client_to(origin: httpx.URL, *, connections: int | None, tls: ssl.SSLContext | None) -> Client:
    """What asks `origin`, over `connections` at a time at most. tls: what `tls_to` says of it.

    httpx asks by way of a proxy that the environment names, and everything where httptools is missing.
    """
    proxy = proxy_of_environment(origin)
    if proxy is None and HAS_PARSER:
        from .http1.client import OriginClient

        return OriginClient(origin, connections=connections, idle=_IDLE, keepalive=_KEEPALIVE, tls=tls)
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=_IDLE, keepalive_expiry=_KEEPALIVE)
    return HttpxClient(origin, httpx.AsyncHTTPTransport(limits=limits, proxy=proxy, verify=tls or False))


class HttpxClient:
    """Asks `origin`. It has a transport and not an httpx.AsyncClient, which would add headers of its own and keep a
    cookie jar that all users share.
    """

    def __init__(self, origin: httpx.URL, transport: httpx.AsyncBaseTransport) -> None:
        self._origin = origin
        self._transport = transport

    async def ask(self, question: Question) -> HttpxReply:
        """See Client."""
        trace = _Trace(question.progress)
        extensions = {"timeout": dict(question.seconds), "trace": trace}
        request = httpx.Request(
            question.method, self._origin, headers=question.headers, stream=question.body, extensions=extensions
        )
        request.url = _Target(self._origin, question.target)
        return HttpxReply(await self._transport.handle_async_request(request))

    async def aclose(self) -> None:
        """See Client."""
        await self._transport.aclose()


class HttpxReply:
    """See Reply."""

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self.status = response.status_code
        self.headers: Headers = response.headers.raw
        self.pieces: AsyncIterator[bytes] = aiter(cast("httpx.AsyncByteStream", response.stream))

    async def close(self) -> None:
        """See Reply. Half of a close would leave the pool a connection short.

        The shield is for anyio's scopes, the task of its own for `Task.cancel`.
        """
        cancelled: asyncio.CancelledError | None = None
        with anyio.CancelScope(shield=True):
            closing = asyncio.ensure_future(self._close())
            while not closing.done():
                try:
                    await asyncio.shield(closing)
                except asyncio.CancelledError as error:
                    cancelled = error
        if cancelled is not None:
            try:
                raise cancelled
            finally:
                cancelled = None  # it knows this frame, and would keep request and answer until the collector comes
        closing.result()

    async def _close(self) -> None:
        stream = self._response.extensions.get("network_stream")
        if stream is not None and self._has_more():
            # The pool checks whether the socket has input. Bytes that were read with this answer it would take for the
            # answer to the next request, which is another client's.
            await stream.aclose()
        await self._response.aclose()

    def _has_more(self) -> bool:
        """Whether bytes followed the answer. httpcore does not say, so this looks inside; False where that differs."""
        found: Any = self._response.stream
        for name in ("_httpcore_stream", "_stream", "_connection", "_h11_state"):
            found = getattr(found, name, None)
        return bool(getattr(found, "trailing_data", (b"",))[0])


class _Trace:
    """httpcore's extension `trace`, written to a request's progress."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._opened = False

    async def __call__(self, event: str, _info: object) -> None:
        if event.startswith("connection.connect"):
            self._opened = True
        elif ".send_request_headers" in event and not self._opened:
            self._progress.reused = True
        elif event.endswith(".send_request_body.complete"):
            self._progress.sent = True


class _Target(httpx.URL):
    """An origin with the client's own bytes as target: httpx.URL alone would resolve dots and quote anew."""

    def __init__(self, origin: httpx.URL, target: bytes) -> None:
        super().__init__(origin)
        self._target = target

    @property
    def raw_path(self) -> bytes:
        return self._target
