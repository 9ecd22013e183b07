"""What is worth knowing for a while: entries that fade, bounded in number, because clients decide what they are of."""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_Key = TypeVar("_Key", bound=Hashable)
_Value = TypeVar("_Value")


class FadingMemory(Generic[_Key, _Value]):
    """At most `most` entries; the one that was noted longest ago goes first. May be used by threads.

    clock: the seconds that have passed since some moment.
    """

    def __init__(self, clock: Callable[[], float], *, most: int) -> None:
        self._clock = clock
        self._most = most
        self._entries: OrderedDict[_Key, tuple[float, _Value]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: _Key) -> _Value | None:
        """The value; None when there is none, or it has faded."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None:
                return None
            until, value = entry
            if until < self._clock():
                del self._entries[key]
                return None
            return value

    def items(self) -> list[tuple[_Key, _Value]]:
        """All that has not faded."""
        with self._lock:
            now = self._clock()
            return [(key, value) for key, (until, value) in self._entries.items() if until >= now]

    def put(self, key: _Key, value: _Value, *, seconds: float) -> None:
        """Know `value` for so many seconds, in place of what was known."""
        with self._lock:
            self._entries[key] = self._clock() + seconds, value
            self._entries.move_to_end(key)
            while len(self._entries) > self._most:
                self._entries.popitem(last=False)


def digest(*parts: bytes) -> str:
    """A short name for what a request holds; nobody can choose another request with the same."""
    hashed = hashlib.sha256()
    for part in parts:
        hashed.update(len(part).to_bytes(8, "big") + part)
    return hashed.hexdigest()[:32]
