"""A key, a name or an id of a call in JSON, or the value of a key that calls do not have."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from ...values.json_reader import JsonReader
from ...values.json_spelling import decode

MAX_NAME = 512
_MAX_OTHER = 1 << 20
_SHORT = re.compile(r"""(["'])[^"'\\]*\1""")  # a string that ends at its next quote


class SimpleValue:
    """Reads one, up to its end. short: it must be, for it is a key, a name or an id."""

    __slots__ = ("_out", "_read", "_reader", "_short", "too_long")

    def __init__(self, *, short: bool) -> None:
        self._reader = JsonReader()
        self._short = short
        self._out: list[str] = []
        self._read = 0  # characters
        self.too_long = False

    def feed(self, s: str, i: int) -> int:
        """Read on from `s[i]`; the index behind what was read."""
        reader, out = self._reader, self._out
        if not self._short:
            begin, i = i, reader.feed(s, i, out)
            self._read += i - begin
            if self._read > _MAX_OTHER:
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


def arguments_beside(members: Mapping[str, str], schema: Mapping[str, Any] | None) -> str:
    """The arguments, as JSON, of a call that has no key for them: of its other `members` (JSON by key) those that the
    tool's `schema` knows, or a member that holds such. Empty where there are none.
    """
    known = schema.get("properties") if schema is not None else None
    if not isinstance(known, Mapping):
        return ""
    found = [f"{json.dumps(key)}: {text}" for key, text in members.items() if key in known and text]
    if found:
        return "{" + ", ".join(found) + "}"
    for text in members.values():
        if text.startswith("{") and not known.keys().isdisjoint(_decoded(text) or ()):
            return text
    return ""


def text_beside(members: Mapping[str, str]) -> str:
    """What an assistant's message says beside its calls: its `content`, a string or parts that hold text."""
    said = _decoded(members.get("content", ""))
    if isinstance(said, list):
        said = "".join(part["text"] for part in said if isinstance(part, dict) and isinstance(part.get("text"), str))
    return said if isinstance(said, str) else ""


def _decoded(text: str) -> Any:
    try:
        return decode(text)
    except ValueError:
        return None
