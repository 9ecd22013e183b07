"""Calls in reasoning: in the backend's own field, read by a parser of its own, and in a thought that is never closed.

An engine with a reasoning parser takes everything for reasoning up to a `</think>`, and a model that forgets it has its
call there; with thinking switched off, even the whole answer: https://github.com/vllm-project/vllm/issues/19839
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..formats.base import StreamParser
from ..parsing.events import CallArgs, CallEnd, CallStart, Event, Malformed, Reasoning
from ..wire import openai
from ..wire.openai import REASONING_FIELDS, Fields

MAX_KEPT = 1 << 20
"""Characters of the calls of one thought that are kept. A thought with more is only a thought."""
_PER_CALL = 256  # characters that a call counts for beside its own, of those that are kept
_MANY = 64  # pieces of a thought that are read at once
_LONG = 4096  # characters of one that is read at once


class ReasoningReader:
    """Reads the reasoning field of one choice, or a channel in its text. `names`: the fields of the last piece.

    Content, or a call of the backend's own, ends a piece of reasoning; what comes later is a new one.
    """

    __slots__ = ("_make_parser", "_parser", "names")

    def __init__(self, make_parser: Callable[[], StreamParser]) -> None:
        self._make_parser = make_parser
        self._parser: StreamParser | None = None
        self.names: tuple[str, ...] = ()

    def another(self) -> ReasoningReader:
        """One like this that has read nothing."""
        return ReasoningReader(self._make_parser)

    def feed(self, text: str, names: tuple[str, ...] = ()) -> list[Event]:
        """More reasoning."""
        self.names = names
        if self._parser is None:
            self._parser = self._make_parser()
        return self._parser.feed(text)

    def finish(self, *, cut: bool = False) -> list[Event]:
        """It is over, if there was any: what was held back."""
        parser, self._parser = self._parser, None
        return [] if parser is None else parser.finish(cut=cut)


class OpenThought:
    """Reads the thoughts of one choice, one at a time. In one that is closed there are no calls; where the answer ends
    in one, those in it are calls. `is_open`: one has begun, and nothing has ended it.

    A thought leaves as it comes, its calls included, because only the end shows whether it is closed. So what is found
    waits.
    """

    __slots__ = ("_calls", "_full", "_make_parser", "_open", "_parser", "_pieces", "_size", "is_open")

    def __init__(self, make_parser: Callable[[], StreamParser]) -> None:
        self._make_parser = make_parser
        self._parser: StreamParser | None = None
        self._pieces: list[str] = []  # text that is not read yet
        self._calls: list[Event] = []  # the events of complete calls
        self._open: list[Event] = []  # those of the open call
        self._size = 0
        self._full = False
        self.is_open = False

    def feed(self, text: str) -> None:
        """More of the thought."""
        self.is_open = True
        if self._full:
            return
        self._pieces.append(text)
        if len(self._pieces) == _MANY or len(text) > _LONG:
            self._read()

    def follow(self, events: list[Event]) -> list[str]:
        """What a parser says of the text: pieces of thoughts, and what ends them. Gives the names that `close` does."""
        names: list[str] = []
        for event in events:
            if type(event) is Reasoning and not event.markup:
                self.feed(event.text)
            elif self.is_open:
                names += self.close()
        return names

    def close(self) -> list[str]:
        """The thought is over. The names of the calls in it, which are none."""
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
        """The answer ends, perhaps in a thought: the complete calls in that. cut: the model did not end it itself."""
        self._read()
        parser, self._parser, self.is_open = self._parser, None, False
        if parser is not None:
            self._take(parser.finish(cut=cut))
        calls = self._calls
        self._drop()
        return calls

    def _read(self) -> None:
        """Read what has come: one by one, the pieces of a stream would cost as much again."""
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

    Some send it twice, under both names. Where these differ only the first is read.
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
