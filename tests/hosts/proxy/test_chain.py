"""The proxy whole: the middleware in front of the Forwarder, over sockets, with an upstream that knows no tools."""

from __future__ import annotations

import asyncio
import contextlib
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
