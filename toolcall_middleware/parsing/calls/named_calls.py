"""Calls whose name is outside of the JSON: `f[ARGS]{…}`, `<|tool_call_begin|>functions.f:0<|…|>{…}`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ..cursor import MAX_GAP, Cursor, NotACall, Steps, TextOver
from ..patterns import TOOL_NAME, WHITE_SPACE
from .call_arguments import CallArguments

_OBSERVATION = "Observation:"
FENCE = re.compile(r"`{3,}[A-Za-z_]*[ \t]*\r?\n?")
_MAX_NAME = 400
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


def read_named(cursor: Cursor, syntax: NamedSyntax) -> Steps[None]:
    """Read call after call, up to the closing marker."""
    fresh = True  # no name has been read yet
    while True:
        if syntax.item and not (yield from _item(cursor, syntax, fresh=fresh)):
            return
        named, marked = yield from _name(cursor, syntax)
        # The name is emitted once its arguments begin, or nothing but markup follows it: words show a mention.
        try:
            first, _ = yield from _before_arguments(cursor, syntax.before)
            if not first:
                yield from _markup_follows(cursor, syntax)
        except TextOver:
            cursor.start(*named)
            raise
        fresh = False
        lost = bool(syntax.item_close)
        if first:
            arguments = CallArguments(first, syntax.closing, cursor.sink.arguments)
            yield from cursor.call(*named, arguments)
            lost = lost and arguments.stuck
        else:
            cursor.start(*named)
            cursor.end("{}")
        if lost:
            yield from _find_back(cursor, syntax)
        if not (yield from _after_call(cursor, syntax, marked=marked)):
            return


def _item(cursor: Cursor, syntax: NamedSyntax, *, fresh: bool) -> Steps[bool]:
    """Go to a call's name. False where none follows."""
    while True:
        j = cursor.behind_space()
        if cursor.take(syntax.item, j):
            return True
        if cursor.take(syntax.close, j):
            if fresh:
                cursor.sink.accept()  # no call at all: nothing but markup
            return False
        begun = cursor.begins(syntax.around, j)
        if syntax.noise and fresh and j < len(cursor.s) and not begun:
            # Text before the first call: it is skipped where a call follows soon.
            m = yield from cursor.near(re.compile("|".join(map(re.escape, syntax.around))))
            if m is None or m.group() in syntax.close:
                raise NotACall
            cursor.i = m.start()
            continue
        if begun and j - cursor.i < MAX_GAP:
            if not cursor.last:
                yield from cursor.more()
                continue
            if cursor.sink.committed:
                cursor.i = len(cursor.s)  # half a marker at the end of the text is markup too
                return False
        if not cursor.sink.committed and syntax.item_missing and TOOL_NAME.match(cursor.s, j):
            cursor.i = j
            return True
        if not cursor.sink.committed:
            raise NotACall
        return False


def _name(cursor: Cursor, syntax: NamedSyntax) -> Steps[tuple[tuple[str, str | None], bool]]:
    """A call's name and its id, and whether a marker ended the name. Raises NotACall for anything else."""
    own_id: str | None = None
    marked = True
    if syntax.leading:
        own_id = yield from cursor.upto(syntax.leading, _MAX_NAME)
    while True:
        s = cursor.s
        j = cursor.behind_space()
        m = TOOL_NAME.match(s, j)
        if m is None:
            if j < len(s) or cursor.last or j - cursor.i >= MAX_GAP:
                raise NotACall
            yield from cursor.more()
            continue
        written, k = m.group(), WHITE_SPACE.match(s, m.end()).end()
        if "\n" in syntax.name_ends and "\n" in s[m.end() : k]:
            break
        marker = next((marker for marker in syntax.name_ends if s.startswith(marker, k)), None)
        if marker is None:
            if cursor.last or k - j >= _MAX_NAME or not cursor.begins(syntax.name_ends, k):
                raise NotACall
            yield from cursor.more()
            continue
        if marker == "{":
            marked = False
            break
        k += len(marker)
        if syntax.call_id is not None and marker == syntax.call_id[0]:
            cursor.i = k
            own_id = yield from cursor.upto(syntax.call_id[1], _MAX_NAME)
            k = cursor.i
        elif syntax.typed:
            second = _second_name(s, k, written, last=cursor.last)
            if second is None:
                if cursor.last:
                    raise NotACall  # half a name
                yield from cursor.more()
                continue
            written, k = second
        break
    cursor.i = k
    name, call_id = syntax.identify(written, cursor.sink.offered)
    if not name:
        raise NotACall
    return (name, call_id or (None if own_id is None else own_id.strip() or None)), marked


def _second_name(s: str, k: int, written: str, *, last: bool) -> tuple[str, int] | None:
    """The name that the separator before `s[k]` ends, and the index after it. None where more text is needed."""
    j = WHITE_SPACE.match(s, k).end()
    if j == len(s):
        return (written, k) if last else None
    m = None if s.startswith(("{", "`", '"'), j) else TOOL_NAME.match(s, j)
    if m is None:
        return (written, k)
    if m.end() == len(s):
        return None
    if written == "function" or s[m.end()] in "\r\n{` ":
        return m.group(), m.end()
    return written, k


def _before_arguments(cursor: Cursor, before: tuple[str, ...] = ()) -> Steps[tuple[str, bool]]:
    """Skip white space, markers and a fence: the first character of the arguments, which is empty without any, and
    whether a fence was there.
    """
    fenced = False
    while True:
        s, j = cursor.s, cursor.behind_space(MAX_GAP)
        if cursor.take(before, j):
            continue
        fence = FENCE.match(s, j)
        half = s.startswith("`", j) and (fence is None or fence.end() == len(s)) and len(s) - j < 32
        if j == len(s) or (not cursor.last and (half or cursor.begins((*before, "null"), j))):
            yield from cursor.more()
        elif fence is not None:
            cursor.i, fenced = fence.end(), True
        elif s[j] in "{[\"'" or s.startswith("null", j):
            cursor.i = j
            return s[j], fenced
        else:
            if cursor.begins(before, j):
                cursor.i = len(s)  # half a marker at the end of the text is markup too
            return "", fenced  # the closing marker, the next call, or something else


def _markup_follows(cursor: Cursor, syntax: NamedSyntax) -> Steps[None]:
    """Wait until what follows a name without arguments shows that it is markup. Raises NotACall for anything else."""
    around = (*syntax.closing, *syntax.around)
    j = yield from cursor.decided(around)
    if j == len(cursor.s):
        yield from cursor.more()
    if not cursor.s.startswith((*around, *_MARKUP), j):
        raise NotACall


def _find_back(cursor: Cursor, syntax: NamedSyntax) -> Steps[None]:
    """After a call that broke off: the next marker, if it is near, shows that what is between is markup."""
    m = yield from cursor.near(re.compile("|".join(map(re.escape, (*syntax.item_close, *syntax.around)))))
    if m is not None and m.start() > cursor.i:
        cursor.skip_to(m.start())


def _after_call(cursor: Cursor, syntax: NamedSyntax, *, marked: bool) -> Steps[bool]:
    """After the arguments: a fence's end, the call's closing marker. Whether another call may follow."""
    if not syntax.item and not syntax.item_close:
        if not syntax.reopen:
            return False
        if (yield from _goes_on(cursor, syntax)):
            return True
        if not marked:
            yield from _astray(cursor, syntax.reopen)
        return False
    closing, around = syntax.item_close, syntax.around if syntax.item else ()
    while closing and (marker := (yield from cursor.closer(closing, around, "}`])> \t\r\n"))):
        # What closes a part of the call comes before what closes the call.
        closing = closing[closing.index(marker) + 1 :]
    return bool(syntax.item)


def _goes_on(cursor: Cursor, syntax: NamedSyntax) -> Steps[bool]:
    """Whether another call follows without an opening marker: the name of an offered tool, and what ends a name."""
    ends = tuple(end for end in syntax.name_ends if end != "{")
    while True:
        s, j = cursor.s, cursor.behind_space(MAX_GAP)
        m = TOOL_NAME.match(s, j)
        k = j if m is None else m.end()
        if m is not None and s.startswith(ends, k):
            return cursor.sink.offered(m.group())
        if cursor.last or k >= cursor.i + MAX_GAP or not cursor.begins(ends, k):
            return False
        yield from cursor.more()


def _astray(cursor: Cursor, markers: tuple[str, ...]) -> Steps[None]:
    """Skip text directly after the arguments, up to what may open a call or another turn."""
    yield from cursor.some()
    if cursor.s[cursor.i] not in " \t\r\n[<`":
        yield from cursor.through(markers, str)


# -- ReAct -------------------------------------------------------------------------------------------------------------


def read_react(cursor: Cursor) -> Steps[None]:
    """Read a call of a ReAct prompt after `Action Input:`; its name follows `Action:`, its input is a JSON object.

        Action: get_weather
        Action Input: {"city": "Paris"}
        Observation: …

    The observation is the tool's to make: a model that writes one writes another role's turn.
    """
    name = cursor.opening.split("\n")[0].partition(":")[2].strip()
    first, fenced = yield from _before_arguments(cursor)
    if first != "{":
        raise NotACall
    arguments = CallArguments("{", written=cursor.sink.arguments)
    early: list[str] = []
    while not (arguments.settled or arguments.done):
        # No special token precedes it: it is a call once a first key has been read.
        cursor.i, text = arguments.feed(cursor.s, cursor.i)
        early.append(text)
        if arguments.doubtful or (arguments.stuck and not arguments.settled):
            raise NotACall
        if not arguments.settled:
            yield from cursor.more()
    yield from cursor.call(name, None, arguments, "".join(early))
    yield from _after_react(cursor, fenced=fenced)


def _after_react(cursor: Cursor, *, fenced: bool) -> Steps[None]:
    """Read the text after the input: the end of its code block, and an observation that the model made up."""
    j = yield from cursor.decided(("```", _OBSERVATION) if fenced else (_OBSERVATION,))
    if fenced and cursor.take(("```",), j):
        j = yield from cursor.decided((_OBSERVATION,))
    if cursor.s.startswith(_OBSERVATION, j) and "\n" in cursor.s[cursor.i : j]:
        cursor.sink.stopped_at = _OBSERVATION
