"""Markup in a text: reads on from an opening marker, and emits calls or text.

Possible markup is held in the sink until its reader decides what it is; then it is dropped, or emitted as text.
"""

from __future__ import annotations

import re

from ..cursor import Cursor, CursorReader
from ..sink import Mode, Sink
from .grammar import Opener
from .output import Fence, Output

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
            half = self._out.in_gap and sink.calls > 0 and not sink.keep_raw and _HALF_TOKEN.match(left)
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
        behind = "".join(sink.held)[sink.opening :] + rest
        alone = not behind.strip() if sink.opening else sink.committed and not behind.strip(", \t\r\n")
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
            header, sink.says_more = sink.says_more, False
            out.begin_line(blank=header, header=header)
            if header:
                # No call without a marker opens directly after a header: the text is meant for the user.
                out.at_start = False
                out.recent.append(">")
            # The text after the last call is markup, unless the reader failed: then it is read as text.
            return held if failed and not header else ""
        refused = held[:opening] if failed else held
        rest = held[len(refused) :]
        if refused or opening:
            out.emit(refused)
        self.budget -= len(rest)
        if self.budget < 0 and rest:
            # Millions of markers, each held up to the next: none of it is read twice.
            out.emit(rest)
            rest = ""
        out.begin_line(blank=failed and refused.endswith("\n"))
        out.stay_in(fence)
        return rest
