r"""The text in a call's arguments `{"text": "It is\nsunny"}`, while they are written."""

from __future__ import annotations

import json
import re

_BEGINNING = re.compile(r'\s*\{\s*"(?:[^"\\]|\\.)*"\s*:\s*"')
_LONGEST_BEGINNING = 256  # characters
_INSIDE = re.compile(r'(?:[^"\\]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*')
_HALF_A_PAIR = re.compile(r"\\u[dD][89abAB][0-9a-fA-F]{2}\Z")


class FirstString:
    """Reads the first value of an object, which is a string. Valid JSON comes in pieces, text leaves."""

    __slots__ = ("_begun", "_held", "_over")

    def __init__(self) -> None:
        self._held = ""
        self._begun = self._over = False

    def feed(self, piece: str) -> str:
        """What another piece says."""
        if self._over:
            return ""
        held = self._held + piece
        if not self._begun:
            beginning = _BEGINNING.match(held, 0, _LONGEST_BEGINNING)
            if beginning is None:
                self._held, self._over = held, len(held) > _LONGEST_BEGINNING
                return ""
            self._begun = True
            held = held[beginning.end() :]
        inside = _INSIDE.match(held)
        end = 0 if inside is None else inside.end()
        self._over = held[end : end + 1] == '"'
        if not self._over and (half := _HALF_A_PAIR.search(held, max(0, end - 6), end)):
            end = half.start()
        self._held = held[end:]
        text: str = json.loads(f'"{held[:end]}"', strict=False)
        return text
