"""Answers without an end, and hostile ones: what a model may write, over and over.

`python -m tests.bench.flood [--megabytes 100]`: a backend writes the same few characters in chunks of 16 KiB. The table
shows the time for each MiB, the time for twice the text, and the most memory held. All text must arrive: its hash is
compared. Kinds that cost more than prose get less text, so that all of it ends in minutes.

`python -m tests.bench growth hostile`: the same in pieces of 4 and 40 characters, for long arguments and for markers of
all families.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
import tracemalloc
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from typing import Any

from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.formats import registry
from toolcall_middleware.model import ToolCall

from . import material, report
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


def growth(*, smoke: bool) -> Table:
    """Prose and long arguments, 4 characters a chunk: time and memory for twice the size."""
    size = 8_000 if smoke else 1_000_000
    table = Table(f"Growth: {size // 1000} kB in 4-character chunks", ("seconds; kB held", "x half the size"))
    as_string = Case("some words, 40. ", material.call_text("json", "")[0] + '"{\\"path\\": \\"x')
    cases: tuple[tuple[str, Case, dict[str, Any]], ...] = (
        ("prose", CASES["prose"], {}),
        ("arguments", CASES["a long string"], {}),
        ("arguments as a JSON string", as_string, {}),
        ("arguments, stream_arguments=false", CASES["a long string"], {"stream_arguments": False}),
    )
    for name, case, options in cases:
        options["max_arguments_bytes"] = None
        runs = [(flood(case, size // 2, piece=4, **options), flood(case, size, piece=4, **options)) for _ in range(3)]
        half, whole = (min(run.seconds for run in both) for both in zip(*runs, strict=True))
        peak = flood(case, size // 4, piece=4, trace=True, **options).peak
        table.add(f"{name}, auto", f"{whole:.2f}; {peak / 1000:.0f}", f"{whole / half:.2f}", "<= 2.2")
    return table


def _hostile_cases() -> Iterator[tuple[str, Case]]:
    """Markers and halves of calls of every format, and what may be a part of one."""
    call = ToolCall(material.TOOL, '{"path": "x"}')
    units = set()
    for name in registry.names():
        written = registry.get(name).render_calls([call])
        units |= {f"{part} " for part in (written, written[: len(written) // 2], *written.split())}
    units |= {"`", "``` ", "~~~\n", "{", "[", "<", "\n", " ", "<think>", "</think>", "\x00", "\\", '"', '{"a":', "- "}
    inside = ("\\", '\\"', '"', "{", "[", '{"a":', "'", "</tool_call>", "x" * 40, "\\u00e9", "1,", "\n")
    between = ("</", "<", "</parameter>", "\n", "'", "\\", "<arg_key>", ")", "<![CDATA[")
    tags = ("<function=write_file>\n<parameter=content>\n", "[write_file(content='", "<tool_call>write_file\n")
    found = [("", unit) for unit in sorted(units)]
    found += [(before, unit) for before in (_BEGIN + '"', _BEGIN) for unit in inside]
    found += [(before, unit) for before in tags for unit in between]
    for before, unit in found:
        yield f"`{_shown(unit)}`" + (f" after `{_shown(before)}`" if before else ""), Case(unit, before)


def _shown(text: str) -> str:
    return text.encode("unicode_escape").decode("ascii").replace("`", "'").replace("|", "\\|")[:60]


def hostile(*, smoke: bool) -> Table:
    """The dearest kinds of output, 40 characters a chunk, by their factor over prose."""
    size = 2_000 if smoke else 40_000
    rows = []

    def seconds(case: Case, count: int, repeats: int) -> float:
        return min(flood(case, count, piece=40, max_tool_calls=None).seconds for _ in range(repeats))

    for name, case in list(_hostile_cases())[:: 20 if smoke else 1]:
        for repeats in (2, 10):
            works = ((case, size), (case, 2 * size), (CASES["prose"], 2 * size))
            once, twice, plain = (seconds(*work, repeats) for work in works)
            if smoke or twice < 2.2 * once:
                break  # if not, an interruption or a fault: more tries tell
        rows.append((twice / plain, twice / once, name, twice / (2 * size)))
    rows.sort(reverse=True)
    table = Table("Hostile output, auto", ("ns a character", "x prose; x time for x 2"))
    for factor, more, name, each in rows[:10]:
        table.add(name, f"{each * 1e9:.0f}", f"{factor:.1f}; {more:.1f}", "<= 40; 2.4")
    _, more, name, _ = max(rows, key=lambda row: row[1])
    table.add(f"the most growth of {len(rows)} kinds: {name}", "", f"{more:.1f}", "<= 2.4")
    return table


def main(arguments: list[str] | None = None) -> int:
    parser = report.parser("flood", __doc__)
    parser.add_argument("--megabytes", type=float, default=100.0)
    given = parser.parse_args(arguments)
    table, good = run(megabytes=given.megabytes)
    print(table.markdown())
    return 0 if good else 1


if __name__ == "__main__":
    raise SystemExit(main())
