"""llama-cpp-python's server, with the middleware in its process or behind the proxy: its refusals are told in words.

The fake is its own server (0.3.36) without a model. As there: two locks, a look for a client that has gone before a
whole answer, errors in words by the route's handler; and a stream whose source runs beside it, so that what goes wrong
in it ends the stream without a word and is raised.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import Any

import anyio
import anyio.lowlevel
import fastapi
import httpx
import pytest
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from fastapi.routing import APIRoute
from starlette.concurrency import iterate_in_threadpool, run_in_threadpool
from starlette.responses import JSONResponse, Response
from starlette.types import Receive, Scope, Send

from tests.helpers.answers import TOOL
from tests.helpers.fakes import serve
from tests.helpers.stream_rules import check_stream, check_whole
from toolcall_middleware import Settings, ToolCallMiddleware, create_proxy

CONTEXT = 512
MODEL, GONE = "smollm2", "no-file"
"""The model that is there, and one whose file is not."""
SAYS = "I'm here to help."
_TOO_LONG = re.compile(r"Requested tokens \((\d+)\) exceed context window of (\d+)")
_NO_MODEL = re.compile(r"Model path does not exist: (.+)")


class _Handler(APIRoute):
    """Says in words what a route raised."""

    def get_route_handler(self) -> Callable[[fastapi.Request], Coroutine[Any, Any, Response]]:
        inner = super().get_route_handler()

        async def handle(request: fastapi.Request) -> Response:
            try:
                return await inner(request)
            except ValueError as error:
                await request.json()
                status, fields = _worded(str(error))
                return JSONResponse({"error": {"param": None, "code": None, **fields}}, status)

        return handle


def _worded(error: str) -> tuple[int, dict[str, Any]]:
    kind = {"type": "invalid_request_error"}
    if found := _TOO_LONG.search(error):
        message = f"This model's maximum context length is {found[2]} tokens. However, you requested {found[1]} tokens"
        return 400, {**kind, "message": message, "param": "messages", "code": "context_length_exceeded"}
    if found := _NO_MODEL.search(error):
        return 400, {**kind, "message": f"The model `{found[1]}` does not exist", "code": "model_not_found"}
    return 500, {"message": error, "type": "internal_server_error"}


class LlamaCppPython:
    """The server, as an app. ends: a stream that went wrong ends before what went wrong is raised (both were seen)."""

    def __init__(self, *, ends: bool = True) -> None:
        self.app = fastapi.FastAPI()
        self.bodies: list[dict[str, Any]] = []
        self.ends = ends
        self._outer, self._inner = anyio.Lock(), anyio.Lock()
        router = fastapi.APIRouter(route_class=_Handler)
        router.add_api_route("/v1/chat/completions", self._chat, methods=["POST"], response_model=None)
        self.app.include_router(router)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.app(scope, receive, send)

    @contextlib.asynccontextmanager
    async def _alone(self) -> AsyncIterator[None]:
        async with self._outer:
            await self._inner.acquire()
        try:
            yield
        finally:
            self._inner.release()

    async def _chat(self, request: fastapi.Request) -> Any:
        body = await request.json()
        self.bodies.append(body)
        if body.get("stream"):
            source, sink = anyio.create_memory_object_stream[str](10)
            return _Events(sink, lambda: self._publish(request, source, body), ends=self.ends)
        async with self._alone():
            if await request.is_disconnected():
                raise fastapi.HTTPException(400, "Client closed request")
            return await run_in_threadpool(_complete, body)

    async def _publish(self, request: fastapi.Request, source: MemoryObjectSendStream[str], body: Any) -> None:
        async with self._alone(), source:
            chunks = await run_in_threadpool(_complete, body)
            async for chunk in iterate_in_threadpool(chunks):
                await source.send(json.dumps(chunk))
                if await request.is_disconnected():
                    return
            await source.send("[DONE]")


class _Events(Response):
    """An event stream with a source that runs beside it."""

    def __init__(
        self, events: MemoryObjectReceiveStream[str], source: Callable[[], Coroutine[Any, Any, None]], *, ends: bool
    ) -> None:
        super().__init__()
        self._events, self._source, self._ends = events, source, ends

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/event-stream; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})

        async def stream() -> None:
            async with self._events:
                async for event in self._events:
                    await send({"type": "http.response.body", "body": f"data: {event}\n\n".encode(), "more_body": True})
            with anyio.CancelScope(shield=self._ends):
                await anyio.lowlevel.checkpoint()
                await send({"type": "http.response.body", "body": b"", "more_body": False})

        async with anyio.create_task_group() as group:
            group.start_soon(stream)
            await anyio.lowlevel.checkpoint()
            group.start_soon(self._source)


def _complete(body: dict[str, Any]) -> Any:
    """As `Llama.create_chat_completion`. An unknown model is the first one's business."""
    if body.get("model") == GONE:
        raise ValueError(f"Model path does not exist: {GONE}.gguf")
    words = sum(len(str(message["content"]).split()) for message in body["messages"])
    if words > CONTEXT:
        raise ValueError(f"Requested tokens ({words}) exceed context window of {CONTEXT}")
    head = {"id": "chatcmpl-1", "created": 1795295147, "model": body["model"]}
    if not body.get("stream"):
        usage = {"prompt_tokens": words, "completion_tokens": 5, "total_tokens": words + 5}
        choice = {"index": 0, "message": {"role": "assistant", "content": SAYS}, "finish_reason": "stop"}
        return {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
    return _chunks({**head, "object": "chat.completion.chunk"})


def _chunks(head: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for delta in ({"role": "assistant"}, *({"content": SAYS[at : at + 4]} for at in range(0, len(SAYS), 4))):
        yield {**head, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield {**head, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]}


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
