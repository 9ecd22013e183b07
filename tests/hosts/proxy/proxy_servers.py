"""Upstreams and clients for the proxy's tests: real sockets on loopback, and an ASGI driver without any."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.helpers.asgi_client import Client
from toolcall_middleware import Settings
from toolcall_middleware.hosts.http.client_library import httpx
from toolcall_middleware.hosts.http.head import is_chat
from toolcall_middleware.hosts.proxy.app import Proxy
from toolcall_middleware.hosts.proxy.upstream.forwarder import Forwarder
from toolcall_middleware.hosts.proxy.upstream.upstream import Mask, MaskedAnswer

# Nothing in these tests takes this long; it only turns a hang into a failure.
PATIENCE = 5.0

Conversation = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@contextlib.asynccontextmanager
async def raw_upstream(talk: Conversation) -> AsyncIterator[str]:
    """A TCP server whose every connection is `talk`; gives its base address."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await talk(reader, writer)
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()


async def read_request(reader: asyncio.StreamReader) -> bytes:
    """The head of a request; its body too, when its length is told."""
    head = await reader.readuntil(b"\r\n\r\n")
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.lower() == b"content-length":
            return head + await reader.readexactly(int(value))
    return head


class Says:
    """An upstream's conversation: reads a request, writes `answer` and closes.

    `stalls` makes it wait until its client has gone, `again` read and answer the next request of the connection.
    asked: the requests. opened: how many of them each connection had. gone: set when a client has gone.
    """

    def __init__(self, *answer: bytes, stalls: bool = False, again: bool = False) -> None:
        self.answer = b"".join(answer)
        self.asked: list[bytes] = []
        self.opened: list[int] = []
        self.gone = asyncio.Event()
        self._stalls = stalls
        self._again = again

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(self.opened)
        self.opened.append(0)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                self.asked.append(await read_request(reader))
                self.opened[number] += 1
                writer.write(self.answer)
                await writer.drain()
                if not self._again:
                    break
        if self._stalls:
            assert await reader.read() == b""
            self.gone.set()


says = Says


def chunk(data: bytes) -> bytes:
    """One piece of a chunked body."""
    return b"%x\r\n%s\r\n" % (len(data), data)


def masked(app: ASGIApp, *secrets: str) -> ASGIApp:
    """`app` as an upstream: its answers are masked, and errors of chat completions get OpenAI's envelope."""
    mask = Mask(secrets)

    async def upstream(scope: Scope, receive: Receive, send: Send) -> None:
        answer = MaskedAnswer(send, mask, chat=is_chat(scope, ("/chat/completions",)))
        await app(scope, receive, answer.send)

    return upstream


class Uvicorn(uvicorn.Server):
    """A server in the test's own loop. `stop` is what a signal does."""

    def __init__(self, app: ASGIApp, **options: Any) -> None:
        super().__init__(
            uvicorn.Config(app, host="127.0.0.1", port=0, log_config=None, lifespan="on", ws="none", **options)
        )

    async def begin(self) -> str:
        self.config.load()
        self.lifespan = self.config.lifespan_class(self.config)
        await self.startup()
        return f"http://127.0.0.1:{self.servers[0].sockets[0].getsockname()[1]}"


@contextlib.asynccontextmanager
async def serving(app: ASGIApp, **options: Any) -> AsyncIterator[str]:
    """`app` behind a real uvicorn; gives its base address."""
    server = Uvicorn(app, **options)
    address = await server.begin()
    try:
        yield address
    finally:
        await server.shutdown()


@contextlib.asynccontextmanager
async def proxying(upstream: str) -> AsyncIterator[httpx.AsyncClient]:
    """A client of a real proxy in front of `upstream`."""
    async with serving(forwarder(upstream)) as address, client_of(address) as client:
        yield client


def forwarder(
    url: str = "http://up.example",
    *,
    transport: httpx.AsyncBaseTransport | None = None,
    headers: Iterable[tuple[bytes, bytes]] = (),
    forward_authorization: bool = True,
    translated: bool = False,
    **settings: Any,
) -> Forwarder:
    """The app that is the upstream at `url`. It asks once, with a body of any size."""
    return Forwarder(
        url,
        Settings(**{"upstream_timeout": PATIENCE, "upstream_retries": 0, "max_request_bytes": None, **settings}),
        transport=transport,
        headers=headers,
        forward_authorization=forward_authorization,
        translated=translated,
    )


def proxy_around(app: ASGIApp, *, peek: bool = False, **settings: Any) -> Proxy:
    """A proxy whose upstream is `app`, which gets every path."""
    return Proxy(app, Settings(**{"forward_paths": "*", "access_log": "off", **settings}), peek=peek)


def client_of(address: str) -> httpx.AsyncClient:
    return httpx.AsyncClient(base_url=address, trust_env=False, timeout=PATIENCE)


@dataclass
class FakeTransport(httpx.AsyncBaseTransport):
    """An upstream without a socket: keeps what it is asked, answers with `answer`."""

    answer: Callable[[httpx.Request], httpx.Response] = lambda request: httpx.Response(200, content=b"ok")
    targets: list[bytes] = field(default_factory=list)
    headers: list[list[tuple[bytes, bytes]]] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    closed: bool = False

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.targets.append(request.url.raw_path)
        self.headers.append(request.headers.raw)
        assert isinstance(request.stream, httpx.AsyncByteStream)
        self.bodies.append(b"".join([part async for part in request.stream]))
        return self.answer(request)

    async def aclose(self) -> None:
        self.closed = True

    def sent(self, name: bytes) -> list[bytes]:
        """The values of a header of the last request."""
        return [value for key, value in self.headers[-1] if key == name]


class Answer(Client):
    """A request with a scope of its own, and what an app sent: `headers` are as they came."""

    def __init__(self, scope: Scope, *pieces: bytes) -> None:
        super().__init__(pieces or (b"",))
        self.scope = scope

    @property
    def headers(self) -> list[tuple[bytes, bytes]]:  # type: ignore[override]
        return list(self.got[0]["headers"])


def scope_of(
    path: str | bytes = b"/v1/models",
    *,
    method: str = "GET",
    headers: Iterable[tuple[bytes, bytes]] = (),
    query: bytes = b"",
    **more: Any,
) -> Scope:
    raw = path if isinstance(path, bytes) else path.encode()
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.3"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": raw.decode("latin-1"),
        "raw_path": raw,
        "query_string": query,
        "root_path": "",
        "headers": [(b"host", b"proxy.example:8080"), *headers],
        "client": ("192.0.2.7", 4711),
        "server": ("127.0.0.1", 8080),
        **more,
    }


async def ask(app: ASGIApp, scope: Scope, *pieces: bytes) -> Answer:
    """Drives `app` with a body in `pieces`; the client then waits."""
    answer = Answer(scope, *pieces)
    await answer.run_with_others(app)
    return answer
