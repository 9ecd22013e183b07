"""Readers of what is next to calls: one marker of several families, markers without a meaning, thoughts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..cursor import MAX_GAP, Cursor, Make, NotACall, Steps

_MAX_AGAIN = 4

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
    while c.i == len(c.s):
        yield from c.more()
    c.i += c.s[c.i] == "\n"
    while (k := c.nearest(ends)) < 0:
        c.sink.emit_reasoning(c.upto_half(ends))
        yield from c.more()
    c.sink.emit_reasoning(c.s[c.i : k])
    c.sink.end_reasoning()
    c.i = k
    c.take((close,), k)
