"""Arguments that a model has written as a JSON string instead of an object, and what stands for "no arguments"."""

from __future__ import annotations

import re

from ..patterns import anywhere
from .json_reader import JsonReader
from .json_spelling import decode, quoted

_SHORT = 256
_PLAIN = anywhere(r'[^"\'\\\n]*')
# Inside double quotes, with escapes that are complete. Not what msgspec refuses to decode.
_RUN = anywhere(r'(?:[^"\\\x00-\x1f\ud800-\udfff]++|\\["\\/bfnrt])*+')
_ESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "'": "'"}
# A lone surrogate stays an escape, which JSON allows. An escape that JSON does not know keeps its backslash.
_ESCAPE = anywhere(r"(?:\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\[\s\S])?")
_HALF_ESCAPE = re.compile(
    r"\\(?:u(?:[0-9a-fA-F]{0,3}|[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?))?\Z"
)
_NOTHING = frozenset({"", "null", "[]", '""'})


def no_arguments(text: str) -> str:
    """Arguments that are not an object: several ways to say "none" become `{}`; other JSON stays."""
    return "{}" if text.strip() in _NOTHING else text


def may_be_none(text: str) -> bool:
    """Whether `text` is the beginning of such a way, or the whole."""
    return any(way.startswith(text.strip()) for way in _NOTHING)


def _meaning(escape: str) -> str:
    """The text that a complete escape means."""
    if len(escape) == 2:
        return _ESCAPED.get(escape[1], escape)
    units = [int(unit, 16) for unit in escape.split("\\u")[1:]]
    if len(units) == 2:
        return chr(0x10000 + ((units[0] & 0x3FF) << 10) + (units[1] & 0x3FF))
    return escape if 0xD800 <= units[0] < 0xE000 else chr(units[0])


class StringArguments:
    """Arguments written as a JSON string that holds a JSON object: decoded and repaired as they arrive.

    A quote that should have been escaped (`"{"x": 1}"`) is told from the end by what the object inside expects.
    What does not begin like an object is collected and read as a whole.
    """

    tail = ""
    stuck = doubtful = is_empty = False  # see `JsonReader`
    __slots__ = (
        "_bare",
        "_first",
        "_half",
        "_inner",
        "_lead",
        "_over",
        "_plain",
        "_quote",
        "_short",
        "done",
        "repaired",
    )

    def __init__(self) -> None:
        self.done = False
        self.repaired = False
        self._inner = JsonReader()
        self._quote = ""
        self._half = ""  # an escape that is not complete
        self._first = ""
        self._lead: list[str] = []  # white space before the first character: dropped before an object
        self._plain: list[str] | None = None
        self._bare = False
        self._short = False  # what is inside ended in a value
        self._over = False  # the line ends behind the object: only the quote may follow

    @property
    def is_plain(self) -> bool:
        """Whether this is no object, and not empty."""
        return self._plain is not None

    @property
    def cut(self) -> bool:
        """Whether more than quotes and closing brackets is missing: see `JsonReader.cut`."""
        if self._short or self.done:
            return self._short
        return not self._first or self._plain is not None or (not self._inner.done and self._inner.cut)

    @property
    def settled(self) -> bool:
        """Whether this is plainly an object, or over."""
        return self.done or self._inner.settled

    def run(self, s: str) -> str | None:
        """As `JsonReader.run`: text without quotes that close, inside of an object."""
        if self._quote != '"' or self._half or self._first != "{" or self.done or self._inner.done:
            return None
        if '"' not in s and "\\" not in s:
            return self._inner.run(s)
        if len(s) > _SHORT or _RUN.fullmatch(s) is None:
            return None
        return self._inner.run(decode(f'"{s}"'))

    def leave(self, text: str) -> tuple[str, str]:
        """What leaves for `text`, and what is left of it."""
        out: list[str] = []
        i = self.feed(text, 0, out)
        return out[0] if len(out) == 1 else "".join(out), text[i:]

    def feed(self, s: str, i: int, out: list[str]) -> int:
        """Read from `s[i]`, the quote first; return the index after what was read."""
        if not self._quote:
            self._quote = s[i]
            i += 1
        before = i - len(self._half)
        s, i, self._half = self._half + s[i:], 0, ""
        quote = self._quote
        plain = _RUN if quote == '"' else _PLAIN
        while i < len(s):
            if self._over and not s[i].isspace() and s[i] != quote:
                self.close(out)
                break
            j = plain.match(s, i).end()
            if j > i:
                text = s[i:j]
                self._give(decode(f'"{text}"') if "\\" in text else text, out)
            elif s[i] == "\\":
                if _HALF_ESCAPE.match(s, i):
                    self._half = s[i:]
                    i = len(s)
                    break
                j = _ESCAPE.match(s, i).end()
                self._give(_meaning(s[i:j]), out)
            elif s[i] == quote and self._ends():
                self.close(out, ended=True)
                i += 1
                break
            else:
                self._over = self._over or (s[i] == "\n" and self._inner.done)
                self._give(s[i], out)
                if s[i] == quote:
                    self.repaired = True
                    self._bare = self._inner.in_string
                j = i + 1
            i = j
        return i + before

    def release(self, out: list[str]) -> None:
        """Nothing is held that could be emitted as it is."""

    def close(self, out: list[str], *, ended: bool = False) -> None:
        """The string is over (`ended`: by its quote)."""
        self.done = True
        self.repaired = self.repaired or not ended
        if self._plain is not None or not self._first:
            out.append(self._whole("".join(self._plain or ())))
            return
        if not self._inner.done and self._inner.cut:
            self._inner.release(out)
            self._short = True
            return
        self._inner.close(out)
        self.repaired = self.repaired or self._inner.repaired

    def _ends(self) -> bool:
        inner = self._inner
        if not self._first or self._plain is not None or inner.done:
            return True
        if inner.in_string:
            return not self._bare
        return not (inner.depth and inner.wants_string)

    def _give(self, text: str, out: list[str]) -> None:
        """Read text of the string."""
        if self._plain is not None:
            self._plain.append(text)
            return
        if not self._first:
            start = text.lstrip()
            if not start:
                self._lead.append(text)
                return
            self._first = start[0]
            if self._first != "{":
                self._plain = [*self._lead, text]
                return
            text = start
        if self._inner.done:
            self.repaired = self.repaired or not text.isspace()
        else:
            self._inner_feed(text, out)

    def _inner_feed(self, text: str, out: list[str]) -> None:
        end = self._inner.feed(text, 0, out)
        if self._inner.stuck:
            self._inner.close(out)
            self.repaired = True
        elif self._inner.done and text[end:].strip():
            self.repaired = True

    def _whole(self, text: str) -> str:
        """Text that is no object: JSON as it is, JSON encoded twice decoded, anything else as a string."""
        for _ in range(4):
            if text.strip() in _NOTHING:
                return "{}"
            try:
                value = decode(text)
            except (ValueError, RecursionError):
                break
            if not isinstance(value, str):
                return text
            text = value
            self.repaired = True
        self.repaired = True
        if text.lstrip().startswith("{"):
            out: list[str] = []
            reader = JsonReader()
            reader.feed(text, 0, out)
            reader.close(out)
            return "".join(out)
        return f'"{quoted(text)}"'
