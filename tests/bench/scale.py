"""Growth with what a request brings and with what else the process does: tools, history, streams open at once."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, MutableMapping
from typing import Any

from toolcall_middleware import ToolCallMiddleware

from . import material, measure
from .growth import wrapper
from .measure import App, Client, clock
from .report import Table
from .requests import Reached, agent, until_app

_TURNS = 100
_OFFERING = material.request([material.write_file_tool()])


def run(*, smoke: bool) -> Table:
    table = Table("Growth with tools, history and streams at once", ("added", "x the time"))
    repeats = 2 if smoke else 30
    _requests(table, (4, 8) if smoke else (50, 100), (4, 8) if smoke else (500, 1000), repeats)
    _chunks(table, 4 if smoke else 100, 4 if smoke else 1000, repeats, 200 if smoke else 2500)
    counts = (1, 3) if smoke else (1, 10, 100, 1000)
    for what, opening, text in _states():
        one = 0.0
        for count in counts:
            seconds = _at_once(count, opening, text, 20 if smoke else 20_000, 1 if smoke else 5)
            one = one or seconds
            name = f"a chunk of {what}, {count} stream{'s' if count > 1 else ''} open"
            ratio = f"{seconds / one:.2f} (of 1)" if count > 1 else ""
            table.add(name, f"{seconds * 1e9:.0f} ns", ratio, "<= 2" if count > 1 else "")
    return table


# -- requests ------------------------------------------------------------------------------------------------------


def _requests(table: Table, tools: tuple[int, int], turns: tuple[int, int], repeats: int) -> None:
    """Until the app has the body. The first of each two numbers is half the second."""
    numbers = itertools.count()

    def new(count: int) -> Callable[[], bytes]:
        made = [material.request(material.tools(count, f"note {next(numbers)}"), stream=False) for _ in range(repeats)]
        return iter(made).__next__

    def same(body: bytes) -> Callable[[], bytes]:
        return lambda: body

    half, whole = tools
    again = [same(material.request(material.tools(count), stream=False)) for count in tools]
    histories = [same(agent(count)) for count in turns]
    for what, bodies, of in (
        (f"a request, {whole} tools, first time", [new(half), new(whole)], f"of {half}"),
        (f"a request, {whole} tools, seen before", again, f"of {half}"),
        (f"a request, a history of {turns[1]} calls", histories, f"of {turns[0]}"),
    ):
        reached = Reached()
        app = ToolCallMiddleware(reached, format="auto")
        if bodies is again:
            for body in bodies:
                measure.ask(app, body())
        first, second = measure.best([until_app(app, reached, body) for body in bodies], repeats)
        table.add(what, f"{second * 1e3:.2f} ms", f"{second / first:.2f} ({of})", "<= 2.4")


# -- chunks --------------------------------------------------------------------------------------------------------


def _states() -> list[tuple[str, list[str], str]]:
    """(what is written, what brings the parser there, the text)."""
    opening, written = material.call_text("hermes", material.file_arguments(2500))
    return [
        ("prose", ["Hello", " there", ". "], material.PROSE),
        ("arguments", [*material.cut(opening, 3), written[:16]], written[16:-40]),
    ]


def _chunks(table: Table, tools: int, turns: int, repeats: int, size: int) -> None:
    """What the request brought costs nothing later."""
    write_file = material.write_file_tool()
    plain = _OFFERING
    many = material.request([write_file, *material.tools(tools - 1)])
    long = agent(turns).replace(b'"stream": false', b'"stream": true')
    for what, opening, text in _states():
        pieces = material.cut(text)[: size // 4]
        head = [material.ROLE, *material.events(opening)]
        stream = measure.Stream(head, measure.messages(material.events(pieces)))
        noop, app = measure.NoOp(stream), wrapper("auto", {"max_tools": None})(stream)
        runs = [_run(noop, plain, stream), *(_run(app, body, stream) for body in (plain, many, long))]
        bare, few, offered, behind = measure.best(runs, repeats)
        for name, seconds in (
            (f"a chunk of {what}, {tools} tools offered", offered),
            (f"a chunk of {what}, behind a history of {turns} calls", behind),
        ):
            ratio = (seconds - bare) / (few - bare)
            table.add(name, f"{(seconds - bare) / len(pieces) * 1e9:.0f} ns", f"{ratio:.2f} (of 1 and none)", "<= 1.5")


def _run(app: App, body: bytes, stream: measure.Stream) -> Callable[[], float]:
    def once() -> float:
        measure.ask(app, body)
        return stream.seconds

    return once


# -- streams at once -----------------------------------------------------------------------------------------------


def _at_once(count: int, opening: list[str], text: str, chunks: int, repeats: int) -> float:
    """Seconds that are added to a chunk of one of `count` streams, which take turns, a chunk each."""
    head = measure.messages([material.ROLE, *material.events(opening)])
    messages = measure.messages(material.events(material.cut(text)))
    # Enough for each that its first chunks, from which the others are learned, do not count.
    turns = list(itertools.islice(itertools.cycle(messages), max(min(_TURNS, chunks), chunks // count)))
    bare, with_it = (
        min(measure.RUNNER.run(_take_turns(app_of, count, head, turns)) for _ in range(repeats))
        for app_of in (measure.NoOp, wrapper("auto", {}))
    )
    return (with_it - bare) / (count * len(turns))


async def _take_turns(
    app_of: Callable[[App], App], count: int, head: measure.Messages, turns: list[measure.Message]
) -> float:
    sends: list[measure.Send] = []
    ready, end = asyncio.Event(), asyncio.Event()

    async def app(_scope: MutableMapping[str, Any], receive: measure.Receive, send: measure.Send) -> None:
        await receive()
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for message in head:
            await send(message)
        sends.append(send)
        if len(sends) == count:
            ready.set()
        await end.wait()
        await send(measure.body_message(b"data: [DONE]\n\n", more=False))

    wrapped = app_of(app)
    tasks = [asyncio.ensure_future(Client(_OFFERING).ask(wrapped)) for _ in range(count)]
    await ready.wait()
    begin = clock()
    for message in turns:
        for send in sends:
            await send(message)
    seconds = clock() - begin
    end.set()
    await asyncio.gather(*tasks)
    return seconds
