"""Calls written as JSON objects behind a marker: alone, in a list, or one after another; then the closing marker."""

from __future__ import annotations

import re
from dataclasses import replace

from ...cursor import COMMENT, behind_comments
from ...patterns import WHITE_SPACE
from ...sink import Sink
from .call import CallReader
from .syntax import JsonCallSyntax

_FENCE = re.compile(r"`{3,}[A-Za-z_]*[ \t]*\r?\n")
_PARTIAL_FENCE = re.compile(r"`+[A-Za-z_]*[ \t]*\r?\Z")
_HEAD = re.compile(r"\{[ \t\r\n]*[\"'](?:name|function|type|id|tool_name|tool_call_id)[\"'][ \t\r\n]*:")
_MAX_GAP = 256  # white space and stray brackets that are looked through

# Where the reader of the calls behind a marker stands.
_BEFORE, _CALL, _BETWEEN, _TAIL, _LOST = range(5)


class JsonCalls:
    """One or more call objects behind a marker: alone, in a list, or one after another; then the closing marker."""

    __slots__ = ("_call", "_in_list", "_sink", "_state", "_syntax", "done", "failed")

    def __init__(self, sink: Sink, syntax: JsonCallSyntax) -> None:
        self.done = False
        self.failed = False
        self._sink = sink
        self._syntax = syntax
        self._state = _BEFORE
        self._call: CallReader | None = None
        self._in_list = syntax.in_list

    def step(self, s: str, i: int, /, *, last: bool) -> int:  # noqa: C901, PLR0912 - a table of states
        """See `Body.step`."""
        n = len(s)
        while not self.done and not self.failed:
            if self._state == _CALL:
                call = self._call
                assert call is not None  # noqa: S101 - set with the state
                i = call.feed(s, i, last=last)
                self.failed = call.failed
                if call.done:
                    self._call = None
                    self._state = _LOST if call.lost and (self._syntax.close or self._in_list) else _BETWEEN
                    if not self._sink.changed:
                        if self._state == _LOST or not self._sink.closes():
                            continue
                return i
            if self._state == _LOST:
                k = self._find_back(s, i, last=last)
                if self._state == _LOST and not self.done:
                    return i
                if k > i and self._sink.skips_behind_call():
                    return k
                i = k
                continue
            j = WHITE_SPACE.match(s, i).end()
            if self._state == _TAIL:
                return self._tail(s, i, j, last=last)
            if j - i > _MAX_GAP or (j == n and last):
                self.done = self._state == _BETWEEN
                if not self.done and j == n and self._sink.committed:
                    self.done = True  # the text ends behind a comma: a list that does not go on
                    return j
                self.failed = not self.done
                return i
            if j == n:
                return i
            c = s[j]
            if self._state == _BEFORE:
                if c == "{":
                    i = self._open_call(j)
                elif c == "[" and not self._in_list:
                    self._in_list = True
                    i = j + 1
                elif c == "]" and self._in_list:
                    i = j + 1
                    self._state = _TAIL
                elif c == "`" and not self._syntax.bare:
                    fence = _FENCE.match(s, j)
                    if fence is None:
                        if not last and _PARTIAL_FENCE.match(s, j) and n - j < 32:
                            return i
                        self.failed = True
                        return i
                    i = fence.end()
                else:
                    self.failed = True
                    return i
            else:
                k = self._between(s, i, j, c, last=last)
                if k == i and self._state == _BETWEEN:
                    return i
                i = k
        return i

    def finish(self, *, cut: bool) -> None:
        """See `Body.finish`."""
        if self._call is not None:
            self._call.finish(cut=cut)
            self.failed = self._call.failed

    def _open_call(self, i: int) -> int:
        syntax = self._syntax
        if syntax.bare and self._in_list and self._sink.committed:
            syntax = replace(syntax, bare=False)  # behind a call, the list's entries need no further proof
        self._call = CallReader(syntax, self._sink)
        self._state = _CALL
        return i

    def _between(self, s: str, i: int, j: int, c: str, *, last: bool) -> int:
        """Behind a call: another one, the end of the list, or the tail."""
        if c == "{":
            return self._open_call(j)
        if self._in_list:
            if c == ",":
                self._state = _BEFORE
                return j + 1
            if c == "]":
                self._state = _TAIL
                return j + 1
        elif c in self._syntax.separators:
            if self._syntax.bare:
                return self._bare_separator(s, i, j, last=last)
            return j + 1
        if c == "}" and not any(marker.startswith(c) for marker in self._syntax.close):
            return j + 1  # models miscount: the call has had all of its braces
        self._state = _TAIL
        return i

    def _find_back(self, s: str, i: int, *, last: bool) -> int:
        """Behind a call that broke off: its closing marker, or the list's next call, tells that it was all markup.

        Without one soon it is text.
        """
        limit = i + _MAX_GAP
        head = _HEAD.search(s, i, limit)
        ends = [(k, k + len(marker)) for marker in self._syntax.close if (k := s.find(marker, i, limit)) >= 0]
        if head is not None and (not ends or head.start() < min(ends)[0]):
            if self._in_list:
                return self._open_call(head.start())
            self._state = _TAIL
        elif ends:
            self.done = True
            return min(ends)[1]
        elif last or len(s) >= limit:
            self._state = _TAIL
        return i

    def _bare_separator(self, s: str, i: int, j: int, *, last: bool) -> int:
        """Without markers, `; ` belongs to us only when a call follows."""
        k = WHITE_SPACE.match(s, j + 1).end()
        if k == len(s) and not last and k - i < _MAX_GAP:
            return i
        if k < len(s) and s[k] == "{":
            return self._open_call(k)
        self.done = True
        return i

    def _tail(self, s: str, i: int, j: int, *, last: bool) -> int:
        """The closing marker, with stray closing brackets or a fence's end before it."""
        close = self._syntax.close
        if not close:
            if s.startswith("}", j):
                return j + 1
            self.done = last or j < len(s)
            return i
        k = j
        limit = min(len(s), j + _MAX_GAP)
        while k < limit and s[k] in "}]` \t\r\n" and not s.startswith(close, k):
            k += 1
        if s[k : k + 1] in COMMENT:
            behind = behind_comments(s, k, close, last=last)
            if behind is None:
                return i
            k = max(k, behind)
        if not last and len(s) - k < max(map(len, close)) and k < j + _MAX_GAP:
            rest = s[k:]
            if any(len(marker) > len(rest) and marker.startswith(rest) for marker in close):
                return i
        for marker in close:
            if s.startswith(marker, k):
                self.done = True
                return k + len(marker)
        if k < j + _MAX_GAP and len(s) - k < max(map(len, close)) and any(marker.startswith(s[k:]) for marker in close):
            # Half a marker at the end of the text is markup too.
            self.done = last
            return len(s) if last else i
        self.done = True
        return i
