"""An upstream that hangs is passed over and rested; a request that it may have read is not sent twice."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest

from tests.helpers.fakes import TextBackend
from toolcall_middleware.hosts.http.request_record import RECORD, Record

from .proxy_servers import ask as drive
from .proxy_servers import forwarder, raw_upstream, read_request, says, scope_of, serving
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
