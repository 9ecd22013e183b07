"""uvicorn's parts of the proxy's process: client connections are bounded, and SIGHUP reads the upstreams anew in each
worker.

uvicorn closes only connections that are idle after an answer: those that never send a request, or half a head, would
stay, and some thousands of them use up all files of the process.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.supervisors import Multiprocess


def supervise(*, reloads: bool) -> None:
    """Sets what uvicorn's supervisor of worker processes does at SIGHUP: by default it restarts them.

    With `reloads` each worker reads the upstreams anew. Else the server ends as at SIGTERM.
    """
    handler = _hand_on_hangup if reloads else _end
    setattr(Multiprocess, "handle_hup", handler)  # noqa: B010 - mypy forbids the other way to say it


def _hand_on_hangup(supervisor: Multiprocess) -> None:
    for process in supervisor.processes:
        if process.pid is not None:
            os.kill(process.pid, signal.SIGHUP)


def _end(supervisor: Multiprocess) -> None:
    supervisor.should_exit.set()


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
