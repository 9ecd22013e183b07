"""Brackets: those of notations, and the open ones of a value."""

from __future__ import annotations

from typing import SupportsIndex

SET, MEMBERS = "<*"
"""Among the open brackets: that of a set in Python's notation (`{'a', 'b'}`); `**{…}`, whose members are the call's."""
LISTS = f"[({SET}"
OPEN = {"{": "{", "[": "[", "(": "[", SET: "["}
SHUT = {"{": "}", "[": "]", "(": "]", SET: "]", MEMBERS: ""}
CLOSERS = {"{": "}", "[": "]", "(": ")", SET: "}", MEMBERS: "}"}
MATES = {"}": f"{{{MEMBERS}{SET}", "]": "[", ")": "("}


class Brackets(list[str]):
    """Open brackets, with a count of each kind: a search through 100,000 of them for each closing one takes hours."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        super().__init__()
        self._counts: dict[str, int] = {}

    def append(self, bracket: str) -> None:
        self._counts[bracket] = self._counts.get(bracket, 0) + 1
        super().append(bracket)

    def pop(self, index: SupportsIndex = -1) -> str:
        bracket = super().pop(index)
        self._counts[bracket] -= 1
        return bracket

    def __contains__(self, bracket: object) -> bool:
        return self._counts.get(str(bracket), 0) > 0
