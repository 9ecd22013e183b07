"""A stream that came as Messages and leaves so: the chat answer is read, and the upstream's events follow it."""

from __future__ import annotations

from collections.abc import Sequence

from ...errors import ToolCallError
from ...wire import openai
from ...wire.sse import EventReader, TooLargeError
from ..passage import Passage
from ..repeated_chunk import ABSENT
from .chat_so_far import ChatSoFar
from .client.chunks import read_chunk
from .client.errors import Errors
from .client.stream import PING, MessageStream
from .client.writer import usage_of
from .passed_events import PassedEvents

_LONGEST_EVENT = 64 << 20


class PassedStream:
    """One streamed answer. plain: writes it where the upstream was asked with a translated request after all.

    estimate: how many tokens the prompt may have, for an answer that ends before the upstream has said it.
    """

    def __init__(self, passage: Passage, plain: MessageStream, errors: Errors, *, estimate: int) -> None:
        self._passage = passage
        self._estimate = estimate
        self._plain = plain
        self._errors = errors
        self._reader = EventReader(_LONGEST_EVENT)
        self._chat = ChatSoFar()
        self._events = PassedEvents(passage.tape, self._chat)
        self._failed = False

    @property
    def over(self) -> bool:
        return self._events.ended or self._failed or self._plain.over

    def begin(self) -> bytes:
        """The first events, before the upstream's: they are ours then, and its own are not repeated."""
        if self._events.begun:
            return b""
        self._events.headless = True
        return self._plain.begin()

    def keepalive(self) -> bytes:
        """An event for a client that waits; nothing before the first one and after the last."""
        return PING if (self._events.begun or self._plain.begun) and not self.over else b""

    def fail(self, error: ToolCallError, /) -> bytes:
        """The answer cannot go on; empty where it is over already."""
        if self.over:
            return b""
        self._failed = True
        return self._errors.event(error)

    def feed(self, data: bytes, /) -> bytes:
        """More of the chat answer: what of the tape it lets pass."""
        if self.over:
            return b""
        if not self._passage.used:
            return self._plain.feed(data)
        try:
            events = self._reader.feed(data)
        except TooLargeError:
            return self.fail(ToolCallError("upstream_error", "An event of the answer is too large."))
        return self._passed([one.data for one in events])

    def finish(self, *, cut: bool) -> bytes:
        """The chat answer is over."""
        if self.over:
            return b""
        if not self._passage.used:
            return self._plain.finish(cut=cut)
        out = b"" if cut else self._passed([one.data for one in self._reader.finish()])
        if self.over:
            return out
        if not self._chat.reason:
            fault = ToolCallError("upstream_error", "The stream broke off before the answer was complete.")
            return out + self.fail(fault)
        usage = usage_of(self._chat.usage, input_estimate=self._estimate, output_estimate=1)
        return out + self._events.end(usage)

    def _passed(self, events: Sequence[bytes | None]) -> bytes:
        known = len(self._chat.calls)
        for data in events:
            if data is None or data == b"[DONE]":
                continue
            chunk = read_chunk(data)
            if chunk is None:
                return self._break_off(ToolCallError("upstream_error", "A chunk of the answer is no JSON."))
            if chunk.error is not ABSENT and chunk.error != openai.NULL:
                return self._break_off(openai.read_error(data))
            self._chat.note(chunk)
        if len(self._chat.calls) > known:
            self._events.find(list(self._chat.calls.values())[known:])
        return self._events.release()

    def _break_off(self, fault: ToolCallError) -> bytes:
        """The last event of a stream that fails, behind what passes of it."""
        out, tape = self._events.release_text(), self._passage.tape
        if tape and tape[-1].value.get("type") == "error":  # the upstream's own words
            self._failed = True
            return out + tape[-1].raw
        return out + self.fail(fault)
