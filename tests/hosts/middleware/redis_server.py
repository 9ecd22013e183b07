"""A real redis-server on a free loopback port, which a test can stop and start again."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
import time

import pytest


class RedisServer:
    """Keeps nothing on disk: what was counted is gone after `stop`."""

    def __init__(self) -> None:
        binary = shutil.which("redis-server")
        if binary is None:
            message = "redis-server is not installed (Debian: apt-get install redis-server)"
            # In CI it is: leaving these tests out there would be seen by nobody.
            (pytest.fail if os.environ.get("CI") else pytest.skip)(message)
        self._binary = binary
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port: int = probe.getsockname()[1]
        self.uri = f"redis://127.0.0.1:{self.port}"
        self._folder = tempfile.TemporaryDirectory()
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, *options: str) -> None:
        own = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--dir", self._folder.name]
        self._process = subprocess.Popen([self._binary, *own, *options], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while not self._answers():
            assert self._process.poll() is None, "redis-server ended"
            assert time.monotonic() < deadline, "redis-server does not answer"
            time.sleep(0.02)

    def _answers(self) -> bool:
        try:
            return self.ask("PING").startswith("+PONG")
        except OSError:
            return False

    def ask(self, *words: str) -> str:
        """One command, and the answer as it stands on the wire; good for short answers."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=2) as link:
            link.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w.encode()) for w in words))
            return link.recv(1 << 16).decode()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(10)
            self._process = None

    def close(self) -> None:
        self.stop()
        self._folder.cleanup()
