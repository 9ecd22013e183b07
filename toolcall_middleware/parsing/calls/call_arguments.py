"""A call's arguments in JSON as models write them: an object, a string that holds an object, or no arguments."""

from __future__ import annotations

import re

from ..cursor import NotACall
from ..patterns import SPACE, anywhere, half, half_of
from ..sink import Flow, WrittenArguments
from ..values.json_reader import JsonReader, decode, decoded, quoted

_IN_SINGLE = anywhere(r"[^'\\\n]*")
# Inside double quotes, with escapes that are complete. Not what msgspec refuses to decode.
_IN_DOUBLE = anywhere(r'(?:[^"\\\x00-\x1f\ud800-\udfff]++|\\["\\/bfnrt])*+')
_ESCAPE = anywhere(r"(?:\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\[\s\S])?")
HALF_ESCAPE = re.compile(
    r"\\(?:u(?:[0-9a-fA-F]{0,3}|[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?))?\Z"
)
"""An escape at the end of a JSON string's text that more text may complete, or the first half of a pair."""
_ANY_KEY = r'"(?:[^"\\]|\\.)*"'
_LONGEST_OPENING = 256  # characters
# The string's text, with escapes that are complete.
_IN_STRING = re.compile(rf'(?:[^"\\]++|(?!{HALF_ESCAPE.pattern})\\.)*+', re.DOTALL)
_ANY_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_NOTHING = frozenset({"", "null", "[]", '""'})


def _decoded_escape(escape: str) -> str:
    """The text that a complete escape means. One that JSON does not know, and a lone surrogate, stay as they are."""
    if escape == "\\'":
        return "'"
    text: str | None = decoded(f'"{escape}"')
    return escape if text is None or "\ud800" <= text <= "\udfff" else text


class CallArguments:
    """Reads one call's arguments, an object or a JSON string that holds one, and emits the object's JSON.

    A string is decoded and repaired as it arrives. The state of the object in it decides whether a quote ends the
    string or lacks its escape (`"{"x": 1}"`). Anything else is judged when it is complete: there are several ways to
    write that there are no arguments, and a string may hold JSON that is encoded twice.
    """

    __slots__ = (
        "_bare", "_closers", "_half", "_held", "_is_object", "_opened", "_over", "_quote", "_reader", "_refused",
        "_written", "cut", "done", "repaired", "stuck",
    )  # fmt: skip

    def __init__(
        self,
        first: str,
        ends: tuple[str, ...] = (),
        written: WrittenArguments | None = None,
        *,
        closers: tuple[str, ...] | None = None,
        refused: re.Pattern[str] | None = None,
    ) -> None:
        """first: their first character. ends: markers that end the call. written: collects the arguments as written.

        closers: markers that may cut them where they break off; None: any text does. refused: no marker precedes the
        call, so nothing is emitted before a first key shows that they are JSON, and do not begin like this.
        """
        self._written = None if written is None else written.value
        if self._written is not None:
            self._written.clear()
        self._quote = first if first in "\"'" else ""
        self._closers, self._refused = closers, refused
        self._reader = JsonReader(() if self._quote else ends)
        self._is_object: bool | None = None if self._quote else first == "{"  # None: only white space was read
        self._held: list[str] | None = None if self._is_object and refused is None else []  # it is not emitted yet
        self._opened = False  # the quote was read
        self._half = ""  # an escape that is not complete
        self._bare = False  # a quote without its escape has opened the string inside
        self._over = False  # a line break follows the object in a string: only the quote may follow
        self.done = False
        self.repaired = False
        self.stuck = False
        """They broke off at a character that cannot belong to JSON."""
        self.cut = False
        """They ended in a value, or before one: what was emitted is a prefix, and is never completed."""

    def feed(self, s: str, i: int, /, *, last: bool = False) -> tuple[int, str]:
        """Read from `s[i]`. Returns the index after what was read, and the JSON to emit.

        The index is below `len(s)` if they are done, or if more text decides whether they are. Raises NotACall where
        `refused` was given and they are not those of a call.
        """
        out: list[str] = []
        begun, reader = i, self._reader
        if self._quote:
            i = self._unquote(s, i, out)
        else:
            i = reader.feed(s, i, out)
            self.stuck, self.done, self.repaired = reader.stuck, reader.done, reader.repaired
            if self._refused is not None and (reader.doubtful or (self.stuck and not reader.settled)):
                raise NotACall  # `{invalid json}`
        if self._written is not None:
            self._written.append(s[begun:i])
        text = self._leave(out)
        if self.stuck and (last or not self._closers or not half(self._closers).match(s, i)):
            text += self._close(marked=self._closers is None or s.startswith(self._closers, i))
        return i, text

    @property
    def within(self) -> Flow | None:
        """What copies the arguments as they arrive; None where they are held."""
        if self._held is not None:
            return None
        return self._within_string if self._quote else self._reader.within

    @property
    def is_cut(self) -> bool:
        """Whether `close` would find them cut. Before a marker, an object without members is an empty one."""
        if self._quote and not self._is_object:
            return not self.done
        return self._reader.cut and not (self.stuck and self._reader.is_empty)

    @property
    def is_data(self) -> bool:
        """Whether this, complete, is neither an object nor nothing."""
        text = "".join(self._held or ()).strip()
        return not self._is_object and text not in (("",) if self._quote else _NOTHING)

    def close(self) -> str:
        """The text is over. Returns the missing brackets, unless the arguments end in a value (`cut`)."""
        if self._refused is not None:
            raise NotACall
        return "" if self.done else self._close()

    def release(self) -> str:
        """The text held back, as written; empty where it may mean that there are no arguments."""
        if self._refused is not None:
            raise NotACall
        if self._quote:
            return ""  # what is held cannot be emitted as it is
        out = list(self._held or ())
        self._reader.release(out)
        text = "".join(out)
        may_be_none = not self._is_object and any(way.startswith(text.strip()) for way in _NOTHING)
        return "" if may_be_none else text

    # -- the end -------------------------------------------------------------------------------------------------------

    def _close(self, *, marked: bool = True) -> str:
        """End them where they break off, or with the text. marked: what follows may cut them."""
        out: list[str] = []
        self.cut = self.is_cut and (marked or not self.stuck)
        self.done = True
        if self.cut:
            return self.release()
        self._reader.close(out)
        self.repaired = True
        return self._leave(out)

    def _leave(self, out: list[str]) -> str:
        """The JSON to emit; `out` was read."""
        held = self._held
        if held is None:
            return out[0] if len(out) == 1 else "".join(out)
        held += out
        refused = self._refused
        if self._is_object and (self.done or self._reader.settled):
            text = "".join(held)
            if refused is not None and refused.match(text):
                raise NotACall
            if refused is None or self.done or not half_of(refused).match(text):
                self._held = self._refused = None
                return text
        elif self.done:
            if refused is not None and self.is_data:
                raise NotACall  # `"args": "-v"`
            return self._meaning("".join(held))
        return ""

    def _meaning(self, text: str) -> str:
        """The JSON for complete arguments that do not begin like an object: what says that there are none is `{}`.

        JSON in a string is decoded, also where it is encoded twice. Other text stays a string.
        """
        if not self._quote:
            return "{}" if text.strip() in _NOTHING else text
        for _ in range(4):
            if text.strip() in _NOTHING:
                return "{}"
            if (value := decoded(text)) is None:
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

    # -- a string ------------------------------------------------------------------------------------------------------

    def _within_string(self, text: str) -> str | None:
        """See `Flow`."""
        return None if self._quote != '"' or self._half or "\\" in text else self._reader.within(text)

    def _unquote(self, s: str, i: int, out: list[str]) -> int:
        """Decode the string from `s[i]` on, its quote first. Returns the index after what was read."""
        if not self._opened:
            self._opened = True
            i += 1
        before = 0
        if self._half:
            before = i - len(self._half)
            s, i, self._half = self._half + s[i:], 0, ""
        quote, inner = self._quote, self._reader
        plain = _IN_DOUBLE if quote == '"' else _IN_SINGLE
        while i < len(s) and not self.done:
            begin, i = i, (SPACE if self._over else plain).match(s, i).end()
            text, c = s[begin:i], s[i : i + 1]
            if self._over:
                if c:
                    self._end_string(out, ended=c == quote)
                    i += c == quote
            elif text:
                self._give(decode(f'"{text}"') if "\\" in text else text, out)
            elif c == "\\":
                if HALF_ESCAPE.match(s, i):
                    self._half = s[i:]
                    i = len(s)
                    break
                i = _ESCAPE.match(s, i).end()
                self._give(_decoded_escape(s[begin:i]), out)
            elif c == quote and self._is_end():
                self._end_string(out, ended=True)
                i += 1
            else:
                self._over = c == "\n" and inner.done
                self._give(c, out)
                if c == quote:
                    self.repaired = True
                    self._bare = inner.in_string
                i += 1
        return i + before

    def _is_end(self) -> bool:
        """Whether the string's own quote ends it here."""
        inner = self._reader
        if not self._is_object or inner.done:
            return True
        return not (self._bare if inner.in_string else inner.stack and inner.wants_string)

    def _end_string(self, out: list[str], *, ended: bool) -> None:
        """The string is over (`ended`: by its quote)."""
        inner = self._reader
        self.done = True
        self.repaired = self.repaired or not ended
        self.cut = bool(self._is_object) and inner.cut
        if self.cut:
            inner.release(out)
        elif self._is_object:
            inner.close(out)
            self.repaired = self.repaired or inner.repaired

    def _give(self, text: str, out: list[str]) -> None:
        """Read text of the string. White space before an object is dropped."""
        inner, held = self._reader, self._held
        if self._is_object is None and (start := text.lstrip()):
            self._is_object = start[0] == "{"
            if self._is_object:
                text = start
                self._held = None if self._refused is None else []
        if not self._is_object and held is not None:
            held.append(text)
            return
        end = 0 if inner.done else inner.feed(text, 0, out)
        if inner.stuck:
            inner.close(out)
            self.repaired = True
        elif inner.done and text[end:].strip():
            self.repaired = True


class FirstString:
    """Reads the first value of an object, which is a string (`{"text": "It is sunny"}`), while it is written.

    key: the object's first key; None for any. begun: the string has begun. ended: it is complete. An escape that is not
    complete is held back, and so is the first half of a pair. One that JSON does not know is the character after its
    backslash.
    """

    __slots__ = ("_held", "_opening", "begun", "ended")

    def __init__(self, key: str | None = None) -> None:
        first = _ANY_KEY if key is None else f'"{key}"'
        self._opening = re.compile(rf'\s*\{{\s*{first}\s*:\s*"')
        self._held = ""
        self.begun = self.ended = False

    def feed(self, piece: str) -> str:
        """Return the text that another piece of the object adds; nothing where the string does not begin early."""
        if self.ended:
            return ""
        held, begin = self._held + piece, 0
        if not self.begun:
            opening = self._opening.match(held, 0, _LONGEST_OPENING)
            if opening is None:
                self._held = held[:_LONGEST_OPENING]
                return ""
            self.begun, begin = True, opening.end()
        inside = _IN_STRING.match(held, begin)
        end = begin if inside is None else inside.end()
        self.ended, self._held = held[end : end + 1] == '"', held[end:]
        return _unescaped(held[begin:end])


def _unescaped(written: str) -> str:
    if "\\" not in written:
        return written
    text: str | None = decoded(f'"{written}"')
    if text is None:  # an escape that JSON does not know, or a control character
        text = _ANY_ESCAPE.sub(_character, written).encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return text


def _character(escape: re.Match[str]) -> str:
    code, letter = escape.groups()
    return chr(int(code, 16)) if code else _LETTERS.get(letter, letter)
