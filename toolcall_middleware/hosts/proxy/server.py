"""The proxy's process under uvicorn: a signal to stop waits for running answers, SIGHUP reads the upstreams anew, and
client connections are bounded.

uvicorn alone closes its sockets at once: a health check could not tell a proxy that drains from a dead one, and new
connections would be refused instead of answered. It closes only connections that are idle after an answer: those that
never send a request, or half a head, would stay, and some thousands of them use up all files of the process.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from types import FrameType
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol
from uvicorn.supervisors import Multiprocess

from ..middleware.start_up import settle

logger = logging.getLogger("toolcall_middleware.proxy")

_STOPS = (signal.SIGINT, signal.SIGTERM)
Handler = Callable[[int, FrameType | None], object]


class Lifetime:
    """Counts running requests. Under uvicorn, in the main thread, it takes signals; elsewhere it does nothing else.

    At SIGINT or SIGTERM `drain` is called; the server gets the signal when the last request has ended, or after
    `grace` seconds, when those that still run are cancelled; at once for a second SIGINT. At SIGHUP `reload` is
    called; without one SIGHUP does what SIGTERM does, unless it is ignored (`nohup`).
    """

    def __init__(self, *, drain: Callable[[], None], grace: float, reload: Callable[[], object] | None = None) -> None:
        self._drain = drain
        self._grace = grace
        self._reload = reload
        self._running: set[asyncio.Task[object]] = set()
        self._stopping: asyncio.Task[None] | None = None
        self._previous: dict[int, Handler] = {}
        self._idle = asyncio.Event()

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """While a request is answered by the current task."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - this is a coroutine of a task
        self._running.add(task)
        try:
            yield
        finally:
            self._running.discard(task)
            if not self._running:
                self._idle.set()

    async def lifespan(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Run `app` for the server's lifespan; when its start is complete, the process settles."""

        async def started(message: Message) -> None:
            await send(message)
            if message["type"] == "lifespan.startup.complete" and self._previous:
                settle()

        with self._signals():
            await app(scope, receive, started)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Signals are ours while the server's lifespan runs."""
        if threading.current_thread() is not threading.main_thread() or os.name == "nt":
            yield
            return
        loop = asyncio.get_running_loop()
        if self._reload is not None:
            loop.add_signal_handler(signal.SIGHUP, self._reload)
        for number in _STOPS:
            handler = signal.getsignal(number)
            # Another server's handler may be one that cannot be called later: it keeps its signals.
            if callable(handler) and type(getattr(handler, "__self__", None)).__module__.startswith("uvicorn"):
                self._previous[number] = handler
                loop.add_signal_handler(number, self._stop, number)
        if self._reload is None and self._previous and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
            loop.add_signal_handler(signal.SIGHUP, self._stop, signal.SIGTERM)
        try:
            yield
        finally:
            if self._reload is not None:
                loop.remove_signal_handler(signal.SIGHUP)

    def _stop(self, number: int) -> None:
        if self._stopping is not None:
            if number == signal.SIGINT:
                self._previous[number](number, None)
            return
        self._drain()
        self._stopping = asyncio.get_running_loop().create_task(self._wait(number))

    async def _wait(self, number: int) -> None:
        if self._running:
            logger.info("Waiting at most %g s for %d answers to end.", self._grace, len(self._running))
            self._idle.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._grace):
                    await self._idle.wait()
        if self._running:
            logger.error("%d answers did not end within %g s and are cut off.", len(self._running), self._grace)
            for task in self._running:
                task.cancel("the grace period is over")
        self._previous[number](number, None)


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
