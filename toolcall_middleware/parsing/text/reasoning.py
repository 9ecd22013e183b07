"""Reasoning that is passed over: nothing in it counts but its end.

Some models begin their calls without having ended the thought (Kimi K2, DeepSeek). A marker that is a token of its own
makes what follows it wait: if the thought is ended after all, it was part of it; where the text ends first, the thought
had ended there.
"""

from __future__ import annotations

from ..events import Reasoning
from .markdown_code import CodeScanner

_MAX_LATE = 1 << 20
_LOOK = 64


class ThoughtScanner(CodeScanner):
    """Reads reasoning."""

    __slots__ = ()

    def _reason(self, s: str, i: int, *, last: bool) -> int:
        """Reasoning from `s[i]`, up to its end or what may be."""
        close = self._reasoning
        assert close is not None  # noqa: S101 - checked by the caller
        if self._late is not None:
            return self._wait(s, i, close)
        pos = s.find(close, i)
        if pos >= 0:
            self._think(s[i:pos])
            self._reasoning = None
            self._end_reasoning(close)
            return pos + len(close)
        special = self._c.special if close[0] == "<" else ()
        found = [k for marker in special if (k := s.find(marker, i)) >= 0]
        if found:
            self._think(s[i : min(found)])
            self._late = []
            self._late_size = 0
            return self._wait(s, min(found), close)
        n = len(s)
        keep = n
        if not last:
            for size in range(min(len(close) - 1, n - i), 0, -1):
                if s.endswith(close[:size]):
                    keep = n - size
                    break
            k = s.rfind("<", max(i, n - _LOOK))
            if k >= 0 and any(marker.startswith(s[k:]) for marker in special):
                keep = min(keep, k)
        self._think(s[i:keep])
        self._carry = s[keep:]
        return n

    def _wait(self, s: str, i: int, close: str) -> int:
        """Behind such a marker."""
        late = self._late
        assert late is not None  # noqa: S101 - checked by the caller
        before = "".join(late[-len(close) :])[1 - len(close) :]
        pos = (before + s[i:]).find(close)
        if pos >= 0:
            end = i + pos + len(close) - len(before)
            late.append(s[i:end])
            self._late = None
            self._think("".join(late)[: -len(close)])
            self._reasoning = None
            self._end_reasoning(close)
            return end
        late.append(s[i:])
        self._late_size += len(s) - i
        if self._late_size > _MAX_LATE:
            self._late = None
            self._think("".join(late))
        return len(s)

    def _end_reasoning(self, close: str) -> None:
        self._gap = []  # behind a call in it
        self._sink.events.append(Reasoning(close, markup=True))
        self._reset_start()

    def _reset_start(self) -> None:
        """Behind reasoning the answer begins anew."""
        self._in_gap = True
        self.at_start = True
        self._recent.clear()
        self._first = self._c.first_at_start
        self._line_blank = True
        self._span = 0

    def _think(self, text: str) -> None:
        if text:
            self._sink.events.append(Reasoning(text))
