"""Where an object ends whose JSON comes in pieces: what a backend writes behind a call may have to wait for it."""

from __future__ import annotations

import re

_STRUCTURE = re.compile(r'\\(?!.)|\\.|["{}\[\]]', re.DOTALL)


class ObjectEnd:
    """Whether JSON in pieces has `closed` the object that it began with. Each character is looked at once."""

    __slots__ = ("_depth", "_escaping", "_is_object", "_quoted", "closed")

    def __init__(self) -> None:
        self._is_object: bool | None = None  # None while it is white space only
        self._depth = 0
        self._quoted = False
        self._escaping = False  # the last piece ended in a backslash
        self.closed = False

    def feed(self, text: str) -> None:
        """The next piece. Of what begins with no object nothing is known: it is never closed."""
        if self._is_object is None and (begun := text.lstrip()):
            self._is_object = begun.startswith("{")
        if not self._is_object:
            return
        begin = 1 if self._escaping and text else 0
        self._escaping = self._escaping and not text
        for found in _STRUCTURE.finditer(text, begin):
            mark = found[0]
            if mark == "\\":
                self._escaping = True
            elif mark == '"':
                self._quoted = not self._quoted
            elif not self._quoted and mark in "{[":
                self._depth += 1
            elif not self._quoted and mark in "]}":
                self._depth -= 1
                self.closed = self.closed or self._depth <= 0
