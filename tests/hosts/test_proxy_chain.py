"""The proxy whole: the middleware in front of the Forwarder, over sockets, with an upstream that knows no tools."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx

from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.hosts.proxy import Forwarder

from .proxy_servers import PATIENCE, chunk, client_of, raw_upstream, read_request, says, serving

CALL = '{"tool_calls": [{"name": "add", "arguments": {"a": 1}}]}'
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", "properties": {}}}}
WHOLE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def request(**more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "1+1"}], "tools": [TOOL], **more}


def event(text: str) -> bytes:
    delta = {"id": "x", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    choice = {"index": 0, "delta": {"role": "assistant", "content": text}, "finish_reason": None}
    return chunk(b"data: " + json.dumps({**delta, "choices": [choice]}).encode() + b"\n\n")


def whole(text: str) -> bytes:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    body = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    return json.dumps(body).encode()


@contextlib.asynccontextmanager
async def proxy(upstream: str, *, patience: float = PATIENCE) -> AsyncIterator[httpx.AsyncClient]:
    app = ToolCallMiddleware(Forwarder(upstream, timeout=patience), mode="prompt", format="json")
    async with serving(app) as address, client_of(address) as client:
        yield client


async def test_a_text_only_upstream_answers_with_calls() -> None:
    asked: list[bytes] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await read_request(reader))
        answer = whole(CALL)
        writer.write(WHOLE_HEAD % len(answer) + answer)

    async with raw_upstream(talk) as address, proxy(address) as client:
        answer = await client.post("/v1/chat/completions", json=request())
    call = answer.json()["choices"][0]["message"]["tool_calls"][0]
    assert (call["function"]["name"], json.loads(call["function"]["arguments"])) == ("add", {"a": 1})
    assert int(answer.headers["content-length"]) == len(answer.content)
    head, _, body = asked[0].partition(b"\r\n\r\n")
    assert b"content-length: %d" % len(body) in head
    assert b"accept-encoding: identity" in head
    assert "tools" not in json.loads(body)


async def test_an_upstream_that_is_down_is_told_in_openais_form() -> None:
    async with proxy("http://127.0.0.1:1/v1") as client:
        answer = await client.post("/v1/chat/completions", json=request())
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")
    assert "cannot be reached" in answer.json()["error"]["message"]


async def test_an_upstream_that_stalls_is_told_in_openais_form() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()

    async with raw_upstream(talk) as address, proxy(address, patience=0.1) as client:
        answer = await client.post("/v1/chat/completions", json=request(stream=True))
    assert (answer.status_code, answer.json()["error"]["code"]) == (504, "upstream_timeout")


async def test_a_cut_stream_ends_with_one_error_event() -> None:
    async with raw_upstream(says(SSE_HEAD, event("well, "))) as address, proxy(address) as client:
        answer = await client.post("/v1/chat/completions", json=request(stream=True))
    payloads = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    assert payloads.pop() == "[DONE]"
    errors = [json.loads(payload)["error"] for payload in payloads if "error" in json.loads(payload)]
    assert [error["code"] for error in errors] == ["upstream_error"]
    assert "error" in json.loads(payloads[-1])


async def test_a_cut_answer_is_a_502() -> None:
    async with raw_upstream(says(WHOLE_HEAD % 1000, whole(CALL))) as address, proxy(address) as client:
        answer = await client.post("/v1/chat/completions", json=request())
    assert (answer.status_code, answer.json()["error"]["code"]) == (502, "upstream_error")


async def test_the_upstream_stops_when_the_one_call_that_was_asked_for_is_there() -> None:
    stopped = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(SSE_HEAD + event("```json\n" + CALL + "\n```"))
        assert await reader.read() == b""
        stopped.set()

    async with raw_upstream(talk) as address, proxy(address) as client, asyncio.timeout(PATIENCE):
        answer = await client.post("/v1/chat/completions", json=request(stream=True, parallel_tool_calls=False))
        await stopped.wait()
    assert '"finish_reason":"tool_calls"' in answer.text.replace(" ", "")
    assert answer.text.endswith("data: [DONE]\n\n")


async def test_the_upstream_stops_when_the_client_leaves() -> None:
    stopped = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(SSE_HEAD + event("well, this may take a while. "))
        assert await reader.read() == b""
        stopped.set()

    async with raw_upstream(talk) as address, proxy(address) as client, asyncio.timeout(PATIENCE):
        async with client.stream("POST", "/v1/chat/completions", json=request(stream=True)) as answer:
            await anext(answer.aiter_raw())
        await stopped.wait()
