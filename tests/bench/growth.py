"""Growth: time and memory of arguments and prose that do not end, and memory of streams that stand open."""

from __future__ import annotations

import asyncio
import gc
import itertools
import tracemalloc
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from toolcall_middleware import ToolCallMiddleware

from . import material, measure
from .measure import App, Client, Stream
from .report import Table

_OFFERING = material.request([material.write_file_tool()])


def _long_arguments(style: str, size: int) -> Iterator[bytes]:
    """A call whose arguments have `size` characters, 4 a chunk; made on the way, so that they take no memory."""
    yield material.ROLE
    opening, written = material.call_text(style, '{"path": "x", "content": "')
    written = written.rstrip('"') if style == "json-string" else written
    yield from material.events(material.cut(opening))
    yield from material.events([written])
    made = list(material.events(material.cut("some words of text, a number (40) and so on. ")))
    yield from itertools.islice(itertools.cycle(made), size // 4)


def _long_prose(_style: str, size: int) -> Iterator[bytes]:
    yield material.ROLE
    made = list(material.events(material.cut(material.PROSE)))
    yield from itertools.islice(itertools.cycle(made), size // 4)


Make = Callable[[str, int], Iterable[bytes]]


def _seconds(app_of: Callable[[App], App], make: Make, style: str, size: int) -> float:
    stream = Stream((), make(style, size))
    measure.ask(app_of(stream), _OFFERING)
    return stream.seconds


def _peak(app_of: Callable[[App], App], make: Make, style: str, size: int) -> int:
    """Peak of what Python has allocated during the answer, over what there was before."""
    measure.ask(app_of(Stream((), make(style, 400))), _OFFERING)  # what is made once is made
    app = app_of(Stream((), make(style, size)))
    gc.collect()
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        measure.ask(app, _OFFERING)
        return tracemalloc.get_traced_memory()[1] - before
    finally:
        tracemalloc.stop()


# What is written, how, read by which format, with which settings.
_CASES: list[tuple[str, Make, str, str, dict[str, Any]]] = [
    ("prose, auto", _long_prose, "auto", "auto", {}),
    ("arguments, json", _long_arguments, "json", "json", {}),
    ("arguments, hermes", _long_arguments, "hermes", "hermes", {}),
    ("arguments, auto", _long_arguments, "auto", "auto", {}),
    ("arguments as a JSON string, json", _long_arguments, "json-string", "json", {}),
    ("arguments, json, stream_arguments=false", _long_arguments, "json", "json", {"stream_arguments": False}),
]


def wrapper(format_name: str, options: dict[str, Any]) -> Callable[[App], App]:
    return lambda app: ToolCallMiddleware(app, format=format_name, **options)


def run(*, smoke: bool) -> Table:
    size = 8_000 if smoke else 1_000_000
    table = Table(f"Growth: {size // 1000} kB in 4-character chunks", ("seconds", "x half the size"))
    for name, make, style, format_name, options in _CASES:
        app_of = wrapper(format_name, options)
        half, whole = float("inf"), float("inf")
        for _ in range(1 if smoke else 3):
            half = min(half, _seconds(app_of, make, style, size // 2))
            whole = min(whole, _seconds(app_of, make, style, size))
        table.add(name, f"{whole:.2f}", f"{whole / half:.2f}", "<= 2.2")
    return table


def memory(*, smoke: bool) -> Table:
    size = 8_000 if smoke else 1_000_000
    table = Table(f"Memory: peak during {size // 1000} kB, over a no-op wrapper", ("kB", "x the arguments"))
    for name, make, style, format_name, options in _CASES:
        bare = _peak(measure.NoOp, make, style, size)
        peak = _peak(wrapper(format_name, options), make, style, size)
        table.add(name, f"{(peak - bare) / 1000:.0f}", f"{(peak - bare) / size:.2f}", "< 3")
    for count in (4,) if smoke else (50, 200, 800):
        table.add(f"one of {count} streams that stand open in prose", f"{_open_streams(count):.1f}", "", "< 64")
    return table


def _open_streams(count: int) -> float:
    """kB for each of `count` streams that wait in the middle of prose, over those of a no-op wrapper."""
    return (_standing(lambda app: ToolCallMiddleware(app, format="auto"), count) - _standing(measure.NoOp, count)) / 1e3


def _standing(app_of: Callable[[App], App], count: int) -> float:
    async def stand() -> int:
        go_on = asyncio.Event()

        async def app(_scope: object, receive: measure.Receive, send: measure.Send) -> None:
            await receive()
            headers = [(b"content-type", b"text/event-stream")]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            for data in (material.ROLE, *material.events(material.cut(material.PROSE[:400]))):
                await send(measure.body_message(data))
            await go_on.wait()
            await send(measure.body_message(b"data: [DONE]\n\n", more=False))

        wrapped = app_of(app)
        await asyncio.gather(_end(wrapped, go_on))  # caches are filled
        go_on.clear()
        gc.collect()
        tracemalloc.start()
        before, _ = tracemalloc.get_traced_memory()
        tasks = [asyncio.ensure_future(Client(_OFFERING).ask(wrapped)) for _ in range(count)]
        for _ in range(5):
            await asyncio.sleep(0)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        go_on.set()
        await asyncio.gather(*tasks)
        return after - before

    async def _end(wrapped: App, go_on: asyncio.Event) -> None:
        go_on.set()
        await Client(_OFFERING).ask(wrapped)

    return measure.RUNNER.run(stand()) / count
