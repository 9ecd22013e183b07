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
from collections.abc import Callable

from ..events import CallArgs, Event, Reasoning, Stop, Text
from ..sink import Mode
from .grammar import Where
from .lane import Lane, Way, until
from .reasoning import ThoughtScanner
from .scanner_state import TAIL

_MAX_ENDS = 512  # so many characters of tokens that end a turn are looked through: more are no leftover
_SHORT = 256  # characters of a text that may pass
_MANY = 16
# Closing markers, of which the last is not complete: all that may stand behind a call where the text ends. A reader
# knows its own; models also write those of others.
_HALF_CLOSE = re.compile(
    r"[ \t\r\n\])}]*(?:</[^\s<>]{1,48}>[ \t\r\n]*|<[|｜][^\s<>]{1,48}>[ \t\r\n]*)*"
    r"(?:<[^\s<>=(){}\[\]\"']{0,48})?\Z"
)

_HALF_TOKEN = re.compile(r"[ \t\r\n]*<(?:[/|｜][^\s<>=(){}\[\]\"']{0,48})?\Z")


class Scanner(ThoughtScanner):
    """The parser of one choice. See `StreamParser` for its two verbs."""

    __slots__ = ("__weakref__",)  # its sink knows it so

    @property
    def pending(self) -> bool:
        """Whether text is held back."""
        flow = self._sink.flow
        return bool(self._carry or self._gap or self._sink.held or (flow is not None and flow.tail))

    @property
    def plain(self) -> bool:
        """Whether prose passes as it is: nothing is held and nothing is open."""
        return self._body is None and not self._carry and not self._in_gap

    @property
    def lane(self) -> Lane | None:
        """What may go past `feed` now. `went_by` is told of it before anything else is asked for."""
        flow = self._sink.flow
        return self._lane if flow is None else flow.lane

    @property
    def run(self) -> Callable[[str], str | None] | None:
        """What reads more of the open call's arguments in place of `read`, as long as it gives what leaves of them."""
        flow = self._sink.flow
        return None if flow is None else flow.run

    def went_by(self, text: str) -> None:
        """`text` left by the lane."""
        if self._sink.flow is not None:
            self._sink.flow.went_by(text)
        elif self._reasoning is None:
            self._passed.append(text)
            self._note_passed()

    def feed(self, text: str, /) -> list[Event]:
        """The next piece of the model's text."""
        said = self.read(text)
        if not isinstance(said, str):
            return said
        return [CallArgs(said)] if said else []

    def read(self, text: str, /) -> list[Event] | str:
        """As `feed`; a string where all that there is to say is that the open call's arguments go on with it."""
        if not text:
            return []
        lane = self._lane
        if lane is not None and len(text) <= _SHORT and lane.special(text) is None:
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
            said = flow.run(text)
            if said is not None:
                return said
            piece, text = flow.leave(text)
            if not text and not flow.done:
                return piece
            if piece:
                events = [CallArgs(piece)]
            sink.flow = None
        elif self.stopped:
            return events
        sink.events = events
        sink.resume()
        self._budget += 4 * len(text)
        if self._carry:
            text = self._carry + text
            self._carry = ""
        self._scan(text, last=False)
        sink.tell_end(others=True)
        self._lane = self._clear()
        return events

    def _clear(self) -> Lane | None:
        """Plain prose, code in a fence, or reasoning; None where more is open."""
        if self._body is not None or self._carry or self.stopped:
            return None
        if self._reasoning is not None:
            return None if self._parse_reasoning or self._late is not None else until(Way.REASONING, self._reasoning[0])
        if self._in_gap or self._span or self._fence_tail is not None:
            return None
        if self._fence is not None:
            return until(Way.TEXT, self._fence[0])
        # What can only open an answer is looked for by another pattern, but not behind other text.
        return self._c.prose if self._first is self._c.first else None

    def finish(self, *, cut: bool = False) -> list[Event]:
        """The end of the text; `cut` when the model did not end it itself (`length`, a lost connection)."""
        events = self._sink.events = []
        self._sink.resume()
        if self.stopped:
            return events
        if self._passed:
            self._note_passed()
        self._cut = cut
        if self._sink.flow is not None:
            self._carry = self._sink.flow.tail
            self._sink.flow = None
        text, self._carry = self._carry, ""
        self._scan(self._without_half_close(text), last=True)
        late, self._late = self._late, None
        if late is not None:
            self._reasoning = None  # it was never ended: the calls behind it are none of it
            self._reset_start()
            self._scan("".join(late), last=True)
        body = self._body
        while body is not None:
            body.finish(cut=cut)
            if self._sink.changed:
                # A start and an end may both be due, each told by one call.
                open_before = self._sink.mode is Mode.CALL
                self._sink.settle("")
                if self._sink.mode is Mode.CALL:
                    if not open_before:
                        self._call_began()
                    continue
            self._drop_lone_marker("")
            self._without_half_close("")
            # Behind a call, what could become another one is markup.
            text = self._close_body(failed=body.failed or not self._sink.committed)
            self._scan(text, last=True)
            body = self._body
        self._sink.tell_end()
        if self._gap and (self._sink.keep_raw or not self._sink.calls):
            events.append(Text("".join(self._gap)))
        self._gap = []
        self._sink.flow = None  # nothing comes next, and a circle would keep its reader
        return events

    def _without_half_close(self, text: str) -> str:
        """What is left to read: nothing, where it is the beginning of the marker that closes a complete call."""
        sink = self._sink
        left = "".join(sink.held) + text
        if len(left) > _SHORT:
            return text
        if self._body is not None:
            half = sink.committed and sink.mode is Mode.HOLD and _HALF_CLOSE.match(left)
        else:
            # Only what closes: the beginning of somebody else's turn is told apart when it is complete.
            half = self._in_gap and sink.calls > 0 and not sink.keep_raw and _HALF_TOKEN.match(left)
        if not half:
            return text
        sink.held = []
        sink.ends_with(left)
        return ""

    # -- the loop ------------------------------------------------------------------------------------------------------

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
                if last and i < n and not self._without_half_close(s[i:]):
                    i = n
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

    # -- prose ---------------------------------------------------------------------------------------------------------

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

    def _marker(self, s: str, begin: int, pos: int, m: re.Match[str], *, last: bool) -> int:
        """A marker stands at `pos`. Returns the index to go on from, or -index-1 when this stretch of prose is over."""
        group = self._c.group(m)
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
        if next_turn is not None and self._c.group(next_turn)[0] == "s":
            self._leave(s, begin, pos)
            return -behind - 1
        if behind < n and (last or self._c.partial.match(s, behind) is None):
            return end
        self._leave(s, begin, pos)
        if not last:
            self._carry = s[pos:]
        return -n - 1

    def _can_open_here(self, m: re.Match[str], s: str, begin: int, pos: int) -> bool:
        opener = self._c.openers.get(self._c.group(m))
        if opener is None:
            return True
        if opener.not_behind:
            before = ("".join(self._recent) + s[max(begin, pos - TAIL) : pos])[-TAIL:]
            if before.rstrip().endswith(opener.not_behind):
                return False
        return opener.where is Where.ANYWHERE or (self.at_start and not s[begin:pos].strip())

    # -- reasoning -----------------------------------------------------------------------------------------------------

    def _open_reasoning(self, opening: str, close: str) -> None:
        self._reasoning = close
        self.at_start = False  # what only opens an answer does not open in reasoning
        self._first = self._c.first
        events = self._sink.events
        if self._gap:
            events.append(Reasoning("".join(self._gap), markup=True))
            self._gap = []
        events.append(Reasoning(opening, markup=True))
