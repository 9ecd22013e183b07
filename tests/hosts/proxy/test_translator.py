"""The host of a translation, by raw ASGI messages: what it sends on, what it sends back, and how answers end."""

from __future__ import annotations

import asyncio
import json
import zlib
from collections.abc import Awaitable, Callable
from typing import Any, cast

import pytest
from starlette.types import Message, Receive, Scope, Send

from toolcall_middleware.apis.passage import Passage
from toolcall_middleware.apis.upstream import TranslatedRequest, Translation
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.hosts.proxy.upstream import providers
from toolcall_middleware.hosts.proxy.upstream.providers import Translator
from toolcall_middleware.settings import Settings

from .proxy_servers import Answer, ask, scope_of

BODY = b'{"stream": true}'


class Shouting:
    """A translation that writes all in capitals; `!` is the end of a stream."""

    def __init__(self) -> None:
        self.stream = False
        self.done = False
        self._held = b""

    def request(self, body: bytes, _passage: Passage | None = None, /) -> TranslatedRequest:
        if body == b"bad":
            raise ToolCallError("invalid_request", "bad")
        self.stream = b"true" in body
        headers = ((b"x-beta", b"1"),)
        return TranslatedRequest("/v9/a%2Fb:go", body.upper(), query=b"alt=sse", headers=headers)

    def models(self, name: str | None, /) -> TranslatedRequest:
        return TranslatedRequest(f"/v9/models/{name}", method="GET")

    def whole(self, status: int, data: bytes, /) -> tuple[int, bytes]:
        if data == b"garbage":
            raise ToolCallError("upstream_error", "garbage")
        return status, data.upper()

    def feed(self, data: bytes, /) -> bytes:
        self.done = self.done or b"!" in data
        out, self._held = self._held + data[:-1], data[-1:]
        return out.upper()

    def finish(self, *, cut: bool) -> bytes:
        out, self._held = self._held.upper(), b""
        return out if cut or self.done else out + b"[NO END]"


App = Callable[[Scope, Receive, Send], Awaitable[None]]
shouting = cast("Callable[[], Translation]", Shouting)


class Provider:
    """An app that sends `messages` after it has read the body."""

    def __init__(self, *messages: Message, error: Exception | None = None) -> None:
        self.messages = messages
        self.error = error
        self.scope: Scope = {}
        self.body = b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = scope
        if scope["type"] == "http":
            self.body = (await receive())["body"]
        for message in self.messages:
            await send(dict(message))
        if self.error is not None:
            raise self.error


def start(status: int = 200, kind: bytes = b"application/json", *more: tuple[bytes, bytes]) -> Message:
    return {"type": "http.response.start", "status": status, "headers": [(b"content-type", kind), *more]}


def part(data: bytes, *, more: bool = False) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


SSE = start(200, b"text/event-stream; charset=utf-8")


def translator(app: App, headers: dict[str, str] | None = None, **settings: Any) -> Translator:
    api = providers.Provider("", (), "", lambda _settings: shouting(), headers or {})
    return Translator(app, api, Settings(**settings))


async def drive(
    provider: App, *pieces: bytes, path: str = "/v1/chat/completions", method: str = "POST", **limits: Any
) -> Answer:
    headers: list[tuple[bytes, bytes]] = limits.pop("headers", [])
    scope = scope_of(path, method=method, headers=headers)
    return await ask(translator(provider, **limits), scope, *(pieces or (BODY,)))


async def test_the_request_goes_out_as_the_translation_says() -> None:
    provider = Provider(start(), part(b"ok"))
    headers = [
        (b"content-length", b"2"),
        (b"Content-Type", b"text/plain"),
        (b"accept-encoding", b"gzip"),
        (b"authorization", b"Bearer x"),
        (b"x-beta", b"0"),
        (b"Cookie", b"a=b"),
        (b"X-Stainless-Lang", b"python"),
        (b"openai-organization", b"o"),
        (b"traceparent", b"00"),
    ]
    await drive(provider, b"he", b"llo", headers=headers)
    scope = provider.scope
    assert (scope["method"], scope["path"], scope["raw_path"]) == ("POST", "/v9/a/b:go", b"/v9/a%2Fb:go")
    assert scope["query_string"] == b"alt=sse"
    assert provider.body == b"HELLO"
    assert scope["headers"] == [
        (b"host", b"proxy.example:8080"),
        # Whose it is the forwarder decides.
        (b"authorization", b"Bearer x"),
        (b"traceparent", b"00"),
        (b"accept", b"*/*"),
        (b"accept-encoding", b"identity"),
        (b"x-beta", b"1"),
        (b"content-type", b"application/json"),
        (b"content-length", b"5"),
    ]


async def test_a_whole_answer_is_translated_at_its_end() -> None:
    ids = (b"request-id", b"r1")
    provider = Provider(start(418, b"text/plain", (b"content-length", b"4"), (b"etag", b"x"), ids), part(b"t"))
    provider.messages = (provider.messages[0], part(b"te", more=True), part(b"st"))
    answer = await drive(provider)
    assert (answer.status, answer.body) == (418, b"TEST")
    assert answer.headers == [
        ids,
        (b"x-request-id", b"r1"),
        (b"content-type", b"application/json"),
        (b"content-length", b"4"),
    ]


async def test_a_stream_leaves_as_it_comes() -> None:
    answer = await drive(Provider(SSE, part(b"ab", more=True), part(b"", more=True), part(b"c!", more=True), part(b"")))
    assert [message.get("body") for message in answer.messages[1:]] == [b"A", b"B", b"C", b"!"]
    assert answer.headers == [(b"content-type", b"text/event-stream")]
    assert answer.complete


async def test_a_whole_answer_to_a_stream_and_a_stream_nobody_asked_for_are_whole() -> None:
    assert (await drive(Provider(start(), part(b"ab")))).body == b"AB"
    assert (await drive(Provider(SSE, part(b"ab")), b"{}")).body == b"AB"
    assert (await drive(Provider(start(500, b"text/event-stream"), part(b"ab")))).body == b"AB"


async def test_a_stream_without_its_end_says_so() -> None:
    assert (await drive(Provider(SSE, part(b"ab")))).body == b"AB[NO END]"


FAULT = ToolCallError("upstream_timeout", "too slow")


async def test_a_stream_that_breaks_off_ends_in_the_error() -> None:
    answer = await drive(Provider(SSE, part(b"ab", more=True), error=FAULT))
    assert answer.body == b"AB" + FAULT.sse() + b"data: [DONE]\n\n"
    assert answer.complete


async def test_after_done_a_fault_is_nobodys_business() -> None:
    answer = await drive(Provider(SSE, part(b"ab!", more=True), error=FAULT))
    assert answer.body == b"AB!"
    assert answer.complete


@pytest.mark.parametrize("messages", [(), (SSE,), (start(),), (start(), part(b"x", more=True))])
async def test_a_fault_before_anything_has_left_is_the_answer(messages: tuple[Message, ...]) -> None:
    answer = await drive(Provider(*messages, error=FAULT))
    assert (answer.status, json.loads(answer.body)) == (504, json.loads(FAULT.body()))


async def test_an_app_that_ends_in_the_middle_has_broken_off() -> None:
    answer = await drive(Provider(start(), part(b"x", more=True)))
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (502, "upstream_error")
    stream = await drive(Provider(SSE, part(b"xy", more=True)))
    assert b"broke off" in stream.body
    assert stream.body.endswith(b"data: [DONE]\n\n")


async def test_an_unknown_exception_is_the_servers_to_log() -> None:
    with pytest.raises(ZeroDivisionError):
        await drive(Provider(start(), error=ZeroDivisionError()))


async def test_an_answer_that_cannot_be_read_is_the_upstreams_fault() -> None:
    answer = await drive(Provider(start(), part(b"garbage")))
    assert (answer.status, json.loads(answer.body)["error"]["message"]) == (502, "garbage")


async def test_a_coding_that_came_in_spite_of_us_is_undone() -> None:
    packed = zlib.compress(b"hello")
    answer = await drive(Provider(start(200, b"a/b", (b"content-encoding", b"deflate")), part(packed)))
    assert answer.body == b"HELLO"
    assert b"content-encoding" not in dict(answer.headers)
    unknown = await drive(Provider(start(200, b"a/b", (b"content-encoding", b"br")), part(b"x")))
    assert unknown.status == 502


async def test_limits_hold() -> None:
    too_large = await drive(Provider(), b"x" * 11, max_request_bytes=10)
    assert (too_large.status, json.loads(too_large.body)["error"]["code"]) == (413, "request_too_large")
    too_long = await drive(Provider(start(), part(b"x" * 11)), max_response_bytes=10)
    assert (too_long.status, json.loads(too_long.body)["error"]["code"]) == (502, "upstream_error")


async def test_a_request_that_cannot_be_said_is_refused() -> None:
    provider = Provider(start(), part(b"x"))
    answer = await drive(provider, b"bad")
    assert (answer.status, provider.scope) == (400, {})


@pytest.mark.parametrize(
    ("method", "path", "target"),
    [
        ("GET", "/v1/models", b"/v9/models/None"),
        ("GET", "/models/", b"/v9/models/None"),
        ("GET", "/v1/models/a%20b", b"/v9/models/a b"),
        ("POST", "/chat/completions", b"/v9/a%2Fb:go"),
    ],
)
async def test_paths_work_with_and_without_v1(method: str, path: str, target: bytes) -> None:
    provider = Provider(start(), part(b"x"))
    assert (await drive(provider, path=path, method=method)).body == b"X"
    assert provider.scope["raw_path"] == target


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/chat/completions"),
        ("POST", "/v1/embeddings"),
        ("DELETE", "/v1/models/x"),
        ("POST", "/v2/chat/completions"),
        ("GET", "/"),
    ],
)
async def test_other_paths_are_not_found(method: str, path: str) -> None:
    provider = Provider(start(), part(b"x"))
    answer = await drive(provider, path=path, method=method)
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (404, "unknown_url")
    assert provider.scope == {}


async def test_lifespan_goes_to_the_app() -> None:
    provider = Provider()
    app = translator(provider)

    async def nothing(*_: Any) -> Any:
        raise AssertionError

    await app({"type": "lifespan"}, nothing, nothing)
    assert provider.scope == {"type": "lifespan"}


async def test_the_app_hears_that_the_client_has_gone() -> None:
    heard: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        heard.append((await receive())["type"])
        await send(start())
        await send(part(b"x"))

    messages: list[Message] = [{"type": "http.request", "body": BODY}, {"type": "http.disconnect"}]

    async def receive() -> Message:
        await asyncio.sleep(0)
        return messages.pop(0)

    async def send(message: Message) -> None:
        pass

    await translator(app)(scope_of("/v1/chat/completions", method="POST"), receive, send)
    assert heard == ["http.disconnect"]


async def test_a_client_that_leaves_in_its_request_is_not_answered() -> None:
    sent: list[Message] = []

    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        sent.append(message)

    await translator(Provider())(scope_of("/v1/chat/completions", method="POST"), receive, send)
    assert sent == []
