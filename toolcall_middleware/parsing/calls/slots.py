"""Calls whose arguments are slots: `<function=f><parameter=x>1</parameter></function>` and its relatives.

Values are bare text. A value whose declared type is string is emitted as it arrives; any other value is held and
emitted as JSON when its closing tag has come. A closing tag counts only where the text after it fits, so a value may
contain tags. A value without a closing tag ends at the next tag that cannot be part of it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from ..cursor import Cursor, NotACall, Steps, TextOver, Undecided
from ..patterns import half, half_of
from ..values.json_reader import decoded, quoted
from ..values.typing import STRING, Places, is_json, json_of, repaired_json
from .call_arguments import CallArguments
from .slot_layout import CDATA, CDATA_END, MAX_TAG, Layout, after_space, ends, without_entities

# JSON arguments may be in a code block, in a string, or in a list.
_FENCE = re.compile(r"`{3}[a-z]{0,16}[ \t]{0,16}\r?\n")
_OBJECT = re.compile(r"(?:[\"']|(?P<list>\[[ \t\r\n]{0,16}))?\{")
_JSON = re.compile(rf"{_FENCE.pattern}|{_OBJECT.pattern}|null(?=[ \t\r\n<])")
_ELEMENT = re.compile(r"<(?P<key>[\w.\-]{1,64})>")
_ENTITY_PART = re.compile(r"&[a-z]{0,4}\Z")
# Undeclared parameters that hold all arguments as one object.
_WRAPPERS = frozenset({"arguments", "args", "input", "parameters", "params", "properties"})
_WRAPPED = tuple(f"</{name}>" for name in sorted(_WRAPPERS))
_OR_NULL = frozenset({"string", "null"})
_LOOK = 64


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
        if (yield from call.read()):
            return


def _opening(c: Cursor, layout: Layout, *, first: bool) -> Steps[_Call | None]:
    """Read a call's opening tag: the call, which has started. None where the calls are over."""
    noise, bare = layout.d.noise, layout.d.bare
    while True:
        s, committed = c.s, c.sink.committed
        j = c.after_space(MAX_TAG)
        if layout.close and s.startswith(layout.close, j):
            c.i = j + len(layout.close)
            if first and not layout.reopen:
                # Tags without a call between them are markup where a tag or the end follows.
                k = yield from c.decided(("<",), None)
                if k < len(c.s) and c.s[k] != "<":
                    raise NotACall
                c.sink.accept()
            return None
        if c.take(noise, j):
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
        begun = half_of(layout.call).match(s, j) or half_of(layout.joined).match(s, j)
        begun = begun or (None if bare else half_of(_ELEMENT).match(s, j))
        if begun and c.last and bare and rest and short:
            return (yield from _name_alone(c, layout, rest))
        half_tag = any(close.startswith(rest) for close in (layout.close, *noise))
        half_tag = half_tag or (committed and layout.half_close.match(s, j) is not None)
        if not c.last and short and (begun or half_tag):
            yield from c.more()
            continue
        if not committed:
            raise NotACall
        if (m := layout.odd(layout.close).match(s, j)) is not None:
            c.i = m.end()
        elif c.last and rest and half_tag:
            c.i = len(s)  # half a closing marker at the end of the text is markup too
        return None


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
        if c.sink.offered(name) and key in (call := _Call(c, layout, name, first_key=key)).declared:
            return call.begin(m.end())
    return None


class _Call:
    """One call, from its opening tag on."""

    __slots__ = (
        "after", "args", "c", "declared", "empty", "first", "first_key", "half", "in_value", "layout", "name",
        "parameters", "places", "repaired", "seen",
    )  # fmt: skip

    def __init__(
        self, c: Cursor, layout: Layout, name: str, *, empty: bool = False, after: int = 0, first_key: str = ""
    ) -> None:
        """after: the index after its opening tag. first_key: that of a slot whose opening tag is missing."""
        self.c, self.layout, self.name, self.empty, self.after = c, layout, name, empty, after
        self.parameters = c.sink.schema(name) or {}
        properties = self.parameters.get("properties")
        self.declared: Mapping[str, Any] = properties if isinstance(properties, Mapping) else {}
        self.places = Places(self.parameters)
        self.args: CallArguments | None = None  # where the arguments are one JSON object
        self.first = True
        self.half = False  # the text is over in the first slot's tag
        self.in_value = False
        self.first_key, self.repaired = first_key, bool(first_key)
        self.seen: set[str] = set()

    @classmethod
    def at(cls, c: Cursor, layout: Layout, j: int) -> _Call | None:
        """The call whose opening tag is at `j`: a call's, or a tag with an offered tool's name. None where neither is
        there.
        """
        if layout.d.bare and c.sink.committed:
            return None
        m = layout.call.match(c.s, j)
        if m is not None:
            empty = bool(m.groupdict().get("empty"))
            return cls(c, layout, layout.name_in(m, "name"), empty=empty, after=m.end())
        m = None if layout.d.bare else _ELEMENT.match(c.s, j)
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
        j = after_space(s, self.after)
        if s.startswith(layout.after_name, j):
            # Names such as `search` are HTML's, too: an empty element is no call of a tool that needs an argument.
            return not (layout.in_tag and self._needs_some)
        if layout.slot.match(s, j) or _JSON.match(s, j):
            return True
        if not layout.value_open and (element := _ELEMENT.match(s, j)) is not None:
            return layout.d.free or element["key"] in self.declared or element["key"] in _WRAPPERS
        begun = layout.may_go_on(s, j) or half_of(_ELEMENT).match(s, j) or half_of(_JSON).match(s, j)
        if len(s) - j < MAX_TAG and (begun or c.begins(layout.after_name, j)):
            raise Undecided
        return False

    @property
    def _needs_some(self) -> bool:
        """Whether the tool needs an argument."""
        return bool(self.parameters.get("required"))

    def begin(self, end: int | None = None) -> _Call:
        """Start the call; go to `end`."""
        self.c.i = self.c.i if end is None else end
        self.c.start(self.name)
        return self

    def alone(self, rest: str) -> _Call:
        """Start the call, after whose opening tag nothing but `rest` is in the text, perhaps half a slot's tag.

        Raises NotACall for a mention.
        """
        if rest.startswith(self.layout.slot_heads):
            part = re.split("[=\"'> ]", rest)[-1]  # of a key: it must begin a declared one
            self.half = not self.declared or any(key.startswith(part) or part.startswith(key) for key in self.declared)
        else:
            self.half = bool(rest)
        mention = not (self.c.cut or self.half) and (rest or self._needs_some)
        if mention or self.layout.in_tag:
            raise NotACall
        return self.begin()

    def read(self) -> Steps[bool]:
        """Read the call after its opening tag. Returns whether its closing tag closed all calls."""
        try:
            if self.first_key:
                yield from self._slot(self.first_key)
            return self._end() if self.empty else (yield from self._slots())
        except TextOver:
            self._text_over()
            return False

    def _text_over(self) -> None:
        """End the call with the text. It is cut if it ends in a value or the model was cut off, else closed."""
        args, sink = self.args, self.c.sink
        if self.c.cut or self.half or self.in_value or (args is not None and args.is_cut):
            sink.args(args.release() if args is not None else "{" if self.first else "")
            self.c.end(complete=False, repaired=True, closing=())
            return
        if args is not None:
            sink.args(args.close())
        self._end(closed=self.layout.d.open_end)

    def _end(self, close: str = "", *, closed: bool = True) -> bool:
        """End the call. close: the tag that ended it. closed: nothing is missing after its arguments.

        Returns whether the tag closed all calls.
        """
        self.c.sink.args("" if self.args else "{}" if self.first else "}")
        closing = (close,) if self.repaired else None  # else the arguments need no repair
        self.c.end(repaired=self.repaired or not closed, closing=closing)
        return bool(close) and close == self.layout.close

    def _slots(self) -> Steps[bool]:
        """Read slot after slot, up to the call's end. Returns whether its closing tag closed all calls."""
        while True:
            found = yield from self.c.ask(self._next)
            if isinstance(found, bool):
                return found
            if found is not None:
                yield from found

    def _next(self) -> Steps[None] | bool | None:
        """Go past what is here, and end the call where it ends: then whether its closing tag closed all calls.

        Else the reader of what follows, if that is a slot or JSON. Raises Undecided.
        """
        c, layout = self.c, self.layout
        s, i = c.s, c.after_space()
        if i == len(s):
            c.i = i
            raise Undecided
        if close := c.take(layout.call_closes, i):
            return self._end(close)
        if not self.args and (m := layout.slot.match(s, i)) is not None:
            c.i = m.end()
            # A key that the value's tag ends, or one that closes a value.
            self.repaired = self.repaired or layout.key_close not in m.group()
            return self._slot(layout.name_in(m, "key"), m.groupdict().get("kind"))
        if s.startswith(layout.after_call, i):
            c.i = i
            return self._end(closed=False)
        if c.take(layout.d.noise, i):
            return None
        if (m := layout.odd(layout.call_close).match(s, i)) is not None:
            c.i = m.end()
            self.repaired = True
            return self._end(layout.call_close)
        if not (self.args or layout.value_open) and (m := c.found(_ELEMENT, i)) is not None:
            if (layout.d.free or m["key"] in self.declared) and m["key"] not in self.seen:
                c.i = m.end()
                self.repaired = self.repaired or not layout.in_tag
                others = ("<",) if layout.d.free else (*(f"<{key}>" for key in self.declared), *_WRAPPED)
                return self._slot(m["key"], layout=layout.element(m["key"], others))
        if self.first and not self.args:
            if (m := c.found(_FENCE, i)) is not None:
                c.i = m.end()
                return None
            if not self.repaired and (m := c.found(_OBJECT, i)) is not None:
                c.i = i + len(m["list"] or "")
                return self._json()
        c.wait(len(s) - i < MAX_TAG and (layout.may_go_on(s, i) or layout.half_close.match(s, i)))
        # Text between the tags of a call belongs to no argument: skip it up to the next tag.
        self.repaired = True
        found = layout.tag_char.search(s, i + 1)
        c.i = len(s) if found is None else found.start()
        return None

    def _json(self) -> Steps[None]:
        """Read one JSON object in place of slots."""
        c, layout = self.c, self.layout
        closing = tuple(dict.fromkeys(filter(None, (layout.value_close, layout.call_close, layout.close))))
        args = self.args = CallArguments(c.s[c.i], closing, c.sink.arguments)
        self.first = False
        yield from c.copy(args)
        self.repaired = self.repaired or args.repaired

    def _slot(self, key: str, kind: str | None = None, layout: Layout | None = None) -> Steps[None]:
        """Read a slot after its opening tag, up to the end of its closing tag."""
        c = self.c
        wraps = self.first and key in _WRAPPERS and bool(self.declared) and key not in self.declared
        value = _Value(self, layout or self.layout, key, self.places.argument(key), kind, wraps=wraps)
        self.seen.add(key)
        self.in_value = True
        if not wraps:
            self._lead(key, value)
        if value.layout.value_open:
            yield from self._value_tag(value)
        closed = yield from value.read()
        self.in_value = False
        c.sink.args(value.end(closed=closed))
        if value.streams:
            return
        if wraps:
            if self._unwrap(value.text()):
                return
            self._lead(key, value)
        c.sink.args(value.json())

    def _lead(self, key: str, value: _Value) -> None:
        lead = "{" if self.first else ", "
        self.first = False
        self.c.sink.args(f'{lead}"{quoted(key)}": ' + ('"' if value.streams else ""))

    def _unwrap(self, text: str) -> bool:
        """Emit the members of `text` as arguments, if it is an object of declared parameters. Returns whether it is."""
        found = repaired_json(text.strip()) or ""
        members = decoded(found)
        if not isinstance(members, dict) or not members or not members.keys() <= self.declared.keys():
            return False
        self.first = False
        self.repaired = True
        self.seen.update(members)
        self.c.sink.args(found.rstrip()[:-1])
        return True

    def _value_tag(self, value: _Value) -> Steps[None]:
        """Read the tag that opens a value after its key. It may be missing; the key's closing tag may be doubled."""
        c, opening, key_close = self.c, self.layout.value_open, self.layout.key_close
        tag = key_close
        while tag == key_close:
            yield from c.char()  # white space that has been read is not read again with the next piece
            tag = yield from c.marker((opening, key_close), None)
            self.repaired = self.repaired or tag != opening
        if not tag:
            value.opening = ""  # what follows begins the value as it would begin a line
            value.before = "\n"


class _Value:
    """The value of a slot: the JSON for its text, and the tag that ends it.

    A string is emitted as it arrives, any other value when it is complete. streams: text is emitted as a JSON string
    whose first quote was emitted. opening: the line break that opened the value; None before it begins. before: the
    last character of the text that was read, or of the opening.
    """

    __slots__ = (
        "_calls", "_held", "_key", "_markup", "_nested", "_newlines", "_parts", "_quoted", "_types", "_wraps", "before",
        "c", "call", "layout", "opening", "streams",
    )  # fmt: skip

    def __init__(
        self, call: _Call, layout: Layout, key: str, types: frozenset[str], kind: str | None, *, wraps: bool
    ) -> None:
        """types: the declared ones. kind: the type that the tag says. wraps: the value may hold all arguments."""
        self.call, self.c, self.layout, self._key = call, call.c, layout, key
        # Said to be JSON where a string is declared: its quotes are markup.
        self._quoted = kind == "false" and types == STRING
        self._types = STRING if kind in {"true", "string"} else types
        self._newlines = not layout.exact and kind is None  # who writes the type writes the value as it is
        self._wraps = wraps
        self.streams = self._types == STRING and not self._quoted and not wraps
        self._parts: list[str] = []
        self._held = ""  # text that may not belong to the value: a newline at its end, half an entity
        self.opening: str | None = None
        self.before = ""
        self._markup: bool | None = None  # whether the value begins with a tag
        self._nested = self._calls = 0  # tags of slots and calls that are open in its text

    def read(self) -> Steps[bool]:
        """Read the value up to the end of its closing tag. Returns whether it has one."""
        c = self.c
        yield from c.some()
        if self.opening is None:
            while not c.last and c.s[c.i :] == "\r":
                yield from c.more()
            self.opening = next((line for line in ("\n", "\r\n") if self._newlines and c.s.startswith(line, c.i)), "")
            self.before = self.opening[-1:]
            c.i += len(self.opening)
        start = at = c.i
        while True:
            s, found = c.s, self.layout.value_end.search(c.s, at)
            k = len(s) if found is None else found.start()
            try:
                end = None if found is None else self._end_at(s, k, start)
            except Undecided:
                end = None
            if end == -1:
                self._count(s, k)
                at = k + 1
                continue
            c.i = k
            c.sink.args(self._take(s[start:k]))
            if end is None:
                if found is None:
                    c.sink.flows(self._within)
                yield from c.more()
            else:
                c.i = end
                if not (self.layout.d.xml and s.startswith(CDATA, k)):
                    return end > k
                yield from self._section()
            start = at = c.i

    def _section(self) -> Steps[None]:
        """Read a CDATA section up to its end. Nothing in it is markup."""
        c, closed = self.c, False
        while not closed:
            s, i = c.s, c.i
            k = s.find(CDATA_END, i)
            closed, end = k >= 0, k if k >= 0 else len(s)
            if not (closed or c.last):
                end = max(i, end - (2 if s.endswith("]]") else s.endswith("]")))
            held, self._held = self._held, ""
            self.opening = "\n" if closed and self._newlines else ""
            c.sink.args(self._say(held + s[i:end]))
            c.i = end + len(CDATA_END) * closed
            if not closed:
                yield from c.more()

    # -- the text --------------------------------------------------------------------------------------------------

    def _take(self, text: str) -> str:
        """Take more of the value; returns the JSON to emit. A newline at its end is held back: it may be markup."""
        self.before = text[-1:] or self.before
        self._is_markup(text)
        text = self._held + text
        self._held = ""
        if self.layout.d.xml and "&" in text:
            m = _ENTITY_PART.search(text, max(0, len(text) - 5))
            self._held = text[m.start() :] if m else ""
            text = without_entities(text[: len(text) - len(self._held)])
        if not self._held:
            self._held = "\r\n" if text.endswith("\r\n") else text[-1:] if text.endswith(("\n", "\r")) else ""
            text = text[: len(text) - len(self._held)]
        return self._say(text)

    def _within(self, text: str) -> str | None:
        """See `Flow`."""
        return None if "<" in text else self._take(text)

    def _say(self, text: str) -> str:
        """The JSON to emit for `text` of the value."""
        if self.streams:
            return quoted(text)
        if text:
            self._parts.append(text)
            if self._types == _OR_NULL and not self._quoted and not self._wraps:
                # A string as soon as it cannot be null.
                value = self.text()
                if len(value) > _LOOK or not "null".startswith(value.strip()):
                    self.streams = True
                    return '"' + quoted(value)
        return ""

    def end(self, *, closed: bool) -> str:
        """End the value, with or without its closing tag. Returns the JSON to emit, with the quote if it streams."""
        held = self._held
        if held.endswith("\n") and (self.opening or not closed):
            # The line break is markup. One that is longer than the first is so in part.
            held = held[: -len(self.opening)] if closed and self.opening else ""
        said = self._say(held)
        return said + '"' if self.streams else said

    def text(self) -> str:
        """All of a value that does not stream, as it was written."""
        return "".join(self._parts)

    def json(self) -> str:
        """All of a value that does not stream, as JSON of a declared type."""
        text = self.text()
        return text.strip() if self._quoted and is_json(text, str) else json_of(text, self._types)

    def _is_markup(self, more: str) -> bool:
        """Whether the value begins with a tag; `more` is text that was not taken yet."""
        if self._markup is None and (bare := more.lstrip()):
            self._markup = bare[0] == "<"
        return bool(self._markup)

    def _count(self, s: str, k: int) -> None:
        """Count the tag at `s[k]`, which is part of the value's text."""
        layout = self.call.layout
        if layout.opens_value.match(s, k):
            self._nested += 1
        elif s.startswith(layout.opens_call, k):
            self._calls += 1
        elif self._nested and s.startswith(layout.value_close, k):
            self._nested -= 1
        elif self._calls and s.startswith(layout.call_close, k):
            self._calls -= 1

    # -- the tag that ends it --------------------------------------------------------------------------------------
    # Each of these raises Undecided. An index is the one to go on from, and -1 where the tag is text.

    def _end_at(self, s: str, k: int, start: int) -> int:
        """The index for the `<` at `s[k]`. start: where in `s` the value begins or goes on."""
        layout, c = self.layout, self.c
        if s.startswith(layout.value_close, k):
            return self._closing(s, k + len(layout.value_close))
        if layout.d.xml and s.startswith(CDATA, k):
            return k + len(CDATA)
        c.wait(layout.half_close.match(s, k) or (layout.d.xml and c.begins((CDATA,), k)))
        end = -1
        own = f"</{self._key}>"
        if (m := layout.odd(layout.value_close).match(s, k)) is not None:  # `</parameter/>`
            end = layout.fits(c, m.end(), doubled=False)
        elif layout.value_close.startswith("</") and s.startswith(own, k) and not self._is_markup(s[start:k]):
            end = layout.fits(c, k + len(own), doubled=False)
        if end < 0:
            own_line = (s[k - 1] if k > start else self.before) == "\n"
            end = k if self._call_ends(s, k, own_line=own_line) or self._slot_begins(s, k, own_line=own_line) else -1
        self.call.repaired = self.call.repaired or end >= 0
        return end

    def _closing(self, s: str, k: int) -> int:
        """The index for the value's own closing tag, which ends at `k`.

        Where tags in the value are open, it ends the value if another declared slot follows, or the end of all calls.
        """
        layout, c = self.layout, self.c
        if not self._nested:
            return layout.fits(c, k)
        j = after_space(s, k)
        if (m := layout.slot.match(s, j)) is not None:
            ended = self._is_next(layout.name_in(m, "key"))
        else:
            c.wait(layout.may_go_on(s, j))
            ended = layout.all_over(c, j)
        return k if ended else -1

    def _is_next(self, key: str) -> bool:
        """Whether a slot with this key, which is declared, may follow."""
        return key in self.call.declared and key not in self.call.seen

    def _call_ends(self, s: str, k: int, *, own_line: bool) -> bool:
        """Whether the tag ends the call: the value's closing tag may be missing."""
        layout, c = self.layout, self.c
        c.wait(half(layout.call_end_tags).match(s, k))
        tag = next((tag for tag in layout.call_end_tags if s.startswith(tag, k)), "")
        if not tag or (self._calls and tag == layout.call_close and not layout.all_over(c, k)):
            return False
        follow = layout.tails if tag in layout.tails else (*layout.after_call, *layout.d.noise)
        if ends(c, k + len(tag), follow):
            return True
        return tag == layout.call_close and not layout.close and own_line

    def _slot_begins(self, s: str, k: int, *, own_line: bool) -> bool:
        """Whether the tag opens a declared slot, on its own line."""
        layout, c, rest = self.layout, self.c, s[k : k + MAX_TAG]
        # Where it opens no slot, it is one within the value: `_nested`.
        c.wait(any(head.startswith(rest) for head in layout.openings))
        if self.opening and not own_line:
            return False
        m = c.found(layout.slot, k)
        if m is None:
            return False
        key = layout.name_in(m, "key")
        return self._is_next(key) or (own_line and not self.call.declared and key not in self.call.seen)
