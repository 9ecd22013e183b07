"""Strings and words of arguments in a notation with quoted strings: what they are, and where they end.

Each method reads `s` from `i`, appends to `out` what leaves, and returns where it is, or -1 (or `i`) to wait for more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from ...json_schema.types import ALL, declared_types
from .json_spelling import quoted
from .literal_states import AFTER, COLON, IN_WORD, KEY, PLAIN, STRING
from .notation import Lookahead, Notation, unescape
from .typed_text import JSON_NUMBER, json_of, literal

WORD = re.compile(r"[^,()\[\]{}\"'<]*")
_SPECIAL = {"'": re.compile(r"['\\]"), '"': re.compile(r'["\\]')}  # one search, which stops at the nearer


class LiteralTexts(Lookahead):
    """The part of `Arguments` that reads strings and words."""

    __slots__ = (
        "_buffer", "_deep", "_empty", "_is_key", "_position", "_quote", "_raw", "_state", "_types", "_word",
        "_word_quote", "repaired",
    )  # fmt: skip

    def __init__(
        self, notation: Notation, opening: str, schema: Mapping[str, Any] | None, offered: Callable[[str], bool]
    ) -> None:
        super().__init__(notation, opening, schema, offered)
        self.repaired = False
        self._empty = True  # nothing stands in the innermost container yet
        self._state = KEY
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
    def _in_list(self) -> bool:
        return bool(self.stack) and self.stack[-1] in "[("

    def _named(self, key: str) -> None:
        self._state = COLON
        if not self.stack or self.stack == ["*"]:
            self._types = declared_types(self.schema, key)
            self._position += 1
        else:
            self._types = ALL

    # -- words -------------------------------------------------------------------------------------------------------

    def _begin_word(self) -> None:
        self._word = []
        self._deep = 0
        self._word_quote = ""
        self._state = IN_WORD

    def _in_word(self, s: str, i: int, out: list[str], *, last: bool) -> int:
        """A number, a word or an expression, up to its comma or bracket."""
        n = len(s)
        while i < n:
            if self._word_quote:
                k = s.find(self._word_quote, i) + 1 or n
                if s[k - 1] == self._word_quote:
                    self._word_quote = ""
            else:
                k = WORD.match(s, i).end()  # type: ignore[union-attr]
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
        self._state = AFTER
        if as_string:
            out.append(f'"{quoted(word)}"' if "string" in self._types else json_of(word, self._types))
            return
        made = (PLAIN.get(word) or (word if JSON_NUMBER.fullmatch(word) else None)) if self._types is ALL else None
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
        self._state = STRING
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
        return -1 if i == start and self._state == STRING else i

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
            self._state = AFTER
