"""Strings and words of arguments in a notation with quoted strings: what they are, and where they end.

A `read` reads `s` from `i`, appends to `out` what leaves, and returns where it is, or -1 (or `i`) to wait for more.
"""

from __future__ import annotations

import json
import re

from ..patterns import anywhere
from .json_spelling import LITERALS, NUMBER, quoted
from .literal_position import AFTER, IN_WORD, STRING, ArgumentsPosition
from .notation import Lookahead, unescape
from .typing import json_of, literal

_WORD = anywhere(r"[^,()\[\]{}\"'<]*")
_SPECIAL = {"'": re.compile(r"['\\]"), '"': re.compile(r'["\\]')}  # one search, which stops at the nearer


class Words:
    """The part of an `Arguments` that reads numbers, literals, unquoted words and expressions."""

    __slots__ = ("_ahead", "_at", "_deep", "_parts", "_quote", "_text")

    def __init__(self, at: ArgumentsPosition, ahead: Lookahead) -> None:
        self._at = at
        self._ahead = ahead
        self._parts: list[str] = []
        self._deep = 0  # open brackets in the word
        self._quote = ""  # of a string in its brackets
        self._text = False  # it can only be a string

    def begin(self, text: str = "") -> None:
        """A word begins; `text` of it was read."""
        self._parts = [text] if text else []
        self._deep = 0
        self._quote = ""
        self._text = False
        self._at.state = IN_WORD

    @property
    def are_literal(self) -> bool:
        """Whether they are a literal that is complete: no more of it can come."""
        return "".join(self._parts).strip() in LITERALS

    def takes(self, text: str) -> bool:
        """Whether all of `text` is plainly part of the word, which then has it."""
        plain = not self._quote and _WORD.fullmatch(text) is not None
        if plain:
            self._parts.append(text)
        return plain

    def read(self, s: str, i: int, out: list[str], *, last: bool) -> int:
        """In a word, up to its comma or bracket."""
        ahead, n = self._ahead, len(s)
        while i < n:
            if self._quote:
                k = s.find(self._quote, i) + 1 or n
                if s[k - 1] == self._quote:
                    self._quote = ""
            else:
                k = _WORD.match(s, i).end()
            if k > i:
                self._parts.append(s[i:k])
                i = k
                continue
            c = s[i]
            quote: str | None = ""
            if not self._deep:
                if c in "]}" or (c == "," and (ahead.notation.keywords or self._at.in_list)):
                    self.end(out)
                    return i
                ends = self._ends(s, i, c, last=last)
                quote = ahead.opens(s, i, last=last) if ends is False else ""
                if ends:
                    self.end(out)
                if ends is not False or quote is None:
                    return i
            if quote and quote in ahead.notation.verbatim:
                # The quote that opens this string is missing.
                closes = ahead.follows(s, i + len(quote), last=last)
                if closes is None:
                    return i
                self._at.repaired = True
                i += len(quote)
                if closes:
                    self.end(out, as_string=True)
                    return i
                self._parts.append(ahead.notation.inner or quote)
                continue
            if c in "([{":
                self._deep += 1
            elif c in ")]}":
                self._deep -= self._deep > 0
            elif c in "\"'" and self._deep and ahead.notation.keywords:
                self._quote = c
            self._parts.append(c)
            i += 1
        return i

    def _ends(self, s: str, i: int, c: str, *, last: bool) -> bool | None:
        at, ahead = self._at, self._ahead
        if c in ")]}":
            return c != ")" or ahead.closer == ")" or "(" in at.stack
        if c == ",":
            if ahead.notation.keywords or at.in_list:
                return True
            if not self._text and "string" in at.types:
                word = "".join(self._parts).strip()
                self._text = word not in LITERALS and NUMBER.fullmatch(word) is None
            return ahead.key_follows(s, i + 1, last=last, in_text=self._text)
        return ahead.is_end(s, i, last=last) if c == "<" else False

    def end(self, out: list[str], *, as_string: bool = False) -> None:
        """The word is complete: put out what it means."""
        at = self._at
        word = "".join(self._parts).strip()
        self._parts = []
        at.state = AFTER
        if as_string:
            out.append(f'"{quoted(word)}"' if "string" in at.types else json_of(word, at.types))
            return
        made = literal(word, at.types)
        at.repaired = at.repaired or made.startswith('"')
        out.append(made)


class Strings:
    """The part of an `Arguments` that reads strings."""

    __slots__ = ("_ahead", "_at", "_key", "buffer", "is_key", "quote", "raw")

    def __init__(self, at: ArgumentsPosition, ahead: Lookahead) -> None:
        self._at = at
        self._ahead = ahead
        self._key: list[str] = []
        self.quote = ""
        self.raw = False
        """A backslash in it is no escape."""
        self.is_key = False
        self.buffer: list[str] | None = None
        """A string where none is declared: its text decides."""

    def begin(self, quote: str, *, is_key: bool) -> None:
        """A string begins behind `quote`."""
        at = self._at
        at.empty = False
        at.state = STRING
        self.quote = quote
        self.raw = quote in self._ahead.notation.verbatim
        self.is_key = is_key
        self._key = []
        self.buffer = None if is_key or "string" in at.types else []
        self._ahead.inner = False

    def read(self, s: str, i: int, out: list[str], *, last: bool) -> int:
        """In a string, up to its closing quote."""
        ahead, quote, n = self._ahead, self.quote, len(s)
        start = i
        while i < n:
            j = self.next_special(s, i)
            if j > i:
                self.say(s[i:j], out)
                i = j
                continue
            if s[i] == "\\" and not self.raw:
                end, text = unescape(s, i)
                if end < 0:
                    i = n if last else i
                    break
                self.say(text, out)
                i = end
            elif s.startswith(quote, i):
                at_once = self.is_key or quote in ('"""', "'''")
                behind = i + len(quote)
                # A model that began with JSON's quote may end the string with that and its own.
                mixed = ahead.notation.verbatim and not (at_once or self.raw)
                stray = ahead.opens(s, behind, last=last) if mixed else ""
                if stray and stray in ahead.notation.verbatim:
                    behind += len(stray)
                ends = True if at_once or stray is None else ahead.follows(s, behind, last=last)
                if ends is None or stray is None:
                    break
                if ends:
                    self._at.repaired |= behind > i + len(quote)
                    i = behind
                    self.end(out)
                    break
                i += len(quote)
                self._at.repaired = ahead.inner = True
                self.say(ahead.notation.inner or quote, out)
            elif not last and n - i < len(quote) and quote.startswith(s[i:]):
                break
            else:
                self.say(s[i], out)
                i += 1
        return -1 if i == start and self._at.state == STRING else i

    def next_special(self, s: str, i: int) -> int:
        """Up to where `s` is plain text of the string, from `i` on."""
        char = self.quote[0]
        if self.raw or char not in _SPECIAL:
            j = s.find(char, i)
            k = -1 if self.raw else s.find("\\", i, j if j >= 0 else len(s))
            return k if k >= 0 else j if j >= 0 else len(s)
        m = _SPECIAL[char].search(s, i)
        return len(s) if m is None else m.start()

    def say(self, text: str, out: list[str]) -> None:
        """`text` is part of the string."""
        # A surrogate, as Python's escapes can write it, stays an escape: alone it has no bytes.
        made = f"\\u{ord(text):04x}" if len(text) == 1 and "\ud800" <= text <= "\udfff" else quoted(text)
        if self.is_key:
            self._key.append(text)
        (out if self.buffer is None else self.buffer).append(made)

    def end(self, out: list[str]) -> None:
        """The string is complete."""
        at = self._at
        if self.buffer is not None:
            held = f'"{"".join(self.buffer)}"'
            self.buffer = None
            made = json_of(json.loads(held), at.types)
            out.append(held if made.startswith('"') else made)
        else:
            out.append('"')
        if self.is_key:
            at.named("".join(self._key))
        else:
            at.state = AFTER
