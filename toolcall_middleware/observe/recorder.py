"""The content of one exchange in the order in which it was received and sent, bounded in bytes.

A row is a JSON object with `at` (milliseconds since the request came) and `kind`:
`request`, `settings` (`values` other than defaults, and what was `known` of the backend), `ask` (the body for the
backend), `head`, `backend` (a piece of its answer), `client` (a piece of ours; `of` is the row of the backend's
piece that caused it), `decision` (`what`, `value`, `why`), `error`, `cut`.
Where a client speaks another API than chat completions, `request` is the chat form of its request, and a `client` row
is a step of the answer: `step` is text, reasoning, refusal, call, arguments or finish. Two more kinds hold that API's
own bytes: `face_request` (`api` names the API) and `face` (a piece of the answer).
"""

from __future__ import annotations

import codecs
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

Row = dict[str, Any]

MAX_BYTES = 16 << 20
_ROW = 96  # bytes of a row in a file beside its data, about
_ROW_HELD = 320  # the same in memory, measured
MAX_HELD = 256 << 20
_IN_PIECES = frozenset({"backend", "client", "face"})
_new_decoder = codecs.getincrementaldecoder("utf-8")


class Room:
    """Memory that exchanges hold together. Their recorders count it as they grow, also while the exchanges run.

    An observer gives it back when it lets go of an exchange, from whatever thread.
    """

    def __init__(self, most: int = MAX_HELD) -> None:
        self.most = most
        self.taken = 0
        self._lock = threading.Lock()

    def fits(self, size: int) -> bool:
        """Whether there is room for `size` bytes more."""
        return self.taken + size <= self.most

    def take(self, size: int) -> None:
        """Count `size` bytes, or give them back where it is negative."""
        with self._lock:
            self.taken += size


class Recorder:
    """The rows of one exchange. Past `max_bytes`, or where one of `rooms` is full, a row `cut` is the last one.

    began: `time.perf_counter` when the request came. version: changes with each row. hide: takes keys out of what is
    noted from now on; who asks an upstream with one sets it, because upstreams quote keys.
    """

    __slots__ = ("_decoders", "began", "cut", "held", "hide", "max_bytes", "rooms", "rows", "size")

    def __init__(self, began: float, max_bytes: int = MAX_BYTES) -> None:
        self.began = began
        self.max_bytes = max_bytes
        self.rows: list[Row] = []
        self.size = 0
        self.rooms: list[Room] = []
        self.held = 0
        """Bytes of memory, as each of `rooms` counts them."""
        self.cut = False
        # For content in pieces, by kind of row: a piece may end within a character.
        self._decoders: dict[str, codecs.IncrementalDecoder] = {}
        self.hide: Callable[[bytes], bytes] | None = None

    @property
    def version(self) -> int:
        """Changes with each row."""
        return len(self.rows)

    def data(self, kind: str, data: bytes, at: float | None = None, **more: Any) -> int:
        """A row with content; returns its number. Bytes that are no UTF-8 are replaced. A character that is split
        between two pieces of a kind is whole in the second piece's row.
        """
        if self.size + len(data) + _ROW > self.max_bytes:
            self._cut(f"longer than {self.max_bytes} bytes")
            return len(self.rows) - 1
        if kind == "ask":
            self._decoders.pop("backend", None)  # another answer begins
        decoder = self._decoders.get(kind) or self._decoders.setdefault(kind, _new_decoder(errors="replace"))
        return self.note(kind, at, data=decoder.decode(data, final=kind not in _IN_PIECES), **more)

    def note(self, kind: str, at: float | None = None, **more: Any) -> int:
        """A row; returns its number."""
        if self.cut:
            return len(self.rows) - 1
        if (hide := self.hide) is not None:
            more = {name: _without(value, hide) if isinstance(value, str) else value for name, value in more.items()}
        texts = [value for value in more.values() if isinstance(value, str)]
        size = _ROW + sum(map(len, texts))
        if self.size + size > self.max_bytes:
            self._cut(f"longer than {self.max_bytes} bytes")
            return len(self.rows) - 1
        held = _ROW_HELD + sum(map(sys.getsizeof, texts))
        if not all(room.fits(held) for room in self.rooms):
            self._cut("all exchanges that run hold too much")
            return len(self.rows) - 1
        for room in self.rooms:
            room.take(held)
        self.held += held
        self.size += size
        now = time.perf_counter() if at is None else at
        self.rows.append({"at": round((now - self.began) * 1000, 3), "kind": kind, **more})
        return len(self.rows) - 1

    def _cut(self, why: str) -> None:
        if not self.cut:
            self.cut = True
            at = round((time.perf_counter() - self.began) * 1000, 3)
            self.rows.append({"at": at, "kind": "cut", "why": why})


def _without(text: str, hide: Callable[[bytes], bytes]) -> str:
    return hide(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")
