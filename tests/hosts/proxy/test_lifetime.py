"""Signals to the real process: SIGHUP while a stream runs, a bad file, workers, and the end of the grace period."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from tests.helpers.processes import environment, free_port
from toolcall_middleware.hosts.proxy.app import Lifetime

from .routing import table

PATIENCE = 60.0

pytestmark = pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")


class _Upstream(BaseHTTPRequestHandler):
    """Streams its own port, waits for the test, streams the end."""

    protocol_version = "HTTP/1.1"
    server: _Server

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        self._write(f"data: {self.server.server_port}\n\n")
        self.server.go_on.wait(PATIENCE)
        with contextlib.suppress(OSError):
            self._write("data: [DONE]\n\n")
            self.wfile.write(b"0\r\n\r\n")

    def _write(self, text: str) -> None:
        self.wfile.write(f"{len(text):x}\r\n{text}\r\n".encode())
        self.wfile.flush()

    def log_message(self, *_: object) -> None:
        """Not into the test's output."""


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Upstream)
        self.go_on = threading.Event()


@contextlib.contextmanager
def upstream() -> Iterator[tuple[str, threading.Event]]:
    """(base address, what lets its streams end)."""
    with _Server() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/v1", server.go_on
        finally:
            server.go_on.set()
            server.shutdown()


class Proxy:
    """`serve` as a process; what it writes to standard error is read as it comes."""

    def __init__(self, *options: str) -> None:
        self.base = f"http://127.0.0.1:{(port := free_port())}"
        command = [sys.executable, "-m", "toolcall_middleware", "serve", "--port", str(port), *options]
        self.process = subprocess.Popen(
            command,
            env=environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,  # so that `kill` reaches its workers too, which hold the pipe as well
        )
        self.written: list[str] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        self.written.extend(iter(self.process.stderr.readline, ""))

    def wait_for(self, words: str, times: int = 1) -> None:
        self.until(lambda: "".join(self.written).count(words) >= times)

    def until(self, holds: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE
        while not holds():
            assert time.monotonic() < deadline, "".join(self.written)
            assert self.process.poll() is None, "".join(self.written)
            time.sleep(0.02)

    def stream(self, model: str = "m") -> contextlib.AbstractContextManager[httpx.Response]:
        body = {"model": model, "messages": [{"role": "user", "content": "x"}], "stream": True}
        return httpx.stream("POST", f"{self.base}/v1/chat/completions", json=body, trust_env=False, timeout=PATIENCE)

    def kill(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)

    def ended(self) -> int:
        code = self.process.wait(PATIENCE)
        self._reader.join(PATIENCE)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code


@contextlib.contextmanager
def serving(*options: str) -> Iterator[Proxy]:
    proxy = Proxy(*options)
    try:
        proxy.wait_for("startup complete")
        proxy.wait_for("running on")  # a single process listens only then
        yield proxy
    finally:
        proxy.kill()
        proxy.ended()


def first_of(answer: httpx.Response) -> tuple[Iterator[bytes], str]:
    pieces = answer.iter_raw()
    event = next(pieces).partition(b"\n\n")[0]  # others may have come with it
    return pieces, event.decode().rpartition(":")[2].strip()


def port_of(base: str) -> str:
    return base.removesuffix("/v1").rpartition(":")[2]


@pytest.mark.parametrize("workers", [1, 2])
def test_sighup_brings_new_upstreams_and_running_streams_keep_theirs(workers: int, tmp_path: Path) -> None:
    path = tmp_path / "upstreams.toml"
    with upstream() as (old, old_goes_on), upstream() as (new, new_goes_on):
        new_goes_on.set()
        path.write_text(table(old, name="one"))
        with serving("--upstreams", str(path), "--workers", str(workers)) as proxy:
            proxy.wait_for("startup complete", workers)
            with proxy.stream() as answer:
                pieces, answered = first_of(answer)
                assert answered == port_of(old)
                # A bad file changes nothing.
                path.write_text("[[upstream]]\nurl = 3\n")
                proxy.process.send_signal(signal.SIGHUP)
                proxy.wait_for("The upstreams stay as they are", workers)
                assert "upstreams.toml: [[upstream]] 1: url: 3 is not allowed" in "".join(proxy.written)
                path.write_text(table(new, name="one"))
                proxy.process.send_signal(signal.SIGHUP)
                proxy.wait_for("1 upstreams are in use: one", workers)
                for _ in range(3):
                    with proxy.stream() as other:
                        assert first_of(other)[1] == port_of(new)
                old_goes_on.set()
                assert b"".join(pieces) == b"data: [DONE]\n\n"
            proxy.process.send_signal(signal.SIGTERM)
            assert proxy.ended() in {0, -signal.SIGTERM}
    written = "".join(proxy.written)
    assert "Traceback" not in written
    assert written.count("startup complete") == workers  # no worker was restarted


@pytest.mark.parametrize("workers", [1, 2])
def test_sighup_while_it_starts_does_not_end_it(workers: int, tmp_path: Path) -> None:
    path = tmp_path / "upstreams.toml"
    path.write_text(table("http://127.0.0.1:9/v1", name="one"))
    proxy = Proxy("--upstreams", str(path), "--workers", str(workers))
    try:
        proxy.wait_for("toolcall-middleware ")
        proxy.process.send_signal(signal.SIGHUP)
        proxy.wait_for("startup complete", workers)
        proxy.wait_for("running on")
        assert httpx.get(f"{proxy.base}/healthz", trust_env=False, timeout=PATIENCE).status_code == 200
    finally:
        proxy.process.terminate()
        assert proxy.ended() in {0, -signal.SIGTERM}


def test_what_outlives_the_grace_period_is_cut_off_and_told() -> None:
    with (
        upstream() as (base, _),
        serving("--upstream", base, "--timeout-graceful", "1") as proxy,
        proxy.stream() as answer,
    ):
        pieces, _ = first_of(answer)
        begin = time.monotonic()
        proxy.process.send_signal(signal.SIGTERM)
        with contextlib.suppress(httpx.HTTPError):
            assert b"[DONE]" not in b"".join(pieces)
        assert proxy.ended() in {0, -signal.SIGTERM}
        assert 0.9 < time.monotonic() - begin < 5
    assert "1 answers did not end within 1 s and are cut off" in "".join(proxy.written)


@pytest.mark.parametrize("workers", [1, 2])
def test_sighup_without_a_file_drains_as_sigterm_does(workers: int) -> None:
    with (
        upstream() as (base, goes_on),
        serving("--upstream", base, "--workers", str(workers)) as proxy,
        proxy.stream() as answer,
    ):
        pieces, _ = first_of(answer)
        proxy.process.send_signal(signal.SIGHUP)
        proxy.wait_for("Waiting at most")
        goes_on.set()
        assert b"".join(pieces) == b"data: [DONE]\n\n"
        assert proxy.ended() in {0, -signal.SIGTERM}


def test_without_anything_to_wait_for_it_ends_at_once() -> None:
    with serving("--upstream", "http://127.0.0.1:9/v1") as proxy:
        begin = time.monotonic()
        proxy.process.send_signal(signal.SIGTERM)
        assert proxy.ended() in {0, -signal.SIGTERM}
        assert time.monotonic() - begin < 5


def test_the_access_log_of_the_process_is_a_line_of_json() -> None:
    port = free_port()
    command = [sys.executable, "-m", "toolcall_middleware", "serve", "--upstream", "http://127.0.0.1:9/v1"]
    command += ["--port", str(port), "--set", "access_log=json", "--set", "upstream_retries=0"]
    with subprocess.Popen(
        command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "running on" in line:
                break
        answer = httpx.get(f"http://127.0.0.1:{port}/v1/models", trust_env=False, timeout=PATIENCE)
        process.send_signal(signal.SIGTERM)
        out, _ = process.communicate(timeout=PATIENCE)
    row = json.loads(out)
    assert (row["path"], row["status"], row["upstream"]) == ("/v1/models", 502, "127.0.0.1:9")
    assert row["id"] == answer.headers["x-request-id"]


async def test_a_second_sigint_ends_it_at_once_and_a_second_sigterm_changes_nothing() -> None:
    ended: list[int] = []
    drained: list[bool] = []
    lifetime = Lifetime(drain=lambda: drained.append(True), grace=30)
    lifetime._previous = {number: lambda number, _frame: ended.append(number) for number in (2, 15)}
    with lifetime.request():
        lifetime._stop(signal.SIGTERM)
        lifetime._stop(signal.SIGTERM)
        await asyncio.sleep(0)
        assert (ended, drained) == ([], [True])
        lifetime._stop(signal.SIGINT)
        assert ended == [signal.SIGINT]
    assert lifetime._stopping is not None
    await lifetime._stopping
    assert (ended, drained) == ([signal.SIGINT, signal.SIGTERM], [True])
