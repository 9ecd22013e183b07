"""Prose as it leaves, and where in its Markdown the text stands: on its line, in a code span, in a fence.

CommonMark 4.5 and 6.1, as far as it matters here.
"""

from __future__ import annotations

from .markup import Fence
from .output import TAIL, Output

_BLANK = " \t>"
_LEAD = " \t>-*+0123456789.)"  # a fence may also stand behind a list's marker


class Prose:
    """Where in its Markdown a text stands."""

    __slots__ = ("_line_empty", "_line_lead", "fence", "fence_tail", "line_blank", "out", "span", "span_from")

    def __init__(self, out: Output) -> None:
        self.out = out
        self.line_blank = True
        """Whether what has left of the line is white space, or a quote's mark."""
        self._line_empty = True  # nothing has left of the line
        self._line_lead = False  # a list's marker has left of it, and white space
        self.fence: Fence | None = None
        """The code fence that the text stands in."""
        self.fence_tail: Fence | None = None
        """A fence that held a call and is not closed yet."""
        self.span = 0
        """Length of the run of backticks that opened a code span, perhaps."""
        self.span_from = 0
        """Up to here in the text at hand no line has ended behind that run."""

    def emit(self, s: str, begin: int, end: int) -> None:
        """Prose `s[begin:end]` leaves."""
        if end > begin:
            self._note_line(s, begin, end)
            if self.span and s.find("\n", max(begin, self.span_from), end) >= 0:
                self.span = 0
            self.out.emit(s if begin == 0 and end == len(s) else s[begin:end])

    def hold(self, s: str, begin: int, pos: int) -> int:
        """Prose `s[begin:pos]` leaves; what follows is read again with more text. The end of `s`."""
        self.emit(s, begin, pos)
        self.out.carry = s[pos:]
        return len(s)

    def skipped(self, text: str) -> None:
        """Text has left without `emit`."""
        self._note_line(text, 0, len(text))
        self.out.recent.append(text[-TAIL:])

    def begin_line(self, *, blank: bool, header: bool = False) -> None:
        """What follows begins a line (`blank`), or stands behind something in it. header: that of a message."""
        self.line_blank = blank
        self._line_empty = blank and not header
        self._line_lead = False

    def stay_in(self, fence: Fence | None) -> None:
        """What stands in `fence` is no call, or not only."""
        # One in a thought that is never closed must not hide the thought's end.
        self.fence = fence if self.out.reasoning is None else None

    def is_blank(self, s: str, begin: int, pos: int) -> bool:
        """Whether the line holds nothing but white space (or a quote's mark) before `pos`."""
        k = pos - 1
        while k >= begin and s[k] in _BLANK:
            k -= 1
        return s[k] == "\n" if k >= begin else self.line_blank

    def begins_line(self, s: str, begin: int, pos: int) -> bool:
        """Whether `s[pos]` is the first character of its line."""
        return s[pos - 1] == "\n" if pos > begin else self._line_empty

    def is_lead(self, s: str, begin: int, pos: int) -> bool:
        """Whether the line holds nothing but a list's marker before `pos`."""
        k = pos - 1
        while k >= begin and s[k] in _LEAD:
            k -= 1
        return s[k] == "\n" if k >= begin else self.line_blank or self._line_lead

    def span_is_void(self, s: str, begin: int, pos: int) -> bool:
        """A code span that has not been closed on its line is none."""
        if s.find("\n", max(begin, self.span_from), pos) >= 0:
            return True
        self.span_from = pos  # looked through once
        return False

    def _note_line(self, s: str, begin: int, end: int) -> None:
        """Remember how the line has begun behind `s[begin:end]`."""
        blank = self.is_blank(s, begin, end)
        self._line_lead = not blank and self.is_lead(s, begin, end)
        if end > begin:
            self._line_empty = s[end - 1] == "\n"
        self.line_blank = blank
