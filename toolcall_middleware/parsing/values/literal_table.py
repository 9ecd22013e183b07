"""Reads small pieces of lists and objects in Python's or Gemma's notation by a table: for many short values.

What is not clean, or more than the table knows (names and words between a call's own brackets, escapes of digits, a
quote that does not end its string), is left to the other parts of an `Arguments`, which go on from the very character.
"""

from __future__ import annotations

from .literal_position import ArgumentsPosition
from .literal_states import AT, HOLDS, MARK, OPEN, Place, Row, rows_of
from .notation import Notation

_MATES = {"}": "{", "]": "["}
_SMALL = 64  # characters: in longer ones a search beats the table
_MAX_HELD = 128


class CleanLiterals:
    """The part of an `Arguments` that reads small pieces by the table.

    While `active`, a row says where the arguments stand, and what their `ArgumentsPosition` says but for its stack is
    old.
    """

    __slots__ = ("_ahead", "_held", "_row", "_rows", "_stack", "left")

    def __init__(self, at: ArgumentsPosition, notation: Notation) -> None:
        self._stack = at.stack
        self._rows = rows_of(notation)
        self._row: Row | None = None
        self._held = ""  # made, but not decided on
        self._ahead = ""  # text behind the quote or comma that is not decided on
        self.left: str | None = None
        """What `read` left of its text to the other parts, which must go on. None: they need not."""

    @property
    def active(self) -> bool:
        """Whether the next piece is for the table."""
        return self._row is not None

    def read(self, text: str) -> str:
        """What leaves for `text`, where the table is `active`. See `left`."""
        row = self._row
        self.left = None
        if row is None or len(text) > _SMALL:
            self.left = text
            return ""
        stack = self._stack
        out, mark = self._held, 0  # what stands in `out` from `mark` on waits, where the row says that something does
        rest = iter(text)
        char = ""
        try:
            for char in rest:
                following, said = row[char]
                if said is not None:
                    out += said
                    row = following
                    continue
                act, following, before, after = following
                if act == MARK:
                    out += before
                    mark = len(out)
                    out += after
                elif act == OPEN:
                    stack.append(after)
                    out += before
                else:
                    following = following[stack[-2]]
                    stack.pop()
                    out += char
                row = following
        except (KeyError, IndexError):
            self.left = char + "".join(rest)
            return self._wait(row, out, mark, text[: len(text) - len(self.left)])
        if row[HOLDS] is None:  # as `_wait` has it; nearly every piece
            self._row = row
            self._held = ""
            return out
        return self._wait(row, out, mark, text)

    def _wait(self, row: Row, out: str, mark: int, text: str) -> str:
        """Stand where `row` does behind `text`. What leaves of `out`; the rest waits if the row says so."""
        self._row = row
        holds = row[HOLDS]
        if holds is None:
            self._held = ""
            return out
        said, self._held = out[:mark], out[mark:]
        if holds:
            k = text.rfind(holds)
            self._ahead = text[k + 1 :] if k >= 0 else self._ahead + text
        if len(self._held) > _MAX_HELD or (holds and len(self._ahead) > _MAX_HELD):
            self.left = self.left or ""
        return said

    def enter(self, kind: str, state: int, quote: str, *, empty: bool, is_key: bool) -> None:
        """Read on by the table, if it has a row for this place: see `Rows.find`."""
        if self._rows is not None:
            self._row = self._rows.find(kind, state, quote, empty=empty, is_key=is_key)

    def exit(self) -> tuple[Place, str, str]:
        """The other parts go on: the place where the table stood, what it held, and the text that is not decided on."""
        assert self._row is not None  # noqa: S101 - asked where it is active
        place: Place = self._row[AT]
        held, self._held = self._held, ""
        self._row = None
        tail = place.tail
        if place.ahead:
            tail = place.ahead + self._ahead
            for char in reversed(self._ahead):
                if char in _MATES:
                    self._stack.append(_MATES[char])
        return place, held, tail
