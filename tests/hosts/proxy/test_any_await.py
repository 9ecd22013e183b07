"""Whoever goes away, at any await: a cancelled task, a client, an event loop. Nothing runs on and nothing is left open.

The upstream is a transport that gives way at every step, so that counting turns of the loop walks all awaits.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from tests.helpers.asgi_client import (
    BLOCK,
    PATIENCE,
    SSE_TYPE,
    App,
    Client,
    Message,
    Receive,
    Scope,
    Send,
    ask,
    middleware,
    no_leaked_tasks,
)
from tests.helpers.fakes import TextBackend
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.hosts.http.client_library import httpx
from toolcall_middleware.hosts.proxy.upstream.forwarder import Forwarder
from toolcall_middleware.hosts.proxy.upstream.providers import upstream_app
from toolcall_middleware.settings import Settings

from ...response.streams import DONE, chunk, event, role, says, stream
from .proxy_servers import proxy_around
from .test_any_byte import WHOLE

STREAM = stream(role(), *says("Hi ", BLOCK[:20], BLOCK[20:]), chunk({}, "stop"))
REFUSAL = stream(role(), *says("I would rather not."), chunk({}, "stop"))


class Yielding(httpx.AsyncBaseTransport):
    """An upstream that gives way before each of its `answers` (bytes, or a status), and after each event of one."""

    def __init__(self, *answers: bytes | int) -> None:
        self.answers = list(answers)
        self.open = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0)
        assert isinstance(request.stream, httpx.AsyncByteStream)
        async for _ in request.stream:
            await asyncio.sleep(0)
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, int):
            self.open += 1
            return httpx.Response(answer, headers={"retry-after": "0"}, stream=Parts(self, [b"busy"]))
        kind = "text/event-stream" if answer.startswith(b"data:") else "application/json"
        self.open += 1
        return httpx.Response(200, headers={"content-type": kind}, stream=Parts(self, answer.splitlines(keepends=True)))


class Parts(httpx.AsyncByteStream):
    def __init__(self, upstream: Yielding, parts: list[bytes]) -> None:
        self._upstream = upstream
        self._parts = parts
        self._closed = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        for part in self._parts:
            await asyncio.sleep(0)
            yield part

    async def aclose(self) -> None:
        # As a real pool does, which has a lock to wait for.
        await asyncio.sleep(0)
        assert not self._closed
        self._closed = True
        self._upstream.open -= 1


def forwarder(transport: Yielding) -> App:
    return Forwarder("http://up.example/v1", timeout=5, transport=transport)


def whole_proxy(transport: Yielding) -> App:
    """All that stands in the proxy, but for signals."""
    return proxy_around(middleware(forwarder(transport)), access_log="json", peek=True)


def of_another_api(transport: Yielding) -> App:
    settings = Settings(mode="native")
    app = upstream_app(
        settings.replace(
            upstream_api="anthropic", upstream_url="http://up.example", upstream_key="k", upstream_timeout=5
        ),
        forward_authorization=False,
        transport=transport,
    )
    return ToolCallMiddleware(app, settings=settings)


MESSAGES: list[dict[str, Any]] = [
    {"type": "message_start", "message": {"id": "m", "model": "m", "usage": {"input_tokens": 1}}},
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hi"}},
    {"type": "content_block_stop", "index": 0},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
    {"type": "message_stop"},
]
ANTHROPIC = b"".join(event(message) for message in MESSAGES)

Make = Callable[[Yielding], App]
ROUTES: dict[str, tuple[Make, bytes, tuple[bytes | int, ...]]] = {
    "proxy, stream": (forwarder, ask(tools=()), (STREAM,)),
    "proxy, whole": (forwarder, ask(tools=(), stream=False), (WHOLE,)),
    "middleware and proxy, stream": (whole_proxy, ask(), (STREAM,)),
    "middleware and proxy, whole": (whole_proxy, ask(stream=False), (WHOLE,)),
    "one call is wanted": (whole_proxy, ask(parallel_tool_calls=False), (STREAM,)),
    "a second try": (whole_proxy, ask(tool_choice="required"), (REFUSAL, STREAM)),
    "a refusal": (whole_proxy, ask(), (503,)),
    "usage is added": (whole_proxy, ask(tools=(), stream_options={"include_usage": True}), (STREAM,)),
    "another API": (of_another_api, ask(), (ANTHROPIC,)),
}


@pytest.mark.parametrize("name", ROUTES)
async def test_cancelling_the_proxy_at_any_await_closes_its_upstream(name: str) -> None:
    make, body, answers = ROUTES[name]
    ended = False
    for steps in range(500):
        transport = Yielding(*answers)
        made = Client(body)
        async with no_leaked_tasks(), asyncio.timeout(PATIENCE):
            task = asyncio.ensure_future(make(transport)(made.scope, made.receive, made.send))
            for _ in range(steps):
                await asyncio.sleep(0)
            if task.done():
                ended = True
                await task
                assert made.complete
                assert transport.open == 0
                break
            task.cancel()
            # A task that had nothing more to wait for may still end by itself.
            with contextlib.suppress(asyncio.CancelledError):
                await task
            assert task.cancelled() or made.complete
        assert transport.open == 0, f"the upstream was left open after {steps} turns"
    assert ended


@pytest.mark.parametrize("spec_version", ["2.3", "2.4"])
@pytest.mark.parametrize("name", ROUTES)
async def test_a_client_that_leaves_the_proxy_at_any_turn_ends_its_upstream(name: str, spec_version: str) -> None:
    make, body, answers = ROUTES[name]
    for steps in range(500):
        transport = Yielding(*answers)
        made = Client(body, spec_version=spec_version)
        async with no_leaked_tasks(), asyncio.timeout(PATIENCE):
            task = asyncio.ensure_future(make(transport)(made.scope, made.receive, made.send))
            for _ in range(steps):
                await asyncio.sleep(0)
            if task.done():
                await task
                break
            made.leave()
            await task
        assert transport.open == 0, f"the upstream was left open after {steps} turns"
    assert made.complete


@pytest.mark.parametrize("name", ROUTES)
async def test_a_send_that_fails_at_any_message_ends_the_upstream(name: str) -> None:
    make, body, answers = ROUTES[name]
    for messages in range(50):
        transport = Yielding(*answers)
        made = Client(body)

        async def gone(message: Message, made: Client = made, messages: int = messages) -> None:
            if len(made.got) >= messages:
                raise OSError("the client has gone")

        made.on_send = gone
        # Whether the app sees it or the server: it is nobody's fault, and an OSError at most.
        with contextlib.suppress(OSError):
            await made.run(make(transport))
        assert transport.open == 0
        if made.complete:
            break
    assert made.complete


BODIES = {"stream": ask(), "whole": ask(stream=False), "second try": ask(tool_choice="required")}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
@pytest.mark.parametrize("spec_version", ["2.3", "2.4"])
async def test_a_client_that_leaves_an_app_after_any_message(body: bytes, spec_version: str) -> None:
    for messages in range(60):
        backend = TextBackend(["no", BLOCK] if b"required" in body else [BLOCK], pause=0)
        made = Client(body, spec_version=spec_version, leave_after=messages or None)
        if not messages:
            made.leave()
        await made.run(middleware(backend))
        if made.complete and messages:
            break
    assert made.complete


async def test_a_client_that_has_left_before_its_request_was_read_asks_nobody() -> None:
    transport = Yielding(STREAM)
    for body in (ask(), ask(tools=())):
        made = Client(body)
        made._queue.clear()
        made.leave()
        await made.run(whole_proxy(transport))
        assert not made.started
    assert transport.answers == [STREAM]


# -- the end of the loop -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ROUTES)
def test_a_loop_that_ends_takes_what_runs_with_it(name: str, caplog: pytest.LogCaptureFixture) -> None:
    """`asyncio.run` cancels what runs when its main task ends, as a server does that is told to stop at once."""
    make, body, answers = ROUTES[name]
    transport = Yielding(*answers)
    faults: list[dict[str, Any]] = []

    async def main() -> list[asyncio.Task[None]]:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, fault: faults.append(fault))
        tasks = []
        for _ in range(30):
            made = Client(body)
            tasks.append(asyncio.ensure_future(_serve(make(transport), made)))
            await asyncio.sleep(0)
        return tasks

    with caplog.at_level(logging.DEBUG):
        tasks = asyncio.run(main())
        assert all(task.done() for task in tasks)
        assert any(task.cancelled() for task in tasks)
        del tasks
        gc.collect()  # a task that was never looked at speaks when it is collected
    # Connections that were being closed at that very moment end with the loop.
    assert faults == []
    assert not [record for record in caplog.records if record.name == "asyncio" and record.levelno >= logging.WARNING]


async def _serve(app: App, made: Client) -> None:
    await app(made.scope, made.receive, made.send)


@pytest.mark.parametrize("shutdown", [True, False])
async def test_a_request_that_is_cancelled_while_the_app_cleans_up_waits_for_it(shutdown: bool) -> None:
    """An app may need a moment when it is cancelled: it runs in the same task, so nobody goes before it."""
    cleaned: list[bool] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [SSE_TYPE]})
            await send({"type": "http.response.body", "body": event(role()), "more_body": True})
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0.01)
            cleaned.append(True)

    made = Client(ask())
    async with no_leaked_tasks():
        task = asyncio.ensure_future(_serve(middleware(app), made))
        await asyncio.sleep(0.01)
        task.cancel("the server stops" if shutdown else None)
        with pytest.raises(asyncio.CancelledError):
            await task
    assert cleaned == [True]
    assert DONE not in made.body
