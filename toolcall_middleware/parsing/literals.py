"""The arguments of a call in a notation with quoted strings: `x=1, y='a')` or `x:<|"|>a<|"|>}`.

They leave as the members of one JSON object: strings as they arrive, words when they are complete. Where no string is
declared, a string's text is typed like a word.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from .json_words import quoted
from .lane import Lane, passing
from .notation import KEY, KEY_PART, QUOTED_KEY, WS, Lookahead, Notation, unescape
from .typed import ALL, JSON_NUMBER, declared_types, json_of, literal

_WORD = re.compile(r"[^,()\[\]{}\"'<]*")
_LOST = 256
_LOST_KEY = re.compile(rf"[^,()\[\]{{}}\"'<]{{1,{_LOST}}}")
_PREFIX = re.compile(r"([rRbBfFuU]{1,2})(?=['\"])")
_SPECIAL = {"'": re.compile(r"['\\]"), '"': re.compile(r'["\\]')}  # one search, which stops at the nearer
_OPEN = {"{": "{", "[": "[", "(": "["}
_SHUT = {"{": "}", "[": "]", "(": "]", "*": ""}  # `**{…}`: its members are the call's
_MATES = {"}": "{*", "]": "[", ")": "("}

_PLAIN = {"True": "true", "true": "true", "False": "false", "false": "false", "None": "null", "null": "null"}

_KEY, _COLON, _VALUE, _STRING, _IN_WORD, _AFTER = range(6)


class Arguments(Lookahead):
    """Reads the arguments of one call, up to its closing bracket. `feed` until `done`; `close` to end them early.

    The braces of the JSON object are the caller's. repaired: something was mended.
    """

    __slots__ = (
        "_buffer", "_deep", "_empty", "_is_key", "_left", "_position", "_quote", "_raw", "_state", "_types", "_word",
        "_word_quote", "done", "repaired", "tail",
    )  # fmt: skip

    def __init__(
        self, notation: Notation, opening: str, schema: Mapping[str, Any] | None, offered: Callable[[str], bool]
    ) -> None:
        super().__init__(notation, opening, schema, offered)
        self.done = False
        self.repaired = False
        self._left: tuple[str, str] | None = None  # see `leave`
        self.tail = ""
        self._empty = True  # nothing stands in the innermost container yet
        self._state = _KEY
        self._position = 0
        self._types = ALL
        self._quote = ""
        self._raw = False
        self._is_key = False
        self._buffer: list[str] | None = None  # a string where none is declared: its text decides
        self._word: list[str] = []
        self._deep = 0  # open brackets in a word
        self._word_quote = ""

    @property
    def lane(self) -> Lane | None:
        """What goes through as it is: the inside of a string."""
        streams = self._state == _STRING and self._buffer is None and not self._is_key and not self.tail
        return passing(self._quote[0]) if streams else None

    def went_by(self, text: str) -> None:
        """`text` left by the lane."""

    def run(self, text: str) -> str | None:
        """What leaves for `text`; None where the arguments end in it. What is not decided on waits here."""
        if self._left is not None:
            return None
        out: list[str] = []
        if self.tail:
            text = self.tail + text
        elif self._state == _IN_WORD and not self._word_quote and _WORD.fullmatch(text) is not None:
            self._word.append(text)
            return ""
        elif self._state == _STRING and self._next_special(text, 0) == len(text):
            self._say(text, out)
            return out[0] if out else ""
        i = self.feed(text, 0, out)
        said = out[0] if len(out) == 1 else "".join(out)
        if self.done:
            self._left = said, text[i:]
            return None
        self.tail = text[i:]
        return said

    def leave(self, text: str) -> tuple[str, str]:
        """What left last, and the text behind the arguments."""
        return self._left or ("", text)

    def feed(self, s: str, i: int, out: list[str], *, last: bool = False) -> int:
        """Read from `s[i]`; append what leaves to `out`. Below `len(s)` when done or when more text must be seen."""
        n = len(s)
        while i < n and not self.done:
            state = self._state
            if state == _STRING:
                j = self._string(s, i, out, last=last)
            elif state == _IN_WORD:
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
        self.done = self.repaired = True
        if self._state == _STRING:
            self._end_string(out)
        elif self._state == _IN_WORD:
            self._end_word(out)
        if self._state == _COLON:
            out.append(": null")
        elif self._state == _VALUE and not self._in_list:
            out.append("null")
        while self.stack:
            out.append(_SHUT[self.stack.pop()])

    # -- outside of strings and words: each returns the index to go on from, or -1 to wait for more -------------------

    @property
    def _in_list(self) -> bool:
        return bool(self.stack) and self.stack[-1] in "[("

    def _plainly(self, s: str, k: int, out: list[str]) -> int:
        """What stands in a list or object most often, by a character or two: as `_outside` reads it. -1: not so."""
        state = self._state
        c = s[k]
        if state == _AFTER:
            if c == ",":
                self._state = _VALUE if self.stack[-1] in "[(" else _KEY
                return k + 1
            if c in "]}" and self.stack[-1] in _MATES[c]:
                opened = self.stack.pop()
                out.append(_SHUT[opened])
                self._empty = self._empty and opened == "*"
                return k + 1
        elif state == _COLON:
            if c in ":=":
                out.append(": ")
                self._state = _VALUE
                return k + 1
        elif c in "\"'" and c in self.notation.quotes and k + 1 < len(s) and s[k + 1] != c:
            is_key = state == _KEY
            if not self._empty and (is_key or self.stack[-1] in "[("):
                out.append(", ")
            self._begin_string(c, is_key=is_key)
            if self._buffer is None:
                out.append('"')
            return k + 1
        elif state == _VALUE and (c in "-0123456789[{" and c not in self.notation.end_firsts):
            if self.stack[-1] in "[(" and not self._empty:
                out.append(", ")
            if c in "[{":
                out.append(c)
                self.stack.append(c)
                self._types = ALL
                self._empty = True
                self._state = _KEY if c == "{" else _VALUE
                return k + 1
            self._empty = False
            self._word = []
            self._deep = 0
            self._word_quote = ""
            self._state = _IN_WORD
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
        if self._state == _COLON:
            out.append(": ")
            self._state = _VALUE
            self.repaired = self.repaired or c not in ":="
            return k + (c in ":=")
        if c in "}])" and (c != ")" or self.closer == ")" or "(" in self.stack):
            return self._shut(k, c, out)
        if self._state == _AFTER:
            self.repaired = self.repaired or c != ","
            if c in ",;)<":
                self._state = _AFTER if c in ")<" else _VALUE if self._in_list else _KEY
                return k + 1
            self._state = _VALUE if self._in_list else _KEY  # a comma is missing
            return k
        if self._state == _KEY:
            return self._key(s, k, c, out, last=last)
        return self._value(s, k, c, out, last=last)

    def _shut(self, k: int, c: str, out: list[str]) -> int:
        """A closing bracket. One that nothing has opened is left out."""
        if self._state == _VALUE and not self._in_list:
            out.append("null")
            self.repaired = True
        self._state = _AFTER
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
        m = None if quote else KEY.match(s, k)
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
            self._state = _VALUE
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

    def _named(self, key: str) -> None:
        self._state = _COLON
        if not self.stack or self.stack == ["*"]:
            self._types = declared_types(self.schema, key)
            self._position += 1
        else:
            self._types = ALL

    def _value(self, s: str, k: int, c: str, out: list[str], *, last: bool) -> int:
        if c == ",":
            self.repaired = True
            if self._in_list:
                return k + 1
            out.append("null")
            self._state = _AFTER
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
            self._state = _KEY if c == "{" else _VALUE
            return k + 1
        self._word = []
        self._deep = 0
        self._word_quote = ""
        self._state = _IN_WORD
        return k

    # -- words -------------------------------------------------------------------------------------------------------

    def _in_word(self, s: str, i: int, out: list[str], *, last: bool) -> int:
        """A number, a word or an expression, up to its comma or bracket."""
        n = len(s)
        while i < n:
            if self._word_quote:
                k = s.find(self._word_quote, i) + 1 or n
                if s[k - 1] == self._word_quote:
                    self._word_quote = ""
            else:
                k = _WORD.match(s, i).end()  # type: ignore[union-attr]
            if k > i:
                self._word.append(s[i:k])
                i = k
                continue
            c = s[i]
            quote: str | None = ""
            if not self._deep:
                if c in "]}" or (c == "," and (self.notation.keywords or self._in_list)):
                    self._end_word(out)
                    return i
                ends = self._word_ends(s, i, c, last=last)
                quote = self.opens(s, i, last=last) if ends is False else ""
                if ends:
                    self._end_word(out)
                if ends is not False or quote is None:
                    return i
            if quote and quote in self.notation.verbatim:
                # The quote that opens this string is missing.
                closes = self.follows(s, i + len(quote), last=last)
                if closes is None:
                    return i
                self.repaired = True
                i += len(quote)
                if closes:
                    self._end_word(out, as_string=True)
                    return i
                self._word.append(self.notation.inner or quote)
                continue
            if c in "([{":
                self._deep += 1
            elif c in ")]}":
                self._deep -= self._deep > 0
            elif c in "\"'" and self._deep and self.notation.keywords:
                self._word_quote = c
            self._word.append(c)
            i += 1
        return i

    def _word_ends(self, s: str, i: int, c: str, *, last: bool) -> bool | None:
        if c in ")]}":
            return c != ")" or self.closer == ")" or "(" in self.stack
        if c == ",":
            return True if self.notation.keywords or self._in_list else self.key_follows(s, i + 1, last=last)
        return self.is_end(s, i, last=last) if c == "<" else False

    def _end_word(self, out: list[str], *, as_string: bool = False) -> None:
        word = "".join(self._word).strip()
        self._word = []
        self._state = _AFTER
        if as_string:
            out.append(f'"{quoted(word)}"' if "string" in self._types else json_of(word, self._types))
            return
        made = (_PLAIN.get(word) or (word if JSON_NUMBER.fullmatch(word) else None)) if self._types is ALL else None
        if made is None:
            made = literal(word, self._types)
        self.repaired = self.repaired or made.startswith('"')
        out.append(made)

    # -- strings -----------------------------------------------------------------------------------------------------

    def _begin_string(self, quote: str, *, is_key: bool) -> None:
        self._empty = False
        self._quote = quote
        self._raw = quote in self.notation.verbatim
        self._is_key = is_key
        self._word = []
        self._buffer = None if is_key or "string" in self._types else []
        self._state = _STRING
        self.inner = False

    def _string(self, s: str, i: int, out: list[str], *, last: bool) -> int:
        """Inside a string: up to its closing quote."""
        n = len(s)
        start = i
        quote = self._quote
        while i < n:
            j = self._next_special(s, i)
            if j > i:
                self._say(s[i:j], out)
                i = j
                continue
            if s[i] == "\\" and not self._raw:
                end, text = unescape(s, i)
                if end < 0:
                    i = n if last else i
                    break
                self._say(text, out)
                i = end
            elif s.startswith(quote, i):
                at_once = self._is_key or quote in ('"""', "'''")
                ends = True if at_once else self.follows(s, i + len(quote), last=last)
                if ends is None:
                    break
                i += len(quote)
                if ends:
                    self._end_string(out)
                    break
                self.repaired = self.inner = True
                self._say(self.notation.inner or quote, out)
            elif not last and n - i < len(quote) and quote.startswith(s[i:]):
                break
            else:
                self._say(s[i], out)
                i += 1
        return -1 if i == start and self._state == _STRING else i

    def _next_special(self, s: str, i: int) -> int:
        char = self._quote[0]
        if self._raw or char not in _SPECIAL:
            j = s.find(char, i)
            k = -1 if self._raw else s.find("\\", i, j if j >= 0 else len(s))
            return k if k >= 0 else j if j >= 0 else len(s)
        m = _SPECIAL[char].search(s, i)
        return len(s) if m is None else m.start()

    def _say(self, text: str, out: list[str]) -> None:
        # A surrogate, as Python's escapes can write it, stays an escape: alone it has no bytes.
        made = f"\\u{ord(text):04x}" if len(text) == 1 and "\ud800" <= text <= "\udfff" else quoted(text)
        if self._is_key:
            self._word.append(text)
        (out if self._buffer is None else self._buffer).append(made)

    def _end_string(self, out: list[str]) -> None:
        if self._buffer is not None:
            held = f'"{"".join(self._buffer)}"'
            self._buffer = None
            made = json_of(json.loads(held), self._types)
            out.append(held if made.startswith('"') else made)
        else:
            out.append('"')
        if self._is_key:
            self._named("".join(self._word))
        else:
            self._state = _AFTER
