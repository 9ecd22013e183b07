"""What other notations have that look like JSON: comments, which are dropped, and strings in triple quotes.

A comment (`// …`, `/* … */`, `# …` where no value can stand) may be wherever white space may, inside of brackets.
A string may stand in three quotes, `"` or `'`, as Python has it: fewer of them in it are data. Three quotes and then a
comma or a bracket are none: that is a string of one quote, which should have been escaped.

`JsonReader` finds where they begin; here is what they are made of. A `read` reads `s` from `i`, which is not the end of
it, and returns the index behind what was read, and the next state.
"""

from __future__ import annotations

from ..patterns import anywhere
from .json_spelling import CONTROL, ESCAPES
from .json_states import (
    AFTER,
    BACKSLASH,
    BLOCK,
    CLOSING,
    COMMA,
    FIRST_KEY,
    KEY,
    LINE,
    OPENED,
    QUOTE,
    SECOND,
    SLASH,
    STAR,
    STRING,
    THIRD,
    TRIPLE,
    WORD,
    Position,
)

_PLAIN = anywhere(r"[^'\"\\\x00-\x1f]*")
_COMMENT = anywhere(r"[^\n\r<]*")
_IN_BLOCK = anywhere(r"[^*<]*")
_MAX_END = 64  # characters of a marker
_HEX = frozenset("0123456789abcdefABCDEF")


class Comments:
    """The part of a `JsonReader` that drops comments.

    back: the state that the last comment stands in.
    """

    __slots__ = ("_at", "_ends", "_last", "back")

    def __init__(self, at: Position, ends: tuple[str, ...] = ()) -> None:
        self.back = AFTER
        self._at = at
        self._ends = ends  # markers that end what the value is part of
        self._last = ""  # the comment's last character that is no white space

    def begin(self, c: str, state: int) -> int:
        """`c` stands where white space may: the next state."""
        self.back = state
        if c == "/":
            return SLASH
        self._at.repaired = True
        self._last = ""
        return LINE

    def read(self, s: str, i: int, state: int, out: list[str]) -> tuple[int, int]:
        """Behind a slash, or in a comment."""
        if state == SLASH:
            return self._slash(s[i], i, out)
        n = len(s)
        if state == STAR:
            if s[i] == "/":
                return i + 1, self.back
            state = BLOCK
        while i < n:
            end = (_COMMENT if state == LINE else _IN_BLOCK).match(s, i).end()
            text = s[i:end].rstrip()
            self._last = text[-1] if text else self._last
            i = end
            if i == n:
                break
            c = s[i]
            if c == "<":
                if self._last and self._last in "}]":
                    # `{"a": 1 // why}</tool_call>`: the line's end was forgotten, and this is no part of it.
                    self._at.stuck = True
                    if self.back == COMMA:  # nothing follows it, as without the comment
                        self._at.held = []
                        self.back = AFTER
                    return i, self.back
                if self.back == AFTER and self._ends:
                    if s.startswith(self._ends, i):
                        self._at.stuck = True  # only closing brackets are missing
                        return i, self.back
                    rest = s[i : i + _MAX_END]
                    if any(len(end) > len(rest) and end.startswith(rest) for end in self._ends):
                        self._at.waits = True
                        return i, state
                self._last = c
            elif state == LINE:
                return i, self.back
            elif i + 1 == n:
                return n, STAR
            elif s[i + 1] == "/":
                return i + 2, self.back
            i += 1
        return n, state

    def _slash(self, c: str, i: int, out: list[str]) -> tuple[int, int]:
        """`c` stands behind a slash: two make a comment, and one is as good as any other character."""
        at, back = self._at, self.back
        if c == "/" or c == "*":
            at.repaired = True
            self._last = ""
            if back == QUOTE:
                out.append('"' + at.take_held()[1:])
                self.back = AFTER
            return i + 1, LINE if c == "/" else BLOCK
        if back == QUOTE:  # the quote did not end the string
            out.append(at.escaped_quote() + at.take_held()[1:].translate(ESCAPES) + "/")
            at.repaired = True
            return i, STRING
        if back == AFTER:
            at.stuck = True  # and stays so, if it is asked once more
            return i, SLASH
        if back == COMMA:
            out.append("".join(at.held))
        at.is_key = back in (KEY, FIRST_KEY) or (back == COMMA and at.stack[-1] == "{")
        at.held = ["/"]
        return i, WORD


class TripleQuotes:
    """The part of a `JsonReader` that reads a value behind its opening quote, which may be the first of three."""

    __slots__ = ("_at",)

    def __init__(self, at: Position) -> None:
        self._at = at

    def read(self, s: str, i: int, state: int, out: list[str]) -> tuple[int, int]:
        """In the quotes that open the string, or in the string."""
        at, c = self._at, s[i]
        if state == OPENED:
            return (i + 1, SECOND) if c == at.quote else (i, STRING)
        if state == SECOND:
            if c == at.quote:
                at.repaired = True
                return i + 1, THIRD
            at.held = ['"']
            return i, QUOTE
        if state == THIRD and c in ",}]":
            out.append(at.escaped_quote() + '"')
            return i, AFTER
        if state == BACKSLASH:
            return self._backslash(c, i, out)
        if state == CLOSING:
            if c == at.quote:
                at.held.append(c)
                return i + 1, CLOSING
            return (i, AFTER) if self._close(out) else (i, TRIPLE)
        return self._inside(s, i, out)

    def is_over(self, state: int) -> bool:
        """Whether the string is complete where the text ends."""
        return state == SECOND or (state == CLOSING and len("".join(self._at.held)) >= 3)

    def end(self, state: int, out: list[str]) -> int:
        """The text ends here: the state that it ends in."""
        if state == SECOND:
            self._at.held = ['"']
            return QUOTE
        if state == CLOSING and self._close(out):
            return AFTER
        self._at.held = []
        return STRING

    def _inside(self, s: str, i: int, out: list[str]) -> tuple[int, int]:
        end = _PLAIN.match(s, i).end()
        if end > i:
            out.append(s[i:end])
        if end == len(s):
            return end, TRIPLE
        c = s[end]
        if c == self._at.quote or c == "\\":
            self._at.held = [c]
            return end + 1, BACKSLASH if c == "\\" else CLOSING
        out.append(c if c == "'" else ESCAPES[ord(c)])
        return end + 1, TRIPLE

    def _close(self, out: list[str]) -> bool:
        """Put out the quotes that are held; whether the last three of them end the string."""
        count = len(self._at.take_held())
        ends = count >= 3
        out.append(self._at.escaped_quote() * (count - 3 if ends else count) + ('"' if ends else ""))
        return ends

    def _backslash(self, c: str, i: int, out: list[str]) -> tuple[int, int]:
        """An escape, as in other strings."""
        at = self._at
        held = "".join(at.held)
        if len(held) > 1 or c == "u":  # `\\u` and digits
            if len(held) > 1 and c not in _HEX:
                out.append("\\" + held)
                at.held = []
                return i, TRIPLE
            if len(held) < 5:
                at.held.append(c)
                return i + 1, BACKSLASH
            out.append(held + c)
        elif c in '"\\/bfnrt':
            out.append(held + c)
        elif c == "'" or c == "\n":
            out.append(CONTROL.get(c, c))
        else:
            out.append("\\\\")
            i -= 1  # it is read again
        at.held = []
        return i + 1, TRIPLE
