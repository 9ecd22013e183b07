"""Calls whose arguments are elements within elements, every tag behind one mark (MiniMax M3).

    ]<]minimax[>[<invoke name="f">]<]minimax[>[<tags>]<]minimax[>[<item>a]<]minimax[>[</item>]<]minimax[>[</tags>…

A declared string of the tool streams as it arrives; any other argument leaves when its element is closed. Elements
become objects, lists (of `item`, or of one name that comes again) and values typed by the tool's schema.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from ...json_schema.pointer import Scope, Target
from ...json_schema.types import ALL, STRING, types_of
from ..patterns import WHITE_SPACE
from ..sink import Sink
from ..values.json_spelling import quoted
from ..values.typing import json_of

_TAG = re.compile(r"[ \t\r\n]{0,64}<(?P<close>/?)(?P<name>[^<>\s=]{1,256})(?P<more>[^<>]{0,300})>")
_TAG_PART = re.compile(r"[ \t\r\n]{0,64}(?:</?[^<>]{0,560})?")
_CALLED = re.compile(r"[ ]?name[ ]?=[ ]?[\"']([^\"'\n]{1,256})[\"']")
_MAX_DEPTH = 32
_MAX_PARTS_DEEP = 8
_MAX_GAP = 256
_LONG = 600  # characters: more than white space before a tag, and the tag, may have
_SHORT = 500  # characters: fewer than a tag may have
_BEGUN = frozenset({"", "<", "</"})
_MANY = 256
_CONTAINERS = {"array": "[]", "object": "{}"}

_AROUND, _WITHIN = range(2)


class _PartReader:
    """A reader that takes a syntax part by part: which part reads is the state.

    _parts: by state, what reads `s` from `i` there: the index behind what it read, or -1 to wait for more text. Each
    goes on, changes the state, tells the sink of a start or an end, or sets `done` or `failed`.
    """

    __slots__ = ("_sink", "_state", "done", "failed")

    _parts: ClassVar[tuple[Callable[..., int], ...]] = ()

    def __init__(self, sink: Sink, state: int) -> None:
        self.done = False
        self.failed = False
        self._sink = sink
        self._state = state

    def step(self, s: str, i: int, /, *, last: bool) -> int:
        """See `Body.step`."""
        sink = self._sink
        parts = self._parts
        while not self.done and not self.failed:
            j = parts[self._state](self, s, i, last=last)
            if j < 0:
                return i
            i = j
            if sink.changed:
                return i
        return i


@dataclass(slots=True)
class _Element:
    name: str
    schema: Target | None
    types: frozenset[str]
    text: list[str] = field(default_factory=list)
    inner: dict[str, list[str]] = field(default_factory=dict)


def _parts(whole: Target) -> Iterator[Target]:
    """A schema and what it is put together from, each once."""
    stack = [(whole, 0)]
    seen: set[int] = set()
    while stack:
        part, depth = stack.pop()
        schema, scope = part
        if not isinstance(schema, Mapping) or depth > _MAX_PARTS_DEEP or id(schema) in seen:
            continue
        seen.add(id(schema))
        yield part
        target = scope.find(schema.get("$ref"))
        options = [] if target is None else [target]
        for key in ("anyOf", "oneOf", "allOf"):
            more = schema.get(key)
            options += [Target(one, scope.enter(one)) for one in more[:16]] if isinstance(more, list) else []
        stack.extend((option, depth + 1) for option in reversed(options))


class NestedCalls(_PartReader):
    """Reads such calls, behind the marker that opens them all. See `Body`."""

    __slots__ = (
        "_children",
        "_close",
        "_first",
        "_left",
        "_mark",
        "_out",
        "_pending",
        "_root",
        "_stack",
        "_streams",
        "tail",
    )

    def __init__(self, sink: Sink, mark: str, block: str) -> None:
        super().__init__(sink, _AROUND)
        self._mark = mark
        self._close = block  # the name of the tag around all calls
        self._root = Target({}, Scope.of({}))
        self._stack: list[_Element] = []
        self._pending: tuple[str, list[str]] | None = None  # a complete argument, whose name may come again
        self._streams = False
        self._first = True
        self._children: dict[tuple[int, str], tuple[Target | None, frozenset[str]]] = {}  # see `_child`
        self._out: list[str] = []  # what leaves of the arguments
        self._left: tuple[str, str] | None = None  # see `leave`
        self.tail = ""

    def finish(self, *, cut: bool) -> None:
        """See `Body.finish`."""
        if self._state == _AROUND:
            return
        # An element whose end has not come may have had more, and a call without any may have had some.
        if cut or self._stack or (self._first and self._pending is None):
            if self._pending is not None or not self._first:
                self._flush()
            elif self._first:
                self._out.append("{")
            self._tell()
            self._sink.end(complete=False, repaired=True, closing=())
            return
        self._end_call(repaired=True)

    def _within(self, s: str, i: int, *, last: bool) -> int:
        """In a call: text up to the next tag, or the tag."""
        mark = self._mark
        k = s.find(mark, i)
        if k < 0:
            keep = len(s) if last else self._kept(s, i)
            if keep == i:
                return -1
            self._text(s[i:keep])
            self._tell()
            if keep == len(s):
                self._sink.flows(self)
            return keep
        if k > i:
            self._text(s[i:k])
            self._tell()
            return k
        m = self._tag_at(s, k, last=last)
        if m is None:
            return -1
        if m:
            self._tag(m)
        else:
            self._text(mark)
        self._tell()
        return m.end() if m else k + len(mark)

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

    def _around(self, s: str, i: int, *, last: bool) -> int:
        """Around the calls: a tag, with white space before it. Anything else is none of theirs, white space and all."""
        mark = self._mark
        j = WHITE_SPACE.match(s, i, i + _MAX_GAP).end()
        rest = s[j : j + len(mark)]
        if not rest and last:
            return j if j > i else -1
        # The mark is sometimes missing.
        heads = ("<invoke ", "</invoke>", f"</{self._close}>") if rest[:1] == "<" else ()
        bare = any(head.startswith(s[j : j + len(head)]) for head in heads)
        if rest != mark and not bare:
            if len(rest) < len(mark) and mark.startswith(rest) and j - i < _MAX_GAP:
                # Half a marker at the end of the text is markup too.
                return -1 if not last else len(s) if self._give_up() else i
            self._give_up()
            return i
        at = j if bare else j + len(mark)
        m = _TAG.match(s, at)
        if m is not None:
            return m.end() if self._tag(m) else i
        rest = s[at:]
        if not last and len(rest) < _LONG and _TAG_PART.fullmatch(rest):
            return -1
        return len(s) if self._give_up() and not bare and _TAG_PART.fullmatch(rest) else i

    def _kept(self, s: str, i: int) -> int:
        """Where in `s`, from `i`, a mark may begin that is not complete; its end where none does."""
        mark, n = self._mark, len(s)
        at = s.find(mark[0], max(i, n - len(mark) + 1))
        while at >= 0 and not mark.startswith(s[at:]):
            at = s.find(mark[0], at + 1)
        return n if at < 0 else at

    # -- a call that goes on: see `ArgumentsReader` --------------------------------------------------------------

    def run(self, text: str) -> str | None:
        """What leaves for more of a call's text; None where a tag ends the call in it."""
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
        i = 0
        while True:
            k = text.find(mark, i)
            end = k if k >= 0 else self._kept(text, i)
            if end > i:
                self._text(text[i:end])
            m = self._tag_at(text, k, last=False) if k >= 0 else None
            if m is None:
                self.tail = text[end:]
                return self._said()
            if m is False:
                self._text(mark)
                i = k + len(mark)
            elif self._ends(m):
                self._left = self._said(), text[k:]
                self.tail = ""
                return None
            else:
                self._tag(m)
                i = m.end()

    def leave(self, text: str) -> tuple[str, str]:
        """What leaves before the tag that ends the call, and the text from that tag on."""
        left, self._left = self._left or ("", self.tail + text), None
        self.tail = ""
        return left

    def _ends(self, m: re.Match[str]) -> bool:
        """Whether a tag in a call ends it."""
        name = m["name"]
        if not m["close"] or (name != "invoke" and name != self._close):
            return False
        return name == "invoke" or not any(element.name == name for element in self._stack)

    def _said(self) -> str:
        out = self._out
        if not out:
            return ""
        self._out = []
        return out[0] if len(out) == 1 else "".join(out)

    def _tell(self) -> None:
        if self._out:
            self._sink.args(self._said())

    def _give_up(self) -> bool:
        """Between calls something stands that is none of theirs. Whether there was a call at all."""
        self.done = self._sink.committed
        self.failed = not self.done
        return self.done

    def _text(self, text: str) -> None:
        if self._streams:
            self._out.append(quoted(text))
        elif self._stack:
            self._stack[-1].text.append(text)

    def _tag(self, m: re.Match[str]) -> bool:
        """A tag; whether it is one of ours."""
        name, closing = m["name"], bool(m["close"])
        if self._state == _AROUND:
            called = _CALLED.fullmatch(m["more"].rstrip()) if name == "invoke" and not closing else None
            if called is not None:
                self._open_call(called[1])
            elif name == self._close:
                self.done = closing
            elif not (closing and name == "invoke"):
                self._give_up()
                return False
        elif self._ends(m):
            ended = (self._mark + m.group(),) if self._stack else None
            while self._stack:
                self._shut()
            self._end_call(repaired=name != "invoke" or ended is not None, closing=ended)
            self.done = name != "invoke"
        elif closing:
            if self._stack and self._plain and name != self._stack[-1].name:
                self._text(self._mark + m.group())
            elif self._stack:
                self._shut()
        elif self._stack and (self._plain or len(self._stack) >= _MAX_DEPTH):
            self._text(self._mark + m.group())
        else:
            self._open(name)
        return True

    @property
    def _plain(self) -> bool:
        """Whether the innermost element is declared a string, and no container: then tags in it are text."""
        types = self._stack[-1].types
        return "string" in types and not types & _CONTAINERS.keys()

    def _open_call(self, name: str) -> None:
        self._state = _WITHIN
        parameters = self._sink.schema(name) or {}
        self._root = Target(parameters, Scope.of(parameters))
        self._children.clear()
        self._first = True
        self._sink.start(name)

    def _end_call(self, *, repaired: bool, closing: tuple[str, ...] | None = None) -> None:
        self._flush()
        self._out.append("{}" if self._first else "}")
        self._tell()
        self._state = _AROUND
        self._sink.end(repaired=repaired, closing=closing)

    def _open(self, name: str) -> None:
        schema, types = self._child(self._stack[-1].schema if self._stack else self._root, name)
        if not self._stack:
            if self._pending is not None and self._pending[0] != name:
                self._flush()
            if types == STRING and self._pending is None:
                self._streams = True
                self._lead(name)
                self._out.append('"')
        self._stack.append(_Element(name, schema, types))

    def _child(self, schema: Target | None, name: str) -> tuple[Target | None, frozenset[str]]:
        """The schema of an element within one of `schema`, and its types. The same few come again and again."""
        if schema is None:
            return None, ALL
        key = id(schema.schema), name  # the schema is a part of the tool's own, which stays alive
        found = self._children.get(key)
        if found is None:
            child = self._schema_of(schema, name)
            if len(self._children) >= _MANY:
                self._children.clear()
            found = self._children[key] = child, ALL if child is None else types_of(*child)
        return found

    @staticmethod
    def _schema_of(schema: Target, name: str) -> Target | None:
        items = None
        for part, scope in _parts(schema):
            properties = part.get("properties")
            if isinstance(properties, Mapping) and name in properties:
                return Target(properties[name], scope.enter(properties[name]))
            if items is None and part.get("items") is not None:
                items = Target(part["items"], scope.enter(part["items"]))
        return items

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

    _parts = (_around, _within)


def _one_or_list(values: list[str]) -> str:
    return values[0] if len(values) == 1 else f"[{', '.join(values)}]"
