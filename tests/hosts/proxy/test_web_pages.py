"""Web pages and DNS rebinding cannot drive a proxy on loopback that holds a key; pages that are named get CORS."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.types import Receive, Scope, Send

from tests.helpers.asgi_client import JSON_TYPE, TOOL, Client, ask, middleware
from toolcall_middleware import Settings, create_proxy
from toolcall_middleware.hosts.proxy.strangers import Strangers

from .proxy_servers import ask as drive
from .proxy_servers import scope_of


async def inner(_scope: Scope, _receive: Receive, send: Send) -> None:
    headers = [(b"access-control-allow-origin", b"https://upstreams.example")]
    await send({"type": "http.response.start", "status": 299, "headers": headers})
    await send({"type": "http.response.body", "body": b"inner"})


def scope(host: str = "localhost:8080", origin: str | None = None, **more: Any) -> Scope:
    headers = [(b"host", host.encode())]
    if origin is not None:
        headers.append((b"origin", origin.encode()))
    headers += more.pop("headers", [])
    given = {"method": "POST", "server": ("127.0.0.1", 80), **more}
    return {**scope_of("/v1/chat/completions", **given), "headers": headers}


async def status(asked: Scope, *, key: bool = True, **settings: Any) -> int:
    answer = await drive(Strangers(inner, Settings(**settings), open_with_key=key), asked)
    return answer.status


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST.", "api.localhost:1"])
async def test_this_machines_own_programs_and_pages_are_let_in(host: str) -> None:
    assert await status(scope(host)) == 299
    assert await status(scope(host, "http://localhost:3000")) == 299


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8080", "", "127.0.0.1.evil.example", "localhost, x"])
async def test_a_rebound_name_is_refused(host: str) -> None:
    assert await status(scope(host)) == 403
    assert await status(scope(host), allowed_hosts="api.example,*.inner.example") == 403


@pytest.mark.parametrize(
    "origin", ["https://evil.example", "null", "http://localhost.evil.example", "file://", "http://["]
)
async def test_a_foreign_page_is_refused(origin: str) -> None:
    assert await status(scope(origin=origin)) == 403
    assert await status(scope(origin=origin), cors_origins="https://app.example") == 403


async def test_names_that_are_allowed_are_let_in_on_any_address() -> None:
    hosts = "api.example,*.inner.example"
    assert await status(scope("api.example:443"), allowed_hosts=hosts) == 299
    assert await status(scope("a.inner.example", server=("10.0.0.1", 80)), allowed_hosts=hosts) == 299
    assert await status(scope("other.example", server=("10.0.0.1", 80)), allowed_hosts=hosts) == 403


async def test_a_proxy_without_a_key_or_on_another_address_is_as_before() -> None:
    assert await status(scope("any.example", "https://any.example"), key=False) == 299
    assert await status(scope("any.example", "https://any.example", server=("10.0.0.1", 80))) == 299


async def test_a_preflight_is_answered_here_and_answers_carry_cors() -> None:
    app = Strangers(inner, Settings(cors_origins="https://app.example"), open_with_key=True)
    asking = [(b"access-control-request-method", b"POST"), (b"access-control-request-headers", b"x-api-key")]
    answer = await drive(app, scope(origin="https://app.example", method="OPTIONS", headers=asking))
    told = dict(answer.headers)
    assert answer.status == 204
    assert told[b"access-control-allow-origin"] == b"https://app.example"
    assert told[b"access-control-allow-headers"] == b"x-api-key"
    answer = await drive(app, scope(origin="https://app.example"))
    assert answer.status == 299
    assert [value for name, value in answer.headers if name == b"access-control-allow-origin"] == [
        b"https://app.example"
    ]


async def test_the_whole_proxy_holds_strangers_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCALL_UPSTREAM_URL", "http://127.0.0.1:1/v1")
    monkeypatch.setenv("TOOLCALL_UPSTREAM_KEY", "sk-operators-own")
    answer = await drive(create_proxy(), scope("evil.example"), b"{}")
    assert answer.status == 403
    monkeypatch.setenv("TOOLCALL_API_KEYS", "sk-clients")
    answer = await drive(create_proxy(), scope("evil.example"), b"{}")
    assert answer.status == 401


async def test_errors_that_the_middleware_makes_in_an_app_carry_cors() -> None:
    app = middleware(inner, cors_origins="https://app.example")
    for origin, told in ((b"https://app.example", "https://app.example"), (b"https://evil.example", None)):
        client = Client(ask(tools=[TOOL, TOOL]), headers=[JSON_TYPE, (b"origin", origin)])
        made = await client.run(app)
        assert made.status == 400
        assert made.headers.get("access-control-allow-origin") == told
