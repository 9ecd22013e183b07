"""Emits the text of an answer (`Output`), and reads on from an opening marker (`Markup`).

Prose is emitted at once. White space at the start and after calls is held back: it is markup unless text follows. So
are markers that open no call.
Lines, code spans and fences are those of CommonMark 4.5 and 6.1, as far as it matters here.
Possible markup is held in the sink until its reader decides what it is; then it is dropped, or emitted as text.
"""

from __future__ import annotations

import re
from collections import deque

from ..cursor import Cursor, CursorReader
from ..events import Event, Reasoning, Text
from ..sink import Mode, Sink
from .grammar import Opener

Fence = tuple[str, int]  # its character and how many of it

TAIL = 64  # pieces of text, and characters, that are remembered
_MAX_GAP = 1 << 14
_BLANK = " \t>"
_LEAD = " \t>-*+0123456789.)"  # a fence may also follow a list's marker


class Output:
    """Turns text into events, in order. It knows whether the text is reasoning, and what was written before it."""

    __slots__ = (
        "_gap_size", "_line_empty", "_line_lead", "at_start", "carry", "events", "fence", "fence_tail", "gap",
        "gap_follows_text", "in_gap", "line_blank", "reasoning", "recent", "span", "span_from",
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
        """White space that is held back, and markers that open no call."""
        self.gap_follows_text = False
        """Whether it begins with such a marker after text: then it is text, unless a call follows."""
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
        """Hold back text next to calls, up to `_MAX_GAP` characters."""
        self.gap.append(text)
        self._gap_size += len(text)
        if self._gap_size > _MAX_GAP:
            self.emit_gap()

    def hold_marker(self, text: str) -> None:
        """Hold back a marker that opens no call: beside a call it is markup, elsewhere text."""
        self.recent.append(text[-TAIL:])
        self.gap_follows_text = self.gap_follows_text or not self.in_gap or self.at_start
        self.in_gap, self.at_start = True, False
        self.begin_line(blank=False)
        self.hold_gap(text)

    @property
    def follows_text(self) -> bool:
        """Whether text precedes what follows, not the start, a call or white space after one."""
        return not self.in_gap or self.gap_follows_text

    @property
    def follows_call(self) -> bool:
        """Whether only white space precedes what follows, after the start or a call."""
        return self.in_gap and not "".join(self.gap).strip()

    def take_gap(self) -> str:
        """Return what the gap holds, and clear it."""
        text = "".join(self.gap)
        self.gap, self._gap_size, self.gap_follows_text = [], 0, False
        return text

    def emit_gap(self) -> None:
        """Emit what the gap holds. What exceeds `_MAX_GAP` is emitted too, up to the next text or call."""
        if self.gap:
            self._append("".join(self.gap))
            self.in_gap = not self.follows_text
            self.gap, self.gap_follows_text = [], False

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
        if self.gap_follows_text:
            self.emit_gap()
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


_SHORT = 256  # characters of what may be half a marker at the end
# Closing markers, the last of them incomplete: all that may follow a call where the text ends. A reader knows its own
# markers; models also write those of other formats.
_HALF_CLOSE = re.compile(
    r"[ \t\r\n\])}]*(?:</[^\s<>]{1,48}>[ \t\r\n]*|<[|｜][^\s<>]{1,48}>[ \t\r\n]*)*"
    r"(?:<[^\s<>=(){}\[\]\"']{0,48})?\Z"
)
_HALF_TOKEN = re.compile(r"[ \t\r\n]*<(?:[/|｜][^\s<>=(){}\[\]\"']{0,48})?\Z")


class Markup:
    """The markup that is open, if any, and its reader."""

    __slots__ = ("_marked", "_out", "_sink", "body", "budget", "cut", "fence", "moved")

    def __init__(self, sink: Sink, out: Output) -> None:
        self._sink = sink
        self._out = out
        self.body: CursorReader | None = None
        self.fence: Fence | None = None
        """The code fence around the markup."""
        self.moved = False
        """Whether the reader has taken anything."""
        self._marked = False  # what opened it looks like a token of its own
        self.cut = False
        """Whether the model did not end the text itself."""
        self.budget = 1 << 16
        """Characters that may be read a second time."""

    def open(self, opener: Opener, opening: str, before: str, pos: int, end: int, fence: Fence | None = None) -> int:
        """Start the reader of `opener`, whose marker is `s[pos:end]`; the index that it reads from.

        before: a fence's first line that belongs to the markup. fence: that fence, or the one around a call before.
        """
        out, sink = self._out, self._sink
        cursor = Cursor(sink, opening, at_start=out.at_start)
        sink.mode = Mode.HOLD
        sink.committed = False
        if sink.arguments is not None:
            sink.arguments.forget()
        sink.held = [before] if before else []
        lead = 0
        if out.at_start and out.gap:
            # White space before markup that opens the answer goes where the markup goes.
            gap = out.take_gap()
            sink.held.insert(0, gap)
            lead = len(gap)
        self.body = CursorReader(cursor, opener.body(cursor))
        self.fence = fence
        self._marked = opener.consume and opening[0] in "<["
        self.moved = opener.consume
        if opener.consume:
            sink.held.append(opening)
            sink.opening = lead + len(before) + len(opening)
            return end
        sink.opening = lead + (len(before) or 1)
        if not before:
            sink.held.append("")
        return pos

    def read(self, s: str, i: int, *, last: bool) -> int:
        """Let the reader go on from `s[i]`, and return the index after what it took. It is done when `over` is true."""
        body = self.body
        assert body is not None  # noqa: S101 - checked by the caller
        j = body.step(s, i, last=last, cut=self.cut)
        self.moved = self.moved or j > i
        return j

    @property
    def over(self) -> bool:
        """Whether the reader is done."""
        body = self.body
        return body is not None and (body.done or body.failed)

    def end(self, s: str, i: int, *, last: bool) -> tuple[int, str]:
        """Close the reader, which is done at `s[i]`. Returns the index to go on from, and the text to read again."""
        body, sink = self.body, self._sink
        assert body is not None  # noqa: S101 - checked by the caller
        n = len(s)
        failed = body.failed
        if last and i < n and not self.without_half_close(s[i:]):
            i = n
        if failed and self.cut and self._drop_lone_marker(s[i:]):
            i = n
        elif not self.moved:
            # It has refused its own opening: that is emitted, or it would be opened here again.
            sink.consumed(s[i : i + 1])
            i += 1
        return i, self._close(failed=failed)

    def finish(self) -> str:
        """End the reader at the end of the text. Returns the text to read again."""
        body, sink = self.body, self._sink
        assert body is not None  # noqa: S101 - checked by the caller
        body.finish(cut=self.cut)
        self._drop_lone_marker("")
        self.without_half_close("")
        # After a call, the beginning of another one is markup.
        return self._close(failed=body.failed or not sink.committed)

    def without_half_close(self, text: str) -> str:
        """Return `text`, or nothing where it is the beginning of the marker that closes a complete call."""
        sink = self._sink
        left = "".join(sink.held) + text
        if len(left) > _SHORT:
            return text
        if self.body is not None:
            half = sink.committed and sink.mode is Mode.HOLD and _HALF_CLOSE.match(left)
        else:
            # Only closing markers: the beginning of another role's turn is recognised when it is complete.
            half = not self._out.follows_text and sink.calls > 0 and not sink.keep_raw and _HALF_TOKEN.match(left)
        if not half:
            return text
        sink.held = []
        sink.ends_with(left)
        return ""

    def _drop_lone_marker(self, rest: str) -> bool:
        """Drop a marker, or a comma between calls, directly after which the text was cut off."""
        sink = self._sink
        if not self.cut or not self._marked or not sink.held:
            return False
        trailing = "".join(sink.held)[sink.opening :] + rest
        alone = not trailing.strip() if sink.opening else sink.committed and not trailing.strip(", \t\r\n")
        if alone:
            sink.held = []
        return alone

    def _close(self, *, failed: bool) -> str:
        """Drop or emit what is held. Returns the text that the reader has taken and that must be read again."""
        sink, out = self._sink, self._out
        held = "".join(sink.held)
        sink.held = []
        fence, self.fence = self.fence, None
        committed, sink.committed = sink.committed, False
        sink.ends_with(held if committed and not failed else "")
        if fence is None:
            sink.report_end()
        sink.mode = Mode.HOLD
        opening, sink.opening = sink.opening, 0
        self.body = None
        if committed:
            out.in_gap = True
            out.fence_tail = fence
            header, sink.message_follows = sink.message_follows, False
            out.begin_line(blank=header, header=header)
            if header:
                # No call without a marker opens directly after a header: the text is meant for the user.
                out.at_start = False
                out.recent.append(">")
            # The text after the last call is markup, unless the reader failed: then it is read as text.
            return held if failed and not header else ""
        refused = held[:opening] if failed else held
        rest = held[len(refused) :]
        alone = bool(failed and self._marked and refused and out.reasoning is None)
        if alone:
            out.hold_marker(refused)
        elif refused or opening:
            out.emit(refused)
        self.budget -= len(rest)
        if self.budget < 0 and rest:
            # Millions of markers, each held up to the next: none of it is read twice.
            out.emit(rest)
            rest = ""
        out.begin_line(blank=failed and refused.endswith("\n"))
        if alone:
            out.fence_tail = fence  # a call may follow the marker
        else:
            out.stay_in(fence)
        return rest
