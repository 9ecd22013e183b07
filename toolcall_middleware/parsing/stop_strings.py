"""A client's stop strings, looked for in text that arrives in pieces."""

from __future__ import annotations


class StopFinder:
    """Cuts text before the first stop string. Holds back the longest end that may be the beginning of one."""

    __slots__ = ("_carry", "_longest", "_stops", "found")

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._longest = max(map(len, self._stops), default=0)
        self._carry = ""
        self.found: str | None = None

    def feed(self, text: str) -> str:
        """What of the text so far is safe to show. Nothing more comes once `found` is set."""
        if self.found is not None:
            return ""
        text = self._carry + text
        # The one that is complete first, as the model writes; of two that end together the longer.
        ends = [(at + len(stop), at) for stop in self._stops if (at := text.find(stop)) >= 0]
        if ends:
            end, start = min(ends)
            self.found = text[start:end]
            self._carry = ""
            return text[:start]
        keep = self._may_begin(text)
        self._carry = text[keep:]
        return text[:keep]

    def flush(self) -> str:
        """What was held back: the text goes on with something else."""
        text, self._carry = self._carry, ""
        return text

    def _may_begin(self, text: str) -> int:
        for at in range(max(0, len(text) - self._longest + 1), len(text)):
            tail = text[at:]
            if any(stop.startswith(tail) for stop in self._stops):
                return at
        return len(text)
