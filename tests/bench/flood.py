"""Answers without an end: `python -m tests.bench.flood [--megabytes 100]`.

A backend writes the same few characters over and over, in chunks of 16 KiB: time for each MiB, whether twice the text
takes more than twice the time, and the most memory that was held. No text may be lost: what came out is compared by its
hash. What takes longer than prose is given less, so that all is done in minutes.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import time
import tracemalloc
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from toolcall_middleware import ToolCallMiddleware

from . import material
from .report import Table

_PIECE = 16 * 1024
_GROWTH = 2.6  # the time that twice the text may take
_BEGIN = '<tool_call>\n{"name": "write_file", "arguments": {"path": '


@dataclass(frozen=True, slots=True)
class Case:
    """`unit` over and over behind `before`. `dear`: it costs far more than prose, a character."""

    unit: str
    before: str = ""
    dear: bool = False


CASES = {
    "prose": Case("The rain in Paris falls. "),
    "no line end": Case("x"),
    "NUL": Case("\x00"),
    "half an emoji": Case("\ud83d"),
    "line ends": Case("\n"),
    "blanks": Case(" "),
    "fences": Case("```json\n"),
    "think": Case("<think>"),
    "half markers": Case("<tool_cal", dear=True),
    "markers": Case("<tool_call>", dear=True),
    "closing markers": Case("</tool_call>", dear=True),
    "half a marker's first character": Case("<", dear=True),
    "brackets": Case("[", dear=True),
    "braces": Case('{"a":', dear=True),
    "python calls": Case("[f(", dear=True),
    "channels": Case("<|channel|>", dear=True),
    "a long string": Case("y", _BEGIN + '"'),
    "escapes": Case("\\\\", _BEGIN + '"', dear=True),
    "nesting": Case("[", _BEGIN, dear=True),
    "a name without end": Case("n", '<tool_call>\n{"name": "'),
}


@dataclass(slots=True)
class Flooded:
    """What came of one answer."""

    seconds: float
    peak: int  # bytes, where it was traced
    characters: int
    same: bool  # all text came out, in order; arguments and errors aside
    done: bool


class _Client:
    """Reads as it comes and keeps nothing."""

    def __init__(self) -> None:
        self.rest = b""
        self.text = hashlib.sha256()
        self.size = 0
        self.calls = False
        self.done = False

    async def receive(self) -> dict[str, Any]:
        return {"type": "http.request", "body": material.request([material.write_file_tool()], stream=True)}

    async def send(self, message: MutableMapping[str, Any]) -> None:
        *events, self.rest = (self.rest + message.get("body", b"")).split(b"\n\n")
        for event in events:
            payload = event.removeprefix(b"data: ")
            if payload == b"[DONE]":
                self.done = True
                continue
            for choice in json.loads(payload).get("choices", ()):
                self.calls = self.calls or "tool_calls" in choice["delta"]
                text = choice["delta"].get("content") or ""
                self.text.update(text.encode("utf-8", "surrogatepass"))
                self.size += len(text)


def flood(case: Case, size: int, *, trace: bool = False, piece: int = _PIECE, **settings: Any) -> Flooded:
    """An answer of about `size` characters through the middleware. No limit but the defaults."""
    pieces = [case.before] if case.before else []
    unit = case.unit * max(1, piece // len(case.unit))
    count = max(1, size // len(unit))
    written = hashlib.sha256()

    async def app(_scope: object, receive: Any, send: Any) -> None:
        await receive()
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for begin in pieces:
            written.update(begin.encode())
            await send({"type": "http.response.body", "body": _event(begin), "more_body": True})
        event, data = _event(unit), unit.encode("utf-8", "surrogatepass")
        try:
            for _ in range(count):
                written.update(data)
                await send({"type": "http.response.body", "body": event, "more_body": True})
        except OSError:
            return  # it was stopped
        await send({"type": "http.response.body", "body": b"data: [DONE]\n\n"})

    client = _Client()
    scope = {"type": "http", "method": "POST", "path": "/v1/chat/completions", "headers": []}
    wrapped = ToolCallMiddleware(app, mode="prompt", format="auto", **settings)
    if trace:
        tracemalloc.start()
    start = time.process_time()
    asyncio.run(wrapped(scope, client.receive, client.send))
    seconds = time.process_time() - start
    peak = tracemalloc.get_traced_memory()[1] if trace else 0
    if trace:
        tracemalloc.stop()
    same = client.calls or client.text.digest() == written.digest()
    return Flooded(seconds, peak, client.size, same, client.done)


def _event(text: str) -> bytes:
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": None}
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps({**head, "choices": [choice]}).encode() + b"\n\n"


def run(*, megabytes: float) -> tuple[Table, bool]:
    """The table, and whether all text came out in time that grows no faster than the text."""
    table = Table("Answers without an end, auto", ("ms a MiB", "MiB; x time for x 2; most memory held"))
    good = True
    for name, case in CASES.items():
        size = int(megabytes * (1 << 20)) // (50 if case.dear else 1)
        half, whole = flood(case, size // 2), flood(case, size)
        peak = flood(case, min(size, 1 << 20) // (4 if case.dear else 1), trace=True).peak
        growth = whole.seconds / max(half.seconds, 1e-6)
        if growth >= _GROWTH:  # once more: it may have been an interruption
            growth = min(growth, flood(case, size).seconds / max(flood(case, size // 2).seconds, 1e-6))
        good = good and whole.same and whole.done and (growth < _GROWTH or whole.seconds < 0.5)
        each = whole.seconds / (size / (1 << 20)) * 1000
        table.add(name, f"{each:.0f}", f"{size / (1 << 20):.1f}; {growth:.1f}; {peak / 1024:.0f} KiB")
    return table, good


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.flood", description="Answers without an end.")
    parser.add_argument("--megabytes", type=float, default=100.0)
    given = parser.parse_args(arguments)
    table, good = run(megabytes=given.megabytes)
    print(table.markdown())
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
