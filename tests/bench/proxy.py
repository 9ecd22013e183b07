"""`python -m tests.bench.proxy [--smoke]`: the proxy beside nginx and two plain relays, real processes.

- time a chunk: CPU of the process in the middle for each message of many streams, events paced so that each is a
  message of its own, all in turns; the smallest of the rounds counts
- time a request: the same for whole answers of 1 KB
- time a new stream: the same for streams of three messages, each on a connection of its own
- the first byte: streams opened within a short time, how much later each begins than one asked for directly
- memory: what each of many open streams takes of the process
"""

from __future__ import annotations

import asyncio
import contextlib
import statistics
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from . import measure, middle, report
from .middle import Server
from .report import Table

_NGINX, _AIOHTTP, _HTTPX = "nginx", "20 lines of uvicorn and aiohttp's client", "Starlette and httpx"
_LITELLM = "LiteLLM's proxy"
_PASSES, _PROSE, _CALLS = "proxy, no tools: passes", "proxy, prose rewritten", "proxy, arguments rewritten"
_WHOLE = "proxy, no tools"
_WITHIN = 0.4  # seconds in which the streams are opened
_SETTLED = 0.5
Asked = Callable[[int], Coroutine[Any, Any, int]]
"""Asks a server on a port; gives how many units of work that was."""


# -- the client


def _body(events: int, pause: float = 0, *, tools: bool = False, model: str = "m", stream: bool = True) -> Any:
    asked = {"model": model, "messages": [{"role": "user", "content": "x"}], "stream": stream}
    return {**asked, "max_tokens": events, "temperature": pause, **({"tools": [middle.TOOL]} if tools else {})}


async def _streams(port: int, count: int, body: Any) -> list[middle.Streamed]:
    """So many streams, opened within a short time."""

    async def one(at: int) -> middle.Streamed:
        await asyncio.sleep(_WITHIN * at / count)
        return await middle.stream(port, body)

    return await asyncio.gather(*map(one, range(count)))


def _paced(count: int, body: Any) -> Asked:
    """Counts messages: where several events come in one read, they are one."""

    async def ask(port: int) -> int:
        return sum(map(_whole, await _streams(port, count, body)))

    return ask


def _whole(streamed: middle.Streamed) -> int:
    if not streamed.messages:
        raise RuntimeError("a stream was not whole")
    return streamed.messages


def _opened(count: int, body: Any) -> Asked:
    """Counts streams, of which twenty are open at a time."""

    async def ask(port: int) -> int:
        at_once = asyncio.Semaphore(20)

        async def one() -> int:
            async with at_once:
                return _whole(await middle.stream(port, body))

        return len(await asyncio.gather(*(one() for _ in range(count))))

    return ask


def _requests(count: int, connections: int = 8) -> Asked:
    """Counts whole answers, which are asked for one after another on each of the connections."""
    body = _body(1, stream=False)

    async def some(port: int) -> None:
        reader, writer = await middle.connect(port, body)
        for left in reversed(range(count // connections)):
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            if b"content-length: " in head:
                await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
            else:
                await reader.readuntil(middle.LAST[2:])
            if left:
                middle.ask(writer, body)
        writer.close()

    async def ask(port: int) -> int:
        await asyncio.gather(*(some(port) for _ in range(connections)))
        return count

    return ask


@contextlib.asynccontextmanager
async def _held(port: int, count: int, *, tools: bool) -> AsyncIterator[None]:
    """Streams that have begun and say no more."""
    body = _body(1, 60, tools=tools, model="calls" if tools else "m")

    async def one() -> asyncio.StreamWriter:
        reader, writer = await middle.connect(port, body)
        await reader.readuntil(b"data: ")
        return writer

    writers: list[asyncio.StreamWriter] = []
    try:
        for begin in range(0, count, 50):
            writers += await asyncio.gather(*(one() for _ in range(begin, min(begin + 50, count))))
        yield
    finally:
        for writer in writers:
            writer.close()


async def _memory_a_stream(server: Server, few: int, many: int, *, tools: bool) -> float:
    """KiB of each stream beyond `few`, in a process that has had no more than these."""
    async with _held(server.port, few, tools=tools):
        await asyncio.sleep(_SETTLED)
        before = server.memory()
        async with _held(server.port, many, tools=tools):
            await asyncio.sleep(_SETTLED)
            return (server.memory() - before) / many


# -- what is measured


def _cpu(server: Server, asked: Asked) -> Callable[[], float]:
    """Microseconds of the process for each unit of work."""

    def run() -> float:
        begin = server.cpu()
        units = asyncio.run(asked(server.port))
        return (server.cpu() - begin) / units * 1e6

    return run


def _best(runs: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The smallest of each, all in turns, after a run that warms them."""
    for name, run in runs.items():
        print(f"{name}: {run():.3g} at first", file=sys.stderr, flush=True)
    return dict(zip(runs, measure.best(list(runs.values()), rounds), strict=True))


def _table(title: str, unit: str, best: dict[str, float], goals: dict[str, str], digits: int = 0) -> Table:
    """A row each; the ratios are to nginx, the aiohttp relay and the httpx relay."""
    table = Table(f"Proxy: {title}", (unit, "x nginx / aiohttp / httpx"))
    for name, cost in best.items():
        ratios = (cost / best[other] if other in best else None for other in (_NGINX, _AIOHTTP, _HTTPX))
        shown = " / ".join("-" if ratio is None else f"{ratio:.2f}" for ratio in ratios)
        table.add(name, f"{cost:.{digits}f}", shown, goals.get(name, ""))
    return table


def tables(base: str, *, smoke: bool) -> list[Table]:
    """Time a chunk, a whole answer and a new stream, and the first byte."""
    streams, events, pause, rounds = (4, 20, 0.01, 1) if smoke else (100, 40, 0.05, 2)
    whole, new, first = (40, 20, 20) if smoke else (1000, 300, 200)
    with (
        tempfile.TemporaryDirectory() as folder,
        middle.nginx(base) as quickest,
        middle.relay("aiohttp", base) as quick,
        middle.relay("httpx", base) as plain,
        middle.litellm(base) as large,
        middle.proxy(base, *middle.NO_ACCESS_LOG) as proxy,
        middle.proxy(base) as logging,
        middle.router(base, folder) as router,
    ):
        others = {_NGINX: quickest, _AIOHTTP: quick, _HTTPX: plain, _LITELLM: large}
        standing = {name: server for name, server in others.items() if server is not None}
        ways: dict[str, tuple[Server, dict[str, Any]]] = {name: (server, {}) for name, server in standing.items()}
        ways[_PASSES] = (proxy, {})
        ways[_PROSE] = (proxy, {"tools": True})
        ways[_CALLS] = (proxy, {"tools": True, "model": "calls"})
        renamed = {"prose, by a file of upstreams, the model renamed": (router, {"tools": True, "model": "client"})}
        logged: dict[str, Any] = {"proxy, no tools, with its access log": (logging, {})}
        servers = {**standing, _WHOLE: proxy}

        def best(made: Callable[[Any], Asked], some: dict[str, tuple[Server, dict[str, Any]]]) -> dict[str, float]:
            return _best({name: _cpu(server, made(fields)) for name, (server, fields) in some.items()}, rounds)

        chunk = best(lambda fields: _paced(streams, _body(events, pause, **fields)), {**ways, **renamed})
        answer = _best({name: _cpu(server, _requests(whole)) for name, server in servers.items()}, rounds)
        opened = best(lambda fields: _opened(new, _body(2, **fields)), {**ways, **logged})

        def late(port: int) -> Callable[[], float]:
            def run() -> float:
                got = asyncio.run(_streams(port, first, _body(20, 0.1)))
                return statistics.median(streamed.first for streamed in got) * 1e3

            return run

        ports = {"directly": int(base.rpartition(":")[2]), **{name: one.port for name, one in servers.items()}}
        begun = _best({name: late(port) for name, port in ports.items()}, rounds)
        direct = begun.pop("directly")
        added = {name: max(0.1, took - direct) for name, took in begun.items()}
    goals = {_PASSES: "<= 4 / - / 0.4", _PROSE: "<= 4.5 / - / 0.4", _CALLS: "<= 4.5 / - / 0.4"}
    return [
        _table(f"time a chunk, {streams} streams", "CPU µs a chunk", chunk, goals),
        _table("time a whole answer of 1 KB", "CPU µs a request", answer, {_WHOLE: "<= - / - / 0.4"}),
        _table("time a new stream, on a connection of its own", "CPU µs a stream", opened, {_PASSES: "<= - / 1.5 / -"}),
        _table("first byte of 200 streams within 0.4 s", "added ms, median", added, {_WHOLE: "<= - / 1.5 / -"}, 1),
    ]


def _memory_table(base: str, *, smoke: bool) -> Table:
    few, many = (2, 10) if smoke else (100, 1000)
    table = Table(f"Proxy: memory a stream, {many} streams beyond {few}", ("KiB", ""))
    asked = {
        "uvicorn alone, nobody asked: the client's connection": (middle.relay("bare", base), False),
        _AIOHTTP: (middle.relay("aiohttp", base), False),
        _HTTPX: (middle.relay("httpx", base), False),
        _PASSES: (middle.proxy(base, *middle.NO_ACCESS_LOG), False),
        "proxy, a call's arguments rewritten": (middle.proxy(base, *middle.NO_ACCESS_LOG), True),
    }
    for name, (process, tools) in asked.items():
        with process as server:
            size = asyncio.run(_memory_a_stream(server, few, many, tools=tools))
            server.process.kill()  # the relays would wait for their upstream
        table.add(name, f"{size:.1f}", "", "<= 12" if name.startswith("proxy") else "")
    return table


def main(arguments: list[str] | None = None) -> int:
    parser = report.parser("proxy", __doc__)
    parser.add_argument("--smoke", action="store_true", help="small and quick: shows that it works, no figures")
    given = parser.parse_args(arguments)
    middle.many_files()
    with middle.an_upstream() as base:
        made = tables(base, smoke=given.smoke)
        made.append(_memory_table(base, smoke=given.smoke))
    print(report.figures(made) if not given.smoke else "It works. No figures: this was a smoke run.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
