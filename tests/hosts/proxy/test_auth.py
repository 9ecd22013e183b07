"""What the proxy answers by itself, and how it is put together from the environment."""

from __future__ import annotations

import asyncio
import hmac
import json
import signal
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.middleware.cors import CORSMiddleware
from starlette.types import Receive, Scope, Send

from tests.helpers.asgi_client import Backend, Client
from tests.helpers.fakes import TextBackend
from toolcall_middleware import Settings, SettingsError, ToolCallMiddleware, create_proxy
from toolcall_middleware.hosts.http.cors import is_loopback
from toolcall_middleware.hosts.proxy.app import Keys, Proxy
from toolcall_middleware.hosts.proxy.upstream.upstream import Upstream, UpstreamConfig

from .proxy_servers import PATIENCE, ask, client_of, proxy_around, raw_upstream, says, scope_of, serving
from .proxy_servers import ask as drive
from .routing import Proxies, table

inner = Backend(b"inner", status=299, headers=[])


async def never(scope: Scope, receive: Receive, send: Send) -> None:
    raise AssertionError("reached")


KEYS = ("sk-one", "sk-two")


@pytest.mark.parametrize("method", ["GET", "HEAD"])
async def test_healthz_needs_no_upstream_and_no_key(method: str) -> None:
    answer = await ask(proxy_around(never, api_keys=KEYS), scope_of("/healthz", method=method))
    assert (answer.status, json.loads(answer.body)) == (200, {"status": "ok"})
    assert (b"content-type", b"application/json") in answer.headers


async def test_healthz_is_found_below_a_prefix_and_nowhere_else() -> None:
    assert (await ask(proxy_around(inner), scope_of("/llm/healthz", root_path="/llm"))).status == 200
    for scope in (scope_of("/healthz", method="POST"), scope_of("/v1/healthz"), scope_of("/healthz/")):
        assert (await ask(proxy_around(inner), scope)).status == 299


@pytest.mark.parametrize("shown", [b"Bearer sk-one", b"Bearer sk-two", b"bearer sk-two", b"Bearer  sk-one "])
async def test_each_of_the_keys_opens(shown: bytes) -> None:
    assert (await ask(proxy_around(inner, api_keys=KEYS), scope_of(headers=[(b"Authorization", shown)]))).status == 299


@pytest.mark.parametrize(
    "shown",
    [
        [],
        [b""],
        [b"Bearer"],
        [b"Bearer "],
        [b"sk-one"],
        [b"Basic sk-one"],
        [b"Bearer sk-on"],
        [b"Bearer sk-onee"],
        [b"Bearer sk-one,sk-two"],
        [b"Bearer SK-ONE"],
        [b"Bearer \xff"],
        [b"Bearer wrong", b"Bearer sk-one"],
    ],
)
async def test_anything_else_is_a_401_that_tells_no_key(shown: list[bytes]) -> None:
    headers = [(b"authorization", value) for value in shown]
    answer = await ask(proxy_around(never, api_keys=KEYS), scope_of("/v1/models", headers=headers))
    error = json.loads(answer.body)["error"]
    assert (answer.status, error["code"], error["type"]) == (401, "invalid_api_key", "invalid_request_error")
    assert (b"www-authenticate", b"Bearer") in answer.headers
    assert b"sk-" not in answer.body


async def test_every_key_is_compared_without_haste(monkeypatch: pytest.MonkeyPatch) -> None:
    compared: list[bytes] = []

    def compare(shown: bytes, known: bytes) -> bool:
        compared.append(known)
        return shown == known

    monkeypatch.setattr(hmac, "compare_digest", compare)
    await ask(proxy_around(inner, api_keys=KEYS), scope_of(headers=[(b"authorization", b"Bearer sk-one")]))
    assert compared == [b"sk-one", b"sk-two"]


@pytest.mark.parametrize(
    ("shown", "tenant"),
    [("sk-one", "blue"), ("a=b", "red-2"), ("c2stb25l==", None), ("plain", None), ("=x", None), ("no name=k", None)],
)
async def test_a_named_key_tells_whose_it_is(shown: str, tenant: str | None) -> None:
    keys = Keys(("blue=sk-one", "red-2=a=b", "c2stb25l==", "plain", "=x", "no name=k"))
    scope = keys.opened(scope_of(headers=[(b"authorization", f"Bearer {shown}".encode())]))
    assert scope.get("toolcall.tenant") == tenant


async def test_a_name_alone_or_with_its_key_opens_nothing() -> None:
    for shown in (b"Bearer blue", b"Bearer blue=sk-one", b"Bearer blue="):
        answer = await ask(
            proxy_around(never, api_keys=("blue=sk-one",)), scope_of(headers=[(b"authorization", shown)])
        )
        assert answer.status == 401


async def test_a_client_cannot_say_whose_it_is() -> None:
    """The name is a key of the scope, and nothing that comes over the wire becomes one."""
    answer = await ask(proxy_around(inner, api_keys=KEYS), scope_of(headers=[(b"toolcall.tenant", b"blue")]))
    assert answer.status == 401


@pytest.mark.parametrize(
    "shown",
    [
        [(b"authorization", b"Bearer sk-one")],
        [(b"X-Api-Key", b"sk-one")],
        [(b"Authorization", b"bearer  sk-one "), (b"x-api-key", b"anything")],
        [(b"x-api-key", b"sk-two"), (b"x-api-key", b"a"), (b"authorization", b"Bearer sk-one")],
    ],
)
async def test_no_other_key_than_the_one_that_opened_says_who_asks(shown: list[tuple[bytes, bytes]]) -> None:
    """Else a client has as many budgets, and settings, as it makes up values for the header that is not compared."""
    app = Backend(status=299)
    assert (await ask(proxy_around(app, api_keys=KEYS), scope_of(headers=[(b"a", b"b"), *shown]))).status == 299
    told = [(b"a", b"b"), (b"authorization", b"Bearer sk-one"), (b"x-api-key", b"sk-one")]
    assert [
        pair for pair in app.scopes[0]["headers"] if pair in told or pair[0].lower() in {b"authorization", b"x-api-key"}
    ] == told


async def test_while_it_drains_everything_new_is_a_503() -> None:
    gate = proxy_around(never)
    gate.drain()
    health, ready, other = [await ask(gate, scope_of(path)) for path in ("/healthz", "/readyz", "/v1/models")]
    for answer in (health, ready):
        assert (answer.status, json.loads(answer.body)) == (503, {"status": "draining"})
    assert (other.status, json.loads(other.body)["error"]["code"]) == (503, "upstream_error")
    for answer in (health, ready, other):
        assert {(b"connection", b"close"), (b"retry-after", b"1")} <= set(answer.headers)


async def test_without_keys_everybody_passes() -> None:
    assert (await ask(proxy_around(inner), scope_of())).status == 299


# --- create_proxy


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UPSTREAM_URL", "UPSTREAM_KEY", "UPSTREAM_API", "UPSTREAMS_FILE", "API_KEYS", "MODE"):
        monkeypatch.delenv(f"TOOLCALL_{name}", raising=False)


async def test_the_factory_builds_the_proxy_from_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    upstream = says(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
    async with raw_upstream(upstream) as url:
        monkeypatch.setenv("TOOLCALL_UPSTREAM_URL", url + "/v1")
        monkeypatch.setenv("TOOLCALL_UPSTREAM_KEY", "sk-upstream")
        monkeypatch.setenv("TOOLCALL_API_KEYS", "sk-one, sk-two")
        async with serving(create_proxy()) as address, client_of(address) as client:
            refused = await client.get("/v1/models")
            passed = await client.get("/v1/models", headers={"authorization": "Bearer sk-two"})
            health = await client.get("/healthz")
    assert (refused.status_code, passed.status_code, health.json()) == (401, 200, {"status": "ok"})
    (request,) = upstream.asked
    assert request.startswith(b"GET /v1/models HTTP/1.1\r\n")
    assert b"authorization: Bearer sk-upstream\r\n" in request
    assert b"sk-two" not in request


async def test_a_key_of_the_proxy_does_not_reach_an_upstream_without_key(monkeypatch: pytest.MonkeyPatch) -> None:
    upstream = says(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
    async with raw_upstream(upstream) as url:
        monkeypatch.setenv("TOOLCALL_UPSTREAM_URL", url)
        monkeypatch.setenv("TOOLCALL_API_KEYS", "sk-one")
        await ask(create_proxy(), scope_of(headers=[(b"authorization", b"Bearer sk-one")]))
    (request,) = upstream.asked
    assert b"authorization" not in request


def test_a_missing_upstream_says_how_to_give_one() -> None:
    with pytest.raises(SettingsError, match=r"--upstream URL .* TOOLCALL_UPSTREAM_URL"):
        create_proxy()


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("[::1]", True),
        ("LOCALHOST.", True),
        ("::ffff:127.0.0.1", True),  # as a socket of both families has it
        ("::ffff:192.0.2.1", False),
        ("localhost", True),
        ("0.0.0.0", False),
        ("::", False),
        ("", False),
        ("192.0.2.1", False),
        ("example.org", False),
    ],
)
def test_loopback_is_what_nobody_else_reaches(host: str, *, loopback: bool) -> None:
    assert is_loopback(host) is loopback


# --- web pages

behind = Backend(b"inner", status=299, headers=[(b"access-control-allow-origin", b"https://upstreams.example")])


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
    return Proxy(behind, Settings(**values), upstreams=lambda: [upstream])


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
        *(
            (scope(host, server=ELSEWHERE), HOSTS, 403)
            for host in ("other.example", "evilinner.example", "inner.example")
        ),
        (scope(origin="https://App.example/"), {"cors_origins": "https://app.example"}, 299),
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
    assert answer.status == 204
    assert answer.headers[:5] == [
        (b"access-control-allow-origin", b"https://app.example"),
        (b"vary", b"origin"),
        (b"access-control-allow-methods", b"GET, HEAD, POST, DELETE, OPTIONS"),
        (b"access-control-allow-headers", b"x-api-key"),
        (b"access-control-max-age", b"600"),
    ]
    answer = await drive(app, scope(origin="https://app.example"))
    assert answer.status == 299
    assert [value for name, value in answer.headers if name == b"access-control-allow-origin"] == [
        b"https://app.example"
    ]
    assert (b"vary", b"origin") in answer.headers
    (exposed,) = (value for name, value in answer.headers if name == b"access-control-expose-headers")
    assert {b"x-request-id", b"x-toolcall", b"x-ratelimit-remaining-tokens"} <= set(exposed.split(b", "))


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


# --- pages that an app admits

BAD = b'{"model": "m", "messages": [], "tools": [5]}'
PAGE = b"https://page.example"


def app(**settings: Any) -> ToolCallMiddleware:
    inner = Starlette()
    inner.mount("/", TextBackend(["Hello."]))
    return ToolCallMiddleware(CORSMiddleware(inner, allow_origins=[PAGE.decode()]), **settings)


@pytest.mark.parametrize(("origin", "told"), [(PAGE, PAGE.decode()), (b"https://evil.example", None)])
async def test_an_error_of_ours_tells_the_page_that_may_ask(origin: bytes, told: str | None) -> None:
    headers = [(b"content-type", b"application/json"), (b"origin", origin)]
    made = await Client(BAD, headers=headers).run(app(cors_origins=PAGE.decode()))
    assert made.status == 400
    assert made.headers.get("access-control-allow-origin") == told


async def test_without_the_setting_there_are_none() -> None:
    headers = [(b"content-type", b"application/json"), (b"origin", PAGE)]
    made = await Client(BAD, headers=headers).run(app())
    assert made.status == 400
    assert "access-control-allow-origin" not in made.headers
