"""The log of a launch: what the proxy in this process would print over the agent's screen."""

from __future__ import annotations

import contextlib
import logging
from collections import Counter
from collections.abc import Iterator

_MOST_LINES = 20


class Notes(logging.Handler):
    """Keeps the last warnings and refusals, and counts calls that are not clean: the terminal is the agent's until
    it ends. What becomes of a call stands in the log alone where an answer is streamed.
    """

    def __init__(self) -> None:
        super().__init__(logging.INFO)
        self.outcomes: Counter[str] = Counter()
        self._times: dict[str, int] = {}  # of each line, the one that came last at the end

    def emit(self, record: logging.LogRecord) -> None:
        fields = getattr(record, "toolcall", None) or {}
        if fields.get("event") == "call" and fields.get("outcome") != "clean":
            self.outcomes[fields["outcome"]] += 1
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
