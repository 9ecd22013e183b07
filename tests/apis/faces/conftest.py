"""A strict text model behind each host: an app with the middleware, and the proxy."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import anthropic
import openai
import pytest

from tests.apis.faces.messages_upstream import Start, Upstream
from tests.helpers.fakes import Model, Script, TextBackend, serve
from toolcall_middleware import ToolCallMiddleware, create_proxy

if TYPE_CHECKING:
    from starlette.types import ASGIApp

HOSTS = ("app", "proxy")


@dataclass(frozen=True, slots=True)
class Served:
    """url: of the host, without `/v1`. backend: what it asks. Clients that are made here are closed with it."""

    url: str
    backend: TextBackend
    stack: contextlib.ExitStack

    def anthropic(self, **options: Any) -> anthropic.Anthropic:
        made = anthropic.Anthropic(**{"base_url": self.url, "api_key": "unused", "max_retries": 0, **options})
        return self.stack.enter_context(made)

    def openai(self, **options: Any) -> openai.OpenAI:
        made = openai.OpenAI(**{"base_url": f"{self.url}/v1", "api_key": "unused", "max_retries": 0, **options})
        return self.stack.enter_context(made)


Open = Callable[..., Served]


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def open_host(host: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Open]:
    """Serves `TextBackend(script, strict=True, **backend)` behind the host, with these settings."""
    with contextlib.ExitStack() as stack:

        def open_one(
            script: Model | Iterable[Script], *, backend: dict[str, Any] | None = None, **settings: Any
        ) -> Served:
            model = TextBackend(script, **{"strict": True, **(backend or {})})
            return Served(stack.enter_context(serve(host_of(host, model, stack, monkeypatch, settings))), model, stack)

        yield open_one


def host_of(
    host: str,
    backend: ASGIApp,
    stack: contextlib.ExitStack,
    monkeypatch: pytest.MonkeyPatch,
    settings: dict[str, Any],
) -> ASGIApp:
    if host == "app":
        return ToolCallMiddleware(backend, **settings)
    monkeypatch.setenv("TOOLCALL_UPSTREAM_URL", stack.enter_context(serve(backend)) + "/v1")
    monkeypatch.setenv("TOOLCALL_ACCESS_LOG", "off")
    for name, value in settings.items():
        monkeypatch.setenv(f"TOOLCALL_{name.upper()}", str(value))
    return create_proxy()


@pytest.fixture
def start(monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """(upstream, address) of a proxy with these settings before it."""
    with contextlib.ExitStack() as stack:

        def start_one(upstream: Upstream, **settings: str) -> tuple[Upstream, str]:
            url = stack.enter_context(serve(upstream.app))
            given = {"upstream_url": url, "upstream_api": "anthropic", "upstream_key": "real", "access_log": "off"}
            for name, value in {**given, **settings}.items():
                monkeypatch.setenv(f"TOOLCALL_{name.upper()}", value)
            return upstream, stack.enter_context(serve(create_proxy()))

        yield start_one
