"""A client that waits, leaves or is refused: what the answer's own time is like, seen at the ASGI seam."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.apis.faces.asking import PATHS, body_of
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.hosts.middleware import faces

if TYPE_CHECKING:
    from starlette.types import Message, Receive, Scope, Send

BODIES = {PATHS[api]: body_of(api, stream=True) for api in ("messages", "responses")}
FACES = pytest.mark.parametrize("path", BODIES)


class Client:
    """One request to `app`, whose client stays until `leave`."""

    def __init__(self, app: Any, path: str, body: dict[str, Any]) -> None:
        self.app = app
        self.sent: list[Message] = []
        self.some = asyncio.Event()
        self.gone = asyncio.Event()
        self._waiting = [json.dumps(body).encode()]
        self.scope: Scope = {
            "type": "http",
            "method": "POST",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "headers": [(b"anthropic-version", b"2023-06-01")],
        }

    async def receive(self) -> Message:
        if self._waiting:
            return {"type": "http.request", "body": self._waiting.pop(), "more_body": False}
        await self.gone.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Message) -> None:
        self.sent.append(message)
        self.some.set()

    async def run(self) -> None:
        await self.app(self.scope, self.receive, self.send)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])

    @property
    def events(self) -> list[str]:
        return [line[7:].decode() for line in self.body.split(b"\n") if line.startswith(b"event: ")]


def chunk(delta: dict[str, Any], reason: str | None = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": reason}
    head = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return b"data: " + json.dumps({**head, "choices": [choice]}).encode() + b"\n\n"


class Slow:
    """A backend that begins to answer once it is told to, and notes who left."""

    def __init__(self, *pieces: bytes, status: int = 200) -> None:
        self.pieces = pieces
        self.status = status
        self.go = asyncio.Event()
        self.left = False

    async def __call__(self, _scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        leaving = asyncio.ensure_future(receive())
        going = asyncio.ensure_future(self.go.wait())
        await asyncio.wait({leaving, going}, return_when=asyncio.FIRST_COMPLETED)
        self.left = leaving.done()
        leaving.cancel()
        going.cancel()
        await asyncio.gather(leaving, going, return_exceptions=True)
        if self.left:
            return
        kind = b"text/event-stream" if self.status == 200 else b"application/json"
        await send({"type": "http.response.start", "status": self.status, "headers": [(b"content-type", kind)]})
        for piece in self.pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(faces, "_QUIET", 0.01)


def whole(*pieces: str) -> list[bytes]:
    return [*(chunk({"content": piece}) for piece in pieces), chunk({}, "stop"), b"data: [DONE]\n\n"]


@FACES
@pytest.mark.usefixtures("impatient")
async def test_a_client_that_waits_gets_events_before_the_backend_answers(path: str) -> None:
    backend = Slow(*whole("Hello", " there"))
    client = Client(ToolCallMiddleware(backend), path, BODIES[path])
    task = asyncio.ensure_future(client.run())
    async with asyncio.timeout(5):
        while len(client.events) < 6:
            client.some.clear()
            await client.some.wait()
        before = list(client.events)
        backend.go.set()
        await task
    begin, still = ("message_start", "ping") if "messages" in path else ("response.created", "response.in_progress")
    assert before[0] == begin
    assert set(before[1:]) == {still}
    assert client.events.count(begin) == 1
    assert client.events[-1] == ("message_stop" if "messages" in path else "response.completed")
    assert client.sent[0]["status"] == 200
    assert sum(message["type"] == "http.response.start" for message in client.sent) == 1
    assert not client.sent[-1].get("more_body", False)


@FACES
@pytest.mark.usefixtures("impatient")
async def test_a_refusal_after_the_answer_has_begun_is_its_last_event(path: str) -> None:
    backend = Slow(b'{"error": {"message": "out of memory", "type": "x", "code": 500}}', status=500)
    client = Client(ToolCallMiddleware(backend), path, BODIES[path])
    task = asyncio.ensure_future(client.run())
    async with asyncio.timeout(5):
        await client.some.wait()
        backend.go.set()
        await task
    assert client.events[-1] == ("error" if "messages" in path else "response.failed")
    assert b"out of memory" in client.body
    assert not client.sent[-1].get("more_body", False)


@FACES
async def test_a_client_that_leaves_takes_the_backend_s_request_with_it(path: str) -> None:
    backend = Slow(*whole("Hello"))
    client = Client(ToolCallMiddleware(backend), path, BODIES[path])
    task = asyncio.ensure_future(client.run())
    async with asyncio.timeout(5):
        await asyncio.sleep(0.01)
        client.gone.set()
        await task
    assert backend.left
    assert client.sent == []


@FACES
async def test_a_slow_client_holds_the_backend(path: str) -> None:
    """The backend's next piece is taken once the client has taken what came before."""
    taken: list[int] = []

    async def backend(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        head = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        for at, piece in enumerate(whole("a", "b", "c")):
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            taken.append(at)
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    client = Client(ToolCallMiddleware(backend), path, BODIES[path])
    lets = asyncio.Semaphore(2)
    send = client.send

    async def slowly(message: Message) -> None:
        await lets.acquire()
        await send(message)

    client.send = slowly  # type: ignore[method-assign]
    task = asyncio.ensure_future(client.run())
    async with asyncio.timeout(5):
        await asyncio.sleep(0.05)
        assert len(taken) <= 1
        for _ in range(50):
            lets.release()
        await task
    assert len(taken) == 5


@FACES
async def test_an_app_that_dies_leaves_no_answer_that_looks_complete(path: str) -> None:
    async def backend(_scope: Scope, receive: Receive, send: Send) -> None:
        await receive()
        head = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        await send({"type": "http.response.body", "body": chunk({"content": "Hel"}), "more_body": True})
        raise ZeroDivisionError

    client = Client(ToolCallMiddleware(backend), path, BODIES[path])
    with pytest.raises(ZeroDivisionError):
        await client.run()
    assert client.events[-1] == ("error" if "messages" in path else "response.failed")


@FACES
@pytest.mark.usefixtures("impatient")
async def test_one_message_is_sent_at_a_time(path: str) -> None:
    """While an event for a client that waits is being sent, the backend's answer waits, and the other way round."""
    backend = Slow(*whole("Hello", " there"))
    client = Client(ToolCallMiddleware(backend), path, BODIES[path])
    send, sending = client.send, 0

    async def slowly(message: Message) -> None:
        nonlocal sending
        sending += 1
        assert sending == 1
        backend.go.set()  # the backend answers while the first event is being sent
        await asyncio.sleep(0.03)
        await send(message)
        sending -= 1

    client.send = slowly  # type: ignore[method-assign]
    async with asyncio.timeout(5):
        await client.run()
    assert client.sent[0]["status"] == 200
    assert client.events[-1] == ("message_stop" if "messages" in path else "response.completed")
