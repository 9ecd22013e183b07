"""The text of an answer as it is emitted, what of it is held back, and where in its Markdown it is.

Prose is emitted at once. White space at the start and after calls waits: it belongs to the markup unless text follows.
Lines, code spans and fences are those of CommonMark 4.5 and 6.1, as far as it matters here.
"""

from __future__ import annotations

from collections import deque

from ..events import Event, Reasoning, Text

Fence = tuple[str, int]  # its character and how many of it

TAIL = 64  # pieces of text, and characters, that are remembered
_MAX_GAP = 1 << 14
_BLANK = " \t>"
_LEAD = " \t>-*+0123456789.)"  # a fence may also follow a list's marker


class Output:
    """Turns text into events, in order. It knows whether the text is reasoning, and what was written before it."""

    __slots__ = (
        "_gap_size", "_line_empty", "_line_lead", "at_start", "carry", "events", "fence", "fence_tail", "gap", "in_gap",
        "line_blank", "reasoning", "recent", "span", "span_from",
    )  # fmt: skip

    def __init__(self) -> None:
        self.events: list[Event] = []
        """Those of the piece of text that is being read."""
        self.carry = ""
        """Text that cannot be told yet: it is read again with the next piece behind it."""
        self.reasoning: str | None = None
        """The tag that ends the reasoning at hand."""
        self.at_start = True
        """Whether nothing of the answer has left: then a call may begin without a marker."""
        self.in_gap = True
        """Whether the white space that comes next may stand beside a call."""
        self.gap: list[str] = []
        """White space that waits."""
        self._gap_size = 0
        self.recent: deque[str] = deque(maxlen=TAIL)
        """The last of the text that has left."""
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

    def emit(self, text: str) -> None:
        """Text, or reasoning where it stands in it, leaves."""
        self.recent.append(text[-TAIL:])
        if self.reasoning is not None:
            if self.gap:  # white space behind a call in a fence
                text = self.take_gap() + text
            self.in_gap = self.in_gap and text.isspace()
            self.events.append(Reasoning(text))
            return
        if self.in_gap:
            if text.isspace():
                self.hold_gap(text)
                return
            if self.gap:
                text = self.take_gap() + text
            self._gap_size = 0
            self.in_gap = False
            self.at_start = False
        self.events.append(Text(text))

    def emit_reasoning(self, text: str) -> None:
        """Reasoning leaves, whatever waits."""
        if text:
            self.events.append(Reasoning(text))

    def hold_gap(self, text: str) -> None:
        """White space beside calls waits, unless it is more than anybody puts there."""
        self.gap.append(text)
        self._gap_size += len(text)
        if self._gap_size > _MAX_GAP:
            self.events.append(Text("".join(self.gap)))
            self.gap = []

    def take_gap(self) -> str:
        """The white space that waits; it waits no longer."""
        text = "".join(self.gap)
        if text:
            self.gap = []
        return text

    def close_gap(self) -> None:
        """What waited is settled: the next gap may be as long again."""
        self._gap_size = 0

    def call_began(self) -> str:
        """A call is emitted: no text precedes what follows. Returns the white space before the call."""
        self.recent.clear()
        gap = self.take_gap()
        self._gap_size = 0
        self.in_gap = True
        self.at_start = False
        return gap

    def open_reasoning(self, opening: str, close: str) -> None:
        """The tag `opening` leaves. What follows is reasoning, up to `close`."""
        self.reasoning = close
        self.at_start = False  # what only opens an answer does not open in reasoning
        if self.gap:
            self.events.append(Reasoning(self.take_gap(), markup=True))
        self.events.append(Reasoning(opening, markup=True))

    def end_reasoning(self, close: str) -> None:
        """The tag `close` leaves. Behind it the answer begins anew."""
        self.reasoning = None
        self.gap = []  # white space behind a call in the reasoning
        self.events.append(Reasoning(close, markup=True))
        self.restart()

    def restart(self) -> None:
        """What follows is the start of the answer."""
        self.in_gap = True
        self.at_start = True
        self.recent.clear()
        self.begin_line(blank=True)
        self.span = 0

    # -- where the text is ---------------------------------------------------------------------------------------

    def emit_prose(self, s: str, begin: int, end: int) -> None:
        """Prose `s[begin:end]` is emitted."""
        if end > begin:
            self._note_line(s, begin, end)
            if self.span and s.find("\n", max(begin, self.span_from), end) >= 0:
                self.span = 0
            self.emit(s if begin == 0 and end == len(s) else s[begin:end])

    def hold(self, s: str, begin: int, pos: int) -> int:
        """Prose `s[begin:pos]` is emitted; what follows is read again with more text. Returns the end of `s`."""
        self.emit_prose(s, begin, pos)
        self.carry = s[pos:]
        return len(s)

    def skipped(self, text: str) -> None:
        """Text was emitted without `emit_prose`."""
        self._note_line(text, 0, len(text))
        self.recent.append(text[-TAIL:])

    def begin_line(self, *, blank: bool, header: bool = False) -> None:
        """What follows begins a line (`blank`), or stands behind something in it. header: that of a message."""
        self.line_blank = blank
        self._line_empty = blank and not header
        self._line_lead = False

    def stay_in(self, fence: Fence | None) -> None:
        """What stands in `fence` is no call, or not only."""
        # One in a thought that is never closed must not hide the thought's end.
        self.fence = fence if self.reasoning is None else None

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
