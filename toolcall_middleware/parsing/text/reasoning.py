"""Reasoning that is passed over: nothing in it counts but its end.

Some models begin their calls without having ended the thought (Kimi K2, DeepSeek). A marker that is a token of its own
makes what follows it wait: if the thought is ended after all, it was part of it; where the text ends first, the thought
had ended there.
"""

from __future__ import annotations

from dataclasses import dataclass

from .grammar import Compiled
from .output import Output

_MAX_LATE = 1 << 20
_LOOK = 64


@dataclass(frozen=True, slots=True)
class OpenedReasoning:
    """Reasoning that the prompt has opened: the answer begins in it."""

    opening: str = "<think>"
    """The tag at the end of the prompt."""
    close: str = "</think>"
    channel: bool = False
    """Whether the tags are a channel's, which is never content."""


def half_at_end(s: str, tag: str, begin: int = 0) -> int:
    """The length of the longest prefix of `tag` that `s[begin:]` ends with; 0 where there is none."""
    for size in range(min(len(tag) - 1, len(s) - begin), 0, -1):
        if s.endswith(tag[:size]):
            return size
    return 0


class ReasoningSpan:
    """Reads reasoning."""

    __slots__ = ("_late_size", "_out", "_special", "late")

    def __init__(self, compiled: Compiled, out: Output) -> None:
        self._special = compiled.special
        self._out = out
        self.late: list[str] | None = None
        """What may be calls, behind a thought that was not ended."""
        self._late_size = 0

    def read(self, s: str, i: int, *, last: bool) -> int:
        """Reasoning from `s[i]`, up to its end or what may be; the index behind it."""
        out = self._out
        close = out.reasoning
        assert close is not None  # noqa: S101 - checked by the caller
        if self.late is not None:
            return self._wait(s, i, close)
        pos = s.find(close, i)
        if pos >= 0:
            out.emit_reasoning(s[i:pos])
            out.end_reasoning(close)
            return pos + len(close)
        special = self._special if close[0] == "<" else ()
        found = [k for marker in special if (k := s.find(marker, i)) >= 0]
        if found:
            out.emit_reasoning(s[i : min(found)])
            self.late = []
            self._late_size = 0
            return self._wait(s, min(found), close)
        n = len(s)
        keep = n
        if not last:
            keep = n - half_at_end(s, close, i)
            k = s.rfind("<", max(i, n - _LOOK))
            if k >= 0 and any(marker.startswith(s[k:]) for marker in special):
                keep = min(keep, k)
        out.emit_reasoning(s[i:keep])
        out.carry = s[keep:]
        return n

    def take_late(self) -> str | None:
        """What waits, where the text ends: the thought was never ended, and this is none of it."""
        late, self.late = self.late, None
        return None if late is None else "".join(late)

    def _wait(self, s: str, i: int, close: str) -> int:
        """Behind such a marker."""
        late, out = self.late, self._out
        assert late is not None  # noqa: S101 - checked by the caller
        before = "".join(late[-len(close) :])[1 - len(close) :]
        pos = (before + s[i:]).find(close)
        if pos >= 0:
            end = i + pos + len(close) - len(before)
            late.append(s[i:end])
            self.late = None
            out.emit_reasoning("".join(late)[: -len(close)])
            out.end_reasoning(close)
            return end
        late.append(s[i:])
        self._late_size += len(s) - i
        if self._late_size > _MAX_LATE:
            self.late = None
            out.emit_reasoning("".join(late))
        return len(s)
