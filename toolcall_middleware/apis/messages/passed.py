"""Answers of an upstream that speaks Messages itself: its bytes pass, and a call passes once the exchange emits it.

The exchange reads the same answer as a chat completion, with all guards. Text, thoughts and other blocks are sent as
they came once the exchange begins the answer. A call waits until the exchange opens it, and is sent with the name and
the arguments that the exchange emits. A call that the exchange refuses is left out; the text that it emits instead is
sent in its place.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Container, Iterable, Mapping
from typing import Any

import msgspec

from ...answer.operations import Arguments, CallClosed, CallOpened, Content, Finished, Opened, Step
from ...errors import ToolCallError
from ...wire import openai
from ..passage import Passage
from .client.messages import MARK
from .client.request import Asked
from .client.writer import PING, Errors, MessageWriter, as_input, event, usage_of

_REASONS = {"length": "max_tokens", "content_filter": "refusal"}
_DELTAS = {"text": ("text_delta", "text"), "tool_use": ("input_json_delta", "partial_json")}
_ENDS = frozenset({"message_delta", "message_stop", "error"})
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


# -- what the exchange emits ---------------------------------------------------------------------------------------


class _Run:
    """Text that comes in pieces and is read from its front. What is skipped may come later."""

    __slots__ = ("_at", "_parts", "_text")

    def __init__(self) -> None:
        self._text = ""
        self._at = 0
        self._parts: list[str] = []  # more of the text, which is joined once it is looked at

    def add(self, text: str) -> None:
        self._parts.append(text)

    def skip(self, size: int) -> None:
        self._at += size

    def has(self, piece: str) -> bool | None:
        """Whether the text goes on with this piece; None where it ends within it."""
        self._join()
        if len(self._text) - self._at >= len(piece):
            return self._text.startswith(piece, self._at)
        return None if piece.startswith(self._text[self._at :]) else False

    def rest(self) -> str:
        """The text that is not skipped."""
        self._join()
        return self._text[self._at :]

    def _join(self) -> None:
        if self._parts:
            text = "".join([self._text, *self._parts])
            self._text, skipped = text[self._at :], min(self._at, len(text))
            self._at -= skipped
            self._parts.clear()


class _Call:
    """A call that the exchange emits. closed: no more arguments follow."""

    __slots__ = ("arguments", "closed", "id", "name")

    def __init__(self, step: CallOpened) -> None:
        self.id = step.id
        self.name = step.name
        self.arguments = _Run()
        self.closed = False


class _Emitted:
    """What the exchange has emitted of an answer. reason: why it ended; None before. sent: how many calls are sent.

    calls: those that are not sent. changed: text is sent as the exchange emits it, instead of the upstream's. A refused
    call sets it.
    """

    def __init__(self, *, changed: bool) -> None:
        self.text = _Run()
        self.reason: str | None = None
        self.sent = 0
        self.calls: deque[_Call] = deque()
        self.changed = changed
        self._by_index: dict[int, _Call] = {}

    def take(self, step: Step, ids: Container[str]) -> None:
        """ids: of the upstream's calls. What the exchange reads as a call in the upstream's text stays text."""
        match step:
            case Content(text):
                self.text.add(text)
            case CallOpened(index, call_id) if call_id in ids:
                self._by_index[index] = _Call(step)
                self.calls.append(self._by_index[index])
            case Arguments(index, text) if index in self._by_index:
                self._by_index[index].arguments.add(text)
            case CallClosed(index) if index in self._by_index:
                self._by_index[index].closed = True
            case Finished(reason):
                self.reason = reason

    def call(self, call_id: str) -> _Call | None:
        """The upstream's next call as it is emitted; None where it is not, or not yet (see `is_past`)."""
        if self.calls and self.calls[0].id == call_id:
            self.sent += 1
            return self.calls.popleft()
        return None

    def is_past(self) -> bool:
        """Whether the upstream's next call, which is not emitted, is refused."""
        past = bool(self.calls) or self.reason is not None
        self.changed = self.changed or past
        return past

    def own_text(self) -> str:
        """The text that is sent in place of the upstream's, as far as it has come; the API takes no blank text back."""
        text = self.text.rest() if self.changed else ""
        self.text.skip(len(text))
        return text if text.strip() else ""


def stop_reason(own: str | None, reason: str | None, calls: int) -> str:
    """Why an answer ended. own: what the upstream says. reason: the chat answer's. calls: how many are sent."""
    if own not in {None, "end_turn", "tool_use"}:
        return str(own)
    return _REASONS.get(reason or "") or ("tool_use" if calls else "end_turn")


def passed_whole(own: bytes, steps: Iterable[Step], *, keeps_text: bool) -> bytes:
    """The upstream's whole answer, as far as the exchange emits it in these steps. keeps_text: see `Passage`."""
    fields = openai.read_object(own) or {}
    blocks = openai.read_objects(fields.get("content")) or []
    emitted, ids = _Emitted(changed=not keeps_text), {_text_of(block, "id") for block in blocks}
    for step in steps:
        emitted.take(step, ids)
    written: list[Any] = []
    for block in blocks:
        kind = _text_of(block, "type")
        call = emitted.call(_text_of(block, "id")) if kind == "tool_use" else None
        if (kind == "text" and emitted.changed) or (kind == "tool_use" and call is None and emitted.is_past()):
            if text := emitted.own_text():
                written.append({"type": "text", "text": text})
        elif call is None:
            emitted.text.skip(len(_text_of(block, "text")) if kind == "text" else 0)
            written.append(block)
        else:
            given = msgspec.Raw(as_input(call.arguments.rest()))
            same = openai.read_value(block.get("input")) == openai.read_value(given)
            changes = {} if _text_of(block, "name") == call.name else {"name": call.name}
            written.append({**block, **changes, **({} if same else {"input": given})})
    if text := emitted.own_text():
        written.append({"type": "text", "text": text})
    told = openai.read_text(fields.get("stop_reason"))
    reason = stop_reason(told, emitted.reason, emitted.sent)
    if written == blocks and reason == told:
        return own
    _log.info("messages: the upstream's answer was changed on its way")
    return openai.encode({**fields, "content": written, "stop_reason": reason})


def _text_of(block: openai.Fields, name: str) -> str:
    return openai.read_text(block.get(name)) or ""


# -- streams -------------------------------------------------------------------------------------------------------


class _Block(msgspec.Struct):
    """A content block of the upstream. at: its index for the client. begun: a delta with arguments has come.

    call: what the exchange emits of a call; None where it is refused. changed: it emits other arguments.
    """

    kind: str
    content: Mapping[str, Any]
    at: int = 0
    begun: bool = False
    call: _Call | None = None
    changed: bool = False

    @property
    def id(self) -> str:
        return str(self.content.get("id"))


class _Event(msgspec.Struct):
    """An event of the upstream. piece: text or arguments that it adds."""

    raw: bytes
    value: Mapping[str, Any]
    kind: str
    block: _Block | None = None
    piece: str = ""

    @property
    def is_call(self) -> bool:
        return self.block is not None and self.block.kind == "tool_use"


class PassedWriter:
    """Writes one answer (`AnswerWriter`). plain: writes it alone where the upstream got a translated request."""

    def __init__(self, passage: Passage, plain: MessageWriter, errors: Errors, asked: Asked) -> None:
        self.in_use = False
        self._passage = passage
        self._plain = plain
        self._errors = errors
        self._asked = asked
        self._steps: list[Step] = []  # of a whole answer
        self._emitted = _Emitted(changed=False)
        self._blocks: dict[int | None, _Block] = {}  # by the upstream's index
        self._waiting: deque[_Event] = deque()  # events that are not sent
        self._ids: set[str] = set()  # of the upstream's calls
        self._out: list[bytes] = []
        self._count = 0  # blocks that are sent
        self._open: _Block | None = None  # that is sent so far up to its last event
        self._begins = False  # the exchange has begun to emit the answer
        self._begun = False
        self._told_end = False  # `message_delta` is sent
        self._ended = False

    @property
    def over(self) -> bool:
        return self._ended or self._plain.over

    def begin(self) -> None:
        """Write the first events before the upstream's own, which are then left out."""
        if not self._begun:
            self._plain.begin()

    def take(self, step: Step, /) -> None:
        if not self._passage.used:
            self._plain.take(step)
            return
        if not self._asked.stream:
            self._steps.append(step)
            return
        if isinstance(step, CallOpened):
            self._read()
        elif isinstance(step, Opened):
            self._emitted.changed = not self._passage.keeps_text
        self._emitted.take(step, self._ids)
        self._begins = True

    def say(self, op: Content | Arguments, /) -> bytes:
        self.take(op)
        return self.leaving()

    def end(self, usage: Any, remarks: dict[str, Any], /) -> None:
        if not self._passage.used:
            self._plain.end(usage, remarks)
            return
        if self.over or not self._asked.stream:
            return
        self._release()
        if self._ended:
            return
        self._ended = True
        if self._open is not None:
            self._out.append(event("content_block_stop", {"index": self._open.at}))
        if not self._told_end:
            reason = stop_reason(None, self._emitted.reason, self._emitted.sent)
            told = usage_of(usage, input_estimate=self._asked.estimate, output_estimate=1)
            delta = {"stop_reason": reason, "stop_sequence": None}
            self._out.append(event("message_delta", {"delta": delta, "usage": told}))
        self._out.append(event("message_stop", {}))

    def fail(self, error: ToolCallError, /) -> None:
        """The last event of a stream that fails, after the blocks before it. Nothing more of a call is sent."""
        if not self._passage.used:
            self._plain.fail(error)
        elif not self.over:
            self._read()
            while self._waiting and not self._waiting[0].is_call and self._sends():
                self._waiting.popleft()
            own = self._waiting[-1] if self._waiting else None
            self._out.append(own.raw if own is not None and own.kind == "error" else self._errors.event(error))
            self._ended = True

    def alive(self) -> None:
        if not self._passage.used:
            self._plain.alive()
        elif (self._begun or self._plain.begun) and not self.over:
            self._out.append(PING)

    def leaving(self) -> bytes:
        if self._begins and not self.over:
            self._release()
        out = self._plain.leaving() + b"".join(self._out)
        self._out.clear()
        return out

    def whole(self) -> bytes:
        if not self._passage.used:
            return self._plain.whole()
        assert self._passage.whole is not None  # noqa: S101 - the answer has come
        return passed_whole(self._passage.whole[1], self._steps, keeps_text=self._passage.keeps_text)

    # -- events ----------------------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Read the events that have come since."""
        tape = self._passage.tape
        while tape:
            raw, value = tape.popleft()
            kind, index = str(value.get("type")), value.get("index")
            index = index if isinstance(index, int) else None
            block, piece = None, ""
            if kind == "content_block_start":
                content = value.get("content_block")
                content = content if isinstance(content, dict) else {}
                block = self._blocks[index] = _Block(str(content.get("type")), content)
                if block.kind == "tool_use":
                    self._ids.add(block.id)
                elif block.kind == "text":
                    piece = str(content.get("text") or "")
            elif kind in {"content_block_delta", "content_block_stop"}:
                block = self._blocks.get(index)
                if block is not None and kind == "content_block_delta":
                    piece = _added(block.kind, value.get("delta"))
                    block.begun = block.begun or bool(piece)
            self._waiting.append(_Event(raw, value, kind, block, piece))

    def _release(self) -> None:
        """Send the events up to the first one that the exchange has not come to."""
        self._read()
        while self._waiting and not self._ended and self._sends():
            self._waiting.popleft()

    def _sends(self) -> bool:
        """Send the next event, or leave it out. False while the exchange has not come to it."""
        item = self._waiting[0]
        block, kind = item.block, item.kind
        if kind in _ENDS:
            if self._emitted.reason is None:
                return False
            self._say()
            if kind == "message_delta":
                self._tell_end(item)
            elif kind == "message_stop":
                self._ended = True
                self._out.append(item.raw)
            # After a complete answer an error changes nothing.
        elif kind == "message_start":
            if not self._plain.begun:
                self._out.append(item.raw)
            self._begun = True
        elif block is None:
            self._out.append(item.raw)
        elif block.kind == "tool_use":
            return self._sends_call(item, block)
        elif block.kind != "text":
            self._send(item, block)
        elif not self._emitted.changed:
            self._emitted.text.skip(len(item.piece))
            self._send(item, block)
        elif kind == "content_block_stop":
            self._say()
        return True

    def _send(self, item: _Event, block: _Block, **changes: Any) -> None:
        """Send an event of a block, with these fields, and the index that the block has for the client."""
        if item.kind == "content_block_start":
            self._open, block.at = block, self._count
            self._count += 1
        elif item.kind == "content_block_stop":
            self._open = None
        if changes or item.value.get("index") != block.at:
            _log.info("messages: the upstream's stream was changed on its way")
            self._out.append(event(item.kind, {**item.value, **changes, "index": block.at}))
        else:
            self._out.append(item.raw)

    def _sends_call(self, item: _Event, block: _Block) -> bool:
        call = block.call
        if item.kind == "content_block_start":
            block.call = call = self._emitted.call(block.id)
            if call is None:
                refused = self._emitted.is_past()
                self._say()
                return refused
            same = call.name == block.content.get("name")
            self._send(item, block, **({} if same else {"content_block": {**block.content, "name": call.name}}))
        elif call is None:
            pass  # it is refused
        elif item.kind == "content_block_delta":
            has = False if block.changed else call.arguments.has(item.piece)
            if has is None and not call.closed:
                return False
            block.changed = not has
            if has:
                call.arguments.skip(len(item.piece))
                self._send(item, block)
        else:
            if not call.closed and self._emitted.reason is None:
                return False
            rest = call.arguments.rest()
            given = openai.encode(block.content.get("input") or {}).decode()
            if rest and (block.begun or rest != given):
                delta = {"type": "input_json_delta", "partial_json": rest}
                self._out.append(event("content_block_delta", {"index": block.at, "delta": delta}))
            self._send(item, block)
        return True

    def _say(self) -> None:
        """Send the exchange's own text, as a block."""
        if text := self._emitted.own_text():
            index = {"index": self._count}
            self._out += (
                event("content_block_start", {**index, "content_block": {"type": "text", "text": ""}}),
                event("content_block_delta", {**index, "delta": {"type": "text_delta", "text": text}}),
                event("content_block_stop", index),
            )
            self._count += 1

    def _tell_end(self, item: _Event) -> None:
        """`message_delta`: why the upstream has stopped, unless the client's answer ends for another reason."""
        self._told_end = True
        delta = item.value.get("delta")
        own = delta.get("stop_reason") if isinstance(delta, dict) else None
        reason = stop_reason(own, self._emitted.reason, self._emitted.sent)
        if own is None or reason == own or not isinstance(delta, dict):
            self._out.append(item.raw)
        else:
            self._out.append(event("message_delta", {**item.value, "delta": {**delta, "stop_reason": reason}}))


def _added(kind: str, delta: Any) -> str:
    """The text or arguments that a delta adds to a block of this kind."""
    name, field = _DELTAS.get(kind, ("", ""))
    text = delta.get(field) if isinstance(delta, dict) and delta.get("type") == name else None
    return text if isinstance(text, str) else ""
