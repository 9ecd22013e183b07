"""A key, a name or an id of a call in JSON, or a value that says nothing of it."""

from __future__ import annotations

import re

from ...values.json_reader import JsonReader

MAX_NAME = 512
_SHORT = re.compile(r"""(["'])[^"'\\]*\1""")  # a string that ends at its next quote


class SimpleValue:
    """Reads one, up to its end. kept: it is short, and wanted."""

    __slots__ = ("_kept", "_out", "_read", "_reader", "too_long")

    def __init__(self, *, kept: bool) -> None:
        self._reader = JsonReader()
        self._kept = kept
        self._out: list[str] = []
        self._read = 0  # characters
        self.too_long = False

    def feed(self, s: str, i: int) -> int:
        """Read on from `s[i]`; the index behind what was read."""
        reader, out = self._reader, self._out
        if not self._kept:
            i = reader.feed(s, i, out)
            out.clear()
            return i
        # So many characters and no more, however the text is cut: what is behind them is text again.
        end = i + MAX_NAME - self._read
        piece = s[i:end] if end < len(s) and not (not self._read and _SHORT.match(s, i, end)) else ""
        begin = i
        i = i + reader.feed(piece, 0, out) if piece else reader.feed(s, i, out)
        self._read += i - begin
        self.too_long = self._read >= MAX_NAME and not reader.done
        return i

    @property
    def over(self) -> bool:
        """Whether it is complete, or goes on as no JSON does."""
        return self._reader.done or self._reader.stuck

    @property
    def so_far(self) -> str:
        """What was read of it, as JSON."""
        return "".join(self._out)

    def end(self) -> tuple[str, bool]:
        """(its JSON, whether that was repaired)."""
        self._reader.close(self._out)
        return self.so_far, self._reader.repaired
