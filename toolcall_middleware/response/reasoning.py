"""Calls in reasoning: in the backend's reasoning field, and in a thought that is never closed.

An engine with a reasoning parser takes everything up to `</think>` for reasoning. A model that omits it has its call
there; with thinking switched off, even the whole answer: https://github.com/vllm-project/vllm/issues/19839
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..formats.base import StreamParser
from ..parsing.events import CallArgs, CallEnd, CallStart, Event, Malformed, Reasoning
from ..wire import openai
from ..wire.openai import REASONING_FIELDS, Fields

MAX_KEPT = 1 << 20
"""The most characters of one thought's calls that are kept. No calls are read in a thought with more."""
_PER_CALL = 256  # characters added to the size of each kept call
_MANY = 64  # pieces of a thought that are read together
_LONG = 4096  # a longer piece is read at once


class ReasoningReader:
    """Reads the reasoning field of one choice, or a channel in its text. `names`: the fields of the last piece.

    Content or a call of the backend's own ends a piece of reasoning; later reasoning is a new piece.
    """

    __slots__ = ("_make_parser", "_parser", "names")

    def __init__(self, make_parser: Callable[[], StreamParser]) -> None:
        self._make_parser = make_parser
        self._parser: StreamParser | None = None
        self.names: tuple[str, ...] = ()

    def another(self) -> ReasoningReader:
        """Return a new reader with the same parser factory."""
        return ReasoningReader(self._make_parser)

    def feed(self, text: str, names: tuple[str, ...] = ()) -> list[Event]:
        """Read more reasoning."""
        self.names = names
        if self._parser is None:
            self._parser = self._make_parser()
        return self._parser.feed(text)

    def finish(self, *, cut: bool = False) -> list[Event]:
        """End the piece, if one is open, and return the events that were held back."""
        parser, self._parser = self._parser, None
        return [] if parser is None else parser.finish(cut=cut)


class OpenThought:
    """Reads the thoughts of one choice, one at a time. Calls in a closed thought do not count; where the answer ends in
    a thought, those in it do. `is_open`: a thought has begun and has not ended.

    A thought is emitted as it arrives, its calls included, because only the end shows whether it is closed. The calls
    found in it are held until then.
    """

    __slots__ = ("_calls", "_full", "_make_parser", "_open", "_parser", "_pieces", "_size", "is_open")

    def __init__(self, make_parser: Callable[[], StreamParser]) -> None:
        self._make_parser = make_parser
        self._parser: StreamParser | None = None
        self._pieces: list[str] = []  # text that is not read yet
        self._calls: list[Event] = []  # events of complete calls
        self._open: list[Event] = []  # events of the open call
        self._size = 0
        self._full = False
        self.is_open = False

    def feed(self, text: str) -> None:
        """Read more of the thought."""
        self.is_open = True
        if self._full:
            return
        self._pieces.append(text)
        if len(self._pieces) == _MANY or len(text) > _LONG:
            self._read()

    def follow(self, events: list[Event]) -> list[str]:
        """Read a parser's events: pieces of thoughts, and events that end them. Returns names as `close` does."""
        names: list[str] = []
        for event in events:
            if type(event) is Reasoning and not event.markup:
                self.feed(event.text)
            elif self.is_open:
                names += self.close()
        return names

    def close(self) -> list[str]:
        """Close the thought. Return the names of the calls in it, which do not count."""
        if not self.is_open:
            return []
        self._read()
        if self._parser is not None:
            self._take(self._parser.finish(cut=True))
        names = [event.name for event in self._calls if type(event) is CallStart]
        self._parser, self._full, self.is_open = None, False, False
        self._drop()
        return names

    def finish(self, *, cut: bool) -> list[Event]:
        """End the answer. Return the complete calls of an open thought. cut: the model did not end it itself."""
        self._read()
        parser, self._parser, self.is_open = self._parser, None, False
        if parser is not None:
            self._take(parser.finish(cut=cut))
        calls = self._calls
        self._drop()
        return calls

    def _read(self) -> None:
        """Read the buffered pieces together: reading each by itself would double the cost."""
        text = "".join(self._pieces)
        self._pieces.clear()
        if text and not self._full:
            if self._parser is None:
                self._parser = self._make_parser()
            self._take(self._parser.feed(text))

    def _take(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case CallStart():
                    self._open = [msgspec.structs.replace(event, in_reasoning=True)]
                    self._size += len(event.name) + _PER_CALL
                case CallArgs(text):
                    self._open.append(event)
                    self._size += len(text)
                case CallEnd(complete, _, raw, _, written):
                    if complete:
                        self._calls += [*self._open, event]
                    self._open = []
                    self._size += len(raw) + len(written)
                case Malformed(raw):
                    self._calls.append(event)
                    self._size += len(raw) + _PER_CALL
        if self._size > MAX_KEPT:
            self._full, self._parser = True, None
            self._drop()

    def _drop(self) -> None:
        self._calls, self._open, self._size = [], [], 0


def split_reasoning(message: Fields) -> tuple[str, tuple[str, ...], Fields]:
    """The reasoning in a delta or message, the names of the fields that hold it, and the rest.

    Some backends send it twice, under both names. Where the two differ, only the first is read.
    """
    text, names = "", []
    for name in REASONING_FIELDS:
        said = openai.read_text(message.get(name))
        if said and said == (text or said):
            text = said
            names.append(name)
    if not names:
        return "", (), message
    return text, tuple(names), {name: value for name, value in message.items() if name not in names}
