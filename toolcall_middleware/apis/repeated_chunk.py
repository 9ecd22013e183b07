"""Chunks of a chat stream that say the same as the one before, but for their text: they need no decoding.

A face decodes a chunk once and remembers the bytes around its one text. An event with the same bytes around one JSON
string says the same with that text (docs/decisions/chunk-templates.md). Any doubt leads to the full way.
"""

from __future__ import annotations

import enum

import msgspec

from ..wire import openai

_MOST_UNLIKE = 8  # chunks in a row, none of which repeated the one before: such a stream is read in full from then on
ABSENT = msgspec.Raw(b"")
"""A field that is absent."""
_read_text = msgspec.json.Decoder(str).decode


class TextKind(enum.Enum):
    """What the text of a chunk is."""

    CONTENT = "content"
    REASONING = "reasoning"
    ARGUMENTS = "arguments"


class Function(msgspec.Struct, gc=False):
    """A function of a call."""

    name: str | None = None
    arguments: msgspec.Raw = ABSENT


class Call(msgspec.Struct, gc=False):
    """A call, or more of one."""

    index: int = 0
    id: str | None = None
    function: Function | None = None


class _Delta(msgspec.Struct, gc=False):
    content: msgspec.Raw = ABSENT
    reasoning: msgspec.Raw = ABSENT
    reasoning_content: msgspec.Raw = ABSENT
    reasoning_details: msgspec.Raw = ABSENT
    refusal: msgspec.Raw = ABSENT
    tool_calls: list[Call] | None = None


class _Choice(msgspec.Struct, gc=False):
    index: int = 0
    delta: _Delta | None = None
    message: msgspec.Raw = ABSENT
    finish_reason: msgspec.Raw = ABSENT
    stop_reason: msgspec.Raw = ABSENT


class _Chunk(msgspec.Struct, gc=False):
    choices: list[_Choice] = []
    usage: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT


_decode = msgspec.json.Decoder(_Chunk).decode


class RepeatedChunk:
    """The chunk that was read last. kind, index: what its text is; of which call.

    After `repeats` was true: text, written: the text of that event, and the JSON string that it was written as.
    """

    __slots__ = ("_around", "_middle", "_unlike", "index", "kind", "text", "written")

    def __init__(self) -> None:
        self._around: tuple[bytes, bytes] | None = None
        self._middle = slice(0)
        self._unlike = 0
        self.kind = TextKind.CONTENT
        self.index = 0
        self.text = ""
        self.written = b""

    def repeats(self, event: bytes) -> bool:
        """Whether an event says the same as the chunk that was learned, with another text."""
        around = self._around
        if around is None:
            return False
        written = event[self._middle]
        if written.join(around) != event:  # quicker than to look at both ends
            return False
        try:
            self.text = _read_text(written)
        except openai.FAILURES:
            return False
        self.written = written
        self._unlike = 0
        return True

    def forget(self) -> None:
        """What comes next is not compared with anything."""
        self._around = None

    def learn(self, event: bytes) -> bool:
        """Remember an event of one line that was read in full; whether it says one text and nothing else."""
        self._around = None
        if self._unlike >= _MOST_UNLIKE:
            return False
        self._unlike += 1
        try:
            chunk = _decode(event[6:-2])
        except openai.FAILURES:
            return False
        written = self._only_text(chunk)
        if not written.startswith(b'"') or len(written) <= 2:  # nothing, or no text
            return False
        at = event.find(written)
        if event.find(written, at + 1) >= 0:  # which of them is the text cannot be told
            return False
        before, after = event[:at], event[at + len(written) :]
        self._around = before, after
        self._middle = slice(len(before), -len(after))
        return True

    def _only_text(self, chunk: _Chunk) -> bytes:
        """The JSON string that is all that a chunk says; empty where there is none, or more."""
        if len(chunk.choices) != 1 or _is_there(chunk.usage) or _is_there(chunk.error):
            return b""
        choice = chunk.choices[0]
        delta = choice.delta
        if delta is None or choice.index or any(map(_is_there, (choice.message, choice.finish_reason))):
            return b""
        said = [
            (kind, bytes(raw))
            for kind, raw in (
                (TextKind.CONTENT, delta.content),
                (TextKind.REASONING, delta.reasoning),
                (TextKind.REASONING, delta.reasoning_content),
                (None, delta.reasoning_details),
                (None, delta.refusal),
            )
            if _is_there(raw)
        ]
        for call in delta.tool_calls or ():
            function = call.function
            plain = function is not None and call.id is None and function.name is None
            said.append((TextKind.ARGUMENTS if plain else None, b"" if function is None else bytes(function.arguments)))
            self.index = call.index
        if len(said) != 1 or said[0][0] is None:
            return b""
        self.kind, written = said[0][0], said[0][1]
        return written


def _is_there(raw: msgspec.Raw) -> bool:
    return raw is not ABSENT and raw != openai.NULL
