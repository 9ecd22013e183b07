"""A strict text model behind each host: an app with the middleware, and the proxy."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest

from tests.fakes import Model, Script, TextBackend, serve
from toolcall_middleware import ToolCallMiddleware, create_proxy

if TYPE_CHECKING:
    from starlette.types import ASGIApp

HOSTS = ("app", "proxy")


@dataclass(frozen=True, slots=True)
class Served:
    """url: of the host, without `/v1`. backend: what it asks."""

    url: str
    backend: TextBackend


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
            return Served(stack.enter_context(serve(host_of(host, model, stack, monkeypatch, settings))), model)

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
