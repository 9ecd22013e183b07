"""Counts what goes through the proxy of a launch, from the answers as the agent gets them."""

from __future__ import annotations

from collections import Counter
from typing import Any

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...wire import openai
from ...wire.sse import EventReader, TooLargeError

_MOST_BYTES = 8 << 20
"""A longer event, or a longer whole answer, is not looked into."""


class Counts:
    """An ASGI app before the proxy: requests by status, and calls by name."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self.requests = 0
        self.failed: Counter[int] = Counter()
        self.calls: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] != "POST":
            await self._app(scope, receive, send)
            return
        self.requests += 1
        answer = _Answer(self, send)
        await self._app(scope, receive, answer.send)

    @property
    def answers(self) -> int:
        """Requests that were not answered with an error."""
        return self.requests - self.failed.total()

    @property
    def never_called(self) -> bool:
        """Whether there were answers and none of them called a tool."""
        return self.answers > 0 and not self.calls

    def lines(self, outcomes: Counter[str]) -> list[str]:
        """What happened, for a person. outcomes: of the calls that are not clean."""
        total = self.calls.total()
        lines = [f"{_many(self.requests, 'request')}, {_many(total, 'tool call')}{_listed(self.calls)}"]
        if outcomes:
            lines.append(f"not clean{_listed(outcomes)}")
        if self.failed:
            lines.append(f"{_many(self.failed.total(), 'error')}{_listed(self.failed)}")
        return lines


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def _listed(counts: Counter[Any]) -> str:
    shown = ", ".join(f"{name} {number}" for name, number in counts.most_common(8))
    return f" ({shown})" if shown else ""


class _Answer:
    """The agent's side of one answer."""

    def __init__(self, counts: Counts, send: Send) -> None:
        self._counts = counts
        self._send = send
        self._events: EventReader | None = None
        self._whole: bytearray | None = None

    async def send(self, message: Message) -> None:
        """ASGI's `send`."""
        if message["type"] == "http.response.start":
            self._start(message)
        elif message["type"] == "http.response.body":
            self._body(message.get("body", b""), last=not message.get("more_body", False))
        await self._send(message)

    def _start(self, message: Message) -> None:
        if message["status"] >= 400:
            self._counts.failed[message["status"]] += 1
            return
        headers = {bytes(name).lower(): bytes(value) for name, value in message.get("headers", ())}
        kind = headers.get(b"content-type", b"")
        if kind.startswith(b"text/event-stream"):
            self._events = EventReader(_MOST_BYTES)
        elif kind.startswith(b"application/json"):
            self._whole = bytearray()

    def _body(self, data: bytes, *, last: bool) -> None:
        if self._events is not None:
            try:
                events = self._events.feed(data)
            except TooLargeError:
                self._events = None
                return
            for event in events:
                if event.data is not None:
                    self._count(openai.read_value(event.data))
        elif self._whole is not None:
            self._whole += data
            if len(self._whole) > _MOST_BYTES:
                self._whole = None
            elif last:
                self._count(openai.read_value(bytes(self._whole)))

    def _count(self, value: Any) -> None:
        for name in calls_in(value):
            self._counts.calls[name] += 1


def calls_in(value: Any) -> list[str]:
    """The names of the calls that an event or a whole answer of any face begins (Responses: ends)."""
    if not isinstance(value, dict):
        return []
    names: list[Any] = []
    for choice in _dicts(value.get("choices")):
        for side in ("delta", "message"):
            part = choice.get(side)
            calls = _dicts(part.get("tool_calls")) if isinstance(part, dict) else []
            # Later deltas of a call have neither id nor name.
            names += [call["function"].get("name") for call in calls if isinstance(call.get("function"), dict)]
    blocks = [value.get("content_block")] if value.get("type") == "content_block_start" else value.get("content")
    names += [block.get("name") for block in _dicts(blocks) if block.get("type") == "tool_use"]
    items = [value.get("item")] if value.get("type") == "response.output_item.done" else value.get("output")
    names += [item.get("name") for item in _dicts(items) if item.get("type") in {"function_call", "custom_tool_call"}]
    return [name for name in names if isinstance(name, str) and name]


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
