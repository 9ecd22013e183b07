"""`python -m tests.bench.proxy [--smoke] [--write]`: the proxy beside a plain streaming relay of httpx, real processes.

- time a chunk: CPU of the process in the middle for each message of a stream, events paced so that each is a message of
  its own, the relay and the proxy in turns; the smallest of the rounds counts
- many streams: all of them at once through one process, every answer checked
- the end: a signal to stop in the middle of them
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp

from . import report
from .report import Table

HOST = "127.0.0.1"
BEGIN = "<!-- proxy: written by `python -m tests.bench.proxy --write` -->"
END = "<!-- /proxy -->"
_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}


# -- what stands at the ends and in the middle


def upstream() -> ASGIApp:
    """Streams as many events as `max_tokens`, one each `temperature` seconds."""

    async def events(count: int, pause: float) -> AsyncIterator[bytes]:
        head = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
        clock = asyncio.get_running_loop()
        begin = clock.time()
        for at in range(count + 1):
            delta = {"role": "assistant", "content": ""} if at == 0 else {"content": f" word{at}"}
            choice = {"index": 0, "delta": delta, "finish_reason": "stop" if at == count else None}
            yield b"data: " + json.dumps({**head, "choices": [choice]}).encode() + b"\n\n"
            await asyncio.sleep(max(0.0, begin + (at + 1) * pause - clock.time()))
        yield b"data: [DONE]\n\n"

    async def chat(request: Request) -> Response:
        body = await request.json()
        return StreamingResponse(events(body["max_tokens"], body["temperature"]), media_type="text/event-stream")

    return Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])


def relay(base: str) -> ASGIApp:
    """The least that anybody would write."""
    client = httpx.AsyncClient(timeout=60, trust_env=False, limits=httpx.Limits(max_connections=None))

    async def chat(request: Request) -> Response:
        asked = client.build_request(
            "POST", base + request.url.path, content=await request.body(), headers={"content-type": "application/json"}
        )
        answer = await client.send(asked, stream=True)
        headers = {"content-type": answer.headers["content-type"]}
        return StreamingResponse(
            answer.aiter_raw(), answer.status_code, headers, background=BackgroundTask(answer.aclose)
        )

    return Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])


def _serve(kind: str, port: int, base: str) -> None:
    app = upstream() if kind == "upstream" else relay(base)
    uvicorn.run(app, host=HOST, port=port, log_level="warning", access_log=False)


# -- processes


def _free_port() -> int:
    with socket.create_server((HOST, 0)) as listener:
        return int(listener.getsockname()[1])


@dataclass
class Server:
    """A process that serves on `port`."""

    process: subprocess.Popen[bytes]
    port: int

    def cpu(self) -> float:
        """Seconds that it has worked so far."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS


@contextlib.contextmanager
def _running(*command: str, port: int) -> Iterator[Server]:
    process = subprocess.Popen([sys.executable, "-m", *command], stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 30
        while True:
            with contextlib.suppress(OSError), socket.create_connection((HOST, port), timeout=1):
                break
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command} does not serve")
            time.sleep(0.05)
        yield Server(process, port)
    finally:
        process.terminate()
        process.wait(60)


@contextlib.contextmanager
def _upstream() -> Iterator[str]:
    port = _free_port()
    with _running("tests.bench.proxy", "upstream", str(port), port=port):
        yield f"http://{HOST}:{port}"


def _relay(base: str) -> contextlib.AbstractContextManager[Server]:
    port = _free_port()
    return _running("tests.bench.proxy", "relay", str(port), base, port=port)


def _router(base: str, folder: str) -> contextlib.AbstractContextManager[Server]:
    """The proxy with a file of upstreams, one of which knows the model by another name."""
    path = Path(folder) / "upstreams.toml"
    path.write_text(f'[[upstream]]\nurl = "{base}/v1"\nrename = {{ client = "m" }}\n', "utf-8")
    port = _free_port()
    command = ["serve", "--upstreams", str(path), "--port", str(port), "--log-level", "warning"]
    return _running("toolcall_middleware", *command, port=port)


def _proxy(base: str, *options: str) -> contextlib.AbstractContextManager[Server]:
    port = _free_port()
    command = ["serve", "--upstream", f"{base}/v1", "--port", str(port), "--log-level", "warning", *options]
    return _running("toolcall_middleware", *command, port=port)


# -- the client


async def _stream(port: int, *, events: int, pause: float, tools: bool, model: str = "m") -> int:
    """One stream; how many messages it came in, 0 when it was not whole."""
    body = {
        "model": model,
        "messages": [{"role": "user", "content": "x"}],
        "stream": True,
        "max_tokens": events,
        "temperature": pause,
    }
    if tools:
        body["tools"] = [_TOOL]
    data = json.dumps(body).encode()
    head = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\nconnection: close\r\n"
    head += b"content-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(data)
    try:
        reader, writer = await asyncio.open_connection(HOST, port)
        writer.write(head + data)
        answer = await reader.read()
        while more := await reader.read():
            answer += more
        writer.close()
    except OSError:
        return 0
    whole = (
        answer.startswith(b"HTTP/1.1 200")
        and b"data: [DONE]" in answer
        and f'" word{events}"'.encode() in answer
        and answer.endswith(b"0\r\n\r\n")
    )
    # A message is one chunk of the body; two line ends each.
    return answer.partition(b"\r\n\r\n")[2].count(b"\r\n") // 2 if whole else 0


async def _streams(
    count: int, port: int, *, events: int, pause: float, tools: bool = True, model: str = "m"
) -> list[int]:
    """That many at once: the messages of each."""
    asked = (_stream(port, events=events, pause=pause, tools=tools, model=model) for _ in range(count))
    return await asyncio.gather(*asked)


# -- what is measured


def _chunk_table(base: str, *, smoke: bool) -> Table:
    events, streams, rounds = (20, 4, 1) if smoke else (800, 10, 5)
    table = Table("Proxy: time a chunk", ("CPU µs a chunk", "x plain relay"))
    with (
        tempfile.TemporaryDirectory() as folder,
        _relay(base) as plain,
        _proxy(base) as proxy,
        _router(base, folder) as router,
    ):

        def work(server: Server, *, tools: bool, model: str = "m") -> Callable[[], float]:
            def run() -> float:
                begin = server.cpu()
                asked = _streams(streams, server.port, events=events, pause=0.005, tools=tools, model=model)
                messages = asyncio.run(asked)
                if 0 in messages:
                    raise RuntimeError("a stream was not whole")
                # On a busy machine several events come in one read: what is counted are the messages.
                return (server.cpu() - begin) / sum(messages) * 1e6

            return run

        runs = {
            "plain httpx relay": work(plain, tools=False),
            "proxy, no tools: passes": work(proxy, tools=False),
            "proxy, tools offered: read and written anew": work(proxy, tools=True),
            "the same by a file of upstreams, the model renamed": work(router, tools=True, model="client"),
        }
        for run in runs.values():
            run()
        times = [[run() for run in runs.values()] for _ in range(rounds)]
        best = [min(column) for column in zip(*times, strict=True)]
        for name, microseconds in zip(runs, best, strict=True):
            goal = "" if microseconds is best[0] else "< 1.3"
            table.add(name, f"{microseconds:.0f}", f"{microseconds / best[0]:.2f}" if best[0] else "", goal)
    return table


def _crowd_table(base: str, *, smoke: bool) -> Table:
    streams, events, pause = (20, 5, 0.02) if smoke else (500, 60, 0.25)
    table = Table("Proxy: many streams at once", ("streams", "not whole"))
    with _proxy(base) as proxy:
        wrong = asyncio.run(_streams(streams, proxy.port, events=events, pause=pause)).count(0)
        table.add(f"one process, {events} events each, {pause:g} s apart", str(streams), str(wrong), "0")
    with _proxy(base, "--timeout-graceful", "30") as proxy:
        lost, seconds = asyncio.run(_ended(proxy, streams, events=events, pause=pause))
        table.add(f"SIGTERM in the middle (ended after {seconds:.1f} of 30 s)", str(streams), str(lost), "0")
    return table


async def _ended(proxy: Server, streams: int, *, events: int, pause: float) -> tuple[int, float]:
    """A signal to stop while streams run: (how many were lost, seconds until the process had ended)."""
    running = asyncio.create_task(_streams(streams, proxy.port, events=events, pause=pause))
    await asyncio.sleep(events * pause / 2)
    begin = time.monotonic()
    proxy.process.send_signal(signal.SIGTERM)
    lost = (await running).count(0)
    await asyncio.to_thread(proxy.process.wait, 60)
    return lost, time.monotonic() - begin


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench.proxy", description="What the proxy costs.")
    parser.add_argument("kind", nargs="?", choices=("upstream", "relay"), help="serve this (for its own processes)")
    parser.add_argument("port", nargs="?", type=int)
    parser.add_argument("base", nargs="?", default="")
    parser.add_argument("--smoke", action="store_true", help="small and quick: shows that it works, no figures")
    parser.add_argument("--write", action="store_true", help="put the tables into tests/bench/README.md")
    given = parser.parse_args(arguments)
    if given.kind:
        _serve(given.kind, given.port, given.base)
        return 0
    for name in [name for name in os.environ if name.startswith("TOOLCALL_")]:
        del os.environ[name]
    with _upstream() as base:
        tables = [_chunk_table(base, smoke=given.smoke), _crowd_table(base, smoke=given.smoke)]
    text = report.figures(tables)
    print(text if not given.smoke else "It works. No figures: this was a smoke run.")
    if given.write:
        report.write(text, begin=BEGIN, end=END)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
