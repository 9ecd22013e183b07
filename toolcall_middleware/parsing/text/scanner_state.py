"""What a scanner remembers of a text, and what becomes of text that is markup or none.

Prose leaves at once. What may be markup is held in the sink until a body says what it was; then it is dropped, or
leaves as the text that it is.
"""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from ..events import Reasoning, Text
from ..sink import Body, Mode, Sink
from .grammar import Compiled, Context, Grammar, Opener, compile_grammar
from .lane import Lane

TAIL = 64  # pieces of text, and characters, that are remembered
_BLANK = " \t>"
_LEAD = " \t>-*+0123456789.)"  # a fence may also stand behind a list's marker
_MAX_GAP = 1 << 14


class ScanState:
    """The state of one scanner; which text is what, `Scanner` and `CodeScanner` say."""

    __slots__ = (
        "_body", "_body_fence", "_budget", "_c", "_carry", "_cut", "_fence", "_fence_tail", "_first", "_gap",
        "_gap_size", "_in_gap", "_lane", "_late", "_late_size", "_line_blank", "_line_lead", "_live_at",
        "_marked", "_moved", "_parse_reasoning", "_passed", "_reasoning", "_recent", "_sink",
        "_span", "_span_from", "at_start", "stopped",
    )  # fmt: skip

    def __init__(
        self,
        grammar: Grammar,
        offered: Callable[[str], bool],
        schema: Callable[[str], Mapping[str, Any] | None] = lambda _name: None,
        *,
        unknown_tool: str = "text",
        parse_reasoning: bool = False,
        keep_raw: bool = False,
        keep_complete: bool = True,
    ) -> None:
        self._c: Compiled = compile_grammar(grammar)
        own = weakref.ref(self)  # a circle would keep all of it until the collector of garbage comes

        def emit(text: str) -> None:
            scanner = own()
            if scanner is not None:
                scanner._emit(text)  # noqa: SLF001 - its own

        self._sink = Sink(offered, schema, emit, unknown=unknown_tool, keep_raw=keep_raw, keep_complete=keep_complete)
        self._parse_reasoning = parse_reasoning
        self._carry = ""
        self._body: Body | None = None
        self._body_fence: tuple[str, int] | None = None
        self._fence: tuple[str, int] | None = None  # the fence that we are in
        self._fence_tail: tuple[str, int] | None = None  # a fence that held a call and is not closed yet
        self._span = 0  # length of the backtick run that opened a code span, perhaps
        self._span_from = 0
        self._cut = False
        self._moved = False  # the body has read something
        self._marked = False  # what opened the body looks like a token of its own
        self._reasoning: str | None = None
        self._late: list[str] | None = None  # what may be calls behind a thought that was not ended
        self._late_size = 0
        self._in_gap = True
        self._gap: list[str] = []  # white space that may stand beside a call
        self._gap_size = 0
        self._recent: deque[str] = deque(maxlen=TAIL)  # the last of the text that went out
        # Text that leaves without another question, and such texts.
        self._lane: Lane | None = None
        self._passed: list[str] = []
        self.at_start = True
        self._line_blank = True
        self._line_lead = False
        self._live_at = -1
        self._budget = 1 << 16
        self._first = self._c.first_at_start
        self.stopped = False

    # -- text out ------------------------------------------------------------------------------------------------------

    def _emit(self, text: str) -> None:
        if self._reasoning is not None:
            if self._gap:  # behind a call in a fence
                text = "".join(self._gap) + text
                self._gap = []
            self._sink.events.append(Reasoning(text))
            return
        self._recent.append(text[-TAIL:])
        if self._in_gap:
            if text.isspace():
                self._hold_gap(text)
                return
            if self._gap:
                text = "".join(self._gap) + text
                self._gap = []
            self._gap_size = 0
            self._in_gap = False
            if self.at_start:
                self.at_start = False
                self._first = self._c.first
        self._sink.events.append(Text(text))

    def _hold_gap(self, text: str) -> None:
        """White space beside calls waits, unless it is more than anybody puts there."""
        self._gap.append(text)
        self._gap_size += len(text)
        if self._gap_size > _MAX_GAP:
            self._sink.events.append(Text("".join(self._gap)))
            self._gap = []

    def _leave(self, s: str, begin: int, end: int) -> None:
        """Prose `s[begin:end]` goes out."""
        if end > begin:
            self._note_line(s, begin, end)
            if self._span and s.find("\n", max(begin, self._span_from), end) >= 0:
                self._span = 0
            self._emit(s if begin == 0 and end == len(s) else s[begin:end])

    def _note_passed(self) -> None:
        """What `_leave` and `_emit` remember of text, for that which passed without them."""
        text = "".join(self._passed)
        self._passed.clear()
        self._note_line(text, 0, len(text))
        self._recent.append(text[-TAIL:])

    def _note_line(self, s: str, begin: int, end: int) -> None:
        """Remember how the line has begun behind `s[begin:end]`."""
        blank = self._blank_before(s, begin, end)
        self._line_lead = not blank and self._lead_before(s, begin, end)
        self._line_blank = blank

    def _blank_before(self, s: str, begin: int, pos: int) -> bool:
        """Whether the line holds nothing but white space (or a quote's mark) before `pos`."""
        k = pos - 1
        while k >= begin and s[k] in _BLANK:
            k -= 1
        return s[k] == "\n" if k >= begin else self._line_blank

    def _lead_before(self, s: str, begin: int, pos: int) -> bool:
        """Whether the line holds nothing but a list's marker before `pos`."""
        k = pos - 1
        while k >= begin and s[k] in _LEAD:
            k -= 1
        return s[k] == "\n" if k >= begin else self._line_blank or self._line_lead

    # -- markup --------------------------------------------------------------------------------------------------------

    def _open(self, opener: Opener, opening: str, before: str, pos: int, end: int) -> int:
        """Start the body of `opener`; `before` is a fence's first line that belongs to the markup."""
        context = Context(opening, self.at_start, bool(before))
        sink = self._sink
        sink.mode = Mode.HOLD
        sink.committed = False
        sink.held = [before] if before else []
        lead = 0
        if self.at_start and self._gap:
            # White space before markup that opens the answer goes where the markup goes.
            sink.held[:0] = self._gap
            lead = sum(map(len, self._gap))
            self._gap = []
            self._gap_size = 0
        self._body = opener.body(sink, context)
        self._marked = opener.consume and opening[0] in "<["
        self._moved = opener.consume
        if opener.consume:
            sink.held.append(opening)
            sink.opening = lead + len(before) + len(opening)
            return end
        sink.opening = lead + (len(before) or 1)
        if not before:
            sink.held.append("")
        return pos

    def _call_began(self) -> None:
        self._recent.clear()
        self._sink.begins_with("".join(self._gap))
        self._gap = []
        self._gap_size = 0
        self._in_gap = True
        if self.at_start:
            self.at_start = False
            self._first = self._c.first

    def _drop_lone_marker(self, rest: str) -> bool:
        """Where the text was cut off right behind a marker, or a comma between calls, that is no content."""
        sink = self._sink
        if not self._cut or not self._marked or not sink.held:
            return False
        behind = "".join(sink.held)[sink.opening :] + rest
        alone = not behind.strip() if sink.opening else sink.committed and not behind.strip(", \t\r\n")
        if alone:
            sink.held = []
        return alone

    def _stay_in(self, fence: tuple[str, int] | None) -> None:
        """What stands in `fence` is no call, or not only."""
        # One in a thought that is never closed must not hide the thought's end.
        self._fence = fence if self._reasoning is None else None

    def _close_body(self, *, failed: bool) -> str:
        """The body is over. Returns text that must be read again."""
        sink = self._sink
        held = "".join(sink.held)
        sink.held = []
        fence, self._body_fence = self._body_fence, None
        committed, sink.committed = sink.committed, False
        sink.ends_with(held if committed and not failed else "")
        if fence is None:
            sink.tell_end()
        sink.mode = Mode.HOLD
        opening, sink.opening = sink.opening, 0
        self._body = None
        self._line_blank = self._line_lead = False
        if committed:
            self._in_gap = True
            self._fence_tail = fence
            # What stood behind the last call is markup, unless it failed to be: then it is read as text.
            return held if failed else ""
        self._stay_in(fence)
        if not failed:
            if held:
                self._emit(held)
            return ""
        if opening:
            self._emit(held[:opening])
            self._line_blank = held[:opening].endswith("\n")
        rest = held[opening:]
        self._budget -= len(rest)
        if self._budget < 0:
            # Markers by the million, each held up to the next: read none of it twice.
            if rest:
                self._emit(rest)
            return ""
        return rest
