"""The content blocks of an answer: one machine that decides what stands in which block, for streams and whole answers.

It takes text, thoughts and calls as raw JSON strings, whose bytes it never spells anew, and tells a sink to open a
block, to add to it and to close it. Rules of the wire that it keeps: one block at a time; no block of text that is
empty or blank; ids are unique and of `[a-zA-Z0-9_-]`; a call's input is an object.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from ....wire import openai
from ....wire.new_call_id import new_call_id
from ...object_end import ObjectEnd
from .thinking import Thinking

_ID = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_BLANK = re.compile(rb"(?: |\\[nrtfb])*")
_WHERE_OTHER = "arguments"
"""The field that holds arguments which are no object: the model is shown there what it wrote, when it comes back."""


class Sink(Protocol):
    """Where blocks go. `inner`: the bytes between the quotes of a JSON string."""

    def open_text(self) -> None: ...
    def open_thinking(self) -> None: ...
    def open_call(self, call_id: str, name: str) -> None: ...
    def add(self, inner: bytes) -> None: ...
    def close(self) -> None: ...


def text_of(inner: bytes) -> str:
    """The text that a JSON string says, whose bytes between the quotes are `inner`."""
    return openai.read_text(b'"%b"' % inner) or ""


def inner_of(text: str) -> bytes:
    """A text as the bytes between the quotes of a JSON string."""
    return openai.encode(text)[1:-1]


def as_input(text: str) -> bytes:
    """A call's arguments as the JSON of an object: themselves where they are one, else an object that holds them.

    What was cut off is not closed to look complete: it is a string then.
    """
    if not text.strip():
        return b"{}"
    data = text.encode("utf-8", "backslashreplace")  # a lone surrogate stays an escape
    value = openai.read_value(data)
    if isinstance(value, dict):
        return openai.without_constants(data)
    if value is None:
        return b"{}" if text.strip() == "null" else openai.encode({_WHERE_OTHER: text})
    return openai.encode({_WHERE_OTHER: msgspec.Raw(openai.without_constants(data))})


@dataclass(slots=True)
class _Call:
    """A call of the answer. early: arguments that came before its block was opened.

    pieces: its arguments since, until the block is closed. is_object: None while they are white space only.
    """

    call_id: str = ""
    name: str = ""
    early: list[bytes] = field(default_factory=list)
    pieces: list[bytes] = field(default_factory=list)
    is_object: bool | None = None
    scanned: int = 0
    end: ObjectEnd = field(default_factory=ObjectEnd)
    done: bool = False

    def is_complete(self) -> bool:
        """Whether the object that the arguments begin with is closed."""
        for piece in self.pieces[self.scanned :]:
            self.end.feed(text_of(piece))
        self.scanned = len(self.pieces)
        return self.end.closed


@dataclass(slots=True)
class _Said:
    """Text or thoughts that wait behind a call."""

    kind: str
    pieces: list[bytes]


class Blocks:
    """The blocks of one answer. taken: ids of calls that the conversation has already.

    calls: how many calls it has. size: bytes of what was written.
    """

    __slots__ = (
        "_calls", "_held", "_held_kind", "_kind", "_open", "_sink", "_taken", "_thinking", "_waiting", "calls", "size",
    )  # fmt: skip

    def __init__(self, sink: Sink, thinking: Thinking, taken: set[str]) -> None:
        self._sink = sink
        self._thinking = thinking
        self._taken = set(taken)
        self._kind = ""  # of the open block: text, thinking, call, or none
        self._held = b""  # white space that may begin a block
        self._held_kind = ""  # the kind of that block
        self._calls: dict[int, _Call] = {}
        self._open: _Call | None = None
        # What comes behind a call that may still go on: some backends write two calls in turns.
        self._waiting: list[_Call | _Said] = []
        self.calls = 0
        self.size = 0

    # -- what the answer says --------------------------------------------------------------------------------------

    def thought(self, raw: bytes) -> None:
        """More reasoning: a JSON string, or nothing."""
        inner = raw[1:-1]
        self.size += len(inner)
        if self._thinking.wanted:
            self._say("thinking", inner)

    def text(self, raw: bytes) -> None:
        """More text: a JSON string, or nothing."""
        inner = raw[1:-1]
        self.size += len(inner)
        self._say("text", inner)

    def call(self, index: int, call_id: str | None, name: str | None, raw: bytes) -> None:
        """A call begins or goes on. `raw`: more of its arguments, a JSON string, or nothing."""
        call = self._calls.get(index)
        if call is None:
            call = self._calls[index] = _Call(self._safe_id(call_id or ""), name or "")
            self.calls += 1
            self._in_turn(call)
        inner = raw[1:-1]
        if not inner or call.done:
            return
        self.size += len(inner)
        if call is not self._open:
            call.early.append(inner)
            return
        self._more(call, inner)
        if self._waiting and call.is_complete():
            self._release()

    def goes_on(self, kind: str, index: int) -> bool:
        """Whether more of this only adds to the open block. kind: text, thinking or call; index: of the call."""
        if self._waiting or self._kind != kind:
            return False
        call = self._open
        return kind != "call" or (call is not None and call is self._calls.get(index) and bool(call.is_object))

    @property
    def kept(self) -> list[bytes] | None:
        """Where the pieces of the open block are kept; None where none are."""
        return None if self._open is None else self._open.pieces

    def finish(self) -> None:
        """The answer is over: the open block is closed, and what waits is written."""
        while self._waiting:
            self._release()
        self._close()

    # -- blocks ----------------------------------------------------------------------------------------------------

    def _say(self, kind: str, inner: bytes) -> None:
        if not inner:
            return
        if self._kind == kind and not self._waiting:
            self._sink.add(inner)
        else:
            self._in_turn(_Said(kind, [inner]))

    def _in_turn(self, step: _Call | _Said) -> None:
        """Write this now, or behind the open call."""
        waiting = self._waiting
        if not waiting and (self._open is None or self._open.is_complete()):
            self._write(step)
        elif isinstance(step, _Said) and waiting and isinstance(last := waiting[-1], _Said) and last.kind == step.kind:
            last.pieces += step.pieces
        else:
            waiting.append(step)

    def _release(self) -> None:
        """Nothing more of the open call comes: what waits goes on, up to the next call that may go on."""
        waiting, self._waiting = self._waiting, []
        self._close()
        for step in waiting:
            self._in_turn(step)

    def _write(self, step: _Call | _Said) -> None:
        if isinstance(step, _Said):
            self._begin(step.kind, b"".join(step.pieces))
        else:
            self._open_call(step)

    def _begin(self, kind: str, inner: bytes) -> None:
        if self._kind == kind:
            self._sink.add(inner)
            return
        held, self._held = self._held if self._held_kind == kind else b"", b""
        if _BLANK.fullmatch(inner) or text_of(inner).isspace():
            self._held, self._held_kind = held + inner, kind
            return
        self._close()
        self._kind = kind
        if kind == "text":
            self._sink.open_text()
        else:
            self._sink.open_thinking()
        self._sink.add(held + inner)

    def _open_call(self, call: _Call) -> None:
        self._close()
        self._held = b""
        self._kind = "call"
        self._open = call
        self._sink.open_call(call.call_id, call.name)
        early, call.early = call.early, []
        for inner in early:
            self._more(call, inner)

    def _more(self, call: _Call, inner: bytes) -> None:
        """Add a piece of the open call's arguments. If they begin with `{`, each piece is emitted at once."""
        call.pieces.append(inner)
        if call.is_object:
            self._sink.add(inner)
        elif call.is_object is None:
            blank = _BLANK.match(inner)
            rest = inner[blank.end() :] if blank is not None else inner
            if rest:
                call.is_object = rest.startswith(b"{")
                if call.is_object:
                    self._sink.add(b"".join(call.pieces))

    def _close(self) -> None:
        call, self._open = self._open, None
        if call is not None:
            call.done = True
            if call.is_object is False:
                self._sink.add(inner_of(as_input(text_of(b"".join(call.pieces))).decode()))
            call.pieces.clear()
        if self._kind:
            self._sink.close()
            self._kind = ""

    def _safe_id(self, call_id: str) -> str:
        """The id, or a new one where it cannot be one on this wire, or is another call's."""
        if not _ID.fullmatch(call_id) or call_id in self._taken:
            call_id = new_call_id()
        self._taken.add(call_id)
        return call_id
