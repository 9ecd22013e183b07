"""Clocks, and an app and a client with nothing in them, so that what stands between them is all there is to measure."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterable, MutableMapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[MutableMapping[str, Any], Receive, Send], Awaitable[None]]

CHAT = "/v1/chat/completions"
clock = time.thread_time
"""CPU seconds of this thread: what other programs take of the machine meanwhile does not count."""

_START: Message = {
    "type": "http.response.start",
    "status": 200,
    "headers": [(b"content-type", b"text/event-stream; charset=utf-8")],
}


class NoOp:
    """A pure ASGI wrapper that passes every message: what any middleware costs."""

    def __init__(self, app: App) -> None:
        self._app = app

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        async def passing(message: Message) -> None:
            await send(message)

        await self._app(scope, receive, passing)


def body_message(data: bytes, *, more: bool = True) -> Message:
    return {"type": "http.response.body", "body": data, "more_body": more}


async def begin_stream(receive: Receive, send: Send) -> None:
    """Read the request, and begin a stream."""
    await receive()
    await send({**_START})


@dataclass(slots=True)
class Stream:
    """An app that streams: `head` first, then, timed, `events`. One event a message, as engines send them."""

    head: Iterable[bytes]
    events: Iterable[bytes]
    seconds: float = 0.0

    async def __call__(self, _scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        await begin_stream(receive, send)
        for data in self.head:
            await send(body_message(data))
        messages = self.events if isinstance(self.events, Messages) else map(body_message, self.events)
        begin = clock()
        for message in messages:
            await send(message)
        self.seconds = clock() - begin
        await send(body_message(b"data: [DONE]\n\n", more=False))


class Messages(list[Any]):
    """Messages made beforehand: making them is not measured."""


def messages(events: Iterable[bytes]) -> Messages:
    return Messages(map(body_message, events))


@dataclass(slots=True)
class Client:
    """One request; counts what it gets, and keeps it when asked."""

    body: bytes
    keep: bool = False
    path: str = CHAT
    got: list[bytes] = field(default_factory=list)

    async def ask(self, app: App) -> None:
        asked = False

        async def receive() -> Message:
            nonlocal asked
            if asked:
                await asyncio.get_running_loop().create_future()  # stays connected
            asked = True
            return {"type": "http.request", "body": self.body, "more_body": False}

        async def send(_message: Message) -> None:
            pass

        async def keeping(message: Message) -> None:
            self.got.append(message.get("body", b""))

        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(self.body)).encode())]
        scope = {"type": "http", "method": "POST", "path": self.path, "headers": headers}
        await app(scope, receive, keeping if self.keep else send)


def ask(app: App, body: bytes, path: str = CHAT) -> None:
    """One request, its answer thrown away."""
    RUNNER.run(Client(body, path=path).ask(app))


def answer(app: App, body: bytes, path: str = CHAT) -> list[bytes]:
    """One request, and the bodies that came back."""
    client = Client(body, keep=True, path=path)
    RUNNER.run(client.ask(app))
    return client.got


RUNNER = asyncio.Runner()


def rounds(runs: Sequence[Callable[[], float]], repeats: int) -> list[list[float]]:
    """Seconds of each, `repeats` times. They take turns, so that a slow moment of the machine is everybody's."""
    return [[run() for run in runs] for _ in range(repeats)]


def best(runs: Sequence[Callable[[], float]], repeats: int) -> list[float]:
    """The shortest time of each, in seconds."""
    return [min(times) for times in zip(*rounds(runs, repeats), strict=True)]


def timed(call: Callable[[], object]) -> Callable[[], float]:
    """`call` as something that tells how long it took."""

    def run() -> float:
        begin = clock()
        call()
        return clock() - begin

    return run
