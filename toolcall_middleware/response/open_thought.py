"""Calls in the thought at hand. In a thought that is closed they are none; where the answer ends in it, they are calls.

A thought leaves as it comes, with the text of such calls: whether it will be closed shows only at the end. So a parser
of its own reads it beside, and what it finds waits. An engine's reasoning field is a thought too: with a reasoning
parser, all that comes before a `</think>` that a model forgets stands there, the call included
(https://github.com/vllm-project/vllm/issues/19839).
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from ..formats.base import StreamParser
from ..parsing.events import CallArgs, CallEnd, CallStart, Event, Malformed

MAX_KEPT = 1 << 20
"""Characters of the calls of one thought that are kept. A thought with more is only a thought."""
_PER_CALL = 256  # ... that a call counts for beside its own


class OpenThought:
    """Reads the thoughts of one choice, one at a time. `is_open`: one has begun, and nothing has ended it."""

    __slots__ = ("_calls", "_full", "_make_parser", "_open", "_parser", "_size", "is_open")

    def __init__(self, make_parser: Callable[[], StreamParser]) -> None:
        self._make_parser = make_parser
        self._parser: StreamParser | None = None
        self._calls: list[Event] = []  # of complete calls
        self._open: list[Event] = []  # of the call that is open
        self._size = 0
        self._full = False
        self.is_open = False

    def feed(self, text: str) -> None:
        """More of the thought."""
        self.is_open = True
        if self._full or not text:
            return
        if self._parser is None:
            self._parser = self._make_parser()
        self._take(self._parser.feed(text))

    def close(self) -> list[str]:
        """The thought is over. The names of the calls in it, which are none."""
        if not self.is_open:
            return []
        if self._parser is not None:
            self._take(self._parser.finish(cut=True))
        names = [event.name for event in self._calls if type(event) is CallStart]
        self._parser, self._full, self.is_open = None, False, False
        self._drop()
        return names

    def finish(self, *, cut: bool) -> list[Event]:
        """The answer ends, perhaps in a thought: the complete calls in that. cut: the model did not end it itself."""
        parser, self._parser, self.is_open = self._parser, None, False
        if parser is not None:
            self._take(parser.finish(cut=cut))
        calls = self._calls
        self._drop()
        return calls

    def _take(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case CallStart():
                    self._open = [msgspec.structs.replace(event, in_reasoning=True)]
                    self._size += len(event.name) + _PER_CALL
                case CallArgs(text):
                    self._open.append(event)
                    self._size += len(text)
                case CallEnd(complete, _, raw):
                    if complete:
                        self._calls += [*self._open, event]
                    self._open = []
                    self._size += len(raw)
                case Malformed(raw):
                    self._calls.append(event)
                    self._size += len(raw) + _PER_CALL
        if self._size > MAX_KEPT:
            self._full, self._parser = True, None
            self._drop()

    def _drop(self) -> None:
        self._calls, self._open, self._size = [], [], 0
