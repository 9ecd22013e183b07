"""Calls whose name is outside of the JSON: `f[ARGS]{…}`, `<|tool_call_begin|>functions.f:0<|…|>{…}`."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from dataclasses import dataclass

from ..cursor import MAX_GAP, Cursor, NotACall, Steps
from ..patterns import TOOL_NAME, WHITE_SPACE
from .call_arguments import CallArguments

_OBSERVATION = "Observation:"
FENCE = re.compile(r"`{3,}[A-Za-z_]*[ \t]*\r?\n?")
_MAX_NAME = 400
_NEVER = re.compile("(?!)")
_MARKUP = "<>{}[]`|"


Identify = Callable[[str, Callable[[str], bool]], tuple[str, str | None]]
"""A written name, and whether a name is offered, to (name, id)."""

_PLAIN_TAG = re.compile(r"<[^<>]*>|\[[A-Z_]+\]")
_WORD = re.compile(r"[\w.]+\Z")
_SUFFIX = re.compile(r"[\w:.\-]*(?:\{number\})?[\w:.\-]*")


@dataclass(frozen=True, kw_only=True)
class NamedTags:
    """How a family writes calls. Holes of `call`: `{name}`, `{arguments}`, `{id}`, `{number}`."""

    call: str
    open: str = ""
    close: str = ""
    ends: tuple[str, ...] = ()
    """Other markers after all calls that are read."""
    alone: bool = False
    """Each call has the opening marker of its own."""
    separated: bool = False
    """What ends a name may not be missing before the arguments' brace."""
    item_missing: bool = False
    """What opens the first call may be missing."""
    noise: bool = False
    """Text before the first call is not part of the answer."""
    call_id: tuple[str, str] | None = None
    """In place of what ends a name: between these an id is read."""
    reopen: tuple[str, ...] = ()
    """No marker closes a call, so another one may follow without an opening marker. Text directly after the arguments
    of a name that no marker ended either (`f{…}and so on`) is skipped up to one of these, as vLLM does."""
    identify: Identify | None = None
    """Finds the tool of a written name. None: the layout's text around the name is removed."""


class NamedLayout:
    """A declaration, taken apart."""

    def __init__(self, d: NamedTags) -> None:
        self.d = d
        head, rest = d.call.split("{name}")
        middle, after = rest.split("{arguments}")
        self.typed, self.prefix, self.suffix, self.end = False, "", "", middle
        """The name is after `function` and a separator; the same text around each name; what ends a name."""
        self.opening, _, self.leading = head.partition("{id}")
        """What opens each call, and the marker that ends an id before the name."""
        self.leading = self.leading.strip()
        if "{id}" not in head:
            self._take_head(head)
        self.call_id = d.call_id
        """What an id follows in place of a name's end, and what ends the id."""
        if not self.typed and "{id}" in middle:
            first, _, self.end = (part.strip() for part in middle.partition("{id}"))
            self.call_id = d.call_id or (first, self.end)
        elif not self.typed:
            self._take_end(middle)
        parts = [part.strip() for part in re.findall(r"<[^<>]*>[^<>]*", self.end)]
        self.before: tuple[str, ...] = ()
        """Markers without meaning between a name's end and the arguments."""
        if len(parts) > 1 and self.end.startswith("<"):
            self.end, *before = parts
            self.before = tuple(before)
        ends = (self.end, *(self.call_id or ())[:1], "" if d.separated else "{")
        self.name_ends = tuple(dict.fromkeys(filter(None, ends)))
        """All that may end a name (`{` stays for the arguments)."""
        closing = after.replace("`", "").strip()
        tags = tuple(_PLAIN_TAG.findall(closing))
        self.item = () if d.alone else (self.opening.strip(),)
        """What opens each call; empty: the marker itself does."""
        self.item_close = tags if "".join(tags) == closing else tuple(filter(None, [closing]))
        """Closing markers of a call, of which a later one may follow an earlier one; all may be missing."""
        self.close = tuple(filter(None, (d.close.strip(), *d.ends)))
        self.closing, self.around = (*self.item_close, *self.close), (*self.item, *self.close)
        """Markers that may follow a call's arguments, and those before and after the calls."""

    def _take_head(self, head: str) -> None:
        """What opens a call, what follows that before the name, and how each name begins (`functions.`)."""
        word = _WORD.search(head)
        if word is not None and head[: word.start()].strip():
            head, self.prefix = head[: word.start()], word[0]
        self.opening = head
        tags = _PLAIN_TAG.findall(head)
        if len(tags) < 2 or not head.rstrip().endswith(tags[-1]):
            return
        first = head[: head.rindex(tags[-1])]
        kind = re.search(r"\w+\Z", first)
        if kind is not None:  # `function`, and the separator before the name, too
            self.opening, self.typed, self.end = first[: kind.start()], True, tags[-1]
        else:
            self.opening, self.leading = first, tags[-1]

    def _take_end(self, middle: str) -> None:
        """The end of the name that is always the same (`:` and a number), and what ends the name."""
        middle = middle.partition("```")[0]
        found = _SUFFIX.match(middle)
        self.suffix = found[0] if found else ""
        rest = middle[len(self.suffix) :]
        self.end = rest.strip() or ("\n" if "\n" in rest else "" if self.suffix else "{")

    def identify(self, written: str, offered: Callable[[str], bool]) -> tuple[str, str | None]:
        """The tool of a written name, without the layout's text around it. The whole is the id where numbered."""
        if self.d.identify is not None:
            return self.d.identify(written, offered)
        if not self.prefix and not self.suffix:
            return written, None
        found = self._form.fullmatch(written)
        name = written if found is None else found["name"]
        if not offered(name) and offered(written):
            name = written
        return name, written if "{number}" in self.suffix else None

    @functools.cached_property
    def _form(self) -> re.Pattern[str]:
        numbered = re.escape(self.suffix).replace(re.escape("{number}"), r"\d+")
        return re.compile(f"(?:{re.escape(self.prefix)})?(?P<name>.+?)(?:{numbered})?", re.DOTALL)


def read_named(c: Cursor, layout: NamedLayout) -> Steps[None]:
    """Read call after call, up to the closing marker."""
    fresh = another = True  # fresh: no name has been read yet
    while another and (not layout.item or (yield from c.ask(_item, c, layout, fresh=fresh))):
        name, call_id, marked = yield from c.ask(_name, c, layout)
        # The name is emitted once its arguments begin, or nothing but markup follows it: words show a mention.
        c.named = name, call_id
        first, _ = yield from _before_arguments(c, layout.before)
        fresh, lost = False, bool(layout.item_close)
        if first:
            arguments = CallArguments(first, layout.closing, c.sink.arguments)
            yield from c.call(arguments)
            lost = lost and arguments.stuck
        else:
            yield from _markup_follows(c, layout)
            c.say("{}")
            c.end()
        if lost:
            # The next marker, if it is near, shows that what is between is markup.
            m = yield from c.ask(c.near, _any_of((*layout.item_close, *layout.around)))
            if m is not None and m.start() > c.i:
                c.skip_to(m.start())
        another = yield from _after_call(c, layout, marked=marked)


def _after_space(s: str, k: int) -> int:
    """The index after the white space at `s[k]`."""
    return WHITE_SPACE.match(s, k, k + MAX_GAP).end()


def _any_of(markers: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, markers)))


def _item(c: Cursor, layout: NamedLayout, *, fresh: bool) -> bool:
    """Go past the marker that opens a call. False where none follows."""
    while True:
        j = c.after_space(MAX_GAP)
        if c.take(layout.item, j):
            return True
        if c.take(layout.close, j):
            if fresh:
                c.sink.accept()  # no call at all: nothing but markup
            return False
        begun = c.begins(layout.around, j)
        if not (layout.d.noise and fresh) or begun or j == len(c.s):
            break
        # Text before the first call: it is skipped where a call follows soon.
        m = c.near(_any_of(layout.around))
        if m is None or m.group() in layout.close:
            raise NotACall
        c.i = m.start()
    c.wait(begun)
    if c.sink.committed:
        c.i = len(c.s) if begun else c.i  # half a marker at the end of the text is markup too
        return False
    if not (layout.d.item_missing and TOOL_NAME.match(c.s, j)):
        raise NotACall
    c.i = j
    return True


def _name(c: Cursor, layout: NamedLayout) -> tuple[str, str | None, bool]:
    """A call's name and its id, and whether a marker ended the name. Raises NotACall for anything else."""
    s, i, own_id = c.s, c.i, ""
    if layout.leading:
        i = c.upto(layout.leading, _MAX_NAME, i)
        own_id = s[c.i : i - len(layout.leading)]
    j = _after_space(s, i)
    m = TOOL_NAME.match(s, j)
    if m is None:
        c.wait(j == len(s))
        raise NotACall
    written, k, marker = m.group(), _after_space(s, m.end()), ""
    if "\n" in layout.name_ends and (line := s.find("\n", m.end(), k)) >= 0:
        k, marker = line, "\n"
    else:
        marker = next((marker for marker in layout.name_ends if s.startswith(marker, k)), "")
        if not marker:
            c.wait(c.begins(layout.name_ends, k))
            raise NotACall
        k += len(marker) if marker != "{" else 0
        if layout.call_id is not None and marker == layout.call_id[0]:
            i, k = k, c.upto(layout.call_id[1], _MAX_NAME, k)
            own_id = s[i : k - len(layout.call_id[1])]
        elif layout.typed and marker != "{":
            written, k = _second_name(c, k, written)
    name, call_id = layout.identify(written, c.sink.offered)
    if not name:
        raise NotACall
    c.i = k
    return name, call_id or own_id.strip() or None, marker != "{"


def _second_name(c: Cursor, k: int, written: str) -> tuple[str, int]:
    """The name that the separator before `s[k]` ends, and the index after it."""
    s, j = c.s, _after_space(c.s, k)
    c.wait(j == len(s))
    m = None if s.startswith(("{", "`", '"'), j) else TOOL_NAME.match(s, j)
    if m is None:
        return written, k
    c.wait(m.end() == len(s))
    if m.end() == len(s):
        raise NotACall  # half a name
    if written == "function" or s[m.end()] in "\r\n{` ":
        return m.group(), m.end()
    return written, k


def _before_arguments(c: Cursor, before: tuple[str, ...] = ()) -> Steps[tuple[str, bool]]:
    """Skip white space, markers and a fence: the first character of the arguments, which is empty without any, and
    whether a fence was there.
    """
    fenced = False
    while True:
        s, j = c.s, c.after_space(MAX_GAP)
        if c.take(before, j):
            continue
        fence = FENCE.match(s, j)
        half = s.startswith("`", j) and (fence is None or fence.end() == len(s)) and len(s) - j < 32
        if j == len(s) or (not c.last and (half or c.begins((*before, "null"), j))):
            yield from c.more()
        elif fence is not None:
            c.i, fenced = fence.end(), True
        elif s[j] in "{[\"'" or s.startswith("null", j):
            c.i = j
            return s[j], fenced
        else:
            if c.begins(before, j):
                c.i = len(s)  # half a marker at the end of the text is markup too
            return "", fenced  # the closing marker, the next call, or something else


def _markup_follows(c: Cursor, layout: NamedLayout) -> Steps[None]:
    """Wait until what follows a name without arguments shows that it is markup. Raises NotACall for anything else."""
    around = (*layout.closing, *layout.around)
    j = yield from c.decided(around)
    if j == len(c.s):
        yield from c.more()
    if not c.s.startswith((*around, *_MARKUP), j):
        raise NotACall


def _after_call(c: Cursor, layout: NamedLayout, *, marked: bool) -> Steps[bool]:
    """After the arguments: a fence's end, the call's closing marker. Whether another call may follow."""
    if not layout.item and layout.d.reopen and not layout.item_close:
        if (yield from c.ask(_next_call_follows, c, layout)):
            return True
        if not marked:
            # Text directly after the arguments is skipped.
            yield from c.some()
            if c.s[c.i] not in " \t\r\n[<`":
                yield from c.through(layout.d.reopen, str)
    closing, around = layout.item_close, layout.around if layout.item else ()
    while closing and (marker := (yield from c.closer(closing, around, "}`])> \t\r\n"))):
        # What closes a part of the call comes before what closes the call.
        closing = closing[closing.index(marker) + 1 :]
    return bool(layout.item)


def _next_call_follows(c: Cursor, layout: NamedLayout) -> bool:
    """Whether another call follows without an opening marker: the name of an offered tool, and what ends a name."""
    ends = tuple(end for end in layout.name_ends if end != "{")
    j = c.after_space(MAX_GAP)
    m = TOOL_NAME.match(c.s, j)
    k = j if m is None else m.end()
    if m is not None and c.s.startswith(ends, k):
        return c.sink.offered(m.group())
    c.wait(k < c.i + MAX_GAP and c.begins(ends, k))
    return False


# -- ReAct -------------------------------------------------------------------------------------------------------------


def read_react(c: Cursor) -> Steps[None]:
    """Read a call of a ReAct prompt after `Action Input:`; its name follows `Action:`, its input is a JSON object.

        Action: get_weather
        Action Input: {"city": "Paris"}
        Observation: …

    The observation is the tool's to make: a model that writes one writes another role's turn.
    """
    name = c.opening.split("\n")[0].partition(":")[2].strip()
    first, fenced = yield from _before_arguments(c)
    if first != "{":
        raise NotACall
    # No special token precedes it: it is a call once a first key has been read.
    c.named = name, None
    yield from c.copy(CallArguments("{", written=c.sink.arguments, refused=_NEVER))
    c.end()
    yield from _after_react(c, fenced=fenced)


def _after_react(c: Cursor, *, fenced: bool) -> Steps[None]:
    """Read the text after the input: the end of its code block, and an observation that the model made up."""
    j = yield from c.decided(("```", _OBSERVATION) if fenced else (_OBSERVATION,))
    if fenced and c.take(("```",), j):
        j = yield from c.decided((_OBSERVATION,))
    if c.s.startswith(_OBSERVATION, j) and "\n" in c.s[c.i : j]:
        c.sink.stopped_at = _OBSERVATION
