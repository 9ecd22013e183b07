"""Calls whose tags are the tool's name and its parameters' (Cline, Roo Code, and models that saw their prompts).

    <read_file>
    <path>src/main.py</path>
    </read_file>

The names tell that these are tags and not XML: the tool is offered, and each tag in it is of a parameter that it
declares. A tag that closes a value counts where another parameter, or the call's end, follows: a value may hold tags.
"""

from __future__ import annotations

import re

from ...json_schema.types import declared_types
from ..cursor import MAX_GAP, Cursor, CursorReader, NotACall, Steps
from ..patterns import WHITE_SPACE
from ..sink import Sink
from ..values.json_spelling import quoted
from .slot_layout import Layout
from .slots import SlotValue

_NONE = re.compile(r"(?!)")
_ANY_TAG = re.compile(r"<[A-Za-z_][\w.\-]{0,63}>")
_ANY_TAG_PART = re.compile(r"<(?:[A-Za-z_][\w.\-]{0,63})?\Z")
_VALUES = Layout(call=_NONE, call_heads=(), slot=_NONE, slot_heads=(), value_close="</>", call_close="</>")


class ToolTags(CursorReader):
    """Reads one such call behind its opening tag. See `Body`.

    declared: only tags of declared parameters are looked for; else any name that a tag may have is one.
    """

    __slots__ = ("_call",)

    def __init__(self, sink: Sink, name: str, *, declared: bool = True) -> None:
        cursor = Cursor(sink)
        self._call = _Call(cursor, name, declared=declared)
        super().__init__(cursor, self._call.read())

    def finish(self, *, cut: bool) -> None:
        """See `Body.finish`. A call whose end has not come may have had more values."""
        self._call.finish(cut=cut)


class _Call:
    """One call while it is read."""

    __slots__ = (
        "_close",
        "_cursor",
        "_first",
        "_free",
        "_in_value",
        "_name",
        "_open",
        "_schema",
        "_seen",
        "_tags",
    )

    def __init__(self, cursor: Cursor, name: str, *, declared: bool) -> None:
        self._cursor = cursor
        self._name = name
        self._schema = cursor.sink.schema(name) or {}
        properties = self._schema.get("properties")
        self._tags = {f"<{key}>" for key in properties} if isinstance(properties, dict) else set[str]()
        self._free = not declared
        self._seen: set[str] = set()
        self._close = f"</{name}>"
        self._open = False
        self._first = True
        self._in_value = False

    def read(self) -> Steps[None]:
        """The call, if the next tag says that it is one."""
        cursor = self._cursor
        tag = yield from self._next()
        # Names such as `search` are HTML's, too: an empty element is no call of a tool that needs an argument.
        empty = tag == self._close and not self._free and bool(self._schema.get("required"))
        if not tag or empty:
            raise NotACall
        self._open = True
        cursor.start(self._name)
        yield
        while tag != self._close:
            key = tag[1:-1]
            self._tags.discard(tag)
            self._seen.add(tag)
            cursor.i = cursor.behind_space() + len(tag)
            yield from self._read_value(key)
            tag = yield from self._next()
            if not tag:
                yield  # the text is over: see `finish`
                return
        cursor.i = cursor.behind_space() + len(tag)
        self._open = False
        cursor.end("{}" if self._first else "}")

    def finish(self, *, cut: bool) -> None:
        """The text is over. Behind a value that is closed only the call's own end may be missing."""
        if not self._open:
            return
        self._open = False
        whole = not (cut or self._in_value or self._first)
        closing = None if whole else (self._close,)
        last = "}" if whole else "{" if self._first else ""
        self._cursor.end(last, complete=whole, repaired=True, closing=closing)

    def _next(self) -> Steps[str]:
        """The tag that stands here; none where something else does."""
        cursor = self._cursor
        while True:
            j = cursor.behind_space(MAX_GAP)
            found = self._tag_at(j)
            if found or cursor.last or j - cursor.i >= MAX_GAP or not (j == len(cursor.s) or self._begins(j)):
                return found
            yield from cursor.more()

    def _tag_at(self, k: int) -> str:
        """The tag of this call that stands at `k`; none where none does."""
        s = self._cursor.s
        for tag in (self._close, *self._tags):
            if s.startswith(tag, k):
                return tag
        m = _ANY_TAG.match(s, k) if self._free else None
        return m.group() if m is not None and m.group() not in self._seen else ""

    def _begins(self, k: int) -> bool:
        """Whether the text ends in such a tag."""
        if self._cursor.begins((self._close, *self._tags), k):
            return True
        return self._free and _ANY_TAG_PART.match(self._cursor.s, k) is not None

    def _read_value(self, key: str) -> Steps[None]:
        """A value, up to behind the tag that closes it."""
        cursor, close = self._cursor, f"</{key}>"
        value = SlotValue(_VALUES, declared_types(self._schema, key), None, whole=False)
        self._in_value = True
        cursor.sink.args(f'{"{" if self._first else ", "}"{quoted(key)}": ' + ('"' if value.streams else ""))
        self._first = False
        while cursor.i == len(cursor.s) or (begin := value.begin(cursor.s, cursor.i, last=cursor.last)) < 0:
            yield from cursor.more()
        cursor.i = begin
        while True:
            s, i = cursor.s, cursor.i
            k = s.find(close, i)
            end = k if k >= 0 else _begun(s, i, close)
            closes = k >= 0 and self._closes(k + len(close))
            if closes is False and k >= 0:
                end = k + len(close)
            if end > i:
                cursor.sink.args(value.take(s[i:end]))
                cursor.i = end
            if closes:
                break
            if closes is False and k >= 0:
                continue
            if cursor.i == len(s):
                cursor.sink.flows(value)
            yield from cursor.more()
        cursor.i += len(close)
        cursor.sink.args(value.end(closed=True))
        if not value.streams:
            cursor.sink.args(value.json())
        self._in_value = False

    def _closes(self, k: int) -> bool | None:
        """Whether a value's closing tag that ends at `k` is one; None: more must be seen."""
        cursor = self._cursor
        j = WHITE_SPACE.match(cursor.s, k, k + MAX_GAP).end()
        if self._tag_at(j):
            return True
        if j == len(cursor.s):
            return True if cursor.last else None
        return None if not cursor.last and j < k + MAX_GAP and self._begins(j) else False


def _begun(s: str, i: int, close: str) -> int:
    """Where in `s`, from `i`, a closing tag may begin that is not complete; its end where none does."""
    n = len(s)
    k = s.find("<", max(i, n - len(close) + 1))
    while k >= 0 and not close.startswith(s[k:]):
        k = s.find("<", k + 1)
    return n if k < 0 else k
