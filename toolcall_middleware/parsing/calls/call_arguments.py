"""A call's arguments in JSON as models write them: an object, a string that holds an object, or no arguments."""

from __future__ import annotations

import re

from ..patterns import SPACE, anywhere
from ..sink import Flow, WrittenArguments
from ..values.json_reader import JsonReader, decode, decoded, quoted

_IN_SINGLE = anywhere(r"[^'\\\n]*")
# Inside double quotes, with escapes that are complete. Not what msgspec refuses to decode.
_IN_DOUBLE = anywhere(r'(?:[^"\\\x00-\x1f\ud800-\udfff]++|\\["\\/bfnrt])*+')
_ESCAPE = anywhere(r"(?:\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|\\u[0-9a-fA-F]{4}|\\[\s\S])?")
_HALF_ESCAPE = re.compile(
    r"\\(?:u(?:[0-9a-fA-F]{0,3}|[dD][89abAB][0-9a-fA-F]{2}(?:\\(?:u(?:[dD](?:[c-fC-F][0-9a-fA-F]?)?)?)?)?))?\Z"
)
_ANY_KEY = r'"(?:[^"\\]|\\.)*"'
_LONGEST_OPENING = 256  # characters
# The string's text, with escapes that are complete.
_IN_STRING = re.compile(rf'(?:[^"\\]++|(?!{_HALF_ESCAPE.pattern})\\.)*+', re.DOTALL)
_ANY_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
_NOTHING = frozenset({"", "null", "[]", '""'})


def _no_arguments(text: str) -> str:
    """Arguments that are not an object: several ways to say "none" become `{}`; other JSON stays."""
    return "{}" if text.strip() in _NOTHING else text


def _may_be_none(text: str) -> bool:
    """Whether `text` is a spelling of "none" that `_no_arguments` knows, or the beginning of one."""
    return any(way.startswith(text.strip()) for way in _NOTHING)


def _meaning(escape: str) -> str:
    """The text that a complete escape means. One that JSON does not know, and a lone surrogate, stay as they are."""
    if escape == "\\'":
        return "'"
    text: str | None = decoded(f'"{escape}"')
    return escape if text is None or "\ud800" <= text <= "\udfff" else text


class StringArguments:
    """Arguments written as a JSON string that holds a JSON object: decoded and repaired as they arrive.

    The state of the object inside decides whether a quote ends the string or lacks its escape (`"{"x": 1}"`).
    What does not begin like an object is collected and read as a whole.
    """

    stuck = doubtful = is_empty = False  # see `JsonReader`
    __slots__ = ("_bare", "_half", "_inner", "_is_object", "_over", "_quote", "_text", "done", "repaired")

    def __init__(self) -> None:
        self.done = self.repaired = False
        self._inner = JsonReader()
        self._quote = ""
        self._half = ""  # an escape that is not complete
        self._is_object: bool | None = None  # None: nothing but white space was read
        self._text: list[str] = []  # of a string that is no object
        self._bare = False  # a quote without its escape has opened the string inside
        self._over = False  # a line break follows the object: only the quote may follow

    @property
    def is_plain(self) -> bool:
        """Whether this is no object, and not empty."""
        return self._is_object is False

    @property
    def cut(self) -> bool:
        """Whether more than quotes and closing brackets is missing: see `JsonReader.cut`."""
        return self._inner.cut if self._is_object else not self.done

    @property
    def settled(self) -> bool:
        """Whether this is plainly an object, or over."""
        return self.done or self._inner.settled

    def within(self, text: str) -> str | None:
        """See `Flow`."""
        return None if self._quote != '"' or self._half or "\\" in text else self._inner.within(text)

    def feed(self, s: str, i: int, out: list[str]) -> int:
        """Read from `s[i]`, the quote first; return the index after what was read."""
        if not self._quote:
            self._quote = s[i]
            i += 1
        before = 0
        if self._half:
            before = i - len(self._half)
            s, i, self._half = self._half + s[i:], 0, ""
        quote = self._quote
        plain = _IN_DOUBLE if quote == '"' else _IN_SINGLE
        while i < len(s) and not self.done:
            begin, i = i, (SPACE if self._over else plain).match(s, i).end()
            text, c = s[begin:i], s[i : i + 1]
            if self._over:
                if c:
                    self.close(out, ended=c == quote)
                    i += c == quote
            elif text:
                self._give(decode(f'"{text}"') if "\\" in text else text, out)
            elif c == "\\":
                if _HALF_ESCAPE.match(s, i):
                    self._half = s[i:]
                    i = len(s)
                    break
                i = _ESCAPE.match(s, i).end()
                self._give(_meaning(s[begin:i]), out)
            elif c == quote and self._ends():
                self.close(out, ended=True)
                i += 1
            else:
                self._over = c == "\n" and self._inner.done
                self._give(c, out)
                if c == quote:
                    self.repaired = True
                    self._bare = self._inner.in_string
                i += 1
        return i + before

    def release(self, out: list[str]) -> None:
        """Emit nothing: what is held cannot be emitted as it is."""

    def close(self, out: list[str], *, ended: bool = False) -> None:
        """The string is over (`ended`: by its quote)."""
        self.done = True
        self.repaired = self.repaired or not ended
        inner = self._inner
        if not self._is_object:
            out.append(self._whole("".join(self._text)))
        elif inner.cut:
            inner.release(out)
        else:
            inner.close(out)
            self.repaired = self.repaired or inner.repaired

    def _ends(self) -> bool:
        """Whether the string's own quote ends it here."""
        inner = self._inner
        if not self._is_object or inner.done:
            return True
        return not (self._bare if inner.in_string else inner.stack and inner.wants_string)

    def _give(self, text: str, out: list[str]) -> None:
        """Read text of the string. White space before an object is dropped."""
        inner = self._inner
        if self._is_object is None and (start := text.lstrip()):
            self._is_object = start[0] == "{"
            text = start if self._is_object else text
        if not self._is_object:
            self._text.append(text)
            return
        end = 0 if inner.done else inner.feed(text, 0, out)
        if inner.stuck:
            inner.close(out)
            self.repaired = True
        elif inner.done and text[end:].strip():
            self.repaired = True

    def _whole(self, text: str) -> str:
        """Text that is no object: JSON as it is, JSON encoded twice decoded, anything else as a string."""
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


class CallArguments:
    """Reads one call's arguments, an object or a JSON string that holds one, and emits the object's JSON.

    first: their first character. ends: markers that end the call. written: collects the arguments as written.
    """

    __slots__ = ("_reader", "_whole", "_written", "cut", "done", "repaired", "stuck")

    def __init__(self, first: str, ends: tuple[str, ...] = (), written: WrittenArguments | None = None) -> None:
        self._written = None if written is None else written.value
        if self._written is not None:
            self._written.clear()
        self._reader: JsonReader | StringArguments = StringArguments() if first in "\"'" else JsonReader(ends)
        # Anything else is judged when it is complete: null and [] mean no arguments.
        self._whole: list[str] | None = None if first in "{\"'" else []
        self.done = False
        self.repaired = False
        self.stuck = False
        self.cut = False
        """They ended in a value, or before one: what was emitted is a prefix, and is never completed."""

    def feed(self, s: str, i: int, /, *, last: bool = False) -> tuple[int, str]:  # noqa: ARG002 - as `LiteralReader`
        """Read from `s[i]`. Returns the index after what was read, and the JSON to emit."""
        out: list[str] = []
        if not self._reader.done:
            begun = i
            i = self._reader.feed(s, i, out)
            if self._written is not None:
                self._written.append(s[begun:i])
        self.stuck = self._reader.stuck
        self.done = self._reader.done
        self.repaired = self._reader.repaired
        self.cut = self.done and self._reader.cut
        return i, self._leave(out)

    @property
    def within(self) -> Flow | None:
        """What copies the arguments as they arrive; None where they are judged when complete."""
        return self._reader.within if self._whole is None else None

    @property
    def is_cut(self) -> bool:
        """Whether `close` would find them cut. Before a marker, an object without members is an empty one."""
        return self._reader.cut and not (self.stuck and self._reader.is_empty)

    @property
    def settled(self) -> bool:
        """Whether enough was seen to say that this is meant as JSON."""
        return self._reader.settled

    @property
    def doubtful(self) -> bool:
        """Whether this looks like no JSON: `{invalid json}`."""
        reader = self._reader
        return reader.doubtful or (reader.stuck and not reader.settled)

    @property
    def is_data(self) -> bool:
        """Whether this, complete, is neither an object nor nothing."""
        if self._whole is not None:
            return _no_arguments("".join(self._whole)) != "{}"
        return isinstance(self._reader, StringArguments) and self._reader.is_plain

    def close(self, *, marked: bool = True) -> str:
        """End the arguments here. Returns the missing brackets, unless the arguments end in a value (`cut`).

        marked: where they are stuck, it is at the marker that ends the call, not at other text that is not JSON.
        """
        out: list[str] = []
        if not self.done:
            if self.is_cut and (marked or not self.stuck):
                self.cut = self.done = True
                return self.release()
            self._reader.close(out)
            self.done = self.repaired = True
        return self._leave(out)

    def release(self) -> str:
        """The text held back, as written; empty where it may mean that there are no arguments."""
        out = list(self._whole or ())
        self._reader.release(out)
        text = "".join(out)
        return "" if self._whole is not None and _may_be_none(text) else text

    def _leave(self, out: list[str]) -> str:
        if self._whole is None:
            return out[0] if len(out) == 1 else "".join(out)
        self._whole += out
        return _no_arguments("".join(self._whole)) if self.done else ""


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
        if self.ended or (not self.begun and len(self._held) > _LONGEST_OPENING):
            return ""
        held, begin = self._held + piece, 0
        if not self.begun:
            opening = self._opening.match(held, 0, _LONGEST_OPENING)
            if opening is None:
                self._held = held[: _LONGEST_OPENING + 1]
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
