"""The life of the proxy's process: a signal to stop waits for running answers, SIGHUP reads the upstreams anew.

uvicorn alone closes its sockets at once: a health check could not tell a proxy that drains from a dead one, and new
connections would be refused instead of answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Callable, Iterator
from types import FrameType

from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.supervisors import Multiprocess

from ..middleware.warmup import settle

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
