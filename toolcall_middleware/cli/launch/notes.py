"""The log of a launch: what the proxy in this process would print over the agent's screen."""

from __future__ import annotations

import contextlib
import logging
from collections import deque
from collections.abc import Iterator

_MOST_LINES = 20


class Notes(logging.Handler):
    """Keeps the last warnings: the terminal is the agent's until it ends."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: deque[str] = deque(maxlen=_MOST_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname.lower()}: {record.getMessage()}")


@contextlib.contextmanager
def noting() -> Iterator[Notes]:
    """Keeps what the proxy and its server would log, instead of printing it over the agent's screen."""
    notes = Notes()
    loggers = [logging.getLogger(name) for name in ("toolcall_middleware", "uvicorn")]
    before = [logger.propagate for logger in loggers]
    for logger in loggers:
        logger.addHandler(notes)
        logger.propagate = False
    try:
        yield notes
    finally:
        for logger, propagate in zip(loggers, before, strict=True):
            logger.removeHandler(notes)
            logger.propagate = propagate
