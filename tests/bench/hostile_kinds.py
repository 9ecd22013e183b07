"""What attackers send, by kind: time against an ordinary request of the same size, and memory.

`python -m tests.bench.hostile [--seconds N]`; exits 1 where a kind costs more than it may.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial

from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.hosts.http.bodies import in_the_clear
from toolcall_middleware.hosts.http.head import normal_path
from toolcall_middleware.hosts.middleware.guards import tools_in
from toolcall_middleware.hosts.proxy.upstream.model_names import asked_model
from toolcall_middleware.hosts.proxy.upstream.upstream import Mask, MaskedStream
from toolcall_middleware.parsing.sink import StopFinder
from toolcall_middleware.request.parse import one_reading

from .hostile_requests import CASES, Body, cost, plain

Work = Callable[[], object]
_MOST_TIME = 120.0
"""Times an ordinary request of that size: the dearest kind takes 45."""
_MOST_MEMORY = 50.0
"""Bytes for each byte sent, and 8 MiB."""
_SPARE = 8 << 20
_TRIES = 5


def _body(text: bytes) -> bytes:
    return b'{"model": "m", "messages": [], ' + text + b"}"


def _scope(*headers: tuple[bytes, bytes]) -> dict[str, object]:
    return {"type": "http", "method": "POST", "path": "/api/chat", "headers": list(headers), "query_string": b""}


def _unpacked(data: bytes) -> None:
    try:
        in_the_clear(data, _scope((b"content-encoding", b"gzip")), 1 << 20)
    except ToolCallError as error:
        error.body()


def _asked(data: bytes, kind: bytes = b"application/json") -> None:
    try:
        asked_model(_scope((b"content-type", kind)), data)
    except ToolCallError as error:
        error.body()


def _stops(count: int, text: str) -> None:
    finder = StopFinder(tuple(f"x{number:05}" for number in range(count)))
    for at in range(0, len(text), 40):
        finder.feed(text[at : at + 40])


def _masked(data: bytes) -> None:
    stream = MaskedStream(Mask(("sk-" + "a" * 60,)), keeps_length=False)
    for at in range(0, len(data), 200):
        stream.feed(data[at : at + 200], last=False)


def kinds(size: int) -> Iterator[tuple[str, int, Work]]:
    """(name, bytes, work) of each kind."""
    path = "/v1/" + "%25" * 5 + "/..;/." * (size // 60) + "/chat/completions"
    yield "a path of dots", len(path), lambda: normal_path(path)
    spelled = [
        _body(b'"tools": [], ' * (size // 13) + b'"tools": null'),
        _body(b'"\\u0074ools": [], ' * (size // 18) + b'"a": 1'),
    ]
    for number, body in enumerate(spelled):
        yield f"tools many times, {number}", len(body), lambda body=body: one_reading(body)  # type: ignore[misc]
        yield f"two parsers, {number}", len(body), lambda body=body: tools_in(_scope(), body)  # type: ignore[misc]
        yield f"models many times, {number}", len(body), lambda body=body: _asked(body.replace(b"tools", b"model"))  # type: ignore[misc]
    wide = json.dumps({"model": "m" * size}).encode("utf-32")
    yield "UTF-32", len(wide), lambda: _asked(wide)
    form = b"--x\r\ncontent-disposition: form-data; name=model\r\n\r\nm\r\n" * (size // 60)
    yield "a form of models", len(form), lambda: _asked(form, b"multipart/form-data; boundary=x")
    bomb = gzip.compress(b"\0" * (size * 100))
    yield "a bomb", len(bomb) + (1 << 20), lambda: _unpacked(bomb)
    members = gzip.compress(b"x") * (size // 22)
    yield "many members", len(members), lambda: _unpacked(members)
    text = "x0000" * (size // 5)
    yield "many stop strings", len(text), lambda: _stops(256, text)
    near = (b"sk-" + b"a" * 59 + b"b") * (size // 63)
    yield "nearly a key", len(near), lambda: _masked(near)


def _request(make: Callable[[int], Body], size: int) -> None:
    cost(make(size))


def _seconds(work: Work) -> float:
    begin = time.process_time()
    work()
    return time.process_time() - begin


def _works(size: int) -> list[tuple[str, int, Work]]:
    """(name, bytes, work) of each kind, requests as well."""
    return [*kinds(size), *((name, size, partial(_request, make, size)) for name, make in CASES.items())]


def _factor(name: str, sent: int, work: Work, ordinary: float) -> float:
    """What a byte of it costs against a byte of an ordinary request, which took `ordinary` seconds."""
    return _seconds(work) / sent / ordinary / (3 if name in CASES else 1)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.hostile", description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="the longest it may take (default: %(default)s)")
    end = time.monotonic() + parser.parse_args().seconds
    sizes = random.Random(1)
    worst: dict[str, tuple[float, float]] = {}
    cost(plain(1000))
    while time.monotonic() < end:
        size = sizes.choice((20_000, 60_000, 200_000))
        seconds, length = cost(plain(size))
        ordinary = seconds / length
        for name, sent, work in _works(size):
            factor = _factor(name, sent, work, ordinary)
            if factor > _MOST_TIME:
                # Dear, or interrupted? More tries tell, each beside an ordinary request of its own.
                for _ in range(_TRIES):
                    seconds, length = cost(plain(size))
                    factor = min(factor, _factor(name, sent, work, seconds / length))
            tracemalloc.start()
            work()
            memory = max(0, tracemalloc.get_traced_memory()[1] - _SPARE) / sent
            tracemalloc.stop()
            before = worst.get(name, (0.0, 0.0))
            worst[name] = min(before[0] or factor, factor), max(before[1], memory)
            if time.monotonic() > end:
                break
    bad = [name for name, (factor, memory) in worst.items() if factor > _MOST_TIME or memory > _MOST_MEMORY]
    for name, (factor, memory) in sorted(worst.items(), key=lambda item: -item[1][0]):
        print(
            f"{'TOO MUCH ' if name in bad else ''}{name}: {factor:.1f} x an ordinary request, {memory:.0f} bytes a byte"
        )
    return 1 if bad else 0
