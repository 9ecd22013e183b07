"""How long others wait while something huge is read: `python -m tests.bench.standstill [--mib N] [KIND...]`.

A `serve` process, an upstream and two clients, all on loopback: one client sends a request of N MiB, or gets such an
answer; the other asks for `/healthz` all the time. A row tells the longest that the second one waited, of `--rounds`
the best, and how long the first one took. Beside it stand what `/healthz` takes at most while nothing is done, and one
decode of as much JSON into Python's objects, a call that nothing can interrupt.
"""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

import msgspec

from . import middle, report
from .middle import HOST
from .report import Table
from .standstill_cases import KINDS, Case

_HEALTH = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
_PAUSE = 0.002
_PATIENCE = 600.0


class Health:
    """Asks a server for `/healthz` all the time, on one connection. `longest`: seconds."""

    def __init__(self, port: int) -> None:
        self.longest = 0.0
        self._port = port
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._ask)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._done.set()
        self._thread.join()

    def _ask(self) -> None:
        with socket.create_connection((HOST, self._port), _PATIENCE) as connection:
            while not self._done.is_set():
                begin = time.perf_counter()
                connection.sendall(_HEALTH)
                answer = b""
                while b"\r\n\r\n" not in answer or not answer.endswith(b"}"):
                    part = connection.recv(4096)
                    if not part:
                        raise ConnectionError(f"/healthz ended: {answer!r}")
                    answer += part
                self.longest = max(self.longest, time.perf_counter() - begin)
                time.sleep(_PAUSE)


def ask(port: int, case: Case) -> int:
    """The status of a request whose answer is read to its end."""
    head = (
        f"POST {case.path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
        f"content-length: {len(case.body)}\r\nanthropic-version: 2023-06-01\r\nconnection: close\r\n\r\n"
    )
    with socket.create_connection((HOST, port), _PATIENCE) as connection:
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # refused before its end
            connection.sendall(head.encode() + case.body)
        begun = b""
        with contextlib.suppress(ConnectionResetError):
            while part := connection.recv(1 << 20):
                begun = begun or part
    return int(begun[9:12] or b"0")


def measure(port: int, case: Case) -> tuple[float, float, int]:
    """(the longest wait for `/healthz`, the seconds of the request, its status)."""
    with Health(port) as health:
        begin = time.perf_counter()
        status = ask(port, case)
        seconds = time.perf_counter() - begin
    return health.longest, seconds, status


@contextlib.contextmanager
def serving(api: str, answer: Path) -> Iterator[int]:
    """The port of a `serve` whose upstream answers what is in the file."""
    with middle.server("tests.bench.middle", "canned", "{port}", str(answer)) as upstream:
        base = f"http://{HOST}:{upstream.port}" + ("/v1" if api == "openai" else "")
        options = ("--set", f"upstream_api={api}", "--set", "upstream_key=key", "--log-level", "critical")
        with middle.serve("--upstream", base, *options) as proxy:
            yield proxy.port


def decoding(size: int) -> float:
    """Seconds of one decode of that much JSON into Python's objects."""
    data = json.dumps([{"role": "user", "content": "x"}] * (size // 36)).encode()
    begin = time.perf_counter()
    msgspec.json.decode(data)
    return time.perf_counter() - begin


def run(size: int, names: list[str], rounds: int, only: str = "") -> Table:
    """All cases of the kinds whose name holds `only`."""
    table = Table(f"How long /healthz waits at most, {size / 2**20:g} MiB", ("ms", "ms of the request"))
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as servers:
        answer = Path(folder, "answer")
        answer.touch()
        ports: dict[str, int] = {}
        for kind in names or KINDS:
            for case in KINDS[kind](size):
                if only not in case.name:
                    continue
                if case.api not in ports:
                    ports[case.api] = servers.enter_context(serving(case.api, answer))
                port = ports[case.api]
                if not table.rows:
                    with Health(port) as health:
                        time.sleep(2)
                    table.add("nothing", f"{health.longest * 1000:.0f}")
                    table.add("one decode of as much JSON", f"{decoding(size) * 1000:.0f}")
                answer.write_bytes(case.answer)
                longest, seconds, status = min(measure(port, case) for _ in range(rounds))
                told = f" ({status})" if status != 200 else ""
                table.add(f"{kind}, {case.name}{told}", f"{longest * 1000:.0f}", f"{seconds * 1000:.0f}")
                print(table.rows[-1], file=sys.stderr, flush=True)
    return table


def main() -> int:
    parser = report.parser("standstill", __doc__)
    parser.add_argument("names", nargs="*", metavar="KIND", help=f"of {', '.join(KINDS)}; all by default")
    parser.add_argument("--mib", type=float, default=30, help="of each request or answer (default: %(default)s)")
    parser.add_argument("--rounds", type=int, default=2, help="of which the best counts (default: %(default)s)")
    parser.add_argument("--only", default="", metavar="TEXT", help="cases whose name holds TEXT")
    given = parser.parse_args()
    print(run(int(given.mib * 2**20), given.names, given.rounds, given.only).markdown())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
