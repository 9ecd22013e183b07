"""Emits the text of an answer, holds part of it back, and tracks its place in the Markdown.

Prose is emitted at once. White space at the start and after calls is held back: it is markup unless text follows.
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
        """The events of the current piece of text."""
        self.carry = ""
        """Text not decided on yet: it is read again, followed by the next piece."""
        self.reasoning: str | None = None
        """The tag that ends the open reasoning; None outside of reasoning."""
        self.at_start = True
        """Whether nothing of the answer was emitted: then a call may begin without a marker."""
        self.in_gap = True
        """Whether white space that follows may be next to a call."""
        self.gap: list[str] = []
        """White space that is held back."""
        self._gap_size = 0
        self.recent: deque[str] = deque(maxlen=TAIL)
        """The end of the emitted text."""
        self.line_blank = True
        """Whether the emitted part of the line is only white space and quote marks (`>`)."""
        self._line_empty = True  # nothing of the line was emitted
        self._line_lead = False  # the emitted part of it is a list marker and white space
        self.fence: Fence | None = None
        """The code fence around the text."""
        self.fence_tail: Fence | None = None
        """A fence that held a call and is not closed yet."""
        self.span = 0
        """Length of the run of backticks that may have opened a code span; 0 without one."""
        self.span_from = 0
        """The index in the current text up to which no line has ended after that run."""

    def emit(self, text: str) -> None:
        """Emit text, as reasoning where reasoning is open."""
        self.recent.append(text[-TAIL:])
        if self.in_gap:
            if text.isspace():
                self.hold_gap(text)
                return
            text = self.take_gap() + text
            self.in_gap = self.at_start = False
        self._append(text)

    def emit_reasoning(self, text: str) -> None:
        """Emit reasoning, whatever is held back."""
        if text:
            self.events.append(Reasoning(text))

    def hold_gap(self, text: str) -> None:
        """Hold back white space next to calls, up to `_MAX_GAP` characters."""
        self.gap.append(text)
        self._gap_size += len(text)
        if self._gap_size > _MAX_GAP:
            self.emit_gap()

    def take_gap(self) -> str:
        """Return the white space held back, and clear it."""
        text = "".join(self.gap)
        self.gap, self._gap_size = [], 0
        return text

    def emit_gap(self) -> None:
        """Emit the white space held back."""
        if self.gap:
            self._append("".join(self.gap))
            self.gap = []

    def _append(self, text: str) -> None:
        self.events.append(Text(text) if self.reasoning is None else Reasoning(text))

    def call_began(self) -> str:
        """A call is emitted: no text precedes what follows. Returns the white space before the call."""
        self.recent.clear()
        self.in_gap = True
        self.at_start = False
        return self.take_gap()

    def open_reasoning(self, opening: str, close: str) -> None:
        """Emit the tag `opening`. The text after it is reasoning, up to `close`."""
        self.reasoning = close
        # What only opens an answer does not open in reasoning, and no call precedes the text there.
        self.at_start = self.in_gap = False
        if self.gap:
            self.events.append(Reasoning(self.take_gap(), markup=True))
        self.events.append(Reasoning(opening, markup=True))

    def end_reasoning(self, close: str) -> None:
        """Emit the tag `close`. The answer starts again after it."""
        self.emit_gap()
        self.reasoning = None
        self.events.append(Reasoning(close, markup=True))
        self.restart()

    def restart(self) -> None:
        """Treat the text that follows as the start of the answer."""
        self.in_gap = True
        self.at_start = True
        self.recent.clear()
        self.begin_line(blank=True)
        self.span = 0

    # -- where the text is ---------------------------------------------------------------------------------------

    def emit_prose(self, s: str, begin: int, end: int) -> None:
        """Emit the prose `s[begin:end]`."""
        if end > begin:
            self._note_line(s, begin, end)
            if self.span and s.find("\n", max(begin, self.span_from), end) >= 0:
                self.span = 0
            self.emit(s if begin == 0 and end == len(s) else s[begin:end])

    def hold(self, s: str, begin: int, pos: int) -> int:
        """Emit the prose `s[begin:pos]`; the rest is read again with more text. Returns the end of `s`."""
        self.emit_prose(s, begin, pos)
        self.carry = s[pos:]
        return len(s)

    def skipped(self, text: str) -> None:
        """Text was emitted without `emit_prose`."""
        self._note_line(text, 0, len(text))
        self.recent.append(text[-TAIL:])

    def begin_line(self, *, blank: bool, header: bool = False) -> None:
        """Note whether the next text begins a line (`blank`). header: it follows a message's header."""
        self.line_blank = blank
        self._line_empty = blank and not header
        self._line_lead = False

    def stay_in(self, fence: Fence | None) -> None:
        """Stay in `fence`: it holds text that is not a call."""
        # In a thought, a fence that is never closed must not hide the thought's end.
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
        """Whether the open run is not a code span: its line has ended before `pos`."""
        if s.find("\n", max(begin, self.span_from), pos) >= 0:
            return True
        self.span_from = pos  # looked through once
        return False

    def _note_line(self, s: str, begin: int, end: int) -> None:
        """Note how the line that follows `s[begin:end]` has begun."""
        blank = self.is_blank(s, begin, end)
        self._line_lead = not blank and self.is_lead(s, begin, end)
        if end > begin:
            self._line_empty = s[end - 1] == "\n"
        self.line_blank = blank
