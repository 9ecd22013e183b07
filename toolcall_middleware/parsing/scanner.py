"""Finds calls in a model's text: tells markup from prose, code and reasoning, and hands markup to its reader.

The text is Markdown as far as it matters here (CommonMark 4.5 and 6.1): a marker in a code fence or code span that
stands after other text is an example. A fence that opens the answer can hold a call, and so can a fence that a syntax
names as its own.

Held back are only: the beginning of a possible marker, a call whose name is not known, a fence's first line where a
call may follow, white space at the start or after a call (it belongs to the markup unless text follows), and a marker
behind an unpaired backtick until the line tells whether it stands in a code span.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from .events import CallArgs, Event, Reasoning, Stop, Text
from .grammar import Compiled, Context, Grammar, Opener, Where, compile_grammar
from .sink import Body, Mode, Sink

_WS = re.compile(r"[ \t\r\n]*")
_TICKS = re.compile(r"`+")
_TILDES = re.compile(r"~+")
_INFO_LINE = re.compile(r"[A-Za-z][\w+\-]{0,30}[ \t]{0,8}\r?\n")
_INFO_PART = re.compile(r"[A-Za-z][\w+\-]{0,30}[ \t]{0,8}\r?\Z")
_MAX_FENCE_LINE = 100
_MAX_SPAN = 4096
_MAX_ENDS = 512  # so many characters of tokens that end a turn are looked through: more are no leftover
_SHORT = 256  # characters of a text that may pass
_MANY = 16
_TAIL = 64  # pieces of text, and characters, that are remembered
_BLANK = " \t>"
_LEAD = " \t>-*+0123456789.)"  # a fence may also stand behind a list's marker


class Scanner:
    """The parser of one choice. See `StreamParser` for its two verbs."""

    __slots__ = (
        "_body", "_body_fence", "_budget", "_c", "_carry", "_cut", "_fence", "_fence_tail", "_first", "_gap", "_in_gap",
        "_line_blank", "_line_lead", "_live_at", "_marked", "_moved", "_opening", "_parse_reasoning", "_passed",
        "_reasoning", "_recent", "_sink", "_span", "_span_from", "_watch", "at_start", "stopped",
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
    ) -> None:
        self._c: Compiled = compile_grammar(grammar)
        self._sink = Sink(offered, schema, self._emit, unknown=unknown_tool, keep_raw=keep_raw)
        self._parse_reasoning = parse_reasoning
        self._carry = ""
        self._body: Body | None = None
        self._body_fence: tuple[str, int] | None = None
        self._opening = 0  # characters of held text that opened the body: a failed body's rest is read again
        self._fence: tuple[str, int] | None = None  # the fence that we are in
        self._fence_tail: tuple[str, int] | None = None  # a fence that held a call and is not closed yet
        self._span = 0  # length of the backtick run that opened a code span, perhaps
        self._span_from = 0
        self._cut = False
        self._moved = False  # the body has read something
        self._marked = False  # what opened the body looks like a token of its own
        self._reasoning: str | None = None
        self._in_gap = True
        self._gap: list[str] = []
        self._recent: deque[str] = deque(maxlen=_TAIL)  # the last of the text that went out
        # Looks for what must not be in a text that leaves as it is without another question: `_passed` are such texts.
        self._watch: Callable[[str], object] | None = None
        self._passed: list[str] = []
        self.at_start = True
        self._line_blank = True
        self._line_lead = False
        self._live_at = -1
        self._budget = 1 << 16
        self._first = self._c.first_at_start
        self.stopped = False

    @property
    def pending(self) -> bool:
        """Whether text is held back."""
        return bool(self._carry or self._gap or self._sink.held)

    @property
    def plain(self) -> bool:
        """Whether prose passes as it is: nothing is held and nothing is open."""
        return self._body is None and not self._carry and not self._in_gap

    def feed(self, text: str, /) -> list[Event]:
        """The next piece of the model's text."""
        if not text:
            return []
        watch = self._watch
        if watch is not None and len(text) <= _SHORT and watch(text) is None:
            if self._reasoning is not None:
                return [Reasoning(text)]
            self._passed.append(text)
            if len(self._passed) == _MANY:
                self._note_passed()
            return [Text(text)]
        if self._passed:
            self._note_passed()
        sink = self._sink
        flow = sink.flow
        events: list[Event] = []
        if flow is not None:
            out: list[str] = []
            i = flow.feed(text, 0, out)
            if out and (piece := out[0] if len(out) == 1 else "".join(out)):
                events = [CallArgs(piece)]
            if i == len(text) and not flow.done:
                return events
            sink.flow = None
            text = text[i:]
        elif self.stopped:
            return events
        sink.events = events
        self._budget += 4 * len(text)
        if self._carry:
            text = self._carry + text
            self._carry = ""
        self._scan(text, last=False)
        self._watch = self._watched()
        return events

    def _note_passed(self) -> None:
        """What `_leave` and `_emit` remember of text, for that which passed without them."""
        text = "".join(self._passed)
        self._passed.clear()
        self._note_line(text, 0, len(text))
        self._recent.append(text[-_TAIL:])

    def _watched(self) -> Callable[[str], object] | None:
        """A search that finds nothing in plain prose, code in a fence, or reasoning; None where more is open."""
        if self._body is not None or self._carry or self.stopped:
            return None
        if self._reasoning is not None:
            return None if self._parse_reasoning else re.compile(re.escape(self._reasoning[0])).search
        if self._in_gap or self._span or self._fence_tail is not None:
            return None
        if self._fence is not None:
            return (_TICKS if self._fence[0] == "`" else _TILDES).search
        return self._first.search

    def finish(self, *, cut: bool = False) -> list[Event]:
        """The end of the text; `cut` when the model did not end it itself (`length`, a lost connection)."""
        events = self._sink.events = []
        if self.stopped:
            return events
        if self._passed:
            self._note_passed()
        self._cut = cut
        text, self._carry = self._carry, ""
        self._scan(text, last=True)
        body = self._body
        while body is not None:
            body.finish(cut=cut)
            if self._sink.changed:
                # A start and an end may both be due, each told by one call.
                self._sink.settle("")
                if self._sink.mode is Mode.CALL:
                    continue
            self._drop_lone_marker("")
            text = self._close_body(failed=not self._sink.committed)
            self._scan(text, last=True)
            body = self._body
        if self._gap and not self._sink.calls:
            events.append(Text("".join(self._gap)))
        self._gap = []
        return events

    # -- text out ------------------------------------------------------------------------------------------------

    def _emit(self, text: str) -> None:
        if self._reasoning is not None:
            self._sink.events.append(Reasoning(text))
            return
        self._recent.append(text[-_TAIL:])
        if self._in_gap:
            if text.isspace():
                self._gap.append(text)
                return
            if self._gap:
                text = "".join(self._gap) + text
                self._gap = []
            self._in_gap = False
            if self.at_start:
                self.at_start = False
                self._first = self._c.first
        self._sink.events.append(Text(text))

    # -- the loop ------------------------------------------------------------------------------------------------

    def _scan(self, s: str, *, last: bool) -> None:
        i = 0
        self._span_from = 0
        self._live_at = -1
        while True:
            if self._body is not None:
                rest = self._step(s, i, last=last)
                if rest is None:
                    return
                if rest[0] is not s:
                    self._span_from = 0
                    self._live_at = -1
                s, i = rest
                continue
            if i >= len(s) or self.stopped:
                return
            if self._reasoning is not None and not self._parse_reasoning:
                i = self._reason(s, i, last=last)
            elif self._fence is not None:
                i = self._in_fence(s, i, last=last)
            else:
                i = self._text(s, i, last=last)
            if self._carry:
                return

    def _step(self, s: str, i: int, *, last: bool) -> tuple[str, int] | None:
        """Let the body read. Returns the text and index to go on with, or None when all is read or carried."""
        body, sink = self._body, self._sink
        assert body is not None  # noqa: S101 - checked by the caller
        n = len(s)
        while True:
            # In a call that was cut off, what is not decided stays so: what has left is then a beginning.
            j = body.step(s, i, last=last and not (self._cut and sink.mode is Mode.CALL))
            if sink.changed:
                sink.settle(s[i:j])
                self._moved = True
                if sink.mode is Mode.CALL:
                    self._call_began()
                i = j
                if not body.done and not body.failed:
                    continue
            elif j > i:
                sink.consumed(s[i:j])
                self._moved = True
                i = j
            if body.done or body.failed:
                if body.failed and self._cut and self._drop_lone_marker(s[i:]):
                    i = n
                elif not self._moved:
                    # It has refused its own opening: that goes out, or it would be opened here again.
                    sink.consumed(s[i : i + 1])
                    i += 1
                rest = self._close_body(failed=body.failed)
                if s.endswith(rest, 0, i):
                    return s, i - len(rest)  # without a copy: calls that come to nothing may stand by the million
                return rest + s[i:], 0
            if i < n:
                self._carry = s[i:] if not last else ""
                if last:
                    sink.consumed(s[i:])
            return None

    def _drop_lone_marker(self, rest: str) -> bool:
        """Where the text was cut off right behind a marker, the marker is no content."""
        held = "".join(self._sink.held) if self._cut and self._marked else ""
        alone = bool(held) and not held[self._opening :].strip() and not rest.strip()
        if alone:
            self._sink.held = []
        return alone

    def _call_began(self) -> None:
        self._recent.clear()
        self._gap = []
        self._in_gap = True
        if self.at_start:
            self.at_start = False
            self._first = self._c.first

    def _close_body(self, *, failed: bool) -> str:
        """The body is over. Returns text that must be read again."""
        sink = self._sink
        held = "".join(sink.held)
        sink.held = []
        fence, self._body_fence = self._body_fence, None
        committed, sink.committed = sink.committed, False
        sink.mode = Mode.HOLD
        opening, self._opening = self._opening, 0
        self._body = None
        self._line_blank = self._line_lead = False
        if committed:
            self._in_gap = True
            self._fence_tail = fence
            # What stood behind the last call is markup, unless it failed to be: then it is read as text.
            return held if failed else ""
        self._fence = fence
        if not failed:
            if held:
                self._emit(held)
            return ""
        self._emit(held[:opening])
        rest = held[opening:]
        self._line_blank = held[:opening].endswith("\n")
        self._budget -= len(rest)
        if self._budget < 0:
            # Markers by the million, each held up to the next: read none of it twice.
            if rest:
                self._emit(rest)
            return ""
        return rest

    # -- prose ---------------------------------------------------------------------------------------------------

    def _text(self, s: str, i: int, *, last: bool) -> int:
        """Prose from `s[i]`, up to a body, a fence or the end."""
        n = len(s)
        begin = i  # s[begin:i] is prose that has not left
        if self._fence_tail is not None:
            i = self._after_fenced_call(s, i, last=last)
            if self._carry or self._body is not None or self._fence_tail is None:
                return i
            begin = i
        while True:
            m = self._first.search(s, i)
            if m is None:
                self._leave(s, begin, n)
                return n
            pos = m.start()
            if self._first is not self._c.first and s[begin:pos].strip():
                # Text stands before it: what can only open an answer cannot open here.
                self._leave(s, begin, pos)
                begin = i = pos
                if self._c.first.match(s, pos) is None:
                    continue
            c = s[pos]
            if c == "`" or c == "~":
                step = self._ticks(s, begin, pos, last=last)
                if step < 0:
                    return -step - 1
                i = step
                continue
            m = self._c.marker_at(s, pos)
            if not last and self._c.partial.match(s, pos) is not None:
                # Also where a marker stands already: `[` may become `[THINK]`.
                self._leave(s, begin, pos)
                self._carry = s[pos:]
                return n
            if m is None or not self._can_open_here(m, s, begin, pos):
                i = pos + 1
                continue
            step = self._marker(s, begin, pos, m, last=last)
            if step < 0:
                return -step - 1
            i = step

    def _leave(self, s: str, begin: int, end: int) -> None:
        """Prose `s[begin:end]` goes out."""
        if end > begin:
            self._note_line(s, begin, end)
            if self._span and s.find("\n", max(begin, self._span_from), end) >= 0:
                self._span = 0
            self._emit(s if begin == 0 and end == len(s) else s[begin:end])

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

    def _marker(self, s: str, begin: int, pos: int, m: re.Match[str], *, last: bool) -> int:
        """A marker stands at `pos`. Returns the index to go on from, or -index-1 when this stretch of prose is over."""
        group = m.lastgroup or ""
        kind = group[0]
        if kind == "c" and self._reasoning is not None:
            if self._reasoning != m.group():
                return m.end()
            self._leave(s, begin, pos)
            self._reasoning = None
            self._end_reasoning(m.group())
            return -m.end() - 1
        if self._span and not self._span_is_void(s, begin, pos):
            live = self._live(s, pos, last=last)
            if live is None:
                self._leave(s, begin, pos)
                self._carry = s[pos:]
                return -len(s) - 1
            if not live:
                return m.end()
            self._span = 0
        if kind == "c":
            # A template may have opened the reasoning in the prompt: what follows is the answer's start.
            self._leave(s, begin, m.end())
            self._reset_start()
            return -m.end() - 1
        if kind == "r":
            fresh = self._in_gap and not s[begin:pos].strip()
            if self._reasoning is not None or not (fresh or self._blank_before(s, begin, pos)):
                return m.end()
            self._leave(s, begin, pos)
            self._open_reasoning(m.group(), self._c.reasoning[group])
            return -m.end() - 1
        if kind == "n":
            self._leave(s, begin, pos)
            return -m.end() - 1
        if kind == "e":
            return self._end_marker(s, begin, pos, m.end(), last=last)
        if kind == "s":
            if not self._sink.calls:
                return m.end()
            self._leave(s, begin, pos)
            self._sink.events.append(Stop(m.group()))
            self.stopped = True
            return -m.end() - 1
        opener = self._c.openers[group]
        self._leave(s, begin, pos)
        return -self._open(opener, m.group(), "", pos, m.end()) - 1

    def _end_marker(self, s: str, begin: int, pos: int, end: int, *, last: bool) -> int:
        """A token that ends a turn (`<|im_end|>`, `</s>`): no content when nothing follows, else text like any."""
        n = len(s)
        if n - pos > _MAX_ENDS:
            return end
        behind = self._c.ends.match(s, end).end()  # type: ignore[union-attr]
        next_turn = self._c.marker_at(s, behind) if behind < n and self._sink.calls else None
        if next_turn is not None and (next_turn.lastgroup or "")[0] == "s":
            self._leave(s, begin, pos)
            return -behind - 1
        if behind < n and (last or self._c.partial.match(s, behind) is None):
            return end
        self._leave(s, begin, pos)
        if not last:
            self._carry = s[pos:]
        return -n - 1

    def _can_open_here(self, m: re.Match[str], s: str, begin: int, pos: int) -> bool:
        opener = self._c.openers.get(m.lastgroup or "")
        if opener is None:
            return True
        if opener.not_behind:
            before = ("".join(self._recent) + s[max(begin, pos - _TAIL) : pos])[-_TAIL:]
            if before.rstrip().endswith(opener.not_behind):
                return False
        return opener.where is Where.ANYWHERE or (self.at_start and not s[begin:pos].strip())

    def _open(self, opener: Opener, opening: str, before: str, pos: int, end: int) -> int:
        """Start the body of `opener`; `before` is a fence's first line that belongs to the markup."""
        context = Context(opening, self.at_start, bool(before))
        sink = self._sink
        sink.mode = Mode.HOLD
        sink.committed = False
        sink.held = [before] if before else []
        self._body = opener.body(sink, context)
        self._marked = opener.consume and opening[0] in "<["
        self._moved = opener.consume
        if opener.consume:
            sink.held.append(opening)
            self._opening = len(before) + len(opening)
            return end
        self._opening = len(before) or 1
        if not before:
            sink.held.append("")
        return pos

    # -- code ----------------------------------------------------------------------------------------------------

    def _ticks(self, s: str, begin: int, pos: int, *, last: bool) -> int:
        """A run of backticks or tildes at `pos`. Returns as `_marker` does."""
        n = len(s)
        c = s[pos]
        end = (_TICKS if c == "`" else _TILDES).match(s, pos, pos + _MAX_FENCE_LINE).end()  # type: ignore[union-attr]
        count = end - pos
        if count == _MAX_FENCE_LINE:
            return end  # by the thousand they are no markup
        blank = self._blank_before(s, begin, pos)
        if end == n and not last and (c == "`" or blank or self._lead_before(s, begin, pos)):
            self._leave(s, begin, pos)
            self._carry = s[pos:]
            return -n - 1
        if self._span and self._span_is_void(s, begin, pos):
            self._span = 0
        if count >= 3 and not self._span and self._reasoning is None:
            if blank or self._lead_before(s, begin, pos):
                return self._fence_line(s, begin, pos, end, last=last)
            if c == "`":
                # Models open a block at the end of a sentence too: `Here it is: ```json`. A language tells.
                if not last and _INFO_PART.match(s, end):
                    self._leave(s, begin, pos)
                    self._carry = s[pos:]
                    return -n - 1
                if _INFO_LINE.match(s, end):
                    return self._fence_line(s, begin, pos, end, last=last)
        if c == "`":
            if not self._span:
                self._span = count
                self._span_from = end
            elif self._span == count:
                self._span = 0
        return end

    def _fence_line(self, s: str, begin: int, pos: int, end: int, *, last: bool) -> int:
        """A fence opens at `pos`: go into it, or into a call that it holds."""
        n = len(s)
        fence = (s[pos], end - pos)
        line_end = s.find("\n", end, pos + _MAX_FENCE_LINE)
        if line_end < 0:
            if n - pos < _MAX_FENCE_LINE and not last:
                self._leave(s, begin, pos)
                self._carry = s[pos:]
                return -n - 1
            line_end = n - 1 if n - pos < _MAX_FENCE_LINE else pos + _MAX_FENCE_LINE - 1
        info = s[end : line_end + 1]
        if "`" in info and fence[0] == "`":
            self._span = fence[1]
            self._span_from = end
            return end
        opens_answer = self.at_start and not s[begin:pos].strip()
        info = info.strip().lower()
        limit = pos + 2 * _MAX_FENCE_LINE
        k = _WS.match(s, line_end + 1, limit).end()  # type: ignore[union-attr]
        candidates = [
            (group, opener) for group, opener in self._c.openers.items() if opens_answer or info in opener.fences
        ]
        if candidates and k < limit:
            if not last and (k >= n or self._c.partial.match(s, k) is not None):
                self._leave(s, begin, pos)
                self._carry = s[pos:]
                return -n - 1
            m = self._c.marker_at(s, k)
            for group, opener in candidates:
                if m is not None and m.lastgroup == group:
                    self._leave(s, begin, pos)
                    self._body_fence = fence
                    return -self._open(opener, m.group(), s[pos:k], k, m.end()) - 1
        self._leave(s, begin, line_end + 1)
        self._fence = fence
        self._line_blank = True
        return -line_end - 2

    def _in_fence(self, s: str, i: int, *, last: bool) -> int:
        """Code from `s[i]`, up to the closing fence (which is code too: it all goes out as text)."""
        assert self._fence is not None  # noqa: S101 - checked by the caller
        char, count = self._fence
        n = len(s)
        begin = i
        while True:
            pos = s.find(char * 3, i)
            if pos < 0:
                # A run may be cut: hold its beginning.
                keep = n
                while keep > i and s[keep - 1] == char and n - keep < 2:
                    keep -= 1
                if last or not (keep < n and self._blank_before(s, begin, keep)):
                    keep = n
                self._leave(s, begin, keep)
                self._carry = s[keep:]
                return n
            end = (_TICKS if char == "`" else _TILDES).match(s, pos).end()  # type: ignore[union-attr]
            blank = self._blank_before(s, begin, pos)
            if not blank or (end < n and end - pos < count):
                i = end
                continue
            line = end
            while line < n and s[line] in " \t\r" and line - pos < _MAX_FENCE_LINE:
                line += 1
            if line == n and not last and line - pos < _MAX_FENCE_LINE:
                self._leave(s, begin, pos)
                self._carry = s[pos:]
                return n
            if end - pos >= count and line - pos < _MAX_FENCE_LINE and (line == n or s[line] == "\n"):
                self._leave(s, begin, line)
                self._fence = None
                self._line_blank = self._line_lead = False
                return line
            i = end

    def _after_fenced_call(self, s: str, i: int, *, last: bool) -> int:
        """Behind a call that stood in a fence: the closing fence is markup, another call may come first."""
        assert self._fence_tail is not None  # noqa: S101 - checked by the caller
        char, count = self._fence_tail
        n = len(s)
        k = _WS.match(s, i).end()  # type: ignore[union-attr]
        if k > i:
            self._gap.append(s[i:k])
            self._line_blank = True
            i = k
        if i == n:
            return n
        if s[i] == char:
            end = (_TICKS if char == "`" else _TILDES).match(s, i).end()  # type: ignore[union-attr]
            if end == n and not last and end - i < _MAX_FENCE_LINE:
                self._carry = s[i:]
                return n
            if count <= end - i < _MAX_FENCE_LINE:
                self._gap = []
                self._fence_tail = None
                self._line_blank = self._line_lead = False
                return end
        if not last and self._c.partial.match(s, i) is not None:
            self._carry = s[i:]
            return n
        m = self._c.marker_at(s, i)
        if m is not None and (m.lastgroup or "") in self._c.openers:
            opener = self._c.openers[m.lastgroup or ""]
            fence, self._fence_tail = self._fence_tail, None
            at = self._open(opener, m.group(), "", i, m.end())
            self._body_fence = fence
            return at
        # Other text: we are still in the fence.
        self._fence, self._fence_tail = self._fence_tail, None
        return i

    def _span_is_void(self, s: str, begin: int, pos: int) -> bool:
        """A code span that has not been closed on its line is none."""
        if s.find("\n", max(begin, self._span_from), pos) >= 0:
            return True
        self._span_from = pos  # looked through once
        return False

    def _live(self, s: str, pos: int, *, last: bool) -> bool | None:
        """Whether a marker behind an open backtick run counts: None while the line does not tell."""
        if pos < self._live_at:
            return False  # the same span as around the marker before
        line_end = s.find("\n", pos, pos + _MAX_SPAN)
        stop = line_end if line_end >= 0 else min(len(s), pos + _MAX_SPAN)
        i = pos
        while True:
            m = _TICKS.search(s, i, stop)
            if m is None:
                break
            if m.end() - m.start() == self._span:
                if m.end() == len(s) and not last:
                    return None  # the run may go on
                self._live_at = m.start()
                return False
            i = m.end()
        if line_end >= 0 or last or len(s) - pos >= _MAX_SPAN:
            return True
        return None

    # -- reasoning -----------------------------------------------------------------------------------------------

    def _open_reasoning(self, opening: str, close: str) -> None:
        self._reasoning = close
        self.at_start = False  # what only opens an answer does not open in reasoning
        self._first = self._c.first
        events = self._sink.events
        if self._gap:
            events.append(Reasoning("".join(self._gap), markup=True))
            self._gap = []
        events.append(Reasoning(opening, markup=True))

    def _end_reasoning(self, close: str) -> None:
        self._sink.events.append(Reasoning(close, markup=True))
        self._reset_start()

    def _reset_start(self) -> None:
        """Behind reasoning the answer begins anew."""
        self._in_gap = True
        self.at_start = True
        self._first = self._c.first_at_start
        self._line_blank = True
        self._span = 0

    def _reason(self, s: str, i: int, *, last: bool) -> int:
        """Reasoning from `s[i]`; nothing in it counts but its end."""
        close = self._reasoning
        assert close is not None  # noqa: S101 - checked by the caller
        pos = s.find(close, i)
        if pos >= 0:
            if pos > i:
                self._sink.events.append(Reasoning(s[i:pos]))
            self._reasoning = None
            self._end_reasoning(close)
            return pos + len(close)
        n = len(s)
        keep = n
        if not last:
            for size in range(min(len(close) - 1, n - i), 0, -1):
                if s.endswith(close[:size]):
                    keep = n - size
                    break
        if keep > i:
            self._sink.events.append(Reasoning(s[i:keep]))
        self._carry = s[keep:]
        return n
