"""Calls whose arguments are elements within elements, every tag after the same mark (MiniMax M3).

    ]<]minimax[>[<invoke name="f">]<]minimax[>[<tags>]<]minimax[>[<item>a]<]minimax[>[</item>]<]minimax[>[</tags>…

A declared string is emitted as it arrives, any other argument when its element is closed. Elements become objects,
lists (of `item`, or of one name that is repeated) and values typed by the tool's schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from ..cursor import Cursor, NotACall, Steps, TextOver
from ..patterns import WHITE_SPACE, half_of
from ..values.json_reader import quoted
from ..values.typing import STRING, Place, Places, json_of

_TAG = re.compile(r"[ \t\r\n]{0,64}<(?P<close>/?)(?P<name>[^<>\s=]{1,256})(?P<more>[^<>]{0,300})>")
_TAG_PART = half_of(_TAG)
_CALLED = re.compile(r"[ ]?name[ ]?=[ ]?[\"']([^\"'\n]{1,256})[\"']")
_MAX_DEPTH = 32
_MAX_GAP = 256
_LONG = 600  # characters: more than white space before a tag, and the tag, may have
_CONTAINERS = {"array": "[]", "object": "{}"}


@dataclass(slots=True)
class _Element:
    name: str
    place: Place
    types: frozenset[str]
    text: list[str] = field(default_factory=list)
    inner: dict[str, list[str]] = field(default_factory=dict)


def read_nested(c: Cursor, mark: str, block: str) -> Steps[None]:
    """Read one call after another, after the marker that opens them all. block: the name of the tag around them."""
    while True:
        try:
            name = yield from _opening(c, mark, block)
        except TextOver:
            return
        if name is None:
            return
        c.start(name)
        elements = _Elements(c.sink.schema(name) or {}, mark)
        try:
            m = yield from _arguments(c, elements, mark, block)
        except TextOver:
            # An element that is open may have had more, and a call without any may have had some.
            whole = not (c.cut or elements.open)
            text = elements.close() if whole else elements.release()
            c.end(text, complete=whole, repaired=True, closing=None if whole else ())
            return
        over, closing = m["name"] != "invoke", (mark + m.group(),) if elements.stack else None
        c.end(elements.close(), repaired=over or closing is not None, closing=closing)
        if over:
            return


def _arguments(c: Cursor, elements: _Elements, mark: str, block: str) -> Steps[re.Match[str]]:
    """Read elements up to the tag that ends the call, and return that tag."""
    while True:
        s = c.s
        k = s.find(mark, c.i)
        if k < 0:
            elements.text(c.upto_half((mark,)))
            if c.i == len(s):
                c.sink.flows(elements.within)
        else:
            elements.text(s[c.i : k])
            c.i, at = k, k + len(mark)
            m = _TAG.match(s, at)
            if m is not None:
                c.i = m.end()
                if m["close"] and (m["name"] == "invoke" or (m["name"] == block and not elements.is_open(block))):
                    return m
                elements.tag(m)
                continue
            if c.last or len(s) - at >= _LONG or not _TAG_PART.fullmatch(s, at):
                elements.text(mark)
                c.i = at
                continue
        c.sink.args(elements.said())
        yield from c.more()


def _opening(c: Cursor, mark: str, block: str) -> Steps[str | None]:
    """Go past a call's opening tag, and return the tool's name. None where the calls are over."""
    heads = ("<invoke ", "</invoke>", f"</{block}>")
    while True:
        s, committed = c.s, c.sink.committed
        j = c.behind_space(_MAX_GAP)
        # The mark is sometimes missing.
        bare = s.startswith("<", j) and any(head.startswith(s[j : j + len(head)]) for head in heads)
        if not bare and not s.startswith(mark, j):
            if j - c.i < _MAX_GAP and mark.startswith(s[j : j + len(mark)]):
                if j == len(s) or not c.last:
                    c.i = j if c.last else c.i
                    yield from c.more()
                    continue
                c.i = len(s) if committed else c.i  # half a marker at the end of the text is markup too
            break
        at = j if bare else j + len(mark)
        m = _TAG.match(s, at)
        if m is None:
            half = len(s) - at < _LONG and _TAG_PART.fullmatch(s, at) is not None
            if half and not c.last:
                yield from c.more()
                continue
            c.i = len(s) if half and committed and not bare else c.i
            break
        name, closing = m["name"], bool(m["close"])
        called = _CALLED.fullmatch(m["more"].rstrip()) if name == "invoke" and not closing else None
        if called is not None:
            is_call = _is_call(s, m.end(), mark, last=c.last)
            if is_call is None:
                yield from c.more()
                continue
            if not is_call:
                break
            c.i = m.end()
            return called[1]
        if name != block and not (closing and name == "invoke"):
            break
        c.i = m.end()
        if name == block and closing:
            return None
    if not committed:
        raise NotACall
    return None


def _is_call(s: str, k: int, mark: str, *, last: bool) -> bool | None:
    """Whether a tag may follow a call's opening tag, which ends at `k`. Other text makes the tag a mention."""
    j = WHITE_SPACE.match(s, k, k + _MAX_GAP).end()
    if s.startswith((mark, "<"), j):
        return True
    if mark.startswith(s[j : j + len(mark)]):  # also where the text ends
        return last and j == len(s) if last else None
    return False


class _Elements:
    """The elements of a call, and the JSON of those that are closed.

    stack: those that are open.
    """

    __slots__ = ("_begins", "_first", "_mark", "_out", "_pending", "_places", "_streams", "stack")

    def __init__(self, parameters: Mapping[str, object], mark: str) -> None:
        self._mark = mark
        self._begins = re.compile(f"{re.escape(mark[0])}(?:{re.escape(mark[1:2])}|\\Z)").search  # a mark may begin
        self.stack: list[_Element] = []
        self._pending: tuple[str, list[str]] | None = None  # a complete argument, whose name may be repeated
        self._streams = False
        self._first = True
        self._places = Places(parameters)
        self._out: list[str] = []  # JSON that was not emitted

    @property
    def open(self) -> bool:
        """Whether the arguments may go on: an element is open, or there was none."""
        return bool(self.stack) or (self._first and self._pending is None)

    def is_open(self, name: str) -> bool:
        """Whether an element of this name is open."""
        return any(element.name == name for element in self.stack)

    def said(self) -> str:
        """The JSON to emit."""
        text = "".join(self._out)
        self._out.clear()
        return text

    def close(self) -> str:
        """End the arguments here."""
        while self.stack:
            self._shut()
        self._flush()
        self._out.append("{}" if self._first else "}")
        return self.said()

    def release(self) -> str:
        """Return the JSON of the complete arguments, as a prefix of an object."""
        if self._first and self._pending is None:
            return "{"
        self._flush()
        return self.said()

    def within(self, text: str) -> str | None:
        """See `Flow`."""
        if self._begins(text) is not None:
            return None
        self.text(text)
        return self.said()

    def text(self, text: str) -> None:
        """Take more text of the innermost element."""
        if self._streams:
            self._out.append(quoted(text))
        elif self.stack:
            self.stack[-1].text.append(text)

    def tag(self, m: re.Match[str]) -> None:
        """Read a tag that does not end the call."""
        name, stack = m["name"], self.stack
        if m["close"]:
            if stack and self._plain and name != stack[-1].name:
                self.text(self._mark + m.group())
            elif stack:
                self._shut()
        elif stack and (self._plain or len(stack) >= _MAX_DEPTH):
            self.text(self._mark + m.group())
        else:
            self._open(name)

    @property
    def _plain(self) -> bool:
        """Whether the innermost element is declared a string, and no container: then tags in it are text."""
        types = self.stack[-1].types
        return "string" in types and not types & _CONTAINERS.keys()

    def _open(self, name: str) -> None:
        place = self._child(name)
        types = self._places.types(place)
        if not self.stack:
            if self._pending is not None and self._pending[0] != name:
                self._flush()
            if types == STRING and self._pending is None:
                self._streams = True
                self._lead(name)
                self._out.append('"')
        self.stack.append(_Element(name, place, types))

    def _child(self, name: str) -> Place:
        """The schemas of an element of this name in the innermost one: a property's value, or an item."""
        places = self._places
        place = self.stack[-1].place if self.stack else places.root
        return places.inner(place, name) or places.inner(place, None)

    def _shut(self) -> None:
        """Close the innermost element."""
        element = self.stack.pop()
        if self._streams:
            self._streams = False
            self._out.append('"')
            return
        value = self._value(element)
        if self.stack:
            self.stack[-1].inner.setdefault(element.name, []).append(value)
        elif self._pending is None:
            self._pending = (element.name, [value])
        else:
            self._pending[1].append(value)

    def _value(self, element: _Element) -> str:
        inner, types = element.inner, element.types
        if inner:
            listed = "array" in types and (set(inner) == {"item"} or "object" not in types)
            if listed and len(inner) == 1:
                return f"[{', '.join(next(iter(inner.values())))}]"
            return "{" + ", ".join(f'"{quoted(key)}": {_one_or_list(found)}' for key, found in inner.items()) + "}"
        text = "".join(element.text)
        if not text.strip() and len(types & {"array", "object"}) == 1 and "string" not in types:
            return _CONTAINERS[next(iter(types & {"array", "object"}))]
        return json_of(text, types)

    def _flush(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            self._lead(pending[0])
            self._out.append(_one_or_list(pending[1]))

    def _lead(self, name: str) -> None:
        self._out.append(f'{"{" if self._first else ", "}"{quoted(name)}": ')
        self._first = False


def _one_or_list(values: list[str]) -> str:
    return values[0] if len(values) == 1 else f"[{', '.join(values)}]"
