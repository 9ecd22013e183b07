"""`python -m tests.bench.proxy [--smoke]`: the proxy beside nginx and two plain relays, real processes.

- time a chunk: CPU of the process in the middle for each message of many streams, events paced so that each is a
  message of its own, all in turns; the smallest of the rounds counts
- time a request: the same for whole answers of 1 KB
- time a new stream: the same for streams of three messages, each on a connection of its own
- the first byte: streams opened within a short time, how much later each begins than one asked for directly
- memory: what each of many open streams takes of the process
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable

from . import middle, report
from .middle import HOST, Server
from .report import Table

_HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
_NGINX, _AIOHTTP, _HTTPX = "nginx", "20 lines of uvicorn and aiohttp's client", "Starlette and httpx"
_LITELLM = "LiteLLM's proxy"


# -- the client


def _request(*, events: int, pause: float, tools: bool, model: str, stream: bool = True) -> bytes:
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "x"}],
        "stream": stream,
        "max_tokens": events,
        "temperature": pause,
    }
    if tools:
        body["tools"] = [middle.TOOL]
    data = json.dumps(body).encode()
    return _HEAD % len(data) + data


async def _stream(port: int, *, events: int, pause: float, tools: bool, model: str = "m") -> int:
    """One stream; how many messages it came in, 0 when it was not whole."""
    try:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(_request(events=events, pause=pause, tools=tools, model=model))
        answer = b""
        while not answer.endswith(b"\r\n0\r\n\r\n") and (more := await reader.read(65536)):
            answer += more
        writer.close()
    except OSError:
        return 0
    whole = answer.startswith(b"HTTP/1.1 200") and b"data: [DONE]" in answer and f'" word{events}"'.encode() in answer
    # A message is one chunk of the body; two line ends each.
    return answer.partition(b"\r\n\r\n")[2].count(b"\r\n") // 2 if whole and answer.endswith(b"0\r\n\r\n") else 0


async def _streams(
    count: int, port: int, *, events: int, pause: float, tools: bool = True, model: str = "m"
) -> list[int]:
    """That many, opened within 0.4 s: the messages of each."""

    async def one(at: int) -> int:
        await asyncio.sleep(0.4 * at / count)
        return await _stream(port, events=events, pause=pause, tools=tools, model=model)

    return await asyncio.gather(*map(one, range(count)))


async def _short_streams(port: int, count: int, *, tools: bool, model: str) -> list[int]:
    """Streams of three messages, twenty at a time, each on a connection of its own: the messages of each."""
    at_once = asyncio.Semaphore(20)

    async def one() -> int:
        async with at_once:
            return await _stream(port, events=2, pause=0, tools=tools, model=model)

    return await asyncio.gather(*(one() for _ in range(count)))


async def _requests(port: int, *, count: int, connections: int) -> None:
    """Whole answers, one after another on each of the connections."""
    asked = _request(events=1, pause=0, tools=False, model="m", stream=False)

    async def some() -> None:
        reader, writer = await asyncio.open_connection(HOST, port)
        for _ in range(count // connections):
            writer.write(asked)
            head = (await reader.readuntil(b"\r\n\r\n")).lower()
            if b"content-length: " in head:
                await reader.readexactly(int(head.partition(b"content-length: ")[2].partition(b"\r\n")[0]))
            else:
                await reader.readuntil(b"0\r\n\r\n")
        writer.close()

    await asyncio.gather(*(some() for _ in range(connections)))


async def _first_bytes(port: int, count: int) -> list[float]:
    """Milliseconds to the first byte of a body, of streams that are opened within 0.4 s."""
    asked = _request(events=20, pause=0.1, tools=False, model="m")

    async def one(at: int) -> float:
        await asyncio.sleep(0.4 * at / count)
        begin = time.perf_counter()
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(asked)
        await reader.readuntil(b"\r\n\r\n")
        await reader.readuntil(b"data: ")
        took = time.perf_counter() - begin
        with contextlib.suppress(asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            await reader.readuntil(b"\r\n0\r\n\r\n")
        writer.close()
        return took * 1000

    return await asyncio.gather(*map(one, range(count)))


@contextlib.asynccontextmanager
async def _held(port: int, count: int, *, tools: bool) -> AsyncIterator[None]:
    """Streams that have begun and say no more."""
    asked = _request(events=1, pause=60, tools=tools, model="calls" if tools else "m")

    async def one() -> asyncio.StreamWriter:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(asked)
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
        await asyncio.sleep(0.5)
        before = server.memory()
        async with _held(server.port, many, tools=tools):
            await asyncio.sleep(0.5)
            return (server.memory() - before) / many


# -- what is measured


def _best(runs: dict[str, Callable[[], float]], rounds: int) -> dict[str, float]:
    """The smallest of each, all in turns."""
    for name, run in runs.items():
        print(f"{name}: {run():.3g} at first", file=sys.stderr, flush=True)
    times = [[run() for run in runs.values()] for _ in range(rounds)]
    return dict(zip(runs, map(min, zip(*times, strict=True)), strict=True))


def _add(table: Table, best: dict[str, float], goals: dict[str, str], unit: str = "{:.0f}") -> None:
    """A row each; the ratios are to nginx, the aiohttp relay and the httpx relay."""
    for name, cost in best.items():
        ratios = (cost / best[other] if best.get(other) else None for other in (_NGINX, _AIOHTTP, _HTTPX))
        told = " / ".join("-" if ratio is None else f"{ratio:.2f}" for ratio in ratios)
        table.add(name, unit.format(cost), told, goals.get(name, ""))


def tables(base: str, *, smoke: bool) -> list[Table]:
    streams, events, pause, rounds = (4, 20, 0.01, 1) if smoke else (100, 40, 0.05, 2)
    against = "x nginx / aiohttp / httpx"
    chunks = Table(f"Proxy: time a chunk, {streams} streams", ("CPU µs a chunk", against))
    whole = Table("Proxy: time a whole answer of 1 KB", ("CPU µs a request", against))
    new = Table("Proxy: time a new stream, on a connection of its own", ("CPU µs a stream", against))
    first = Table("Proxy: first byte of 200 streams within 0.4 s", ("added ms, median", against))
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

        def chunk(server: Server, *, tools: bool = False, model: str = "m") -> Callable[[], float]:
            def run() -> float:
                begin = server.cpu()
                asked = _streams(streams, server.port, events=events, pause=pause, tools=tools, model=model)
                messages = asyncio.run(asked)
                if 0 in messages:
                    raise RuntimeError("a stream was not whole")
                # Where several events come in one read, what is counted are the messages.
                return (server.cpu() - begin) / sum(messages) * 1e6

            return run

        passes, prose, calls = "proxy, no tools: passes", "proxy, prose rewritten", "proxy, arguments rewritten"
        runs = {name: chunk(server) for name, server in standing.items()}
        runs[passes] = chunk(proxy)
        runs[prose] = chunk(proxy, tools=True)
        runs[calls] = chunk(proxy, tools=True, model="calls")
        runs["prose, by a file of upstreams, the model renamed"] = chunk(router, tools=True, model="client")
        goals = {passes: "<= 4 / - / 0.4", prose: "<= 4.5 / - / 0.4", calls: "<= 4.5 / - / 0.4"}
        _add(chunks, _best(runs, rounds), goals)

        def request(server: Server) -> Callable[[], float]:
            count = 40 if smoke else 1000

            def run() -> float:
                begin = server.cpu()
                asyncio.run(_requests(server.port, count=count, connections=8))
                return (server.cpu() - begin) / count * 1e6

            return run

        servers = {**standing, "proxy, no tools": proxy}
        _add(
            whole,
            _best({name: request(server) for name, server in servers.items()}, rounds),
            {"proxy, no tools": "<= - / - / 0.4"},
        )

        def opened(server: Server, *, tools: bool = False, model: str = "m") -> Callable[[], float]:
            count = 20 if smoke else 300

            def run() -> float:
                begin = server.cpu()
                if 0 in asyncio.run(_short_streams(server.port, count, tools=tools, model=model)):
                    raise RuntimeError("a stream was not whole")
                return (server.cpu() - begin) / count * 1e6

            return run

        runs = {name: opened(server) for name, server in standing.items()}
        runs[passes] = opened(proxy)
        runs[prose] = opened(proxy, tools=True)
        runs[calls] = opened(proxy, tools=True, model="calls")
        runs["proxy, no tools, with its access log"] = opened(logging)
        _add(new, _best(runs, rounds), {passes: "<= - / 1.5 / -"})

        direct = int(base.rpartition(":")[2])

        def late(port: int) -> Callable[[], float]:
            return lambda: statistics.median(asyncio.run(_first_bytes(port, 20 if smoke else 200)))

        ports = {"directly": direct, **{name: server.port for name, server in servers.items()}}
        best = _best({name: late(port) for name, port in ports.items()}, rounds)
        begin = best.pop("directly")
        _add(
            first,
            {name: max(0.1, took - begin) for name, took in best.items()},
            {"proxy, no tools": "<= - / 1.5 / -"},
            "{:.1f}",
        )
    return [chunks, whole, new, first]


def _memory_table(base: str, *, smoke: bool) -> Table:
    few, many = (2, 10) if smoke else (100, 1000)
    table = Table(f"Proxy: memory a stream, {many} streams beyond {few}", ("KiB", ""))
    asked = {
        "uvicorn alone, nobody asked: the client's connection": (middle.relay("bare", base), False),
        _AIOHTTP: (middle.relay("aiohttp", base), False),
        _HTTPX: (middle.relay("httpx", base), False),
        "proxy, no tools: passes": (middle.proxy(base, *middle.NO_ACCESS_LOG), False),
        "proxy, a call's arguments rewritten": (middle.proxy(base, *middle.NO_ACCESS_LOG), True),
    }
    for name, (process, tools) in asked.items():
        with process as server:
            size = asyncio.run(_memory_a_stream(server, few, many, tools=tools))
            server.process.kill()  # the relays would wait for their upstream
        table.add(name, f"{size:.1f}", "", "<= 12" if name.startswith("proxy") else "")
    return table


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.proxy", description="What the proxy costs.")
    parser.add_argument("--smoke", action="store_true", help="small and quick: shows that it works, no figures")
    given = parser.parse_args(arguments)
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(most, 8192) if most > 0 else 8192, most))
    with middle.an_upstream() as base:
        made = tables(base, smoke=given.smoke)
        made.append(_memory_table(base, smoke=given.smoke))
    print(report.figures(made) if not given.smoke else "It works. No figures: this was a smoke run.")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
