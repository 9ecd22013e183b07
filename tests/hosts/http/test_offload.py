"""What is large is read in a thread: the event loop serves others, and nobody uses what the thread still uses."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from typing import Any

import pytest

from tests.helpers.asgi_client import (
    JSON_TYPE,
    SSE_TYPE,
    Backend,
    Client,
    Message,
    Receive,
    Scope,
    Send,
    ask,
    middleware,
    read_body,
)
from tests.helpers.fakes import TextBackend
from tests.helpers.loop_watch import standstill
from toolcall_middleware.exchange import Exchange
from toolcall_middleware.hosts.http import bodies
from toolcall_middleware.hosts.http.bodies import LARGE, Held, offloaded
from toolcall_middleware.hosts.middleware import asgi
from toolcall_middleware.hosts.middleware.asgi import exchange_for
from toolcall_middleware.upstream.tool_answer import ToolAnswer

from ...response.streams import chunk, completion, says, stream

_SIZE = 1 << 20
FACES = ("chat", "messages", "responses")


def event(content: str) -> bytes:
    return stream(*says(content), chunk({}, "stop"))


def messages(text: str) -> bytes:
    """A request of the Messages API."""
    tool = {"name": "f", "input_schema": {"type": "object"}}
    asked = [{"role": "user", "content": text}]
    return json.dumps({"model": "m", "max_tokens": 9, "messages": asked, "tools": [tool]}).encode()


MARKUP = "<tool_call>{" * (_SIZE // 12)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_huge_answer_lets_others_be_served(stream: bool) -> None:
    """Against the time of the whole work in the same run."""
    answer = event(MARKUP) if stream else completion(MARKUP)
    app = middleware(Backend(answer, headers=[SSE_TYPE if stream else JSON_TYPE]), format="hermes")
    await Client(ask(stream=stream)).run_with_others(middleware(TextBackend(["ok"]), format="hermes"))  # imports
    client = Client(ask(stream=stream))
    longest, seconds = await standstill(client.run_with_others(app))
    assert client.status == 200
    assert longest < seconds / 2 + 0.05


async def test_small_work_is_done_at_once_and_large_in_a_thread() -> None:
    here = threading.get_ident()
    assert await offloaded(LARGE, threading.get_ident) == here
    assert await offloaded(LARGE + 1, threading.get_ident) != here


async def test_who_is_cancelled_goes_on_once_the_thread_is_through() -> None:
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    def work() -> None:
        begun.set()
        go_on.wait(10)
        ended.set()

    task = asyncio.ensure_future(offloaded(LARGE + 1, work))
    assert await asyncio.to_thread(begun.wait, 10)
    for _ in range(3):
        task.cancel()
        await asyncio.sleep(0.01)
        assert not task.done()
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert ended.is_set()


async def test_what_the_work_raises_is_raised() -> None:
    def work(message: Message) -> None:
        raise KeyError(message["type"])

    with pytest.raises(KeyError, match="x"):
        await offloaded(LARGE + 1, work, {"type": "x"})


def pieces(data: bytes, size: int = 16 * 1024) -> Backend:
    """An app that gives its answer as a socket gives it: the last piece of an event is small."""
    return Backend(*(data[at : at + size] for at in range(0, len(data), size)), b"")


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages", "/v1/responses"])
async def test_a_huge_event_in_small_pieces_lets_others_be_served(path: str) -> None:
    app = middleware(pieces(event(MARKUP[: _SIZE // 4])), format="hermes", faces=FACES)
    tool: dict[str, Any] = {"name": "f", "input_schema": {"type": "object"}}
    fields: dict[str, Any] = {"messages": [{"role": "user", "content": "x"}], "max_tokens": 9}
    if path.endswith("responses"):
        tool = {"type": "function", "name": "f", "parameters": {"type": "object"}}
        fields = {"input": "x"}
    own = json.dumps({"model": "m", "stream": True, "tools": [tool], **fields}).encode()
    body = ask(stream=True) if path.endswith("completions") else own
    await Client(body, path=path).run_with_others(middleware(Backend(event("ok")), faces=FACES))  # imports
    client = Client(body, path=path)
    longest, seconds = await standstill(client.run_with_others(app))
    assert client.status == 200
    assert longest < seconds / 2 + 0.05


async def test_text_of_nothing_but_a_marker_s_first_character_lets_others_be_served() -> None:
    """One search of a regular expression lets no other thread run: a text is searched in pieces."""
    app = middleware(Backend(completion("<" * _SIZE), headers=[JSON_TYPE]))
    client = Client(ask())
    await Client(ask()).run_with_others(middleware(TextBackend(["ok"])))  # imports
    longest, seconds = await standstill(client.run_with_others(app))
    assert client.status == 200
    assert longest < seconds / 4 + 0.05


def test_what_is_held_is_told_from_what_has_left() -> None:
    held = Held()
    held.note(1000, 0)
    held.note(1000, 10)  # a comment
    assert held.size > 1000
    held.note(1000, 900)
    assert held.size == 0


async def test_full_collections_wait_while_huge_work_is_done() -> None:
    """They go through all objects in one step."""
    before = gc.get_threshold()
    begun, go_on = threading.Event(), threading.Event()

    def work() -> int:
        begun.set()
        go_on.wait(10)
        return gc.get_threshold()[2]

    first, second = (asyncio.ensure_future(offloaded(64 << 20, work)) for _ in range(2))
    assert await asyncio.to_thread(begun.wait, 10)
    assert gc.get_threshold()[:2] == before[:2]
    go_on.set()
    assert min(await asyncio.gather(first, second)) > 1 << 20
    assert gc.get_threshold() == before


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
async def test_full_collections_wait_until_a_huge_request_is_answered(
    path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was read of it lives as long, and one collection behind the reading would go through it."""
    before = gc.get_threshold()
    seen: list[int] = []
    pause = 0.05

    async def backend(_scope: Scope, receive: Receive, send: Send) -> None:
        await read_body(receive)
        seen.append(gc.get_threshold()[2])
        await asyncio.sleep(pause)
        seen.append(gc.get_threshold()[2])
        await send({"type": "http.response.start", "status": 200, "headers": [JSON_TYPE]})
        await send({"type": "http.response.body", "body": completion("yes")})

    app = middleware(backend, faces=FACES)
    small = ask(stream=False) if path.endswith("completions") else messages("x")
    huge = small.replace(b'"content": "', b'"content": "' + b"x" * (4 << 20), 1)
    assert (await Client(small, path=path).run_with_others(app)).status == 200
    assert seen == [before[2]] * 2
    seen.clear()
    assert (await Client(huge, path=path).run_with_others(app)).status == 200
    assert min(seen) > 1 << 20
    assert gc.get_threshold() == before
    seen.clear()
    monkeypatch.setattr(bodies, "_LONGEST", 1.0)  # a stream of hours does not keep them away
    pause = 1.5
    await Client(huge, path=path).run_with_others(app)
    assert (seen[0] > 1 << 20, seen[1]) == (True, before[2])
    assert gc.get_threshold() == before


async def test_what_a_huge_request_held_is_freed_in_steps_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Exchange] = []

    def noted(*given: Any, **options: Any) -> Exchange:
        made.append(exchange_for(*given, **options))
        return made[-1]

    monkeypatch.setattr(asgi, "exchange_for", noted)
    app = middleware(TextBackend(["yes"]))
    huge = ask(stream=False, messages=[{"role": "user", "content": "x"}] * 100_000)
    assert (await Client(huge).run_with_others(app)).status == 200
    talk = made.pop()._talk
    assert isinstance(talk, ToolAnswer)
    for _ in range(1000):
        if not talk._chat.messages:
            break
        await asyncio.sleep(0.01)
    assert talk._chat.messages == []


async def test_full_collections_go_on_behind_huge_work_that_fails() -> None:
    before = gc.get_threshold()

    def work() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        await offloaded(64 << 20, work)
    assert gc.get_threshold() == before
