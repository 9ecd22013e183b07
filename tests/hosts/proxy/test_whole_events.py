"""Streams that only pass: what a client's own parser makes of one that broke off after any byte."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import openai
import pytest
from openai import AsyncOpenAI
from openai._streaming import SSEDecoder

from toolcall_middleware import ToolCallError
from toolcall_middleware.hosts.proxy.upstream.forwarder import WholeEvents

from ...response.streams import DONE, chunk, event, role, says
from .proxy_servers import PATIENCE, proxying, raw_upstream, read_request
from .proxy_servers import chunk as piece

FAULT = ToolCallError("upstream_error", "It broke off.")
PLAIN = [event(role()), *map(event, says("Hi ", "é✓", "you")), event(chunk({}, "stop")), DONE]
SHORT = [b'data: {"text": "Hi"}\n\n', 'data: {"é": ["✓", {}]}\n\n'.encode(), b'data: {"usage": null}\n\n', DONE]
SPELLINGS = {
    "LF": SHORT,
    "CRLF": [one.replace(b"\n", b"\r\n") for one in SHORT],
    "CR": [one.replace(b"\n", b"\r") for one in SHORT],
    "LF and CRLF": [one[:-1] + b"\r\n" for one in SHORT],
    "no blank": [b"data:" + one[6:] for one in SHORT],
    "named": [b"event: message\nid: 1\n" + one for one in SHORT],
    "on two lines": [one.replace(b'{"', b'{\ndata: "', 1) for one in SHORT],
    "comments": [b": still there\n\n" + one for one in SHORT],
    "comments without an end": [b": still there\n" + one for one in SHORT],
}


def passed(data: bytes, step: int) -> tuple[WholeEvents, bytes]:
    events = WholeEvents()
    return events, b"".join(events.feed(data[at : at + step]) for at in range(0, len(data), step))


def parsed(data: bytes) -> list[str]:
    """What the OpenAI SDK reads of it."""
    return [one.data for one in SSEDecoder().iter_bytes(iter([data]))]


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_a_stream_that_breaks_after_any_byte_is_whole_events_and_then_the_error(spelling: str) -> None:
    stream = SPELLINGS[spelling]
    body, said = b"".join(stream), [json.loads(one) for one in parsed(b"".join(stream[:-1]))]
    complete = 0
    for count in range(len(body) + 1):
        for step in (1, len(body)):
            events, out = passed(body[:count], step)
            read = parsed(out + events.broken(FAULT))
            assert read.pop() == "[DONE]"
            values = [json.loads(one) for one in read]
            if count < len(body) - 4 or "error" in values[-1]:
                assert count < len(body) - 1, "all was said"
                assert values.pop()["error"]["code"] == "upstream_error"
            assert values == said[: len(values)]
            # Nothing is lost that had come whole.
            assert len(values) >= sum(len(b"".join(stream[: n + 1])) <= count for n in range(len(stream) - 1))
            complete = max(complete, len(values))
    assert complete == len(said)


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_no_byte_is_changed_and_none_is_late(spelling: str) -> None:
    body = b"".join(SPELLINGS[spelling])
    for step in (1, 3, 64, len(body)):
        events, out = passed(body, step)
        assert out + events.rest() == body
    for count in range(len(body)):
        events, out = passed(body[:count], 5)
        assert out + events.rest() == body[:count]
    events = WholeEvents()
    for one in SPELLINGS[spelling]:
        assert events.feed(one) == one


def test_a_comment_does_not_wait_for_its_blank_line() -> None:
    events = WholeEvents()
    assert events.feed(b": still") == b""
    assert events.feed(b" there\n") == b": still there\n"
    assert events.feed(b"data: 1") == b""


def test_an_event_without_an_end_is_not_held_without_bounds() -> None:
    events = WholeEvents()
    part = b"x" * 65536
    out = b"".join(events.feed(part) for _ in range(64))
    assert len(out) >= len(part) * 48
    assert out + events.rest() == part * 64


async def gather(stream: AsyncIterator[object], chunks: list[object]) -> None:
    async for one in stream:
        chunks.append(one)  # noqa: PERF401 - those before the error count


async def test_the_openai_sdk_gets_every_chunk_and_then_the_error() -> None:
    body = b"".join(PLAIN)
    whole = [sum(map(len, PLAIN[: number + 1])) for number in range(len(PLAIN))]

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        count = int(json.loads((await read_request(reader)).partition(b"\r\n\r\n")[2])["model"])
        head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
        writer.write(head + piece(body[:count]))
        await writer.drain()

    async with raw_upstream(talk) as address, proxying(address) as client:
        url = f"{client.base_url}/v1"
        async with AsyncOpenAI(api_key="none", base_url=url, max_retries=0, timeout=PATIENCE) as sdk:
            for count in [*range(1, whole[2], 17), *(end + more for end in whole[2:5] for more in range(-3, 3))]:
                stream = await sdk.chat.completions.create(model=str(count), messages=[], stream=True)
                chunks: list[object] = []
                with pytest.raises(openai.APIError, match="broke off its answer") as raised:
                    await gather(stream, chunks)
                assert raised.value.code == "upstream_error"
                assert len(chunks) == sum(end <= count + 2 for end in whole)
