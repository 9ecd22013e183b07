"""The list of calls that one object wraps: `{"tool_calls": [{…}, {…}]}`."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol

from ...patterns import WHITE_SPACE
from ...sink import Sink

# Behind an entry, braces that close nothing: the list goes on, or ends, behind them. Or it may yet.
_TOO_MANY = re.compile(r"\}[}\s]{0,64}(?:(?=\]|,\s{0,64}\{)|(?P<open>(?:,\s{0,64})?\Z))")


class Entry(Protocol):
    """The reader of one call of the list: `call.CallReader`."""

    @property
    def done(self) -> bool: ...
    @property
    def failed(self) -> bool: ...
    @property
    def repaired(self) -> bool: ...

    def feed(self, s: str, i: int, *, last: bool) -> int: ...
    def finish(self, *, cut: bool) -> None: ...


class CallList:
    """Reads such a list, or the one call that stands in its place, up to behind it. See `CallReader.feed`."""

    __slots__ = ("_alone", "_behind", "_entry", "_listed", "_make", "_sink", "done", "failed", "repaired")

    def __init__(self, sink: Sink, make: Callable[[], Entry]) -> None:
        self.done = False
        self.failed = False
        self.repaired = False
        self._sink = sink
        self._make = make
        self._entry: Entry | None = None
        self._behind = False  # directly behind an entry
        self._listed = self._alone = False  # whether the list has begun; an entry without one

    def feed(self, s: str, i: int, *, last: bool) -> int:
        """Read from `s[i]`, up to a call's start or end, or until done or failed."""
        while True:
            entry = self._entry
            if entry is None:
                i = WHITE_SPACE.match(s, i).end()
                if i == len(s):
                    return i
                at = i
                i = self._between(s, i, last=last)
                if self.done or self.failed or (i == at and self._entry is None):
                    return i
                continue
            i = entry.feed(s, i, last=last)
            self.failed = entry.failed
            if self.failed or not entry.done:
                return i
            self.repaired = self.repaired or entry.repaired
            self._entry = None
            self._behind = True
            if self._sink.changed:
                return i

    def finish(self, *, cut: bool) -> None:
        """See `CallReader.finish`."""
        if self._entry is not None:
            self._entry.finish(cut=cut)
            self.failed = self._entry.failed

    def _between(self, s: str, i: int, *, last: bool) -> int:
        c = s[i]
        if c == "{":
            self._entry = self._make()
            self._alone = not self._listed
            return i
        if c == "]":
            self.done = True
            return i + 1
        if c == "," or (c == "[" and not self._behind):
            self._listed = self._listed or c == "["
            self._behind = False
            return i + 1
        if c == "}" and self._behind and self._listed and (braces := _TOO_MANY.match(s, i)) is not None:
            if braces["open"] is None:
                return braces.end()
            if not last:
                return i
        # The list's end may be missing: then the brace is the wrapper's. So is a key behind one call.
        self.done = (c == "}" and self._behind) or (c in "\"'" and self._alone)
        self.failed = not self.done
        return i
