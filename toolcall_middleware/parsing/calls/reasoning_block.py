"""Thoughts between two markers of a channel (Gemma 4, Kimi K3)."""

from __future__ import annotations

from ..sink import Sink


class ReasoningBlock:
    """Reads a thought up to its closing marker, where the opening marker is a channel's. See `Body`.

    before: a marker that ends it too, and is not read.
    """

    __slots__ = ("_before", "_begun", "_close", "_sink", "done", "failed")

    def __init__(self, sink: Sink, close: str, before: str = "") -> None:
        sink.accept()
        self.done = False
        self.failed = False
        self._sink = sink
        self._close = close
        self._before = before
        self._begun = False

    def step(self, s: str, i: int, /, *, last: bool) -> int:
        """See `Body.step`."""
        if not self._begun and i < len(s):
            self._begun = True
            i += s[i] == "\n"
        k = s.find(self._close, i)
        before = s.find(self._before, i, k if k >= 0 else None) if self._before else -1
        if k >= 0 or before >= 0:
            self._sink.emit_reasoning(s[i : before if before >= 0 else k])
            self._sink.end_reasoning()
            self.done = True
            return before if before >= 0 else k + len(self._close)
        keep = len(s)
        if not last:
            ends = (self._close, self._before)
            most = max(map(len, ends))
            keep = next(
                (at for at in range(max(i, keep - most + 1), keep) if any(end.startswith(s[at:]) for end in ends)), keep
            )
        self._sink.emit_reasoning(s[i:keep])
        return keep

    def finish(self, *, cut: bool) -> None:
        """See `Body.finish`."""
