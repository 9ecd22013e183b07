"""Arguments that a model has written as a JSON string instead of an object, and what stands for "no arguments"."""

from __future__ import annotations

from ..patterns import anywhere
from .json_reader import JsonReader
from .json_spelling import decode, quoted

_SHORT = 256
_PLAIN = anywhere(r'[^"\'\\\n]*')
# Inside double quotes, with escapes that are complete. Not what msgspec refuses to decode.
_RUN = anywhere(r'(?:[^"\\\x00-\x1f\ud800-\udfff]++|\\["\\/bfnrt])*+')
_ESCAPED = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "'": "'"}
_NOTHING = frozenset({"", "null", "[]", '""'})


def no_arguments(text: str) -> str:
    """Arguments that are not an object: several ways to say "none" become `{}`; other JSON stays."""
    return "{}" if text.strip() in _NOTHING else text


def may_be_none(text: str) -> bool:
    """Whether `text` is the beginning of such a way, or the whole."""
    return any(way.startswith(text.strip()) for way in _NOTHING)


class StringArguments:
    """Arguments written as a JSON string that holds a JSON object: decoded and repaired as they arrive.

    A quote that should have been escaped (`"{"x": 1}"`) is told from the end by what the object inside expects.
    What does not begin like an object is collected and read as a whole.
    """

    tail = ""
    __slots__ = (
        "_bare", "_first", "_held", "_high", "_inner", "_lead", "_over", "_plain", "_quote", "_short", "done",
        "repaired",
    )  # fmt: skip

    def __init__(self) -> None:
        self.done = False
        self.repaired = False
        self._inner = JsonReader()
        self._quote = ""
        self._held = ""
        self._high = ""
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
        if self._quote != '"' or self._held or self._first != "{" or self._high or self.done or self._inner.done:
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
        """Read from `s[i]`, the quote first; return the index behind what was read."""
        if not self._quote:
            self._quote = s[i]
            i += 1
        before = 0
        if self._held == "\\":  # read the escape again, with more behind it
            before = i - 1
            s, i, self._held = "\\" + s[i:], 0, ""
        n = len(s)
        while i < n:
            if self._over and not s[i].isspace() and s[i] != self._quote:
                self.close(out)
                return i + before
            if not self._held and self._quote == '"':
                if not i and '"' not in s and "\\" not in s and "\n" not in s:
                    text, j = s, n  # nearly every piece of a long string
                else:
                    j = _RUN.match(s, i).end()
                    text = s[i:j]
                    if "\\" in text:
                        text = decode(f'"{text}"')
                if text:
                    if self._first == "{" and not self._high and not self._inner.done:
                        self._inner_feed(text, out)
                    else:
                        self._give(text, out)
                    i = j
                    continue
            if self._held or s[i] == "\\":
                i = self._escape(s, i, out)
                continue
            if s[i] in "\"'":
                if s[i] == self._quote and self._ends():
                    self.close(out, ended=True)
                    return i + 1 + before
                self._give(s[i], out)
                if s[i] == self._quote:
                    self.repaired = True
                    self._bare = self._inner.in_string
                i += 1
                continue
            if s[i] == "\n":
                self._over = self._over or self._inner.done
                j = i + 1
            else:
                j = _PLAIN.match(s, i).end()
            self._give(s[i:j], out)
            i = j
        return i + before

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

    def _escape(self, s: str, i: int, out: list[str]) -> int:
        """One escape, perhaps begun in an earlier piece."""
        text = self._held + s[i : i + 6 - len(self._held)]
        taken = len(self._held)
        if len(text) < 2:
            self._held = text
            return i + 1
        c = text[1]
        if c == "u":
            digits = text[2:6]
            if not all(digit in "0123456789abcdefABCDEF" for digit in digits):
                return self._plain_escape("\\u", i, taken, out)
            if len(digits) < 4:
                self._held = text
                return i + len(text) - taken
            self._held = ""
            self._unit(int(digits, 16), text, out)
            return i + 6 - taken
        plain = _ESCAPED.get(c)
        return self._plain_escape("\\" + c if plain is None else plain, i, taken, out)

    def _plain_escape(self, text: str, i: int, taken: int, out: list[str]) -> int:
        """Give `text` for an escape of two characters; digits held behind its `u` are given as they are."""
        surplus = self._held[2:]
        self._held = ""
        self._give(text + surplus, out)
        return i + max(0, 2 - taken)

    def _unit(self, code: int, text: str, out: list[str]) -> None:
        """A UTF-16 unit. Two surrogates make a character; a lone one stays an escape, which JSON allows."""
        if 0xD800 <= code < 0xDC00:
            high, self._high = self._high, text
            if high:
                self._inner_give(high, out)
            return
        if 0xDC00 <= code < 0xE000:
            if self._high:
                high, self._high = self._high, ""
                lead = int(high[2:], 16) - 0xD800  # noqa: FURB166 - `\\ud83d` is no prefix that int knows
                self._inner_give(chr(0x10000 + (lead << 10) + code - 0xDC00), out)
            else:
                self._inner_give(text, out)
            return
        self._give(chr(code), out)

    def _give(self, text: str, out: list[str]) -> None:
        if self._high:
            high, self._high = self._high, ""
            self._inner_give(high, out)
        self._inner_give(text, out)

    def _inner_give(self, text: str, out: list[str]) -> None:
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
            return
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
