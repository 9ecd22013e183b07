"""Code in a text: fences and spans. A marker in them is an example, save in a fence that may hold a call.

CommonMark 4.5 and 6.1, as far as it matters here. A fence that opens the answer can hold a call, and so can a fence
that a syntax names as its own.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from ..patterns import WHITE_SPACE, anywhere
from ..sink import Sink
from .grammar import Compiled, Where
from .markup import Markup
from .output import Output

_TICKS = re.compile(r"`+")
_RUNS = {"`": anywhere("`*"), "~": anywhere("~*")}
_INFO_LINE = re.compile(r"[A-Za-z][\w+\-]{0,30}[ \t]{0,8}\r?\n")
_INFO_PART = re.compile(r"[A-Za-z][\w+\-]{0,30}[ \t]{0,8}\r?\Z")
_MAX_FENCE_LINE = 100
_MAX_SPAN = 4096


class Code:
    """Reads runs of backticks and tildes, and the text between them."""

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
        return self._compiled.may_begin_at(s, k) or self._compiled.fenced.may_begin_at(s, k, self.begins)

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
        m = self._compiled.marker_at(s, k)
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
        return None if not last and self._compiled.may_begin_at(s, at) else -1

    def after_fenced_call(self, s: str, i: int, *, last: bool) -> int:
        """Read on after a call in a fence: the closing fence is markup, and another call may precede it."""
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
        if s[i] == out.fence_tail[0]:
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
        if not last and self._compiled.may_begin_at(s, i):
            self._out.carry = s[i:]
            return n
        m = self._compiled.marker_at(s, i)
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
