"""What was made for a client is kept for the next request, up to a cost: a client chooses how dear a thing is."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class CostCache(Generic[K, V]):
    """The values used last, as many as cost at most `most` together. One process may run several event loops."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._used = 0
        self._kept: OrderedDict[K, tuple[V, int]] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        """The value under `key`, which is used now; None where there is none."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
            return found[0]

    def put(self, key: K, value: V, cost: int) -> None:
        """Keep `value`, unless it alone costs more than a quarter of all."""
        if cost * 4 > self._most:
            return
        with self._lock:
            if key in self._kept:
                self._used -= self._kept.pop(key)[1]
            self._kept[key] = value, cost
            self._used += cost
            while self._used > self._most:
                self._used -= self._kept.popitem(last=False)[1][1]
