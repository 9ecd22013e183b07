"""llama-cpp-python's server, with the middleware in its process or behind the proxy: its refusals are told in words."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx
import pytest

from tests.exchange.test_modes import TOOL
from tests.helpers.fakes import serve
from tests.helpers.llama_cpp_python_fake import GONE, MODEL, SAYS, LlamaCppPython
from tests.helpers.stream_rules import check_stream, check_whole
from toolcall_middleware import Settings, ToolCallMiddleware, create_proxy

TOO_LONG = "word " * 2000


@pytest.fixture(params=[True, False], ids=["ends", "raises"])
def server(request: pytest.FixtureRequest) -> LlamaCppPython:
    return LlamaCppPython(ends=request.param)


@contextlib.contextmanager
def _served(server: LlamaCppPython, where: str) -> Iterator[str]:
    """The address of the server with the middleware in it, or of a proxy in front of it."""
    if where == "app":
        server.app.add_middleware(ToolCallMiddleware, settings=Settings())
        with serve(server) as url:
            yield url
    else:
        with serve(server) as inner, pytest.MonkeyPatch.context() as environment:
            environment.setenv("TOOLCALL_UPSTREAM_URL", f"{inner}/v1")
            with serve(create_proxy()) as url:
                yield url


@contextlib.asynccontextmanager
async def asked(server: LlamaCppPython, where: str, **fields: Any) -> AsyncIterator[httpx.Response]:
    """The answer to one request with tools."""
    body = {"model": MODEL, "messages": [{"role": "user", "content": "Hi."}], "tools": [TOOL], **fields}
    with _served(server, where) as url:
        async with httpx.AsyncClient(base_url=url, timeout=20) as client:
            yield await client.post("/v1/chat/completions", json=body)


@pytest.mark.parametrize("where", ["app", "proxy"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("model", [MODEL, "no-such-model"])
async def test_an_unknown_model_is_answered_by_the_one_that_is_there(
    server: LlamaCppPython, where: str, stream: bool, model: str
) -> None:
    async with asked(server, where, model=model, stream=stream) as response:
        assert response.status_code == 200
        answer = (check_stream if stream else check_whole)(response.content)
    assert answer.only.content == SAYS
    assert len(server.bodies) == 1


REFUSED = [
    ({"messages": [{"role": "user", "content": TOO_LONG}]}, "context_length_exceeded", "maximum context length is 512"),
    ({"model": GONE}, "model_not_found", "does not exist"),
]


@pytest.mark.parametrize("where", ["app", "proxy"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("fields", "code", "words"), REFUSED)
async def test_a_request_that_it_refuses_is_a_400_that_says_why(
    server: LlamaCppPython, where: str, stream: bool, fields: dict[str, Any], code: str, words: str
) -> None:
    async with asked(server, where, stream=stream, **fields) as response:
        error = response.json()["error"]
        if where == "proxy" and stream and not server.ends:
            # Its own server broke the connection off.
            assert (response.status_code, error["code"]) == (502, "upstream_error")
            return
        assert (response.status_code, error["code"]) == (400, code)
        assert words in error["message"]
    assert [bool(body.get("stream")) for body in server.bodies] == ([True, False] if stream else [False])
