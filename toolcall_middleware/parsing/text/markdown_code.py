"""Code in a text: fences and spans. A marker in them is an example, save in a fence that may hold a call.

CommonMark 4.5 and 6.1, as far as it matters here. A fence that opens the answer can hold a call, and so can a fence
that a syntax names as its own.
"""

from __future__ import annotations

import re

from .scanner_state import ScanState

_WS = re.compile(r"[ \t\r\n]*")
_TICKS = re.compile(r"`+")
_RUNS = {"`": _TICKS, "~": re.compile(r"~+")}
_INFO_LINE = re.compile(r"[A-Za-z][\w+\-]{0,30}[ \t]{0,8}\r?\n")
_INFO_PART = re.compile(r"[A-Za-z][\w+\-]{0,30}[ \t]{0,8}\r?\Z")
_MAX_FENCE_LINE = 100
_MAX_SPAN = 4096


class CodeScanner(ScanState):
    """Reads runs of backticks and tildes, and what stands between them."""

    __slots__ = ()

    def _ticks(self, s: str, begin: int, pos: int, *, last: bool) -> int:
        """A run of backticks or tildes at `pos`. Returns as `_marker` does."""
        n = len(s)
        c = s[pos]
        end = _RUNS[c].match(s, pos, pos + _MAX_FENCE_LINE).end()  # type: ignore[union-attr]
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
        if count >= 3 and not self._span:
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
            found = None if m is None else self._c.group(m)
            for group, opener in candidates:
                if m is not None and found == group:
                    self._leave(s, begin, pos)
                    self._body_fence = fence
                    return -self._open(opener, m.group(), s[pos:k], k, m.end()) - 1
        if self._reasoning is not None:
            # A fence that is never closed must not hide the end of the thought.
            self._span = fence[1]
            self._span_from = end
            return end
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
            end = _RUNS[char].match(s, pos).end()  # type: ignore[union-attr]
            closed = _fence_end(s, pos, end, count, last=last) if self._blank_before(s, begin, pos) else -1
            if closed is None:
                self._leave(s, begin, pos)
                self._carry = s[pos:]
                return n
            if closed >= 0 and (closed == n or s[closed] == "\n"):
                self._leave(s, begin, closed)
                self._fence = None
                self._line_blank = self._line_lead = False
                return closed
            i = end

    def _after_fenced_call(self, s: str, i: int, *, last: bool) -> int:
        """Behind a call that stood in a fence: the closing fence is markup, another call may come first."""
        assert self._fence_tail is not None  # noqa: S101 - checked by the caller
        n = len(s)
        k = _WS.match(s, i).end()  # type: ignore[union-attr]
        if k > i:
            self._hold_gap(s[i:k])
            self._line_blank = True
            i = k
        if i == n:
            return n
        if s[i] == self._fence_tail[0]:
            end = _RUNS[s[i]].match(s, i).end()  # type: ignore[union-attr]
            closed = self._closes_call_fence(s, i, end, last=last)
            if closed is None:
                self._carry = s[i:]
                return n
            if closed >= 0:
                self._sink.ends_with("".join(self._gap) + s[i:closed])
                self._sink.tell_end()
                self._gap = []
                self._fence_tail = None
                self._line_blank = s.startswith(s[i], closed)  # another one opens there
                self._line_lead = False
                return closed
        if not last and self._c.partial.match(s, i) is not None:
            self._carry = s[i:]
            return n
        m = self._c.marker_at(s, i)
        opener = None if m is None else self._c.openers.get(self._c.group(m))
        if m is not None and opener is not None:
            fence, self._fence_tail = self._fence_tail, None
            at = self._open(opener, m.group(), "", i, m.end())
            self._body_fence = fence
            return at
        # Other text: we are still in the fence.
        self._stay_in(self._fence_tail)
        self._fence_tail = None
        return i

    def _closes_call_fence(self, s: str, i: int, end: int, *, last: bool) -> int | None:
        """Whether the run `s[i:end]` closes the fence of the call before it: the index behind what does, else -1.

        None: there is no telling yet.
        """
        assert self._fence_tail is not None  # noqa: S101 - checked by the caller
        count = self._fence_tail[1]
        if end - i >= _MAX_FENCE_LINE:
            return -1  # by the thousand they are no markup
        if end == len(s) and not last:
            return None
        if end - i < count:
            return end if end == len(s) else -1  # half of one, where the text ends, is markup too
        # A language right behind the run and nothing else on its line: another fence opens, in the same run of two or
        # with the one before left open.
        if not last and _INFO_PART.match(s, end):
            return None
        if _INFO_LINE.match(s, end) or (last and _INFO_PART.match(s, end)):
            return {count: i, 2 * count: end - count}.get(end - i, -1)
        return end

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


def _fence_end(s: str, pos: int, end: int, count: int, *, last: bool) -> int | None:
    """The index behind the run `s[pos:end]` and its white space, where it is long enough to close a fence of `count`.

    -1 where it is not, None where there is no telling yet. What else stands on the line, the caller sees.
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
