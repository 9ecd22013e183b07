"""Readers that take a call syntax part by part: which part reads is the state, and the loop stands here once."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from ..sink import Sink


class PartReader:
    """The half of a `Body` that its parts do not decide.

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
