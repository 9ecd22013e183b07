"""Calls whose arguments are elements within elements, every tag after the same mark (MiniMax M3).

    ]<]minimax[>[<invoke name="f">]<]minimax[>[<tags>]<]minimax[>[<item>a]<]minimax[>[</item>]<]minimax[>[</tags>…

A declared string is emitted as it arrives, any other argument when its element is closed. Elements become objects,
lists (of `item`, or of one name that is repeated) and values typed by the tool's schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ..cursor import Cursor, NotACall, Steps, TextOver
from ..patterns import WHITE_SPACE, half_of
from ..values.json_reader import quoted
from ..values.typing import STRING, Place, Places, json_of

_NAMED = r"<(?P<close>/?)(?P<name>[^<>\s=]{1,256})(?P<more>[^<>]{0,300})>"
_TAG = re.compile(rf"[ \t\r\n]{{0,64}}{_NAMED}")
_CALLED = re.compile(r"[ ]?name[ ]?=[ ]?[\"']([^\"'\n]{1,256})[\"']")
_MAX_DEPTH = 32
_MAX_GAP = 256
_LONG = 600  # characters: more than white space before a tag, and the tag, may have
_CONTAINERS = {"array": "[]", "object": "{}"}


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
        call = _Call(c, mark, block, name)
        try:
            yield from call.arguments()
        except TextOver:
            # An element that is open may have had more, and a call without any may have had some.
            whole = not (c.cut or call.open or call.is_empty)
            rest = call.rest() if whole or not call.is_empty else "{"
            c.end(rest + "}" * whole, complete=whole, repaired=True, closing=None if whole else ())
            return
        over, closing = call.end_name != "invoke", call.unclosed
        c.end("{}" if call.is_empty else call.rest() + "}", repaired=over or closing is not None, closing=closing)
        if over:
            return


def _opening(c: Cursor, mark: str, block: str) -> Steps[str | None]:
    """Go past a call's opening tag, and return the tool's name. None where the calls are over."""
    marked = rf"{re.escape(mark)}[ \t\r\n]{{0,64}}|(?=<invoke |</invoke>|</{re.escape(block)}>)"  # sometimes missing
    tag = re.compile(rf"(?:{marked}){_NAMED}")
    begun = half_of(tag)
    while True:
        s, committed = c.s, c.sink.committed
        j = c.after_space(_MAX_GAP)
        m = tag.match(s, j)
        if m is None:
            half = j - c.i < _MAX_GAP and len(s) - j < _LONG and begun.match(s, j) is not None
            if half and (j == len(s) or not c.last):
                c.i = j if c.last else c.i
                yield from c.more()
                continue
            if half and committed and s[j] != "<":
                c.i = len(s)  # half a marker at the end of the text is markup too
            break
        name, closing = m["name"], bool(m["close"])
        called = _CALLED.fullmatch(m["more"].rstrip()) if name == "invoke" and not closing else None
        if called is not None:
            k = WHITE_SPACE.match(s, m.end(), m.end() + _MAX_GAP).end()
            if s.startswith((mark, "<"), k) or (c.last and k == len(s)):
                c.i = m.end()
                return called[1]
            if c.last or not c.begins((mark,), k):
                break  # a mention: other text follows
            yield from c.more()
            continue
        if name != block and not (closing and name == "invoke"):
            break
        c.i = m.end()
        if name == block and closing:
            return None
    if not committed:
        raise NotACall
    return None


class _Call:
    """The arguments of a call: JSON that is emitted where an element of its own is complete.

    open: the names of the elements that are open. end_name: that of the tag that ends the call. unclosed: that tag,
    where an element was open.
    """

    __slots__ = ("_block", "_first", "_mark", "_pending", "_places", "c", "end_name", "open", "unclosed")

    def __init__(self, c: Cursor, mark: str, block: str, name: str) -> None:
        self.c, self._mark, self._block = c, mark, block
        self._places = Places(c.sink.schema(name) or {})
        self.open: list[str] = []
        self.end_name = ""
        self.unclosed: tuple[str, ...] | None = None
        self._pending: tuple[str, list[str]] | None = None  # a complete argument, whose name may be repeated
        self._first = True

    @property
    def is_empty(self) -> bool:
        """Whether there was no argument."""
        return self._first and self._pending is None

    def rest(self) -> str:
        """The JSON of the argument that was not emitted."""
        pending, self._pending = self._pending, None
        return "" if pending is None else self._lead(pending[0]) + _one_or_list(pending[1])

    def _lead(self, name: str) -> str:
        lead = "{" if self._first else ", "
        self._first = False
        return f'{lead}"{quoted(name)}": '

    def arguments(self) -> Steps[None]:
        """Read elements up to the tag that ends the call."""
        sink, places = self.c.sink, self._places
        while not self.end_name:
            m = yield from self._tag(lambda _: "")  # text between arguments is dropped
            if self.end_name or m["close"]:
                continue
            name = m["name"]
            place = places.inner(places.root, name) or places.inner(places.root, None)
            if self._pending is not None and self._pending[0] != name:
                sink.args(self.rest())
            if places.types(place) == STRING and self._pending is None:
                sink.args(self._lead(name) + '"')
                yield from self._element(name, place, quoted)
                sink.args('"')
                continue
            value = yield from self._element(name, place)
            self._pending = name, [*(self._pending[1] if self._pending else ()), value]

    def _element(self, name: str, place: Place, emit: Callable[[str], str] | None = None) -> Steps[str]:
        """Read an element up to its closing tag, and return its JSON. emit: returns the JSON to emit for more text."""
        types = self._places.types(place)
        plain = "string" in types and not types & _CONTAINERS.keys()  # then tags in it are text
        text: list[str] = []
        inner: dict[str, list[str]] = {}

        def take(more: str) -> str:
            text.append(more)
            return ""

        say = emit or take
        self.open.append(name)
        while not self.end_name:
            m = yield from self._tag(say)
            if self.end_name:
                break
            if m["close"] and not (plain and m["name"] != name):
                break
            if m["close"] or plain or len(self.open) >= _MAX_DEPTH:
                self.c.sink.args(say(self._mark + m.group()))
                continue
            child = self._places.inner(place, m["name"]) or self._places.inner(place, None)
            value = yield from self._element(m["name"], child)
            inner.setdefault(m["name"], []).append(value)
        self.open.pop()
        if inner:
            listed = "array" in types and (set(inner) == {"item"} or "object" not in types)
            if listed and len(inner) == 1:
                return f"[{', '.join(next(iter(inner.values())))}]"
            return "{" + ", ".join(f'"{quoted(key)}": {_one_or_list(found)}' for key, found in inner.items()) + "}"
        written = "".join(text)
        if not written.strip() and len(types & _CONTAINERS.keys()) == 1 and "string" not in types:
            return _CONTAINERS[next(iter(types & _CONTAINERS.keys()))]
        return json_of(written, types)

    def _tag(self, say: Callable[[str], str]) -> Steps[re.Match[str]]:
        """Read up to the end of the next tag. say: takes the text before it, and returns the JSON to emit."""
        c, mark = self.c, self._mark

        def within(text: str) -> str | None:
            return None if text.endswith(mark[0]) or mark[:2] in text else say(text)

        while True:
            k = c.s.find(mark, c.i)
            if k < 0:
                c.sink.args(say(c.upto_half((mark,))))
                if c.i == len(c.s):
                    c.sink.flows(within)
                yield from c.more()
                continue
            c.sink.args(say(c.s[c.i : k]))
            c.i = k
            m = yield from c.ask(lambda: c.found(_TAG, c.i + len(mark)))
            if m is None:
                c.sink.args(say(mark))
                c.i += len(mark)
                continue
            c.i = m.end()
            if m["close"] and m["name"] in ({"invoke"} if self._block in self.open else {"invoke", self._block}):
                self.end_name = m["name"]
                self.unclosed = (mark + m.group(),) if self.open else None
            return m


def _one_or_list(values: list[str]) -> str:
    return values[0] if len(values) == 1 else f"[{', '.join(values)}]"
