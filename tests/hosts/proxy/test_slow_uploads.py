"""Clients that send their request's body slowly or not at all, over real sockets: 408, and nothing stays behind."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from tests.helpers.asgi_client import CALL, ask, middleware
from tests.helpers.fakes import TextBackend
from tests.helpers.stream_rules import check_error
from toolcall_middleware import Settings, ToolCallError
from toolcall_middleware.hosts.http.bodies import Upload
from toolcall_middleware.hosts.proxy.router import Router
from toolcall_middleware.hosts.proxy.upstream.providers import upstream_app

from .proxy_servers import PATIENCE, raw_upstream, serving

LIMIT = 0.25
CHAT = "/v1/chat/completions"
HTTPS = ["h11", *(["httptools"] if importlib.util.find_spec("httptools") else [])]

Speak = Callable[[asyncio.StreamWriter], Awaitable[None]]


async def post(address: str, speak: Speak, *, path: str = CHAT, length: int | None = 4096) -> tuple[float, bytes]:
    """(seconds until the server closed, all that it said) after a request's head and whatever `speak` writes."""
    framing = b"transfer-encoding: chunked" if length is None else b"content-length: %d" % length
    reader, writer = await asyncio.open_connection("127.0.0.1", int(address.rpartition(":")[2]))
    begin = asyncio.get_running_loop().time()
    writer.write(b"POST %s HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\n" % path.encode() + framing)
    writer.write(b"\r\n\r\n")
    speaking = asyncio.ensure_future(speak(writer))
    said = b""
    async with asyncio.timeout(PATIENCE):
        # Who still writes is told by a reset.
        with contextlib.suppress(ConnectionResetError):
            while data := await reader.read(65536):
                said += data
    speaking.cancel()
    await asyncio.gather(speaking, return_exceptions=True)
    writer.close()
    return asyncio.get_running_loop().time() - begin, said


async def nothing(_writer: asyncio.StreamWriter) -> None: ...


async def a_beginning(writer: asyncio.StreamWriter) -> None:
    writer.write(b'{"model": "m",')


async def a_chunk(writer: asyncio.StreamWriter) -> None:
    writer.write(b'9\r\n{"model":\r\n')


async def byte_by_byte(writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while True:
            writer.write(b"{")
            await writer.drain()
            await asyncio.sleep(LIMIT / 5)


def check(took: float, said: bytes, *, longest: float = 8 * LIMIT) -> None:
    head, _, body = said.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 408 ")
    assert b"\r\nconnection: close" in head.lower()
    error = check_error(json.loads(body))
    assert (error["code"], error["type"]) == ("request_timeout", "invalid_request_error")
    assert f"upload_timeout is {LIMIT:g} s" in error["message"]
    assert LIMIT * 0.9 <= took < longest


class Counted:
    """An app around another one that knows how many requests run."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.running = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.running += scope["type"] == "http"
        try:
            await self.app(scope, receive, send)
        finally:
            self.running -= scope["type"] == "http"


@pytest.mark.parametrize("http", HTTPS)
@pytest.mark.parametrize(
    ("speak", "length"), [(nothing, 10), (a_beginning, 4096), (a_chunk, None), (byte_by_byte, 4096)]
)
async def test_a_slow_upload_to_the_middleware_in_an_app_is_a_408(http: str, speak: Speak, length: int | None) -> None:
    backend = TextBackend(["unasked"])
    app = Counted(middleware(backend, upload_timeout=LIMIT))
    async with serving(app, http=http) as address:
        check(*await post(address, speak, length=length))
        assert app.running == 0
    assert not backend.seen


class Upstream:
    """A TCP upstream that only counts who is connected."""

    def __init__(self) -> None:
        self.came = 0
        self.left = asyncio.Event()
        self.left.set()

    async def talk(self, reader: asyncio.StreamReader, _writer: asyncio.StreamWriter) -> None:
        self.came += 1
        self.left.clear()
        await reader.read(-1)
        self.left.set()


def proxies(url: str, folder: Path) -> dict[str, ASGIApp]:
    """The ways through the proxy on which a body is read."""
    settings = Settings(upload_timeout=LIMIT, upstream_url=url)
    file = folder / "upstreams.toml"
    file.write_text(f'[[upstream]]\nname = "a"\nmodels = ["*"]\nurl = "{url}"\n')
    router = Router(Settings(upload_timeout=LIMIT, upstreams_file=str(file)))

    def app(api: str = "openai", **more: str) -> ASGIApp:
        return upstream_app(
            settings.replace(upstream_api=api, upstream_key="k", upstream_timeout=PATIENCE, **more),
            forward_authorization=True,
        )

    return {
        "as it comes": app(),
        "middleware": middleware(app(), upload_timeout=LIMIT),
        "router": router,
        "anthropic": app("anthropic"),
        "ids": app(upstream_ids="mistral"),
    }


@pytest.mark.parametrize("speak", [nothing, a_beginning, byte_by_byte])
@pytest.mark.parametrize("way", ["as it comes", "middleware", "router", "anthropic", "ids"])
async def test_a_slow_upload_to_the_proxy_is_a_408_and_leaves_no_connection(
    way: str, speak: Speak, tmp_path: Path
) -> None:
    upstream = Upstream()
    async with raw_upstream(upstream.talk) as url:
        app = Counted(proxies(url, tmp_path)[way])
        async with serving(app) as address:
            check(*await post(address, speak))
            assert app.running == 0
            async with asyncio.timeout(PATIENCE):
                await upstream.left.wait()
            assert upstream.came <= (way == "as it comes")


async def test_a_slow_but_steady_upload_may_take_longer_than_the_timeout() -> None:
    body = ask(stream=False, padding="x" * 6000)

    async def steadily(writer: asyncio.StreamWriter) -> None:
        for at in range(0, len(body), 600):
            await asyncio.sleep(LIMIT / 5)
            writer.write(body[at : at + 600])
        writer.write(b"GET / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")

    async with serving(middleware(TextBackend([f"```json\n{CALL}\n```"]), upload_timeout=LIMIT)) as address:
        took, said = await post(address, steadily, length=len(body))
    assert took > 2 * LIMIT
    assert said.startswith(b"HTTP/1.1 200 ")
    assert b'"tool_calls"' in said


async def test_only_the_time_in_which_the_client_is_waited_for_counts() -> None:
    upload = Upload(0.1)

    async def receive() -> Message:
        return {"type": "http.request", "body": b"x", "more_body": True}

    for _ in range(4):
        await upload.next_piece(receive)
        await asyncio.sleep(0.05)  # the upstream takes the piece


@pytest.mark.parametrize("seconds", [None, 5.0])
async def test_an_exception_of_the_server_and_a_cancellation_come_out_as_they_are(seconds: float | None) -> None:
    async def fails() -> Message:
        raise TimeoutError("the server's own")

    async def waits() -> Message:
        await asyncio.Event().wait()
        raise AssertionError

    with pytest.raises(TimeoutError, match="the server's own"):
        await Upload(seconds).next_piece(fails)
    task = asyncio.ensure_future(Upload(seconds).next_piece(waits))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_none_is_no_limit() -> None:
    async def late() -> Message:
        await asyncio.sleep(0.05)
        return {"type": "http.request"}

    assert await Upload(None).next_piece(late) == {"type": "http.request"}
    with pytest.raises(ToolCallError, match="upload_timeout"):
        await Upload(0.01).next_piece(late)


async def test_a_quick_beginning_buys_no_silence() -> None:
    given = 0

    async def receive() -> Message:
        nonlocal given
        given += 1
        if given == 1:
            return {"type": "http.request", "body": b"x" * (1 << 20), "more_body": True}
        await asyncio.sleep(0.15)
        return {"type": "http.request", "body": b"x", "more_body": True}

    upload = Upload(0.4)
    await upload.next_piece(receive)

    async def rest() -> None:
        for _ in range(20):
            await upload.next_piece(receive)

    with pytest.raises(ToolCallError, match="upload_timeout") as refused:
        await rest()
    assert refused.value.code == "request_timeout"
    assert given < 8
