"""A cache of the most recently used entries, bounded in number, size and time: clients decide its content."""

from __future__ import annotations

import hashlib
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")

_MOST_OF_ALL = 4
"""An entry of more than this part of the whole size is not kept: it would evict too many others."""


class LRUCache(Generic[_Key, _Value]):
    """Entries of at most `max_size` together, in a unit that is the caller's, and at most `max_entries` where that is
    given. May be used by threads. clock: the seconds that have passed since some moment.
    """

    def __init__(
        self,
        *,
        max_size: float = math.inf,
        max_entries: float = math.inf,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._max_entries = max_entries
        self._max_size = max_size
        self._clock = clock
        self._size = 0
        self._entries: OrderedDict[_Key, tuple[_Value, int, float]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: _Key) -> _Value | None:
        """The value, now the most recent one; None when it is not (or no longer) here."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            value, _, until = entry
            if until < self._clock():
                self._drop(key)
                return None
            self._entries.move_to_end(key)
            return value

    def items(self) -> list[tuple[_Key, _Value]]:
        """All values that have not expired."""
        with self._lock:
            now = self._clock()
            return [(key, value) for key, (value, _, until) in self._entries.items() if until >= now]

    def put(self, key: _Key, value: _Value, *, size: int = 1, seconds: float = math.inf) -> None:
        """Set `value` for so many seconds, unless it is too large. Evicts the oldest entries."""
        if size > self._max_size / _MOST_OF_ALL:
            return
        with self._lock:
            if key in self._entries:
                self._drop(key)
            self._entries[key] = value, size, self._clock() + seconds
            self._size += size
            while len(self._entries) > self._max_entries or self._size > self._max_size:
                self._drop(next(iter(self._entries)))

    def _drop(self, key: _Key) -> None:
        self._size -= self._entries.pop(key)[1]


def digest(*parts: bytes) -> str:
    """A short name for what a request holds; no client can choose another request with the same."""
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(len(part).to_bytes(8, "big") + part)
    return hashed.hexdigest()[:32]
