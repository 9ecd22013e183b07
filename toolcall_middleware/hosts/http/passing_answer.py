"""An answer as it passes by on its way to the client: its status and size, and how many tokens its end tells."""

from __future__ import annotations

import re
import time

from starlette.types import Message, Send

_TAIL = 4096
# Quotes inside of a string have a backslash, so that no text can look like it.
_USAGE = re.compile(rb'(?<!\\)"usage": ?\{')
_COUNTS = {
    name: re.compile(rb'(?<!\\)"(?:%s)": ?([0-9]{1,15})\b' % words)
    for name, words in (
        ("prompt_tokens", rb"prompt_tokens|input_tokens"),
        ("completion_tokens", rb"completion_tokens|output_tokens"),
    )
}


class PassingAnswer:
    """Around the client's `send`. `complete`: all of the answer has left."""

    __slots__ = ("_send", "complete", "first", "size", "status", "tail")

    def __init__(self, send: Send) -> None:
        self._send = send
        self.status: int | None = None
        self.size = 0
        self.first: float | None = None
        """When the first byte of the body left."""
        self.complete = False
        self.tail = AnswerTail()

    async def send(self, message: Message) -> None:
        """ASGI's `send`."""
        if message["type"] == "http.response.body":
            body = message.get("body", b"")
            if body:
                self.size += len(body)
                self.tail.add(body)
                if self.first is None:
                    self.first = time.perf_counter()
            if not message.get("more_body", False):
                self.complete = True
        elif message["type"] == "http.response.start":
            self.status = message["status"]
            message = self.started(message)
        await self._send(message)

    def started(self, start: Message) -> Message:
        """What leaves for the answer's start."""
        return start


class AnswerTail:
    """The last bytes of an answer."""

    __slots__ = ("_tail",)

    def __init__(self) -> None:
        self._tail = (b"", b"", b"")

    def add(self, data: bytes) -> None:
        """The next piece."""
        # It may stand in two pieces, and [DONE] in a third.
        _, two, three = self._tail
        self._tail = two, three, data if len(data) <= _TAIL else data[-_TAIL:]

    def usage(self) -> dict[str, int | None]:
        """The tokens that the answer says it took; None where it does not say."""
        end = b"".join(self._tail)
        begins = [found.end() for found in _USAGE.finditer(end)]
        told = end[begins[-1] :] if begins else b""
        counts = {name: pattern.search(told) for name, pattern in _COUNTS.items()}
        return {name: None if found is None else int(found[1]) for name, found in counts.items()}
