"""The end of an answer as it passes by: there stands how many tokens it took."""

from __future__ import annotations

import re

_TAIL = 4096
# Quotes inside of a string have a backslash, so that no text can look like it.
_USAGE = re.compile(rb'(?<!\\)"usage": ?\{')
_COUNTS = {
    name: re.compile(rb'(?<!\\)"%s": ?([0-9]{1,15})\b' % name.encode())
    for name in ("prompt_tokens", "completion_tokens")
}


class AnswerTail:
    """The last bytes of an answer."""

    __slots__ = ("_tail",)

    def __init__(self) -> None:
        self._tail = (b"", b"", b"")

    def add(self, data: bytes) -> None:
        """The next piece."""
        # It may stand in two pieces, and [DONE] in a third.
        _, two, three = self._tail
        self._tail = two, three, data if len(data) <= _TAIL else data[-_TAIL:]

    def usage(self) -> dict[str, int | None]:
        """The tokens that the answer says it took; None where it does not say."""
        end = b"".join(self._tail)
        begins = [found.end() for found in _USAGE.finditer(end)]
        told = end[begins[-1] :] if begins else b""
        counts = {name: pattern.search(told) for name, pattern in _COUNTS.items()}
        return {name: None if found is None else int(found[1]) for name, found in counts.items()}
