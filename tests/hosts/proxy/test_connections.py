"""Silent clients of `serve` do not stay, and do not keep others out."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from typing import Any

import pytest
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

from toolcall_middleware.hosts.proxy.app import once_a_second
from toolcall_middleware.hosts.proxy.server import Bounded, BoundedProtocol, most_connections

from .proxy_servers import PATIENCE, Uvicorn, proxy_around, serving
from .routing import http

REQUEST = b"GET /healthz HTTP/1.1\r\nhost: x\r\n\r\n"


async def inner(_scope: Scope, receive: Receive, send: Send) -> None:
    """Begins an answer and waits for the client to go."""
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"begun", "more_body": True})
    while (await receive())["type"] != "http.disconnect":
        pass


class Quick(BoundedProtocol):
    head_seconds = 0.3
    most = 8


class QuickOnH11(Bounded, H11Protocol):  # type: ignore[misc]
    head_seconds = 0.3
    most = 8


@pytest.fixture(params=[Quick, QuickOnH11], ids=["httptools", "h11"])
def protocol(request: pytest.FixtureRequest) -> Any:
    return request.param


async def opened(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    host, port = address.removeprefix("http://").split(":")
    return await asyncio.open_connection(host, int(port))


async def health(address: str) -> bytes:
    reader, writer = await opened(address)
    writer.write(REQUEST)
    answer = await asyncio.wait_for(reader.readuntil(b'{"status":"ok"}'), PATIENCE)
    writer.close()
    return answer


@pytest.mark.parametrize("begin", [b"", b"GET / HT", b"GET / HTTP/1.1\r\nhost: x\r\nx-a: b\r\n"])
async def test_a_connection_without_a_whole_head_is_closed(begin: bytes, protocol: Any) -> None:
    async with serving(http(proxy_around(inner)), http=protocol) as address:
        reader, writer = await opened(address)
        writer.write(begin)
        started = time.monotonic()
        for _ in range(3):
            await asyncio.sleep(0.05)
            if begin:
                writer.write(b"x")  # a byte now and then buys no time
        # Closed or reset: in any case at an end, if not before as no HTTP.
        with contextlib.suppress(ConnectionError):
            said = await asyncio.wait_for(reader.read(), PATIENCE)
            assert not said or said.startswith(b"HTTP/1.1 400 ")
        assert time.monotonic() - started < 2
        writer.close()


async def test_an_answer_under_way_outlives_the_time_for_a_head(protocol: Any) -> None:
    async with serving(http(proxy_around(inner)), http=protocol) as address:
        reader, writer = await opened(address)
        writer.write(b"GET /x HTTP/1.1\r\nhost: x\r\n\r\n")
        await asyncio.wait_for(reader.readuntil(b"begun"), PATIENCE)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), 0.8)
        assert not reader.at_eof()
        writer.close()


async def test_silent_connections_make_room_for_others(protocol: Any) -> None:
    class Slow(protocol):  # type: ignore[misc]
        head_seconds = 60.0

    server = Uvicorn(http(proxy_around(inner)), http=Slow)
    address = await server.begin()
    try:
        silent = [await opened(address) for _ in range(40)]
        assert b"200 OK" in await health(address)
        assert len(server.server_state.connections) <= 9
        for _, writer in silent:
            writer.close()
    finally:
        await server.shutdown()


def test_the_bound_leaves_files_for_the_upstreams() -> None:
    import resource

    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    assert 8 <= most_connections() <= max(8, (files if files > 0 else 65_536) // 2)


def test_words_about_a_full_table_of_files_come_once_a_second() -> None:
    record = logging.LogRecord("asyncio", logging.ERROR, "", 0, "socket.accept() out of system resource", None, None)
    other = logging.LogRecord("asyncio", logging.ERROR, "", 0, "something else", None, None)
    assert [once_a_second(record) for _ in range(3)] == [True, False, False]
    assert all(once_a_second(other) for _ in range(3))
