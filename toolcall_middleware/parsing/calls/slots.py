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

from ...json_schema.types import STRING, declared_types
from ..cursor import Cursor, CursorReader, NotACall, Steps, TextOver
from ..patterns import WHITE_SPACE
from ..sink import Sink
from ..values.json_spelling import decode, quoted
from ..values.typed_text import is_json, json_of, repaired_json
from .json.arguments import CallArguments
from .slot_layout import CDATA, CDATA_END, MAX_TAG, Layout

# JSON arguments may be in a code block, in a string, or in a list.
_FENCE = re.compile(r"`{3}[a-z]{0,16}[ \t]{0,16}\r?\n")
_FENCE_BEGUN = re.compile(r"`{1,2}\Z|`{3}[a-z]{0,16}[ \t]{0,16}\r?\Z")
_OBJECT = re.compile(r"(?:[\"']|(?P<list>\[[ \t\r\n]{0,16}))?\{")
_OBJECT_BEGUN = re.compile(r"(?:[\"']|\[[ \t\r\n]{0,16})\Z")
_JSON = re.compile(rf"{_FENCE.pattern}|{_OBJECT.pattern}|null(?=[ \t\r\n<])")
_JSON_BEGUN = re.compile(r"(?:n(?:u(?:ll?)?)?|[\"']|\[[ \t\r\n]{0,16}|`{1,2}|`{3}[a-z]{0,16}[ \t]{0,16}\r?)?")
_ELEMENT = re.compile(r"<(?P<key>[\w.\-]{1,64})>")
_ELEMENT_BEGUN = re.compile(r"<[\w.\-]{0,64}\Z")
_ENTITIES = {"&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&apos;": "'"}
_ENTITY = re.compile("|".join(_ENTITIES))
_ENTITY_PART = re.compile(r"&[a-z]{0,4}\Z")
_OR_NULL = frozenset({"string", "null"})
_LOOK = 64
# Undeclared parameters that hold all arguments as one object.
_WRAPPERS = frozenset({"arguments", "args", "input", "parameters", "params", "properties"})


class SlotCalls(CursorReader):
    """Reads such calls after their opening marker. See `Body`."""

    __slots__ = ()

    def __init__(self, sink: Sink, layout: Layout) -> None:
        cursor = Cursor(sink)
        super().__init__(cursor, _calls(cursor, layout))


def _calls(c: Cursor, layout: Layout) -> Steps[None]:
    """One call after another, up to the closing marker or to what is no call."""
    while True:
        try:
            call = yield from _opening(c, layout)
        except TextOver:
            return
        if call is None:
            return
        yield
        yield from call.read()
        if call.closed_all:
            return


def _opening(c: Cursor, layout: Layout) -> Steps[_Call | None]:
    """Read a call's opening tag: the call, which has started. None where the calls are over."""
    while True:
        s, committed = c.s, c.sink.committed
        j = c.behind_space(MAX_TAG)
        if j == len(s) and not c.last:
            yield from c.more()
            continue
        if layout.close and s.startswith(layout.close, j):
            c.i = j + len(layout.close)
            return None
        if c.take(layout.noise, j):
            continue
        m = None if layout.bare_name and committed else layout.call.match(s, j)
        if m is not None:
            called = bool(m.groupdict().get("empty")) or _is_call(c, layout, m)
            if called is None:
                try:
                    yield from c.more()
                except TextOver:
                    return _tag_alone(c, layout, m)
                continue
            if called:
                c.i = m.end()
                return _Call(c, layout, _named(layout, m, "name"), empty=bool(m.groupdict().get("empty")))
            m = None
        if m is None and (call := _joined(c, layout, j)):
            return call
        rest = s[j : j + MAX_TAG]
        begun = layout.call_begun.fullmatch(rest) is not None
        if begun and c.last and layout.bare_name:
            return (yield from _name_alone(c, layout, rest))
        half = any(tag.startswith(rest) for tag in layout.after_call_tags)
        if not c.last and len(rest) < MAX_TAG and (begun or half or any(h.startswith(rest) for h in layout.call_heads)):
            yield from c.more()
            continue
        if not committed:
            raise NotACall
        if c.last and rest and half:
            c.i = len(s)  # half a closing marker at the end of the text is markup too
        return None


def _is_call(c: Cursor, layout: Layout, m: re.Match[str]) -> bool | None:
    """Whether the text after a call's opening tag can belong to a call: a slot, JSON, or a closing tag.

    None where more text is needed. Other text makes the tag a mention: "use <function=f> for this".
    """
    if not layout.slot_heads:
        return True  # its arguments are JSON, as the tag says
    s = m.string
    j = WHITE_SPACE.match(s, m.end(), m.end() + MAX_TAG).end()
    if layout.slot.match(s, j) or s.startswith(layout.after_name, j) or _JSON.match(s, j):
        return True
    if not layout.value_open and (element := _ELEMENT.match(s, j)) is not None:
        return element["key"] in _declared(c.sink.schema(_named(layout, m, "name"))) or element["key"] in _WRAPPERS
    if len(s) - j >= MAX_TAG:
        return False
    begun = (layout.half_after_value.match, layout.slot_begun.fullmatch, _ELEMENT_BEGUN.match, _JSON_BEGUN.fullmatch)
    return None if any(half(s, j) for half in begun) or c.begins(layout.after_name, j) else False


def _tag_alone(c: Cursor, layout: Layout, m: re.Match[str]) -> _Call:
    """The call whose opening tag, and perhaps half a slot's, end the text. Raises NotACall where it is a mention."""
    call_schema = c.sink.schema(_named(layout, m, "name")) or {}
    rest = m.string[m.end() :].strip()
    half = bool(rest) and _begins_slot(layout, rest, _declared(call_schema))
    if not (c.cut or half) and (rest or call_schema.get("required")):
        raise NotACall
    call = _Call(c, layout, _named(layout, m, "name"))
    call.half = half
    return call


def _begins_slot(layout: Layout, rest: str, declared: Mapping[str, Any]) -> bool:
    """Whether `rest` is the beginning of a slot's tag whose key, as far as it is there, is declared."""
    for head in layout.slot_heads:
        if rest.startswith(head):
            part = re.split("[=\"'> ]", rest)[-1]
            return not declared or any(key.startswith(part) or part.startswith(key) for key in declared)
    return True


def _name_alone(c: Cursor, layout: Layout, rest: str) -> Steps[_Call | None]:
    """The text ends with what may be a tool's name: a call without arguments, where the model ended by itself."""
    try:
        yield from c.more()
    except TextOver:
        name, *more = rest.split()
        if not more and not c.cut and c.sink.offered(name):
            return _Call(c, layout, name, empty=True)
        raise
    return None


def _joined(c: Cursor, layout: Layout, i: int) -> _Call | None:
    """A call whose name and first key are written without a tag between them."""
    if (m := layout.joined.match(c.s, i)) is None:
        return None
    for end in range(m.end("joined") - 1, i, -1):
        name, key = c.s[i:end], c.s[end : m.end("joined")].strip().removeprefix(layout.reopen[0])
        if c.sink.offered(name) and key in _declared(c.sink.schema(name)):
            c.i = m.end()
            call = _Call(c, layout, name)
            call.repaired = True
            call.first_key = key
            return call
    return None


def _declared(schema: Mapping[str, Any] | None) -> Mapping[str, Any]:
    properties = (schema or {}).get("properties")
    return properties if isinstance(properties, Mapping) else {}


def _named(layout: Layout, m: re.Match[str], group: str) -> str:
    written = m.group(group).strip()
    return without_entities(written) if layout.entities else written


def _object(text: str) -> tuple[str, AbstractSet[str]]:
    """The JSON object in `text`, repaired where necessary, and its keys; nothing where there is none."""
    found = repaired_json(text.strip()) if text.lstrip().startswith("{") else None
    try:
        return (found, decode(found).keys()) if found else ("", frozenset())
    except (ValueError, RecursionError):
        return "", frozenset()


class _Call:
    """One call while it is read. `closed_all`: its closing tag closed all calls."""

    __slots__ = (
        "args", "c", "closed_all", "cut", "empty", "first", "first_key", "half", "in_value", "layout", "parameters",
        "repaired", "seen", "whole",
    )  # fmt: skip

    def __init__(self, c: Cursor, layout: Layout, name: str, *, empty: bool = False) -> None:
        self.c, self.layout, self.empty = c, layout, empty
        self.parameters = c.sink.schema(name) if name else None
        self.args: CallArguments | None = None
        self.first_key = ""
        self.whole = False  # the arguments are one JSON object
        self.first = True
        self.half = False  # the text is over in the first slot's tag
        self.in_value = self.repaired = self.cut = self.closed_all = False
        self.seen: set[str] = set()
        c.sink.start(name)

    def read(self) -> Steps[None]:
        """The call, after its opening tag."""
        try:
            if self.first_key:
                yield from self._slot(self.first_key)
            if self.empty:
                self._end()
            else:
                yield from self._slots()
        except TextOver:
            self._text_over()
        yield

    def _text_over(self) -> None:
        """A call that ends in a value, or whose model was cut off, is cut; any other is closed."""
        args, sink = self.args, self.c.sink
        if self.c.cut or self.half or self.in_value or (args is not None and args.is_cut):
            sink.args(args.release() if args is not None else "{" if self.first else "")
            sink.end(complete=False, repaired=True, closing=())
            return
        if args is not None:
            sink.args(args.close())
        self._end(closed=self.layout.open_end)

    def _end(self, close: str = "", *, closed: bool = True) -> None:
        """close: the tag that ended the call. closed: nothing is missing after its arguments."""
        self.c.sink.args("" if self.whole else "{}" if self.first else "}")
        self.closed_all = bool(close) and close == self.layout.close
        closing = (close,) if self.repaired else None  # else the arguments need no repair
        self.c.sink.end(complete=not self.cut, repaired=self.repaired or not closed, closing=closing)

    def _slots(self) -> Steps[None]:
        """Slot after slot, up to the call's end."""
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
                yield from self._slot(_named(layout, m, "key"), m.groupdict().get("kind"))
                continue
            if s.startswith(layout.after_call, i):
                c.i = i
                self._end(closed=False)
                return
            if c.take(layout.noise, i):
                continue
            half = not c.last and len(s) - i < MAX_TAG
            if char == "<" and not (self.whole or layout.value_open):
                m = _ELEMENT.match(s, i)
                if m is not None and m["key"] in _declared(self.parameters) and m["key"] not in self.seen:
                    c.i = m.end()
                    self.repaired = True
                    yield from self._slot(m["key"], layout=layout.element(m["key"]))
                    continue
                if half and m is None and _ELEMENT_BEGUN.match(s, i):
                    yield from c.more()
                    continue
            if self.first and not self.whole and (yield from self._json(i)):
                continue
            if half and (layout.half_after_value.match(s, i) or layout.slot_begun.fullmatch(s, i)):
                yield from c.more()
                continue
            # Text between the tags of a call belongs to no argument: skip it up to the next tag.
            self.repaired = True
            found = layout.tag_char.search(s, i + 1)
            c.i = len(s) if found is None else found.start()

    def _json(self, i: int) -> Steps[bool]:
        """Read what is at `i` of arguments as one JSON object in place of slots; False where it is something else."""
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
        self.cut = args.cut
        self.repaired = self.repaired or args.repaired
        self.args = None
        return True

    def _slot(self, key: str, kind: str | None = None, layout: Layout | None = None) -> Steps[None]:
        """One slot, after its opening tag: its value, up to the end of its closing tag."""
        c, layout = self.c, layout or self.layout
        declared = _declared(self.parameters)
        wraps = self.first and key in _WRAPPERS and bool(declared) and key not in declared
        value = SlotValue(self.layout, declared_types(self.parameters, key), kind, whole=wraps)
        self.seen.add(key)
        self.in_value = True
        if not wraps:
            self._lead(key, value)
        if layout.value_open:
            yield from self._value_tag(value)
        closed = yield from self._value(value, layout)
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
        """Whether `text` is an object of declared parameters: then its members are the arguments."""
        found, keys = _object(text)
        if not keys or not keys <= _declared(self.parameters).keys():
            return False
        self.first = False
        self.repaired = True
        self.seen.update(keys)
        self.c.sink.args(found.rstrip()[:-1])
        return True

    def _value_tag(self, value: SlotValue) -> Steps[None]:
        """The tag that opens a value after its key, which may be missing; the key's closing tag may be doubled."""
        c, layout = self.c, self.layout
        while True:
            i = c.behind_space()
            if i == len(c.s):
                c.i = i
                yield from c.more()
            elif c.take((layout.value_open,), i):
                return
            elif c.take((layout.key_close,), i):
                self.repaired = True
            elif not c.last and c.begins((layout.value_open, layout.key_close), i):
                yield from c.more()
            else:
                c.i = i
                self.repaired = True
                value.begin_untagged()
                return

    def _value(self, value: SlotValue, layout: Layout) -> Steps[bool]:
        """The text of a value, up to the end of its closing tag; whether it has one."""
        c = self.c
        while c.i == len(c.s) or (start := value.begin(c.s, c.i, last=c.last)) < 0:
            yield from c.more()
        at = c.i = start
        while True:
            s = c.s
            found = layout.value_end.search(s, k) if (k := s.find("<", at)) >= 0 else None
            k = len(s) if found is None else found.start()
            verdict = None if found is None else self._closes(value, layout, s, k, start)
            if verdict == -1:
                at = value.pass_tag(s, k)
                continue
            c.sink.args(value.take(s[start:k]))
            c.i = k
            if verdict is None:
                if found is None:
                    c.sink.flows(value)
                yield from c.more()
            elif layout.xml and s.startswith(CDATA, k):
                c.i = verdict
                yield from self._section(value)
            else:
                c.i = verdict
                return verdict > k
            start = at = c.i

    def _closes_nested(self, layout: Layout, s: str, k: int, *, last: bool) -> int | None:
        """Whether a closing tag, which ends at `k`, ends the value although a tag in it is open: as `_closes`.

        It does where another declared slot follows, or the end of all calls.
        """
        j = WHITE_SPACE.match(s, k, k + MAX_TAG).end()
        m = layout.slot.match(s, j)
        if m is not None:
            key = _named(layout, m, "key")
            return k if key in _declared(self.parameters) and key not in self.seen else -1
        half = layout.half_after_value.match(s, j) or layout.slot_begun.fullmatch(s[j : j + MAX_TAG])
        if half and not last:
            return None
        over = self._all_over(layout, s, j, last=last)
        return None if over is None else k if over else -1

    def _all_over(self, layout: Layout, s: str, k: int, *, last: bool) -> bool | None:
        """Whether nothing but closing tags, the turn's end or the next call is at `k`; None where more is needed."""
        for tag in (layout.call_close, layout.close if layout.close != layout.call_close else ""):
            k = WHITE_SPACE.match(s, k, k + MAX_TAG).end()
            if tag and s.startswith(tag, k):
                k += len(tag)
            elif tag and not last and tag.startswith(s[k : k + _LOOK]):
                return None
            elif tag == layout.call_close and k < len(s):
                return False
        k = WHITE_SPACE.match(s, k, k + MAX_TAG).end()
        if k == len(s):
            return True if last else None
        if s.startswith((*layout.tails, *layout.opens_call, *layout.reopen), k):
            return True
        return None if not last and layout.half_after_call.match(s, k) else False

    def _section(self, value: SlotValue) -> Steps[None]:
        """Inside a CDATA section: up to its end."""
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

    def _closes(self, value: SlotValue, layout: Layout, s: str, k: int, start: int) -> int | None:
        """What the `<` at `k` is: an index to go on from where it ends the value, -1 where not, None where it may."""
        last, rest = self.c.last, s[k : k + MAX_TAG]
        if rest.startswith(layout.value_close):
            if value.nested:
                return self._closes_nested(layout, s, k + len(layout.value_close), last=last)
            return layout.fits(s, k + len(layout.value_close), last=last, nested=value.nested > 0)
        if layout.xml and rest.startswith(CDATA):
            return k + len(CDATA)
        if not last and (layout.value_close.startswith(rest) or (layout.xml and CDATA.startswith(rest))):
            return None
        ends = self._call_ends_in(value, layout, s, k, start)
        return self._slot_begins_in(value, layout, s, k, start) if ends == -1 else ends

    def _call_ends_in(self, value: SlotValue, layout: Layout, s: str, k: int, start: int) -> int | None:
        """The same of a tag that ends the call: the value's closing tag may be missing."""
        last, rest = self.c.last, s[k : k + MAX_TAG]
        for tag in layout.call_end_tags:
            if not rest.startswith(tag):
                if tag.startswith(rest) and not last:
                    return None
                continue
            if value.calls and tag == layout.call_close:
                over = self._all_over(layout, s, k, last=last)
                if over is not True:
                    return -1 if over is False else None
            ends = layout.ends_there(s, k + len(tag), last=last, tail=tag in layout.tails)
            if ends is None:
                return None
            own_line = value.own_line(s, k, start)
            if ends or (own_line and tag == layout.call_close and not layout.close):
                self.repaired = True
                return k
        return -1

    def _slot_begins_in(self, value: SlotValue, layout: Layout, s: str, k: int, start: int) -> int | None:
        """The same of the tag of a declared slot, on its own line."""
        last, rest = self.c.last, s[k : k + MAX_TAG]
        if not last and any(head.startswith(rest) for head in layout.openings):
            return None  # where it opens no slot, it is one within the value: `nested`
        own_line = value.own_line(s, k, start)
        if own_line or not value.lined:
            m = layout.slot.match(s, k)
            if m is not None:
                key, declared = _named(layout, m, "key"), _declared(self.parameters)
                if key not in self.seen and (key in declared or (own_line and not declared)):
                    self.repaired = True
                    return k
            elif not last and len(rest) < MAX_TAG and layout.slot_begun.fullmatch(rest):
                return None
        return -1


def without_entities(text: str) -> str:
    """`text` with the characters that XML's entities stand for."""
    return _ENTITY.sub(lambda found: _ENTITIES[found.group()], text)


class SlotValue:
    """The values of a reader, one after another. Reads on as `sink.ArgumentsReader` does, while one streams.

    streams: what is read leaves as a JSON string whose first quote has left.
    lined: a newline has opened the value. nested: how many parameters' tags are open in its text.
    """

    done = False
    tail = ""
    __slots__ = (
        "_begun", "_crlf", "_held", "_last", "_layout", "_newlines", "_parts", "_quoted", "_types", "_whole",
        "calls", "lined", "nested", "streams",
    )  # fmt: skip

    def __init__(self, layout: Layout, types: frozenset[str], kind: str | None, *, whole: bool) -> None:
        """types: the declared ones. kind: the type that the tag says. whole: the caller reads `text` at the end."""
        self._layout = layout
        # Said to be JSON where a string is declared: its quotes are markup.
        self._quoted = kind == "false" and types == STRING
        self._types = STRING if kind in {"true", "string"} else types
        self._newlines = layout.newlines and kind is None  # who writes the type writes the value as it is
        self._whole = whole
        self.streams = self._types == STRING and not self._quoted and not whole
        self._parts: list[str] = []
        self._held = ""  # what may not belong to the value: a newline at its end, half an entity
        self._begun = False
        self.lined = False
        self.nested = self.calls = 0
        self._crlf = False  # that newline has two characters
        self._last = ""

    def begin(self, s: str, i: int, *, last: bool) -> int:
        """The index behind the newline that opens the value, where one does; -1 while there is no telling."""
        if self._begun:
            return i
        if s[i] == "\r" and i + 1 == len(s) and not last:
            return -1
        self._begun = True
        start = i
        if self._newlines:
            self._crlf = s.startswith("\r\n", i)
            start += 2 if self._crlf else s[i] == "\n"
            self.lined = start > i
        self._last = "\n" if self.lined else ""
        return start

    def begin_untagged(self) -> None:
        """The value's opening tag is missing: what follows begins it, as it would begin a line."""
        self._begun = True
        self._last = "\n"

    def own_line(self, s: str, k: int, start: int) -> bool:
        """Whether what stands at `s[k]` begins a line. start: where in `s` the value begins or goes on."""
        return (s[k - 1] if k > start else self._last) == "\n"

    def pass_tag(self, s: str, k: int) -> int:
        """The tag that begins at `s[k]` belongs to the value's text; returns the index behind its first character."""
        layout = self._layout
        if layout.opens_value.match(s, k):
            self.nested += 1
        elif s.startswith(layout.opens_call, k):
            self.calls += 1
        elif self.nested and s.startswith(layout.value_close, k):
            self.nested -= 1
        elif self.calls and s.startswith(layout.call_close, k):
            self.calls -= 1
        return k + 1

    def take(self, text: str) -> str:
        """More of the value; returns what leaves. A newline at its end waits: it may be markup."""
        self._last = text[-1:] or self._last
        text = self._held + text
        self._held = ""
        if self._layout.xml and "&" in text:
            m = _ENTITY_PART.search(text, max(0, len(text) - 5))
            self._held = text[m.start() :] if m else ""
            text = without_entities(text[: len(text) - len(self._held)])
        if not self._held:
            self._held = "\r\n" if text.endswith("\r\n") else text[-1:] if text.endswith(("\n", "\r")) else ""
            if self._held:
                text = text[: -len(self._held)]
        return self._say(text)

    def take_section(self, text: str, *, closed: bool) -> str:
        """More of the value, from a CDATA section: nothing in it is markup. closed: the section ends here."""
        self._held, held = "", self._held
        self.lined = self._crlf = closed and self._newlines
        return self._say(held + text)

    def end(self, *, closed: bool) -> str:
        """The value is over, by its closing tag or without. Returns what leaves, with the quote if it streams."""
        held, self._held = self._held, ""
        left = ""
        if held not in ("\n", "\r\n") or (closed and not self.lined):
            left = self._say(held)
        elif held == "\r\n" and closed and not self._crlf:
            left = self._say("\r")  # the line that opened the value ended without one
        return left + '"' if self.streams else left

    def text(self) -> str:
        """All of a value that does not stream, as it was written."""
        return "".join(self._parts)

    def json(self) -> str:
        """All of a value that does not stream, as JSON of a declared type."""
        text = self.text()
        return text.strip() if self._quoted and is_json(text, str) else json_of(text, self._types)

    def _say(self, text: str) -> str:
        """What leaves for `text` of the value."""
        if self.streams:
            return quoted(text)
        if text:
            self._parts.append(text)
            if self._types == _OR_NULL and not self._quoted and not self._whole:
                # A string as soon as it cannot be null.
                value = "".join(self._parts)
                if len(value) > _LOOK or not "null".startswith(value.strip()):
                    self.streams = True
                    return '"' + quoted(value)
        return ""

    # -- a value that goes on: see `ArgumentsReader` -----------------------------------------------------------------

    def run(self, text: str) -> str | None:
        """What leaves for more of the value; None where a tag may stand in it."""
        return self.take(text) if "<" not in text else None

    def leave(self, text: str) -> tuple[str, str]:
        """Where a tag may stand, the value may end: the reader of the tags reads it."""
        return "", text
