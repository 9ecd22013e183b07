"""Requests that could be read in two ways, over real sockets: whatever the server and the proxy make of them, the
upstream never sees a request that was hidden in another one, and no header that is not the client's to set.
"""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import importlib.util
import json
import zlib
from collections.abc import AsyncIterator, Callable
from typing import Any

import h11
import pytest

from tests.helpers.asgi_client import CALL, JSON_TYPE, TOOL, Client, Headers, ask, middleware
from tests.helpers.fakes import TextBackend
from tests.helpers.stream_rules import check_error
from toolcall_middleware import Settings, ToolCallMiddleware
from toolcall_middleware.hosts.http.client_library import httpx
from toolcall_middleware.hosts.proxy.upstream.providers import upstream_app

from .proxy_servers import PATIENCE, FakeTransport, client_of, forwarder, raw_upstream, read_request, scope_of, serving
from .proxy_servers import ask as ask_proxy

HIDDEN = b"POST /v1/admin HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"
CHUNKED_HIDDEN = b"0\r\n\r\n" + HIDDEN
CHAT = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": [TOOL]}).encode()


def head(*lines: bytes, path: bytes = b"/v1/x", method: bytes = b"POST") -> bytes:
    return b"\r\n".join([method + b" " + path + b" HTTP/1.1", b"host: proxy", *lines, b"", b""])


ATTEMPTS = {
    "length and chunked": head(b"content-length: 5", b"transfer-encoding: chunked") + CHUNKED_HIDDEN,
    "chunked and length": head(b"transfer-encoding: chunked", b"content-length: 47") + CHUNKED_HIDDEN,
    "two lengths": head(b"content-length: 0", b"content-length: %d" % len(HIDDEN)) + HIDDEN,
    "two lengths in one": head(b"content-length: 0, %d" % len(HIDDEN)) + HIDDEN,
    "a sign": head(b"content-length: +%d" % len(HIDDEN)) + HIDDEN,
    "a length in hex": head(b"content-length: 0x0") + HIDDEN,
    "a coding nobody knows": head(b"transfer-encoding: xchunked", b"content-length: 0") + CHUNKED_HIDDEN,
    "chunked twice": head(b"transfer-encoding: chunked", b"transfer-encoding: identity") + CHUNKED_HIDDEN,
    "a tab": head(b"transfer-encoding:\tchunked", b"content-length: 4") + CHUNKED_HIDDEN,
    "a blank before the colon": head(b"transfer-encoding : chunked", b"content-length: 4") + CHUNKED_HIDDEN,
    "a folded line": head(b"x-a: b\r\n transfer-encoding: chunked", b"content-length: 0") + CHUNKED_HIDDEN,
    "a bare LF": b"POST /v1/x HTTP/1.1\nhost: x\ncontent-length: 0\ntransfer-encoding: chunked\n\n" + CHUNKED_HIDDEN,
    "a chunk's extension": head(b"transfer-encoding: chunked") + b"0;a=\n" + HIDDEN + b"\r\n\r\n",
    "a chunk of wrong size": head(b"transfer-encoding: chunked") + b"3\r\nabcdef\r\n" + CHUNKED_HIDDEN,
    "a trailer": head(b"transfer-encoding: chunked") + b"0\r\ncontent-length: 50\r\nx-evil: 1\r\n\r\n",
    "connection names the length": head(b"connection: content-length, host", b"content-length: 3") + b"abc",
    "a target with a line": b"POST /v1/x\tHTTP/1.1\r\nx: HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n",
    "an escaped line": head(b"content-length: 0", path=b"/v1/x%0d%0a%0d%0aPOST%20/v1/admin%20HTTP/1.1"),
    "two hosts": head(b"host: other", b"content-length: 0"),
    "upgrade": head(b"connection: upgrade", b"upgrade: h2c", b"http2-settings: AA", b"content-length: 0"),
    "a chat with both": head(b"content-length: 5", b"transfer-encoding: chunked", path=b"/v1/chat/completions")
    + b"%x\r\n%s\r\n" % (len(CHAT), CHAT) + CHUNKED_HIDDEN,
    "a chat that is too short": head(b"content-length: %d" % (len(CHAT) - 1), path=b"/v1/chat/completions")
    + CHAT + HIDDEN,
}  # fmt: skip
HTTPS = ["h11", *(["httptools"] if importlib.util.find_spec("httptools") else [])]


class Seen:
    """An upstream that reads by h11, strictly, and keeps the target of each request."""

    def __init__(self) -> None:
        self.targets: list[bytes] = []
        self.headers: list[list[tuple[bytes, bytes]]] = []
        self.bodies: list[bytes] = []

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        state = h11.Connection(h11.SERVER)
        body = b""
        while True:
            event = state.next_event()
            if event is h11.NEED_DATA:
                data = await reader.read(65536)
                state.receive_data(data)
                if not data and state.their_state is h11.IDLE:
                    return
            elif isinstance(event, h11.Request):
                self.targets.append(event.target)
                self.headers.append(list(event.headers))
                body = b""
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                self.bodies.append(body)
                head = h11.Response(status_code=200, headers=[("content-length", "2"), ("content-type", "text/plain")])
                writer.write((state.send(head) or b"") + (state.send(h11.Data(data=b"ok")) or b""))
                writer.write(state.send(h11.EndOfMessage()) or b"")
                await writer.drain()
                if state.our_state is not h11.DONE:
                    return
                state.start_next_cycle()
            else:
                return


@contextlib.asynccontextmanager
async def between(seen: Seen, http: str) -> AsyncIterator[int]:
    async with raw_upstream(seen.talk) as upstream:
        app = middleware(forwarder(upstream, upstream_key="sk-key"))
        async with serving(app, http=http) as address:
            yield int(address.rpartition(":")[2])


async def send(port: int, data: bytes) -> bytes:
    """What the proxy answers until it closes, or has nothing more to say."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    answer = b""
    with contextlib.suppress(TimeoutError, ConnectionError):
        while data := await asyncio.wait_for(reader.read(65536), 0.3):
            answer += data
    writer.close()
    return answer


@pytest.mark.parametrize("http", HTTPS)
async def test_no_hidden_request_reaches_the_upstream_as_part_of_another(http: str) -> None:
    async def attempt(name: str, data: bytes) -> None:
        seen = Seen()
        async with between(seen, http) as port:
            answer = await send(port, data)
        answers = answer.count(b"HTTP/1.1 ")
        # A server may read two requests where there are two, and answers both then: that is no smuggling. Never more
        # requests than answers, and a body is what its own framing says.
        assert len(seen.targets) <= answers, name
        for headers in seen.headers:
            names = [key for key, _ in headers]
            framing = [key for key in names if key in {b"content-length", b"transfer-encoding"}]
            assert len(framing) <= 1, (name, framing)
            assert names.count(b"host") == 1, name
            assert not set(names) & {b"upgrade", b"x-evil", b"trailer", b"te", b"connection"}
            assert dict(headers)[b"authorization"] == b"Bearer sk-key"
        for target in seen.targets:
            assert not any(char in target for char in b" \r\n\t")
        # What follows must be read as it stands: the connection to the upstream is in step.
        assert all(body in data for body in seen.bodies if b"messages" not in body), name

    await asyncio.gather(*(attempt(name, data) for name, data in ATTEMPTS.items()))


@pytest.mark.parametrize("http", HTTPS)
async def test_connections_stay_in_step_after_any_attempt(http: str) -> None:
    """The next client's request on the same upstream connections is its own, with its own answer."""
    seen = Seen()
    async with between(seen, http) as port:
        await asyncio.gather(*(send(port, data) for data in ATTEMPTS.values()))
        for number in range(2 * len(ATTEMPTS)):
            seen.targets.clear()
            answer = await send(port, head(b"content-length: 0", b"connection: close", path=b"/v1/after/%d" % number))
            assert answer.startswith(b"HTTP/1.1 200")
            assert seen.targets == [b"/v1/after/%d" % number]


# --- what a stranger tries

CODED: dict[str, Callable[[bytes], bytes]] = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "GZip": gzip.compress,
    "deflate": zlib.compress,
}


def guarded(**settings: Any) -> tuple[ToolCallMiddleware, TextBackend]:
    """A middleware that admits no tool but `other`, and the app behind it."""
    backend = TextBackend([f"```json\n{CALL}\n```"])
    return middleware(backend, allowlist="other", allowlist_mode="enforce", **settings), backend


def coded_as(coding: str, body: bytes) -> Headers:
    return [JSON_TYPE, (b"content-length", b"%d" % len(body)), (b"Content-Encoding", coding.encode())]


# --- tools that shall not be seen


@pytest.mark.parametrize("coding", CODED)
async def test_tools_in_a_compressed_body_are_seen(coding: str) -> None:
    body = CODED[coding](ask(stream=False))
    app, backend = guarded()
    made = await Client(body, headers=coded_as(coding, body)).run(app)
    assert (made.status, check_error(made.json)["code"]) == (403, "tool_not_allowed")
    assert not backend.seen
    made = await Client(body, headers=coded_as(coding, body)).run(middleware(backend))
    assert made.json["choices"][0]["finish_reason"] == "tool_calls"


async def test_a_compressed_body_without_tools_passes_untouched() -> None:
    body = gzip.compress(ask(stream=False, tools=()))
    seen = FakeTransport()
    app = middleware(forwarder("http://up.example", transport=seen))
    await Client(body, headers=coded_as("gzip", body)).run(app)
    assert seen.bodies == [body]
    assert (seen.sent(b"content-encoding"), seen.sent(b"content-length")) == ([b"gzip"], [b"%d" % len(body)])


@pytest.mark.parametrize("tools", [True, False])
async def test_a_compressed_body_that_had_something_for_us_reaches_the_app_in_the_clear(tools: bool) -> None:
    overrides = {"toolcall": {"format": "hermes"}}
    body = gzip.compress(ask(stream=False, **overrides, **({} if tools else {"tools": ()})))
    seen = FakeTransport()
    app = middleware(forwarder("http://up.example", transport=seen))
    await Client(body, headers=coded_as("gzip", body)).run(app)
    assert "toolcall" not in json.loads(seen.bodies[0])
    assert (seen.sent(b"content-encoding"), seen.sent(b"content-length")) == ([], [b"%d" % len(seen.bodies[0])])


@pytest.mark.parametrize("coding", ["utf-8", "br", "gzip", "utf-8, br"])
async def test_a_coding_that_is_only_told_changes_nothing(coding: str) -> None:
    app, backend = guarded()
    body = ask(stream=False)
    assert (await Client(body, headers=coded_as(coding, body)).run(app)).status == 403
    made = await Client(body, headers=coded_as(coding, body)).run(middleware(backend))
    assert made.json["choices"][0]["finish_reason"] == "tool_calls"


@pytest.mark.parametrize("coding", ["br", "zstd", "gzip, gzip", "compress", "é"])
async def test_a_coding_that_cannot_be_undone_is_a_415(coding: str) -> None:
    app, backend = guarded()
    made = await Client(b"\x00", headers=coded_as(coding, b"\x00")).run(app)
    assert (made.status, check_error(made.json)["code"]) == (415, "invalid_request")
    assert not backend.seen


@pytest.mark.parametrize(
    "broken",
    [b"no gzip", gzip.compress(b"{}", mtime=0)[:-3], gzip.compress(b"{}", mtime=0) + b"more", b""],
)
async def test_a_body_that_is_not_what_its_coding_says_is_a_400(broken: bytes) -> None:
    app, backend = guarded()
    made = await Client(broken, headers=coded_as("gzip", broken)).run(app)
    assert (made.status, check_error(made.json)["code"]) == (400, "invalid_json")
    assert not backend.seen


async def test_a_bomb_goes_off_at_the_limit() -> None:
    bomb = gzip.compress(b" " * (1 << 20))
    app, backend = guarded(max_request_bytes=1 << 16)
    made = await Client(bomb, headers=coded_as("gzip", bomb)).run(app)
    assert (made.status, check_error(made.json)["code"]) == (413, "request_too_large")
    assert not backend.seen


ESCAPED = ask().replace(b'"tools"', b'"\\u0074ools"')
UNLIKE = {
    "escaped name": ESCAPED,
    "escaped name and NaN": ESCAPED[:-1] + b', "x": NaN}',
    "deep": ESCAPED[:-1] + b', "x": ' + b"[" * 3000 + b"]" * 3000 + b"}",
    **{coding: ask().decode().encode(coding) for coding in ("utf-16", "utf-16-le", "utf-32-be", "utf-8-sig")},
}


@pytest.mark.parametrize("what", UNLIKE)
async def test_tools_in_json_that_only_others_can_read_are_seen(what: str) -> None:
    app, backend = guarded()
    made = await Client(UNLIKE[what]).run(app)
    assert (made.status, check_error(made.json)["code"]) in {(403, "tool_not_allowed"), (400, "invalid_json")}
    assert not backend.seen


@pytest.mark.parametrize("name", ["Tools", "TOOLS", "tool\u017f", "Functions", "Tool_Choice", "Messages"])
@pytest.mark.parametrize(
    "beside", [(), ({"type": "function", "function": {"name": "other"}},)], ids=["alone", "beside"]
)
async def test_another_spelling_of_a_field_is_refused_where_there_is_a_policy(name: str, beside: Any) -> None:
    body = json.dumps({**json.loads(ask(tools=beside)), name: [TOOL]}).encode()
    app, backend = guarded()
    made = await Client(body).run(app)
    assert (made.status, check_error(made.json)["param"]) == (400, name)
    assert not backend.seen
    made = await Client(body).run(middleware(backend, rate_limit="9/minute"))
    assert made.status == 400
    # Without one nothing is to be guarded, and unknown fields pass.
    assert (await Client(body).run(middleware(backend))).status == 200


async def test_what_holds_no_tools_passes_in_any_json() -> None:
    for body in (ask(tools=(), stream=False)[:-1] + b', "x": NaN}', b"no json", b"\xff", '{"a": 1}'.encode("utf-16")):
        seen = FakeTransport()
        await Client(body).run(middleware(forwarder("http://up.example", transport=seen)))
        assert seen.bodies == [body]


@pytest.mark.parametrize("path", ["/v1/chat/completions/", "/v1/chat/completions//", "//chat/completions"])
async def test_a_slash_more_hides_nothing(path: str) -> None:
    app, backend = guarded()
    made = await Client(ask(), path=path).run(app)
    assert (made.status, check_error(made.json)["code"]) == (403, "tool_not_allowed")
    assert not backend.seen


async def test_a_slash_more_hides_nothing_from_a_provider_with_another_api() -> None:
    settings = Settings(allowlist="other", allowlist_mode="enforce", mode="native")
    seen = FakeTransport()
    app = upstream_app(
        settings.replace(
            upstream_api="anthropic", upstream_url="http://up.example", upstream_key="k", upstream_timeout=PATIENCE
        ),
        forward_authorization=True,
        transport=seen,
    )
    made = await Client(ask(), path="/v1/chat/completions/").run(ToolCallMiddleware(app, settings=settings))
    assert (made.status, check_error(made.json)["code"]) == (403, "tool_not_allowed")
    assert not seen.targets


async def test_tokens_are_asked_for_beside_a_path_with_a_slash_more() -> None:
    choice = {"index": 0, "message": {"role": "assistant", "content": "Hi"}, "finish_reason": "stop"}
    whole = {"id": "x", "object": "chat.completion", "created": 1, "model": "m", "choices": [choice]}
    seen = FakeTransport(lambda _request: httpx.Response(200, json=whole))
    app = middleware(forwarder("http://up.example/v1", transport=seen), tokenizer="upstream", usage="count")
    made = await Client(ask(stream=False), path="/v1/chat/completions/").run(app)
    assert made.json["usage"]["total_tokens"] > 0
    assert set(seen.targets) == {b"/v1/chat/completions/", b"/tokenize"}


@pytest.mark.parametrize("http", HTTPS)
async def test_a_method_in_lower_case_is_no_way_around_the_middleware(http: str) -> None:
    seen = FakeTransport()
    app = middleware(forwarder("http://up.example", transport=seen))
    body = ask()
    async with serving(app, http=http) as address:
        request = head(b"content-length: %d" % len(body), path=b"/v1/chat/completions", method=b"post") + body
        answer = await send(int(address.rpartition(":")[2]), request)
    assert answer.startswith(b"HTTP/1.1 405 " if http == "h11" else b"HTTP/1.1 400 ")
    assert not seen.targets


# --- answers that are another's


@pytest.mark.parametrize("first", [b"POST", b"GET", b"HEAD"])
@pytest.mark.parametrize(
    "more",
    [b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nother", b"x", b"\r\n", b"HTTP/1.1 100 Continue\r\n\r\n"],
    ids=["an answer", "a byte", "an empty line", "100"],
)
async def test_what_an_upstream_sends_behind_its_answer_is_never_the_next_clients(first: bytes, more: bytes) -> None:
    connections = 0

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        while True:
            try:
                await read_request(reader)
            except asyncio.IncompleteReadError:
                return
            body = b"" if connections == 1 and first == b"HEAD" else b"own"
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 3\r\n\r\n" + body + (more if connections == 1 else b""))
            await writer.drain()

    async with (
        raw_upstream(talk) as url,
        serving(forwarder(url)) as proxy,
        client_of(proxy) as client,
    ):
        assert (await client.request(first.decode(), "/v1/x")).status_code == 200
        answers = [await client.get("/v1/x") for _ in range(3)]
    assert [(answer.status_code, answer.text) for answer in answers] == [(200, "own")] * 3
    assert connections == 2


@pytest.mark.parametrize("http", HTTPS)
@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
async def test_a_length_where_no_body_comes_breaks_nothing(
    http: str, status: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.write(b"HTTP/1.1 " + status + b"\r\netag: x\r\ncontent-length: 7\r\n\r\n")
        await writer.drain()

    async with raw_upstream(talk) as url, serving(forwarder(url), http=http) as proxy:
        answer = await send(int(proxy.rpartition(":")[2]), head(method=b"GET") + head(method=b"GET"))
    # Both on one connection: it was not dropped in between.
    assert answer.count(b"HTTP/1.1 " + status[:3]) == 2
    assert b"content-length" not in answer.lower()
    assert not [record for record in caplog.records if record.exc_info]


async def test_the_answer_of_a_provider_is_not_asked_for_in_lower_case() -> None:
    seen = FakeTransport()
    app = upstream_app(
        Settings(upstream_api="anthropic", upstream_key="k", upstream_timeout=PATIENCE),
        forward_authorization=True,
        transport=seen,
    )
    answer = await ask_proxy(app, scope_of("/v1/chat/completions", method="post"), ask())
    assert (answer.status, json.loads(answer.body)["error"]["code"]) == (404, "unknown_url")
    assert not seen.targets
