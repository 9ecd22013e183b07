"""The middleware in raw ASGI messages: what is not ours passes untouched, what is ours keeps the protocol."""

from __future__ import annotations

import asyncio
import contextvars
import gc
import gzip
import json
import tracemalloc
import zlib
from pathlib import Path
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.cors import CORSMiddleware
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, StreamingResponse
from starlette.routing import Route

from tests.helpers.asgi_client import (
    BLOCK,
    CALL,
    HELLO,
    JSON_TYPE,
    SSE_TYPE,
    TOOL,
    App,
    Backend,
    Client,
    Message,
    Receive,
    Scope,
    Send,
    ask,
    middleware,
    read_body,
)
from tests.helpers.fakes import TextBackend
from tests.helpers.stream_rules import check_error, check_stream, check_whole
from toolcall_middleware import FormatError, Settings, SettingsError, ToolCallMiddleware
from toolcall_middleware.hosts.http.bodies import collect

from ...response.streams import DONE, chunk, completion, event, role, says, stream

FINISH = chunk({}, "stop")
CALLING = stream(role(), *says("Let me see. ", "```json\n", CALL[:20], CALL[20:], "\n```"), FINISH)


def events(body: bytes) -> list[bytes]:
    return [part + b"\n\n" for part in body.split(b"\n\n")[:-1]]


class Recorder:
    """An app that notes its arguments, reads the body and answers something."""

    def __init__(self) -> None:
        self.scopes: list[Scope] = []
        self.messages: list[Message] = []
        self.receives: list[Receive] = []
        self.sends: list[Send] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scopes.append(scope)
        self.receives.append(receive)
        self.sends.append(send)
        while True:
            message = await receive()
            self.messages.append(message)
            if message["type"] != "http.request" or not message.get("more_body", False):
                break
        await send({"type": "http.response.start", "status": 418, "headers": [(b"X-Odd", b"1"), (b"x-odd", b"2")]})
        await send({"type": "http.response.body", "body": b"tea", "more_body": True})
        await send({"type": "http.response.body", "body": b"pot"})


# -- what is not ours ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "client",
    [
        {"path": "/v1/models", "body": ask()},
        {"path": "/v1/chat/completions/x", "body": ask()},
        {"path": "/v1/completions", "body": ask()},
        {"method": "GET"},
        {"method": "OPTIONS"},
        {"method": "PUT", "body": ask()},
    ],
    ids=lambda client: f"{client.get('method', 'POST')} {client.get('path', '')}",
)
async def test_other_requests_reach_the_app_as_if_we_were_not_there(client: dict[str, Any]) -> None:
    made = Client(client.pop("body", b""), **client)
    recorder = Recorder()
    await made.run(middleware(recorder))
    assert recorder.scopes[0] is made.scope
    assert recorder.receives == [made.receive]
    assert recorder.sends == [made.send]


@pytest.mark.parametrize("kind", ["websocket", "lifespan", "something.new"])
async def test_other_scopes_reach_the_app_as_if_we_were_not_there(kind: str) -> None:
    seen: list[Any] = []

    async def app(*given: Any) -> None:
        seen.append(given)

    scope: Scope = {"type": kind, "path": "/v1/chat/completions"}
    client = Client()
    await middleware(app)(scope, client.receive, client.send)
    assert seen == [(scope, client.receive, client.send)]
    assert seen[0][0] is scope


async def test_nothing_is_touched_when_switched_off() -> None:
    made, recorder = Client(ask()), Recorder()
    await made.run(middleware(recorder, mode="off"))
    assert recorder.receives == [made.receive]
    assert recorder.sends == [made.send]


PLAIN = ask(tools=())


@pytest.mark.parametrize(
    "body",
    [
        PLAIN,
        ask(tools=(), stream=False),
        json.dumps({"model": "m", "messages": [{"role": "user", "content": f"the text {CALL} and tools"}]}).encode(),
        ask(tools=()).replace(b"hello", "grüße".encode("latin-1")),
        b'{ "model" :"m","n":1.0,"n":1e5, "tools": [ ] ,"messages":[]}',
        b'{"tools":null,"messages":"x"}',
        b"no json at all",
        b"[1, 2]",
        b"",
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b'{"messages":' + b"[" * 100_000,
    ],
    ids=range(12),
)
async def test_requests_without_tools_pass_byte_for_byte(body: bytes) -> None:
    single = [body[at : at + 1] for at in range(min(len(body), 50))]
    for parts in ([body], [b"", body[:7], b"", body[7:], b""], [*single, body[50:]]):
        made, recorder = Client(parts), Recorder()
        await made.run(middleware(recorder))
        assert recorder.scopes[0] is made.scope
        assert b"".join(message["body"] for message in recorder.messages) == body
        assert recorder.sends == [made.send]
        assert made.got[0]["headers"] == [(b"X-Odd", b"1"), (b"x-odd", b"2")]
        assert made.body == b"teapot"


@pytest.mark.parametrize("usage", ["auto", "count"])
@pytest.mark.parametrize("stream", [False, True])
async def test_our_own_fields_never_reach_the_app_with_or_without_tools(stream: bool, usage: str) -> None:
    options = {"stream_options": {"include_usage": True}} if stream else {}
    ours = {"toolcall": {"format": "json"}, "request_options": {"validate_tool_arguments": True}}
    backend = TextBackend(["Hello."] * 3, strict=True)
    for fields in ({"tools": ()}, {"tools": (TOOL,)}, {"tools": (), **options}):
        body = ask(stream=stream, **ours, **fields)
        made = Client([body[:30], body[30:]], headers=[JSON_TYPE, (b"Content-Length", str(len(body)).encode())])
        await made.run(middleware(backend, usage=usage))
        assert made.status == 200, made.body
        assert len(backend.last.raw) == int(backend.last.headers["content-length"])
    text = 'the text "toolcall" and "request_options" in a message is none'
    made = Client(ask(tools=(), messages=[{"role": "user", "content": json.dumps({"toolcall": text})}]))
    recorder = Recorder()
    await made.run(middleware(recorder))
    assert recorder.scopes[0] is made.scope
    assert [message["body"] for message in recorder.messages] == [message["body"] for message in made.sent]


async def test_after_the_replay_the_app_hears_from_the_client() -> None:
    heard: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)
        heard.append((await receive())["type"])

    made = Client(PLAIN)
    made.leave()
    await made.run(middleware(app))
    assert heard == ["http.disconnect"]


# -- the request's body --------------------------------------------------------------------------------------------


async def test_a_body_over_the_limit_is_refused_without_reading_on() -> None:
    recorder = Recorder()
    made = Client([b"x" * 60] * 100, headers=[JSON_TYPE])
    await made.run(middleware(recorder, max_request_bytes=100))
    assert made.status == 413
    assert check_error(made.json)["code"] == "request_too_large"
    assert recorder.scopes == []
    assert made.received == 2


async def test_a_client_that_leaves_while_sending_is_told_to_the_app() -> None:
    heard: list[Message] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        heard.extend([await receive(), await receive()])

    made = Client([ask()[:20], b""])
    made.sent[1] = made._queue[1] = {"type": "http.disconnect"}
    await made.run(middleware(app))
    assert heard == [{"type": "http.disconnect"}] * 2
    assert not made.started


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/messages/count_tokens", "/v1/responses"])
async def test_an_app_without_a_face_s_api_is_not_asked_for_a_client_that_leaves_while_sending(path: str) -> None:
    made, recorder = Client([ask()[:20], b""], path=path), Recorder()
    made.sent[1] = made._queue[1] = {"type": "http.disconnect"}
    await made.run(middleware(recorder, faces=("messages", "responses")))
    assert (recorder.scopes, made.got) == ([], [])


async def test_the_app_gets_the_new_body_once_with_its_length() -> None:
    backend = Backend(CALLING)
    headers = [
        JSON_TYPE,
        (b"Content-Length", b"999"),
        (b"Accept-Encoding", b"gzip"),
        (b"Expect", b"100-continue"),
        (b"transfer-encoding", b"chunked"),
        (b"authorization", b"Bearer x"),
        (b"x-odd", b"1"),
        (b"x-odd", b"2"),
    ]
    extensions: dict[str, Any] = {"http.response.pathsend": {}, "http.response.trailers": {}, "tls": {"cipher": 1}}
    made = Client(ask(), headers=headers, extensions=extensions, state={"a": 1})
    await made.run(middleware(backend))
    scope = backend.scopes[0]
    assert scope is not made.scope
    assert made.scope["headers"] is headers
    seen = dict(scope["headers"])
    assert int(seen[b"content-length"]) > len(ask()) - len(json.dumps(TOOL))
    assert [pair for pair in scope["headers"] if pair[0] == b"x-odd"] == [(b"x-odd", b"1"), (b"x-odd", b"2")]
    names = sorted(name for name, _ in scope["headers"])
    assert names == [b"accept-encoding", b"authorization", b"content-length", b"content-type", b"x-odd", b"x-odd"]
    assert seen[b"accept-encoding"] == b"identity"
    assert scope["extensions"] == {"tls": {"cipher": 1}}
    assert scope["state"] is made.scope["state"]
    assert "tools" not in backend.bodies[0]


# -- the answer ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [None, 1, 9])
async def test_a_stream_becomes_calls(size: int | None) -> None:
    parts = [CALLING[at : at + (size or len(CALLING))] for at in range(0, len(CALLING), size or len(CALLING))]
    made = await Client(ask()).run(middleware(Backend(*parts, b"", headers=[SSE_TYPE, (b"x-odd", b"1")])))
    answer = check_stream(made.body, tools={"weather"})
    assert (answer.only.content or "").strip() == "Let me see."
    assert answer.only.named_calls == [("weather", '{"city": "Paris"}')]
    assert made.headers == {
        "content-type": "text/event-stream",
        "x-odd": "1",
        "x-toolcall": made.headers["x-toolcall"],
    }
    assert made.headers["x-toolcall"].startswith("mode=prompt; format=")
    assert made.complete


async def test_a_stream_leaves_as_it_comes() -> None:
    """Each message of the app is answered before the next one."""
    parts = events(CALLING)
    seen: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)
        await send({"type": "http.response.start", "status": 200, "headers": [SSE_TYPE]})
        for part in parts:
            await send({"type": "http.response.body", "body": part, "more_body": True})
            seen.append(len(made.got))
        await send({"type": "http.response.body", "body": b""})

    made = Client(ask())
    await made.run(middleware(app))
    assert seen[:2] == [0, 2]  # a role alone may be the beginning of an answer that is asked for again
    assert seen[-2] > seen[2]


async def test_the_start_waits_for_what_there_is_to_say() -> None:
    seen: list[int] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)
        await send({"type": "http.response.start", "status": 200, "headers": [SSE_TYPE]})
        for part in (b"", b"da", b"ta", event(role())[4:]):
            seen.append(len(made.got))
            await send({"type": "http.response.body", "body": part, "more_body": True})
        seen.append(len(made.got))
        await send({"type": "http.response.body", "body": stream(FINISH)})

    made = Client(ask())
    await made.run(middleware(app, retries=0))
    assert seen == [0, 0, 0, 0, 2]
    assert check_stream(made.body).only.finish_reason == "stop"


async def test_a_whole_answer_becomes_calls_with_a_new_length() -> None:
    backend = TextBackend([BLOCK])
    made = await Client(ask(stream=False)).run(middleware(backend))
    answer = check_whole(made.json, tools={"weather"})
    assert answer.only.content is None
    assert made.headers["x-toolcall"].endswith("; calls=1")
    assert "etag" not in made.headers


@pytest.mark.parametrize("status", [201, 202, 206])
async def test_the_status_of_a_good_answer_stays(status: int) -> None:
    made = await Client(ask()).run(middleware(Backend(CALLING, status=status)))
    assert made.status == status
    assert len(check_stream(made.body).only.calls) == 1


@pytest.mark.parametrize("status", [204, 205, 301, 302, 304, 307])
async def test_answers_without_a_body_of_their_own_pass(status: int) -> None:
    headers = [(b"location", b"/x"), (b"content-length", b"0"), (b"etag", b"1")]
    made = await Client(ask()).run(middleware(Backend(b"", status=status, headers=headers)))
    assert (made.status, made.body, made.got[0]["headers"]) == (status, b"", headers)


async def test_an_error_that_holds_the_answer_leaves_its_own_headers_behind() -> None:
    """As Groq's and llama.cpp's do, whose parsers refuse what their model wrote."""
    written = '<tool_call>{"name": "weather", "arguments": {"city": "Paris"}}</tool_call>'
    error = {"message": "Failed.", "code": "tool_use_failed", "failed_generation": written}
    told = [(b"retry-after", b"7"), (b"retry-after-ms", b"7000"), (b"x-should-retry", b"false"), (b"x-odd", b"1")]
    backend = Backend(json.dumps({"error": error}).encode(), status=400, headers=[JSON_TYPE, *told])
    made = await Client(ask(stream=False)).run(middleware(backend, mode="native"))
    assert (made.status, check_whole(made.json).only.named_calls) == (200, [("weather", '{"city": "Paris"}')])
    assert made.headers.keys() == {"content-type", "content-length", "x-odd", "x-toolcall"}


@pytest.mark.parametrize("coding", [b"gzip", b"x-gzip", b"deflate", b"GZIP", b"identity"])
@pytest.mark.parametrize("streamed", [True, False])
async def test_an_answer_that_is_packed_all_the_same_is_unpacked(coding: bytes, streamed: bool) -> None:
    packs: dict[bytes, Any] = {b"deflate": zlib.compress, b"identity": bytes}
    pack = packs.get(coding, gzip.compress)
    plain = CALLING if streamed else completion(BLOCK)
    packed = pack(plain)
    headers = [SSE_TYPE if streamed else JSON_TYPE, (b"content-encoding", coding), (b"etag", b"1")]
    headers += [(b"content-length", str(len(packed)).encode())]
    cut = len(packed) // 2
    made = await Client(ask(stream=streamed)).run(middleware(Backend(packed[:cut], packed[cut:], headers=headers)))
    answer = check_stream(made.body) if streamed else check_whole(made.json)
    assert len(answer.only.calls) == 1
    assert not {"content-encoding", "etag"} & made.headers.keys()


async def test_a_chunk_that_leaves_as_it_was_unpacked_leaves_unpacked() -> None:
    packer = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    plain = events(stream(role(), *says("One ", "two ", "three ", "four "), FINISH))
    packed = [packer.compress(data) + packer.flush(zlib.Z_SYNC_FLUSH) for data in plain]
    headers = [SSE_TYPE, (b"content-encoding", b"gzip")]
    made = await Client(ask()).run(middleware(Backend(*packed, headers=headers)))
    assert check_stream(made.body).only.content == "One two three four "


async def test_an_answer_that_passes_stays_packed() -> None:
    packed = gzip.compress(CALLING)
    body = ask(tools=(), stream_options={"include_usage": True})
    made = await Client(body).run(middleware(Backend(packed, headers=[SSE_TYPE, (b"content-encoding", b"gzip")])))
    assert (made.body, made.headers["content-encoding"]) == (packed, "gzip")


@pytest.mark.parametrize("kind", [JSON_TYPE, SSE_TYPE, (b"content-type", b"text/plain"), None])
@pytest.mark.parametrize("size", [1, 10_000])
async def test_content_types_are_not_believed(kind: tuple[bytes, bytes] | None, size: int) -> None:
    headers = [kind] if kind else []
    for body in (CALLING, completion(BLOCK), b"\xef\xbb\xbf\r\n" + CALLING):
        parts = [body[at : at + size] for at in range(0, len(body), size)]
        made = await Client(ask()).run(middleware(Backend(*parts, headers=headers)))
        assert len(check_stream(made.body.removeprefix(b"\xef\xbb\xbf")).only.calls) == 1
        assert made.headers["content-type"] == "text/event-stream"
    whole = await Client(ask(stream=False)).run(middleware(Backend(completion(BLOCK), headers=headers)))
    assert len(check_whole(whole.json).only.calls) == 1


async def test_several_requests_at_once_do_not_mix() -> None:
    backend = TextBackend(lambda body: f"{body['messages'][-1]['content']} {BLOCK}", pause=0)
    app = middleware(backend)
    bodies = [ask(messages=[{"role": "user", "content": f"number {number}"}]) for number in range(20)]
    clients = await asyncio.gather(*(Client(body).run_with_others(app) for body in bodies))
    for number, client in enumerate(clients):
        answer = check_stream(client.body).only
        assert answer.content is not None
        assert answer.content.strip() == f"number {number}"
        assert len(answer.calls) == 1


# -- the client leaves ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stream_it", [True, False])
async def test_a_client_that_leaves_before_the_answer_is_told_to_the_app(stream_it: bool) -> None:
    heard: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)
        heard.extend([(await receive())["type"], (await receive())["type"]])

    made = Client(ask(stream=stream_it))
    asyncio.get_running_loop().call_later(0.01, made.leave)
    await made.run(middleware(app))
    assert heard == ["http.disconnect"] * 2
    assert not made.started


async def test_a_client_that_leaves_in_the_middle_is_told_to_the_app() -> None:
    backend = Backend(event(role()), *events(stream(*says("a", "b", "c") * 50)), listen=True)
    made = await Client(ask(), leave_after=3).run(middleware(backend))
    assert backend.disconnects == 1
    assert backend.written < 10
    assert not made.complete


@pytest.mark.parametrize("stream_it", [True, False])
@pytest.mark.parametrize("listens", [True, False])
async def test_no_app_is_asked_again_for_a_client_that_left(listens: bool, stream_it: bool) -> None:
    tries = 0

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        nonlocal tries
        tries += 1
        body = await read_body(receive)
        made.leave()
        if listens:
            assert (await receive())["type"] == "http.disconnect"
        whole = Backend(completion("no"), headers=[JSON_TYPE])
        backend = Backend(stream(role(), *says("no"), FINISH)) if stream_it else whole
        await backend(scope, Client(body).receive, send)

    made = Client(ask(tool_choice="required", stream=stream_it))
    await made.run(middleware(app, retries=3))
    assert tries == 1
    assert not made.started


async def test_a_send_that_fails_reaches_the_app() -> None:
    """ASGI 2.4: a server says by an OSError that the client is gone."""

    async def gone(_: Message) -> None:
        raise OSError("client is gone")

    backend = Backend(CALLING)
    made = Client(ask())
    made.on_send = gone
    with pytest.raises(OSError, match="client is gone"):
        await made.run(middleware(backend))
    assert [str(error) for error in backend.errors] == ["client is gone"]


@pytest.mark.parametrize("waiting", [2, 5])
async def test_several_tasks_of_the_app_may_wait_for_the_client(waiting: int) -> None:
    heard: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)

        async def listen() -> None:
            heard.append((await receive())["type"])

        tasks = [asyncio.ensure_future(listen()) for _ in range(waiting)]
        await asyncio.sleep(0.01)
        assert heard == []
        tasks.pop().cancel()
        await asyncio.sleep(0.01)
        assert heard == []
        made.leave()
        await asyncio.gather(*tasks)

    made = Client(ask())
    await made.run(middleware(app))
    assert heard == ["http.disconnect"] * (waiting - 1)


async def test_a_message_that_one_task_gets_is_no_disconnect_for_another() -> None:
    """Servers may send body messages that nobody expects; only a disconnect is one."""
    heard: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)

        async def listen() -> None:
            heard.append((await receive())["type"])

        tasks = [asyncio.ensure_future(listen()) for _ in range(2)]
        await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        assert heard == ["http.request"]
        made.leave()
        await asyncio.gather(*tasks)

    made = Client(ask())
    made._queue.append({"type": "http.request", "body": b"", "more_body": False})
    await made.run(middleware(app))
    assert heard == ["http.request", "http.disconnect"]


# -- generation is stopped -----------------------------------------------------------------------------------------

ONE_CALL = [event(role()), *events(stream(*says("```json\n", CALL, "\n```"), done=False))]
MORE = events(stream(*says("blah ") * 100))
SINGLE = ask(parallel_tool_calls=False)


async def test_a_plain_loop_is_stopped_by_its_next_send() -> None:
    backend = Backend(*ONE_CALL, *MORE)
    made = await Client(SINGLE).run(middleware(backend))
    assert check_stream(made.body, parallel=False).only.finish_reason == "tool_calls"
    assert len(backend.errors) == 1
    assert isinstance(backend.errors[0], OSError)
    assert backend.written <= 3


async def test_a_listening_app_is_told_of_a_disconnect() -> None:
    backend = Backend(*ONE_CALL, *MORE, listen=True)
    made = await Client(SINGLE).run(middleware(backend))
    assert (backend.disconnects, backend.errors) == (1, [])
    assert made.complete


async def test_the_client_has_its_answer_before_the_app_is_told() -> None:
    complete: list[bool] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)
        listening = asyncio.ensure_future(receive())
        listening.add_done_callback(lambda _: complete.append(made.complete))
        await send({"type": "http.response.start", "status": 200, "headers": [SSE_TYPE]})
        await send({"type": "http.response.body", "body": b"".join(ONE_CALL), "more_body": True})
        complete.append(made.complete)
        assert (await listening)["type"] == "http.disconnect"
        assert (await receive())["type"] == "http.disconnect"
        await asyncio.sleep(0.01)
        for _ in range(2):
            with pytest.raises(OSError, match="complete"):
                await send({"type": "http.response.body", "body": MORE[0], "more_body": True})

    made = Client(SINGLE)
    await made.run(middleware(app))
    assert complete == [True, True]
    check_stream(made.body, parallel=False)


async def test_an_app_that_cancels_its_sender_on_a_disconnect_cuts_nothing() -> None:
    """Starlette before ASGI 2.4 does so: the task that is cancelled is the one that we are sending in."""

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)

        async def produce() -> None:
            await send({"type": "http.response.start", "status": 200, "headers": [SSE_TYPE]})
            for part in (*ONE_CALL, *MORE):
                await send({"type": "http.response.body", "body": part, "more_body": True})

        producing = asyncio.ensure_future(produce())
        assert (await receive())["type"] == "http.disconnect"
        producing.cancel()
        await asyncio.gather(producing, return_exceptions=True)

    made = await Client(SINGLE).run(middleware(app))
    assert made.complete
    check_stream(made.body, parallel=False)


@pytest.mark.parametrize("spec_version", ["2.3", "2.4"])
@pytest.mark.parametrize("wrapped", [False, True], ids=["response", "app"])
async def test_starlettes_streams_are_stopped(spec_version: str, wrapped: bool) -> None:
    closed: list[int] = []

    async def generate() -> Any:
        written: list[bytes] = []
        try:
            for part in (*ONE_CALL, *MORE):
                yield part
                written.append(part)
                await asyncio.sleep(0)
        finally:
            closed.append(len(written))

    async def endpoint(request: Request) -> StreamingResponse:
        await request.body()
        return StreamingResponse(generate(), media_type="text/event-stream")

    async def bare(scope: Scope, receive: Receive, send: Send) -> None:
        response = await endpoint(Request(scope, receive, send))
        await response(scope, receive, send)

    app: App = Starlette(routes=[Route("/v1/chat/completions", endpoint, methods=["POST"])]) if wrapped else bare
    made = await Client(SINGLE, spec_version=spec_version).run(middleware(app))
    check_stream(made.body, parallel=False, tools={"weather"})
    assert made.headers["content-type"] == "text/event-stream; charset=utf-8"
    gc.collect()
    await asyncio.sleep(0.01)
    assert closed
    assert closed[0] < 10


async def test_fastapi_streams_are_stopped_and_whole_answers_read() -> None:
    fastapi = pytest.importorskip("fastapi")
    app = fastapi.FastAPI()

    @app.post("/v1/chat/completions")  # type: ignore[untyped-decorator, unused-ignore]
    async def endpoint(body: dict[str, Any]) -> Any:
        async def generate() -> Any:
            for part in (*ONE_CALL, *MORE):
                yield part

        return (
            StreamingResponse(generate(), media_type="text/event-stream")
            if body["stream"]
            else json.loads(completion(BLOCK))
        )

    app.add_middleware(ToolCallMiddleware, mode="prompt")
    for spec_version in ("2.3", "2.4"):
        made = await Client(SINGLE, spec_version=spec_version).run(app)
        assert len(check_stream(made.body, parallel=False).only.calls) == 1
    made = await Client(ask(stream=False)).run(app)
    assert len(check_whole(made.json).only.calls) == 1


# -- around it -----------------------------------------------------------------------------------------------------

OUTSIDE: contextvars.ContextVar[str] = contextvars.ContextVar("outside", default="unset")
INSIDE: contextvars.ContextVar[str] = contextvars.ContextVar("inside", default="unset")


@pytest.mark.parametrize("body", [ask(), ask(stream=False), PLAIN])
async def test_context_variables_go_both_ways(body: bytes) -> None:
    backend = TextBackend([BLOCK])
    seen: list[str] = []

    async def inner(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(OUTSIDE.get())
        INSIDE.set("by the app")
        await backend(scope, receive, send)

    async def outer(scope: Scope, receive: Receive, send: Send) -> None:
        OUTSIDE.set("by the server")
        await middleware(inner)(scope, receive, send)
        seen.append(INSIDE.get())

    await Client(body).run(outer)
    assert seen == ["by the server", "by the app"]


class Passing(BaseHTTPMiddleware):
    async def dispatch(self, request: Request, call_next: Any) -> Any:
        response = await call_next(request)
        response.headers["x-passed"] = "1"
        return response


def _session(app: Any) -> Any:
    from starlette.middleware.sessions import SessionMiddleware

    return SessionMiddleware(app, secret_key="x")


WRAPPERS: dict[str, Any] = {
    "gzip": lambda app: GZipMiddleware(app, minimum_size=1),
    "cors": lambda app: CORSMiddleware(app, allow_origins=["*"], expose_headers=["x-toolcall"]),
    "session": _session,
    "base": Passing,
    "ours": middleware,
}
ACCEPTING = [JSON_TYPE, (b"accept-encoding", b"gzip"), (b"origin", b"http://x")]


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize("outside", [True, False], ids=["around", "within"])
@pytest.mark.parametrize("stream_it", [True, False], ids=["stream", "whole"])
async def test_other_middlewares_may_stand_on_both_sides(name: str, outside: bool, stream_it: bool) -> None:
    wrap = WRAPPERS[name]
    backend = TextBackend([BLOCK])
    app = wrap(middleware(backend)) if outside else middleware(wrap(backend))
    made = await Client(ask(stream=stream_it), headers=ACCEPTING).run(app)
    body = made.body
    if made.headers.get("content-encoding") == "gzip":
        assert name == "gzip"
        assert outside
        body = gzip.decompress(body)
    answer = check_stream(body) if stream_it else check_whole(body)
    assert len(answer.only.calls) == 1
    assert ("x-passed" in made.headers) == (name == "base")
    assert ("access-control-allow-origin" in made.headers) == (name == "cors")


@pytest.mark.parametrize("name", WRAPPERS)
@pytest.mark.parametrize("outside", [True, False], ids=["around", "within"])
@pytest.mark.parametrize("spec_version", ["2.3", "2.4"])
async def test_generation_is_stopped_through_other_middlewares(name: str, outside: bool, spec_version: str) -> None:
    wrap = WRAPPERS[name]
    backend = TextBackend([BLOCK + " blah" * 1000], pause=0)
    app = wrap(middleware(backend)) if outside else middleware(wrap(backend))
    made = await Client(SINGLE, headers=[JSON_TYPE], spec_version=spec_version).run(app)
    assert len(check_stream(made.body, parallel=False).only.calls) == 1
    assert made.complete
    assert not backend.last.finished


async def test_two_of_them_do_the_work_once() -> None:
    backend = TextBackend([BLOCK])
    made = await Client(ask(tool_choice="required")).run(middleware(middleware(backend)))
    check_stream(made.body, must_call=True)
    assert len(backend.seen) == 1
    assert str(backend.last.body["messages"]).count('"weather"') == str((await _sent_by_one()).body["messages"]).count(
        '"weather"'
    )


async def _sent_by_one() -> Any:
    backend = TextBackend([BLOCK])
    await Client(ask(tool_choice="required")).run(middleware(backend))
    return backend.last


# -- usage alone ---------------------------------------------------------------------------------------------------

COUNTED = ask(tools=(), stream_options={"include_usage": True})


async def test_usage_is_added_to_a_stream_that_has_none() -> None:
    body = stream(role(), *says("one", " two"), FINISH)
    parts = [body[at : at + 10] for at in range(0, len(body), 10)]
    headers = [SSE_TYPE, (b"content-length", str(len(body)).encode()), (b"x-odd", b"1")]
    backend = Backend(*parts, headers=headers)
    made = await Client(COUNTED).run(middleware(backend))
    assert backend.bodies == [json.loads(COUNTED)]
    answer = check_stream(made.body, include_usage=True)
    assert made.body.startswith(body.removesuffix(DONE))
    assert answer.usage is not None
    assert answer.usage["estimated"] is True
    assert "content-length" not in made.headers
    assert (made.headers["x-odd"], made.headers["x-toolcall"]) == ("1", "mode=pass")


async def test_usage_of_the_backend_passes_to_the_byte() -> None:
    usage = {"prompt_tokens": 1, "completion_tokens": 2, "total_tokens": 3}
    body = stream(role(), *says("x"), FINISH, {**chunk({}), "choices": [], "usage": usage}).replace(b"\n", b"\r\n")
    made = await Client(COUNTED).run(middleware(Backend(body[:50], body[50:])))
    assert made.body == body


@pytest.mark.parametrize("usage", ["off", "backend"])
async def test_usage_is_not_added_where_it_is_switched_off(usage: str) -> None:
    made, recorder = Client(COUNTED), Recorder()
    await made.run(middleware(recorder, usage=usage))
    assert recorder.scopes[0] is made.scope


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (400, [JSON_TYPE]),
        (200, [JSON_TYPE]),
        (200, [SSE_TYPE, (b"content-encoding", b"br")]),
        (204, []),
        (200, []),
    ],
)
async def test_other_answers_to_a_request_for_usage_pass(status: int, headers: list[tuple[bytes, bytes]]) -> None:
    made = await Client(COUNTED).run(middleware(Backend(b"some", b"thing", status=status, headers=headers)))
    assert (made.status, made.got[0]["headers"], made.body) == (status, headers, b"something")


async def test_an_empty_stream_without_tools_passes() -> None:
    made = await Client(COUNTED).run(middleware(Backend(b"")))
    assert (made.status, made.body, made.complete) == (200, b"", True)


# -- how it is made ------------------------------------------------------------------------------------------------


def test_it_is_made_of_settings_keywords_and_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    app = Recorder()
    monkeypatch.setenv("TOOLCALL_FORMAT", "hermes")
    assert ToolCallMiddleware(app).settings.format == "hermes"
    assert ToolCallMiddleware(app, format="json").settings.format == "json"
    assert ToolCallMiddleware(app, settings=Settings(format="auto")).settings.format == "auto"
    assert ToolCallMiddleware(app, settings=Settings(format="auto"), retries=3).settings.retries == 3
    with pytest.raises(FormatError, match="known"):
        ToolCallMiddleware(app, format="nope")
    with pytest.raises(SettingsError, match="retries"):
        ToolCallMiddleware(app, retries="many")


async def test_the_paths_are_a_setting() -> None:
    backend = TextBackend([BLOCK])
    made = await Client(ask(stream=False), path="/chat").run(
        middleware(Starlette(routes=[Route("/chat", backend._chat, methods=["POST"])]), paths="/chat,/talk")
    )
    assert len(check_whole(made.json).only.calls) == 1


def test_starlette_adds_it_by_its_class() -> None:
    async def endpoint(_: Request) -> JSONResponse:
        return JSONResponse({"messages": HELLO})

    app = Starlette(routes=[Route("/x", endpoint)])
    app.add_middleware(ToolCallMiddleware)
    assert app.build_middleware_stack() is not None


# -- bodies that say they are too large, and bodies in tiny pieces -------------------------------------------------


@pytest.mark.parametrize("said", [b"2001", b"9" * 19, b"9" * 5000])
async def test_a_body_that_says_it_is_too_large_is_not_read(said: bytes) -> None:
    recorder = Recorder()
    made = Client(ask(), headers=[JSON_TYPE, (b"Content-Length", said)])
    await made.run(middleware(recorder, max_request_bytes=2000))
    assert (made.status, made.json["error"]["code"], made.received) == (413, "request_too_large", 0)
    assert recorder.scopes == []


@pytest.mark.parametrize("said", [b"2000", b"x", b"-5", b"", b"at the limit"])
async def test_a_length_that_fits_or_says_nothing_is_no_refusal(said: bytes) -> None:
    made = Client(ask(), headers=[JSON_TYPE, (b"content-length", said)])
    most = len(ask()) if said == b"at the limit" else 2000
    await made.run(middleware(TextBackend([BLOCK]), max_request_bytes=most))
    assert made.status == 200


async def test_a_body_in_tiny_pieces_takes_no_more_than_a_few_times_its_size() -> None:
    body = ask(tools=(), messages=[{"role": "user", "content": "x" * 20_000}])
    made, recorder = Client([body[at : at + 1] for at in range(len(body))]), Recorder()
    await made.run(middleware(recorder))
    assert recorder.messages == [{"type": "http.request", "body": body, "more_body": False}]
    offers = ask(messages=[{"role": "user", "content": "x" * 5000}])
    made = Client([offers[at : at + 1] for at in range(len(offers))])
    await made.run(middleware(TextBackend([BLOCK])))
    assert len(check_stream(made.body).only.calls) == 1


async def test_a_body_in_pieces_is_held_twice_at_most() -> None:
    pieces = iter([b"x" * 10_000] * 100)
    left = 100

    async def receive() -> Message:
        nonlocal left
        left -= 1
        return {"type": "http.request", "body": next(pieces), "more_body": left > 0}

    tracemalloc.start()
    try:
        body = await collect(receive, {"headers": []}, limit=None, within=None)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert body == b"x" * 1_000_000
    assert peak < 2_500_000


# -- an allowlist that does nothing --------------------------------------------------------------------------------


IDLE = "allowlist is set and does nothing, because allowlist_mode is off: set it to enforce, warn or off."
EMPTY = "allowlist is empty and allowlist_mode is enforce: every tool is refused."


@pytest.mark.parametrize(
    ("given", "warnings"),
    [
        ({"allowlist": "weather,get_*"}, [IDLE]),
        ({"allowlist": "weather,get_*", "allowlist_mode": "off"}, []),
        ({"allowlist": "weather,get_*", "allowlist_mode": "enforce"}, []),
        ({"allowlist": ()}, []),
        ({"allowlist_mode": "enforce"}, [EMPTY]),
        ({"allowlist_mode": "enforce", "allowlist": "get_*"}, []),
        ({"allowlist_mode": "warn"}, []),
        ({"allowlist_mode": "enforce", "tenants_file": "tenants.toml"}, []),  # each may have a list of its own
    ],
    ids=str,
)
def test_an_allowlist_that_cannot_be_meant_is_warned_of_at_start(
    given: dict[str, Any], warnings: list[str], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    if "tenants_file" in given:
        (tmp_path / "tenants.toml").write_text("[tenants.a]\nallowlist = 'f'\n")
        given = {**given, "tenants_file": str(tmp_path / "tenants.toml")}
    middleware(Recorder(), **given)
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == warnings


def test_the_warning_names_the_variable(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCALL_ALLOWLIST", "weather")
    ToolCallMiddleware(Recorder())
    assert caplog.records[0].getMessage().startswith("TOOLCALL_ALLOWLIST is set and does nothing")
