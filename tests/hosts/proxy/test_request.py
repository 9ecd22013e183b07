"""What of a request reaches the upstream: its path, headers, key and body."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from tests.helpers.fakes import TextBackend
from toolcall_middleware import SettingsError, ToolCallMiddleware
from toolcall_middleware.hosts.http.client_library import httpx
from toolcall_middleware.hosts.proxy.upstream.forwarder import Forwarder

from .proxy_servers import PATIENCE, FakeTransport, ask, forwarder, proxying, raw_upstream, says, scope_of, serving
from .routing import Proxies, table


def asking(transport: FakeTransport, url: str = "http://up.example:8000/v1", **options: Any) -> Forwarder:
    return forwarder(url, transport=transport, **options)


# --- addresses


BASES = ["/v1", "/v1/", "/team/v1", "/api/paas/v4", "/api/paas/v4/", "/v1beta/openai", "/v2", "/openai", "/v1/x"]
API = [
    "/chat/completions", "/completions", "/messages", "/messages/count_tokens", "/responses", "/responses/resp_1",
    "/models", "/models/a%2Fb", "/embeddings", "/moderations", "/audio/transcriptions", "/images/edits",
]  # fmt: skip


@pytest.mark.parametrize("base", BASES)
@pytest.mark.parametrize("path", [*API, "/files", "/rerank", "/v1/x"])
async def test_a_clients_v1_belongs_to_the_proxy_whatever_the_base_address_ends_in(base: str, path: str) -> None:
    upstream = FakeTransport()
    app = asking(upstream, f"http://up{base}")
    await ask(app, scope_of(f"/v1{path}"))
    if path in API:
        await ask(app, scope_of(path))
    assert set(upstream.targets) == {f"{base.rstrip('/')}{path}".encode()}


@pytest.mark.parametrize(
    ("base", "asked", "target"),
    [
        ("/v1", {"path": "/v1"}, "/v1"),
        ("/v1", {"path": "/v1/"}, "/v1/"),
        ("/v1", {"path": "/v12/x"}, "/v12/x"),
        ("/v1", {"path": "/health"}, "/health"),
        ("/v1", {"path": "/tokenize"}, "/tokenize"),
        ("/v1", {"path": "/version"}, "/version"),
        ("/v1", {"path": "/modelsx"}, "/modelsx"),
        ("/v1", {"path": "/"}, "/"),
        ("", {"path": "/v1/chat/completions"}, "/v1/chat/completions"),
        ("/", {"path": "/chat/completions"}, "/chat/completions"),
        ("", {"path": "/health"}, "/health"),
        ("/api", {"path": "/v1/models"}, "/api/models"),
        ("/api", {"path": "/health"}, "/api/health"),
        ("/team/v1", {"path": "/health"}, "/team/health"),
        ("/team/v1", {"path": "/v1/models/..a/b../.c/d.e"}, "/team/v1/models/..a/b../.c/d.e"),  # no dot segments
        # The prefix of a mounted proxy is not sent on.
        ("/v1", {"path": "/llm/v1/models", "root_path": "/llm"}, "/v1/models"),
        ("/v1", {"path": "/llmx/v1", "root_path": "/llm"}, "/llmx/v1"),
        ("/v1", {"raw_path": None, "path": "/v1/a b/ü"}, "/v1/a%20b/%C3%BC"),  # a server that gives no raw path
    ],
)
async def test_a_path_goes_where_a_client_of_the_upstream_would_find_it(
    base: str, asked: dict[str, Any], target: str
) -> None:
    upstream = FakeTransport()
    scope = scope_of(asked["path"], **{name: value for name, value in asked.items() if name != "path"})
    await ask(asking(upstream, f"http://up{base}"), {**scope, "path": asked["path"]})
    assert upstream.targets == [target.encode()]


@pytest.mark.parametrize(
    ("path", "query"),
    [
        (b"/v1/a%2Fb%20c", b""),
        (b"/v1//double///slashes", b""),
        (b"/v1/./dots/../kept", b""),
        (b"/v1/%e4%bd%a0", b"q=%E4%BD%A0&b=1+2&&c"),
        (b"/v1/x", b"redirect=http://a/?b=c#d"),
        (b"/v1/x;p=1,2!$'()*", b'[]={}|"<>`^'),
    ],
)
async def test_path_and_query_keep_their_bytes(path: bytes, query: bytes) -> None:
    upstream = FakeTransport()
    await ask(asking(upstream), scope_of(path, query=query))
    assert upstream.targets == [path + (b"?" + query if query else b"")]


async def test_the_bytes_of_the_target_are_on_the_wire() -> None:
    upstream = says(b"HTTP/1.1 204 No Content\r\n\r\n")
    async with raw_upstream(upstream) as address:
        await ask(forwarder(address + "/v1"), scope_of(b"/v1//a%2F/./..", query=b"x=%41&y"))
    assert upstream.asked[0].startswith(b"GET /v1//a%2F/./..?x=%41&y HTTP/1.1\r\n")


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        # No path leaves the upstream's prefix.
        *(
            ("GET", path, 400)
            for path in (
                "/v1/../secret", "/v1/%2e%2E/secret", "/..", "/a/./b", "/v1/..%2fsecret", "/v1/..;/x", "/v1/..\\x",
                "http://elsewhere.example/", "*", "elsewhere.example:443",
            )
        ),
        # TRACE would show the upstream's key, CONNECT would open a tunnel.
        ("TRACE", "/v1/models", 405),
        ("CONNECT", "/v1/models", 405),
    ],
)  # fmt: skip
async def test_what_is_no_request_for_the_upstream_is_refused(method: str, path: str, status: int) -> None:
    upstream = FakeTransport()
    app = asking(upstream, "http://up/team/v1", upstream_key="sk-upstream")
    answer = await ask(app, scope_of(path, method=method))
    assert (answer.status, upstream.targets) == (status, [])
    assert json.loads(answer.body)["error"]["code"] == "invalid_request"


@pytest.mark.parametrize("method", ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PURGE"])
async def test_every_method_passes(method: str) -> None:
    methods: list[str] = []

    def answer(request: httpx.Request) -> httpx.Response:
        methods.append(request.method)
        return httpx.Response(200)

    await ask(asking(FakeTransport(answer)), scope_of(method=method))
    assert methods == [method]


# --- headers


@pytest.mark.parametrize(
    ("headers", "kept"),
    [
        ([], []),
        (
            [
                (b"connection", b"keep-alive, X-Private"),
                (b"Connection", b"x-also"),
                (b"keep-alive", b"timeout=5"),
                (b"proxy-authorization", b"Basic abc"),
                (b"proxy-connection", b"close"),
                (b"te", b"trailers"),
                (b"trailer", b"x-sum"),
                (b"upgrade", b"h2c"),
                (b"expect", b"100-continue"),
                (b"x-private", b"1"),
                (b"x-also", b"1"),
                (b"x-kept", b"1"),
            ],
            [b"x-kept"],
        ),
    ],
    ids=["none", "one connection's own"],
)
async def test_the_upstream_gets_the_headers_that_the_client_sent_to_it(
    headers: list[tuple[bytes, bytes]], kept: list[bytes]
) -> None:
    upstream = FakeTransport()
    await ask(asking(upstream), scope_of(headers=headers))
    added = [b"x-forwarded-for", b"x-forwarded-proto", b"x-forwarded-host"]
    assert [name for name, _ in upstream.headers[0]] == [b"host", *kept, *added]


async def test_other_headers_keep_their_values_order_and_repetition() -> None:
    upstream = FakeTransport()
    headers = [
        (b"accept-encoding", b"identity"),
        (b"x-a", b"1"),
        (b"user-agent", b"curl/8"),
        (b"X-A", b"2"),
        (b"cookie", b"a=b"),
        (b"x-odd", b'\xff \t, "q"'),
        (b"x-empty", b""),
    ]
    await ask(asking(upstream), scope_of(headers=headers))
    kept = [pair for pair in upstream.headers[0] if not pair[0].startswith((b"host", b"x-forwarded"))]
    assert kept == [(name.lower(), value) for name, value in headers]


@pytest.mark.parametrize(
    ("said", "more", "seen"),
    [
        ([(b"x-forwarded-for", b"198.51.100.1")], {}, ([b"198.51.100.1, 192.0.2.7"], b"http", b"proxy.example:8080")),
        (
            [(b"x-forwarded-proto", b"https"), (b"x-forwarded-host", b"public.example")],
            {"client": None},
            ([], b"https", b"public.example"),
        ),
    ],
    ids=["a client", "a proxy before us"],
)
async def test_the_upstream_sees_its_own_host_and_who_asked(
    said: list[tuple[bytes, bytes]], more: dict[str, Any], seen: tuple[list[bytes], bytes, bytes]
) -> None:
    upstream = FakeTransport()
    await ask(asking(upstream), scope_of(headers=said, **more))
    who, proto, host = (upstream.sent(b"x-forwarded-" + name) for name in (b"for", b"proto", b"host"))
    assert (who, proto, host, upstream.sent(b"host")) == (seen[0], [seen[1]], [seen[2]], [b"up.example:8000"])


async def test_a_client_cannot_have_our_own_headers_dropped() -> None:
    upstream = FakeTransport()
    named = b"authorization, x-forwarded-for, host, content-length"
    headers = [(b"connection", named), (b"content-length", b"3")]
    await ask(asking(upstream, upstream_key="sk-up"), scope_of(method="POST", headers=headers), b"abc")
    names = {name for name, _ in upstream.headers[0]}
    assert names >= {b"authorization", b"x-forwarded-for", b"host", b"content-length"}


@pytest.mark.parametrize("value", [b"a\r\nx-evil: 1", b"a\nb", b"a\rb", b"a\0b"])
async def test_a_line_end_in_a_header_is_refused(value: bytes) -> None:
    upstream = FakeTransport()
    answer = await ask(asking(upstream), scope_of(headers=[(b"x-a", value)]))
    assert (answer.status, upstream.targets) == (400, [])


# --- keys


@pytest.mark.parametrize(
    ("options", "sent"),
    [
        ({}, [b"Bearer sk-client"]),
        ({"upstream_key": "sk-upstream"}, [b"Bearer sk-upstream"]),
        ({"url": "http://me:p%40ss@up.example/v1"}, [b"Basic bWU6cEBzcw=="]),
        ({"forward_authorization": False}, []),  # it is a key of this proxy
    ],
    ids=["the client's", "ours", "a login in the address", "nobody's"],
)
async def test_one_key_reaches_the_upstream_and_ours_is_shown_nowhere(
    options: dict[str, Any], sent: list[bytes]
) -> None:
    upstream = FakeTransport()
    app = asking(upstream, **options)
    shown = [(b"Authorization", b"Bearer sk-client"), *([(b"AUTHORIZATION", b"Bearer sk-other")] if options else [])]
    await ask(app, scope_of(headers=shown))
    assert upstream.sent(b"authorization") == sent
    assert upstream.sent(b"host")[0].startswith(b"up.example")
    assert not [secret for secret in ("sk-upstream", "p%40ss", "p@ss") if secret in repr(app) + app.address]


def test_an_address_that_cannot_be_asked_is_a_settings_error() -> None:
    with pytest.raises(SettingsError, match="upstream_url"):
        forwarder("http://999.1.1.1/v1", upstream_timeout=1)


# --- the body


@pytest.mark.parametrize(
    ("headers", "pieces", "framing"),
    [
        ([(b"content-length", b"3")], [b"abc"], [(b"content-length", b"3")]),
        ([(b"content-length", b"3")], [b"ab", b"c"], [(b"content-length", b"3")]),
        ([(b"content-length", b"3"), (b"content-length", b"3")], [b"abc"], [(b"content-length", b"3")]),
        ([(b"transfer-encoding", b"chunked"), (b"content-length", b"9")], [b"ab", b"c"], [(b"content-length", b"3")]),
        ([(b"transfer-encoding", b"gzip, chunked")], [b"a", b"b"], [(b"content-length", b"2")]),
        ([], [b"ab", b"c"], [(b"content-length", b"3")]),
        ([(b"content-length", b"0")], [b""], [(b"content-length", b"0")]),
        ([], [b""], []),
    ],
)
async def test_the_length_of_a_body_is_told_once(
    headers: list[tuple[bytes, bytes]], pieces: list[bytes], framing: list[tuple[bytes, bytes]]
) -> None:
    upstream = FakeTransport()
    await ask(asking(upstream), scope_of(method="POST", headers=headers), *pieces)
    told = [pair for pair in upstream.headers[0] if pair[0] in {b"content-length", b"transfer-encoding"}]
    assert told == framing
    assert upstream.bodies == [b"".join(pieces)]


@pytest.mark.parametrize(
    "lengths",
    [[b"3", b"4"], [b"-3"], [b"3, 3"], [b"+3"], [b"0x3"], [b""], [b"9" * 5000], ["٣".encode()], [b"2"], [b"4"]],
)
async def test_a_length_that_is_doubtful_or_wrong_is_refused(lengths: list[bytes]) -> None:
    upstream = FakeTransport()
    headers = [(b"content-length", length) for length in lengths]
    answer = await ask(asking(upstream), scope_of(method="POST", headers=headers), b"abc")
    assert (answer.status, upstream.targets) == (400, [])


async def test_a_bad_header_is_not_quoted() -> None:
    async with raw_upstream(lambda _reader, _writer: asyncio.sleep(0)) as address:
        answer = await ask(forwarder(address, headers=[(b"x-key", b"sk-secret\n")]), scope_of())
    assert answer.status == 400
    assert b"sk-secret" not in answer.body


async def test_an_upstream_is_asked_once_all_of_the_body_has_come() -> None:
    asked: list[bytes] = []
    messages: list[Message] = [
        {"type": "http.request", "body": b"half", "more_body": True},
        {"type": "http.disconnect"},
    ]
    sent: list[Message] = []

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.read(1))

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    async with raw_upstream(talk) as address, asyncio.timeout(PATIENCE):
        await forwarder(address)(scope_of(method="POST"), receive, send)
    assert (sent, asked) == ([], [])


async def test_a_body_beyond_the_limit_is_refused() -> None:
    upstream = FakeTransport()
    app = forwarder("http://up.example", max_request_bytes=5, transport=upstream)
    assert (await ask(app, scope_of(method="POST"), b"abc", b"def")).status == 413
    assert (await ask(app, scope_of(method="POST"), b"abc", b"de")).status == 200
    assert upstream.bodies == [b"abcde"]


async def test_connections_to_the_upstream_are_used_again() -> None:
    upstream = says(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", again=True)
    async with raw_upstream(upstream) as address, proxying(address) as client:
        for _ in range(3):
            assert (await client.post("/v1/x", content=b"abc")).text == "ok"
    assert upstream.opened == [3]


@pytest.mark.parametrize("several", [True, False])
@pytest.mark.parametrize("base", ["/api/paas/v4", "/v1beta/openai", "/v1"])
async def test_every_api_works_over_an_upstream_of_any_base_address(
    base: str, several: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = TextBackend(lambda _body: "hello", models=("m",))
    asked: set[str] = set()

    async def upstream(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            asked.add(scope["path"])
            path = scope["path"].removeprefix(base)
            scope = {**scope, "path": f"/v1{path}", "raw_path": f"/v1{path}".encode()}
        await backend(scope, receive, send)

    turns = [{"role": "user", "content": "hi"}]
    bodies: dict[str, dict[str, Any]] = {
        "/v1/chat/completions": {"messages": turns},
        "/chat/completions": {"messages": turns},
        "/v1/messages": {"messages": turns, "max_tokens": 9},
        "/v1/messages/count_tokens": {"messages": turns},
        "/v1/responses": {"input": "hi"},
    }
    async with serving(upstream) as address:
        proxies = Proxies(tmp_path, monkeypatch)
        if not several:
            monkeypatch.delenv("TOOLCALL_UPSTREAMS_FILE")
            monkeypatch.setenv("TOOLCALL_UPSTREAM_URL", address + base)
        async with proxies.running(table(address + base)) as client:
            for path, body in bodies.items():
                assert (await client.post(path, json={"model": "m", **body})).status_code == 200, path
            assert (await client.get("/v1/models")).json()["data"][0]["id"] == "m"
            await client.post("/v1/embeddings", json={"model": "m", "input": "hi"})
    wanted = {f"{base}/chat/completions", f"{base}/models", f"{base}/embeddings"}
    assert asked - {path for path in asked if path.endswith("/tokenize")} == wanted


async def test_a_body_within_the_limit_may_grow_by_what_we_write() -> None:
    upstream = FakeTransport()
    up = forwarder(max_request_bytes=400, transport=upstream)
    app = ToolCallMiddleware(up, mode="prompt", format="hermes", max_request_bytes=400)
    tool = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
    body = {"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": [tool]}
    headers = [(b"content-type", b"application/json")]
    scope = scope_of(method="POST", path="/v1/chat/completions", headers=headers)
    await ask(app, scope, json.dumps(body).encode())
    assert len(upstream.bodies[0]) > 400
