"""A request that comes back to the proxy that sent it ends there, however many proxies are in the circle."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from starlette.types import ASGIApp, Receive, Scope, Send

from tests.helpers.asgi_client import close
from tests.helpers.fakes import TextBackend
from toolcall_middleware.hosts.proxy.app import create_proxy

from .proxy_servers import client_of, serving
from .routing import Proxies, chat, table


class Counted:
    """An app that counts requests; where it is set later, so that its address can be known first."""

    def __init__(self) -> None:
        self.app: ASGIApp | None = None
        self.asked: list[str] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.complete"})
            await receive()
            if self.app is not None:
                await close(self.app)
            await send({"type": "lifespan.shutdown.complete"})
            return
        assert self.app is not None
        if scope["type"] == "http":
            self.asked.append(scope["path"])
        await self.app(scope, receive, send)


@contextlib.asynccontextmanager
async def circle(
    monkeypatch: pytest.MonkeyPatch, size: int, **settings: str
) -> AsyncIterator[tuple[httpx.AsyncClient, list[Counted]]]:
    """A client of the first of `size` proxies, each of which has the next one as its upstream."""
    apps = [Counted() for _ in range(size)]
    async with contextlib.AsyncExitStack() as stack:
        addresses = [await stack.enter_async_context(serving(app)) for app in apps]
        for at, app in enumerate(apps):
            monkeypatch.setenv("TOOLCALL_UPSTREAM_URL", f"{addresses[(at + 1) % size]}/v1")
            for name, value in settings.items():
                monkeypatch.setenv(f"TOOLCALL_{name.upper()}", value)
            app.app = create_proxy()
        yield await stack.enter_async_context(client_of(addresses[0])), apps


BODIES: dict[str, dict[str, Any] | None] = {
    "/v1/chat/completions": chat(),
    "/v1/messages": chat(max_tokens=9),
    "/v1/messages/count_tokens": chat(),
    "/v1/responses": {"model": "m", "input": "x"},
    "/v1/embeddings": {"model": "m", "input": "x"},
    "/v1/models": None,
    "/tokenize": {"prompt": "x"},
}


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("path", BODIES)
async def test_a_circle_of_proxies_ends_where_it_began(path: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async with circle(monkeypatch, size) as (client, apps):
        body = BODIES[path]
        answer = await (client.get(path) if body is None else client.post(path, json=body))
    assert sum(len(app.asked) for app in apps) <= (size + 1) * 3  # count_tokens asks for a count, too
    if path != "/v1/messages/count_tokens":  # which counts by itself then
        assert answer.status_code == 508
        assert "already passed this proxy" in answer.text
        assert answer.headers["x-should-retry"] == "false"


@pytest.mark.parametrize("size", [1, 2])
async def test_readiness_does_not_run_in_a_circle(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    async with circle(monkeypatch, size) as (client, apps):
        assert (await client.get("/readyz")).status_code == 503
    assert sum(len(app.asked) for app in apps) == size + 1


async def test_a_list_of_models_does_not_run_in_a_circle(proxies: Proxies) -> None:
    app = Counted()
    async with serving(app) as address:
        app.app = proxies.build(table(f"{address}/v1"))
        async with client_of(address) as client:
            assert (await client.get("/v1/models")).json()["data"] == []
    assert app.asked == ["/v1/models"] * 2


async def test_an_anthropic_upstream_that_is_the_proxy_ends_too(monkeypatch: pytest.MonkeyPatch) -> None:
    async with circle(monkeypatch, 1, upstream_api="anthropic", upstream_key="k") as (client, apps):
        answer = await client.post("/v1/chat/completions", json=chat())
    assert answer.status_code == 508
    assert len(apps[0].asked) == 2


async def test_proxies_in_a_row_are_no_circle(monkeypatch: pytest.MonkeyPatch) -> None:
    heads: list[dict[bytes, bytes]] = []
    backend = TextBackend(lambda _body: "hello")

    async def noted(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            heads.append(dict(scope["headers"]))
        await backend(scope, receive, send)

    async with contextlib.AsyncExitStack() as stack:
        address = await stack.enter_async_context(serving(noted))
        for _ in range(2):
            monkeypatch.setenv("TOOLCALL_UPSTREAM_URL", f"{address}/v1")
            address = await stack.enter_async_context(serving(create_proxy()))
        client = await stack.enter_async_context(client_of(address))
        answer = await client.post("/v1/chat/completions", json=chat(), headers={"via": "1.0 gateway"})
    assert answer.status_code == 200
    assert isinstance(json.loads(answer.content), dict)
    marks = heads[-1][b"via"].decode()
    assert marks.startswith("1.0 gateway")
    assert len(set(marks.split("1.1 toolcall-"))) == 3
