"""Calls whose name is outside of the JSON: `f[ARGS]{…}`, `<|tool_call_begin|>functions.f:0<|…|>{…}`."""

from __future__ import annotations

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


@dataclass(frozen=True, slots=True, kw_only=True)
class NamedSyntax:
    """How a family writes such calls after its opening marker."""

    item: tuple[str, ...] = ()
    """What opens each call; empty: the marker itself does."""
    leading: str = ""
    """The marker that ends an id before the name; empty where there is no id."""
    name_ends: tuple[str, ...] = ("{",)
    """What ends a name (`{` stays for the arguments)."""
    call_id: tuple[str, str] | None = None
    """The name end that an id follows, and the marker that ends the id."""
    typed: bool = False
    """The first name may be a mere `function`, and the name follows the separator on a line of its own."""
    before: tuple[str, ...] = ()
    """Markers without meaning that may occur between the name and the arguments."""
    item_close: tuple[str, ...] = ()
    close: tuple[str, ...] = ()
    """Closing markers of a call, of which a later one may follow an earlier one, and of all calls; all may be missing.
    """
    item_missing: bool = False
    """What opens the first call may be missing too."""
    noise: bool = False
    """Text before the first call is not part of the answer."""
    reopen: tuple[str, ...] = ()
    """No marker closes a call, so another one may follow without an opening marker. Text directly after the arguments
    of a name that no marker ended either (`f{…}and so on`) is skipped up to one of these, as vLLM does."""
    identify: Callable[[str, Callable[[str], bool]], tuple[str, str | None]] = lambda written, _: (written, None)
    """The written name, and whether a name is offered, to (name, id)."""

    @property
    def closing(self) -> tuple[str, ...]:
        """Markers that may follow a call's arguments."""
        return (*self.item_close, *self.close)

    @property
    def around(self) -> tuple[str, ...]:
        """Markers before and after the calls."""
        return (*self.item, *self.close)


def read_named(c: Cursor, syntax: NamedSyntax) -> Steps[None]:
    """Read call after call, up to the closing marker."""
    fresh = another = True  # fresh: no name has been read yet
    while another and (not syntax.item or (yield from c.ask(_item, c, syntax, fresh=fresh))):
        name, call_id, marked = yield from c.ask(_name, c, syntax)
        # The name is emitted once its arguments begin, or nothing but markup follows it: words show a mention.
        c.named = name, call_id
        first, _ = yield from _before_arguments(c, syntax.before)
        fresh, lost = False, bool(syntax.item_close)
        if first:
            arguments = CallArguments(first, syntax.closing, c.sink.arguments)
            yield from c.call(arguments)
            lost = lost and arguments.stuck
        else:
            yield from _markup_follows(c, syntax)
            c.say("{}")
            c.end()
        if lost:
            # The next marker, if it is near, shows that what is between is markup.
            m = yield from c.ask(c.near, _any_of((*syntax.item_close, *syntax.around)))
            if m is not None and m.start() > c.i:
                c.skip_to(m.start())
        another = yield from _after_call(c, syntax, marked=marked)


def _any_of(markers: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, markers)))


def _item(c: Cursor, syntax: NamedSyntax, *, fresh: bool) -> bool:
    """Go past the marker that opens a call. False where none follows."""
    while True:
        j = c.behind_space()
        if c.take(syntax.item, j):
            return True
        if c.take(syntax.close, j):
            if fresh:
                c.sink.accept()  # no call at all: nothing but markup
            return False
        begun = c.begins(syntax.around, j)
        if not (syntax.noise and fresh) or begun or j == len(c.s):
            break
        # Text before the first call: it is skipped where a call follows soon.
        m = c.near(_any_of(syntax.around))
        if m is None or m.group() in syntax.close:
            raise NotACall
        c.i = m.start()
    begun = begun and j - c.i < MAX_GAP
    c.wait(begun)
    if c.sink.committed:
        c.i = len(c.s) if begun else c.i  # half a marker at the end of the text is markup too
        return False
    if not (syntax.item_missing and TOOL_NAME.match(c.s, j)):
        raise NotACall
    c.i = j
    return True


def _name(c: Cursor, syntax: NamedSyntax) -> tuple[str, str | None, bool]:
    """A call's name and its id, and whether a marker ended the name. Raises NotACall for anything else."""
    s, i, own_id = c.s, c.i, ""
    if syntax.leading:
        i = c.upto(syntax.leading, _MAX_NAME, i)
        own_id = s[c.i : i - len(syntax.leading)]
    j = WHITE_SPACE.match(s, i).end()
    m = TOOL_NAME.match(s, j)
    if m is None:
        c.wait(j == len(s) and j - i < MAX_GAP)
        raise NotACall
    written, k = m.group(), WHITE_SPACE.match(s, m.end()).end()
    marker = "\n" if "\n" in syntax.name_ends and "\n" in s[m.end() : k] else ""
    if not marker:
        marker = next((marker for marker in syntax.name_ends if s.startswith(marker, k)), "")
        if not marker:
            c.wait(k - j < _MAX_NAME and c.begins(syntax.name_ends, k))
            raise NotACall
        k += len(marker) if marker != "{" else 0
        if syntax.call_id is not None and marker == syntax.call_id[0]:
            i, k = k, c.upto(syntax.call_id[1], _MAX_NAME, k)
            own_id = s[i : k - len(syntax.call_id[1])]
        elif syntax.typed and marker != "{":
            written, k = _second_name(c, k, written)
    name, call_id = syntax.identify(written, c.sink.offered)
    if not name:
        raise NotACall
    c.i = k
    return name, call_id or own_id.strip() or None, marker != "{"


def _second_name(c: Cursor, k: int, written: str) -> tuple[str, int]:
    """The name that the separator before `s[k]` ends, and the index after it."""
    s, j = c.s, WHITE_SPACE.match(c.s, k).end()
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
        s, j = c.s, c.behind_space(MAX_GAP)
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


def _markup_follows(c: Cursor, syntax: NamedSyntax) -> Steps[None]:
    """Wait until what follows a name without arguments shows that it is markup. Raises NotACall for anything else."""
    around = (*syntax.closing, *syntax.around)
    j = yield from c.decided(around)
    if j == len(c.s):
        yield from c.more()
    if not c.s.startswith((*around, *_MARKUP), j):
        raise NotACall


def _after_call(c: Cursor, syntax: NamedSyntax, *, marked: bool) -> Steps[bool]:
    """After the arguments: a fence's end, the call's closing marker. Whether another call may follow."""
    if not syntax.item and syntax.reopen and not syntax.item_close:
        if (yield from c.ask(_goes_on, c, syntax)):
            return True
        if not marked:
            # Text directly after the arguments is skipped.
            yield from c.some()
            if c.s[c.i] not in " \t\r\n[<`":
                yield from c.through(syntax.reopen, str)
    closing, around = syntax.item_close, syntax.around if syntax.item else ()
    while closing and (marker := (yield from c.closer(closing, around, "}`])> \t\r\n"))):
        # What closes a part of the call comes before what closes the call.
        closing = closing[closing.index(marker) + 1 :]
    return bool(syntax.item)


def _goes_on(c: Cursor, syntax: NamedSyntax) -> bool:
    """Whether another call follows without an opening marker: the name of an offered tool, and what ends a name."""
    ends = tuple(end for end in syntax.name_ends if end != "{")
    j = c.behind_space(MAX_GAP)
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
