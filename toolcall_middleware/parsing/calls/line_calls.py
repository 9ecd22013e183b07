"""Calls whose arguments are lines: `f>`, then `city: Paris` and `days: 2` on a line each, up to a closing marker."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ...json_schema.types import ALL, STRING, declared_types
from ..cursor import Cursor, CursorReader, NotACall, Steps
from ..patterns import TOOL_NAME, anywhere
from ..sink import Sink
from ..values.json_spelling import quoted
from ..values.typed_text import json_of

_MAX_HEAD = 400
_MAX_KEY = 512
_BLANK = anywhere(r"\s*")


@dataclass(frozen=True, slots=True, kw_only=True)
class LineSyntax:
    """How such calls are written behind their opening marker."""

    name_end: str
    """Behind the name, which follows the marker."""
    key_end: str = ":"
    line_end: str = "\n"
    close: str
    """Closes a call."""
    key: str = ""
    """All that stands there is this argument's text; then there are no lines and no keys."""
    types: frozenset[str] = STRING
    """What it is of where no schema says."""


class LineCalls(CursorReader):
    """Reads one such call. See `Body`."""

    __slots__ = ()

    def __init__(self, sink: Sink, syntax: LineSyntax) -> None:
        cursor = Cursor(sink)
        super().__init__(cursor, _call(cursor, syntax))


def _call(cursor: Cursor, syntax: LineSyntax) -> Steps[None]:
    written = yield from cursor.upto(syntax.name_end, _MAX_HEAD)
    name = written.strip()
    if not TOOL_NAME.fullmatch(name):
        raise NotACall
    cursor.start(name)
    yield
    yield from cursor.copy(_LineArguments(syntax, cursor.sink.schema(name)))
    cursor.end()
    cursor.take((syntax.close,), cursor.i)
    yield


class _LineArguments:
    """Reads the lines up to the closing marker, and puts out JSON. See `CopiedArguments`, and `ArgumentsReader`: it
    reads on in a value while nothing comes that may end it.

    A value is as long as its line, without the blanks around it. A line without a key is nobody's.
    """

    __slots__ = (
        "_begun", "_blank", "_close", "_key_end", "_line_end", "_only", "_open", "_parts", "_schema", "_seen",
        "_silent", "_skips", "_types", "done", "repaired",
    )  # fmt: skip
    stuck = False
    tail = ""

    def __init__(self, syntax: LineSyntax, schema: Mapping[str, Any] | None) -> None:
        self._key_end, self._line_end, self._close = syntax.key_end, syntax.line_end, syntax.close
        self._only, self._silent = syntax.key, syntax.types
        if syntax.key:
            self._line_end = syntax.close
        self._schema = schema
        self._seen: set[str] = set()
        self._open = False  # a value is
        self._begun = False  # it has more than blanks
        self._skips = False  # the line at hand is nobody's
        self._types: frozenset[str] = STRING
        self._parts: list[str] = []  # what was read of the value; a string's pieces have left
        self._blank: list[str] = []  # blanks that end the value unless more of it comes
        self.done = False
        self.repaired = False

    @property
    def cut(self) -> bool:
        """Whether the text ends in a value, which may have had more."""
        return self._open

    @property
    def streams(self) -> _LineArguments | None:
        """What reads on without the reader of the calls."""
        return self if self._open and self._begun else None

    def run(self, text: str) -> str | None:
        """What leaves for more of the value; None where it may end in it."""
        if self._line_end[0] in text or self._close[0] in text:
            return None
        out: list[str] = []
        self._take(text, out)
        return out[0] if out else ""

    def leave(self, text: str) -> tuple[str, str]:
        """Where the value may end, the lines are read."""
        return "", text

    def feed(self, s: str, i: int, /, *, last: bool) -> tuple[int, str]:
        """(index behind what was read, what leaves)."""
        out: list[str] = []
        if self._only:
            self._open_value(self._only, out)
            self._only = ""
        while not self.done:
            read = self._value if self._open or self._skips else self._key
            j = read(s, i, out, last=last)
            if j < 0:
                break
            i = j
        return i, "".join(out)

    def close(self) -> str:
        """End the arguments here, unless they end in a value."""
        if self._open:
            return ""
        self.done = True
        return "}" if self._seen else "{}"

    def release(self) -> str:
        """Nothing is held that could leave as it stands."""
        return ""

    def _key(self, s: str, i: int, out: list[str], *, last: bool) -> int:
        """Between two lines, or in a key: the index to go on from, -1 where more must be seen."""
        j = _BLANK.match(s, i).end()
        if s.startswith(self._close, j):
            out.append(self.close())
            return j
        end, _ = self._line(s, j)
        k = s.find(self._key_end, j, len(s) if end is None else end)
        if end is None and k < 0 and not last and len(s) - j <= _MAX_KEY:
            return j if j > i else -1
        key = s[j:k].strip() if 0 <= k - j <= _MAX_KEY else ""
        if not key or key in self._seen:
            if j == len(s):
                return j if j > i else -1
            self._skips = self.repaired = True
            return j
        self._open_value(key, out)
        return k + len(self._key_end)

    def _open_value(self, key: str, out: list[str]) -> None:
        declared = declared_types(self._schema, key)
        self._types = self._silent if self._only and declared == ALL else declared
        lead = ", " if self._seen else "{"
        out.append(f'{lead}"{quoted(key)}": ' + ('"' if self._types == STRING else ""))
        self._seen.add(key)
        self._open = True

    def _line(self, s: str, i: int) -> tuple[int | None, int]:
        """Where the line at `s[i]` ends, None where that is not there yet, and how many characters end it."""
        line = s.find(self._line_end, i)
        close = s.find(self._close, i, len(s) if line < 0 else line + len(self._close) - 1)
        if close >= 0 and (line < 0 or close <= line):
            return close, 0  # the marker itself is read between lines
        return (None, 0) if line < 0 else (line, len(self._line_end))

    def _value(self, s: str, i: int, out: list[str], *, last: bool) -> int:
        """In a value, or in a line that is nobody's."""
        end, behind = self._line(s, i)
        if end is None:
            keep = len(s) if last else len(s) - self._half(s, i)
            self._take(s[i:keep], out)
            return keep if keep > i else -1
        self._take(s[i:end], out)
        if self._open:
            out.append('"' if self._types == STRING else json_of("".join(self._parts), self._types))
        self._parts, self._blank = [], []
        self._open = self._skips = self._begun = False
        return end + behind

    def _half(self, s: str, i: int) -> int:
        """How many characters at the end of `s` may begin what ends a line."""
        most = max(len(self._close), len(self._line_end)) - 1
        for size in range(min(most, len(s) - i), 0, -1):
            rest = s[len(s) - size :]
            if self._close.startswith(rest) or self._line_end.startswith(rest):
                return size
        return 0

    def _take(self, text: str, out: list[str]) -> None:
        """More of the line."""
        if not self._open:
            return
        if not self._begun:
            text = text.lstrip()
        bare = text.rstrip()
        if bare:
            said = "".join((*self._blank, bare))
            self._blank = []
            self._begun = True
            if self._types == STRING:
                out.append(quoted(said))
            else:
                self._parts.append(said)
        if len(text) > len(bare) and self._begun:
            self._blank.append(text[len(bare) :])
