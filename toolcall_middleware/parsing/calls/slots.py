"""Calls whose arguments are slots: `<function=f><parameter=x>1</parameter></function>` and its relatives.

Values are bare text. A value whose declared type is string is emitted as it arrives; any other value is held and
emitted as JSON when its closing tag has come. A closing tag counts only where the text after it fits, so a value may
contain tags. A value without a closing tag ends at the next tag that cannot be part of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from ..cursor import Cursor, NotACall, Steps, TextOver, Undecided
from ..patterns import WHITE_SPACE, half_of
from ..values.json_reader import decoded, quoted
from ..values.typing import Places, repaired_json
from .call_arguments import CallArguments
from .slot_layout import CDATA, CDATA_END, MAX_TAG, Layout
from .slot_value import SlotValue, ValueEnd, declared_in, name_of

# JSON arguments may be in a code block, in a string, or in a list.
_FENCE = re.compile(r"`{3}[a-z]{0,16}[ \t]{0,16}\r?\n")
_FENCE_BEGUN = half_of(_FENCE)
_OBJECT = re.compile(r"(?:[\"']|(?P<list>\[[ \t\r\n]{0,16}))?\{")
_OBJECT_BEGUN = half_of(_OBJECT)
_JSON = re.compile(rf"{_FENCE.pattern}|{_OBJECT.pattern}|null(?=[ \t\r\n<])")
_JSON_BEGUN = half_of(_JSON)
_ELEMENT = re.compile(r"<(?P<key>[\w.\-]{1,64})>")
_ELEMENT_BEGUN = half_of(_ELEMENT)
# Undeclared parameters that hold all arguments as one object.
_WRAPPERS = frozenset({"arguments", "args", "input", "parameters", "params", "properties"})
_WRAPPED = tuple(f"</{name}>" for name in sorted(_WRAPPERS))


def read_slots(c: Cursor, layout: Layout) -> Steps[None]:
    """Read one call after another, up to the closing marker or to text that is not a call."""
    first = True
    while True:
        try:
            call = yield from _opening(c, layout, first=first)
        except TextOver:
            return
        if call is None:
            return
        first = False
        yield from call.read()
        if call.closed_all:
            return


def _nothing_follows(c: Cursor) -> Steps[None]:
    """Accept tags without a call between them as markup where a tag or the end follows. Raises NotACall in prose."""
    k = yield from c.decided(("<",), None)
    if k < len(c.s) and c.s[k] != "<":
        raise NotACall
    c.sink.accept()


def _opening(c: Cursor, layout: Layout, *, first: bool) -> Steps[_Call | None]:
    """Read a call's opening tag: the call, which has started. None where the calls are over."""
    while True:
        s, committed = c.s, c.sink.committed
        j = c.behind_space(MAX_TAG)
        if layout.close and s.startswith(layout.close, j):
            c.i = j + len(layout.close)
            if first and not layout.reopen:
                yield from _nothing_follows(c)
            return None
        if c.take(layout.noise, j):
            continue
        if (tag := _Call.at(c, layout, j)) is not None:
            try:
                if tag.is_called():
                    return tag.begin(tag.after)
            except Undecided:
                rest = s[tag.after :].strip()
                try:
                    yield from c.more()
                except TextOver:
                    return tag.alone(rest)
                continue
        if (call := _joined(c, layout, j)) is not None:
            return call
        rest = s[j : j + MAX_TAG]
        short = len(rest) < MAX_TAG
        begun = short and layout.call_begun.fullmatch(rest) is not None
        begun = begun or (not layout.bare_name and _ELEMENT_BEGUN.match(s, j) is not None)
        if begun and c.last and layout.bare_name:
            return (yield from _name_alone(c, layout, rest))
        half = any(close.startswith(rest) for close in (layout.close, *layout.noise))
        half = half or (committed and layout.half_close.match(s, j) is not None)
        if not c.last and short and (begun or half or any(h.startswith(rest) for h in layout.call_heads)):
            yield from c.more()
            continue
        if not committed:
            raise NotACall
        if (m := layout.odd_all.match(s, j)) is not None:
            c.i = m.end()
            return None
        if c.last and rest and half:
            c.i = len(s)  # half a closing marker at the end of the text is markup too
        return None


def _begins_slot(layout: Layout, rest: str, declared: Mapping[str, Any]) -> bool:
    """Whether `rest` is the beginning of a slot's tag whose key, as far as it is there, is declared."""
    for head in layout.slot_heads:
        if rest.startswith(head):
            part = re.split("[=\"'> ]", rest)[-1]
            return not declared or any(key.startswith(part) or part.startswith(key) for key in declared)
    return True


def _name_alone(c: Cursor, layout: Layout, rest: str) -> Steps[_Call | None]:
    """Wait after a possible tool name: where the model ends the text there, it is a call without arguments."""
    try:
        yield from c.more()
    except TextOver:
        name, *more = rest.split()
        if not more and not c.cut and c.sink.offered(name):
            return _Call(c, layout, name, empty=True).begin()
        raise
    return None


def _joined(c: Cursor, layout: Layout, i: int) -> _Call | None:
    """A call whose name and first key are written without a tag between them."""
    if (m := layout.joined.match(c.s, i)) is None:
        return None
    for end in range(m.end("joined") - 1, i, -1):
        name, key = c.s[i:end], c.s[end : m.end("joined")].strip().removeprefix(layout.reopen[0])
        if c.sink.offered(name) and key in declared_in(c.sink.schema(name)):
            call = _Call(c, layout, name)
            call.repaired = True
            call.first_key = key
            return call.begin(m.end())
    return None


def _object(text: str) -> tuple[str, AbstractSet[str]]:
    """The JSON object in `text`, repaired where necessary, and its keys; both empty where `text` is not an object."""
    found = repaired_json(text.strip()) if text.lstrip().startswith("{") else None
    members = decoded(found or "")
    return (found or "", members.keys()) if members else ("", frozenset())


class _Call:
    """One call, from its opening tag on. `closed_all`: its closing tag closed all calls."""

    __slots__ = (
        "_places", "after", "args", "c", "closed_all", "empty", "first", "first_key", "half", "in_value", "layout",
        "name", "parameters", "repaired", "seen", "whole",
    )  # fmt: skip

    def __init__(self, c: Cursor, layout: Layout, name: str, *, empty: bool = False, after: int = 0) -> None:
        """after: the index after its opening tag."""
        self.c, self.layout, self.name, self.empty, self.after = c, layout, name, empty, after
        self.parameters = c.sink.schema(name)
        self._places = Places(self.parameters)
        self.args: CallArguments | None = None
        self.first_key = ""
        self.whole = False  # the arguments are one JSON object
        self.first = True
        self.half = False  # the text is over in the first slot's tag
        self.in_value = self.repaired = self.closed_all = False
        self.seen: set[str] = set()

    @classmethod
    def at(cls, c: Cursor, layout: Layout, j: int) -> _Call | None:
        """The call whose opening tag is at `j`: a call's, or a tag with an offered tool's name. None where neither is
        there.
        """
        if layout.bare_name and c.sink.committed:
            return None
        m = layout.call.match(c.s, j)
        if m is not None:
            empty = bool(m.groupdict().get("empty"))
            return cls(c, layout, name_of(layout, m, "name"), empty=empty, after=m.end())
        m = None if layout.bare_name else _ELEMENT.match(c.s, j)
        if m is not None and c.sink.offered(m["key"]) and c.sink.schema(m["key"]) is not None:
            return cls(c, layout.named(m["key"]), m["key"], after=m.end())
        return None

    def is_called(self) -> bool:
        """Whether the text after the opening tag can belong to a call: a slot, JSON, or a closing tag.

        Other text makes it a mention: "use <function=f> for this". Raises Undecided.
        """
        c, layout, s = self.c, self.layout, self.c.s
        if self.empty or not layout.slot_heads:  # without slots its arguments are JSON, as the tag says
            return True
        j = WHITE_SPACE.match(s, self.after, self.after + MAX_TAG).end()
        if s.startswith(layout.after_name, j):
            # Names such as `search` are HTML's, too: an empty element is no call of a tool that needs an argument.
            return not (layout.in_tag and self._needs_some)
        if layout.slot.match(s, j) or _JSON.match(s, j):
            return True
        if not layout.value_open and (element := _ELEMENT.match(s, j)) is not None:
            return layout.free or element["key"] in declared_in(self.parameters) or element["key"] in _WRAPPERS
        begun = layout.may_go_on(s, j) or _ELEMENT_BEGUN.match(s, j) or _JSON_BEGUN.match(s, j)
        if len(s) - j < MAX_TAG and (begun or c.begins(layout.after_name, j)):
            raise Undecided
        return False

    @property
    def _needs_some(self) -> bool:
        """Whether the tool needs an argument."""
        return bool((self.parameters or {}).get("required"))

    def begin(self, end: int | None = None) -> _Call:
        """Start the call; go to `end`."""
        self.c.i = self.c.i if end is None else end
        self.c.start(self.name)
        return self

    def alone(self, rest: str) -> _Call:
        """Start the call, after whose opening tag nothing but `rest` is in the text, perhaps half a slot's tag.

        Raises NotACall for a mention.
        """
        self.half = bool(rest) and _begins_slot(self.layout, rest, declared_in(self.parameters))
        mention = not (self.c.cut or self.half) and (rest or self._needs_some)
        if mention or self.layout.in_tag:
            raise NotACall
        return self.begin()

    def read(self) -> Steps[None]:
        """Read the call after its opening tag."""
        try:
            if self.first_key:
                yield from self._slot(self.first_key)
            if self.empty:
                self._end()
            else:
                yield from self._slots()
        except TextOver:
            self._text_over()

    def _text_over(self) -> None:
        """End the call with the text. It is cut if it ends in a value or the model was cut off, else closed."""
        args, sink = self.args, self.c.sink
        if self.c.cut or self.half or self.in_value or (args is not None and args.is_cut):
            sink.args(args.release() if args is not None else "{" if self.first else "")
            self.c.end(complete=False, repaired=True, closing=())
            return
        if args is not None:
            sink.args(args.close())
        self._end(closed=self.layout.open_end)

    def _end(self, close: str = "", *, closed: bool = True) -> None:
        """End the call. close: the tag that ended it. closed: nothing is missing after its arguments."""
        self.c.sink.args("" if self.whole else "{}" if self.first else "}")
        self.closed_all = bool(close) and close == self.layout.close
        closing = (close,) if self.repaired else None  # else the arguments need no repair
        self.c.end(repaired=self.repaired or not closed, closing=closing)

    def _slots(self) -> Steps[None]:
        """Read slot after slot, up to the call's end."""
        c, layout = self.c, self.layout
        while True:
            s, i = c.s, c.behind_space()
            if i == len(s):
                c.i = i
                yield from c.more()
                continue
            char = s[i]
            for close in layout.call_closes:
                if s.startswith(close, i):
                    c.i = i + len(close)
                    self._end(close)
                    return
            m = None if self.whole else layout.slot.match(s, i)
            if m is not None:
                c.i = m.end()
                # A key that the value's tag ends, or one that closes a value.
                self.repaired = self.repaired or layout.key_close not in m.group()
                yield from self._slot(name_of(layout, m, "key"), m.groupdict().get("kind"))
                continue
            if s.startswith(layout.after_call, i):
                c.i = i
                self._end(closed=False)
                return
            if c.take(layout.noise, i):
                continue
            if (m := layout.odd_call.match(s, i)) is not None:
                c.i = m.end()
                self.repaired = True
                self._end(layout.call_close)
                return
            half = not c.last and len(s) - i < MAX_TAG
            if char == "<" and not (self.whole or layout.value_open):
                m = _ELEMENT.match(s, i)
                declared = declared_in(self.parameters)
                if m is not None and (layout.free or m["key"] in declared) and m["key"] not in self.seen:
                    c.i = m.end()
                    self.repaired = self.repaired or not layout.in_tag
                    follow = ("<",) if layout.free else (*(f"<{key}>" for key in declared), *_WRAPPED)
                    yield from self._slot(m["key"], layout=layout.element(m["key"], follow))
                    continue
                if half and m is None and _ELEMENT_BEGUN.match(s, i):
                    yield from c.more()
                    continue
            if self.first and not self.whole and (yield from self._json(i)):
                continue
            if half and (layout.may_go_on(s, i) or layout.half_close.match(s, i)):
                yield from c.more()
                continue
            # Text between the tags of a call belongs to no argument: skip it up to the next tag.
            self.repaired = True
            found = layout.tag_char.search(s, i + 1)
            c.i = len(s) if found is None else found.start()

    def _json(self, i: int) -> Steps[bool]:
        """Read one JSON object, or a code fence before it, at `i` in place of slots. False where neither is there."""
        c, s = self.c, self.c.s
        if (m := _FENCE.match(s, i)) is not None:
            c.i = m.end()
            return True
        begun = _FENCE_BEGUN.match(s, i) or (not self.repaired and _OBJECT_BEGUN.match(s, i))
        if begun and not c.last:
            yield from c.more()
            return True
        if self.repaired or (m := _OBJECT.match(s, i)) is None:
            return False
        c.i = i + len(m["list"] or "")
        args = self.args = CallArguments(c.s[c.i], self.layout.closing, c.sink.arguments)
        self.whole, self.first = True, False
        yield from c.copy(args)
        self.repaired = self.repaired or args.repaired
        return True

    def _slot(self, key: str, kind: str | None = None, layout: Layout | None = None) -> Steps[None]:
        """Read a slot after its opening tag, up to the end of its closing tag."""
        c, layout = self.c, layout or self.layout
        declared = declared_in(self.parameters)
        wraps = self.first and key in _WRAPPERS and bool(declared) and key not in declared
        value = SlotValue(self.layout, self._places.argument(key), kind, whole=wraps)
        self.seen.add(key)
        self.in_value = True
        if not wraps:
            self._lead(key, value)
        if layout.value_open:
            yield from self._value_tag(value)
        end = ValueEnd(c, layout, value, key, declared, self.seen)
        closed = yield from self._value(value, end)
        self.repaired = self.repaired or end.damaged
        self.in_value = False
        c.sink.args(value.end(closed=closed))
        if value.streams:
            return
        if wraps:
            if self._unwrap(value.text()):
                return
            self._lead(key, value)
        c.sink.args(value.json())

    def _lead(self, key: str, value: SlotValue) -> None:
        lead = "{" if self.first else ", "
        self.first = False
        self.c.sink.args(f'{lead}"{quoted(key)}": ' + ('"' if value.streams else ""))

    def _unwrap(self, text: str) -> bool:
        """Emit the members of `text` as arguments, if it is an object of declared parameters. Returns whether it is."""
        found, keys = _object(text)
        if not keys or not keys <= declared_in(self.parameters).keys():
            return False
        self.first = False
        self.repaired = True
        self.seen.update(keys)
        self.c.sink.args(found.rstrip()[:-1])
        return True

    def _value_tag(self, value: SlotValue) -> Steps[None]:
        """Read the tag that opens a value after its key. It may be missing; the key's closing tag may be doubled."""
        c, opening, key_close = self.c, self.layout.value_open, self.layout.key_close
        tag = key_close
        while tag == key_close:
            yield from c.char()  # white space that has been read is not read again with the next piece
            tag = yield from c.marker((opening, key_close), None)
            self.repaired = self.repaired or tag != opening
        if not tag:
            value.begin_untagged()

    def _value(self, value: SlotValue, end: ValueEnd) -> Steps[bool]:
        """Read the text of a value, up to the end of its closing tag. Returns whether it has one."""
        c, layout = self.c, end.layout
        while c.i == len(c.s) or (start := value.begin(c.s, c.i, last=c.last)) < 0:
            yield from c.more()
        at = c.i = start
        while True:
            s = c.s
            found = layout.value_end.search(s, k) if (k := s.find("<", at)) >= 0 else None
            k = len(s) if found is None else found.start()
            try:
                verdict = None if found is None else end.at(s, k, start)
            except Undecided:
                verdict = None
            if verdict == -1:
                at = value.pass_tag(s, k)
                continue
            c.sink.args(value.take(s[start:k]))
            c.i = k
            if verdict is None:
                if found is None:
                    c.sink.flows(value.within)
                yield from c.more()
            elif layout.xml and s.startswith(CDATA, k):
                c.i = verdict
                yield from self._section(value)
            else:
                c.i = verdict
                return verdict > k
            start = at = c.i

    def _section(self, value: SlotValue) -> Steps[None]:
        """Read a CDATA section up to its end."""
        c = self.c
        while True:
            s, i = c.s, c.i
            k = s.find(CDATA_END, i)
            end = k if k >= 0 else len(s)
            if k < 0 and not c.last:
                end -= 2 if s.endswith("]]") else s.endswith("]")
            c.sink.args(value.take_section(s[i : max(i, end)], closed=k >= 0))
            c.i = max(i, end)
            if k >= 0:
                c.i += len(CDATA_END)
                return
            yield from c.more()
