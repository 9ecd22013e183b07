"""Reads small pieces of lists and objects in Python's or Gemma's notation by a table: for many short values.

What is not clean, or more than the table knows (names and words between a call's own brackets, escapes of digits, a
quote that does not end its string), is left to `Arguments`, which goes on from the very character.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..text.lane import Lane, passing
from .literal_states import AT, HOLDS, IN_WORD, KEY, MARK, OPEN, STRING, Place, Row, rows_of
from .literal_strings import WORD, LiteralTexts
from .notation import Notation

_MATES = {"}": "{", "]": "["}
_SMALL = 64  # characters: in longer ones a search beats the table
_MAX_HELD = 128


class CleanLiterals(LiteralTexts):
    """The part of `Arguments` that is given pieces of text while a call's arguments go on: see `ArgumentsReader`.

    While `_row` is set, it says where this stands, and the state of the other parts is an old one.
    """

    __slots__ = ("_ahead", "_held", "_left", "_row", "_rows", "_tail", "done")

    def __init__(
        self, notation: Notation, opening: str, schema: Mapping[str, Any] | None, offered: Callable[[str], bool]
    ) -> None:
        super().__init__(notation, opening, schema, offered)
        self.done = False
        self._tail = ""
        self._left: tuple[str, str] | None = None  # see `leave`
        self._rows = rows_of(notation)
        self._row: Row | None = None
        self._held = ""  # made, but not decided on
        self._ahead = ""  # text behind the quote or comma that is not decided on

    @property
    def tail(self) -> str:
        """Text that was given and is not decided on."""
        if self._row is not None:
            self._leave_row(self._row)
        return self._tail

    @property
    def lane(self) -> Lane | None:
        """What goes through as it is: the inside of a string."""
        if self._row is not None:
            lane: Lane | None = self._row[AT].lane
            return lane
        streams = self._state == STRING and self._buffer is None and not self._is_key and not self._tail
        return passing(self._quote[0]) if streams else None

    def went_by(self, text: str) -> None:
        """`text` left by the lane."""

    def leave(self, text: str) -> tuple[str, str]:
        """What left last, and the text behind the arguments."""
        return self._left or ("", text)

    def run(self, text: str) -> str | None:
        """What leaves for `text`; None where the arguments end in it. What is not decided on waits here."""
        row = self._row
        if row is None or len(text) > _SMALL:
            if row is not None:
                self._leave_row(row)
            return self._run_on(text)
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
                    self.stack.append(after)
                    out += before
                else:
                    following = following[self.stack[-2]]
                    self.stack.pop()
                    out += char
                row = following
        except (KeyError, IndexError):
            left = char + "".join(rest)
            said = self._wait(row, out, mark, text[: len(text) - len(left)])
            if self._row is not None:
                self._leave_row(row)
            return self._run_on(left, said)
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
            self._leave_row(row)
        return said

    def _leave_row(self, row: Row) -> None:
        """Go on without the table, as if there were none."""
        place: Place = row[AT]
        held, self._held = self._held, ""
        self._row = None
        self._state = place.state
        self._empty = place.empty
        self._tail = place.tail
        if place.ahead:
            self._tail = place.ahead + self._ahead
            for char in reversed(self._ahead):
                if char in _MATES:
                    self.stack.append(_MATES[char])
        if place.state == STRING:
            inner = self.inner
            self._begin_string(place.quote, is_key=place.is_key)
            self.inner = inner
        elif place.state == IN_WORD:
            self._begin_word()
            self._word = [place.word or held.partition(",")[0]]
        elif place.state == KEY and held:
            self._empty = held.startswith('"')
            self._tail = held.rpartition('"')[2]

    def _find_row(self) -> Row | None:
        """The row for where this stands; None where the table has none."""
        if self._rows is None or self._tail or self._buffer is not None:
            return None
        quote = ""
        if self._state == STRING:
            quote = self._quote
            if self._raw != (quote in self.notation.verbatim):
                return None
        kind = self.stack[-1] if self.stack and not self.inner else ""
        return self._rows.find(kind, self._state, quote, empty=self._empty, is_key=self._is_key)

    def _run_on(self, text: str, before: str = "") -> str | None:
        """`run` without the table: `text` behind what was decided on, of which `before` is still to leave."""
        if self._left is not None:
            return None
        out: list[str] = [before] if before else []
        if self._tail:
            text = self._tail + text
        elif self._state == IN_WORD and not self._word_quote and WORD.fullmatch(text) is not None:
            self._word.append(text)
            return before
        elif self._state == STRING and not before and self._next_special(text, 0) == len(text):
            self._say(text, out)
            return out[0] if out else ""
        i = self.feed(text, 0, out)
        said = out[0] if len(out) == 1 else "".join(out)
        if self.done:
            self._left = said, text[i:]
            return None
        self._tail = text[i:]
        if self.stack or self._state == STRING:
            self._row = self._find_row()
        return said

    def feed(self, s: str, i: int, out: list[str], *, last: bool = False) -> int:
        """Read from `s[i]`; append what leaves to `out`. Below `len(s)` when done or when more text must be seen."""
        raise NotImplementedError
