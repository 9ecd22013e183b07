"""The one interface to an upstream: send a question; the reply has a status, headers and pieces, and is closed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from starlette.types import Message, Receive

from ....errors import ToolCallError
from ...http.client_library import httpx


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
