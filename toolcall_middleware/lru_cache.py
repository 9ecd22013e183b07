"""What was used last, bounded in number and in size: what clients send decides what it holds."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")

_MOST_OF_ALL = 4
"""An entry of more than this part of the whole size is not kept: it would push out too many others."""


class LRUCache(Generic[_Key, _Value]):
    """Entries of at most `max_size` together, in a unit that is the caller's, and at most `max_entries` where that is
    given. May be used by threads.
    """

    def __init__(self, *, max_size: int, max_entries: int | None = None) -> None:
        self._max_entries = math.inf if max_entries is None else max_entries
        self._max_size = max_size
        self._size = 0
        self._entries: OrderedDict[_Key, tuple[_Value, int]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: _Key) -> _Value | None:
        """The value, now the most recent one; None when it is not (or no longer) here."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            self._entries.move_to_end(key)
            return entry[0]

    def put(self, key: _Key, value: _Value, *, size: int) -> None:
        """Keep `value`, unless there is one or it is too large. The oldest ones go."""
        if size > self._max_size // _MOST_OF_ALL:
            return
        with self._lock:
            if key in self._entries:
                return
            self._entries[key] = value, size
            self._size += size
            while len(self._entries) > self._max_entries or self._size > self._max_size:
                _, (_, old) = self._entries.popitem(last=False)
                self._size -= old
