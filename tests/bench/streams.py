"""What a chunk costs, and what a stream holds, by what its request brought and by how many streams are open."""

from __future__ import annotations

import asyncio
import gc
import itertools
import tracemalloc
from collections.abc import Callable, MutableMapping
from typing import Any

from toolcall_middleware import ToolCallMiddleware

from . import material, measure
from .measure import App, Client, clock
from .report import Table
from .requests import agent

_OFFERING = material.request([material.write_file_tool()])
_TURNS = 100


def run(*, smoke: bool) -> Table:
    """One stream after many tools or a long history; then up to 1,000 streams that take turns, a chunk each."""
    table = Table("Open streams", ("added", "x the time"))
    chunks, repeats, many = (20, 1, 4) if smoke else (20_000, 5, 100)
    opening, written = material.call_text("hermes", material.file_arguments(2500))
    tools = material.request([material.write_file_tool(), *material.tools(many - 1)])
    history = agent(10 * many).replace(b'"stream": false', b'"stream": true')
    for what, head, text in (
        ("prose", ["Hello", " there", ". "], material.PROSE),
        ("arguments", [*material.cut(opening, 3), written[:16]], written[16:-40]),
    ):
        streams = _Streams(head, text)
        one = streams.added(_OFFERING, 1, chunks, repeats)
        table.add(f"a chunk of {what}, 1 stream open", f"{one * 1e9:.0f} ns")
        for name, body, count, most in (
            (f"{many} tools offered", tools, 1, 1.5),
            (f"after a history of {10 * many} calls", history, 1, 1.5),
            *((f"{count} streams open", _OFFERING, count, 2) for count in ((3,) if smoke else (10, 100, 1000))),
        ):
            each = streams.added(body, count, chunks, repeats)
            table.add(f"a chunk of {what}, {name}", f"{each * 1e9:.0f} ns", f"{each / one:.2f}", f"<= {most}")
    for count in (4,) if smoke else (50, 200, 800):
        size = _Streams(material.cut(material.PROSE[:400]), "").memory(count)
        table.add(f"memory of one of {count} streams that are open in prose", f"{size / 1e3:.1f} kB", "", "< 64 kB")
    return table


def _wrapped(app: App) -> App:
    return ToolCallMiddleware(app, format="auto", max_tools=None)


class _Streams:
    """Streams that have begun with `opening` and then write `text` over and over."""

    def __init__(self, opening: list[str], text: str) -> None:
        self._head = measure.messages([material.ROLE, *material.events(opening)])
        self._messages = measure.messages(material.events(material.cut(text)))

    def added(self, body: bytes, count: int, chunks: int, repeats: int) -> float:
        """Seconds that are added to a chunk of one of `count` streams."""
        # Enough for each that its first chunks, from which the others are learned, do not count.
        turns = list(itertools.islice(itertools.cycle(self._messages), max(min(_TURNS, chunks), chunks // count)))

        async def take_turns(sends: list[measure.Send]) -> float:
            begin = clock()
            for message in turns:
                for send in sends:
                    await send(message)
            return clock() - begin

        bare, with_it = (
            min(measure.RUNNER.run(self._open(app_of, body, count, take_turns)) for _ in range(repeats))
            for app_of in (measure.NoOp, _wrapped)
        )
        return (with_it - bare) / (count * len(turns))

    def memory(self, count: int) -> float:
        """Bytes that each of `count` streams holds, over a no-op wrapper."""

        async def held(_sends: list[measure.Send]) -> float:
            gc.collect()
            return tracemalloc.get_traced_memory()[0]

        async def both() -> float:
            sizes = []
            for app_of in (_wrapped, measure.NoOp):
                await self._open(app_of, _OFFERING, 1, held)  # what is made once is made
                gc.collect()
                tracemalloc.start()
                try:
                    sizes.append(await self._open(app_of, _OFFERING, count, held))
                finally:
                    tracemalloc.stop()
            return (sizes[0] - sizes[1]) / count

        return measure.RUNNER.run(both())

    async def _open(
        self, app_of: Callable[[App], App], body: bytes, count: int, work: Callable[[list[measure.Send]], Any]
    ) -> float:
        """What `work` gives while `count` streams are open."""
        sends: list[measure.Send] = []
        ready, end = asyncio.Event(), asyncio.Event()

        async def app(_scope: MutableMapping[str, Any], receive: measure.Receive, send: measure.Send) -> None:
            await measure.begin_stream(receive, send)
            for message in self._head:
                await send(message)
            sends.append(send)
            if len(sends) == count:
                ready.set()
            await end.wait()
            await send(measure.body_message(b"data: [DONE]\n\n", more=False))

        wrapped = app_of(app)
        tasks = [asyncio.ensure_future(Client(body).ask(wrapped)) for _ in range(count)]
        await ready.wait()
        figure: float = await work(sends)
        end.set()
        await asyncio.gather(*tasks)
        return figure
