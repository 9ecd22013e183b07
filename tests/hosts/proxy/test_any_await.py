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
from starlette.requests import ClientDisconnect

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
from toolcall_middleware.hosts.proxy.upstream.providers import upstream_app
from toolcall_middleware.settings import Settings

from ...response.streams import DONE, chunk, event, role, says, stream
from .proxy_servers import forwarder, proxy_around
from .test_any_byte import WHOLE

STREAM = stream(role(), *says("Hi ", BLOCK[:20], BLOCK[20:]), chunk({}, "stop"))
REFUSAL = stream(role(), *says("I would rather not."), chunk({}, "stop"))


class Yielding(httpx.AsyncBaseTransport):
    """An upstream that gives way before each of its `answers` (bytes, or a status), and after each event of one.

    stalls: it says no more, and waits until its connection closes.
    """

    def __init__(self, *answers: bytes | int) -> None:
        self.answers = list(answers)
        self.open = 0
        self.stalls = False

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
            if self._upstream.stalls:
                await asyncio.Event().wait()
            yield part

    async def aclose(self) -> None:
        # As a real pool does, which has a lock to wait for.
        await asyncio.sleep(0)
        assert not self._closed
        self._closed = True
        self._upstream.open -= 1


def asking(transport: Yielding) -> App:
    return forwarder("http://up.example/v1", transport=transport)


def whole_proxy(transport: Yielding) -> App:
    """All that stands in the proxy, but for signals."""
    return proxy_around(middleware(asking(transport)), access_log="json", peek=True)


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


class Running:
    """A backend in the same process that gives way at every step; `open` are its answers under way."""

    def __init__(self, *script: str) -> None:
        self._backend = TextBackend(script, pause=0)
        self.open = 0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.open += 1
        try:
            await self._backend(scope, receive, send)
        finally:
            self.open -= 1


Start = Callable[[], tuple[App, Yielding | Running]]
Interrupt = Callable[[asyncio.Task[None], Client], object]


def through(make: Callable[[Yielding], App], *answers: bytes | int) -> Start:
    def start() -> tuple[App, Yielding]:
        transport = Yielding(*answers)
        return make(transport), transport

    return start


def in_app(*script: str, wrap: Callable[[App], App] = middleware) -> Start:
    def start() -> tuple[App, Running]:
        backend = Running(*script)
        return wrap(backend), backend

    return start


ROUTES: dict[str, tuple[Start, bytes]] = {
    "proxy, stream": (through(asking, STREAM), ask(tools=())),
    "proxy, whole": (through(asking, WHOLE), ask(tools=(), stream=False)),
    "middleware and proxy, stream": (through(whole_proxy, STREAM), ask()),
    "middleware and proxy, whole": (through(whole_proxy, WHOLE), ask(stream=False)),
    "one call is wanted": (through(whole_proxy, STREAM), ask(parallel_tool_calls=False)),
    "a second try": (through(whole_proxy, REFUSAL, STREAM), ask(tool_choice="required")),
    "a refusal": (through(whole_proxy, 503), ask()),
    "usage is added": (through(whole_proxy, STREAM), ask(tools=(), stream_options={"include_usage": True})),
    "another API": (through(of_another_api, ANTHROPIC), ask()),
    "app, stream": (in_app(BLOCK), ask()),
    "app, whole": (in_app(BLOCK), ask(stream=False)),
    "app, one call is wanted": (in_app(BLOCK), ask(parallel_tool_calls=False)),
    "app, a second try": (in_app("no", BLOCK), ask(tool_choice="required")),
    "app, no tools": (in_app(BLOCK), ask(tools=())),
}


async def interrupted_at_any_turn(
    start: Start,
    body: bytes,
    interrupt: Interrupt,
    *,
    every: int = 1,
    **scope: Any,
) -> None:
    """Interrupts a request after each number of turns, until it ends before that. Nothing may be left of it."""
    for steps in range(0, 900, every):
        app, upstream = start()
        made = Client(body, **scope)
        async with no_leaked_tasks(), asyncio.timeout(PATIENCE) as limit:
            task = asyncio.ensure_future(_serve(app, made))
            for _ in range(steps):
                await asyncio.sleep(0)
            if ended := task.done():
                await task
                assert made.complete
            else:
                if isinstance(upstream, Yielding):
                    upstream.stalls = True  # so that only the interruption can end it
                interrupt(task, made)
                # A task that had nothing more to wait for may still end by itself.
                with contextlib.suppress(asyncio.CancelledError):
                    await task
                assert not task.cancelling() or task.cancelled() or made.complete
        assert not limit.expired(), f"it waits for ever after {steps} turns"
        assert upstream.open == 0, f"the upstream was left open after {steps} turns"
        if ended:
            return
    pytest.fail("it does not end")


def cancel(task: asyncio.Task[None], _made: Client) -> None:
    task.cancel()


def leave(_task: asyncio.Task[None], made: Client) -> None:
    made.leave()


@pytest.mark.parametrize("name", ROUTES)
async def test_cancelling_at_any_await_closes_the_upstream(name: str) -> None:
    await interrupted_at_any_turn(*ROUTES[name], cancel)


@pytest.mark.parametrize("spec_version", ["2.3", "2.4"])
@pytest.mark.parametrize("name", ROUTES)
async def test_a_client_that_leaves_at_any_turn_ends_the_upstream(name: str, spec_version: str) -> None:
    await interrupted_at_any_turn(*ROUTES[name], leave, spec_version=spec_version)


@pytest.mark.parametrize("name", ROUTES)
async def test_a_send_that_fails_at_any_message_ends_the_upstream(name: str) -> None:
    start, body = ROUTES[name]
    for messages in range(60):
        app, upstream = start()
        made = Client(body)

        async def gone(message: Message, made: Client = made, messages: int = messages) -> None:
            if len(made.got) >= messages:
                raise OSError("the client has gone")

        made.on_send = gone
        # Whether the app sees it or the server: it is nobody's fault, and an OSError at most.
        with contextlib.suppress(OSError, ClientDisconnect):
            await made.run(app)
        assert upstream.open == 0
        if made.complete:
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
    start, body = ROUTES[name]
    app, _ = start()
    faults: list[dict[str, Any]] = []

    async def main() -> list[asyncio.Task[None]]:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, fault: faults.append(fault))
        tasks = []
        for _ in range(30):
            made = Client(body)
            tasks.append(asyncio.ensure_future(_serve(app, made)))
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
