"""Our own client by itself: its connections, its limits, and what it does with an upstream that answers early."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers.asgi_client import no_leaked_tasks
from tests.helpers.certificates import certificate_of, needs_openssl
from toolcall_middleware.hosts.http.client_library import httpx
from toolcall_middleware.hosts.proxy.upstream import http1
from toolcall_middleware.hosts.proxy.upstream.client import Progress, Question, Reply, tls_to
from toolcall_middleware.hosts.proxy.upstream.http1 import Connection, HttpAnswer, OriginClient, dial, head_of

from .proxy_servers import PATIENCE, chunk, raw_upstream, read_request, says

OK = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
NO = b"HTTP/1.1 413 No\r\ncontent-length: 2\r\n\r\nno"


@contextlib.asynccontextmanager
async def to(url: str, **options: Any) -> AsyncIterator[OriginClient]:
    origin = httpx.URL(url)
    client = OriginClient(
        origin, **{"connections": None, "idle": 10, "keepalive": 3.0, "tls": tls_to(origin), **options}
    )
    async with no_leaked_tasks(), asyncio.timeout(PATIENCE):
        yield client
        await client.aclose()


def request(
    method: str = "GET",
    *,
    body: bytes = b"",
    told: Progress | None = None,
    headers: list[tuple[bytes, bytes]] | None = None,
    **times: float,
) -> Question:
    lines = [(b"host", b"up"), *(headers or [])]
    if body:
        lines.append((b"content-length", b"%d" % len(body)))
    seconds = {"connect": 1.0, "read": 1.0, "write": 1.0, "pool": 1.0, **times}
    return Question(method, b"/", lines, body, seconds, told or Progress())


async def read(response: Reply) -> bytes:
    body = b"".join([part async for part in response.pieces])
    await response.close()
    return body


async def test_a_connection_serves_one_request_after_another_until_it_has_been_idle_for_long() -> None:
    upstream = says(OK, again=True)
    async with raw_upstream(upstream) as url, to(url, keepalive=0.2) as client:
        for _ in range(3):
            assert await read(await client.ask(request())) == b"ok"
        assert upstream.opened == [3]
        await asyncio.sleep(0.5)
        told = Progress()
        assert await read(await client.ask(request(told=told))) == b"ok"
    assert (upstream.opened, told.reused, told.sent) == ([3, 1], False, True)


async def test_no_more_connections_are_kept_than_may_be() -> None:
    upstream = says(OK, again=True)
    async with raw_upstream(upstream) as url, to(url, idle=1) as client:
        both = [await client.ask(request()) for _ in range(2)]
        assert [await read(answer) for answer in both] == [b"ok", b"ok"]
        again = [await client.ask(request()) for _ in range(2)]
        assert [await read(answer) for answer in again] == [b"ok", b"ok"]
    assert sorted(upstream.opened) == [1, 1, 2]


async def test_who_waits_for_a_connection_gets_the_next_free_one_or_is_told() -> None:
    upstream = says(OK, again=True)
    async with raw_upstream(upstream) as url, to(url, connections=1) as client:
        first = await client.ask(request())
        with pytest.raises(httpx.PoolTimeout):
            await client.ask(request(pool=0.05))
        second = asyncio.ensure_future(client.ask(request()))
        await asyncio.sleep(0.05)
        assert not second.done()
        assert await read(first) == b"ok"
        assert await read(await second) == b"ok"
    assert upstream.opened == [2]


async def test_an_answer_that_nobody_reads_to_its_end_closes_its_connection_and_frees_its_place() -> None:
    upstream = says(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", chunk(b"x"), stalls=True)
    async with raw_upstream(upstream) as url, to(url, connections=1) as client:
        for _ in range(2):
            upstream.gone.clear()
            response = await client.ask(request())
            assert await anext(response.pieces) == b"x"
            await response.close()
            await response.close()  # twice is once
            await upstream.gone.wait()


async def test_an_upstream_waits_while_nobody_reads_what_it_sends() -> None:
    written = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal written
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 50000000\r\n\r\n")
        for _ in range(500):
            writer.write(b"x" * 100_000)
            await writer.drain()
            written += 100_000

    async with raw_upstream(talk) as url, to(url) as client:
        response = await client.ask(request())
        await asyncio.sleep(0.3)
        # The system's own buffers hold some millions.
        assert written < 20_000_000
        most, size = 0, 0
        async for part in response.pieces:
            most, size = max(most, len(part)), size + len(part)
        await response.close()
        assert (size, most <= 128 * 1024) == (50_000_000, True)


async def test_an_upstream_that_takes_nothing_is_given_up() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        await done.wait()

    done = asyncio.Event()
    async with raw_upstream(talk) as url, to(url) as client:
        with pytest.raises(httpx.WriteTimeout):
            await client.ask(request("POST", body=b"x" * 30_000_000, write=0.2))
        done.set()


@pytest.mark.parametrize("when", ["before the answer", "in the answer"])
async def test_silence_is_a_read_timeout_and_frees_the_place(when: str) -> None:
    begun = OK[:-1] if when == "in the answer" else b""
    async with raw_upstream(says(begun, stalls=True)) as url, to(url, connections=1) as client:
        for _ in range(2):
            with pytest.raises(httpx.ReadTimeout):
                await read_all(client, request(read=0.1))


@pytest.mark.parametrize("interim", [b"", b"HTTP/1.1 102 Processing\r\n\r\n"])
async def test_a_head_in_single_bytes_has_no_more_time_than_silence(interim: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        with contextlib.suppress(ConnectionError):
            for byte in (interim + OK) * 20:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(0.02)

    async with raw_upstream(talk) as url, to(url, connections=1) as client:
        for _ in range(2):
            with pytest.raises(httpx.ReadTimeout):
                await client.ask(request(read=0.2))
        await asyncio.sleep(0.1)  # the upstream learns of it


async def test_an_interim_answer_gives_the_answer_its_time_anew() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        for _ in range(3):
            await asyncio.sleep(0.2)
            writer.write(b"HTTP/1.1 102 Processing\r\n\r\n")
        await asyncio.sleep(0.2)
        writer.write(OK)

    async with raw_upstream(talk) as url, to(url) as client:
        assert await read_all(client, request(read=0.5)) == b"ok"


async def test_a_whole_answer_ends_an_upload_that_is_not_taken() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(OK)
        await done.wait()

    done = asyncio.Event()
    async with raw_upstream(talk) as url, to(url, connections=1) as client:
        told = Progress()
        response = await client.ask(request("POST", body=b"x" * 30_000_000, told=told))
        assert (await read(response), told.sent) == (b"ok", False)
        done.set()


async def test_what_an_upstream_never_takes_keeps_no_connection_open() -> None:
    """It answers, and reads nothing more: closing would wait for the bytes that are left, for ever."""

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        reader._transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(NO)
        await done.wait()

    done = asyncio.Event()
    async with raw_upstream(talk) as url, to(url, idle=0) as client:
        seen = []
        for size in range(1 << 20, 8 << 20, 1 << 19):  # some fit into the system's buffers, some nearly
            response = await client.ask(request("POST", body=b"x" * size))
            connection = response.pieces
            assert isinstance(connection, Connection)
            seen.append(connection)
            # As where the system has taken all but little.
            connection._write_paused = False
            assert await read(response) == b"no"
        await asyncio.sleep(0.1)
        assert [connection.lost for connection in seen] == [True] * len(seen)
        done.set()


async def test_who_answers_before_the_request_has_left_is_not_asked_again_on_that_connection() -> None:
    opened: list[int] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        opened.append(1)
        await reader.readuntil(b"\r\n\r\n")
        writer.write(OK[:-2])
        await reader.readexactly(len(body))
        writer.write(OK[-2:])
        await reader.read()

    body = b"x" * 30_000_000
    async with raw_upstream(talk) as url, to(url) as client:
        for _ in range(2):
            assert await read_all(client, request("POST", body=body)) == b"ok"
    assert opened == [1, 1]


async def read_all(client: OriginClient, asked: Question) -> bytes:
    response = await client.ask(asked)
    try:
        return b"".join([part async for part in response.pieces])
    finally:
        await response.close()


async def test_cancelled_at_any_await_it_leaves_nothing_open() -> None:
    upstream = says(OK, again=True)
    async with raw_upstream(upstream) as url, to(url, connections=1) as client:
        for steps in range(40):
            task = asyncio.ensure_future(read_all(client, request("GET", body=b"ab" if steps % 2 else b"")))
            for _ in range(steps // 2):
                await asyncio.sleep(0)
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
            assert not client._open
        # The one place is free.
        assert await read_all(client, request()) == b"ok"


async def test_what_comes_on_an_idle_connection_closes_it() -> None:
    connections: list[asyncio.StreamWriter] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connections.append(writer)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await read_request(reader)
                writer.write(OK)

    async with raw_upstream(talk) as url, to(url) as client:
        assert await read_all(client, request()) == b"ok"
        connections[0].write(OK)
        await asyncio.sleep(0.05)
        assert await read_all(client, request()) == b"ok"
        # Also where the event loop has not read it yet.
        connections[1].write(b"x")
        assert await read_all(client, request()) == b"ok"
    assert len(connections) == 3


@pytest.mark.parametrize(("method", "headers"), [("G ET", []), ("GET", [(b"x", b"a\r\nb: c")])])
async def test_what_is_no_http_is_not_sent(method: str, headers: list[tuple[bytes, bytes]]) -> None:
    async with to("http://127.0.0.1:9") as client:
        with pytest.raises(httpx.LocalProtocolError) as raised:
            await client.ask(request(method, headers=headers))
    assert "b: c" not in str(raised.value)


# -- TLS


@pytest.fixture
def certificate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ssl.SSLContext:
    """What a server shows as `localhost`; clients of this test trust it."""
    shown, context = certificate_of("localhost", tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(shown))
    return context


@needs_openssl
async def test_tls_is_checked_and_its_connections_are_kept(certificate: ssl.SSLContext) -> None:
    upstream = says(OK, again=True)
    server = await asyncio.start_server(upstream, "127.0.0.1", 0, ssl=certificate)
    port = server.sockets[0].getsockname()[1]
    try:
        async with to(f"https://localhost:{port}") as client:
            for _ in range(2):
                assert await read_all(client, request()) == b"ok"
        assert upstream.opened == [2]
        async with to(f"https://127.0.0.1:{port}") as client:
            with pytest.raises(httpx.ConnectError, match="certificate is not valid"):
                await read_all(client, request())
    finally:
        server.close()


# -- dialling


@pytest.fixture
def resolves(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    def set_to(*addresses: str) -> None:
        async def found(_host: str, _port: int) -> list[str]:
            return list(addresses)

        monkeypatch.setattr(http1, "_addresses", found)

    return set_to


async def test_the_next_address_is_tried_where_one_refuses_or_says_nothing(
    resolves: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream = says(OK, again=True)
    real = http1._connect

    async def connect(make: Any, address: str, *rest: Any) -> Any:
        if address == "192.0.2.1":
            await asyncio.Event().wait()
        return await real(make, address, *rest)

    monkeypatch.setattr(http1, "_connect", connect)
    async with raw_upstream(upstream) as url:
        port = httpx.URL(url).port or 0
        for first in ("::1", "192.0.2.1"):
            resolves(first, "127.0.0.1")
            async with no_leaked_tasks(), to(url) as client:
                assert await read_all(client, request()) == b"ok"
        resolves("127.0.0.1", "127.0.0.1")
        async with to(url) as client:
            assert await read_all(client, request()) == b"ok"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        resolves("127.0.0.1", "::1")
        with pytest.raises(ConnectionRefusedError):
            await dial(asyncio.Protocol, "up.example", port, None)


async def test_an_address_that_refuses_leaves_nothing_for_the_collector(resolves: Callable[..., None]) -> None:
    """An error that knows a frame that knows the error would stay until the collector runs, once a request."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        resolves("127.0.0.1")
        gc.collect()  # of what other tests left
        gc.disable()
        try:
            for _ in range(3):
                with contextlib.suppress(ConnectionRefusedError):
                    await dial(asyncio.Protocol, "up.example", port, None)
            await asyncio.sleep(0)  # the event loop lets go of the last one
            left = [each for each in gc.get_objects() if isinstance(each, ConnectionRefusedError)]
        finally:
            gc.enable()
    assert left == []


async def test_a_name_is_looked_up_and_kinds_of_addresses_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    v6 = [(socket.AF_INET6, 1, 6, "", (f"2001:db8::{at}", 80, 0, 0)) for at in range(2)]
    v4 = [(socket.AF_INET, 1, 6, "", ("192.0.2.1", 80))]

    async def found(*_: object, **__: object) -> Any:
        return [*v6, *v4]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)
    assert await http1._addresses("up.example", 80) == ["2001:db8::0", "192.0.2.1", "2001:db8::1"]
    assert await http1._addresses("::1", 80) == ["::1"]


STREAM = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\nkeep-alive: timeout=5\r\n\r\n2\r\nok\r\n0\r\n\r\n"


async def test_a_server_that_closes_behind_a_stream_without_a_word_loses_no_request() -> None:
    """As llama.cpp's server does, some moments after the last chunk; what follows a whole answer goes on."""
    opened: list[int] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(opened)
        opened.append(0)
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                streams = b"x-stream" in await read_request(reader)
                opened[number] += 1
                writer.write(STREAM if streams else OK)
                if streams:
                    await asyncio.sleep(0.005)
                    writer.close()
                    return

    async with raw_upstream(talk) as url, to(url) as client:
        for _ in range(5):
            assert await read(await client.ask(request(headers=[(b"x-stream", b"1")]))) == b"ok"
            assert await read(await client.ask(request())) == b"ok"
            assert await read(await client.ask(request())) == b"ok"
        await asyncio.sleep(0.1)  # until the server's last task has ended
    # The whole answers' connection serves them all, and the next stream, whose end closes it.
    assert opened == [1, 3, 3, 3, 3, 2]


async def test_a_connection_is_used_again_some_moments_behind_a_stream() -> None:
    upstream = says(STREAM, again=True)
    async with raw_upstream(upstream) as url, to(url) as client:
        assert await read(await client.ask(request())) == b"ok"
        await asyncio.sleep(0.2)
        assert await read(await client.ask(request())) == b"ok"
        assert upstream.opened == [2]
        client_leaves = await client.ask(request())
        assert await read(client_leaves) == b"ok"
    # It is closed with the client, also while it waits.
    assert sum(upstream.opened) == 3


# --- the parser

ANSWERED = b"HTTP/1.1 200 OK\r\n"
COUNTED = ANSWERED + b"Content-Length: 5\r\n\r\nhello"
CHUNKED = ANSWERED + b"transfer-encoding: Chunked\r\n\r\n3\r\nhel\r\n2;x=y\r\nlo\r\n0\r\nx-sum: 1\r\n\r\n"


def answer_to(*pieces: bytes, to_head: bool = False) -> HttpAnswer:
    answer = HttpAnswer(to_head=to_head)
    for piece in pieces:
        answer.feed(memoryview(piece))
    return answer


@pytest.mark.parametrize("wire", [COUNTED, CHUNKED, b"HTTP/1.1 103 Early\r\nlink: x\r\n\r\n" + COUNTED])
def test_an_answer_is_the_same_however_it_is_cut(wire: bytes) -> None:
    for size in (1, 2, 3, 7, len(wire)):
        answer = answer_to(*(wire[at : at + size] for at in range(0, len(wire), size)))
        assert (answer.status, answer.take(), answer.complete, answer.clean) == (200, b"hello", True, True)
        assert len(answer.headers) == 1


@pytest.mark.parametrize("wire", [COUNTED, CHUNKED, ANSWERED + b"content-length: 0\r\n\r\n"])
@pytest.mark.parametrize("more", [b"\r\n", b"x", b"\0", COUNTED, b"HTTP/1.1 100 Continue\r\n\r\n"])
def test_bytes_behind_an_answer_make_its_connection_unclean_and_change_nothing_else(wire: bytes, more: bytes) -> None:
    body = answer_to(wire).take()
    for pieces in ((wire + more,), (wire, more)):
        answer = answer_to(*pieces)
        assert (answer.take(), answer.complete, answer.clean) == (body, True, False)


@pytest.mark.parametrize(
    "wire",
    [
        COUNTED.replace(b"1.1", b"1.0"),
        COUNTED.replace(b"OK\r\n", b"OK\r\nconnection: close\r\n"),
        CHUNKED.replace(b"OK\r\n", b"OK\r\ncontent-length: 5\r\n"),
        ANSWERED.replace(b"200", b"101") + b"upgrade: x\r\nconnection: upgrade\r\n\r\nraw",
    ],
    ids=["1.0", "close", "both framings", "upgrade"],
)
def test_a_connection_that_may_end_or_be_out_of_step_is_unclean(wire: bytes) -> None:
    answer = answer_to(wire)
    assert (answer.complete, answer.clean) == (True, False)


@pytest.mark.parametrize(
    "wire",
    [
        ANSWERED + b"content-length: 1\r\ncontent-length: 2\r\n\r\nab",
        ANSWERED + b"content-length: -1\r\n\r\n",
        ANSWERED + b"transfer-encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        ANSWERED + b"transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n",
        ANSWERED + b"transfer-encoding: identity\r\n\r\n",
        ANSWERED + b"transfer-encoding: chunked\r\n\r\n-1\r\n",
        ANSWERED + b"transfer-encoding: chunked\r\n\r\n1\r\nab\r\n",
        ANSWERED + b"no colon\r\n\r\n",
        b"HTTP/2.0 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/0.9 200 OK\r\ncontent-length: 0\r\n\r\n",
        b"ICY 200 OK\r\n\r\n",
        b"\x00",
        ANSWERED + b"x: " + b"a" * 200_000,
        ANSWERED + b"x: y\r\n" * 50_000,
        b"HTTP/1.1 100 Continue\r\n\r\n" * 10_000,
        CHUNKED[:-2] + b"x: " + b"a" * 200_000,
        CHUNKED[:-2] + b"x: y\r\n" * 50_000,
        CHUNKED[:60] + b"5;" + b"a" * 200_000,
    ],
    ids=lambda wire: wire[:60].decode("latin-1"),
)
def test_what_is_no_answer_is_refused_and_never_complete(wire: bytes) -> None:
    answer = HttpAnswer()

    def feed() -> None:
        for at in range(0, len(wire), 65536):
            answer.feed(memoryview(wire)[at : at + 65536])

    with pytest.raises(httpx.RemoteProtocolError):
        feed()
    assert (answer.complete, answer.clean) == (False, False)


def test_a_head_and_statuses_without_a_body_have_none() -> None:
    answer = answer_to(ANSWERED + b"content-length: 5\r\n\r\n", to_head=True)
    assert (answer.complete, answer.clean, answer.take()) == (True, True, b"")
    for status in (b"204", b"304"):
        answer = answer_to(ANSWERED.replace(b"200", status) + b"content-length: 5\r\n\r\n")
        assert (answer.complete, answer.clean) == (True, True)


def test_the_end_of_a_connection_ends_an_answer_only_where_nothing_else_does() -> None:
    until_close = answer_to(ANSWERED + b"\r\nhel")
    assert until_close.end(None) is None
    assert (until_close.complete, until_close.take()) == (True, b"hel")
    reset = answer_to(ANSWERED + b"\r\nhel")
    assert isinstance(reset.end(ConnectionResetError()), httpx.ReadError)
    assert not reset.complete
    for wire in (b"", ANSWERED, COUNTED[:-1], CHUNKED[:-1]):
        answer = answer_to(wire)
        assert isinstance(answer.end(None), httpx.RemoteProtocolError)
        assert not answer.complete


def test_lines_that_end_in_lf_alone_are_read() -> None:
    answer = answer_to(COUNTED.replace(b"\r\n", b"\n"))
    assert (answer.take(), answer.complete) == (b"hello", True)


def test_a_head_holds_its_headers_in_order_and_to_the_byte() -> None:
    headers = [(b"host", b"x"), (b"a", b"b  c\td"), (b"e", b""), (b"a", b"\xe9")]
    assert head_of("POST", b"/a?b", headers) == (
        b"POST /a?b HTTP/1.1\r\nhost: x\r\na: b  c\td\r\ne: \r\na: \xe9\r\n\r\n"
    )


@pytest.mark.parametrize(
    "header",
    [
        (b"a", b"x\r\nb: y"),
        (b"a", b"x\r\n"),
        (b"a: b\r\nc", b"d"),
        (b"a", b"x\ny"),
        (b"a", b"x\r"),
        (b"a", b" x"),
        (b"a", b"x "),
        (b"a", b"\x0b"),
        (b"a", b"x\x00"),
        (b"", b"x"),
        (b"a b", b"x"),
        (b"a:", b"x"),
    ],
)
def test_a_header_that_is_no_header_alone_is_refused_and_not_shown(header: tuple[bytes, bytes]) -> None:
    with pytest.raises(httpx.LocalProtocolError, match=r"^a header is no HTTP$"):
        head_of("GET", b"/", [(b"host", b"x"), header, (b"last", b"y")])


def test_a_value_that_does_not_match_costs_linear_work() -> None:
    def seconds(size: int) -> float:
        begin = time.thread_time()
        with pytest.raises(httpx.LocalProtocolError):
            head_of("GET", b"/", [(b"a", b"x " * size + b"\x00")])
        return time.thread_time() - begin

    assert min(seconds(400_000) for _ in range(3)) < 20 * min(seconds(100_000) for _ in range(3))
