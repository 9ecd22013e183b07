"""Commands that serve on a port of loopback, as processes of their own."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx

import toolcall_middleware

ROOT = Path(toolcall_middleware.__file__).parent.parent


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def environment() -> dict[str, str]:
    """This process's own, with the package that the tests import and without an HTTP proxy before loopback."""
    kept = {key: value for key, value in os.environ.items() if not key.lower().endswith("_proxy")}
    return {**kept, "PYTHONPATH": str(ROOT)}


@contextlib.contextmanager
def running(*command: str, port: int, seconds: float = 60) -> Iterator[str]:
    """A command that serves on `port`, from when it answers until the end of the block.

    An answer with an error of the server does not count: llama.cpp's answers 503 while it loads its weights.
    """
    process = subprocess.Popen([sys.executable, *command], cwd=ROOT, env=environment(), stderr=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + seconds
        while True:
            with contextlib.suppress(httpx.TransportError):
                if httpx.get(f"http://127.0.0.1:{port}/health", trust_env=False, timeout=5).status_code < 500:
                    break
            assert process.poll() is None, f"{command} ended by itself"
            assert time.monotonic() < deadline, f"{command} does not serve"
            time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(10)
