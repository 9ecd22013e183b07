"""The log of a launch: what the proxy in this process would print over the agent's screen."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Iterator

from ...response.outcome import CallOutcome

_MOST_LINES = 20
_STAYS_TEXT = frozenset({CallOutcome.UNKNOWN_TOOL, CallOutcome.MALFORMED})
"""Outcomes of calls that no client gets as a call."""


class Notes(logging.Handler):
    """Keeps the last warnings and refusals, and counts calls: the terminal is the agent's until it ends.

    `calls`: those that the agent gets, by name. `outcomes`: of all calls that are not clean.
    """

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.calls: Counter[str] = Counter()
        self.outcomes: Counter[str] = Counter()
        self._times: dict[str, int] = {}  # of each line, the one that came last at the end

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "toolcall", None) or {}
        if fields.get("event") == "call":
            outcome = fields["outcome"]
            if outcome not in _STAYS_TEXT:
                self.calls[fields["tool"]] += 1
            if outcome != CallOutcome.CLEAN:
                self.outcomes[outcome] += 1
        if record.levelno >= logging.WARNING:
            self._keep(f"{record.levelname.lower()}: {record.getMessage()}")
        elif fields.get("event") == "refused":
            self._keep(record.getMessage())

    def _keep(self, line: str) -> None:
        line = line.partition(" id=")[0]  # each request's own
        self._times[line] = self._times.pop(line, 0) + 1
        if len(self._times) > _MOST_LINES:
            del self._times[next(iter(self._times))]

    @property
    def lines(self) -> list[str]:
        """Each line once, with how often it came."""
        return [line if times == 1 else f"{line} ({times} times)" for line, times in self._times.items()]


@contextlib.contextmanager
def noting() -> Iterator[Notes]:
    """Keeps what the proxy and its server would log, instead of printing it over the agent's screen."""
    notes = Notes()
    ours = logging.getLogger("toolcall_middleware")
    loggers = [ours, logging.getLogger("uvicorn")]
    before = [logger.propagate for logger in loggers]
    level = ours.level
    for logger in loggers:
        logger.addHandler(notes)
        logger.propagate = False
    ours.setLevel(logging.INFO)
    try:
        yield notes
    finally:
        ours.setLevel(level)
        for logger, propagate in zip(loggers, before, strict=True):
            logger.removeHandler(notes)
            logger.propagate = propagate
