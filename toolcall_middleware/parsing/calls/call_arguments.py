"""A call's arguments in JSON as models write them: an object, a string that holds an object, or no arguments."""

from __future__ import annotations

import re

from ..patterns import SPACE, anywhere
from ..sink import WrittenArguments
from ..values.json_reader import JsonReader, decode, quoted

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


def _no_arguments(text: str) -> str:
    """Arguments that are not an object: several ways to say "none" become `{}`; other JSON stays."""
    return "{}" if text.strip() in _NOTHING else text


def _may_be_none(text: str) -> bool:
    """Whether `text` is a spelling of "none" that `_no_arguments` knows, or the beginning of one."""
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

    The state of the object inside decides whether a quote ends the string or lacks its escape (`"{"x": 1}"`).
    What does not begin like an object is collected and read as a whole.
    """

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
        self._short = False  # the object inside ended in a value
        self._over = False  # a line break follows the object: only the quote may follow

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

    def run(self, text: str) -> tuple[str, str | None]:
        """See `ArgumentsReader.run`."""
        if self._quote == '"' and not self._half and "\\" not in text and self._inner.copies(text):
            return text, None
        out: list[str] = []
        i = self.feed(text, 0, out)
        return out[0] if len(out) == 1 else "".join(out), None if i == len(text) and not self.done else text[i:]

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
        plain = _RUN if quote == '"' else _PLAIN
        while i < len(s):
            if self._over:
                i = SPACE.match(s, i).end()
                if i < len(s):
                    self.close(out, ended=s[i] == quote)
                    i += s[i] == quote
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
        """Emit nothing: what is held cannot be emitted as it is."""

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
        return not (inner.stack and inner.wants_string)

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

    def feed(self, s: str, i: int, /, *, last: bool = False) -> tuple[int, str]:  # noqa: ARG002 - see `CopiedArguments`
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
    def streams(self) -> JsonReader | StringArguments | None:
        """What copies the arguments as they arrive; None where they are judged when complete."""
        return self._reader if self._whole is None else None

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
