"""The events of a stream of Messages on their way to the client, as far as the chat answer lets them pass.

An event of text or of a call leaves once the chat answer has said the same; a call is known by its id. Where the chat
answer says something else (a call was refused, renamed or repaired, prose was dropped), it is written in its words, and
all other blocks stay the upstream's.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping
from typing import Any

import msgspec

from ..passage import Taped
from .chat_so_far import Call, ChatSoFar
from .client.writer import event
from .passed import stop_reason

_log = logging.getLogger("toolcall_middleware")


class _Block(msgspec.Struct):
    """A block that has begun. at: its index for the client; None where it is left out. given: its `input`."""

    kind: str
    at: int | None = None
    call: Call | None = None
    given: Any = None
    begun: bool = False  # some of its arguments have left


class PassedEvents:
    """The events of one answer. tape: those that came and have not left. chat: the chat answer made of them.

    begun: an event has left. ended: the last one has. headless: the first one is not repeated.
    """

    def __init__(self, tape: deque[Taped], chat: ChatSoFar) -> None:
        self._tape = tape
        self._chat = chat
        self._out: list[bytes] = []
        self._blocks: dict[int | None, _Block] = {}  # by the upstream's index
        self._open: _Block | None = None
        self._mine: int | None = None  # the client's index of a text block of our own that is open
        self._next = 0  # the client's index of the next block
        self._told_end = False  # `message_delta` has left
        self._sent = 0  # calls whose blocks have begun
        self.headless = self.begun = self.ended = False

    def find(self, call: Call) -> None:
        """Settle whether a call of the chat answer has a block of the upstream's."""
        begun = [item.value.get("content_block") for item in self._tape]
        ids = {str(block.get("id")) for block in begun if isinstance(block, dict) and block.get("type") == "tool_use"}
        call.foreign = call.id not in ids

    def release(self) -> bytes:
        """The events that pass, up to the first one of which that is not known yet."""
        tape = self._tape
        self._write_own()
        while tape and not self.ended and self._passes(tape[0]):
            tape.popleft()
            self._write_own()
        if not tape:
            self._write_calls()
        return self._take()

    def release_text(self) -> bytes:
        """The same of an answer that goes no further: nothing of a call any more."""
        if self._open is not None and self._open.call is not None:
            return b""
        self._chat.waiting.clear()
        return self.release()

    def end(self, usage: Mapping[str, Any]) -> bytes:
        """The last events, of an answer that was ended before the upstream's own end. usage: as far as it is known."""
        out = self.release()
        if self.ended:
            return out
        self._close()
        self.ended = True
        if not self._told_end:
            delta = {"stop_reason": stop_reason(None, self._chat.reason, self._sent), "stop_sequence": None}
            self._out.append(event("message_delta", {"delta": delta, "usage": usage}))
        self._out.append(event("message_stop", {}))
        return out + self._take()

    def _take(self) -> bytes:
        out = b"".join(self._out)
        self._out.clear()
        return out

    # -- the upstream's events -------------------------------------------------------------------------------------

    def _passes(self, item: Taped) -> bool:
        """Write what the client gets for an event of the upstream's. False where that cannot be told yet: the chat
        answer has not come so far.
        """
        value = item.value
        block = self._blocks.get(_index_of(value))
        match value.get("type"):
            case "content_block_start":
                return self._starts(item)
            case "content_block_delta" if block is not None:
                return self._goes_on(item, block)
            case "content_block_stop" if block is not None:
                return self._stops(item, block)
            case "message_delta":
                if self._chat.reason:
                    self._tell_end(item)
                return bool(self._chat.reason)
            case "message_stop":
                if self._chat.reason:
                    self._close()
                    self.ended = True
                    self._out.append(item.raw)
                return self.ended
            case "error":
                # Behind a complete chat answer an error changes nothing. Before its end it stays on the tape, and
                # `PassedStream` ends the stream with it.
                return bool(self._chat.reason)
            case "message_start" if not self.begun and self.headless:
                self.begun = True
                return True
        self.begun = True
        self._out.append(item.raw)
        return True

    def _starts(self, item: Taped) -> bool:
        content = item.value.get("content_block")
        content = content if isinstance(content, dict) else {}
        block = _Block(str(content.get("type")))
        passes: bool | None
        match block.kind:
            case "text":
                passes = self._passes_text(content)
            case "tool_use":
                passes = self._passes_call(content, block)
            case _:
                # Half a block of an answer that was ended early could not be given back to the API.
                passes = not self._chat.reason or self._is_whole(_index_of(item.value))
        if passes is None:
            return False
        self._blocks[_index_of(item.value)] = block
        if passes:
            self._close_mine()
            self._open, block.at = block, self._next
            self._next += 1
            self._begin(item, content, block)
        return True

    def _passes_text(self, content: Mapping[str, Any]) -> bool | None:
        """Whether a block of text begins for the client: not before some of it is let pass, because it may be empty."""
        tape, piece = self._tape, content.get("text")
        if not piece:
            if len(tape) < 2:
                return False if self._chat.reason else None
            piece = _text_of(tape[1].value.get("delta"), "text_delta", "text") or ""
        return self._chat.has(self._chat.text, str(piece))

    def _passes_call(self, content: Mapping[str, Any], block: _Block) -> bool | None:
        """Whether the block of a call begins for the client, and of which call of the chat answer it is."""
        call = self._chat.waiting.get(str(content.get("id")))
        if call is None:
            self._write_calls()
            if not self._chat.is_behind:
                return None
            self._chat.text.own = self._chat.text.own or self._chat.text.waits  # what was made of it stands here
            return False
        block.given = content.get("input") or {}
        if block.given:  # all of them at once
            if not self._chat.is_known(call):
                return None
            if call.value() != block.given:
                block.given, call.pending.own = {}, True
        del self._chat.waiting[call.id]
        block.call = call
        return True

    def _begin(self, item: Taped, content: Mapping[str, Any], block: _Block) -> None:
        """The first event of a block."""
        call = block.call
        if call is None:
            if block.kind == "text":
                self._chat.text.skip(str(content.get("text") or ""))
            self._pass(item, block)
            return
        self._sent += 1
        if content.get("name") == call.name and (content.get("input") or {}) == block.given:
            self._pass(item, block)
            return
        _log.info("messages: a call of the upstream's stream was changed on its way")
        changed = {**content, "name": call.name, "input": block.given}
        self._out.append(event("content_block_start", {**item.value, "index": block.at, "content_block": changed}))

    def _goes_on(self, item: Taped, block: _Block) -> bool:
        """A delta of a block."""
        if block.at is None:
            return True
        delta = item.value.get("delta")
        if block.call is not None:
            pending, piece = block.call.pending, _text_of(delta, "input_json_delta", "partial_json")
        else:
            pending, piece = self._chat.text, _text_of(delta, "text_delta", "text") if block.kind == "text" else None
        if piece is None:
            self._pass(item, block)
            return True
        passes = self._chat.has(pending, piece)
        if passes:
            pending.skip(piece)
            block.begun = block.begun or bool(piece)
            self._pass(item, block)
        elif passes is not None:
            self._go_on(block, pending.take())
        return passes is not None

    def _stops(self, item: Taped, block: _Block) -> bool:
        """The end of a block: of a call, once there is no more of its arguments."""
        call = block.call
        if block.at is not None and call is not None:
            if call.value() is None and not self._chat.is_behind:
                return False
            rest = call.pending.take()
            if block.begun or call.value() != block.given:
                self._go_on(block, rest)
        del self._blocks[_index_of(item.value)]
        if block.at is not None:
            self._pass(item, block)
        if self._open is block:
            self._open = None
        return True

    def _is_whole(self, index: Any) -> bool:
        """Whether the end of a block has come."""
        ends = (item.value for item in self._tape if item.value.get("type") == "content_block_stop")
        return any(_index_of(value) == index for value in ends)

    def _pass(self, item: Taped, block: _Block) -> None:
        """An event as it came, but for the number of its block where that is another one for the client."""
        value = item.value
        self._out.append(
            item.raw if value.get("index") == block.at else event(str(value["type"]), {**value, "index": block.at})
        )

    # -- events of our own -----------------------------------------------------------------------------------------

    def _write_own(self) -> None:
        """Text that the chat answer alone says, as soon as it has a place: in no block of another kind."""
        block, text = self._open, self._chat.text
        if not (text.own and text.waits and self.begun):
            return
        if block is not None and block.kind == "text":
            self._go_on(block, text.take())
        elif block is None:
            self._write_text(text.take())

    def _write_calls(self) -> None:
        """Calls that the upstream wrote in another block than one of a call. Its own blocks before them come first."""
        waiting = self._chat.waiting
        while waiting and self._open is None and self.begun:
            call = next(iter(waiting.values()))
            if not call.foreign or not self._chat.is_known(call):
                return
            del waiting[call.id]
            self._write_call(call)

    def _go_on(self, block: _Block, text: str) -> None:
        """More of a block of the upstream's, in other words than its own."""
        if not text:
            return
        block.begun = True
        if block.call is None:
            delta = {"type": "text_delta", "text": text}
        else:
            delta = {"type": "input_json_delta", "partial_json": text}
        self._out.append(event("content_block_delta", {"index": block.at, "delta": delta}))

    def _write_text(self, text: str) -> None:
        if self._mine is None:
            if not text.strip():  # the API takes no such block back
                self._chat.text.add(text)
                return
            self._mine = self._next
            self._next += 1
            block = {"type": "text", "text": ""}
            self._out.append(event("content_block_start", {"index": self._mine, "content_block": block}))
        delta = {"type": "text_delta", "text": text}
        self._out.append(event("content_block_delta", {"index": self._mine, "delta": delta}))

    def _write_call(self, call: Call) -> None:
        self._close_mine()
        at, self._next = self._next, self._next + 1
        self._sent += 1
        block = {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": call.pending.take()}
        self._out += [
            event("content_block_start", {"index": at, "content_block": block}),
            event("content_block_delta", {"index": at, "delta": delta}),
            event("content_block_stop", {"index": at}),
        ]

    def _close_mine(self) -> None:
        if self._mine is not None:
            self._out.append(event("content_block_stop", {"index": self._mine}))
            self._mine = None

    def _close(self) -> None:
        """Nothing of a block comes any more."""
        self._chat.text.own = True
        self._write_own()
        self._write_calls()
        self._close_mine()
        if self._open is not None:
            self._out.append(event("content_block_stop", {"index": self._open.at}))
            self._open = None

    def _tell_end(self, item: Taped) -> None:
        """`message_delta`: why the upstream has stopped, where the client's answer has no other end."""
        self._close()
        self._told_end = True
        delta = item.value.get("delta")
        own = delta.get("stop_reason") if isinstance(delta, dict) else None
        reason = stop_reason(own, self._chat.reason, self._sent)
        if own is None or reason == own or not isinstance(delta, dict):
            self._out.append(item.raw)
        else:
            self._out.append(event("message_delta", {**item.value, "delta": {**delta, "stop_reason": reason}}))


def _index_of(value: Mapping[str, Any]) -> int | None:
    index = value.get("index")
    return index if isinstance(index, int) else None


def _text_of(delta: Any, kind: str, name: str) -> str | None:
    """What a delta of this kind adds; None for another one."""
    if not isinstance(delta, dict) or delta.get("type") != kind:
        return None
    text = delta.get(name)
    return text if isinstance(text, str) else ""
