"""An app served on a free port of loopback, in a thread of this process."""

from __future__ import annotations

import contextlib
import logging
import socket
import threading
import time
from collections.abc import Iterator

import uvicorn
from starlette.types import ASGIApp
from uvicorn.logging import DefaultFormatter

from ..observe.json_log import time_of

_START = 10.0
_STOP = 5


class LineFormatter(DefaultFormatter):
    """Uvicorn's, with the time as every other line has it."""

    def formatTime(self, record: logging.LogRecord, datefmt: str | None = None) -> str:  # noqa: ARG002, N802
        """As `logging.Formatter`'s."""
        return time_of(record.created)


@contextlib.contextmanager
def serving(app: ASGIApp, *, log_level: str | None = None) -> Iterator[str]:
    """Serves `app` while the block runs; gives its address without a path. Raises RuntimeError where it cannot start.

    log_level: of uvicorn's loggers; None leaves them as they are. Outside of the main thread neither uvicorn nor the
    proxy takes signals: they are for whoever runs here.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(
            app,
            lifespan="on",
            log_config=None,
            log_level=log_level,
            access_log=False,
            server_header=False,
            timeout_graceful_shutdown=_STOP,
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
