"""Calls without a marker behind other text: they count only where nothing stands beside them on their lines, nor
behind them up to the end of the answer.

Nothing of them is told before the text ends: what stands behind them may show that they are an example.
"""

from __future__ import annotations

import re

from ..cursor import Cursor, CursorReader, Make, NotACall, Steps
from ..events import CallArgs, CallEnd, CallStart, Event
from ..patterns import anywhere
from ..sink import Sink

MAX_HELD = 1 << 16
"""Characters of a line that is held until the text ends: a longer one is text."""


def read_last_line(cursor: Cursor, make: Make, ends: tuple[str, ...]) -> Steps[None]:
    """Read such calls by the reader of `make`, which reports to a sink of its own.

    ends: what may follow them besides white space, because it ends the call or the turn.
    """
    refused: list[str] = []  # the text of calls that are not for the client
    inner = Sink(cursor.sink.offered, cursor.sink.schema, refused.append, unknown="text", keep_raw=False)
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
