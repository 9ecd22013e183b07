"""Nothing of a request outlives it: not where it went well, and not where it failed in any way."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import tracemalloc
import types
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from tests.helpers.asgi_client import BLOCK, SSE_TYPE, App, Backend, Client, ask, middleware
from tests.helpers.fakes import TextBackend
from tests.hosts.proxy.test_any_await import STREAM, Yielding
from tests.hosts.proxy.test_any_byte import WHOLE, EngineDiedError
from toolcall_middleware import Settings
from toolcall_middleware.exchange import Exchange
from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.hosts.middleware.responder import Responder
from toolcall_middleware.hosts.proxy.upstream.forwarder import Forwarder
from toolcall_middleware.model import Tool, ToolCall, ToolSet
from toolcall_middleware.parsing.sink import Sink
from toolcall_middleware.parsing.text.scanner import Scanner
from toolcall_middleware.response.answer_form import WholeAnswer
from toolcall_middleware.response.choice import ChoiceAnswer
from toolcall_middleware.response.chunk import Template
from toolcall_middleware.response.stream import StreamRewriter

pytestmark = pytest.mark.slow

TIMES = 60
# What may grow for other reasons: counters, free lists, what the interpreter remembers of code that has run.
SLACK = 32 * 1024
COUNT = 500
OURS = (Exchange, Responder, StreamRewriter, ChoiceAnswer, Template, Scanner, Sink)


class Leaves(Client):
    """A client that goes away after the third message."""

    def __init__(self, body: bytes) -> None:
        super().__init__(body, leave_after=3)


class Fixed:
    """An app that answers every request alike, and keeps nothing."""

    def __init__(self, *parts: bytes, **options: Any) -> None:
        self._parts = parts
        self._options = options

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await Backend(*self._parts, **self._options)(scope, receive, send)


def text(answer: str) -> App:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        await TextBackend([answer, answer], pause=0)(scope, receive, send)

    return app


def proxied(*answers: bytes | int) -> App:
    return Forwarder("http://up.example", Settings(upstream_timeout=5), transport=Yielding(*answers))


CASES: dict[str, tuple[App, bytes, type[Client]]] = {
    "stream": (text(f"Hi {BLOCK} there"), ask(), Client),
    "whole": (text(f"Hi {BLOCK} there"), ask(stream=False), Client),
    "usage": (text("Hi"), ask(stream_options={"include_usage": True}), Client),
    "stopped": (text(f"{BLOCK} and more"), ask(parallel_tool_calls=False), Client),
    "never a call": (text("no"), ask(tool_choice="required"), Client),
    "dies": (Fixed(STREAM[:700], more=True, error=EngineDiedError), ask(), Client),
    "breaks off": (Fixed(STREAM[:700], more=True), ask(), Client),
    "refused": (Fixed(b'{"detail": "no"}', status=400), ask(), Client),
    "html": (Fixed(b"<html>"), ask(), Client),
    "bad request": (text("Hi"), ask(tool_choice="nope"), Client),
    "client leaves": (text(f"Hi {BLOCK} there"), ask(), Leaves),
    "passes": (text("Hi"), ask(tools=()), Client),
    "proxy": (proxied(STREAM), ask(), Client),
    "proxy, whole": (proxied(WHOLE), ask(stream=False), Client),
    "proxy, busy": (proxied(503), ask(), Client),
}


async def run(app: App, body: bytes, kind: type[Client], times: int) -> None:
    for _ in range(times):
        made = kind(body)
        with contextlib.suppress(EngineDiedError):
            await app(made.scope, made.receive, made.send)


async def cancel(app: App, body: bytes, times: int) -> None:
    for number in range(times):
        made = Client(body)
        task = asyncio.ensure_future(app(made.scope, made.receive, made.send))
        for _ in range(number % 40):
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task})


@contextlib.contextmanager
def traced() -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
    finally:
        tracemalloc.stop()


def living() -> Counter[str]:
    return Counter(type(one).__name__ for one in gc.get_objects() if isinstance(one, OURS))


@pytest.fixture(autouse=True, scope="module")
def _only_what_is_new() -> Iterator[None]:
    """What other tests have left is not looked through again and again: that took minutes of a whole run."""
    gc.collect()
    gc.freeze()
    # pytest keeps each record that is logged; another test may have left a level that lets a line a call through.
    logger = logging.getLogger("toolcall_middleware")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(level)


@pytest.mark.parametrize("name", CASES)
async def test_a_request_is_freed(name: str) -> None:
    inner, body, kind = CASES[name]
    app = middleware(inner)
    await run(app, body, kind, 20)  # caches are filled
    gc.collect()
    with traced():
        await run(app, body, kind, 5)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        await run(app, body, kind, TIMES)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    assert after - before < SLACK, f"{(after - before) / TIMES:.0f} bytes a request were kept"
    assert living() == Counter()


@pytest.mark.parametrize("name", ["stream", "whole", "never a call", "proxy", "usage"])
async def test_a_cancelled_request_is_freed(name: str) -> None:
    inner, body, _ = CASES[name]
    app = middleware(inner)
    await cancel(app, body, 40)
    gc.collect()
    with traced():
        await cancel(app, body, 40)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        await cancel(app, body, TIMES)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    assert after - before < SLACK, f"{(after - before) / TIMES:.0f} bytes a request were kept"
    assert living() == Counter()


@pytest.mark.parametrize("options", [{}, {"usage": "count", "tokenizer": "upstream"}], ids=["at once", "counted"])
async def test_what_was_read_of_a_whole_answer_is_freed_before_it_is_sent(options: dict[str, Any]) -> None:
    """It holds the backend's bytes, and a client may take minutes for the answer."""
    sent: list[int] = []

    async def look(message: Any) -> None:
        if message.get("body"):
            sent.append(sum(isinstance(one, WholeAnswer) for one in gc.get_objects()))

    client = Client(ask(stream=False))
    client.on_send = look
    app = middleware(text(f"Hi {BLOCK} there"), **options)
    with without_collector():
        await app(client.scope, client.receive, client.send)
    assert sent
    assert set(sent) == {0}


@contextlib.contextmanager
def without_collector() -> Iterator[None]:
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


@pytest.mark.parametrize("name", CASES)
async def test_a_request_needs_no_garbage_collector(name: str) -> None:
    """A circle would keep request and answer until the collector comes."""
    inner, body, kind = CASES[name]
    app = middleware(inner)
    await run(app, body, kind, 5)
    with without_collector():
        await run(app, body, kind, 20)
        assert living() == Counter()


@pytest.mark.parametrize("name", registry.names())
def test_a_parser_that_has_finished_needs_no_garbage_collector(name: str) -> None:
    call = ToolCall("f", '{"s": "a b c", "o": {"x": [1, "two"]}}')
    text = f"<think>hm</think>Hi {registry.get(name).render_calls([call, call])} end"
    tools = ToolSet.of([Tool(name="f", parameters={"type": "object"})])
    with without_collector():
        for cut in range(len(text)):
            parser = registry.get(name).parser(tools, ParserOptions(keep_raw=cut % 2 == 0))
            parser.feed(text[: cut // 2])
            parser.feed(text[cut // 2 : cut])
            parser.finish(cut=cut % 3 == 0)
            del parser
        assert living() == Counter()


async def test_hundreds_of_open_streams_are_freed() -> None:
    """All at once, half read: then they go on, end, and leave nothing."""
    gate = asyncio.Event()

    async def waits(scope: Any, receive: Any, send: Any) -> None:
        half = len(STREAM) // 2
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [SSE_TYPE]})
        await send({"type": "http.response.body", "body": STREAM[:half], "more_body": True})
        await gate.wait()
        await send({"type": "http.response.body", "body": STREAM[half:], "more_body": False})

    app = middleware(waits)

    async def all_of_them(count: int) -> int:
        gate.clear()
        clients = [Client(ask()) for _ in range(count)]
        tasks = [asyncio.ensure_future(app(made.scope, made.receive, made.send)) for made in clients]
        for _ in range(20):
            await asyncio.sleep(0)
        assert all(made.started for made in clients)
        gc.collect()
        open_now, _ = tracemalloc.get_traced_memory()
        gate.set()
        await asyncio.gather(*tasks)
        assert all(made.complete for made in clients)
        del clients, tasks
        for _ in range(5):
            await asyncio.sleep(0)  # what the loop still holds of them
        return open_now

    with traced():
        await all_of_them(50)
        gc.collect()
        before, _ = tracemalloc.get_traced_memory()
        amid = await all_of_them(COUNT)
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    assert (amid - before) / COUNT < 64 * 1024
    assert after - before < 4 * SLACK
    assert living() == Counter()


def test_what_is_looked_for_can_be_found() -> None:
    """The names are the classes that hold a request: one that is alive is seen."""
    held = Exchange(middleware(text("Hi")).settings, types.SimpleNamespace())  # type: ignore[arg-type]
    assert living() == Counter({"Exchange": 1})
    del held
