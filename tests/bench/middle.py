"""Servers of benchmarks, each a process of its own: what is at the ends and in the middle of `tests.bench.proxy`.

`python -m tests.bench.middle KIND PORT [BASE]` serves the upstream, one of the relays, or the answer in a file.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import resource
import shutil
import socket
import socketserver
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import uvicorn
from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.helpers.processes import free_port

HOST = "127.0.0.1"
_ROOT = Path(__file__).resolve().parents[2]
NO_ACCESS_LOG = ("--set", "access_log=off")  # as nginx and the relays are started
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
_HEAD = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
_BEGIN, _END = '```json\n{"tool_calls": [{"name": "add", "arguments": {"text": "', '"}}]}\n```'
_NGINX = """
daemon off; master_process off; pid {folder}/pid; error_log {folder}/error.log; events {{ worker_connections 4096; }}
http {{
  access_log off; client_body_temp_path {folder}/b; proxy_temp_path {folder}/p; fastcgi_temp_path {folder}/f;
  uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream up {{ server {upstream}; keepalive 100; }}
  server {{
    listen {host}:{port};
    location / {{
      proxy_pass http://up; proxy_http_version 1.1; proxy_set_header Connection ""; proxy_buffering off;
    }}
  }}
}}
"""


# -- apps


def upstream() -> ASGIApp:
    """Streams as many events as `max_tokens`, one each `temperature` seconds; the model `calls` writes one call. Whole
    answers have 1 KB.
    """

    async def events(texts: list[str], pause: float) -> AsyncIterator[bytes]:
        clock = asyncio.get_running_loop()
        begin = clock.time()
        for at, text in enumerate(texts):
            delta = {"role": "assistant", "content": text} if at == 0 else {"content": text}
            choice = {"index": 0, "delta": delta, "finish_reason": "stop" if at == len(texts) - 1 else None}
            yield b"data: " + json.dumps({**_HEAD, "choices": [choice]}).encode() + b"\n\n"
            await asyncio.sleep(max(0.0, begin + (at + 1) * pause - clock.time()))
        yield b"data: [DONE]\n\n"

    async def chat(request: Request) -> Response:
        body = await request.json()
        if not body.get("stream"):
            message = {"role": "assistant", "content": "word " * 170}
            choice = {"index": 0, "message": message, "finish_reason": "stop"}
            return JSONResponse({**_HEAD, "object": "chat.completion", "choices": [choice]})
        words = [f" word{at}" for at in range(1, body["max_tokens"] + 1)]
        texts = [_BEGIN, *words, _END] if body["model"] == "calls" else ["", *words]
        return StreamingResponse(events(texts, body["temperature"]), media_type="text/event-stream")

    return Starlette(routes=[Route("/v1/chat/completions", chat, methods=["POST"])])


def httpx_relay(base: str) -> ASGIApp:
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


def aiohttp_relay(base: str) -> ASGIApp:
    """The least with aiohttp's client, without a framework."""
    import aiohttp

    session: Any = None

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal session
        if scope["type"] != "http":
            return
        if session is None:
            session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0), auto_decompress=False)
        body, more = b"", True
        while more:
            message = await receive()
            body, more = body + message.get("body", b""), message.get("more_body", False)
        kind = {"content-type": "application/json"}
        async with session.post(base + scope["path"], data=body, headers=kind) as answer:
            headers = [(b"content-type", answer.headers["content-type"].encode())]
            await send({"type": "http.response.start", "status": answer.status, "headers": headers})
            async for part in answer.content.iter_any():
                await send({"type": "http.response.body", "body": part, "more_body": True})
        await send({"type": "http.response.body", "body": b""})

    return app


def bare() -> ASGIApp:
    """Says one event of a stream and no more: what uvicorn holds for the client's connection alone."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        await receive()
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"data: {}\n\n", "more_body": True})
        while (await receive())["type"] != "http.disconnect":  # a client says nothing else
            pass

    return app


class _Canned(socketserver.StreamRequestHandler):
    """Answers each request with the bytes of one file, from the status line on, read anew each time; then it closes."""

    answer: Path

    def handle(self) -> None:
        rest = 0
        chunked = False
        while (line := self.rfile.readline(65536)) not in {b"\r\n", b""}:
            name, _, value = line.lower().partition(b":")
            if name == b"content-length":
                rest = int(value)
            chunked = chunked or (name == b"transfer-encoding" and b"chunked" in value)
        while chunked and (size := int(self.rfile.readline(65536).partition(b";")[0] or b"0", 16)):
            self.rfile.read(size + 2)
        self.rfile.read(rest)
        self.wfile.write(self.answer.read_bytes())


class _CannedServer(socketserver.ThreadingTCPServer):
    allow_reuse_address = True
    daemon_threads = True


def canned(port: int, answer: str) -> None:
    """Serve the file `answer`; a client may write another one before it asks again."""
    _Canned.answer = Path(answer)
    with _CannedServer((HOST, port), _Canned) as server:
        server.serve_forever()


# -- a client: raw sockets, as the work of a library would be measured, too

_ASKING = (
    b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
)
LAST = b"\r\n0\r\n\r\n"  # what ends a chunked body


@dataclass(frozen=True, slots=True)
class Streamed:
    """An answer as it was received. first: seconds to the first event. pause: the longest between two reads."""

    answer: bytes
    first: float
    pause: float

    @property
    def messages(self) -> int:
        """The chunks of its body, which the server wrote one by one; 0 where the stream is not whole."""
        head, _, body = self.answer.partition(b"\r\n\r\n")
        whole = head.startswith(b"HTTP/1.1 200") and b"data: [DONE]" in body and body.endswith(LAST)
        return body.count(b"\r\n") // 2 if whole else 0


def many_files() -> None:
    """Let this process, and those that it starts, have a connection for each stream."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192) if hard > 0 else 8192), hard))


def ask(writer: asyncio.StreamWriter, body: dict[str, Any]) -> None:
    """Ask for this chat completion."""
    data = json.dumps(body).encode()
    writer.write(_ASKING % len(data) + data)


async def connect(port: int, body: dict[str, Any]) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection on which this chat completion has been asked for."""
    reader, writer = await asyncio.open_connection(HOST, port)
    ask(writer, body)
    return reader, writer


async def stream(port: int, body: dict[str, Any]) -> Streamed:
    """The answer, on a connection of its own."""
    begin = last = time.perf_counter()
    answer, first, pause = b"", 0.0, 0.0
    try:
        reader, writer = await connect(port, body)
        while not answer.endswith(LAST) and (more := await reader.read(65536)):
            answer += more
            now = time.perf_counter()
            pause, last = max(pause, now - last), now
            first = first or (now - begin if b"data: " in answer else 0.0)
        writer.close()
    except OSError:
        return Streamed(b"", first, pause)
    return Streamed(answer, first, pause)


# -- processes


@dataclass
class Server:
    """A process that serves on `port`."""

    process: subprocess.Popen[bytes]
    port: int

    def memory(self) -> int:
        """KiB that it and its workers have for themselves."""
        files = [Path(f"/proc/{pid}/smaps_rollup") for pid in self._pids()]
        lines = [line.split() for file in files for line in file.read_text("ascii", "replace").splitlines()]
        return sum(int(words[1]) for words in lines if words[0] == "Private_Dirty:")

    def cpu(self) -> float:
        """Seconds that it and its workers have worked so far, all threads."""
        files = [file for pid in self._pids() for file in Path(f"/proc/{pid}/task").glob("*/schedstat")]
        return sum(int(file.read_text("ascii").split()[0]) for file in files) / 1e9

    def _pids(self) -> list[int]:
        """The process, and those that it has started."""
        parents = {}
        for file in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):  # it has ended
                # The name, in brackets, may hold anything; the parent is the second field behind it.
                parents[int(file.parent.name)] = int(file.read_text("utf-8", "replace").rpartition(")")[2].split()[1])
        return [self.process.pid, *(pid for pid, parent in parents.items() if parent == self.process.pid)]


@contextlib.contextmanager
def running(command: list[str], port: int) -> Iterator[Server]:
    """Runs a server until the block ends. Settings and HTTP proxies of this shell do not reach it."""
    dropped = [name for name in os.environ if name.startswith("TOOLCALL_") or name.lower().endswith("_proxy")]
    environment = {name: value for name, value in os.environ.items() if name not in dropped}
    process = subprocess.Popen(command, cwd=_ROOT, env=environment, stdout=subprocess.DEVNULL)
    try:
        deadline = time.monotonic() + 90  # LiteLLM takes twenty seconds
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


def server(*command: str) -> contextlib.AbstractContextManager[Server]:
    """A module of Python that serves on the port in its arguments, where `{port}` is."""
    port = free_port()
    return running([sys.executable, "-m", *(word.format(port=port) for word in command)], port)


@contextlib.contextmanager
def an_upstream() -> Iterator[str]:
    """Gives its base address."""
    with server("tests.bench.middle", "upstream", "{port}") as process:
        yield f"http://{HOST}:{process.port}"


def relay(kind: str, base: str) -> contextlib.AbstractContextManager[Server]:
    """`httpx` or `aiohttp`; or `bare`, which asks nobody."""
    return server("tests.bench.middle", kind, "{port}", base)


@contextlib.contextmanager
def configured(program: str | None, template: str, *options: str, **fields: str) -> Iterator[Server | None]:
    """Runs a program with a configuration file of these fields; None where there is no program.

    options: they may hold `{config}`, `{folder}` and `{port}`.
    """
    if program is None:
        yield None
        return
    with tempfile.TemporaryDirectory() as folder:
        port = free_port()
        config = Path(folder) / "config"
        config.write_text(template.format(folder=folder, host=HOST, port=port, **fields), "utf-8")
        given = [option.format(config=config, folder=folder, port=port) for option in options]
        with running([program, *given], port) as server:
            yield server


def nginx(base: str) -> contextlib.AbstractContextManager[Server | None]:
    """Debian's, one process; None where it is not installed."""
    upstream = base.removeprefix("http://")
    return configured(program("nginx"), _NGINX, "-p", "{folder}", "-c", "{config}", upstream=upstream)


def program(name: str) -> str | None:
    """The path of one of Debian's programs; None where it is not installed."""
    return shutil.which(name) or shutil.which(f"/usr/sbin/{name}")


_LITELLM = """
model_list:
- {{model_name: "*", litellm_params: {{model: "openai/*", api_base: "{upstream}/v1", api_key: unused}}}}
general_settings: {{dangerously_permit_weak_or_unset_master_key: true}}
"""


def litellm(base: str) -> contextlib.AbstractContextManager[Server | None]:
    """LiteLLM's proxy, one process, as `pip install 'litellm[proxy]'` sets it up; None where it is not on PATH."""
    options = ("--config", "{config}", "--host", HOST, "--port", "{port}")
    return configured(shutil.which("litellm"), _LITELLM, *options, upstream=base)


def router(base: str, folder: str) -> contextlib.AbstractContextManager[Server]:
    """The proxy with a file of upstreams, one of which knows the model by another name."""
    path = Path(folder) / "upstreams.toml"
    path.write_text(f'[[upstream]]\nurl = "{base}/v1"\nrename = {{ client = "m" }}\n', "utf-8")
    return serve("--upstreams", str(path), "--log-level", "warning", *NO_ACCESS_LOG)


def proxy(base: str, *options: str) -> contextlib.AbstractContextManager[Server]:
    return serve("--upstream", f"{base}/v1", "--log-level", "warning", *options)


def serve(*options: str) -> contextlib.AbstractContextManager[Server]:
    """The command `serve`."""
    return server("toolcall_middleware", "serve", "--port", "{port}", *options)


def main(kind: str, port: int, base: str = "") -> None:
    if kind == "canned":
        return canned(port, base)
    apps = {"upstream": lambda _: upstream(), "bare": lambda _: bare(), "httpx": httpx_relay, "aiohttp": aiohttp_relay}
    app = apps[kind](base)
    return uvicorn.run(app, host=HOST, port=port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:])
