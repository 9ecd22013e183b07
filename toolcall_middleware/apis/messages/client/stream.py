"""A chat stream as the events of Messages, chunk by chunk.

One typed decode a chunk, none where it repeats the one before (`RepeatedChunk`): text and arguments stay the raw JSON
strings that they are and go into the events as such.

    message_start, ping, (content_block_start, content_block_delta …, content_block_stop) …, message_delta, message_stop
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from ....errors import ToolCallError
from ....wire import openai
from ....wire.json_input import without_lone_surrogates
from ....wire.sse import EventReader, ServerEvent, TooLargeError, is_one_line
from ...extension import ExtensionCopy
from ...repeated_chunk import ABSENT, Function, RepeatedChunk, TextKind
from ..lone_surrogates import WholePairs
from .blocks import Blocks, text_of
from .chunks import Choice, arguments_of, read_chunk, text_in, thoughts_of
from .errors import Errors
from .request import Asked
from .thinking import MOST_CARRIED, Thinking, write_signature
from .writer import stop_of, usage_of

_LONGEST_EVENT = 64 << 20
_BYTES_A_TOKEN = 4
_END = b'"}}\n\n'
_BACKSLASH = ord("\\")  # found in a tenth of the time of b"\\"
PING = b'event: ping\ndata: {"type":"ping"}\n\n'


def event(name: str, fields: dict[str, Any]) -> bytes:
    """One event; its data has the name as `type`."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), openai.encode({"type": name, **fields}))


class _Events:
    """The sink that writes blocks as events."""

    __slots__ = ("_arguments", "_before", "_carried", "_hidden", "_room", "_thinking", "index", "out")

    def __init__(self, thinking: Thinking) -> None:
        self.out: list[bytes] = []
        self.index = 0
        self._thinking = thinking
        self._before = b""
        self._arguments: WholePairs | None = None  # of the open block, where it is a call
        self._hidden = False
        self._carried: list[bytes] | None = None  # thoughts that the signature carries
        self._room = MOST_CARRIED

    def _open(self, block: dict[str, Any], kind: str, field: str) -> None:
        self.out.append(event("content_block_start", {"index": self.index, "content_block": block}))
        self._before = (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":"'
            % (self.index, kind.encode(), field.encode())
        )

    def open_text(self) -> None:
        self._open({"type": "text", "text": ""}, "text_delta", "text")

    def open_thinking(self) -> None:
        self._open({"type": "thinking", "thinking": "", "signature": ""}, "thinking_delta", "thinking")
        self._hidden = self._thinking.omitted
        self._carried = []
        self._room = MOST_CARRIED

    def open_call(self, call_id: str, name: str) -> None:
        block = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        self._open(block, "input_json_delta", "partial_json")
        self._arguments = WholePairs()

    @property
    def frame(self) -> tuple[bytes, bytes] | None:
        """What stands around a piece in its event, where each piece is one; no escape in it may be half of one."""
        held = self._hidden or (self._arguments is not None and self._arguments.holds)
        return None if held else (self._before, _END)

    def add(self, inner: bytes) -> None:
        if self._hidden and self._carried is not None:
            self._room -= len(inner)
            if self._room >= 0:
                self._carried.append(inner)
        elif self._arguments is None:
            self.out.append(self._before + inner + _END)
        elif piece := self._arguments.feed(without_lone_surrogates(inner)):
            self.out.append(self._before + piece + _END)

    def close(self) -> None:
        if self._carried is not None:
            signature = write_signature(text_of(b"".join(self._carried)) if self._room >= 0 else None)
            delta = {"type": "signature_delta", "signature": signature}
            self.out.append(event("content_block_delta", {"index": self.index, "delta": delta}))
            self._carried, self._hidden = None, False
        if self._arguments is not None:
            if rest := self._arguments.finish():
                self.out.append(self._before + rest + _END)
            self._arguments = None
        self.out.append(event("content_block_stop", {"index": self.index}))
        self.index += 1


class MessageStream:
    """One streamed answer. `over`: its last event was written, and nothing that comes is read."""

    def __init__(self, asked: Asked, message_id: str, errors: Errors, extension: ExtensionCopy) -> None:
        self._asked = asked
        self._extension = extension
        self._message_id = message_id
        self._errors = errors
        self._reader = EventReader(_LONGEST_EVENT)
        self._last = RepeatedChunk()
        self._events = _Events(asked.thinking)
        self._blocks = Blocks(self._events, asked.thinking, asked.call_ids)
        self._more: Callable[[bytes], None] = self._blocks.text
        self._kind = "text"
        # What stands around the text of a delta that holds no escape of half a character.
        self._frame: tuple[bytes, bytes] | None = None
        self._kept: list[bytes] | None = None
        self._usage: Any = None
        self._reason = ""
        self._matched: Any = None
        self._refused = False
        self.begun = False
        self.over = False

    def begin(self) -> bytes:
        """The first event, once, and a ping."""
        if self.begun:
            return b""
        self.begun = True
        usage = usage_of(None, input_estimate=self._asked.estimate, output_estimate=1)
        message: dict[str, Any] = {
            "id": self._message_id,
            "type": "message",
            "role": "assistant",
            "model": self._asked.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        return event("message_start", {"message": message}) + PING

    def feed(self, data: bytes) -> bytes:
        """More of the chat stream."""
        last = self._last
        if last.repeats(data):  # nearly always
            frame, written = self._frame, last.written
            if frame is None or (_BACKSLASH in written and (b"\\u" in written or written[-2] == _BACKSLASH)):
                return self._go_on(written)
            inner = written[1:-1]
            self._blocks.size += len(inner)
            if self._kept is not None:
                self._kept.append(inner)
            return inner.join(frame) if inner else b""
        last.forget()
        if self.over:
            return b""
        if not self._reader.buffer and is_one_line(data):
            self._read_data(data[6:-2])
            if not self.over and last.learn(data):
                self._expect(last)
            return self._take()
        try:
            events = self._reader.feed(data)
        except TooLargeError:
            return self._take() + self._fail(ToolCallError("upstream_error", "An event of the answer is too large."))
        for one in events:
            self._read(one)
        return self._take()

    def finish(self, *, cut: bool) -> bytes:
        """The chat stream is over."""
        self._last.forget()
        if self.over:
            return b""
        if not cut:
            for one in self._reader.finish():
                self._read(one)
        if not self.over:
            self._end()
        return self._take()

    def _take(self) -> bytes:
        parts = self._events.out
        out = b"".join(parts)
        parts.clear()
        return out

    def _read(self, one: ServerEvent) -> None:
        if self.over:
            return
        if one.data is not None:
            self._read_data(one.data)
        elif self.begun and one.raw.startswith(b":"):
            self._events.out.append(PING)  # a comment that keeps the connection alive

    def _read_data(self, data: bytes) -> None:
        if data == b"[DONE]":
            self._end()
            return
        chunk = read_chunk(data)
        if chunk is None:
            self._events.out.append(self._fail(ToolCallError("upstream_error", "A chunk of the answer is no JSON.")))
            return
        if chunk.error is not ABSENT and openai.read_value(chunk.error):
            self._events.out.append(self._fail(openai.read_error(data)))
            return
        if not self.begun:
            self._events.out.append(self.begin())
        self._extension.read(data)
        if chunk.usage is not ABSENT and chunk.usage != openai.NULL:
            self._usage = openai.read_value(chunk.usage)
        for choice in chunk.choices:
            if choice.index == 0:
                self._choice(choice)

    def _expect(self, chunk: RepeatedChunk) -> None:
        """Chunks of which the text alone is news go on with what this one has begun."""
        blocks = self._blocks
        match chunk.kind:
            case TextKind.CONTENT:
                self._more, self._kind = blocks.text, "text"
            case TextKind.REASONING:
                self._more, self._kind = blocks.thought, "thinking"
            case TextKind.ARGUMENTS:
                self._more, self._kind = partial(blocks.call, chunk.index, None, None), "call"
        self._settle()

    def _settle(self) -> None:
        """Find out whether another one is a delta of the open block, whatever it says."""
        blocks = self._blocks
        self._frame = self._events.frame if blocks.goes_on(self._kind, self._last.index) else None
        self._kept = blocks.kept

    def _go_on(self, written: bytes) -> bytes:
        """One more of them, by way of the blocks."""
        if len(written) > 2:
            self._more(written)
            self._settle()
        return self._take()

    def _choice(self, choice: Choice) -> None:
        delta, blocks = choice.delta, self._blocks
        if delta is not None:
            if delta.reasoning is not ABSENT or delta.reasoning_content is not ABSENT:
                for thought in thoughts_of(text_in(delta.reasoning_content), text_in(delta.reasoning)):
                    blocks.thought(thought)
            if delta.content is not ABSENT:
                blocks.text(text_in(delta.content))
            if refusal := text_in(delta.refusal):
                self._refused = True
                blocks.text(refusal)
            for call in delta.tool_calls or ():
                function = call.function or Function()
                blocks.call(call.index, call.id, function.name, arguments_of(function.arguments))
        if choice.finish_reason:
            self._reason = choice.finish_reason
            self._matched = openai.read_value(choice.stop_reason or choice.matched_stop or None)

    def _end(self) -> None:
        """The last events: those of a whole answer, or the error of one that lacks its end."""
        out = self._events.out
        if not self._reason:
            out.append(
                self._fail(ToolCallError("upstream_error", "The stream broke off before the answer was complete."))
            )
            return
        self.over = True
        self._blocks.finish()
        asked, blocks = self._asked, self._blocks
        reason, sequence = stop_of(
            self._reason, calls=blocks.calls, refused=self._refused, matched=self._matched, stops=asked.stops
        )
        usage = usage_of(self._usage, input_estimate=asked.estimate, output_estimate=blocks.size // _BYTES_A_TOKEN)
        delta = {"stop_reason": reason, "stop_sequence": sequence}
        last = self._extension.beside({"type": "message_delta", "delta": delta, "usage": usage})
        out += (event("message_delta", last), event("message_stop", {}))

    def _fail(self, error: ToolCallError) -> bytes:
        self.over = True
        self._last.forget()
        return self._errors.event(error)

    def fail(self, error: ToolCallError) -> bytes:
        """The answer cannot go on; empty where it is over already."""
        return b"" if self.over else self._fail(error)

    def keepalive(self) -> bytes:
        """An event for a client that waits; nothing before the first one and after the last."""
        return PING if self.begun and not self.over else b""
