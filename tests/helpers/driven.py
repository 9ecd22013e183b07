"""An exchange that is driven with plain bytes, as a host drives it: what leaves is bytes, errors are raised."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.exchange import (
    Ask,
    Body,
    BrokenOff,
    Count,
    Done,
    Event,
    Exchange,
    Fail,
    Failed,
    Forward,
    Head,
    Pass,
    Request,
    Send,
    Start,
    State,
    StopUpstream,
)
from toolcall_middleware.response.answer_form import Reply
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.backend_memory import BackendMemory
from toolcall_middleware.upstream.raw_prompt import RawPrompt

SSE = [(b"content-type", b"text/event-stream")]
JSON = [(b"content-type", b"application/json")]


class Driven:
    """One exchange. `prompt`: what is to be written before the backend is asked.

    `stopped`: the backend is told to end. `started`: the headers that replace the backend's.
    """

    def __init__(self, settings: Settings, memory: BackendMemory | None = None) -> None:
        self.exchange = Exchange(settings, memory or BackendMemory())
        self.stopped = False
        self.started: Start | None = None
        self._next: bytes | None = None
        self.prompt: RawPrompt | None = None
        self._out = b""
        self._told: bytes | None = None  # the content type

    @property
    def native(self) -> bool:
        return self.exchange.facts is not None and self.exchange.facts.mode == "native"

    @property
    def state(self) -> State:
        return self.exchange.state

    def _do(self, event: Event) -> bytes:
        out = b""
        for action in self.exchange.receive(event):
            match action:
                case Send(data):
                    out += data
                case Forward() if isinstance(event, Body):
                    out += event.data
                case Start():
                    self.started = action
                case StopUpstream(early):
                    self.stopped = early
                case Ask(body, prompt):
                    self._next, self.prompt = body, prompt
                case Fail(error):
                    raise error
                case Count(pending):
                    pending.count()
                    out += self._do(Done())
                case Pass():
                    self._next = None
                case _:
                    raise AssertionError(action)
        return out

    def on_request(self, body: bytes) -> bytes | None:
        """The body for the backend; None when the request is none of ours."""
        self._do(Request(body))
        return self.take_next()

    def take_next(self) -> bytes | None:
        """The body to ask the backend with, once."""
        body, self._next = self._next, None
        return body

    def on_response_start(self, status: int, headers: Iterable[tuple[bytes, bytes]]) -> State:
        self.stopped = False
        self.started = None
        self._do(Head(status, list(headers)))
        return self.state

    def asks(self, **body: Any) -> Any:
        """The body for the backend, decoded."""
        sent = self.on_request(json.dumps(body).encode())
        assert sent is not None
        return json.loads(sent)

    def streams(self, *pieces: bytes) -> bytes:
        """The client's stream for one that the backend sends in these pieces, until it is told to end."""
        self.on_response_start(200, SSE)
        return b"".join(self.feed(piece) for piece in pieces if not self.stopped) + self.finish()

    def answers(self, data: bytes, status: int = 200) -> Reply:
        """The reply to the backend's whole answer."""
        self.on_response_start(status, JSON)
        reply = self.whole(data)
        assert reply is not None
        return reply

    def feed(self, data: bytes) -> bytes:
        return self._do(Body(data))

    def finish(self, *, cut: bool = False) -> bytes:
        """The end of the backend's answer."""
        if self.stopped:
            return b""
        return self._do(BrokenOff() if cut else Body(b"", last=True))

    def failure(self, error: ToolCallError) -> bytes:
        return self._do(Failed(error))

    def headers(self) -> dict[str, str]:
        """Those of the answer that has begun."""
        assert self.started is not None
        return self.started.headers or {}

    def whole(self, data: bytes) -> Reply | None:
        """The reply to an answer that comes in one piece; None where the backend is asked again."""
        body = self._do(Body(data, last=True))
        if self.started is None:
            assert not body
            return None
        headers = None if self.started.headers is None else dict(self.started.headers)
        return Reply(self.started.status or 200, body, headers)
