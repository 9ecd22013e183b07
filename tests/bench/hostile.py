"""What attackers send, by kind: time against an ordinary request of the same size, growth, and memory.

`python -m tests.bench.hostile [--seconds N]` repeats all kinds until the time is over, and exits 1 where one costs more
than it may. `python -m tests.bench hostile-requests` shows the dearest requests.
"""

from __future__ import annotations

import gzip
import json
import random
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.exchange import Exchange, Fail, Request
from toolcall_middleware.hosts.http.bodies import in_the_clear
from toolcall_middleware.hosts.http.head import normal_path
from toolcall_middleware.hosts.middleware.guards import tools_in
from toolcall_middleware.hosts.proxy.upstream.model_names import asked_model
from toolcall_middleware.hosts.proxy.upstream.upstream import Mask, MaskedStream
from toolcall_middleware.parsing.sink import StopFinder
from toolcall_middleware.request.parse import one_reading
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory

from . import report
from .report import Table

Work = Callable[[], object]
SETTINGS = Settings(mode="prompt", format="hermes", validate_arguments="error")
Body = dict[str, Any]
_MOST_TIME = 120.0
"""Times an ordinary request of that size: the dearest kind takes 45."""
_MOST_MEMORY = 50.0
"""Bytes for each byte sent, and 8 MiB."""
_SPARE = 8 << 20
_TRIES = 5
_SHOWN = 10


# -- requests ----------------------------------------------------------------------------------------------------------


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
    """(kind, milliseconds a KiB, growth for twice the size) of each kind of request, the dearest first."""
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
    for name, each, growth in rows[:_SHOWN]:
        table.add(name, f"{each * 1000:.0f}", f"{each / base:.0f}; {growth:.1f}")
    table.add(f"the most growth of {len(rows)} kinds", "", f"{max(row[2] for row in rows):.1f}", "<= 2.4")
    return table


# -- bodies, paths, keys -----------------------------------------------------------------------------------------------


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


def _factor(name: str, sent: int, work: Work, size: int, *, tries: int = 1) -> float:
    """What a byte of it costs against a byte of an ordinary request, the best of so many tries."""
    factors = []
    for _ in range(tries):
        seconds, length = cost(plain(size))
        factors.append(_seconds(work) / sent / (seconds / length) / (3 if name in CASES else 1))
    return min(factors)


def main() -> int:
    parser = report.parser("hostile", __doc__)
    parser.add_argument("--seconds", type=float, default=60.0, help="the longest it may take (default: %(default)s)")
    end = time.monotonic() + parser.parse_args().seconds
    sizes = random.Random(1)
    worst: dict[str, tuple[float, float]] = {}
    cost(plain(1000))
    while time.monotonic() < end:
        size = sizes.choice((20_000, 60_000, 200_000))
        requests: list[tuple[str, int, Work]] = [
            (name, size, partial(_request, make, size)) for name, make in CASES.items()
        ]
        for name, sent, work in [*kinds(size), *requests]:
            factor = _factor(name, sent, work, size)
            if factor > _MOST_TIME:  # dear, or interrupted? More tries tell.
                factor = _factor(name, sent, work, size, tries=_TRIES)
            tracemalloc.start()
            work()
            memory = max(0, tracemalloc.get_traced_memory()[1] - _SPARE) / sent
            tracemalloc.stop()
            before = worst.get(name, (factor, 0.0))
            worst[name] = min(before[0], factor), max(before[1], memory)
            if time.monotonic() > end:
                break
    bad = [name for name, (factor, memory) in worst.items() if factor > _MOST_TIME or memory > _MOST_MEMORY]
    for name, (factor, memory) in sorted(worst.items(), key=lambda item: -item[1][0]):
        much = "TOO MUCH " if name in bad else ""
        print(f"{much}{name}: {factor:.1f} x an ordinary request, {memory:.0f} bytes a byte")
    return 1 if bad else 0


if __name__ == "__main__":
    raise SystemExit(main())
