"""Client connections of `serve`: how many there may be, and how long a request's head may take.

uvicorn alone closes only those that are idle after an answer. One that never says a word, or half a head, would stay,
and with some thousands of them there is no file left for anybody else.
"""

from __future__ import annotations

import asyncio
import logging
import time
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

try:
    import resource
except ImportError:  # there is none on Windows
    resource = None  # type: ignore[assignment]

HEAD_SECONDS = 20.0
"""From a connection's beginning, or a request's first byte, to the end of its head."""
_MOST = 65_536
# How many open files are neither a client's connection nor an upstream's.
_OTHER_FILES = 64
# Connections that are taken beyond the bound while all others are being answered: /healthz has to be answered, too.
_SPARE = 16


def most_connections() -> int:
    """How many clients may be connected: each may need a second file, for its upstream."""
    files = _MOST if resource is None else resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files < 0 or files > _MOST:  # RLIM_INFINITY is -1
        files = _MOST
    return max(8, (files - _OTHER_FILES) // 2)


class HeadsHeld:
    """A client's transport that writes the head of an answer together with what follows at once: one write less.

    uvicorn writes a head by itself. What does not follow in this turn of the event loop is not waited for.
    """

    __slots__ = ("_head", "_loop", "_transport", "_write")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._write = transport.write
        self._loop = loop
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """As a transport's."""
        if self._head:
            data, self._head = self._head + data, b""
        elif data.startswith(b"HTTP/1.1 "):
            self._head = data
            self._loop.call_soon(self._flush)
            return
        self._write(data)

    def close(self) -> None:
        """As a transport's: what was written is sent first."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._write(head)


_Base: Any = object if TYPE_CHECKING else asyncio.Protocol


class Bounded(_Base):  # type: ignore[misc]
    """Before one of uvicorn's HTTP protocols: a bound on connections and on the time for a request's head.

    Above the bound the connection that has waited longest without a request makes room.
    """

    head_seconds = HEAD_SECONDS
    most: int | None = None
    """Connections; None: by the limit of open files."""

    def connection_made(self, transport: asyncio.Transport) -> None:
        """A client has connected."""
        super().connection_made(transport)
        self.transport: Any = HeadsHeld(transport, self.loop)
        self._since = time.monotonic()
        self._head: asyncio.TimerHandle | None = None
        most = most_connections() if self.most is None else self.most
        if len(self.connections) > most and not self._make_room() and len(self.connections) > most + _SPARE:
            transport.abort()
            return
        self._look()

    def data_received(self, data: bytes) -> None:
        """Bytes of a client."""
        super().data_received(data)
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is gone."""
        self._forget_head()
        super().connection_lost(exc)

    @property
    def is_answering(self) -> bool:
        """Whether a request is under way."""
        return self.cycle is not None and not self.cycle.response_complete

    def _look(self) -> None:
        if self.is_answering:
            self._forget_head()
        elif self._head is None:
            self._since = time.monotonic()
            self._head = self.loop.call_later(self.head_seconds, self._too_late)

    def _too_late(self) -> None:
        self._head = None
        if not self.is_answering and not self.transport.is_closing():
            self.transport.abort()

    def _forget_head(self) -> None:
        if self._head is not None:
            self._head.cancel()
            self._head = None

    def _make_room(self) -> bool:
        waiting = [
            other
            for other in self.connections
            if isinstance(other, Bounded)
            and other is not self
            and not other.is_answering
            and not other.transport.is_closing()
        ]
        if waiting:
            min(waiting, key=lambda other: other._since).transport.abort()  # noqa: SLF001 - our own class
        return bool(waiting)


_Auto: Any = AutoHTTPProtocol


class BoundedProtocol(Bounded, _Auto):  # type: ignore[misc]
    """`Bounded` on httptools' parser where that is installed, else on h11's."""


class OnceASecond(logging.Filter):
    """Lets asyncio's words about the file limit pass once a second: they come for each place in the backlog."""

    def __init__(self) -> None:
        super().__init__()
        self._last: dict[str, float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether the record is written."""
        message = record.getMessage().partition("\n")[0][:200]
        if "accept" not in message:
            return True
        now = time.monotonic()
        passes = now - self._last.get(message, -1.0) >= 1.0
        if passes:
            self._last = {message: now}
        return passes


def bound_logging() -> None:
    """Lets asyncio's words about a full table of files come once a second."""
    asyncio_log = logging.getLogger("asyncio")
    if not any(isinstance(each, OnceASecond) for each in asyncio_log.filters):
        asyncio_log.addFilter(OnceASecond())
