"""Long text counted in blocks that come again: a prompt's beginning is the same at every turn of a conversation.

A block ends before a single space between two words, where no common pre-tokenizer joins what stands on both sides; so
the blocks' counts add up to the text's. They are cut from the beginning, so that texts which begin alike share blocks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from ...lru_cache import LRUCache

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
        self._kept: LRUCache[str, int] = LRUCache(max_entries=max_entries, max_size=max_chars)

    def __len__(self) -> int:
        return len(self._kept)

    def count(self, text: str) -> int:
        """Its tokens, known or counted now."""
        if len(text) < _WORTH_KEEPING:
            return self._count(text)
        tokens = self._kept.get(text)
        if tokens is None:
            tokens = self._count(text)
            self._kept.put(text, tokens, size=len(text))
        return tokens
