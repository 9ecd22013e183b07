"""Notations of arguments (Python's, Gemma's): their escapes, and what can be told in them by looking ahead.

Models often forget to escape a quote, so a quote ends a string only where what follows it can follow a value: the next
key, or closing brackets with nothing odd behind them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field

from ..patterns import WHITE_SPACE, anywhere
from .literal_position import LISTS, SET, ArgumentsPosition

# A key and what stands between it and its value. Python's keywords have no spaces in them; Gemma's keys may.
NAMED = re.compile(r"([^{}\[\](),:=<>\"'`\n]{1,256}?)[ \t]{0,64}(:|=(?!=))")
QUOTED_KEY = re.compile(r"(?:\"((?:[^\"\\\n]|\\.){0,256})\"|'((?:[^'\\\n]|\\.){0,256})')[ \t]{0,64}[:=]")
KEY_PART = re.compile(
    r"(?:\"(?:[^\"\\\n]|\\.){0,256}\\?\"?|'(?:[^'\\\n]|\\.){0,256}\\?'?|[^{}\[\](),:=<>\"'`\n]{0,256})"
    r"[ \t]{0,64}[:=]?\Z"
)
MAX_LOOK = 512
_NEXT_CALL = re.compile(r"([^\W\d][\w.\-]{0,255})[ \t]{0,64}\(")
_NEXT_CALL_PART = re.compile(r"(?:[^\W\d][\w.\-]{0,255})?[ \t]{0,64}\Z")
_HEX = anywhere(r"[0-9a-fA-F]*")
_OCTAL = re.compile(r"[0-7]{1,3}")
SIMPLE = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "\\": "\\", '"': '"', "'": "'", "a": "\a",
           "v": "\v", "/": "/", "\n": ""}  # fmt: skip
_LENGTHS = {"x": 2, "u": 4, "U": 8}
_VALUES = frozenset("0123456789-.[{(TFNtfn")  # what Python's other values begin with
_BRACKETS = {"{": "}", "[": "]", "(": ")", "*": "}", SET: "}"}
# The first item of a set, or key of a dict, and what stands behind it; and half of that. A quote within it is data.
_IN_QUOTES = "|".join(
    f"{quote}(?:[^{quote}\\\\\\n]|\\\\.|{quote}(?![ \\t\\r\\n]{{0,64}}[,:}}])){{0,256}}{quote}" for quote in "'\""
)
_ITEM = rf"[ \t\r\n]{{0,64}}(?:[rRbBfFuU]{{0,2}}(?:{_IN_QUOTES})|[^'\"(){{}}\[\],:]{{1,64}})[ \t\r\n]{{0,64}}"
_FIRST_ITEM = re.compile(rf"{_ITEM}([,:}}])")
_MAX_ITEM = 400


@dataclass(frozen=True, slots=True, kw_only=True)
class Notation:
    """How arguments are written.

    quotes: what strings stand between, the longest first. verbatim: those in which a backslash is no escape.
    inner: what such a quote stands for where it does not end the string, if not for itself.
    keywords: as in Python, arguments may stand without a name, letters may stand before a quote, and a comma ends
    every word. ends: what stands behind all calls, and may be missing. listed: the calls stand in a list; else one may
    follow directly upon another. wrapped: another parenthesis may close around it.
    """

    quotes: tuple[str, ...]
    verbatim: frozenset[str] = frozenset()
    inner: str = ""
    keywords: bool = False
    ends: tuple[str, ...] = ()
    listed: bool = False
    wrapped: bool = False
    quote_firsts: frozenset[str] = field(init=False)
    end_firsts: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        # With the empty string: where the text ends, more may come.
        object.__setattr__(self, "quote_firsts", frozenset({"", *(quote[0] for quote in self.quotes)}))
        object.__setattr__(self, "end_firsts", frozenset({end[0] for end in self.ends if end}))


class Lookahead:
    """The part of an `Arguments` that tells from what comes next whether something ends here.

    The methods return None where more text must be seen first; `last` says that there is none.
    """

    __slots__ = ("_at", "_offered", "closer", "inner", "notation")

    def __init__(self, at: ArgumentsPosition, notation: Notation, opening: str, offered: Callable[[str], bool]) -> None:
        self._at = at
        self._offered = offered
        self.notation = notation
        self.closer = _BRACKETS[opening]
        """The bracket that ends the call."""
        self.inner = False
        """A quote stood inside the string at hand, so it may well hold code."""

    def opens(self, s: str, k: int, *, last: bool) -> str | None:
        """The quote that opens a string at `k`; "" if none does."""
        if s[k : k + 1] not in self.notation.quote_firsts:
            return ""
        rest = s[k : k + 8]
        for quote in self.notation.quotes:
            if rest.startswith(quote):
                return quote
            if not last and len(rest) < len(quote) and quote.startswith(rest):
                return None
        return ""

    def is_end(self, s: str, k: int, *, last: bool) -> bool | None:
        """Whether the marker behind all calls stands at `k`."""
        if s[k] not in self.notation.end_firsts:
            return False
        for end in self.notation.ends:
            if s.startswith(end, k):
                return True
            if not last and len(s) - k < len(end) and end.startswith(s[k:]):
                return None
        return False

    def follows(self, s: str, k: int, *, last: bool) -> bool | None:
        """Whether what stands at `k` can follow a string's end."""
        depth = len(self._at.stack)
        begin = k
        while True:
            k = self._skip(s, k)
            if k - begin > MAX_LOOK:
                return True
            if k == len(s):
                return True if last else None
            at_end = self.is_end(s, k, last=last)
            if at_end is not False:
                return at_end
            c = s[k]
            if c == ",":
                return True if depth and self._at.stack[depth - 1] in LISTS else self.key_follows(s, k + 1, last=last)
            if c != (_BRACKETS[self._at.stack[depth - 1]] if depth else self.closer):
                if c == "]" and self.notation.listed:
                    return self._list_ends(s, k + 1, last=last)  # the call's own bracket is missing
                # A missing comma: only before a key that we know.
                m = None if depth else NAMED.match(s, k)
                if m is None and not depth and not last:
                    rest = len(s) - k  # the rest of a whole answer is not worth a copy
                    if any(rest <= len(key) + 1 and f"{key}:".startswith(s[k:]) for key in self._at.declared):
                        return None
                return m is not None and m.group(1) in self._at.declared
            k += 1
            depth -= 1
            if depth < 0:
                return self._call_ends(s, k, last=last)

    @staticmethod
    def is_set(s: str, k: int, *, last: bool) -> bool | None:
        """Whether the brace before `k` opens a set: no colon stands behind its first item."""
        m = _FIRST_ITEM.match(s, k)
        if m is not None:
            return m.group(1) != ":" and bool(s[k : m.start(1)].strip())
        if last or len(s) - k >= _MAX_ITEM:
            return False
        first = s[WHITE_SPACE.match(s, k).end() :][:1]
        return None if first not in "{[(}," or not first else False

    @staticmethod
    def _skip(s: str, k: int) -> int:
        """Behind the white space at `k`; not farther than makes sense."""
        return WHITE_SPACE.match(s, k, k + MAX_LOOK).end()

    def key_follows(self, s: str, k: int, *, last: bool, in_text: bool = False) -> bool | None:
        """Whether a key stands at `k`, behind a comma. in_text: or else a text without quotes goes on there."""
        k = self._skip(s, k)
        waits = not last
        if k == len(s):
            return None if waits else True
        if s[k] in "}])," or s.startswith("**", k):
            return True
        quote = self.opens(s, k, last=last)
        if quote is None:
            return None
        if quote and not self.inner and (self._at.stack or self.notation.keywords):
            return True
        if quote in self.notation.verbatim:
            end = s.find(quote, k + len(quote), k + MAX_LOOK)
            if end < 0:
                return None if waits and len(s) < k + MAX_LOOK else False
            j = self._skip(s, end + len(quote))
            if j == len(s):
                return None if waits else False
            return s[j] in ":=" and self._known(s[k + len(quote) : end], in_text=in_text)
        m = QUOTED_KEY.match(s, k) if quote else NAMED.match(s, k)
        if m is None:
            if waits and KEY_PART.match(s, k):
                return None
            # A value without a name.
            return self.notation.keywords and not self._at.stack and not self.inner and s[k] in _VALUES
        if m.end() == len(s) and s[-1] == "=" and waits:
            return None  # `==` may follow
        return self._known(m.group(1) if m.group(1) is not None else m.group(2), in_text=in_text)

    def _known(self, key: str, *, in_text: bool) -> bool:
        """Text without quotes, and code in a string that has some, holds commas and keys too: there only a key that is
        declared counts.
        """
        at = self._at
        return not (self.inner or in_text) or not at.declared or bool(at.stack) or key in at.declared

    def _list_ends(self, s: str, k: int, *, last: bool) -> bool | None:
        """Whether nothing stands at `k` but what may stand behind the list of calls."""
        k = self._skip(s, k)
        if k == len(s):
            return True if last else None
        return self.is_end(s, k, last=last) if self.notation.ends else s[k] not in "'\")]},.;:"

    def _call_ends(self, s: str, k: int, *, last: bool) -> bool | None:
        """Whether the bracket before `k` can be the call's own."""
        k = self._skip(s, k)
        if k == len(s):
            return True if last else None
        at_end = self.is_end(s, k, last=last)
        if at_end is not False:
            return at_end
        if s[k] == ")" and self.notation.wrapped:
            k = self._skip(s, k + 1)
            if k == len(s):
                return True if last else None
        c = s[k]
        if c == "<" or s.startswith("```", k):
            return True
        if c == "`" and not last and "```".startswith(s[k:]):
            return None
        if c == "]" and self.notation.listed:
            return self._list_ends(s, k + 1, last=last) if self.inner else True
        if c in ",;" and self.notation.keywords:
            return self._next_call(s, k + 1, last=last) if self.inner else True
        if self.inner and (self.notation.listed or not self.notation.keywords):
            return False
        return self._next_call(s, k, last=last) if self.inner else c.isalnum() or c in "_*#-"

    def _next_call(self, s: str, k: int, *, last: bool) -> bool | None:
        k = self._skip(s, k)
        m = _NEXT_CALL.match(s, k)
        if m is None:
            return None if not last and _NEXT_CALL_PART.match(s, k) else False
        return self._offered(m.group(1))


def unescape(s: str, i: int) -> tuple[int, str]:
    """(index behind the escape at `i`, what it stands for), or (-1, "") when it is cut off."""
    if i + 1 >= len(s):
        return -1, ""
    c = s[i + 1]
    if c in _LENGTHS:
        end = i + 2 + _LENGTHS[c]
        digits = _HEX.match(s, i + 2, end).end()
        if digits == end:
            code = int(s[i + 2 : end], 16)
            return end, chr(code) if code < 0x110000 else "\ufffd"
        return (-1, "") if digits == len(s) else (i + 1, "\\")
    if c in SIMPLE:
        return i + 2, SIMPLE[c]
    octal = _OCTAL.match(s, i + 1)
    if octal is None:
        return i + 1, "\\"
    if octal.end() == len(s) and octal.end() < i + 4:
        return -1, ""
    return octal.end(), chr(int(octal.group(), 8))
