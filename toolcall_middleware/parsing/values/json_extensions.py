"""What other notations have that look like JSON: comments, which are dropped, and strings in triple quotes.

A comment (`// …`, `/* … */`, `# …` where no value can stand) may be wherever white space may, inside of brackets.
A string may stand in three quotes, `"` or `'`, as Python has it: fewer of them in it are data. Three quotes and then a
comma or a bracket are none: that is a string of one quote, which should have been escaped.

`JsonReader` finds where they begin; here is what they are made of.
"""

from __future__ import annotations

import re

from .json_spelling import CONTROL, ESCAPES
from .json_table import AFTER, COMMA, FIRST_KEY, KEY, LINE, OPENED, QUOTE, SLASH, STRING, WORD, CleanReader

# Where the reader of these stands, beyond the states that others know.
_SECOND = OPENED + 1  # two quotes have come, and nothing in between
_THIRD = OPENED + 2  # three
_TRIPLE = OPENED + 3  # in a string in triple quotes
_CLOSING = OPENED + 4  # quotes in it are held: three of them end it
_BACKSLASH = OPENED + 5  # an escape in it is held
_BLOCK = LINE + 1
_STAR = LINE + 2

_PLAIN = re.compile(r"[^'\"\\\x00-\x1f]*")
_COMMENT = re.compile(r"[^\n\r<]*")
_IN_BLOCK = re.compile(r"[^*<]*")
_HEX = frozenset("0123456789abcdefABCDEF")


class LooseReader(CleanReader):
    """The part of a `JsonReader` that reads them.

    repaired, stuck: as there.
    """

    __slots__ = ("_back", "_last", "repaired", "stuck")

    def __init__(self) -> None:
        super().__init__()
        self.repaired = False
        self.stuck = False
        self._back = AFTER  # the state that a comment stands in
        self._last = ""  # its last character that is no white space

    @property
    def _in_triple(self) -> bool:
        return OPENED <= self._state <= _BACKSLASH

    def _loose(self, s: str, i: int, state: int, out: list[str]) -> tuple[int, int]:
        """Read from `s[i]`: (the index behind what was read, the next state)."""
        if state >= SLASH:
            return self._slash(s[i], i, out) if state == SLASH else self._comment(s, i, state)
        return self._quotes(s, i, state, out)

    # -- comments ------------------------------------------------------------------------------------------------

    def _begin_comment(self, c: str, state: int) -> int:
        """`c` stands where white space may: the next state."""
        self._back = state
        if c == "/":
            return SLASH
        self.repaired = True
        self._last = ""
        return LINE

    def _slash(self, c: str, i: int, out: list[str]) -> tuple[int, int]:
        """`c` stands behind a slash: two make a comment, and one is as good as any other character."""
        back = self._back
        held = "".join(self._held)
        if c == "/" or c == "*":
            self.repaired = True
            self._last = ""
            if back == QUOTE:
                out.append('"' + held[1:])
                self._held = []
                self._back = AFTER
            return i + 1, LINE if c == "/" else _BLOCK
        if back == QUOTE:  # the quote did not end the string
            out.append(self._escaped_quote + held[1:].translate(ESCAPES) + "/")
            self._held = []
            self.repaired = True
            return i, STRING
        if back == AFTER:
            self.stuck = True  # and stays so, if it is asked once more
            return i, SLASH
        if back == COMMA:
            out.append(held)
        self._is_key = back in (KEY, FIRST_KEY) or (back == COMMA and self._stack[-1] == "{")
        self._held = ["/"]
        return i, WORD

    def _comment(self, s: str, i: int, state: int) -> tuple[int, int]:
        n = len(s)
        if state == _STAR:
            if s[i] == "/":
                return i + 1, self._back
            state = _BLOCK
        while i < n:
            end = (_COMMENT if state == LINE else _IN_BLOCK).match(s, i).end()  # type: ignore[union-attr]
            text = s[i:end].rstrip()
            self._last = text[-1] if text else self._last
            i = end
            if i == n:
                break
            c = s[i]
            if c == "<":
                if self._last and self._last in "}]":
                    # `{"a": 1 // why}</tool_call>`: the line's end was forgotten, and this is no part of it.
                    self.stuck = True
                    return i, self._back
                self._last = c
            elif state == LINE:
                return i, self._back
            elif i + 1 == n:
                return n, _STAR
            elif s[i + 1] == "/":
                return i + 2, self._back
            i += 1
        return n, state

    # -- triple quotes -------------------------------------------------------------------------------------------

    @property
    def _escaped_quote(self) -> str:
        return '\\"' if self._quote == '"' else "'"

    def _quotes(self, s: str, i: int, state: int, out: list[str]) -> tuple[int, int]:
        quote, c = self._quote, s[i]
        if state == OPENED:
            return (i + 1, _SECOND) if c == quote else (i, STRING)
        if state == _SECOND:
            if c == quote:
                self.repaired = True
                return i + 1, _THIRD
            self._held = ['"']
            return i, QUOTE
        if state == _THIRD:
            if c in ",}]":
                out.append(self._escaped_quote + '"')
                return i, AFTER
            return self._triple(s, i, out)
        if state == _BACKSLASH:
            return self._backslash(c, i, out)
        if state == _CLOSING:
            if c == quote:
                self._held.append(c)
                return i + 1, _CLOSING
            return (i, AFTER) if self._close_triple(out) else (i, _TRIPLE)
        return self._triple(s, i, out)

    def _triple(self, s: str, i: int, out: list[str]) -> tuple[int, int]:
        end = _PLAIN.match(s, i).end()  # type: ignore[union-attr]
        if end > i:
            out.append(s[i:end])
        if end == len(s):
            return end, _TRIPLE
        c = s[end]
        if c == self._quote or c == "\\":
            self._held = [c]
            return end + 1, _BACKSLASH if c == "\\" else _CLOSING
        out.append(c if c == "'" else ESCAPES[ord(c)])
        return end + 1, _TRIPLE

    def _close_triple(self, out: list[str]) -> bool:
        """Put out the quotes that are held; whether the last three of them end the string."""
        count = len(self._held)
        self._held = []
        ends = count >= 3
        out.append(self._escaped_quote * (count - 3 if ends else count) + ('"' if ends else ""))
        return ends

    def _backslash(self, c: str, i: int, out: list[str]) -> tuple[int, int]:
        """An escape, as in other strings."""
        held = "".join(self._held)
        if len(held) > 1 or c == "u":  # `\\u` and digits
            if len(held) > 1 and c not in _HEX:
                out.append("\\" + held)
                self._held = []
                return i, _TRIPLE
            if len(held) < 5:
                self._held.append(c)
                return i + 1, _BACKSLASH
            out.append(held + c)
        elif c in '"\\/bfnrt':
            out.append(held + c)
        elif c == "'" or c == "\n":
            out.append(CONTROL.get(c, c))
        else:
            out.append("\\\\")
            i -= 1  # it is read again
        self._held = []
        return i + 1, _TRIPLE

    def _end_loose(self, state: int, out: list[str]) -> int:
        """The text ends here: the state that it ends in."""
        if state >= SLASH:
            return self._back
        if state == _SECOND:
            self._held = ['"']
            return QUOTE
        if state == _CLOSING and self._close_triple(out):
            return AFTER
        self._held = []
        return STRING
