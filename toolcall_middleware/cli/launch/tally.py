"""Counts the requests, errors and calls of a launch's proxy, and keeps its log.

The terminal is the agent's until it ends; what the proxy would print is shown after that.
"""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Iterator

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...response.outcome import CallOutcome
from ..command import many

_MOST_LINES = 20
_STAYS_TEXT = frozenset({CallOutcome.UNKNOWN_TOOL, CallOutcome.MALFORMED})
"""Outcomes of calls that no client gets as a call."""


class Tally(logging.Handler):
    """An ASGI app before the proxy, and the handler of its log. `calls`: those that the agent gets, by name."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(logging.INFO)
        self._app = app
        self.calls: Counter[str] = Counter()
        self._requests = 0
        self._failed: Counter[int] = Counter()  # by status
        self._outcomes: Counter[str] = Counter()  # of all calls that are not clean
        self._lines: dict[str, int] = {}  # how often each line was logged, the latest last

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        self._requests += 1

        async def counting(message: Message) -> None:
            if message["type"] == "http.response.start" and message["status"] >= 400:
                self._failed[message["status"]] += 1
            await send(message)

        await self._app(scope, receive, counting)

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "toolcall", None) or {}
        if fields.get("event") == "call":
            outcome = fields["outcome"]
            if outcome not in _STAYS_TEXT:
                self.calls[fields["tool"]] += 1
            if outcome != CallOutcome.CLEAN:
                self._outcomes[outcome] += 1
        is_warning = record.levelno >= logging.WARNING
        if is_warning or fields.get("event") == "refused":
            line = f"{record.levelname.lower()}: {record.getMessage()}" if is_warning else record.getMessage()
            line = line.partition(" id=")[0]  # each request's own
            self._lines[line] = self._lines.pop(line, 0) + 1
            if len(self._lines) > _MOST_LINES:
                del self._lines[next(iter(self._lines))]

    @property
    def answers(self) -> int:
        """Requests that were not answered with an error."""
        return self._requests - self._failed.total()

    def lines(self, *, calls_are_read: bool) -> list[str]:
        """What happened, for a person: the counts, then each line of the log once."""
        lines = [many(self._requests, "request")]
        if calls_are_read:
            lines[0] += f", {many(self.calls.total(), 'tool call')}{_listed(self.calls)}"
        if self._outcomes:
            lines.append(f"not clean{_listed(self._outcomes)}")
        if self._failed:
            lines.append(f"{many(self._failed.total(), 'error')}{_listed(self._failed)}")
        return lines + [line if times == 1 else f"{line} ({times} times)" for line, times in self._lines.items()]

    @contextlib.contextmanager
    def logging(self) -> Iterator[None]:
        """While the block runs, what the proxy and its server log is kept here, and not printed."""
        ours = logging.getLogger("toolcall_middleware")
        loggers = [ours, logging.getLogger("uvicorn")]
        before = [logger.propagate for logger in loggers]
        level = ours.level
        for logger in loggers:
            logger.addHandler(self)
            logger.propagate = False
        ours.setLevel(logging.INFO)
        try:
            yield
        finally:
            ours.setLevel(level)
            for logger, propagate in zip(loggers, before, strict=True):
                logger.removeHandler(self)
                logger.propagate = propagate


def _listed(counts: Counter[str] | Counter[int]) -> str:
    shown = ", ".join(f"{name} {number}" for name, number in counts.most_common(8))
    return f" ({shown})" if shown else ""
