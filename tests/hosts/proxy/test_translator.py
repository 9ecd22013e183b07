"""The host of a translation, by raw ASGI messages: what it sends on, what it sends back, and how answers end."""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.types import Message, Receive, Scope, Send

from toolcall_middleware.apis.passage import Passage
from toolcall_middleware.apis.upstream import TranslatedRequest, Translation
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.hosts.proxy.upstream import providers
from toolcall_middleware.hosts.proxy.upstream.providers import PROVIDERS, Translator
from toolcall_middleware.settings import Settings

from .proxy_servers import Answer, ask, scope_of

BODY = b'{"stream": true}'


class Shouting:
    """A translation that writes all in capitals; `!` is the end of a stream."""

    def __init__(self) -> None:
        self.streamed: Shouting | None = None
        self.done = False
        self._held = b""

    def request(self, body: bytes, _passage: Passage | None = None, /) -> TranslatedRequest:
        if body == b"bad":
            raise ToolCallError("invalid_request", "bad")
        self.streamed = self if b"true" in body else None
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
    assert [message.get("body") for message in answer.got[1:]] == [b"A", b"B", b"C", b"!"]
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


# --- the tables of the documentation

PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
PDF = {"type": "file", "file": {"filename": "a.pdf", "file_data": "data:application/pdf;base64,AAAA"}}
AUDIO = {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}
SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
WEATHER: dict[str, Any] = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
NAMED = {"type": "function", "function": {"name": "weather"}}
STRICT = {"type": "function", "function": {**WEATHER["function"], "strict": True}}
CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}


def says(*parts: Any) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}, *parts]}]}


def gives(**fields: Any) -> dict[str, Any]:
    result = {"role": "tool", "tool_call_id": "call_1", "content": "sunny", **fields}
    asked = {"role": "assistant", "content": None, "tool_calls": [CALL]}
    return {"tools": [WEATHER], "messages": [{"role": "user", "content": "hi"}, asked, result]}


# A request for each feature, and the names that it must not leave in the body where the feature is left out.
REQUESTS: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "tools": ({"tools": [WEATHER]}, ()),
    "tool_choice: required": ({"tools": [WEATHER], "tool_choice": "required"}, ()),
    "tool_choice: named": ({"tools": [WEATHER], "tool_choice": NAMED}, ()),
    "tool_choice: allowed_tools": (
        {
            "tools": [WEATHER],
            "tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [NAMED]}},
        },
        (),
    ),
    "parallel_tool_calls: false": ({"tools": [WEATHER], "parallel_tool_calls": False}, ()),
    "tools: strict": ({"tools": [STRICT]}, ("strict",)),
    "arguments as a stream": ({"tools": [WEATHER], "stream": True}, ()),
    "tool: is_error": (gives(is_error=True), ("is_error",)),
    "tool: image_url": (gives(content=[PNG]), ()),
    "user: image_url": (says(PNG), ()),
    "user: file": (says(PDF), ()),
    "user: input_audio": (says(AUDIO), ()),
    "response_format": (
        {"response_format": {"type": "json_schema", "json_schema": {"name": "x", "schema": SCHEMA}}},
        ("json_schema",),
    ),
    "reasoning_effort": ({"reasoning_effort": "low"}, ("reasoning_effort",)),
    "temperature, top_p": ({"temperature": 0.5, "top_p": 0.5}, ("temperature",)),
    "stop": ({"stop": ["END"]}, ("END",)),
    "max_tokens": ({"max_completion_tokens": 100}, ()),
    "n": ({"n": 2}, ()),
    "logprobs": ({"logprobs": True, "top_logprobs": 2}, ("logprobs",)),
    "seed": ({"seed": 7}, ("seed",)),
    "frequency_penalty, presence_penalty": ({"frequency_penalty": 1, "presence_penalty": 1}, ("penalty",)),
    "logit_bias": ({"logit_bias": {"1": 1}}, ("logit",)),
}
PAGE = Path(__file__).parents[3] / "docs/reference/providers.md"
MODELS = {"anthropic": "claude-sonnet-4-5", "google": "gemini-2.5-flash"}


def tables() -> dict[str, dict[str, str]]:
    """How far each feature goes, by provider."""
    found: dict[str, dict[str, str]] = {}
    for section in PAGE.read_text("utf-8").split("\n## ")[1:]:
        rows = re.findall(r"^\| (.+?) \| (.+?) \|", section, re.MULTILINE)
        found[section.partition("\n")[0]] = dict(rows[2:])
    return found


@pytest.mark.parametrize("api", PROVIDERS)
def test_each_feature_has_a_row(api: str) -> None:
    found = tables()[api]
    assert tuple(found) == tuple(REQUESTS)
    assert set(found.values()) <= {"yes", "by model", "made up for", "left out", "refused"}


@pytest.mark.parametrize("api", PROVIDERS)
@pytest.mark.parametrize("feature", REQUESTS)
def test_a_row_says_what_happens(api: str, feature: str) -> None:
    support = tables()[api][feature]
    fields, names = REQUESTS[feature]
    body = {"model": MODELS[api], "messages": [{"role": "user", "content": "hi"}], **fields}
    translation = PROVIDERS[api].make(Settings())
    if support == "refused":
        with pytest.raises(ToolCallError) as caught:
            translation.request(json.dumps(body).encode())
        assert caught.value.status == 400
        assert caught.value.param
        return
    sent = translation.request(json.dumps(body).encode()).body.decode()
    if support == "left out":
        assert not [name for name in names if name.lower() in sent.lower()]
