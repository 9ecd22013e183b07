"""Many streams at once: `python -m tests.bench.load [--streams 1000] [--seconds 20]`.

One uvicorn process (uvloop and httptools where they are installed) serves the streams, once as they are and once
through the middleware; a client process on the same machine reads them. Each stream writes a piece of prose four times
a second and ends in a call. Compared are errors, the longest time that any stream stood still, and the server's memory
a stream.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import resource
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from toolcall_middleware import ToolCallMiddleware

from . import material, report
from .middle import free_port, running
from .report import Table

_PAUSE = 0.25
_WARM = 20  # streams before those that are measured
_STALL = 1.0  # seconds that a stream may stand still beyond the baseline's worst
_MEMORY = 64 * 1024  # bytes a stream beyond the baseline's
_HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"


# -- the server ----------------------------------------------------------------------------------------------------


async def _write(pieces: int) -> AsyncIterator[bytes]:
    start = asyncio.get_running_loop().time()
    for at in range(pieces):
        yield material.event(material.payload({"content": f" and word {at} of it"}))
        # By the clock, so that a server that is late does not write less.
        await asyncio.sleep(max(0.0, start + (at + 1) * _PAUSE - asyncio.get_running_loop().time()))
    begin, arguments = material.call_text("hermes", material.field_arguments(400))
    for event in material.events(material.cut(begin + arguments + "}\n</tool_call>", 40)):
        yield event
    yield b"data: [DONE]\n\n"


async def _chat(request: Request) -> Response:
    body = await request.json()
    return StreamingResponse(_write(body["max_tokens"]), media_type="text/event-stream")


def _memory(_request: Request) -> Response:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text("ascii").split()[1])
    return JSONResponse({"rss": pages * resource.getpagesize(), "objects": len(gc.get_objects())})


def _app(*, wrapped: bool) -> ASGIApp:
    app = Starlette(routes=[Route("/v1/chat/completions", _chat, methods=["POST"]), Route("/memory", _memory)])
    return ToolCallMiddleware(app, format="hermes") if wrapped else app


@contextmanager
def _server(*, wrapped: bool) -> Iterator[int]:
    port = free_port()
    command = [sys.executable, "-m", "tests.bench.load", "--serve", str(port), *(["--wrapped"] if wrapped else [])]
    with running(command, port):
        yield port


def _ask_memory(port: int) -> dict[str, int]:
    answer: dict[str, int] = httpx.get(f"http://127.0.0.1:{port}/memory", timeout=30).json()
    return answer


# -- the client ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class _Run:
    """What came of all streams of one server."""

    errors: int
    stall: float
    memory: float  # bytes a stream while all were open
    left: int  # Python objects that were there afterwards and not before
    chunks: int


async def _read(port: int, body: bytes, wrapped: bool, gaps: list[float]) -> tuple[bool, int]:
    """One stream; whether it was right, and how many reads it took. Raw sockets: a client library would be measured."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 20)
    try:
        writer.write(_HEAD % len(body) + body)
        tail, reads, worst = b"", 0, 0.0
        seen = False
        last = time.monotonic()
        while not tail.endswith(b"0\r\n\r\n"):
            data = await reader.read(1 << 16)
            if not data:
                return False, reads
            now = time.monotonic()
            worst, last, reads = max(worst, now - last), now, reads + 1
            tail = (tail + data)[-4096:]
            seen = seen or b'"tool_calls"' in tail
        gaps.append(worst)
        return b"[DONE]" in tail and (seen or not wrapped), reads
    finally:
        writer.close()


async def _streams(port: int, count: int, seconds: float, *, wrapped: bool) -> _Run:
    body = json.loads(material.request([material.write_file_tool()], stream=True))
    body["max_tokens"] = max(1, int(seconds / _PAUSE))
    sent = json.dumps(body).encode()
    warm = json.dumps({**body, "max_tokens": 1}).encode()
    await asyncio.gather(*(_read(port, warm, wrapped, []) for _ in range(_WARM)))
    before = await asyncio.to_thread(_ask_memory, port)
    gaps: list[float] = []
    tasks = []
    for number in range(count):
        tasks.append(asyncio.create_task(_read(port, sent, wrapped, gaps)))
        if number % 50 == 49:
            await asyncio.sleep(0.05)  # not all in one moment: that would measure the kernel's queue
    await asyncio.sleep(seconds / 2)
    amid = await asyncio.to_thread(_ask_memory, port)
    done = await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.sleep(0.5)
    after = await asyncio.to_thread(_ask_memory, port)
    right = [one for one in done if not isinstance(one, BaseException) and one[0]]
    return _Run(
        errors=count - len(right),
        stall=max(gaps, default=float("inf")),
        memory=(amid["rss"] - before["rss"]) / count,
        left=after["objects"] - before["objects"],
        chunks=sum(reads for _, reads in right),
    )


def run(*, streams: int, seconds: float) -> tuple[Table, bool]:
    """The table, and whether all goals were met."""
    runs: dict[bool, _Run] = {}
    for wrapped in (False, True):
        with _server(wrapped=wrapped) as port:
            runs[wrapped] = asyncio.run(_streams(port, streams, seconds, wrapped=wrapped))
    plain, ours = runs[False], runs[True]
    table = Table(f"{streams} streams at once, {seconds:g} s each", ("as they are", "with the middleware"))
    table.add("streams that failed", str(plain.errors), str(ours.errors), "0")
    table.add("longest standstill", f"{plain.stall:.2f} s", f"{ours.stall:.2f} s", f"≤ +{_STALL:g} s")
    table.add("memory a stream", f"{plain.memory / 1024:.0f} KiB", f"{ours.memory / 1024:.0f} KiB", "< +64 KiB")
    table.add("Python objects left a stream", f"{plain.left / streams:.2f}", f"{ours.left / streams:.2f}", "< 0.1")
    good = (
        ours.errors == 0
        and ours.stall - plain.stall <= _STALL
        and ours.memory - plain.memory < _MEMORY
        and ours.left < 0.1 * streams + 500
    )
    return table, good


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.load", description="Many streams at once.")
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--serve", type=int, metavar="PORT", help=argparse.SUPPRESS)
    parser.add_argument("--wrapped", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.serve is not None:
        uvicorn.run(_app(wrapped=given.wrapped), port=given.serve, log_level="error", backlog=4096)
        return 0
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, 8192)), hard))
    table, good = run(streams=given.streams, seconds=given.seconds)
    print(table.markdown())
    print(f"Measured on: {report.machine()}.")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
