"""The arguments of a call in a notation with quoted strings: `x=1, y='a')` or `x:<|"|>a<|"|>}`.

They leave as the members of one JSON object: strings as they arrive, words when they are complete. Where no string is
declared, a string's text is typed like a word.
"""

from __future__ import annotations

import re

from ...json_schema.types import ALL
from .json_spelling import quoted
from .literal_states import AFTER, COLON, IN_WORD, KEY, STRING, VALUE
from .literal_table import CleanLiterals
from .notation import KEY_PART, NAMED, QUOTED_KEY, WS

_LOST = 256
_LOST_KEY = re.compile(rf"[^,()\[\]{{}}\"'<]{{1,{_LOST}}}")
_PREFIX = re.compile(r"([rRbBfFuU]{1,2})(?=['\"])")
_SPECIAL = {"'": re.compile(r"['\\]"), '"': re.compile(r'["\\]')}  # one search, which stops at the nearer
_OPEN = {"{": "{", "[": "[", "(": "["}
_SHUT = {"{": "}", "[": "]", "(": "]", "*": ""}  # `**{…}`: its members are the call's
_MATES = {"}": "{*", "]": "[", ")": "("}


class Arguments(CleanLiterals):
    """Reads the arguments of one call, up to its closing bracket. `feed` until `done`; `close` to end them early.

    The braces of the JSON object are the caller's. repaired: something was mended.
    """

    __slots__ = ()

    def feed(self, s: str, i: int, out: list[str], *, last: bool = False) -> int:
        """Read from `s[i]`; append what leaves to `out`. Below `len(s)` when done or when more text must be seen."""
        if self._row is not None:
            self._leave_row(self._row)
        n = len(s)
        while i < n and not self.done:
            state = self._state
            if state == STRING:
                j = self._string(s, i, out, last=last)
            elif state == IN_WORD:
                j = self._in_word(s, i, out, last=last)
            else:
                if s[i] in " \t\r\n":
                    i = WS.match(s, i).end()  # type: ignore[union-attr]
                    if i == n:
                        break
                j = self._plainly(s, i, out) if self.stack else -1
                if j < 0:
                    j = self._outside(s, i, out, last=last)
            if j < 0 or (j == i and self._state == state):
                break
            i = j
        return i

    def close(self, out: list[str]) -> None:
        """End the arguments here; what is missing is added."""
        if self.done:
            return
        if self._row is not None:
            self._leave_row(self._row)
        self.done = self.repaired = True
        if self._state == STRING:
            self._end_string(out)
        elif self._state == IN_WORD:
            self._end_word(out)
        if self._state == COLON:
            out.append(": null")
        elif self._state == VALUE and not self._in_list:
            out.append("null")
        while self.stack:
            out.append(_SHUT[self.stack.pop()])

    # -- outside of strings and words: each returns the index to go on from, or -1 to wait for more -------------------

    def _plainly(self, s: str, k: int, out: list[str]) -> int:
        """What stands in a list or object most often, by a character or two: as `_outside` reads it. -1: not so."""
        state = self._state
        c = s[k]
        if state == AFTER:
            if c == ",":
                self._state = VALUE if self.stack[-1] in "[(" else KEY
                return k + 1
            if c in "]}" and self.stack[-1] in _MATES[c]:
                opened = self.stack.pop()
                out.append(_SHUT[opened])
                self._empty = self._empty and opened == "*"
                return k + 1
        elif state == COLON:
            if c in ":=":
                out.append(": ")
                self._state = VALUE
                return k + 1
        elif c in "\"'" and c in self.notation.quotes and k + 1 < len(s) and s[k + 1] != c:
            is_key = state == KEY
            if not self._empty and (is_key or self.stack[-1] in "[("):
                out.append(", ")
            self._begin_string(c, is_key=is_key)
            if self._buffer is None:
                out.append('"')
            return k + 1
        elif state == VALUE and (c in "-0123456789[{" and c not in self.notation.end_firsts):
            if self.stack[-1] in "[(" and not self._empty:
                out.append(", ")
            if c in "[{":
                out.append(c)
                self.stack.append(c)
                self._types = ALL
                self._empty = True
                self._state = KEY if c == "{" else VALUE
                return k + 1
            self._empty = False
            self._begin_word()
            return k
        return -1

    def _outside(self, s: str, k: int, out: list[str], *, last: bool) -> int:
        c = s[k]
        at_end = self.is_end(s, k, last=last)
        if at_end is None:
            return -1
        if at_end:
            self.close(out)
            return k
        if self._state == COLON:
            out.append(": ")
            self._state = VALUE
            self.repaired = self.repaired or c not in ":="
            return k + (c in ":=")
        if c in "}])" and (c != ")" or self.closer == ")" or "(" in self.stack):
            return self._shut(k, c, out)
        if self._state == AFTER:
            self.repaired = self.repaired or c != ","
            if c in ",;)<":
                self._state = AFTER if c in ")<" else VALUE if self._in_list else KEY
                return k + 1
            self._state = VALUE if self._in_list else KEY  # a comma is missing
            return k
        if self._state == KEY:
            return self._key(s, k, c, out, last=last)
        return self._value(s, k, c, out, last=last)

    def _shut(self, k: int, c: str, out: list[str]) -> int:
        """A closing bracket. One that nothing has opened is left out."""
        if self._state == VALUE and not self._in_list:
            out.append("null")
            self.repaired = True
        self._state = AFTER
        mates = _MATES[c]
        if not any(mate in self.stack for mate in mates):
            if c == "]" and self.notation.listed:
                self.close(out)  # the call's own bracket is missing
                return k
            if c != self.closer:
                self.repaired = True
                return k + 1
        while self.stack:
            opened = self.stack.pop()
            out.append(_SHUT[opened])
            self._empty = self._empty and opened == "*"
            if opened in mates:
                return k + 1
            self.repaired = True
        self.done = True
        return k + 1

    def _key(self, s: str, k: int, c: str, out: list[str], *, last: bool) -> int:
        if c in ",;:=":
            self.repaired = self.repaired or c != ","
            return k + 1
        quote = self.opens(s, k, last=last)
        waits = not last and KEY_PART.match(s, k) is not None
        if quote is None:
            return -1
        named = self.notation.keywords and not self.stack
        if named and c == "*":
            if len(s) - k < 3 and not last:
                return -1
            if s.startswith("**{", k):
                self.stack.append("*")
                return k + 3
            self.repaired = True
            return k + 1
        if quote and (not named or QUOTED_KEY.match(s, k) is not None):
            out.append('"' if self._empty else ', "')
            self._begin_string(quote, is_key=True)
            return k + len(quote)
        m = None if quote else NAMED.match(s, k)
        if m is not None and (m.group(2) == ":" or m.end() < len(s) or last):
            self._put_key(m.group(1), out)
            return m.start(2)
        if waits:
            return -1
        self.repaired = True
        if named:
            # A value without a name is the parameter at its position.
            at = self._position
            self._put_key(self.declared[at] if at < len(self.declared) else f"arg{at}", out)
            out.append(": ")
            self._state = VALUE
            return k
        word = _LOST_KEY.match(s, k)
        if word is None:
            return k + 1
        if word.end() == len(s) and not last and word.end() - k < _LOST:
            return -1
        self._put_key(word.group().strip(), out)
        return word.end()

    def _put_key(self, key: str, out: list[str]) -> None:
        out.append(f'{"" if self._empty else ", "}"{quoted(key)}"')
        self._empty = False
        self._named(key)

    def _value(self, s: str, k: int, c: str, out: list[str], *, last: bool) -> int:
        if c == ",":
            self.repaired = True
            if self._in_list:
                return k + 1
            out.append("null")
            self._state = AFTER
            return k
        at = k
        if self.notation.keywords and c in "rRbBfFuU":
            if len(s) - k < 3 and not last:
                return -1
            prefix = _PREFIX.match(s, k)
            at = k if prefix is None else prefix.end()
        quote = self.opens(s, at, last=last)
        if quote is None:
            return -1
        if self._in_list and not self._empty:
            out.append(", ")
        self._empty = False
        if quote:
            self._begin_string(quote, is_key=False)
            self._raw = self._raw or "r" in s[k:at].lower()
            if self._buffer is None:
                out.append('"')
            return at + len(quote)
        if c in _OPEN:
            out.append(_OPEN[c])
            self.stack.append(c)
            self._empty = True
            self._types = ALL
            self._state = KEY if c == "{" else VALUE
            return k + 1
        self._begin_word()
        return k
