"""`serve` where it may open few files and more clients connect: others are answered, and the log stays small."""

from __future__ import annotations

import contextlib
import socket
import subprocess
import sys
import time
from pathlib import Path

import httpx
import pytest

from tests.helpers.processes import environment, free_port
from toolcall_middleware.hosts.proxy.server import HEAD_SECONDS

resource = pytest.importorskip("resource")

FILES = 128
CLIENTS = 600
PATIENCE = 60.0

pytestmark = pytest.mark.slow


def _few_files() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))


def _health(port: int, *, within: float) -> float:
    """The seconds until `/healthz` was answered, asked again and again."""
    begin = time.monotonic()
    while True:
        with contextlib.suppress(httpx.TransportError):
            assert httpx.get(f"http://127.0.0.1:{port}/healthz", timeout=within).status_code == 200
            return time.monotonic() - begin
        assert time.monotonic() - begin < within, "/healthz is dead"
        time.sleep(0.05)


def test_silent_clients_at_the_limit_of_files_shut_nobody_out(tmp_path: Path) -> None:
    if resource.getrlimit(resource.RLIMIT_NOFILE)[0] < CLIENTS + 100:
        pytest.skip("this process may not open as many connections itself")
    log, port = tmp_path / "log", free_port()
    command = [sys.executable, "-m", "toolcall_middleware", "serve", "--port", str(port)]
    with log.open("wb") as out, contextlib.ExitStack() as silent:
        process = subprocess.Popen(
            [*command, "--upstream", "http://127.0.0.1:9/v1"],
            env=environment(), preexec_fn=_few_files, stdout=out, stderr=out,  # noqa: PLW1509 - it calls one function of C
        )  # fmt: skip
        try:
            _health(port, within=PATIENCE)
            for _ in range(CLIENTS):
                client = silent.enter_context(socket.socket())
                client.setblocking(False)
                client.connect_ex(("127.0.0.1", port))
            # Before their heads are late, after HEAD_SECONDS: the silent ones make room.
            _health(port, within=0.75 * HEAD_SECONDS)
            assert max(_health(port, within=PATIENCE) for _ in range(10)) < 5
            assert process.poll() is None
        finally:
            process.terminate()
            process.wait(PATIENCE)
    assert log.stat().st_size < 64 * 1024
