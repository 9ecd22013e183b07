"""The arguments of a call in a notation with quoted strings: `x=1, y='a')` or `x:<|"|>a<|"|>}`.

They leave as the members of one JSON object: strings as they arrive, words when they are complete. Where no string is
declared, a string's text is typed like a word.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from ..patterns import WHITE_SPACE
from .json_spelling import quoted
from .literal_position import AFTER, COLON, IN_WORD, KEY, SET, STRING, VALUE, ArgumentsPosition
from .literal_strings import Strings, Words
from .notation import KEY_PART, NAMED, QUOTED_KEY, Lookahead, Notation

_LOST = 256
_LOST_KEY = re.compile(rf"[^,()\[\]{{}}\"'<]{{1,{_LOST}}}")
_PREFIX = re.compile(r"([rRbBfFuU]{1,2})(?=['\"])")
_OPEN = {"{": "{", "[": "[", "(": "[", SET: "["}
_SHUT = {"{": "}", "[": "]", "(": "]", SET: "]", "*": ""}  # `**{…}`: its members are the call's
_MATES = {"}": f"{{*{SET}", "]": "[", ")": "("}


class Arguments:
    """Reads the arguments of one call, up to its closing bracket. `feed` until `done`; `close` to end them early.

    The braces of the JSON object are the caller's. `run` is for text that is given while the arguments go on: see
    `ArgumentsReader`.
    """

    __slots__ = ("_ahead", "_at", "_left", "_strings", "_words", "cut", "done", "tail")

    def __init__(
        self, notation: Notation, opening: str, schema: Mapping[str, Any] | None, offered: Callable[[str], bool]
    ) -> None:
        """opening: the bracket that opened the call. offered: whether a name is that of a tool of the request."""
        at = self._at = ArgumentsPosition(schema)
        ahead = self._ahead = Lookahead(at, notation, opening, offered)
        self._words = Words(at, ahead)
        self._strings = Strings(at, ahead)
        self.tail = ""
        """Text that was given and is not decided on."""
        self._left: tuple[str, str] | None = None  # see `leave`
        self.done = False
        self.cut = False
        """They ended in a value, or before one: what was put out is a beginning, and is never made to look complete."""

    @property
    def repaired(self) -> bool:
        """Something was not as the notation has it."""
        return self._at.repaired

    # -- pieces of text while the arguments go on --------------------------------------------------------------------

    def leave(self, text: str) -> tuple[str, str]:
        """What left last, and the text behind the arguments."""
        return self._left or ("", text)

    def run(self, text: str) -> str | None:
        """What is emitted for `text`; None where the arguments end in it."""
        if self._left is not None:
            return None
        state = self._at.state
        if self.tail:
            text = self.tail + text
        elif state == IN_WORD and self._words.takes(text):
            return ""
        out: list[str] = []
        if not self.tail and state == STRING and self._strings.next_special(text, 0) == len(text):
            self._strings.say(text, out)
            return out[0] if out else ""
        i = self.feed(text, 0, out)
        said = out[0] if len(out) == 1 else "".join(out)
        if self.done:
            self._left = said, text[i:]
            return None
        self.tail = text[i:]
        return said

    # -- all of them --------------------------------------------------------------------------------------------------

    def feed(self, s: str, i: int, out: list[str], *, last: bool = False) -> int:
        """Read from `s[i]`; append what leaves to `out`. Below `len(s)` when done or when more text must be seen."""
        at = self._at
        n = len(s)
        while i < n and not self.done:
            state = at.state
            if state == STRING:
                j = self._strings.read(s, i, out, last=last)
            elif state == IN_WORD:
                j = self._words.read(s, i, out, last=last)
            else:
                if s[i] in " \t\r\n":
                    i = WHITE_SPACE.match(s, i).end()
                    if i == n:
                        break
                j = self._outside(s, i, out, last=last)
            if j < 0 or (j == i and at.state == state):
                break
            i = j
        return i

    def close(self, out: list[str], *, marked: bool = False) -> None:
        """End the arguments here: missing brackets are added, unless they end in a value (`cut`).

        marked: a marker or bracket stands here that ends the call.
        """
        if self.done:
            return
        at = self._at
        self.done = at.repaired = True
        state = at.state
        # Before a marker, a comma is one too many; where the text ends, something was to come.
        due = state == COLON or (state == VALUE and not at.in_list) or (state in (KEY, VALUE) and not marked)
        self.cut = due or state == STRING or (state == IN_WORD and not self._words.are_literal)
        if self.cut:
            return
        if state == IN_WORD:
            self._words.end(out)
        while at.stack:
            out.append(_SHUT[at.stack.pop()])

    # -- outside of strings and words: each returns the index to go on from, or -1 to wait for more -------------------

    def _outside(self, s: str, k: int, out: list[str], *, last: bool) -> int:
        at, ahead = self._at, self._ahead
        c = s[k]
        at_end = ahead.is_end(s, k, last=last)
        if at_end is None:
            return -1
        if at_end:
            self.close(out, marked=True)
            return k
        if at.state == COLON:
            out.append(": ")
            at.state = VALUE
            at.repaired = at.repaired or c not in ":="
            return k + (c in ":=")
        if c in "}])" and (c != ")" or ahead.closer == ")" or "(" in at.stack):
            return self._shut(k, c, out)
        if at.state == AFTER:
            at.repaired = at.repaired or c != ","
            if c in ",;)<":
                at.state = AFTER if c in ")<" else VALUE if at.in_list else KEY
                return k + 1
            at.state = VALUE if at.in_list else KEY  # a comma is missing
            return k
        if at.state == KEY:
            return self._key(s, k, c, out, last=last)
        return self._value(s, k, c, out, last=last)

    def _shut(self, k: int, c: str, out: list[str]) -> int:
        """A closing bracket. One that nothing has opened is left out."""
        at, ahead = self._at, self._ahead
        if at.state == VALUE and not at.in_list:
            out.append("null")
            at.repaired = True
        at.state = AFTER
        mates = _MATES[c]
        if not any(mate in at.stack for mate in mates):
            if c == "]" and ahead.notation.listed:
                self.close(out, marked=True)  # the call's own bracket is missing
                return k
            if c != ahead.closer:
                at.repaired = True
                return k + 1
        while at.stack:
            opened = at.stack.pop()
            out.append(_SHUT[opened])
            at.empty = at.empty and opened == "*"
            if opened in mates:
                return k + 1
            at.repaired = True
        self.done = True
        return k + 1

    def _key(self, s: str, k: int, c: str, out: list[str], *, last: bool) -> int:
        at, ahead = self._at, self._ahead
        holds_all = c == "{" and at.empty and not at.stack and ahead.closer == ")" and not ahead.notation.keywords
        if holds_all:
            at.stack.append("*")  # an object in the call's parentheses
        if holds_all or c in ",;:=":
            at.repaired = at.repaired or c != ","
            return k + 1
        quote = ahead.opens(s, k, last=last)
        waits = not last and KEY_PART.match(s, k) is not None
        if quote is None:
            return -1
        named = ahead.notation.keywords and not at.stack
        if named and c == "*":
            if len(s) - k < 3 and not last:
                return -1
            if s.startswith("**{", k):
                at.stack.append("*")
                return k + 3
            at.repaired = True
            return k + 1
        if quote and (not named or QUOTED_KEY.match(s, k) is not None):
            out.append('"' if at.empty else ', "')
            self._strings.begin(quote, is_key=True)
            return k + len(quote)
        m = None if quote else NAMED.match(s, k)
        if m is not None and (m.group(2) == ":" or m.end() < len(s) or last):
            self._put_key(m.group(1), out)
            return m.start(2)
        if waits:
            return -1
        at.repaired = True
        if named:
            # A value without a name is the parameter at its position.
            number = at.positional
            self._put_key(at.declared[number] if number < len(at.declared) else f"arg{number}", out)
            out.append(": ")
            at.state = VALUE
            return k
        word = _LOST_KEY.match(s, k)
        if word is None:
            return k + 1
        if word.end() == len(s) and not last and word.end() - k < _LOST:
            return -1
        self._put_key(word.group().strip(), out)
        return word.end()

    def _put_key(self, key: str, out: list[str]) -> None:
        at = self._at
        out.append(f'{"" if at.empty else ", "}"{quoted(key)}"')
        at.empty = False
        at.named(key)

    def _value(self, s: str, k: int, c: str, out: list[str], *, last: bool) -> int:
        at, ahead = self._at, self._ahead
        if c == ",":
            at.repaired = True
            if at.in_list:
                return k + 1
            out.append("null")
            at.state = AFTER
            return k
        begin = k
        if ahead.notation.keywords and c in "rRbBfFuU":
            if len(s) - k < 3 and not last:
                return -1
            prefix = _PREFIX.match(s, k)
            begin = k if prefix is None else prefix.end()
        quote = ahead.opens(s, begin, last=last)
        if quote is None:
            return -1
        bracket = c
        if c == "{" and ahead.notation.keywords:
            listed = ahead.is_set(s, k + 1, last=last)
            if listed is None:
                return -1
            bracket = SET if listed else c
        if at.in_list and not at.empty:
            out.append(", ")
        at.empty = False
        if quote:
            strings = self._strings
            strings.begin(quote, is_key=False)
            strings.raw = strings.raw or "r" in s[k:begin].lower()
            if strings.buffer is None:
                out.append('"')
            return begin + len(quote)
        if c in "{[(":
            out.append(_OPEN[bracket])
            at.opened(bracket)
            return k + 1
        self._words.begin()
        return k
