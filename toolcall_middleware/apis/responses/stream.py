"""The events of a streamed response: chat events in, cut anywhere, Responses events out."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from ...errors import ToolCallError
from ...wire import openai
from ...wire.sse import EventReader, ServerEvent, TooLargeError, is_one_line
from ..extension import ExtensionCopy
from ..repeated_chunk import RepeatedChunk, TextKind
from .answer import ResponseWriter, response_usage
from .chunks import Choice, Completion, arguments_of, read_completion
from .output import Frame
from .request import Asked

_encode = msgspec.json.encode
_DONE = b"[DONE]"
_BACKSLASH = ord("\\")
_PIECE = 64  # bytes that a kept piece of text takes besides its characters, about
_DELTA = b'%b%d,"delta":%b}\n\n'
MAX_EVENT = 64 << 20
"""Bytes of an unfinished event. The exchange sends pieces; only a backend whose bytes pass could send more at once."""


class EventStream:
    """The stream of one answer, and the `Events` of its writer. mark: what is random in its ids.

    extension: of the chat answer. limit: bytes that an event of the chat stream may take. max_kept: bytes of the
    answer, all of which is kept for the last event; None where that is not bounded.
    """

    def __init__(
        self,
        asked: Asked,
        mark: str,
        extension: ExtensionCopy,
        limit: int = MAX_EVENT,
        max_kept: int | None = None,
    ) -> None:
        self._extension = extension
        self._left = math.inf if max_kept is None else max_kept  # how many more bytes may be kept for the last event
        self._max_kept = max_kept
        self._reader = EventReader(limit)
        self._last = RepeatedChunk()
        self._out: list[bytes] = []
        self._number = 0
        self._writer = ResponseWriter(asked, self, mark, extension)
        self._more: Callable[[str], None] = self._writer.say
        self._frame: Frame | None = None

    def feed(self, data: bytes) -> bytes:
        """The next bytes of the chat stream: the events that they make."""
        last = self._last
        if last.repeats(data):  # nearly always
            frame, written = self._frame, last.written
            left = self._left = self._left - len(written) - _PIECE
            if frame is None or not last.text or left < 0:
                return self._go_on(last)
            frame.pieces.append(last.text)
            number = self._number
            self._number = number + 1
            return _DELTA % (frame.head, number, _encode(last.text) if _BACKSLASH in written else written)
        last.forget()
        if self._writer.ended:
            return b""
        if not self._reader.buffer and is_one_line(data):
            self._left -= len(data)
            self._data(data[6:-2])
            if self._writer.finish_reason is None and not self._writer.ended and last.learn(data):
                self._expect(last)
            return self._taken()
        try:
            events = self._reader.feed(data)
        except TooLargeError:
            self._reader.rest()
            self._writer.fail(ToolCallError("upstream_error", "The backend sent an event that is too large."))
            return self._taken()
        for event in events:
            self._event(event)
        return self._taken()

    def begin(self) -> bytes:
        """The first events, once."""
        if not self._writer.begun:
            self._writer.begin()
        return self._taken()

    def fail(self, error: ToolCallError) -> bytes:
        """The answer cannot go on; empty where it is over already."""
        self._last.forget()
        if not self._writer.ended:
            self._writer.fail(error)
        return self._taken()

    def finish(self, *, cut: bool) -> bytes:
        """The chat stream is over: what is missing. cut: it broke off."""
        self._last.forget()
        for event in self._reader.finish():
            if not cut:  # the last event may lack its blank line; half of one says nothing
                self._event(event)
        writer = self._writer
        if not writer.ended:
            if writer.finish_reason is not None:
                writer.complete()  # all was said; at most its usage is missing
            else:
                message = "The backend's answer broke off." if cut else "The backend's answer ended before its end."
                writer.fail(ToolCallError("upstream_error", message), "server_error")
        return self._taken()

    def keepalive(self) -> bytes:
        """An event for a client that waits; nothing before the first one and after the last."""
        if self._writer.begun and not self._writer.ended:
            self._writer.still()
        return self._taken()

    def emit(self, name: str, fields: dict[str, Any]) -> None:
        data = _encode({"type": name, "sequence_number": self._number, **fields})
        self._number += 1
        self._out.append(b"event: %b\ndata: %b\n\n" % (name.encode(), data))

    def delta(self, head: bytes, text: str) -> None:
        self._out.append(_DELTA % (head, self._number, _encode(text)))
        self._number += 1

    def _taken(self) -> bytes:
        out = self._out
        if len(out) == 1:
            return out.pop()
        taken = b"".join(out)
        out.clear()
        return taken

    def _event(self, event: ServerEvent) -> None:
        if event.data is not None and not self._writer.ended:
            self._left -= len(event.data)
            self._data(event.data)

    def _data(self, data: bytes) -> None:
        writer = self._writer
        if self._left < 0:
            writer.fail(self._too_long())
            return
        if data == _DONE:
            # What has come before it is all that will come.
            if writer.finish_reason is not None:
                writer.complete()
            return
        fields = openai.read_object(data) if b'"error"' in data else None
        if fields is not None and openai.is_error(fields):
            writer.fail(openai.read_error(data))
            return
        self._extension.read(data)
        try:
            self._chunk(read_completion(data))
        except ToolCallError as error:
            writer.fail(error)

    def _expect(self, chunk: RepeatedChunk) -> None:
        """Chunks of which the text alone is news go on with what this one has begun."""
        writer = self._writer
        match chunk.kind:
            case TextKind.CONTENT:
                self._more = writer.say
            case TextKind.REASONING:
                self._more = writer.reason
            case TextKind.ARGUMENTS:
                self._more = partial(writer.call, chunk.index, None, None)

        self._frame = writer.frame

    def _go_on(self, chunk: RepeatedChunk) -> bytes:
        """One more of them, by way of the writer."""
        writer = self._writer
        if chunk.text:
            try:
                if self._left < 0:
                    raise self._too_long()
                self._more(chunk.text)
            except ToolCallError as error:
                chunk.forget()
                writer.fail(error)
            self._frame = writer.frame
        return self._taken()

    def _too_long(self) -> ToolCallError:
        return ToolCallError("upstream_error", f"The answer exceeds max_response_bytes ({self._max_kept}).")

    def _chunk(self, chunk: Completion) -> None:
        writer = self._writer
        if not writer.begun:
            writer.begin(chunk.model, chunk.created_at)
        if chunk.usage is not None:
            writer.usage = response_usage(chunk.usage)
        choice = chunk.first
        if choice is not None and writer.finish_reason is None:
            write_choice(writer, choice)


def write_choice(writer: ResponseWriter, choice: Choice) -> None:
    """What a delta or a message says, in the order in which models say it."""
    said = choice.delta or choice.message
    if said is not None:
        if said.thought:
            writer.reason(said.thought)
        if signed := said.signed:
            writer.sign(signed)
        if said.content:
            writer.say(said.content)
        if said.refusal:
            writer.say(said.refusal, "refusal")
        for place, call in enumerate(said.tool_calls or ()):
            name = call.function.name if call.function is not None else None
            index = place if call.index is None else call.index
            writer.call(index, call.id, name, arguments_of(call), call.extra)
    if choice.finish_reason is not None:
        writer.finish(choice.finish_reason)
