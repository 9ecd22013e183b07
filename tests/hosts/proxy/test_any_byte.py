"""A backend that dies after any byte of its answer: the client gets the right answer or a clear error, and its text.

Walked byte by byte: an app that returns, ends or raises there; an upstream whose connection closes there, seen by the
proxy alone and by the middleware in front of it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.helpers.asgi_client import (
    CALL,
    JSON_TYPE,
    SSE_TYPE,
    App,
    Backend,
    Client,
    ask,
    close,
    middleware,
)
from tests.helpers.stream_rules import Answered, check_error, check_stream, check_whole
from tests.helpers.thorough import places
from toolcall_middleware import ToolCallError
from toolcall_middleware.hosts.http.client_library import httpx

from ...response.streams import DONE, chunk, completion, event, role, says
from .proxy_servers import forwarder, raw_upstream, read_request

ARGUMENTS = '{"city": "Paris"}'
PROSE = "Hi "
EVENTS = [event(role()), *map(event, says(PROSE, "```", "json\n" + CALL[:25], CALL[25:45], CALL[45:], "\n```"))]
EVENTS += [event(chunk({}, "stop")), DONE]
WRITTEN = ["", PROSE, "```", "json\n" + CALL[:25], CALL[25:45], CALL[45:], "\n```", "", ""]
NAMED = {"index": 0, "id": "call_1", "type": "function", "function": {"name": "weather", "arguments": ""}}
NATIVE = [
    event(role()),
    event(says(PROSE)[0]),
    event(chunk({"tool_calls": [NAMED]})),
    *(
        event(chunk({"tool_calls": [{"index": 0, "function": {"arguments": part}}]}))
        for part in ('{"city"', ': "Paris"}')
    ),
    event(chunk({}, "tool_calls")),
    DONE,
]
WHOLE = completion(f"{PROSE}```json\n{CALL}\n```")


class EngineDiedError(Exception):
    """What an app raises in the middle."""


def dies(body: bytes, count: int, how: str, kind: tuple[bytes, bytes]) -> Backend:
    """An app that sends the first `count` bytes of an answer and then returns, ends or raises."""
    error = EngineDiedError if how == "raises" else None
    return Backend(body[:count], headers=[kind], more=how != "ends", error=error)


async def answer_of(app: App, body: bytes) -> Client:
    """The answer of a middleware, whose app may raise."""
    made = Client(body)
    try:
        await made.run(app)
    except EngineDiedError:
        assert not made.started or made.complete, "the client is not left with half an answer"
    return made


def received(events: list[bytes], count: int) -> int:
    """How many events are complete in the first `count` bytes: the line ends of one need not be there."""
    whole = at = 0
    for one in events:
        at += len(one)
        whole += at - 2 <= count
    return whole


def judge(made: Client, events: list[bytes], count: int, *, own_ids: bool) -> Answered | None:
    """Right, or an error. Gives the stream back that ended in one."""
    seen = received(events, count)
    if not made.started or made.status != 200:
        # The head waits for the first word; that of an event without its blank line has not come.
        assert seen <= 1 or received(events, count - 2) <= 1
        if made.started:
            assert (made.status, check_error(made.json)["code"]) == (502, "upstream_error")
        return None
    failed = b'"error"' in made.body
    answer = check_stream(made.body, error=failed, own_ids=own_ids, tools={"weather"})
    if not failed:
        assert seen >= len(events) - 1, "all was said but [DONE]"
        assert answer.only.content == PROSE
        assert answer.only.named_calls == [("weather", ARGUMENTS)]
        assert answer.only.finish_reason == "tool_calls"
        return None
    assert count < sum(map(len, events)), "all was said"
    assert answer.error is not None
    assert answer.error["code"] == "upstream_error"
    assert answer.choices == [] or seen >= len(events) - 1 or answer.only.finish_reason is None
    return answer


def conserved(answer: Answered, seen: int) -> None:
    """Every character that came in is text, or belongs to a call that has begun."""
    text = "".join(WRITTEN[:seen])
    content = (answer.only.content if answer.choices else None) or ""
    if answer.choices and answer.only.calls:
        assert content == PROSE
        (call,) = answer.only.calls
        assert call.name == "weather"
        assert ARGUMENTS.startswith(call.arguments)
        # All of the arguments that came are there.
        assert call.arguments == text.partition('"arguments": ')[2][: len(ARGUMENTS)]
    else:
        assert content == text


@pytest.mark.parametrize("how", ["returns", "ends", "raises"])
async def test_an_app_that_dies_after_any_byte_of_its_stream(how: str) -> None:
    body = b"".join(EVENTS)
    for count in places(len(body) + 1, how):
        made = await answer_of(middleware(dies(body, count, how, SSE_TYPE)), ask())
        answer = judge(made, EVENTS, count, own_ids=True)
        if answer is not None:
            conserved(answer, received(EVENTS, count))
            assert how != "ends" or received(EVENTS, count) < len(EVENTS) - 1


@pytest.mark.parametrize("how", ["returns", "ends", "raises"])
async def test_an_app_with_calls_of_its_own_that_dies_after_any_byte(how: str) -> None:
    body = b"".join(NATIVE)
    for count in places(len(body) + 1, how):
        made = await answer_of(middleware(dies(body, count, how, SSE_TYPE), mode="native"), ask())
        judge(made, NATIVE, count, own_ids=False)


@pytest.mark.parametrize("stream_it", [False, True], ids=["whole", "asked for a stream"])
@pytest.mark.parametrize("how", ["returns", "ends", "raises"])
async def test_an_app_that_dies_after_any_byte_of_its_whole_answer(how: str, stream_it: bool) -> None:
    for count in places(len(WHOLE) + 1, how):
        made = await answer_of(middleware(dies(WHOLE, count, how, JSON_TYPE)), ask(stream=stream_it))
        if count == len(WHOLE) and how != "raises":
            answer = check_stream(made.body) if stream_it else check_whole(made.json)
            assert answer.only.named_calls == [("weather", ARGUMENTS)]
        elif how == "raises":
            assert not made.started, "the server answers for an app that raised"
        else:
            assert (made.status, check_error(made.json)["code"]) == (502, "upstream_error")


@pytest.mark.parametrize("policy", [{"validate_arguments": "error"}, {"stream_arguments": False}], ids=str)
async def test_a_call_that_is_held_never_leaves_half(policy: dict[str, Any]) -> None:
    body = b"".join(EVENTS)
    for count in places(len(body), str(policy)):
        made = await answer_of(middleware(dies(body, count, "returns", SSE_TYPE), **policy), ask())
        if made.status == 200:
            answer = check_stream(made.body, error=b'"error"' in made.body)
            calls = answer.only.named_calls if answer.choices else []
            assert calls in ([], [("weather", ARGUMENTS)])


# -- the proxy -----------------------------------------------------------------------------------------------------


class Breaks(httpx.AsyncBaseTransport):
    """An upstream whose connection breaks after `count` bytes of the body."""

    def __init__(self, body: bytes, count: int, kind: str) -> None:
        self.body = body[:count]
        self.kind = kind
        self.closed = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        assert isinstance(request.stream, httpx.AsyncByteStream)
        async for _ in request.stream:
            pass
        return httpx.Response(200, headers={"content-type": self.kind}, stream=Stream(self))


class Stream(httpx.AsyncByteStream):
    def __init__(self, upstream: Breaks) -> None:
        self._upstream = upstream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._upstream.body:
            yield self._upstream.body
        await asyncio.sleep(0)
        raise httpx.ReadError("the connection broke")

    async def aclose(self) -> None:
        self._upstream.closed += 1


@pytest.mark.parametrize("ends_streams", [True, False])
async def test_a_stream_that_breaks_after_any_byte_comes_through_proxy_and_middleware(ends_streams: bool) -> None:
    body = b"".join(EVENTS)
    for count in places(len(body) + 1, str(ends_streams)):
        upstream = Breaks(body, count, "text/event-stream")
        app = middleware(forwarder("http://up.example", transport=upstream, translated=not ends_streams))
        made = await answer_of(app, ask())
        assert upstream.closed == 1
        answer = judge(made, EVENTS, count, own_ids=True)
        if answer is not None:
            conserved(answer, received(EVENTS, count))


async def test_a_whole_answer_that_breaks_after_any_byte_comes_through_proxy_and_middleware() -> None:
    for count in places(len(WHOLE) + 1, "whole"):
        upstream = Breaks(WHOLE, count, "application/json")
        made = await answer_of(middleware(forwarder("http://up.example", transport=upstream)), ask(stream=False))
        assert (made.status, check_error(made.json)["code"]) == (502, "upstream_error")
        assert upstream.closed == 1


SMALL = b'data: {"a": "b"}\n\n' * 2 + DONE
CHUNKED = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
CHUNKED += b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (SMALL[:18], SMALL[18:36], DONE)) + b"0\r\n\r\n"
COUNTED = b'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 10\r\n\r\n{"a": "b"}'


@pytest.mark.parametrize("wire", [CHUNKED, COUNTED], ids=["chunked", "counted"])
async def test_a_connection_that_closes_after_any_byte_of_the_wire_is_never_taken_for_a_good_end(wire: bytes) -> None:
    count = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(wire[:count])
        await writer.drain()

    async with raw_upstream(talk) as address:
        app = forwarder(address)
        for count in range(len(wire) + 1):
            made = Client(b"{}", path="/v1/x")
            fault = None
            try:
                await made.run(app)
            except ToolCallError as error:
                fault = error
            if fault is not None:
                assert (fault.code, made.started, made.complete) == ("upstream_error", True, False)
                assert b'{"a": "b"}'.startswith(made.body)
                continue
            assert made.complete
            if made.status == 502:
                assert b"\r\n\r\n" not in wire[:count]
                assert check_error(made.json)["code"] == "upstream_error"
            elif wire is COUNTED:
                assert (count, made.body) == (len(wire), b'{"a": "b"}')
            elif not made.body.startswith(SMALL):
                assert made.body.endswith(DONE)
                assert made.body.count(b'data: {"error"') == 1
                assert SMALL.startswith(made.body.partition(b'data: {"error"')[0].rstrip(b"\n"))
            else:
                assert made.body.strip() == SMALL.strip()
        await close(app)


# -- lengths that are wrong ----------------------------------------------------------------------------------------


def _counted(length: int, body: bytes, kind: bytes) -> bytes:
    return b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ncontent-length: %d\r\n\r\n" % (kind, length) + body


@pytest.mark.parametrize("wrong", [-20, 20], ids=["too short", "too long"])
@pytest.mark.parametrize("stream_it", [False, True], ids=["whole", "stream"])
async def test_a_length_that_is_wrong_is_an_error_and_nothing_hangs(stream_it: bool, wrong: int) -> None:
    body, kind = (b"".join(EVENTS), b"text/event-stream") if stream_it else (WHOLE, b"application/json")

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(_counted(len(body) + wrong, body, kind))
        await writer.drain()

    async with raw_upstream(talk) as address:
        proxy = forwarder(address)
        made = await Client(ask(stream=stream_it)).run(middleware(proxy))
        await close(proxy)
    if not stream_it:
        assert (made.status, check_error(made.json)["code"]) == (502, "upstream_error")
    elif wrong > 0:
        # All was said before the connection closed, [DONE] too.
        assert check_stream(made.body).only.named_calls == [("weather", ARGUMENTS)]
    else:
        answer = check_stream(made.body, error=b'"error"' in made.body)
        assert answer.only.named_calls == [("weather", ARGUMENTS)]
