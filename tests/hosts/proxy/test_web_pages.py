"""Web pages and DNS rebinding cannot drive a proxy on loopback that holds a key; pages that are named get CORS."""

from __future__ import annotations

import asyncio
import signal
from typing import Any

import pytest
from starlette.types import Scope

from tests.helpers.asgi_client import Backend
from toolcall_middleware import Settings, create_proxy
from toolcall_middleware.hosts.proxy.app import Proxy
from toolcall_middleware.hosts.proxy.upstream.upstream import Upstream, UpstreamConfig

from .proxy_servers import PATIENCE, scope_of
from .proxy_servers import ask as drive
from .routing import Proxies, table

inner = Backend(b"inner", status=299, headers=[(b"access-control-allow-origin", b"https://upstreams.example")])


def scope(host: str = "localhost:8080", origin: str | None = None, **more: Any) -> Scope:
    headers = [(b"host", host.encode())]
    if origin is not None:
        headers.append((b"origin", origin.encode()))
    headers += more.pop("headers", [])
    given = {"method": "POST", "server": ("127.0.0.1", 80), **more}
    return {**scope_of("/v1/chat/completions", **given), "headers": headers}


def guarded(*, key: bool = True, **settings: Any) -> Proxy:
    """A proxy of one upstream, with a key of the operator's or without."""
    values = {"upstream_url": "http://127.0.0.1:1/v1", "access_log": "off", **settings}
    config = UpstreamConfig("up", ("*",), Settings(**values, upstream_key="sk-1" if key else None))
    upstream = Upstream(config, forward_authorization=True)
    return Proxy(inner, Settings(**values), upstreams=lambda: [upstream])


LOCAL = ["localhost", "127.0.0.1:8080", "[::1]:8080", "LOCALHOST.", "api.localhost:1"]
REBOUND = ["evil.example", "evil.example:8080", "", "127.0.0.1.evil.example", "localhost, x"]
FOREIGN = ["https://evil.example", "null", "http://localhost.evil.example", "file://", "http://["]
LOOPBACK = ["127.0.0.1", "::1", "::ffff:127.0.0.1", "127.8.9.1"]
HOSTS = {"allowed_hosts": "api.example,*.inner.example"}
ELSEWHERE = ("10.0.0.1", 80)


@pytest.mark.parametrize(
    ("asked", "settings", "expected"),
    [
        # This machine's own programs and pages.
        *((scope(host), {}, 299) for host in LOCAL),
        *((scope(host, "http://localhost:3000"), {}, 299) for host in LOCAL),
        # A name that was made to lead here, on every address of loopback, and a page of another site.
        *((scope(host), more, 403) for host in REBOUND for more in ({}, HOSTS)),
        *((scope("evil.example", server=(server, 80)), {}, 403) for server in LOOPBACK),
        *(
            (scope(origin=page), more, 403)
            for page in FOREIGN
            for more in ({}, {"cors_origins": "https://app.example"})
        ),
        # Names that are allowed, on any address.
        (scope("api.example:443"), HOSTS, 299),
        (scope("a.inner.example", server=ELSEWHERE), HOSTS, 299),
        (scope("other.example", server=ELSEWHERE), HOSTS, 403),
        # A proxy without a key, or on another address.
        (scope("any.example", "https://any.example"), {"key": False}, 299),
        (scope("any.example", "https://any.example", server=ELSEWHERE), {}, 299),
        # HTTP/1.0 needs no host.
        ({**scope(), "http_version": "1.0", "headers": []}, {"key": False}, 299),
        ({**scope(), "http_version": "1.0", "headers": []}, {}, 403),
    ],
)
async def test_who_may_ask_a_proxy_on_loopback_that_holds_a_key(
    asked: Scope, settings: dict[str, Any], expected: int
) -> None:
    assert (await drive(guarded(**settings), asked)).status == expected


async def test_a_preflight_is_answered_here_and_answers_carry_cors() -> None:
    app = guarded(cors_origins="https://app.example")
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


CREDENTIALS: dict[str, dict[str, Any]] = {
    "a short key": {"key": "sk-1"},
    "a login in the address": {"url": "http://me:pw@127.0.0.1:1/v1"},
    "a user in the address": {"url": "http://me@127.0.0.1:1/v1"},
    "a header with a harmless name": {"headers": {"x-team": "blue"}},
    "a key of the second upstream": {"models": ["b"], "key": "sk-2"},
}


@pytest.mark.parametrize("kind", CREDENTIALS)
@pytest.mark.parametrize("page", [("evil.example", None), ("localhost", "https://evil.example")])
async def test_any_credential_closes_the_proxy_to_pages(
    kind: str, page: tuple[str, str | None], proxies: Proxies
) -> None:
    plain = table("http://127.0.0.1:2/v1", models=["a"], name="plain")
    app = proxies.build(plain, table(**{"url": "http://127.0.0.1:1/v1", **CREDENTIALS[kind]}))
    assert (await drive(app, scope(*page), b"{}")).status == 403


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="signals of POSIX")
async def test_a_credential_that_a_reload_brings_closes_it_too(proxies: Proxies) -> None:
    async with proxies.running(table("http://127.0.0.1:1/v1")) as client:
        assert (await client.get("/health", headers={"host": "evil.example"})).status_code == 502
        proxies.write(table("http://127.0.0.1:1/v1", key="sk-1"))
        signal.raise_signal(signal.SIGHUP)
        async with asyncio.timeout(PATIENCE):
            while (await client.get("/health", headers={"host": "evil.example"})).status_code != 403:  # noqa: ASYNC110
                await asyncio.sleep(0.01)


@pytest.mark.parametrize("hosts", [[], [b"localhost", b"localhost"], [b"localhost", b"evil.example"]])
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/models", "/health"])
async def test_a_request_has_one_host(hosts: list[bytes], path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOOLCALL_UPSTREAM_URL", "http://127.0.0.1:1/v1")
    asked = {**scope_of(path), "headers": [(b"host", host) for host in hosts]}
    assert (await drive(create_proxy(), asked)).status == 400
