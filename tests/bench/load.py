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
from collections.abc import AsyncIterator
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
from .middle import many_files, server, stream
from .report import Table

_PAUSE = 0.25
_WARM = 20  # streams before those that are measured
_STALL = 1.0  # seconds that a stream may stand still beyond the baseline's worst
_MEMORY = 64 * 1024  # bytes a stream beyond the baseline's


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


def _ask_memory(port: int) -> dict[str, int]:
    answer: dict[str, int] = httpx.get(f"http://127.0.0.1:{port}/memory", timeout=30).json()
    return answer


# -- the client ----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Run:
    """What came of all streams of one server."""

    errors: int
    stall: float
    memory: float  # bytes a stream while all were open
    left: int  # Python objects that were there afterwards and not before


async def _streams(port: int, count: int, seconds: float, *, wrapped: bool) -> _Run:
    body = json.loads(material.request([material.write_file_tool()], stream=True))
    await asyncio.gather(*(stream(port, {**body, "max_tokens": 1}) for _ in range(_WARM)))
    before = await asyncio.to_thread(_ask_memory, port)
    body["max_tokens"] = max(1, int(seconds / _PAUSE))
    tasks = []
    for number in range(count):
        tasks.append(asyncio.create_task(stream(port, body)))
        if number % 50 == 49:
            await asyncio.sleep(0.05)  # not all in one moment: that would measure the kernel's queue
    await asyncio.sleep(seconds / 2)
    amid = await asyncio.to_thread(_ask_memory, port)
    done = await asyncio.gather(*tasks)
    await asyncio.sleep(0.5)
    after = await asyncio.to_thread(_ask_memory, port)
    right = [one for one in done if one.messages and (b'"tool_calls"' in one.answer or not wrapped)]
    return _Run(
        errors=count - len(right),
        stall=max((one.pause for one in right), default=float("inf")),
        memory=(amid["rss"] - before["rss"]) / count,
        left=after["objects"] - before["objects"],
    )


def run(*, streams: int, seconds: float) -> tuple[Table, bool]:
    """The table, and whether all goals were met."""
    runs: dict[bool, _Run] = {}
    for wrapped in (False, True):
        with server("tests.bench.load", "--serve", "{port}", *(["--wrapped"] if wrapped else [])) as process:
            runs[wrapped] = asyncio.run(_streams(process.port, streams, seconds, wrapped=wrapped))
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
    parser = report.parser("load", __doc__)
    parser.add_argument("--streams", type=int, default=1000)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--serve", type=int, metavar="PORT", help=argparse.SUPPRESS)
    parser.add_argument("--wrapped", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    if given.serve is not None:
        uvicorn.run(_app(wrapped=given.wrapped), port=given.serve, log_level="error", backlog=4096)
        return 0
    many_files()
    table, good = run(streams=given.streams, seconds=given.seconds)
    print(table.markdown())
    print(f"Measured on: {report.machine()}.")
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
