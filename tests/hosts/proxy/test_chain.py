"""The proxy whole: the middleware in front of the Forwarder, over sockets, with an upstream that knows no tools."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest

from toolcall_middleware import ToolCallMiddleware

from ...response.streams import chunk as delta
from ...response.streams import completion
from ...response.streams import event as sse
from .proxy_servers import PATIENCE, chunk, client_of, forwarder, raw_upstream, says, serving

CALL = '{"tool_calls": [{"name": "add", "arguments": {"a": 1}}]}'
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
WHOLE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def request(**more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "1+1"}], "tools": [TOOL], **more}


def event(text: str) -> bytes:
    return chunk(sse(delta({"role": "assistant", "content": text})))


@contextlib.asynccontextmanager
async def proxy(upstream: str, *, patience: float = PATIENCE) -> AsyncIterator[httpx.AsyncClient]:
    app = ToolCallMiddleware(forwarder(upstream, upstream_timeout=patience), mode="prompt", format="json")
    async with serving(app) as address, client_of(address) as client:
        yield client


async def test_a_text_only_upstream_answers_with_calls() -> None:
    upstream = says(WHOLE_HEAD % len(completion(CALL)), completion(CALL))
    async with raw_upstream(upstream) as address, proxy(address) as client:
        answer = await client.post("/v1/chat/completions", json=request())
    call = answer.json()["choices"][0]["message"]["tool_calls"][0]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("add", {"a": 1})
    assert int(answer.headers["content-length"]) == len(answer.content)
    head, _, body = upstream.asked[0].partition(b"\r\n\r\n")
    assert b"content-length: %d" % len(body) in head
    assert b"accept-encoding: identity" in head
    assert "tools" not in json.loads(body)


@pytest.mark.parametrize(
    ("written", "stalls", "status", "code"),
    [
        (None, True, 504, "upstream_timeout"),
        (event("well, ")[:-20], True, 504, "upstream_timeout"),  # half an event: the status can still tell
        (event("well, "), True, 200, "upstream_timeout"),
        (event("well, "), False, 200, "upstream_error"),
    ],
    ids=["silent", "half an event", "stalls", "cut"],
)
async def test_a_stream_that_stalls_or_is_cut_is_one_error(
    written: bytes | None, stalls: bool, status: int, code: str
) -> None:
    upstream = says(b"" if written is None else SSE_HEAD + written, stalls=stalls)
    async with raw_upstream(upstream) as address, proxy(address, patience=0.2) as client:
        answer = await client.post("/v1/chat/completions", json=request(stream=True))
    assert answer.status_code == status
    if status != 200:
        assert answer.json()["error"]["code"] == code
        return
    assert "well, " in answer.text
    *_, error, done, end = answer.text.split("\n\n")
    assert json.loads(error.removeprefix("data: "))["error"]["code"] == code
    assert (answer.text.count('"error"'), done, end) == (1, "data: [DONE]", "")


@pytest.mark.parametrize("leaves", [False, True], ids=["the one call is there", "the client leaves"])
async def test_the_upstream_stops_when_nothing_more_is_wanted(leaves: bool) -> None:
    said = "well, this may take a while. " if leaves else f"```json\n{CALL}\n```"
    upstream = says(SSE_HEAD, event(said), stalls=True)
    asked = request(stream=True, parallel_tool_calls=False)
    async with raw_upstream(upstream) as address, proxy(address) as client, asyncio.timeout(PATIENCE):
        async with client.stream("POST", "/v1/chat/completions", json=asked) as answer:
            if leaves:
                await anext(answer.aiter_raw())
            else:
                text = (await answer.aread()).decode()
        await upstream.gone.wait()
    if not leaves:
        assert '"finish_reason":"tool_calls"' in text.replace(" ", "")
        assert text.endswith("data: [DONE]\n\n")


WHOLE = completion(CALL)
OK_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
EARLY = b"HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n"
GZIPPED = gzip.compress(WHOLE)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize(
    ("wire", "status"),
    [
        (EARLY + WHOLE_HEAD % len(WHOLE) + WHOLE, 200),
        (OK_HEAD + b"content-encoding: gzip\r\ncontent-length: %d\r\n\r\n" % len(GZIPPED) + GZIPPED, 200),
        (OK_HEAD + b"connection: close\r\n\r\n" + WHOLE, 200),
        (b"HTTP/1.1 204 No Content\r\n\r\n", 204),
        (b"HTTP/1.1 304 Not Modified\r\netag: x\r\n\r\n", 304),
        (b"HTTP/1.1 302 Found\r\nlocation: http://127.0.0.1:1/\r\ncontent-length: 0\r\n\r\n", 302),
        (b"HTTP/1.1 418 Teapot\r\ncontent-length: 2\r\n\r\nno", 418),
        (b"HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n", 500),
        (b"HTTP/1.1 503 Busy\r\nretry-after: 7\r\ncontent-length: 0\r\n\r\n", 503),
        (OK_HEAD + b"content-length: 6\r\n\r\n<html>", 502),
        (OK_HEAD + b"content-length: 0\r\n\r\n", 502),
        (OK_HEAD + b"content-encoding: br\r\ncontent-length: 2\r\n\r\nxx", 502),
        (b"HTTP/1.1 600 No\r\ncontent-length: 0\r\n\r\n", 502),
        (b"SSH-2.0-OpenSSH\r\n", 502),
        (EARLY, 502),
        (WHOLE_HEAD % 1000 + WHOLE, 502),  # cut
        (None, 502),  # down
    ],
    ids=range(17),
)
async def test_whatever_an_upstream_answers_is_right_or_a_clear_error(
    wire: bytes | None, status: int, stream: bool
) -> None:
    async with (
        raw_upstream(says(wire or b"")) as address,
        proxy(address if wire else "http://127.0.0.1:1/v1") as client,
    ):
        answer = await client.post("/v1/chat/completions", json=request(stream=stream))
    assert answer.status_code == status
    if status == 200:
        assert '"tool_calls"' in answer.text
        assert not stream or answer.text.endswith("data: [DONE]\n\n")
    elif status >= 400:
        assert answer.json()["error"].keys() == {"message", "type", "param", "code"}
        assert wire or "cannot be reached" in answer.json()["error"]["message"]
        assert answer.headers.get("retry-after") == ("7" if status == 503 else None)
    else:
        assert answer.content == b""


async def test_a_client_that_uploads_for_ever_holds_no_upstream_and_can_leave() -> None:
    """A body is collected before the upstream is asked: who never ends it costs a connection and what was sent."""
    upstream = says()
    async with raw_upstream(upstream) as address, proxy(address) as client:
        port = client.base_url.port
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 500\r\n\r\n" + b'{"tools": [')
        for _ in range(20):
            await asyncio.sleep(0.01)
            writer.write(b" ")
        assert not upstream.asked
        writer.close()
        await asyncio.sleep(0.05)
    assert not upstream.asked
