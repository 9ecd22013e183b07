"""Calls whose arguments are elements within elements, every tag behind one mark (MiniMax M3).

    ]<]minimax[>[<invoke name="f">]<]minimax[>[<tags>]<]minimax[>[<item>a]<]minimax[>[</item>]<]minimax[>[</tags>…

A declared string is emitted as it arrives, any other argument when its element is closed. Elements become objects,
lists (of `item`, or of one name that is repeated) and values typed by the tool's schema.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from ...json_schema.pointer import Scope
from ...json_schema.types import STRING
from ..cursor import Cursor, NotACall, Steps, TextOver
from ..patterns import WHITE_SPACE
from ..values.json_spelling import quoted
from ..values.typing import Place, Places, json_of, types_at

_TAG = re.compile(r"[ \t\r\n]{0,64}<(?P<close>/?)(?P<name>[^<>\s=]{1,256})(?P<more>[^<>]{0,300})>")
_TAG_PART = re.compile(r"[ \t\r\n]{0,64}(?:</?[^<>]{0,560})?")
_CALLED = re.compile(r"[ ]?name[ ]?=[ ]?[\"']([^\"'\n]{1,256})[\"']")
_MAX_DEPTH = 32
_MAX_GAP = 256
_LONG = 600  # characters: more than white space before a tag, and the tag, may have
_SHORT = 500  # characters: fewer than a tag may have
_BEGUN = frozenset({"", "<", "</"})
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
        yield
        arguments = _Elements(c.sink.schema(name) or {}, mark, block)
        try:
            yield from c.copy(arguments)
        except TextOver:
            # An element that is open may have had more, and a call without any may have had some.
            whole = not (c.cut or arguments.open)
            text = arguments.close() if whole else arguments.release()
            c.end(text, complete=whole, repaired=True, closing=None if whole else ())
            yield
            return
        c.end(repaired=arguments.repaired, closing=arguments.closing)
        yield
        if arguments.closes_all:
            return


def _opening(c: Cursor, mark: str, block: str) -> Steps[str | None]:
    """Go behind a call's opening tag: the tool's name. None where the calls are over."""
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
    """Reads a call's arguments. See `CopiedArguments`, and `ArgumentsReader`.

    closing: the tag that ended the call in an element. closes_all: that tag ends all calls.
    """

    __slots__ = (
        "_block", "_first", "_left", "_mark", "_out", "_pending", "_places", "_root", "_stack", "_streams",
        "closes_all", "closing", "done", "repaired", "tail",
    )  # fmt: skip
    stuck = False
    cut = False

    def __init__(self, parameters: Mapping[str, object], mark: str, block: str) -> None:
        self._mark = mark
        self._block = block
        self._root: Place = ((parameters, Scope(parameters)),)
        self._stack: list[_Element] = []
        self._pending: tuple[str, list[str]] | None = None  # a complete argument, whose name may be repeated
        self._streams = False
        self._first = True
        self._places = Places()
        self._out: list[str] = []  # JSON that was not emitted
        self._left: tuple[str, str] | None = None  # see `leave`
        self.tail = ""
        self.done = self.repaired = self.closes_all = False
        self.closing: tuple[str, ...] | None = None

    @property
    def streams(self) -> _Elements:
        """What reads on without the reader of the calls."""
        return self

    @property
    def open(self) -> bool:
        """Whether the arguments may go on: an element is open, or there was none."""
        return bool(self._stack) or (self._first and self._pending is None)

    def feed(self, s: str, i: int, /, *, last: bool) -> tuple[int, str]:
        """(index behind what was read, what leaves)."""
        i, m = self._read(s, i, last=last)
        if m is not None:
            self._end(m)
            i = m.end()
        return i, self._said()

    def close(self) -> str:
        """End the arguments here."""
        self._flush()
        self._out.append("{}" if self._first else "}")
        return self._said()

    def release(self) -> str:
        """What was held and is complete."""
        if self._first and self._pending is None:
            return "{"
        self._flush()
        return self._said()

    def run(self, text: str) -> str | None:
        """What leaves for more of the arguments; None where a tag in it ends them."""
        if self._left is not None:
            return None
        mark, tail = self._mark, self.tail
        if tail:
            # Most pieces are of marks and tags that go on.
            whole = tail + text
            if len(whole) <= len(mark):
                if mark.startswith(whole):
                    self.tail = whole
                    return ""
            elif tail[len(mark) : len(mark) + 1] == "<" and ">" not in text and "<" not in text and len(whole) < _SHORT:
                self.tail = whole
                return ""
            text = whole
        i, m = self._read(text, 0, last=False)
        self.tail = text[i:] if m is None else ""
        if m is None:
            return self._said()
        self._left = self._said(), text[i:]
        return None

    def leave(self, text: str) -> tuple[str, str]:
        """What leaves before the tag that ends the call, and the text from that tag on."""
        left, self._left = self._left or ("", self.tail + text), None
        self.tail = ""
        return left

    def _read(self, s: str, i: int, *, last: bool) -> tuple[int, re.Match[str] | None]:
        """Read on: the index of what is not read, and the tag there if it ends the call."""
        mark = self._mark
        while True:
            k = s.find(mark, i)
            end = k if k >= 0 else len(s) if last else self._kept(s, i)
            if end > i:
                self._text(s[i:end])
            m = self._tag_at(s, k, last=last) if k >= 0 else None
            if m is None:
                return end, None
            if m is False:
                self._text(mark)
                i = k + len(mark)
            elif self._ends(m):
                return k, m
            else:
                self._tag(m)
                i = m.end()

    def _tag_at(self, s: str, k: int, *, last: bool) -> re.Match[str] | Literal[False] | None:
        """The tag behind the mark at `k`; False where the mark is text, None where more must be seen."""
        k += len(self._mark)
        size = len(s) - k
        if size <= 2 and s[k:] in _BEGUN:
            return False if last else None
        m = _TAG.match(s, k)
        if m is not None:
            return m
        return None if not last and size < _LONG and _TAG_PART.fullmatch(s, k) else False

    def _kept(self, s: str, i: int) -> int:
        """Where in `s`, from `i`, a mark may begin that is not complete; its end where none does."""
        mark, n = self._mark, len(s)
        at = s.find(mark[0], max(i, n - len(mark) + 1))
        while at >= 0 and not mark.startswith(s[at:]):
            at = s.find(mark[0], at + 1)
        return n if at < 0 else at

    def _ends(self, m: re.Match[str]) -> bool:
        """Whether a tag ends the call."""
        name = m["name"]
        if not m["close"] or (name != "invoke" and name != self._block):
            return False
        return name == "invoke" or not any(element.name == name for element in self._stack)

    def _end(self, m: re.Match[str]) -> None:
        self.closing = (self._mark + m.group(),) if self._stack else None
        self.closes_all = m["name"] != "invoke"
        self.repaired = self.closes_all or self.closing is not None
        while self._stack:
            self._shut()
        text = self.close()
        self._out.append(text)
        self.done = True

    def _said(self) -> str:
        out = self._out
        if not out:
            return ""
        self._out = []
        return out[0] if len(out) == 1 else "".join(out)

    def _text(self, text: str) -> None:
        if self._streams:
            self._out.append(quoted(text))
        elif self._stack:
            self._stack[-1].text.append(text)

    def _tag(self, m: re.Match[str]) -> None:
        """A tag that does not end the call."""
        name, stack = m["name"], self._stack
        if m["close"]:
            if stack and self._plain and name != stack[-1].name:
                self._text(self._mark + m.group())
            elif stack:
                self._shut()
        elif stack and (self._plain or len(stack) >= _MAX_DEPTH):
            self._text(self._mark + m.group())
        else:
            self._open(name)

    @property
    def _plain(self) -> bool:
        """Whether the innermost element is declared a string, and no container: then tags in it are text."""
        types = self._stack[-1].types
        return "string" in types and not types & _CONTAINERS.keys()

    def _open(self, name: str) -> None:
        place = self._child(name)
        types = types_at(place)
        if not self._stack:
            if self._pending is not None and self._pending[0] != name:
                self._flush()
            if types == STRING and self._pending is None:
                self._streams = True
                self._lead(name)
                self._out.append('"')
        self._stack.append(_Element(name, place, types))

    def _child(self, name: str) -> Place:
        """What may be an element of this name in the innermost one: a property's value, or an item."""
        place, inner = self._stack[-1].place if self._stack else self._root, self._places.inner
        return inner(place, name) or inner(place, None)

    def _shut(self) -> None:
        """The innermost element is closed."""
        element = self._stack.pop()
        if self._streams:
            self._streams = False
            self._out.append('"')
            return
        value = self._value(element)
        if self._stack:
            self._stack[-1].inner.setdefault(element.name, []).append(value)
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
