"""Text that arrives in pieces: collected, and cut before a client's stop string."""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, field

_MANY = 1024


class Gathered:
    """Collects text. It takes about as many bytes as the text has characters of ASCII: a piece of four characters takes
    sixty bytes in a list.
    """

    __slots__ = ("_joined", "_small")

    def __init__(self) -> None:
        self._joined: list[str] = []
        self._small: list[str] = []

    def write(self, text: str) -> None:
        """Append `text`."""
        self._small.append(text)
        if len(self._small) == _MANY:
            self._joined.append("".join(self._small))
            self._small.clear()

    def take(self) -> str:
        """Return all of the text and clear it."""
        text = "".join([*self._joined, *self._small])
        self._joined.clear()
        self._small.clear()
        return text


@dataclass(slots=True, eq=False)
class _State:
    """What the text ends with: the beginning of a stop string, `depth` characters of it.

    `found`: the length of the longest stop string that ends here, 0 for none. `shorter`: the state of the longest end
    of this one that also begins a stop string.
    """

    depth: int
    ways: dict[str, _State] = field(default_factory=dict)
    found: int = 0
    shorter: _State | None = None


class StopFinder:
    """Cuts text before the first stop string. Holds back the longest end that may be the beginning of one.

    One automaton for all of them (Aho and Corasick, 1975): a character costs the same, however many there are.
    """

    __slots__ = ("_begin", "_carry", "_root", "_state", "found")

    def __init__(self, stops: tuple[str, ...]) -> None:
        stops = tuple(stop for stop in stops if stop)
        self._root = self._state = _automaton(stops)
        firsts = "".join(map(re.escape, sorted({stop[0] for stop in stops})))
        self._begin = re.compile(f"[{firsts}]" if firsts else r"(?!)")
        self._carry = ""
        self.found: str | None = None

    def feed(self, text: str) -> str:
        """Return the text that is safe to emit. Returns nothing once `found` is set."""
        if self.found is not None:
            return ""
        root, state, begin = self._root, self._state, self._begin
        at, size = 0, len(text)
        while at < size:
            if state is root:
                begins = begin.search(text, at)
                if begins is None:
                    break
                at = begins.start()
            char = text[at]
            at += 1
            way = state.ways.get(char)
            while way is None and state.shorter is not None:
                state = state.shorter
                way = state.ways.get(char)
            state = way or root
            if state.found:
                return self._cut(text, at, state.found)
        self._state = state
        text = self._carry + text
        keep = len(text) - state.depth
        self._carry = text[keep:]
        return text[:keep]

    def _cut(self, text: str, end: int, length: int) -> str:
        # The one that is complete first, as the model writes; of two that end together the longer.
        whole = self._carry + text[:end]
        self.found = whole[-length:]
        self._carry = ""
        return whole[:-length]

    def flush(self) -> str:
        """Return the text held back: something other than text follows."""
        text, self._carry = self._carry, ""
        self._state = self._root
        return text


def _automaton(stops: tuple[str, ...]) -> _State:
    root = _State(0)
    for stop in stops:
        at = root
        for char in stop:
            at = at.ways.setdefault(char, _State(at.depth + 1))
        at.found = len(stop)
    queue = deque([root])
    while queue:
        state = queue.popleft()
        for char, way in state.ways.items():
            before = state.shorter
            while before is not None and char not in before.ways:
                before = before.shorter
            way.shorter = root if before is None else before.ways[char]
            way.found = way.found or way.shorter.found
            queue.append(way)
    return root
