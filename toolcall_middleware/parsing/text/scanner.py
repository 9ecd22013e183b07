"""Finds calls in a model's text: tells markup from prose, code and reasoning, and hands markup to its reader.

The text is Markdown as far as it matters here (CommonMark 4.5 and 6.1): a marker in a code fence or code span that
follows other text is an example. A fence that opens the answer can hold a call, and so can a fence that a syntax
names as its own.

Held back are only: the beginning of a possible marker, a call whose name is not known, a fence's first line where a
call may follow, white space at the start or after a call (it belongs to the markup unless text follows), and a marker
after an unpaired backtick until the line shows whether it is in a code span.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

from ..events import CallArgs, Event, Reasoning, Stop, Text
from ..patterns import SPACE, WHITE_SPACE, anywhere
from ..sink import DEFAULTS, ReaderOptions, Sink
from .grammar import Compiled, Grammar, Where, compile_grammar
from .output import TAIL, Markup, Output
from .reasoning import ReasoningSpan

_MAX_ENDS = 512  # characters: where more follow a token that ends a turn, it is text
_PIECE = 16 * 1024
"""Characters that are read at once: one search of a regular expression lets no other thread run, and a text of nothing
but `<` takes it a microsecond for each."""
_SHORT = 256  # characters of a text that may be emitted without a scan
_MANY = 64  # emitted texts that are kept before their lines are noted
_TICKS = re.compile(r"`+")
_RUNS = {"`": anywhere("`*"), "~": anywhere("~*")}
_INFO_LINE = re.compile(r"[A-Za-z][\w+\-]{0,30}[ \t]{0,8}\r?\n")
_INFO_PART = re.compile(r"[A-Za-z][\w+\-]{0,30}[ \t]{0,8}\r?\Z")
_MAX_FENCE_LINE = 100
_MAX_SPAN = 4096


class Scanner:
    """The parser of one choice. See `StreamParser` for its two verbs.

    Its parts, each with its own state: `Output` (the text that is emitted, what of it is held back, and where in its
    Markdown it is), `Markup` (the reader of the markup that is open), `Code` and `ReasoningSpan`.
    """

    __slots__ = (
        "_code", "_compiled", "_markup", "_options", "_out", "_passed", "_sink", "_special", "_thought", "stopped",
    )  # fmt: skip

    def __init__(
        self,
        grammar: Grammar,
        offered: Callable[[str], bool],
        schema: Callable[[str], Mapping[str, Any] | None] = lambda _name: None,
        options: ReaderOptions = DEFAULTS,
        *,
        meant: Callable[[str], str] | None = None,
        names: Collection[str] = (),
    ) -> None:
        """names: those that are offered, for openers that hold one; others are asked of `offered`."""
        compiled = self._compiled = compile_grammar(grammar)
        out = self._out = Output()
        sink = self._sink = Sink(offered, schema, out.emit, options, meant or str)
        sink.call_began = out.call_began
        self._markup = Markup(sink, out)
        self._code = Code(compiled, out, self._markup, sink, names)
        self._thought = ReasoningSpan(compiled, out)
        self._options = options
        # A text in which this finds nothing is emitted without a scan: half of the cost of prose and reasoning. Such
        # texts are kept in `_passed`.
        self._special: Callable[[str], object] | None = None
        self._passed: list[str] = []
        self.stopped = False

    def feed(self, text: str, /) -> list[Event]:
        """The next piece of the model's text."""
        special, size = self._special, len(text)
        if not 0 < size <= _PIECE:
            pieces = (text[at : at + _PIECE] for at in range(0, size, _PIECE))
            return [event for piece in pieces for event in self.feed(piece)]
        if special is not None and size <= _SHORT and special(text) is None:
            if self._out.reasoning is not None:
                return [Reasoning(text)]
            self._passed.append(text)
            if len(self._passed) == _MANY:
                self._note_passed()
            return [Text(text)]
        if self._passed:
            self._note_passed()
        sink = self._sink
        events: list[Event] = []
        if sink.flow is not None:
            said = sink.flow(text)
            if said is not None:
                return [CallArgs(said)] if said else []
            sink.flow = None
        elif self.stopped:
            return events
        out = self._out
        sink.events = out.events = events
        sink.resume()
        self._markup.budget += 4 * len(text)
        if out.carry:
            text = out.carry + text
            out.carry = ""
        self._scan(text, last=False)
        sink.report_end(others=True)
        self._special = self._search()
        return events

    def finish(self, *, cut: bool = False) -> list[Event]:
        """The end of the text; `cut` when the model did not end it itself (`length`, a lost connection)."""
        sink, out, markup = self._sink, self._out, self._markup
        events = sink.events = out.events = []
        sink.resume()
        if self.stopped:
            return events
        if self._passed:
            self._note_passed()
        markup.cut = cut
        if sink.flow is not None:
            sink.flow, out.carry = None, ""
        text, out.carry = out.carry, ""
        self._scan(markup.without_half_close(text), last=True)
        late = self._thought.take_late()
        if late is not None:
            out.reasoning = None  # the reasoning was never ended: the calls after it are not part of it
            out.restart()
            self._scan(late, last=True)
        while markup.body is not None:
            self._scan(markup.finish(), last=True)
        sink.report_end()
        next_to_call = sink.calls and out.reasoning is None and not out.gap_follows_text
        if not next_to_call or (sink.keep_raw and "".join(out.gap).isspace()):
            out.emit_gap()
        out.gap = []
        sink.flow = None  # no text follows, and a cycle would keep its reader
        return events

    # -- the loop ------------------------------------------------------------------------------------------------------

    def _scan(self, s: str, *, last: bool) -> None:
        self._code.begin()
        sink, markup, out = self._sink, self._markup, self._out
        i = 0
        while True:
            if markup.body is not None:
                i = markup.read(s, i, last=last)
                if not markup.over:
                    if not last:
                        out.carry = s[i:]  # its reader must see more to decide on it
                    elif i < len(s):
                        sink.consumed(s[i:])
                    return
                i, again = markup.end(s, i, last=last)
                if (marker := self._sink.stopped_at) is not None:
                    out.events.append(Stop(marker))
                    self.stopped = True
                    return
                if s.endswith(again, 0, i):
                    i -= len(again)  # without a copy: a text may hold millions of failed calls
                else:
                    s, i = again + s[i:], 0
                    self._code.begin()
                continue
            if i >= len(s) or self.stopped:
                return
            if out.reasoning is not None and not self._options.parse_reasoning:
                i = self._thought.read(s, i, last=last)
            elif self._out.fence is not None:
                i = self._code.in_fence(s, i, last=last)
            else:
                i = self._text(s, i, last=last)
            if out.carry:
                return

    def _note_passed(self) -> None:
        """Note the lines of the texts that were emitted without a scan, as `Output.emit_prose` does."""
        text = "".join(self._passed)
        self._passed.clear()
        self._out.skipped(text)

    def _search(self) -> Callable[[str], object] | None:
        """The search for markers in plain prose, in a fence or in reasoning; None where another state is open."""
        out = self._out
        if self._markup.body is not None or out.carry or self.stopped:
            return None
        if out.reasoning is not None:
            if self._options.parse_reasoning or self._thought.late is not None:
                return None
            return _finder(out.reasoning[0])
        if out.in_gap or out.span or out.fence_tail is not None:
            return None
        if out.fence is not None:
            return _finder(out.fence[0])
        # Openers that count only at the start have another pattern, which is not needed after other text.
        return None if out.at_start else self._compiled.first.search

    # -- prose ---------------------------------------------------------------------------------------------------------

    def _text(self, s: str, i: int, *, last: bool) -> int:
        """Prose from `s[i]`, up to markup, a fence or the end."""
        n = len(s)
        compiled, out = self._compiled, self._out
        if out.fence_tail is not None:
            i = self._code.after_fenced_call(s, i, last=last)
            if out.carry or self._markup.body is not None or out.fence_tail is None:
                return i
        begin = i  # s[begin:i] is prose that was not emitted
        while True:
            first = compiled.first_at_start if out.at_start and not s[begin:i].strip() else compiled.first
            if i == begin > 0 and out.begins_line(s, begin, i) and compiled.first.match(s[i : i + 2]):
                pos = i
            elif (m := first.search(s, i)) is not None:
                pos = m.start()
            else:
                out.emit_prose(s, begin, n)
                return n
            if out.at_start and s[begin:pos].strip():
                # Text precedes it: openers that count only at the start do not count here.
                out.emit_prose(s, begin, pos)
                begin = i = pos
                if compiled.first.match(s, pos) is None:
                    continue
            c = s[pos]
            if c == "`" or c == "~":
                step = self._code.ticks(s, begin, pos, last=last)
                if step < 0:
                    return -step - 1
                i = step
                continue
            markers = compiled.at_start if out.at_start else compiled.anywhere
            m = markers.marker_at(s, pos)
            on_line = out.begins_line(s, begin, pos)
            if not last:
                # Also where a marker is complete: `[` may become `[THINK]`.
                if markers.may_begin_at(s, pos):
                    return out.hold(s, begin, pos)
                if on_line and compiled.on_line.may_begin_at(s, pos, self._code.begins):
                    return out.hold(s, begin, pos)
            if m is None or not self._can_open_here(m, s, begin, pos):
                m = compiled.on_line.marker_at(s, pos) if on_line else None
                if m is None or not self._counts_here(m, after_blank=not s[begin:pos].strip()):
                    i = pos + 1
                    continue
            step = self._marker(s, begin, pos, m, last=last)
            if step < 0:
                return -step - 1
            i = step

    def _marker(self, s: str, begin: int, pos: int, m: re.Match[str], *, last: bool) -> int:
        """Read the marker at `pos`. Returns the index to go on from, or -index-1 when this stretch of prose is over."""
        out = self._out
        group = self._compiled.group(m)
        kind = group[0]
        if kind == "c" and out.reasoning is not None:
            if out.reasoning != m.group():
                return m.end()
            out.emit_prose(s, begin, pos)
            out.end_reasoning(m.group())
            return -m.end() - 1
        if out.span and not out.span_is_void(s, begin, pos):
            live = self._code.is_live(s, pos, last=last)
            if live is None:
                return -out.hold(s, begin, pos) - 1
            if not live:
                return m.end()
            out.span = 0
        after_call = self._sink.calls > 0 and out.follows_call and SPACE.match(s, begin, pos).end() == pos
        if (kind == "x" and (not after_call or out.at_start)) or (kind == "s" and not self._sink.calls):
            return m.end()
        if kind == "c" and not after_call:
            # A template may have opened the reasoning in the prompt: what follows is the answer's start.
            out.emit_prose(s, begin, m.end())
            out.events.append(Reasoning("", markup=True))
            out.restart()
            return -m.end() - 1
        if kind == "r":
            fresh = not out.follows_text and not s[begin:pos].strip()
            if out.reasoning is not None or not (fresh or out.is_blank(s, begin, pos)):
                return m.end()
            out.emit_prose(s, begin, pos)
            out.open_reasoning(m.group(), self._compiled.reasoning[group])
            return -m.end() - 1
        if kind in "ncx":  # directly after a call, the end of a call or of reasoning is markup
            if kind == "x":
                self._sink.ends_with(out.take_gap() + s[begin : m.end()])
            else:
                out.emit_prose(s, begin, pos)
            return -m.end() - 1
        if kind == "e":
            return self._end_marker(s, begin, pos, m.end(), last=last)
        out.emit_prose(s, begin, pos)
        if kind == "s":
            if out.gap_follows_text:
                out.emit_gap()
            out.events.append(Stop(m.group()))
            self.stopped = True
            return -m.end() - 1
        self._sink.in_reasoning = out.reasoning is not None
        return -self._markup.open(self._compiled.openers[group], m.group(), "", pos, m.end()) - 1

    def _end_marker(self, s: str, begin: int, pos: int, end: int, *, last: bool) -> int:
        """A token that ends a turn (`<|im_end|>`, `</s>`): not content when nothing follows, else text."""
        n = len(s)
        compiled = self._compiled
        if n - pos > _MAX_ENDS:
            return end
        after = compiled.ends.match(s, end).end()
        next_turn = compiled.at_start.marker_at(s, after) if after < n and self._sink.calls else None
        if next_turn is not None and compiled.group(next_turn)[0] == "s":
            self._out.emit_prose(s, begin, pos)
            return -after - 1
        if after < n and (last or not compiled.at_start.may_begin_at(s, after)):
            return end
        if not last:
            return -self._out.hold(s, begin, pos) - 1
        self._out.emit_prose(s, begin, pos)
        return -n - 1

    def _counts_here(self, m: re.Match[str], *, after_blank: bool) -> bool:
        """Whether an opener counts at the beginning of a line: the tool that it names, if it names one, is offered."""
        opener = self._compiled.openers[m.lastgroup or ""]
        if opener.in_thought and not self._options.in_thought and self._out.reasoning is None:
            return False
        if opener.where is Where.START and not (self._out.at_start and after_blank):
            return False
        return self._code.offers(m)

    def _can_open_here(self, m: re.Match[str], s: str, begin: int, pos: int) -> bool:
        opener = self._compiled.openers.get(self._compiled.group(m))
        if opener is None or not opener.not_after:
            return True
        before = ("".join(self._out.recent) + s[max(begin, pos - TAIL) : pos])[-TAIL:]
        return not before.rstrip().endswith(opener.not_after)


@functools.lru_cache(maxsize=64)
def _finder(char: str) -> Callable[[str], object]:
    return re.compile(re.escape(char)).search


# -- code --------------------------------------------------------------------------------------------------------------


class Code:
    """Reads runs of backticks and tildes, and the text between them.

    A marker in code is an example, save in a fence that may hold a call.
    """

    __slots__ = ("_compiled", "_live_at", "_markup", "_names", "_out", "_sink")

    def __init__(
        self, compiled: Compiled, out: Output, markup: Markup, sink: Sink, names: Collection[str] = ()
    ) -> None:
        self._names = names  # of the tools that are offered
        self._compiled = compiled
        self._out = out
        self._markup = markup
        self._sink = sink
        self._live_at = -1  # markers before this index of the current text are in the open span

    def begin(self) -> None:
        """Start on another text."""
        self._out.span_from = 0
        self._live_at = -1

    def ticks(self, s: str, begin: int, pos: int, *, last: bool) -> int:
        """A run of backticks or tildes at `pos`. Returns as `Scanner._marker` does."""
        out = self._out
        n = len(s)
        c = s[pos]
        end = _RUNS[c].match(s, pos, pos + _MAX_FENCE_LINE).end()
        count = end - pos
        if count == _MAX_FENCE_LINE:
            return end  # too long for markup
        blank = out.is_blank(s, begin, pos)
        if end == n and not last and (c == "`" or blank or out.is_lead(s, begin, pos)):
            return -out.hold(s, begin, pos) - 1
        if out.span and out.span_is_void(s, begin, pos):
            out.span = 0
        if count >= 3 and not out.span:
            if blank or out.is_lead(s, begin, pos):
                return self._fence_line(s, begin, pos, end, last=last)
            if c == "`":
                # Models also open a block after a sentence: `Here it is: ```json`. The language shows it.
                if not last and _INFO_PART.match(s, end):
                    return -out.hold(s, begin, pos) - 1
                if _INFO_LINE.match(s, end):
                    return self._fence_line(s, begin, pos, end, last=last)
        if c == "`":
            if not out.span:
                out.span = count
                out.span_from = end
            elif out.span == count:
                out.span = 0
        return end

    def _fence_line(self, s: str, begin: int, pos: int, end: int, *, last: bool) -> int:
        """Read the fence that opens at `pos`: enter it, or the call that it holds."""
        out = self._out
        n = len(s)
        fence = (s[pos], end - pos)
        line_end = s.find("\n", end, pos + _MAX_FENCE_LINE)
        if line_end < 0:
            if n - pos < _MAX_FENCE_LINE and not last:
                return -out.hold(s, begin, pos) - 1
            line_end = n - 1 if n - pos < _MAX_FENCE_LINE else pos + _MAX_FENCE_LINE - 1
        info = s[end : line_end + 1]
        if "`" in info and fence[0] == "`":
            out.span = fence[1]
            out.span_from = end
            return end
        opens_answer = self._out.at_start and not s[begin:pos].strip()
        info = info.strip().lower()
        limit = pos + 2 * _MAX_FENCE_LINE
        k = WHITE_SPACE.match(s, line_end + 1, limit).end()
        candidates = {
            group: opener
            for group, opener in self._compiled.openers.items()
            if (opens_answer and opener.where is not Where.FENCE) or info in opener.fences
        }
        if candidates and k < limit and s[line_end] == "\n":  # a line that is too long is text
            if not last and (k >= n or self._may_begin_at(s, k)):
                return -out.hold(s, begin, pos) - 1
            for m, group in self._openers_at(s, k):
                if group in candidates:
                    out.emit_prose(s, begin, pos)
                    return -self._markup.open(candidates[group], m.group(), s[pos:k], k, m.end(), fence) - 1
        if self._out.reasoning is not None:
            # A fence that is never closed must not hide the end of the thought.
            out.span = fence[1]
            out.span_from = end
            return end
        out.emit_prose(s, begin, line_end + 1)
        out.fence = fence
        out.begin_line(blank=True)
        return -line_end - 2

    def _may_begin_at(self, s: str, k: int) -> bool:
        """Whether the text ends in what may open a call where calls are looked for in a fence."""
        return self._compiled.at_start.may_begin_at(s, k) or self._compiled.fenced.may_begin_at(s, k, self.begins)

    def begins(self, part: str) -> bool:
        """Whether the name of an offered tool begins so."""
        return any(name.startswith(part) for name in self._names)

    def offers(self, m: re.Match[str]) -> bool:
        """Whether the tool that an opener names is offered, or it names none."""
        name = self._compiled.named(m)
        return name is None or name in self._names

    def _openers_at(self, s: str, k: int) -> Iterator[tuple[re.Match[str], str]]:
        """The openers at `s[k]` in a fence, with their groups: first those that count only in fences."""
        m = self._compiled.fenced.marker_at(s, k)
        if m is not None and self.offers(m):
            yield m, m.lastgroup or ""
        m = self._compiled.at_start.marker_at(s, k)
        if m is not None:
            yield m, self._compiled.group(m)

    def in_fence(self, s: str, i: int, *, last: bool) -> int:
        """Read code from `s[i]`, up to and with the closing fence: all of it is emitted as text."""
        out = self._out
        assert out.fence is not None  # noqa: S101 - checked by the caller
        char, count = out.fence
        n = len(s)
        begin = i
        while True:
            pos = s.find(char * 3, i)
            if pos < 0:
                # A run may be cut: hold its beginning.
                keep = n
                while keep > i and s[keep - 1] == char and n - keep < 2:
                    keep -= 1
                if last or not (keep < n and out.is_blank(s, begin, keep)):
                    keep = n
                out.emit_prose(s, begin, keep)
                self._out.carry = s[keep:]
                return n
            end = _RUNS[char].match(s, pos).end()
            closed = _fence_end(s, pos, end, count, last=last) if out.is_blank(s, begin, pos) else -1
            if closed is not None and 0 <= closed < n and s[closed] != "\n":
                closed = self._at_turns_end(s, closed, last=last)
            if closed is None:
                return out.hold(s, begin, pos)
            if closed >= 0:
                out.emit_prose(s, begin, closed)
                out.fence = None
                out.begin_line(blank=False)
                return closed
            i = end

    def _at_turns_end(self, s: str, at: int, *, last: bool) -> int | None:
        """`at`, where it holds a token that ends the turn: on a closing fence's line that is not code. Else -1.

        None where more text is needed.
        """
        if self._compiled.ends.match(s, at).end() > at:
            return at
        return None if not last and self._compiled.at_start.may_begin_at(s, at) else -1

    def after_fenced_call(self, s: str, i: int, *, last: bool) -> int:
        """Read on after a call in a fence: the closing fence is markup, and another call may precede it. After a marker
        that opens no call, only a call is markup.
        """
        out = self._out
        assert out.fence_tail is not None  # noqa: S101 - checked by the caller
        n = len(s)
        k = WHITE_SPACE.match(s, i).end()
        if k > i:
            self._out.hold_gap(s[i:k])
            out.begin_line(blank=True)
            i = k
        if i == n:
            return n
        if s[i] == out.fence_tail[0] and out.follows_call:
            end = _RUNS[s[i]].match(s, i).end()
            closed = self._closes_call_fence(s, i, end, last=last)
            if closed is None:
                self._out.carry = s[i:]
                return n
            if closed >= 0:
                self._sink.ends_with(self._out.take_gap() + s[i:closed])
                self._sink.report_end()
                out.fence_tail = None
                out.begin_line(blank=s.startswith(s[i], closed))  # another one opens there
                return closed
        if not last and self._compiled.at_start.may_begin_at(s, i):
            self._out.carry = s[i:]
            return n
        m = self._compiled.at_start.marker_at(s, i)
        opener = None if m is None else self._compiled.openers.get(self._compiled.group(m))
        if m is not None and opener is not None:
            fence, out.fence_tail = out.fence_tail, None
            return self._markup.open(opener, m.group(), "", i, m.end(), fence)
        # Other text: it is still in the fence.
        out.stay_in(out.fence_tail)
        out.fence_tail = None
        return i

    def _closes_call_fence(self, s: str, i: int, end: int, *, last: bool) -> int | None:
        """The index after the run `s[i:end]`, or the part of it, that closes the fence of the call before; else -1.

        None where more text is needed.
        """
        out = self._out
        assert out.fence_tail is not None  # noqa: S101 - checked by the caller
        count = out.fence_tail[1]
        if end - i >= _MAX_FENCE_LINE:
            return -1  # too long for markup
        if end == len(s) and not last:
            return None
        if end - i < count:
            return end if end == len(s) else -1  # half a closing fence, where the text ends, is markup too
        # A language directly after the run and nothing else on its line: another fence opens. The run is two fences
        # in one, or the fence before was left open.
        if not last and _INFO_PART.match(s, end):
            return None
        if _INFO_LINE.match(s, end) or (last and _INFO_PART.match(s, end)):
            return {count: i, 2 * count: end - count}.get(end - i, -1)
        return end

    def is_live(self, s: str, pos: int, *, last: bool) -> bool | None:
        """Whether a marker after an open backtick run counts; None while the line is undecided."""
        out = self._out
        if pos < self._live_at:
            return False  # the same span as around the marker before
        line_end = s.find("\n", pos, pos + _MAX_SPAN)
        stop = line_end if line_end >= 0 else min(len(s), pos + _MAX_SPAN)
        i = pos
        while True:
            m = _TICKS.search(s, i, stop)
            if m is None:
                break
            if m.end() - m.start() == out.span:
                if m.end() == len(s) and not last:
                    return None  # the run may go on
                self._live_at = m.start()
                return False
            i = m.end()
        if line_end >= 0 or last or len(s) - pos >= _MAX_SPAN:
            return True
        return None


def _fence_end(s: str, pos: int, end: int, count: int, *, last: bool) -> int | None:
    """The index after the run `s[pos:end]` and its white space, where it is long enough to close a fence of `count`.

    -1 where it is not, None where more text is needed. The caller checks the rest of the line.
    """
    n = len(s)
    if end < n and end - pos < count:
        return -1
    line = end
    while line < n and s[line] in " \t\r" and line - pos < _MAX_FENCE_LINE:
        line += 1
    if line - pos >= _MAX_FENCE_LINE:
        return -1
    if line == n and not last:
        return None
    return line if end - pos >= count else -1
