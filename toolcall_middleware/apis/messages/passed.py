"""An answer that came as Messages and leaves so: the upstream's own bytes, as far as the chat answer lets them pass.

The chat answer made of the same events went through the exchange. A call that the exchange holds or refuses is not in
it yet: the block of that call, and all that follows, waits on the tape. What the exchange changed is written anew.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from itertools import islice, takewhile
from typing import Any

import msgspec

from ...errors import ToolCallError
from ...wire import openai
from ...wire.sse import EventReader, TooLargeError
from ..passage import Passage, Taped
from .client.chunks import NONE, Chunk, arguments_of, read_chunk, text_in
from .client.errors import Errors
from .client.stream import PING, MessageStream, event
from .client.thinking import MARK
from .client.usage import usage_of

_LONGEST_EVENT = 64 << 20
_OF_CALLS = frozenset({"text", "tool_use"})
_log = logging.getLogger("toolcall_middleware")


def passed_body(body: bytes) -> bytes:
    """A client's request for Anthropic: the very same bytes, but without thoughts that this package signed.

    Those came from another model, or in an answer that was translated; their signature means nothing there.
    """
    if MARK.encode() not in body:
        return body
    fields = openai.read_object(body) or {}
    messages = openai.read_objects(fields.get("messages"))
    if messages is None:
        return body
    kept = [made for message in messages if (made := _without_own_thoughts(message)) is not None]
    return openai.encode({**fields, "messages": kept})


def _without_own_thoughts(message: openai.Fields) -> dict[str, Any] | None:
    blocks = openai.read_objects(message.get("content"))
    if blocks is None:
        return message
    kept = [block for block in blocks if not (openai.read_text(block.get("signature")) or "").startswith(MARK)]
    if len(kept) == len(blocks):
        return message
    return {**message, "content": kept} if kept else None


def passed_whole(passage: Passage, translated: bytes) -> bytes:
    """The upstream's whole answer. translated: the same as the exchange let it pass.

    Where the exchange changed its calls, it has those of `translated` in place of its own.
    """
    assert passage.whole is not None  # noqa: S101 - the answer has come
    own = passage.whole[1]
    if passage.counts:
        return own
    mine, theirs = openai.read_value(own), openai.read_value(translated)
    if not isinstance(mine, dict) or not isinstance(theirs, dict) or not isinstance(mine.get("content"), list):
        return translated
    if _calls(mine) == _calls(theirs):
        return own
    _log.info("messages: a call of the upstream's answer was changed on its way")
    fields = openai.read_object(own) or {}
    others = [
        block
        for block in openai.read_objects(fields.get("content")) or ()
        if openai.read_text(block.get("type")) not in _OF_CALLS
    ]
    written = [block for block in theirs["content"] if block.get("type") in _OF_CALLS]
    return openai.encode({**fields, "content": [*others, *written], "stop_reason": theirs.get("stop_reason")})


def _calls(message: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    return [(block.get("name"), block.get("input")) for block in message["content"] if block.get("type") == "tool_use"]


class _Call(msgspec.Struct):
    """A call of the chat answer, as far as it has come. parts: of its arguments, each a JSON string."""

    name: str
    parts: list[bytes] = msgspec.field(default_factory=list)

    def arguments(self) -> str:
        return "".join(openai.read_text(part) or "" for part in self.parts)


class PassedStream:
    """One streamed answer. plain: writes it where the upstream was asked with a translated request after all.

    estimate: how many tokens the prompt may have, for an answer that ends before the upstream has said it.
    """

    def __init__(self, passage: Passage, plain: MessageStream, errors: Errors, *, estimate: int) -> None:
        self._passage = passage
        self._estimate = estimate
        self._usage: Any = None
        self._plain = plain
        self._errors = errors
        self._reader = EventReader(_LONGEST_EVENT)
        self._calls: dict[int, _Call] = {}
        self._sent = 0  # calls whose blocks have been released
        self._open: int | None = None  # the client's index of the block that is open
        self._in_call = False  # ... which is a call
        self._shift = 0  # the client's index of a block less the upstream's
        self._text: list[str] = []  # of the chat answer, while a block waits
        self._reason = ""
        self._refused = False  # a call was left out
        self._begun = False  # an event of the upstream's has left
        self._ended = False  # the upstream's last event has left
        self._failed = False

    @property
    def over(self) -> bool:
        return self._ended or self._failed or self._plain.over

    def begin(self) -> bytes:
        """The first events, before the upstream's: they are ours then, and its own are not repeated."""
        return b"" if self._begun else self._plain.begin()

    def keepalive(self) -> bytes:
        """An event for a client that waits; nothing before the first one and after the last."""
        return PING if (self._begun or self._plain.begun) and not self.over else b""

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
        if not self._reason:
            return out + self.fail(
                ToolCallError("upstream_error", "The stream broke off before the answer was complete.")
            )
        return out + self._rest()

    # -- the chat answer -------------------------------------------------------------------------------------------

    def _passed(self, events: Sequence[bytes | None]) -> bytes:
        fault: ToolCallError | None = None
        for data in events:
            if data is None or data == b"[DONE]":
                continue
            chunk = read_chunk(data)
            if chunk is None:
                fault = ToolCallError("upstream_error", "A chunk of the answer is no JSON.")
                break
            if chunk.error is not NONE and chunk.error != openai.NULL:
                fault = openai.read_error(data)
                break
            self._note(chunk)
        if fault is None:
            return self._release()
        out = self._before_calls()
        tape = self._passage.tape
        if tape and tape[-1].value.get("type") == "error":  # the upstream's own words
            self._failed = True
            return out + tape[-1].raw
        return out + self.fail(fault)

    def _note(self, chunk: Chunk) -> None:
        if chunk.usage is not NONE and chunk.usage != openai.NULL:
            self._usage = openai.read_value(chunk.usage)
        for choice in chunk.choices:
            delta = choice.delta
            if delta is not None:
                for call in delta.tool_calls or ():
                    function = call.function
                    if call.index not in self._calls:
                        self._calls[call.index] = _Call((function and function.name) or "")
                    if function is not None and (part := arguments_of(function.arguments)):
                        known = self._calls[call.index]
                        if call.index >= self._sent:  # what has been sent need not be compared any more
                            known.parts.append(part)
                if text := text_in(delta.content):
                    self._text.append(openai.read_text(text) or "")
            if choice.finish_reason:
                self._reason = choice.finish_reason

    # -- the tape --------------------------------------------------------------------------------------------------

    def _release(self) -> bytes:
        """The events up to the first call that has not been let pass."""
        tape = self._passage.tape
        out: list[bytes] = []
        while tape:
            if _opens_call(tape[0].value):
                if self._sent not in self._calls:
                    break
                out.append(self._call(self._calls[self._sent]))
                self._sent += 1
            else:
                out.append(self._plainly(tape.popleft()))
        if not tape:
            self._text.clear()
        return b"".join(out)

    def _before_calls(self) -> bytes:
        """What passes of a stream that fails: nothing of a call any more."""
        tape = self._passage.tape
        out: list[bytes] = []
        while tape and not self._in_call and not _opens_call(tape[0].value) and tape[0].value.get("type") != "error":
            out.append(self._plainly(tape.popleft()))
        return b"".join(out)

    def _call(self, call: _Call) -> bytes:
        """The beginning of a call that is let pass, in the upstream's words but where the exchange changed them."""
        tape = self._passage.tape
        first = tape[0]
        block = first.value["content_block"]
        deltas = _deltas(tape)
        changed = _differ(_input_of(block, deltas), call.arguments())
        if block.get("name") == call.name and not changed:
            return self._plainly(tape.popleft())
        _log.info("messages: a call of the upstream's stream was changed on its way")
        block = {**block, "name": call.name}
        if changed:
            block["input"] = {}
        tape.popleft()
        index = first.value.get("index", 0)
        out = self._plainly(_taped("content_block_start", index, content_block=block))
        if not changed:
            return out
        for _ in deltas:
            tape.popleft()
        delta = {"type": "input_json_delta", "partial_json": call.arguments()}
        return out + self._plainly(_taped("content_block_delta", index, delta=delta))

    def _plainly(self, item: Taped) -> bytes:
        """An event as it came, but for the number of its block where blocks before it were left out."""
        value = item.value
        kind = value.get("type")
        if not self._begun:
            self._begun = True
            if self._plain.begun and kind == "message_start":
                return b""
        if kind == "message_stop":
            self._ended = True
        index = value.get("index")
        if isinstance(index, int):
            index += self._shift
            if kind == "content_block_start":
                self._open, self._in_call = index, _opens_call(value)
            elif kind == "content_block_stop":
                self._open, self._in_call = None, False
            if self._shift:
                return event(str(kind), {**value, "index": index})
        if kind == "message_delta" and self._refused and not self._sent:
            delta = value.get("delta")
            if isinstance(delta, dict) and delta.get("stop_reason") == "tool_use":
                return event("message_delta", {**value, "delta": {**delta, "stop_reason": "end_turn"}})
        return item.raw

    def _rest(self) -> bytes:
        """The answer is over for the exchange: what of the tape passes, and the last events."""
        tape = self._passage.tape
        out: list[bytes] = []
        while tape:
            first = tape[0].value
            if not _opens_call(first):
                out.append(self._plainly(tape.popleft()))
                continue
            if self._sent in self._calls:
                out.append(self._call(self._calls[self._sent]))
                self._sent += 1
                continue
            out.append(self._left_out(first))
        if not self._ended:
            out.append(self._end())
        return b"".join(out)

    def _left_out(self, first: Mapping[str, Any]) -> bytes:
        """A block whose call was not let pass: the text that the exchange made of it, or nothing."""
        tape = self._passage.tape
        self._refused = True
        index = first.get("index", 0)
        for item in list(tape):
            if item.value.get("index") != index:
                break
            tape.popleft()
        text, self._text = "".join(self._text), []
        if not text.strip():
            self._shift -= 1
            return b""
        at = index + self._shift
        return (
            event("content_block_start", {"index": at, "content_block": {"type": "text", "text": ""}})
            + event("content_block_delta", {"index": at, "delta": {"type": "text_delta", "text": text}})
            + event("content_block_stop", {"index": at})
        )

    def _end(self) -> bytes:
        """The last events of an answer that was ended before the upstream's own end."""
        self._ended = True
        out = b""
        if self._open is not None:
            out = event("content_block_stop", {"index": self._open})
        reason = {"length": "max_tokens", "content_filter": "refusal"}.get(self._reason)
        delta = {"stop_reason": reason or ("tool_use" if self._sent else "end_turn"), "stop_sequence": None}
        usage = usage_of(self._usage, input_estimate=self._estimate, output_estimate=1)
        return out + event("message_delta", {"delta": delta, "usage": usage}) + event("message_stop", {})


def _opens_call(value: Mapping[str, Any]) -> bool:
    """Whether an event begins the block of a call that the client is to run."""
    block = value.get("content_block")
    return value.get("type") == "content_block_start" and isinstance(block, dict) and block.get("type") == "tool_use"


def _taped(kind: str, index: Any, **fields: Any) -> Taped:
    """An event of our own."""
    value = {"type": kind, "index": index, **fields}
    return Taped(event(kind, value), value)


def _deltas(tape: deque[Taped]) -> list[Taped]:
    """What has come of the block that the tape begins with, behind its first event."""
    index = tape[0].value.get("index")
    return list(takewhile(lambda item: _is_delta(item, index), islice(tape, 1, None)))


def _is_delta(item: Taped, index: Any) -> bool:
    return item.value.get("type") == "content_block_delta" and item.value.get("index") == index


def _input_of(block: Mapping[str, Any], events: Sequence[Taped]) -> Any:
    """The arguments of a block of a call."""
    deltas = [item.value.get("delta") for item in events]
    written = "".join(str(delta.get("partial_json") or "") for delta in deltas if isinstance(delta, dict))
    return openai.read_value(written.encode("utf-8", "backslashreplace")) if written else block.get("input")


def _differ(own: Any, arguments: str) -> bool:
    """Whether the exchange let other arguments pass. What has come only in part is not compared."""
    theirs = openai.read_value(arguments.encode("utf-8", "backslashreplace"))
    return isinstance(own, dict) and isinstance(theirs, dict) and theirs != own
