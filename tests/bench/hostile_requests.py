"""Hostile requests: what a KiB of one costs before the backend is asked, against a KiB of an ordinary one."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from toolcall_middleware.exchange import Exchange, Fail, Request
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory

from .report import Table

SETTINGS = Settings(mode="prompt", format="hermes", validate_arguments="error")
Body = dict[str, Any]


def _tool(parameters: Any, name: str = "f", description: str = "") -> Body:
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def _ask(*, messages: list[Body] | None = None, tools: list[Body] | None = None, **more: Any) -> Body:
    return {
        "model": "m",
        "messages": messages or [{"role": "user", "content": "x"}],
        "tools": tools or [_tool({"type": "object"})],
        **more,
    }


def _object(properties: Body, **more: Any) -> Body:
    return {"type": "object", "properties": properties, **more}


def _schema(**more: Any) -> Body:
    return _ask(tools=[_tool({"type": "object", **more})])


def _patterns(patterns: list[str]) -> Body:
    return _schema(properties={f"p{i}": {"pattern": pattern} for i, pattern in enumerate(patterns)})


def _results(text: str, count: int = 1) -> Body:
    calls = [{"id": f"c{i}", "type": "function", "function": {"name": "f", "arguments": "{}"}} for i in range(count)]
    answers: list[Body] = [{"role": "tool", "tool_call_id": f"c{i}", "content": text} for i in range(count)]
    user: list[Body] = [{"role": "user", "content": "x"}, {"role": "assistant", "content": None, "tool_calls": calls}]
    return _ask(messages=[*user, *answers])


def _nested(levels: int) -> Body:
    inner: Body = {}
    for _ in range(min(levels, 60)):
        inner = _object({"a": inner})
    return inner


def plain(size: int) -> Body:
    """An ordinary conversation with an ordinary tool."""
    text = "The rain in Paris falls, and nobody is surprised by it. " * 20
    return _ask(messages=[{"role": "user", "content": text} for _ in range(max(1, size // len(text)))])


CASES: dict[str, Callable[[int], Body]] = {
    "many properties": lambda n: _schema(properties={f"p{i}": {"type": "string"} for i in range(n // 30)}),
    "many kinds of them": lambda n: _schema(properties={f"p{i}": {"minLength": i} for i in range(n // 24)}),
    "a list of values": lambda n: _schema(properties={"a": {"enum": [f"v{i}" for i in range(n // 9)]}}),
    "a list of lists": lambda n: _schema(properties={"a": {"enum": [[i] if i % 2 else i for i in range(n // 7)]}}),
    "required": lambda n: _schema(required=[f"r{i}" for i in range(n // 9)]),
    "alternatives": lambda n: _schema(anyOf=[{"type": "object", "title": str(i)} for i in range(n // 35)]),
    "references": lambda n: _schema(**{"$defs": {f"d{i}": {"$ref": f"#/$defs/d{i + 1}"} for i in range(n // 35)}}),
    "a circle": lambda n: _schema(properties={f"p{i}": {"$ref": "#"} for i in range(n // 20)}),
    "patterns": lambda n: _schema(properties={f"p{i}": {"pattern": f"(a+)+{i}$"} for i in range(n // 30)}),
    "names by pattern": lambda n: _schema(patternProperties={f"^(a+)+{i}$": {} for i in range(n // 18)}),
    "counted patterns": lambda n: _patterns([f"x{{{10 ** (i % 10)}}}" for i in range(n // 40)]),
    "counts in counts": lambda n: _patterns(["(x{1000}){1500}"] * (n // 45)),
    "counted classes": lambda n: _patterns([f"\\p{{L}}{{{100 + i}}}" for i in range(n // 40)]),
    "one long pattern": lambda n: _schema(properties={"a": {"pattern": "(a|b)*" * (n // 6)}}),
    "groups": lambda n: _schema(properties={"a": {"pattern": "(" * (n // 2) + ")" * (n // 2)}}),
    "depth": lambda n: _ask(tools=[_tool(_nested(n // 40), f"f{i}") for i in range(max(1, min(100, n // 2500)))]),
    "a description": lambda n: _ask(tools=[_tool({"type": "object"}, description="x<tool_call>" * (n // 12))]),
    "tools": lambda n: _ask(tools=[_tool({"type": "object"}, f"f{i}") for i in range(min(128, n // 90))]),
    "too many tools": lambda n: _ask(tools=[_tool({"type": "object"}, f"f{i}") for i in range(n // 90)]),
    "messages": lambda n: _ask(messages=[{"role": "user", "content": ""} for _ in range(n // 35)]),
    "parts": lambda n: _ask(messages=[{"role": "user", "content": [{"type": "text", "text": "x"}] * (n // 30)}]),
    "calls": lambda n: _results("x", max(1, n // 140)),
    "markers in a result": lambda n: _results("<tool_call>" * (n // 11)),
    "halves of markers": lambda n: _results("<" * n),
    "backslashes": lambda n: _results("<" + "\\" * (n // 2)),
    "escapes": lambda n: _results("\x00" * (n // 6)),
    "a deep result": lambda n: _results(json.dumps({"a": "[" * (n // 2)})),
    "stop strings": lambda n: _ask(stop=["x" * (n // 4)] * 4),
    "many stop strings": lambda n: _ask(stop=[f"x{i}" for i in range(n // 9)]),
    "neighbours": lambda n: _ask(messages=[{"role": "user", "content": "x" * 9} for _ in range(n // 45)]),
    "tools twice": lambda n: _ask(Tools=[_tool({}, f"f{i}") for i in range(n // 90)]),
    "unknown fields": lambda n: {**_ask(), **{f"x{i}": i for i in range(n // 12)}},
}  # fmt: skip


def cost(body: Body) -> tuple[float, int]:
    """(seconds until the backend could be asked or the client has its refusal, bytes)."""
    data = json.dumps(body).encode()
    best = 1e9
    for number in range(3):
        # A new name each time: what was seen before is remembered.
        sent = data.replace(b'"name": "f', b'"name": "f%d' % number)
        start = time.process_time()
        for action in Exchange(SETTINGS, BackendMemory()).receive(Request(sent)):
            if isinstance(action, Fail):
                action.error.body()
        best = min(best, time.process_time() - start)
    return best, len(data)


def factors(size: int) -> list[tuple[str, float, float]]:
    """(kind, milliseconds a KiB, growth for twice the size), the dearest first."""
    cost(_schema())
    rows = []
    for name, make in CASES.items():
        (once, _), (twice, length) = cost(make(size)), cost(make(2 * size))
        rows.append((name, twice / length * 1024 * 1000, twice / max(once, 1e-5)))
    return sorted(rows, key=lambda row: -row[1])


def ordinary(size: int) -> float:
    """Milliseconds a KiB of an ordinary request."""
    seconds, length = cost(plain(2 * size))
    return seconds / length * 1024 * 1000


def run(*, smoke: bool) -> Table:
    """The dearest kinds of requests, by their factor over an ordinary one of that size."""
    size = 20_000 if smoke else 200_000
    base = ordinary(size)
    table = Table("Hostile requests", ("µs a KiB", "x an ordinary one; x time for x 2"))
    rows = factors(size)
    for name, each, growth in rows[:10]:
        table.add(name, f"{each * 1000:.0f}", f"{each / base:.0f}; {growth:.1f}")
    table.add(f"the most growth of {len(rows)} kinds", "", f"{max(row[2] for row in rows):.1f}", "<= 2.4")
    return table
