"""Long text counted in blocks that come again: a prompt's beginning is the same at every turn of a conversation.

A block ends before a single space between two words, where no common pre-tokenizer joins what stands on both sides; so
the blocks' counts add up to the text's. They are cut from the beginning, so that texts which begin alike share blocks.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator

BLOCK = 2048
_WORTH_KEEPING = 64
_SEAM = re.compile(r"(?<=\S) (?=[A-Za-z])")


def blocks(text: str, size: int = BLOCK) -> Iterator[str]:
    """`text` in pieces of `size` to twice as many characters. Text without seams is cut where it must be."""
    begin, length = 0, len(text)
    while length - begin > 2 * size:
        seam = _SEAM.search(text, begin + size, begin + 2 * size)
        end = seam.start() if seam is not None else begin + 2 * size
        yield text[begin:end]
        begin = end
    yield text[begin:] if begin else text


def last_seam(text: str) -> int:
    """Where the last seam is; the length of `text` when it has none."""
    at = len(text)
    for found in _SEAM.finditer(text, max(0, at - BLOCK)):
        at = found.start()
    return at


class CountCache:
    """The last counted texts, bounded in number and characters. For threads."""

    def __init__(self, count: Callable[[str], int], *, max_entries: int = 8192, max_chars: int = 8 << 20) -> None:
        self._count = count
        self._max_entries = max_entries
        self._max_chars = max_chars
        self._chars = 0
        self._kept: OrderedDict[str, int] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._kept)

    def count(self, text: str) -> int:
        """Its tokens, known or counted now."""
        if len(text) < _WORTH_KEEPING:
            return self._count(text)
        with self._lock:
            known = self._kept.get(text)
            if known is not None:
                self._kept.move_to_end(text)
                return known
        tokens = self._count(text)
        if len(text) <= self._max_chars // 4:
            with self._lock:
                if text not in self._kept:
                    self._kept[text] = tokens
                    self._chars += len(text)
                while len(self._kept) > self._max_entries or self._chars > self._max_chars:
                    old, _ = self._kept.popitem(last=False)
                    self._chars -= len(old)
        return tokens
