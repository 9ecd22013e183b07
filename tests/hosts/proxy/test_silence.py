"""An upstream that hangs is passed over and rested; a request that it may have read is not sent twice."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.fakes import TextBackend
from toolcall_middleware.hosts.http.client_library import httpx
from toolcall_middleware.hosts.http.request_record import RECORD, Record
from toolcall_middleware.hosts.proxy.upstream import forwarder as under_test
from toolcall_middleware.hosts.proxy.upstream.forwarder import Forwarder, pause, retry_after

from .proxy_servers import FakeTransport, chunk, forwarder, raw_upstream, read_request, says, scope_of, serving
from .proxy_servers import ask as drive
from .routing import TOOL, Proxies, ask, said, table

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.mark.parametrize("tools", [True, False])
@pytest.mark.parametrize("head", [b"", HEAD, HEAD[:-2], HEAD.replace(b"transfer-encoding", b"x")])
async def test_a_silent_upstream_is_passed_over_and_rests_after_the_second_time(
    proxies: Proxies, head: bytes, tools: bool
) -> None:
    """Also one that sends the head of its answer before it has anything to say, as vLLM does."""
    hangs = says(head, stalls=True)
    backend = TextBackend(lambda _body: "here")
    more: dict[str, Any] = {"tools": [TOOL]} if tools else {}
    async with raw_upstream(hangs) as first, serving(backend) as second:
        tables = table(f"{first}/v1", name="one", models=["m"]), table(f"{second}/v1", name="two", models=["m"])
        # The question for a chat template would be one more.
        async with proxies.running(*tables, upstream_first_byte_timeout="0.1", template="none") as client:
            begin = time.monotonic()
            answers = [await ask(client, stream=True, **more) for _ in range(4)]
    assert [answer.status_code for answer in answers] == [200] * 4
    assert all(said(answer) == "here" for answer in answers)
    assert len(hangs.asked) == 2
    assert time.monotonic() - begin < 5


@pytest.mark.parametrize("head", [b"", HEAD.replace(b"event-stream", b"plain")])
async def test_one_that_says_nothing_of_a_whole_answer_is_passed_over_after_all_its_time(
    proxies: Proxies, head: bytes
) -> None:
    async with raw_upstream(says(head, stalls=True)) as first, serving(TextBackend(lambda _body: "here")) as second:
        tables = table(f"{first}/v1", name="one", models=["m"]), table(f"{second}/v1", name="two", models=["m"])
        async with proxies.running(*tables, upstream_timeout="0.2") as client:
            answers = [await ask(client) for _ in range(3)]
    assert [answer.json()["choices"][0]["message"]["content"] for answer in answers] == ["here"] * 3


async def test_an_answer_that_has_begun_is_that_upstreams_alone(proxies: Proxies) -> None:
    """However it breaks off: what the client has of it cannot be taken back, and the upstream has done its work."""
    asked = 0

    async def breaks(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal asked
        asked += 1
        await read_request(reader)
        writer.write(HEAD)
        await asyncio.sleep(0.05)

    backend = TextBackend(lambda _body: "here")
    async with raw_upstream(breaks) as first, serving(backend) as second:
        tables = table(f"{first}/v1", name="one", models=["m"]), table(f"{second}/v1", name="two", models=["m"])
        async with proxies.running(*tables) as client:
            answer = await ask(client, stream=True)
    assert (answer.status_code, asked, backend.seen) == (502, 1, [])
    assert "broke off its answer" in answer.json()["error"]["message"]


async def test_who_is_alone_has_all_its_time() -> None:
    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        await asyncio.sleep(0.2)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")

    async with raw_upstream(slow) as address:
        app = forwarder(f"{address}/v1", upstream_first_byte_timeout=0.05)
        answer = await drive(app, scope_of(method="POST"), json.dumps({"stream": True}).encode())
        assert (answer.status, answer.body) == (200, b"ok")
        record = Record(others=True, streams=True)
        answer = await drive(app, {**scope_of(method="POST"), RECORD: record}, b"{}")
        assert (answer.status, record.silent) == (504, True)


@pytest.mark.parametrize(("method", "times"), [("POST", 1), ("GET", 2)])
async def test_a_post_that_the_upstream_has_read_is_not_sent_again(method: str, times: int) -> None:
    read: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")
        await writer.drain()
        if not read:
            read.append(await read_request(reader))

    async with raw_upstream(talk) as address:
        app = forwarder(f"{address}/v1")
        body: Any = b"{}" if method == "POST" else b""
        assert (await drive(app, scope_of(method=method), body)).status == 200
        answer = await drive(app, scope_of(method=method), body)
    assert len(read) == 1
    assert answer.status == (502 if times == 1 else 200)


# --- limits of one upstream

SSE = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(under_test, "_FIRST_WAIT", 0.001)


class Scripted(FakeTransport):
    """Gives `answers`, one a request; an exception is raised."""

    def __init__(self, *answers: httpx.Response | Exception) -> None:
        self.left = list(answers)
        super().__init__(self._next)

    def _next(self, _request: httpx.Request) -> httpx.Response:
        answer = self.left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def busy(status: int = 429, **headers: str) -> httpx.Response:
    return httpx.Response(status, headers={name.replace("_", "-"): value for name, value in headers.items()})


def asking(transport: FakeTransport, retries: int = 0) -> Forwarder:
    return forwarder("http://up.example/v1", upstream_retries=retries, transport=transport)


def post(**more: Any) -> Any:
    return scope_of("/v1/chat/completions", method="POST", **more)


async def test_a_refused_connection_is_tried_again_and_the_body_goes_along() -> None:
    transport = Scripted(httpx.ConnectError("no"), httpx.ConnectError("no"), httpx.Response(200))
    answer = await drive(asking(transport, retries=2), post(), b'{"a": 1}')
    assert answer.status == 200
    assert transport.bodies == [b'{"a": 1}'] * 3


async def test_tries_come_to_an_end() -> None:
    transport = Scripted(*[httpx.ConnectError("no")] * 3)
    answer = await drive(asking(transport, retries=2), post(), b"{}")
    assert (answer.status, transport.left) == (502, [])


@pytest.mark.parametrize(
    "failure",
    [httpx.ConnectTimeout("slow"), httpx.ReadTimeout("slow"), httpx.ReadError("cut"), httpx.WriteError("cut")],
)
async def test_what_may_have_been_begun_or_has_waited_is_not_sent_again(failure: Exception) -> None:
    transport = Scripted(failure, httpx.Response(200))
    answer = await drive(asking(transport, retries=2), post(), b"{}")
    assert (answer.status in {502, 504}, len(transport.left)) == (True, 1)


class Refusal(httpx.AsyncByteStream):
    """A body that knows whether it was closed."""

    closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        yield b"busy"

    async def aclose(self) -> None:
        self.closed = True


@pytest.mark.parametrize("status", [429, 503, 529])
async def test_who_says_to_come_back_soon_is_asked_again_and_its_refusal_closed(status: int) -> None:
    body = Refusal()
    transport = Scripted(httpx.Response(status, headers={"retry-after": "0"}, stream=body), httpx.Response(200))
    assert (await drive(asking(transport, retries=1), post(), b"{}")).status == 200
    assert body.closed


@pytest.mark.parametrize(
    "answer",
    [
        busy(),
        busy(retry_after="6"),
        busy(retry_after="soon"),
        busy(503),
        busy(500, retry_after="0"),
        busy(retry_after="-1"),
    ],
)
async def test_any_other_refusal_is_the_answer_and_its_retry_after_is_passed_on(answer: httpx.Response) -> None:
    given_back = await drive(asking(transport := Scripted(answer, httpx.Response(200)), retries=3), post(), b"{}")
    assert given_back.status == answer.status_code
    assert dict(given_back.headers).get(b"retry-after", b"").decode() == answer.headers.get("retry-after", "")
    assert len(transport.left) == 1


async def test_where_another_upstream_can_be_asked_nobody_waits() -> None:
    transport = Scripted(httpx.ConnectError("no"), httpx.Response(200))
    record = Record(others=True)
    answer = await drive(asking(transport, retries=3), post(**{RECORD: record}), b"{}")
    assert (answer.status, record.unreached, len(transport.left)) == (502, True, 1)


@given(st.binary(max_size=40))
def test_any_retry_after_can_be_read(value: bytes) -> None:
    seconds = retry_after([(b"Retry-After", value)])
    assert seconds is None or seconds >= 0


def test_a_retry_after_is_seconds_or_a_date() -> None:
    assert retry_after([(b"retry-after", b" 2.5 ")]) == 2.5
    assert retry_after([(b"retry-after", b"Wed, 21 Oct 2015 07:28:00 GMT")]) == 0
    assert (retry_after([(b"retry-after", b"Wed, 21 Oct 2099 07:28:00 GMT")]) or 0) > 1e9
    assert retry_after([]) is None


def test_pauses_grow_and_are_not_the_same_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    drawn = random.Random(3)
    pauses = [[pause(tries, drawn) for _ in range(50)] for tries in range(3)]
    assert all(0.1 * 2**tries <= pause <= 0.2 * 2**tries for tries, row in enumerate(pauses) for pause in row)
    assert len(set(pauses[0])) > 40


# --- times and connections


async def test_a_connection_has_no_more_time_than_the_answer() -> None:
    seen: list[dict[str, float | None]] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request.extensions["timeout"])
        return httpx.Response(200)

    given_times: list[dict[str, Any]] = [
        {"upstream_timeout": 2, "upstream_connect_timeout": 5},
        {"upstream_connect_timeout": 3},
    ]
    for times in given_times:
        await drive(forwarder("http://up.example", transport=FakeTransport(answer), **times), post(), b"{}")
    assert [asked["connect"] for asked in seen] == [2, 3]


async def test_a_whole_answer_has_its_time_also_before_it_begins() -> None:
    async with raw_upstream(says(stalls=True)) as address:
        app = forwarder(address, upstream_total_timeout=0.1)
        answer = await drive(app, post(), b"{}")
    error = json.loads(answer.body)["error"]
    assert (answer.status, error["code"]) == (504, "upstream_timeout")
    assert "took longer than 0.1 s for its whole answer" in error["message"]


async def test_a_stream_that_outlives_its_time_ends_with_an_error() -> None:
    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(SSE)
        while not writer.is_closing():
            writer.write(chunk(b"data: 1\n\n"))
            await asyncio.sleep(0.01)

    async with raw_upstream(endless) as address:
        app = forwarder(address, upstream_total_timeout=0.2)
        answer = await drive(app, post(), b"{}")
    assert answer.body.startswith(b"data: 1\n\n")
    assert answer.body.endswith(b"data: [DONE]\n\n")
    assert b'"code":"upstream_timeout"' in answer.body
    assert answer.complete


async def test_connections_are_counted_and_who_waits_too_long_is_told() -> None:
    open_now = most = 0
    answers_after = 0.1

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal open_now, most
        await read_request(reader)
        open_now += 1
        most = max(most, open_now)
        await asyncio.sleep(answers_after)
        open_now -= 1
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\n{}")

    async with raw_upstream(talk) as address:
        app = forwarder(address, upstream_connections=2)
        answers = await asyncio.gather(*(drive(app, post(), b"{}") for _ in range(6)))
        assert ([answer.status for answer in answers], most) == ([200] * 6, 2)
        answers_after = 1.5
        short = forwarder(address, upstream_connections=1, upstream_connect_timeout=0.5)
        first, second = await asyncio.gather(*(drive(short, post(), b"{}") for _ in range(2)))
    assert {first.status, second.status} == {200, 504}
    late = first if first.status == 504 else second
    assert b"had no free connection of 1 for 0.5 s" in late.body


async def test_no_limit_is_the_default() -> None:
    async with raw_upstream(says(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")) as address:
        answers = await asyncio.gather(*(drive(forwarder(address), post(), b"{}") for _ in range(30)))
    assert {answer.status for answer in answers} == {200}
