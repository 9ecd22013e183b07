"""The proxy of a launch: in this process, in a thread of its own, on a free port of loopback."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections import deque
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp

_START = 10.0
_STOP = 5
_MOST_LINES = 20


class Notes(logging.Handler):
    """Keeps the last warnings: the terminal is the agent's until it ends."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: deque[str] = deque(maxlen=_MOST_LINES)

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(f"{record.levelname.lower()}: {record.getMessage()}")


@contextlib.contextmanager
def serving(app: ASGIApp) -> Iterator[str]:
    """Serves `app` while the block runs; gives its address without `/v1`. Raises RuntimeError where it cannot start.

    In a thread that is not the main one neither uvicorn nor the proxy takes signals: they are the agent's.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            app, lifespan="on", log_config=None, access_log=False, server_header=False, timeout_graceful_shutdown=_STOP
        )
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, name="proxy", daemon=True)
        thread.start()
        try:
            deadline = time.monotonic() + _START
            while not server.started:
                if not thread.is_alive() or time.monotonic() > deadline:
                    raise RuntimeError("the proxy did not start")
                time.sleep(0.01)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(_STOP + 1)


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
