"""What it costs to be observed: time a chunk and a request, by who observes."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.hosts.proxy.inspector.store import Store
from toolcall_middleware.observe.traces import TraceFiles

from . import material, measure
from .measure import Stream
from .report import Table

_OFFERING = material.request([material.write_file_tool()])
_HELLO = ["Hello", " there", ". "]


@contextmanager
def _apps(stream: Stream) -> Iterator[list[tuple[str, ToolCallMiddleware]]]:
    with tempfile.TemporaryDirectory() as folder:
        given: dict[str, Any] = {"mode": "prompt", "format": "hermes"}
        inspected = ToolCallMiddleware(stream, **given)
        inspected._observers = [Store(100)]
        traced = ToolCallMiddleware(stream, **given, trace_dir=folder)
        yield [
            ("nobody", ToolCallMiddleware(stream, **given)),
            ("nobody, once more", ToolCallMiddleware(stream, **given)),
            ("metrics", ToolCallMiddleware(stream, **given, metrics="on")),
            ("spans, no SDK", ToolCallMiddleware(stream, **given, otel="on")),
            ("inspector", inspected),
            ("traces of all", traced),
        ]
        for observer in traced._observers:
            if isinstance(observer, TraceFiles):
                observer.flush()


def run(*, smoke: bool) -> Table:
    """Rows by observer: ns a chunk of prose above nobody's."""
    repeats, size = (2, 400) if smoke else (60, 2500)
    text = (material.PROSE * (1 + size // len(material.PROSE)))[:size]
    pieces = material.cut(text)[:-1]
    head = [material.ROLE, *material.events(_HELLO)]
    stream = Stream(head, measure.messages(material.event(material.payload({"content": piece})) for piece in pieces))
    table = Table("Time a chunk, by who observes", ("ns a chunk", "above nobody"))
    with _apps(stream) as apps:

        def once(app: ToolCallMiddleware) -> float:
            measure.ask(app, _OFFERING)
            return stream.seconds

        rounds = [[once(app) for _, app in apps] for _ in range(repeats)]
    best = [min(column) / len(pieces) * 1e9 for column in zip(*rounds, strict=True)]
    for (name, _), nanoseconds in zip(apps, best, strict=True):
        table.add(name, f"{nanoseconds:.0f}", f"{nanoseconds - best[0]:+.0f}")
    return table
