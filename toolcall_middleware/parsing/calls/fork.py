"""Readers around those of calls: a marker of several families, markers without a meaning, thoughts, and calls without a
marker.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..cursor import MAX_GAP, Cursor, CursorReader, Make, NotACall, Steps
from ..events import CallArgs, CallEnd, CallStart, Event
from ..patterns import anywhere
from ..sink import Sink

_MAX_AGAIN = 4

MAX_HELD = 1 << 16
"""Characters of a line that is held until the text ends: a longer one is text."""

Branch = tuple[re.Pattern[str], Make]


def read_fork(c: Cursor, branches: Sequence[Branch], undecided: re.Pattern[str], again: str = "") -> Steps[None]:
    """Read by the branch that matches the first characters after the marker (white space aside).

    `undecided` matches text that ends before the branches can be told apart. again: the marker, which a model may write
    more than once.
    """
    left = _MAX_AGAIN if again else 0
    while True:
        j = c.behind_space(MAX_GAP)
        if not c.last and len(c.s) - c.i <= MAX_GAP and undecided.fullmatch(c.s, j):
            yield from c.more()
        elif left and c.take((again,), j):
            left -= 1
        else:
            break
    for pattern, make in branches:
        if pattern.match(c.s, j):
            yield from make(c)
            return
    raise NotACall


def read_nothing(c: Cursor) -> Steps[None]:
    """After a marker that is no text and belongs to no call."""
    c.sink.accept()
    yield from ()


def read_thought(c: Cursor, close: str, before: str = "") -> Steps[None]:
    """Read a thought up to its closing marker, where the opening marker is a channel's (Gemma 4, Kimi K3).

    before: a marker that ends it too, and is not read.
    """
    c.sink.accept()
    ends = (close, before) if before else (close,)
    yield from c.some()
    c.i += c.s[c.i] == "\n"
    while (k := c.nearest(ends)) < 0:
        c.sink.emit_reasoning(c.upto_half(ends))
        yield from c.more()
    c.sink.emit_reasoning(c.s[c.i : k])
    c.sink.end_reasoning()
    c.i = k
    c.take((close,), k)


def read_last_line(cursor: Cursor, make: Make, ends: tuple[str, ...]) -> Steps[None]:
    """Read calls without a marker after other text, by the reader of `make`, which reports to a sink of its own.

    They count only where nothing else is on their lines, nor after them up to the end of the answer. Nothing of them is
    reported before the text ends: what follows may show that they are an example.

    ends: what may follow them besides white space, because it ends the call or the turn.
    """
    refused: list[str] = []  # the text of calls that are not for the client
    inner = Sink(cursor.sink.offered, cursor.sink.schema, refused.append)
    place = Cursor(inner)
    body = CursorReader(place, make(place))
    read = 0
    while not body.done:
        before = cursor.i
        cursor.i = body.step(cursor.s, before, last=cursor.last)
        inner.flow = None
        read += cursor.i - before
        if body.failed or refused or read > MAX_HELD or (cursor.last and not body.done):
            raise NotACall
        if not body.done:
            yield from cursor.more()
    if not (yield from _nothing_behind(cursor, ends)) or not all(map(_is_clean, inner.events)):
        raise NotACall
    for event in inner.events:
        match event:
            case CallStart(name, call_id):
                cursor.start(name, call_id)
            case CallArgs(text):
                cursor.sink.args(text)
            case CallEnd():
                cursor.sink.coerced = event.coerced
                cursor.end(complete=event.complete, repaired=event.repaired)


def _nothing_behind(cursor: Cursor, ends: tuple[str, ...]) -> Steps[bool]:
    """Whether the text ends here, white space and `ends` aside."""
    behind = anywhere("(?:[ \t\r\n]|" + "|".join(map(re.escape, ends)) + ")*")
    read = 0
    while True:
        begin = cursor.i
        cursor.i = behind.match(cursor.s, begin).end()
        read += cursor.i - begin
        if cursor.i < len(cursor.s) and (cursor.last or not cursor.begins(ends, cursor.i)):
            return False
        if cursor.last:
            return True
        if read > MAX_HELD:
            return False
        yield from cursor.more()


def _is_clean(event: Event) -> bool:
    """Whether this is no end of a call that had to be repaired: what is no JSON is data, or code."""
    return not isinstance(event, CallEnd) or (event.complete and not event.repaired)
