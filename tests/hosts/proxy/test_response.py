"""What of an answer reaches the client, how fast, and what happens when either side breaks off."""

from __future__ import annotations

import asyncio
import gzip
import json
import logging
import socket
from collections.abc import AsyncIterator
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI
from openai._streaming import SSEDecoder
from starlette.types import Message, Receive, Scope, Send

from tests.helpers.asgi_client import Client, close, live
from toolcall_middleware import ToolCallError
from toolcall_middleware.hosts.http.client_library import httpx
from toolcall_middleware.hosts.proxy.upstream.forwarder import WholeEvents

from ...response.streams import DONE, event, role
from ...response.streams import chunk as delta
from ...response.streams import says as words
from .proxy_servers import (
    PATIENCE,
    FakeTransport,
    Uvicorn,
    ask,
    chunk,
    client_of,
    forwarder,
    proxying,
    raw_upstream,
    read_request,
    says,
    scope_of,
    serving,
)

SSE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\ntransfer-encoding: chunked\r\n\r\n"


@pytest.fixture(autouse=True)
async def no_task_is_left_behind() -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    yield
    async with asyncio.timeout(PATIENCE):
        while left := asyncio.all_tasks() - before - {asyncio.current_task()}:
            await asyncio.wait(left)


def error_of(body: bytes) -> dict[str, Any]:
    error = json.loads(body)["error"]
    assert set(error) == {"message", "type", "param", "code"}
    return dict(error)


# --- the answer itself


PACKED = gzip.compress(b"hello " * 100)
MANY = [(b"x-%d" % number, b"v" * 50) for number in range(500)]


@pytest.mark.parametrize(
    ("wire", "status", "headers", "body"),
    [
        (
            b"HTTP/1.1 418 Odd\r\nContent-Type: text/x\r\ncontent-encoding: gzip\r\nset-cookie: a=1\r\n"
            b"set-cookie: b=2\r\nx-request-id: r-1\r\ncontent-length: %d\r\n\r\n" % len(PACKED) + PACKED,
            418,
            [
                (b"content-type", b"text/x"),
                (b"content-encoding", b"gzip"),
                (b"set-cookie", b"a=1"),
                (b"set-cookie", b"b=2"),
                (b"x-request-id", b"r-1"),
                (b"content-length", b"%d" % len(PACKED)),
            ],
            PACKED,
        ),
        (
            b"HTTP/1.1 200 OK\r\nconnection: close, x-private\r\nkeep-alive: timeout=1\r\nx-private: 1\r\n"
            b"proxy-authenticate: Basic\r\nupgrade: h2c\r\ntrailer: x-sum\r\ndate: Thu, 01 Jan 1970 00:00:00 GMT\r\n"
            b"transfer-encoding: chunked\r\ncontent-length: 99\r\nx-kept: 1\r\n\r\n"
            + chunk(b"abc")
            + b"0\r\nx-sum: 1\r\n\r\n",
            200,
            [(b"x-kept", b"1")],
            b"abc",
        ),
        (b"HTTP/1.0 200 OK\r\n\r\nold but gold", 200, [], b"old but gold"),
        (
            b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok",
            200,
            [(b"content-length", b"2")],
            b"ok",
        ),
        (
            b"HTTP/1.1 200 OK\r\n%scontent-length: 0\r\n\r\n" % b"".join(b"%s: %s\r\n" % pair for pair in MANY),
            200,
            [*MANY, (b"content-length", b"0")],
            b"",
        ),
    ],
    ids=["unchanged", "a connection's own headers", "until the connection ends", "early hints", "500 headers"],
)
async def test_what_of_an_answer_reaches_the_client(
    wire: bytes, status: int, headers: list[tuple[bytes, bytes]], body: bytes
) -> None:
    async with raw_upstream(says(wire)) as address:
        answer = await ask(forwarder(address), scope_of())
    assert (answer.status, answer.headers, answer.body, answer.complete) == (status, headers, body, True)


async def test_a_cookie_of_one_client_is_not_sent_for_another() -> None:
    upstream = FakeTransport(lambda _: httpx.Response(200, headers={"set-cookie": "session=mine"}))
    app = forwarder("http://up.example", transport=upstream)
    await ask(app, scope_of())
    await ask(app, scope_of())
    assert upstream.sent(b"cookie") == []


async def test_redirects_are_the_clients_to_follow() -> None:
    upstream = FakeTransport(lambda _: httpx.Response(307, headers={"location": "http://[bad"}))
    answer = await ask(forwarder("http://up.example", transport=upstream), scope_of())
    assert (answer.status, answer.headers) == (307, [(b"location", b"http://[bad")])
    assert len(upstream.targets) == 1


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
async def test_answers_without_a_body_pass(status: bytes) -> None:
    async with (
        raw_upstream(says(b"HTTP/1.1 " + status + b"\r\netag: x\r\ncontent-length: 5\r\n\r\n")) as address,
        proxying(address) as client,
    ):
        answer = await client.get("/v1/x")
    assert (answer.status_code, answer.headers["etag"], answer.content) == (int(status[:3]), "x", b"")
    assert "content-length" not in answer.headers  # some servers wait for a body that was announced


async def test_the_answer_to_head_keeps_its_length() -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: 42\r\n\r\n"
    async with raw_upstream(says(head)) as address, proxying(address) as client:
        answer = await client.head("/v1/x")
    assert (answer.headers["content-length"], answer.content) == ("42", b"")


# --- streaming


async def test_each_piece_reaches_the_client_before_the_next_is_written() -> None:
    """Over real servers on both sides; the upstream waits for the client to have read each event."""
    read = asyncio.Semaphore(0)

    async def upstream(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await live(receive, send)
            return
        headers = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        for number in range(3):
            await send({"type": "http.response.body", "body": b"data: %d\n\n" % number, "more_body": True})
            await read.acquire()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    events = []
    async with (
        serving(upstream) as address,
        proxying(address) as client,
        client.stream("POST", "/v1/chat/completions", content=b"{}") as answer,
    ):
        async for event in answer.aiter_raw():
            events.append(event)
            read.release()
    assert events == [b"data: 0\n\n", b"data: 1\n\n", b"data: 2\n\n"]


BEGUN = SSE_HEAD + chunk(b"data: 1\n\n")


async def test_when_the_client_leaves_the_upstream_is_told_at_once() -> None:
    upstream = says(BEGUN, stalls=True)
    async with raw_upstream(upstream) as address, proxying(address) as client:
        async with client.stream("POST", "/v1/chat/completions", content=b"{}") as answer:
            await anext(answer.aiter_raw())
        async with asyncio.timeout(PATIENCE):
            await upstream.gone.wait()


@pytest.mark.parametrize("how", ["left before the answer", "left", "cannot be sent to", "cancelled by its server"])
async def test_however_a_client_goes_the_upstream_is_told(how: str) -> None:
    upstream = says(b"" if "before" in how else BEGUN, stalls=True)
    made = Client(b"{}")

    async def on_send(message: Any) -> None:
        if message["type"] == "http.response.body":
            if how == "cannot be sent to":
                raise OSError("the client has gone")
            made.leave() if how == "left" else task.cancel()

    made.on_send = on_send
    async with raw_upstream(upstream) as address, asyncio.timeout(PATIENCE):
        task = asyncio.ensure_future(made.run_with_others(forwarder(address)))
        for _ in range(500):
            if not upstream.asked:
                await asyncio.sleep(0.01)
        if "before" in how:
            made.leave()
        await asyncio.wait({task})
        await upstream.gone.wait()
    if how == "cancelled by its server":
        assert task.cancelled()
    else:
        await task
        assert made.started == ("before" not in how)


async def test_an_exception_of_the_app_around_us_comes_out_as_it_is() -> None:
    """A middleware may end an answer by raising from `send`."""
    made = Client(b"{}")

    async def enough(_message: Any) -> None:
        raise LookupError("enough")

    made.on_send = enough
    with pytest.raises(LookupError, match="enough"):
        await made.run(forwarder("http://up.example", transport=FakeTransport()))


async def test_a_graceful_shutdown_lets_a_running_stream_finish() -> None:
    go_on = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(SSE_HEAD + chunk(b"data: 1\n\n"))
        await go_on.wait()
        writer.write(chunk(b"data: [DONE]\n\n") + chunk(b""))

    async with raw_upstream(talk) as address:
        proxy = Uvicorn(forwarder(address), timeout_graceful_shutdown=int(PATIENCE))
        front = await proxy.begin()
        async with client_of(front) as client, client.stream("GET", "/v1/x") as answer:
            pieces = answer.aiter_raw()
            assert await anext(pieces) == b"data: 1\n\n"
            stopping = asyncio.create_task(proxy.shutdown())
            await asyncio.sleep(0)
            with pytest.raises(httpx.ConnectError):
                await client.get("/healthz")
            assert not stopping.done()
            go_on.set()
            assert [piece async for piece in pieces] == [b"data: [DONE]\n\n"]
        await stopping


# --- failures before the answer


async def refusing_port() -> int:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        return int(closed.getsockname()[1])


async def test_an_upstream_that_is_down_is_a_502_that_names_it(caplog: pytest.LogCaptureFixture) -> None:
    port = await refusing_port()
    app = forwarder(f"http://me:hunter2@127.0.0.1:{port}/v1")
    with caplog.at_level(logging.DEBUG):
        answer = await ask(app, scope_of(method="POST"), b"{}")
    assert answer.status == 502
    assert (b"content-type", b"application/json") in answer.headers
    assert error_of(answer.body) == {
        "message": f"The upstream http://127.0.0.1:{port}/v1 cannot be reached: Connection refused.",
        "type": "upstream_error",
        "param": None,
        "code": "upstream_error",
    }
    assert f"http://127.0.0.1:{port}/v1 cannot be reached" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize(
    ("cause", "words"),
    [
        (socket.gaierror(-2, "Name or service not known"), "Name or service not known"),
        (ConnectionRefusedError(111, "Connect call failed ('10.0.0.1', 1)"), "Connection refused"),
        (ExceptionGroup("all", [ConnectionRefusedError(111, "x"), OSError(101, "y")]), "Connection refused"),
        (OSError(113, "No route to host"), "No route to host"),
        (None, "All connection attempts failed"),
    ],
)
async def test_the_reason_is_told_in_the_systems_words(cause: Exception | None, words: str) -> None:
    def refuse(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("All connection attempts failed") from cause

    app = forwarder("http://up.example", transport=FakeTransport(refuse))
    answer = await ask(app, scope_of())
    assert error_of(answer.body)["message"] == f"The upstream http://up.example cannot be reached: {words}."


@pytest.mark.parametrize(
    ("error", "status", "code", "words"),
    [
        (httpx.ConnectTimeout(""), 504, "upstream_timeout", "accepted no connection for 7 s"),
        (httpx.WriteTimeout(""), 504, "upstream_timeout", "took nothing of the request for 7 s"),
        (httpx.ReadTimeout(""), 504, "upstream_timeout", "sent nothing for 7 s"),
        (httpx.ReadError(""), 502, "upstream_error", "closed the connection without an answer"),
        (httpx.ProxyError("407 Proxy Authentication Required"), 502, "upstream_error", "407 Proxy Authentication"),
        (httpx.RemoteProtocolError("sk-echo"), 502, "upstream_error", "did not answer with valid HTTP"),
    ],
)
async def test_each_failure_has_its_code(error: httpx.TransportError, status: int, code: str, words: str) -> None:
    def fail(request: httpx.Request) -> httpx.Response:
        raise error

    app = forwarder("http://up.example", upstream_timeout=7, transport=FakeTransport(fail))
    answer = await ask(app, scope_of())
    told = error_of(answer.body)
    assert (answer.status, told["code"], told["type"]) == (status, code, code.replace("timeout", "error"))
    assert words in told["message"]
    assert "sk-echo" not in told["message"]


@pytest.mark.parametrize(
    "garbage",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/1.1 banana\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\nab",
        b"HTTP/1.1 700 Odd\r\ncontent-length: 0\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nx: " + b"a" * 200_000 + b"\r\n\r\n",
        b"\x00\xff" * 50_000,
        b"",
    ],
)
async def test_an_upstream_that_does_not_speak_http_is_a_502(garbage: bytes) -> None:
    async with raw_upstream(says(garbage)) as address:
        answer = await ask(forwarder(address), scope_of())
    assert (answer.status, error_of(answer.body)["code"]) == (502, "upstream_error")


# --- failures in the middle of the answer


@pytest.mark.parametrize(
    ("written", "before"),
    [
        (chunk(b"data: 1\n\n"), b"data: 1\n\n"),
        (chunk(b"data: 1\r\n\r\n"), b"data: 1\r\n\r\n"),
        (chunk(b"data: 1\n") + chunk(b"\n"), b"data: 1\n\n"),
        (chunk(b'data: {"a'), b""),
        (chunk(b'data: {"a": 1}'), b'data: {"a": 1}\n\n'),
        (chunk(b"data: 1\n"), b"data: 1\n\n"),
        (chunk(b"data: 1\n\n") + b"ff\r\ndata: 2", b"data: 1\n\n"),
        (chunk(b"data: 1\n\n") + b"garbage\r\n", b"data: 1\n\n"),
        (b"", b""),
    ],
)
async def test_an_event_stream_that_is_cut_ends_with_an_error_event(written: bytes, before: bytes) -> None:
    async with raw_upstream(says(SSE_HEAD, written)) as address:
        answer = await ask(forwarder(address), scope_of())
    assert answer.complete
    assert answer.body.startswith(before)
    event, done, rest = answer.body[len(before) :].split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    error = error_of(event.removeprefix(b"data: "))
    assert (error["code"], error["message"]) == ("upstream_error", f"The upstream {address} broke off its answer.")


@pytest.mark.parametrize(
    ("written", "after"),
    [
        (b"data: 1\n\n", None),
        (b"data: 1\n\ndata: [DONE]", None),
        (b'data: 1\n\ndata: {"a": 1}', None),
        (b'data: 1\n\ndata: {"a": ', b"data: 1\n\n"),
    ],
)
async def test_where_only_the_connection_ends_a_stream_half_an_event_is_no_end(
    written: bytes, after: bytes | None
) -> None:
    head = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n"
    async with raw_upstream(says(head, written)) as address:
        answer = await ask(forwarder(address), scope_of())
    assert answer.complete
    if after is None:
        assert answer.body == written
    else:
        assert answer.body.startswith(after)
        assert error_of(answer.body[len(after) :].split(b"\n\n")[0].removeprefix(b"data: "))["code"] == "upstream_error"


async def test_an_event_stream_that_stalls_ends_with_an_error_event() -> None:
    async with raw_upstream(says(BEGUN, stalls=True)) as address:
        answer = await ask(forwarder(address, upstream_timeout=0.1), scope_of())
    assert answer.complete
    assert error_of(answer.body.split(b"\n\n")[1].removeprefix(b"data: "))["code"] == "upstream_timeout"


@pytest.mark.parametrize("end", [b"data: [DONE]\n\n", b"data:[DONE]\r\n\r\n"])
async def test_after_done_an_untidy_end_is_no_error(end: bytes) -> None:
    pieces = [chunk(b"data: 1\n\n"), *(chunk(bytes([byte])) for byte in end)]
    async with raw_upstream(says(SSE_HEAD, *pieces)) as address:
        answer = await ask(forwarder(address), scope_of())
    assert (answer.body, answer.complete) == (b"data: 1\n\n" + end, True)


@pytest.mark.parametrize(
    "head",
    [
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n64\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n64\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: 100\r\n\r\n",
        SSE_HEAD[:-2] + b"content-encoding: br\r\n\r\n9\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-streams\r\ntransfer-encoding: chunked\r\n\r\n64\r\n",
    ],
)
async def test_any_other_answer_that_is_cut_is_raised(head: bytes) -> None:
    async with raw_upstream(says(head, b"half")) as address:
        with pytest.raises(ToolCallError, match="broke off") as raised:
            await ask(forwarder(address), scope_of())
    assert (raised.value.code, raised.value.status) == ("upstream_error", 502)
    assert isinstance(raised.value.__cause__, httpx.RemoteProtocolError)


@pytest.mark.parametrize("length", [b"content-length: 100\r\n\r\n", b"transfer-encoding: chunked\r\n\r\n64\r\n"])
async def test_an_answer_that_was_cut_never_looks_complete_to_a_client(length: bytes) -> None:
    async with (
        raw_upstream(says(b"HTTP/1.1 200 OK\r\n" + length + b'{"half": ')) as address,
        proxying(address) as client,
        client.stream("GET", "/v1/x") as answer,
    ):
        with pytest.raises(httpx.RemoteProtocolError):
            _ = [part async for part in answer.aiter_raw()]


# --- other scopes


async def test_a_websocket_is_closed_politely() -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await forwarder("http://up.example")({"type": "websocket"}, receive, send)
    assert [(message["type"], message["code"]) for message in sent] == [("websocket.close", 1011)]
    assert "server-sent events" in sent[0]["reason"]


@pytest.mark.parametrize("kind", ["http", "websocket"])
async def test_an_upgrade_is_answered_with_what_is_supported(kind: str) -> None:
    """Codex asks for a WebSocket first, and takes a 426 for the word to use HTTP."""
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "websocket.connect"} if kind == "websocket" else {"type": "http.request", "body": b""}

    async def send(message: Message) -> None:
        sent.append(message)

    scope: dict[str, Any] = {
        "type": kind,
        "method": "GET",
        "path": "/v1/responses",
        "headers": [(b"Upgrade", b"WebSocket")],
    }
    scope["extensions"] = {"websocket.http.response": {}}
    await forwarder("http://up.example")(scope, receive, send)
    start = "http.response.start" if kind == "http" else "websocket.http.response.start"
    assert (sent[0]["type"], sent[0]["status"]) == (start, 426)
    assert (b"upgrade", b"HTTP/1.1") in sent[0]["headers"]
    assert json.loads(sent[1]["body"])["error"]["code"] == "websocket_not_supported"


async def test_the_lifespan_closes_the_pool() -> None:
    upstream = FakeTransport()
    told = await close(forwarder("http://up.example", transport=upstream))
    assert told == ["lifespan.startup.complete", "lifespan.shutdown.complete"]
    assert upstream.closed


async def test_an_unknown_scope_is_not_passed_over() -> None:
    async def never(*_: object) -> Any:
        raise AssertionError

    with pytest.raises(RuntimeError, match="gopher"):
        await forwarder("http://up.example")({"type": "gopher"}, never, never)


# -- connections that are kept open ------------------------------------------------------------------------------------

ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


@pytest.mark.parametrize("reset", [True, False])
async def test_a_connection_that_was_closed_while_idle_is_not_the_clients_matter(*, reset: bool) -> None:
    seen: list[int] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        number = len(seen)
        seen.append(0)
        while True:
            await read_request(reader)
            seen[number] += 1
            if number == 0 and seen[0] == 2:
                # As if it had been closed before this request came: nothing of an answer is written.
                if reset:
                    writer.transport.abort()
                return
            writer.write(ANSWER)
            await writer.drain()

    async with raw_upstream(talk) as url, proxying(url) as client:
        first = await client.get("/v1/x")
        second = await client.get("/v1/x")
    assert (first.status_code, second.status_code) == (200, 200)
    assert seen == [2, 1]


async def test_a_new_connection_that_is_closed_is_not_tried_again() -> None:
    upstream = says()
    async with raw_upstream(upstream) as url, proxying(url) as client:
        answer = await client.post("/v1/x", content=b"{}")
    assert answer.status_code == 502
    assert len(upstream.asked) == 1


# --- streams that only pass

FAULT = ToolCallError("upstream_error", "It broke off.")
PLAIN = [event(role()), *map(event, words("Hi ", "é✓", "you")), event(delta({}, "stop")), DONE]
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
        writer.write(head + chunk(body[:count]))
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
