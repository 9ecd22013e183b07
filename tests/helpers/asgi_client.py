"""A server's side of ASGI by hand: raw messages in, raw messages out, and a protest when an app breaks the protocol."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, MutableMapping
from typing import Any

import httpx

from toolcall_middleware import ToolCallMiddleware

Message = MutableMapping[str, Any]
Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Headers = list[tuple[bytes, bytes]]

PATIENCE = 15.0
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
HELLO = [{"role": "user", "content": "hello"}]
CALL = '{"tool_calls": [{"name": "weather", "arguments": {"city": "Paris"}}]}'
BLOCK = f"```json\n{CALL}\n```"
JSON_TYPE = (b"content-type", b"application/json")
HOST = (b"host", b"localhost")
SSE_TYPE = (b"content-type", b"text/event-stream")


def ask(*, stream: bool = True, tools: Any = (TOOL,), **fields: Any) -> bytes:
    """A request's body."""
    body: dict[str, Any] = {"model": "m", "messages": HELLO, "stream": stream, **fields}
    if tools:
        body["tools"] = list(tools)
    return json.dumps(body).encode()


def asked_on_each_face(said: str, tool: dict[str, Any] = TOOL) -> dict[str, dict[str, Any]]:
    """The same request on each API: its path, and its body."""
    function = tool["function"]
    turns = [{"role": "user", "content": said}]
    named = {"name": function["name"], "input_schema": function["parameters"]}
    return {
        "/v1/chat/completions": {"model": "m", "messages": turns, "tools": [tool]},
        "/v1/messages": {"model": "m", "messages": turns, "max_tokens": 99, "tools": [named]},
        "/v1/responses": {"model": "m", "input": said, "tools": [{"type": "function", **function}]},
    }


async def post(
    app: Any, body: dict[str, Any], path: str = "/v1/chat/completions", headers: dict[str, str] | None = None
) -> httpx.Response:
    """The answer of an app that runs in this process, which may raise."""
    headers = {"anthropic-version": "2023-06-01", **(headers or {})}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://app") as client:
        return await client.post(path, json=body, headers=headers)


class Client:
    """One request to an app. `sent` are the messages that the app was given, `got` those that it sent."""

    def __init__(
        self,
        body: bytes | Iterable[bytes] = b"",
        *,
        path: str = "/v1/chat/completions",
        method: str = "POST",
        headers: Headers | None = None,
        spec_version: str = "2.4",
        leave_after: int | None = None,
        **scope: Any,
    ) -> None:
        parts = [body] if isinstance(body, bytes) else list(body)
        length = str(sum(map(len, parts))).encode()
        self.scope: Scope = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": spec_version},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": path,
            "raw_path": path.encode(),
            "query_string": b"",
            "root_path": "",
            "headers": headers if headers is not None else [HOST, JSON_TYPE, (b"content-length", length)],
            "client": ("127.0.0.1", 1234),
            "server": ("127.0.0.1", 80),
            "extensions": {},
            **scope,
        }
        last = len(parts) - 1
        self.sent: list[Message] = [
            {"type": "http.request", "body": part, "more_body": at < last} for at, part in enumerate(parts)
        ]
        self._queue = list(self.sent)
        self._gone = asyncio.Event()
        self._leave_after = leave_after  # messages that the client reads before it goes away
        self.got: list[Message] = []
        self.received = 0
        self.on_send: Callable[[Message], Awaitable[None]] | None = None

    async def receive(self) -> Message:
        self.received += 1
        if self._queue:
            return self._queue.pop(0)
        await self._gone.wait()
        return {"type": "http.disconnect"}

    def leave(self) -> None:
        """The client goes away."""
        self._gone.set()

    async def send(self, message: Message) -> None:
        # As servers do, so that who cancels or switches does so here.
        await asyncio.sleep(0)
        if self.on_send is not None:
            await self.on_send(message)
        if message["type"] == "http.response.start":
            assert not self.got, "the response starts once"
            assert isinstance(message["status"], int)
            assert all(type(part) is bytes for pair in message["headers"] for part in pair)
        elif message["type"] == "http.response.body":
            assert self.got, "the response starts first"
            assert not self.complete, "nothing comes after the end"
        self.got.append(message)
        if self.complete:
            # As servers do: there is nothing more to be received.
            self.leave()
        if self._leave_after is not None and len(self.got) >= self._leave_after:
            self.leave()

    async def run(self, app: App) -> Client:
        """Run the app to its end. No task of it may be left."""
        async with no_leaked_tasks():
            return await self.run_with_others(app)

    async def run_with_others(self, app: App) -> Client:
        """The same while other requests run."""
        async with asyncio.timeout(PATIENCE):
            await app(self.scope, self.receive, self.send)
        return self

    @property
    def started(self) -> bool:
        return bool(self.got)

    @property
    def complete(self) -> bool:
        return bool(self.got) and self.got[-1].get("more_body", self.got[-1]["type"] != "http.response.body") is False

    @property
    def status(self) -> int:
        status: int = self.got[0]["status"]
        return status

    @property
    def headers(self) -> dict[str, str]:
        pairs = [(name.decode().lower(), value.decode()) for name, value in self.got[0]["headers"]]
        assert len(dict(pairs)) == len(pairs), "no header comes twice"
        return dict(pairs)

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.got[1:])

    @property
    def json(self) -> Any:
        assert self.headers["content-type"].startswith("application/json")
        assert int(self.headers["content-length"]) == len(self.body)
        return json.loads(self.body)


@contextlib.asynccontextmanager
async def no_leaked_tasks() -> AsyncIterator[None]:
    before = asyncio.all_tasks()
    yield
    for _ in range(20):
        if asyncio.all_tasks() <= before:
            return
        await asyncio.sleep(0)  # what is cancelled or done needs a turn of the loop to go
    assert asyncio.all_tasks() <= before


def middleware(app: App, **options: Any) -> ToolCallMiddleware:
    return ToolCallMiddleware(app, **{"mode": "prompt", **options})


async def read_body(receive: Receive) -> bytes:
    """The whole body; an app's side of it."""
    parts: list[bytes] = []
    while True:
        message = await receive()
        assert message["type"] == "http.request", message
        parts.append(message.get("body", b""))
        if not message.get("more_body", False):
            return b"".join(parts)


async def live(receive: Receive, send: Send) -> None:
    """An app's side of a lifespan in which nothing happens."""
    for phase in ("startup", "shutdown"):
        await receive()
        await send({"type": f"lifespan.{phase}.complete"})


async def close(app: App) -> list[str]:
    """Starts and ends the lifespan of `app`, which closes its connections. Returns the messages that it sends."""
    messages = [{"type": "lifespan.startup"}, {"type": "lifespan.shutdown"}]

    async def receive() -> Message:
        return messages.pop(0)

    async def send(message: Message) -> None:
        told.append(message["type"])

    told: list[str] = []
    await app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)
    return told


class Backend:
    """An app that answers with the given bytes, each in a message of its own, and notes what happens to it.

    raw, bodies: what it was asked. disconnects: how often `receive` gave a disconnect. errors: what `send` raised.
    `listen` makes it read on while it answers, as a careful app does. `error` is raised at the end, where `start` is
    False before the answer starts.
    """

    def __init__(
        self,
        *parts: bytes,
        status: int = 200,
        headers: Headers | None = None,
        listen: bool = False,
        more: bool = False,
        error: Exception | type[Exception] | None = None,
        start: bool = True,
    ) -> None:
        self.parts = parts
        self.status = status
        self.headers = [SSE_TYPE] if headers is None else headers
        self.listen = listen
        self.more = more  # the last message says that more will come
        self.error = error
        self.start = start
        self.scopes: list[Scope] = []
        self.raw: list[bytes] = []
        self.disconnects = 0
        self.errors: list[BaseException] = []
        self.written = 0

    @property
    def bodies(self) -> list[Any]:
        return [json.loads(body) for body in self.raw]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await live(receive, send)
            return
        self.scopes.append(scope)
        self.raw.append(await read_body(receive))
        if self.start:
            await self._answer(receive, send)
        if self.error is not None:
            raise self.error

    async def _answer(self, receive: Receive, send: Send) -> None:
        listening = asyncio.ensure_future(receive()) if self.listen else None
        try:
            await send({"type": "http.response.start", "status": self.status, "headers": self.headers})
            for at, part in enumerate(self.parts or (() if self.more else (b"",))):
                await asyncio.sleep(0.001 if self.listen else 0)
                if listening is not None and listening.done():
                    assert listening.result()["type"] == "http.disconnect"
                    self.disconnects += 1
                    return
                more = self.more or at < len(self.parts) - 1
                await send({"type": "http.response.body", "body": part, "more_body": more})
                self.written += 1
        except OSError as error:
            self.errors.append(error)
            raise
        finally:
            if listening is not None:
                listening.cancel()
                await asyncio.gather(listening, return_exceptions=True)
