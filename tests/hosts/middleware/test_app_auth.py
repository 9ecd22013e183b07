"""Where the app wants a key, who shows none gets the app's 401 and learns nothing of ours."""

from __future__ import annotations

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.helpers.asgi_client import BLOCK, JSON_TYPE, TOOL, Client, Headers, ask, middleware
from tests.helpers.fakes import TextBackend


class AuthenticationMiddleware:
    """As vLLM's: answers 401 before anything else where the key is wrong, but for OPTIONS."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app
        self.asked: list[Scope] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.asked.append(scope)
        if scope["method"] == "OPTIONS" or dict(scope["headers"]).get(b"authorization") == b"Bearer right":
            await self.app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 401, "headers": [JSON_TYPE]})
        await send({"type": "http.response.body", "body": b'{"error":"Unauthorized"}'})


async def get_is_no_method(scope: Scope, receive: Receive, send: Send) -> None:
    """As FastAPI's: a GET of a POST route is a 405."""
    if scope["method"] == "POST":
        await TextBackend([BLOCK])(scope, receive, send)
        return
    await send({"type": "http.response.start", "status": 405, "headers": []})
    await send({"type": "http.response.body", "body": b""})


BAD = {
    "two tools of one name": ask(tools=[TOOL, TOOL]),
    "no JSON": b'{"tools": [',
    "too large": ask(x="x" * 3000),
    "not allowed": ask(),
}


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/api/chat"])
@pytest.mark.parametrize("stream", [False, True])
async def test_the_apps_own_401_tells_nothing_of_ours(path: str, stream: bool) -> None:
    app = middleware(AuthenticationMiddleware(get_is_no_method), faces="chat,messages", max_tools=9)
    made = await Client(ask(stream=stream, max_tokens=5), path=path, headers=[JSON_TYPE]).run(app)
    assert made.status == 401
    assert b"Unauthorized" in made.body
    assert "x-toolcall" not in made.headers


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat"])
@pytest.mark.parametrize("length", [None, b"65537", b"9000000"])
async def test_of_who_shows_no_key_no_large_body_is_read(path: str, length: bytes | None) -> None:
    app = middleware(AuthenticationMiddleware(get_is_no_method), max_tools=9)
    headers: Headers = [JSON_TYPE, *([(b"content-length", length)] if length else [])]
    parts = [ask(x="x" * 3000), *([b" " * 90_000] * 100)]
    client = Client(parts, path=path, headers=headers)
    made = await client.run(app)
    assert (made.status, made.body, client.received) == (401, b'{"error":"Unauthorized"}', 0)
    client = Client(ask(x="x" * 90_000), headers=[*headers[:1], (b"authorization", b"Bearer right")])
    assert (await client.run(app)).status == 200


async def test_the_app_is_asked_about_a_key_by_a_get_that_announces_no_body() -> None:
    keys = AuthenticationMiddleware(get_is_no_method)
    coded: Headers = [(b"content-encoding", b"gzip"), (b"transfer-encoding", b"chunked"), (b"expect", b"100-continue")]
    key: Headers = [(b"authorization", b"Bearer wrong"), (b"x-odd", b"1")]
    client = Client(b"x", path="/api/chat", headers=[JSON_TYPE, *coded, (b"content-length", b"65537"), *key])
    assert (await client.run(middleware(keys, max_tools=9))).status == 401
    assert [(scope["method"], scope["headers"]) for scope in keys.asked] == [("GET", key)]


async def test_a_preflight_has_no_body_and_reaches_the_app() -> None:
    app = middleware(AuthenticationMiddleware(get_is_no_method), max_tools=9)
    assert (await Client(b"", method="OPTIONS", path="/api/chat", headers=[]).run(app)).status == 405


@pytest.mark.parametrize("key", [None, b"Bearer wrong"])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/chat"])
@pytest.mark.parametrize("kind", BAD)
async def test_who_shows_no_key_gets_the_apps_401(kind: str, key: bytes | None, path: str) -> None:
    options = {"allowlist": "other", "allowlist_mode": "enforce", "max_request_bytes": 2000}
    app = middleware(AuthenticationMiddleware(get_is_no_method), **options)
    headers: Headers = [JSON_TYPE, *([(b"authorization", key)] if key else [])]
    made = await Client(BAD[kind], path=path, headers=headers).run(app)
    assert (made.status, made.body) == (401, b'{"error":"Unauthorized"}')
    assert "x-toolcall" not in made.headers
    made = await Client(BAD[kind], path=path, headers=[JSON_TYPE, (b"authorization", b"Bearer right")]).run(app)
    assert made.status in {400, 403, 413}
