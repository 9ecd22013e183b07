"""Where the app wants a key, who shows none gets the app's 401 and learns nothing of ours."""

from __future__ import annotations

import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from ...fakes import TextBackend
from ..asgi_client import BLOCK, JSON_TYPE, TOOL, Client, Headers, ask, middleware


class AuthenticationMiddleware:
    """As vLLM's: answers 401 before anything else where the key is wrong."""

    def __init__(self, app: ASGIApp) -> None:
        self.app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if dict(scope["headers"]).get(b"authorization") == b"Bearer right":
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


@pytest.mark.parametrize("key", [None, b"Bearer wrong"])
@pytest.mark.parametrize("kind", BAD)
async def test_who_shows_no_key_gets_the_apps_401(kind: str, key: bytes | None) -> None:
    options = {"allowlist": "other", "allowlist_mode": "enforce", "max_request_bytes": 2000}
    app = middleware(AuthenticationMiddleware(get_is_no_method), **options)
    headers: Headers = [JSON_TYPE, *([(b"authorization", key)] if key else [])]
    made = await Client(BAD[kind], headers=headers).run(app)
    assert (made.status, made.body) == (401, b'{"error":"Unauthorized"}')
    assert "x-toolcall" not in made.headers
    made = await Client(BAD[kind], headers=[JSON_TYPE, (b"authorization", b"Bearer right")]).run(app)
    assert made.status in {400, 403, 413}
