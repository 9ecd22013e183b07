"""One real server for all client tests, whose app each test puts in place."""

from __future__ import annotations

import contextlib
import gc
import logging
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.helpers.fakes import CLEAN, Model, Quirks, Script, TextBackend, serve
from toolcall_middleware import ToolCallMiddleware

from .common import FORMATS, Lookup

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Warnings of other people's libraries are not ours to fail on."""
    for item in items:
        if item.path.parent == Path(__file__).parent:
            item.add_marker(pytest.mark.filterwarnings("default"))


class Stage:
    """An ASGI app that is whatever app stands on it now."""

    def __init__(self) -> None:
        self.app: ASGIApp | None = None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self.app is None:
            raise RuntimeError("no app was put in place")
        await self.app(scope, receive, send)


@dataclass(frozen=True, slots=True)
class Gateway:
    """The middleware in front of a scripted text model. `url` is the base URL for clients, `/v1` included.

    What is entered into `closing` (a client) is closed at the end of the test.
    """

    url: str
    backend: TextBackend
    closing: contextlib.ExitStack


OpenGateway = Callable[..., Gateway]


@pytest.fixture(scope="session", autouse=True)
def _at_home() -> Iterator[None]:
    """No client reports to its maker, and none takes a proxy to loopback."""
    with pytest.MonkeyPatch.context() as patch:
        for name in ("LANGSMITH_TRACING", "LANGCHAIN_TRACING_V2"):
            patch.setenv(name, "false")
        patch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
        patch.setenv("AI_SDK_LOG_WARNINGS", "false")
        for name in ("NO_PROXY", "no_proxy"):
            patch.setenv(name, "127.0.0.1,localhost")
        for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID"):
            patch.delenv(name, raising=False)
        patch.setenv("OPENAI_API_KEY", "unused")
        yield


@pytest.fixture(scope="package", autouse=True)
def _left_open() -> Iterator[None]:
    """Sockets that client libraries forget are collected here, not in somebody else's test."""
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()


@pytest.fixture(scope="session")
def stage() -> Iterator[tuple[Stage, str]]:
    one = Stage()
    with serve(one) as url:
        yield one, url


@pytest.fixture
def open_gateway(stage: tuple[Stage, str], caplog: pytest.LogCaptureFixture) -> Iterator[OpenGateway]:
    """Puts `ToolCallMiddleware(TextBackend(script, strict=True), **settings)` behind the server.

    A test fails when the server had to log an error: nothing that a client does makes the middleware raise.
    """
    one, url = stage

    def open_one(
        script: Model | Iterable[Script],
        *,
        usage: bool = True,
        quirks: Quirks = CLEAN,
        refused_fields: Iterable[str] = (),
        chunk_size: int | None = 4,
        pause: float | None = None,
        **settings: Any,
    ) -> Gateway:
        backend = TextBackend(
            script,
            strict=True,
            usage=usage,
            quirks=quirks,
            refused_fields=refused_fields,
            chunk_size=chunk_size,
            pause=pause,
        )
        one.app = ToolCallMiddleware(backend, **settings)
        return Gateway(f"{url}/v1", backend, closing)

    with contextlib.ExitStack() as closing:
        yield open_one
    one.app = None
    errors = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert not [text for text in errors if "ASGI" in text], errors


@pytest.fixture(params=FORMATS)
def format_name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def in_pieces() -> bool:
    """Whether the arguments of a streamed call come as the model writes them."""
    return True


@pytest.fixture
def lookup() -> Lookup:
    return Lookup()
