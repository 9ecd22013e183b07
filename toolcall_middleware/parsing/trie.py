"""Many literals as one pattern: what begins alike is looked at once, however many there are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field


@dataclass(slots=True)
class Trie:
    """Words by their characters. `ends`: a word ends here; `ways`: what the others go on with."""

    ends: bool = False
    ways: dict[str, Trie] = field(default_factory=dict)

    @classmethod
    def of(cls, words: Iterable[str]) -> Trie:
        """A trie of `words`."""
        root = cls()
        for word in words:
            at = root
            for char in word:
                at = at.ways.setdefault(char, cls())
            at.ends = True
        return root

    def longest(self) -> str:
        """A pattern for the longest of the words that stands there."""
        ways = [re.escape(char) + way.longest() for char, way in self._sorted()]
        if len(ways) == 1 and not self.ends:
            return ways[0]
        return f"(?:{'|'.join(ways)}){'?' if self.ends else ''}" if ways else ""

    def beginnings(self) -> dict[str, str]:
        """A pattern for every beginning of a word that is not the whole of it, by its first character."""
        return {char: re.escape(char) + way._begun() for char, way in self._sorted() if way.ways}  # noqa: SLF001

    def _begun(self) -> str:
        ways = self.beginnings().values()
        return f"(?:{'|'.join(ways)})?" if ways else ""

    def ahead(self, depth: int) -> str:
        """A pattern for the next `depth` characters of a word, fewer where it or the text ends before."""
        if self.ends or not depth:
            return ""
        ways: dict[str, list[str]] = {}
        for char, way in self._sorted():
            ways.setdefault(way.ahead(depth - 1), []).append(char)
        return f"(?:{'|'.join([chars_of(chars) + rest for rest, chars in ways.items()])}|\\Z)"

    def _sorted(self) -> Iterator[tuple[str, Trie]]:
        return iter(sorted(self.ways.items()))


def chars_of(chars: Iterable[str]) -> str:
    """A pattern for one of `chars`."""
    given = sorted(chars)
    return re.escape(given[0]) if len(given) == 1 else "[" + "".join(map(re.escape, given)) + "]"
