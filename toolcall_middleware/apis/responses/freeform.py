"""The input of a custom tool, which is free text, out of the arguments `{"input": "…"}` that the model writes.

The JSON string is unescaped as it arrives, cut anywhere: inside an escape, between the halves of a surrogate pair.
"""

from __future__ import annotations

import re

from ...wire.free_text import free_text
from .fields import whole_text

FIELD = "input"

_OPENING = re.compile(r'\s*\{\s*"input"\s*:\s*"')
_MAX_OPENING = 200  # characters until `"input": "` has come, or the input is read when the call is complete
# What is certain of a JSON string's inside: text, and escapes that nothing which follows can change.
_CERTAIN = re.compile(
    r"""(?: [^"\\]+
          | \\ [^u]
          | \\u (?![dD][89abAB]) [0-9a-fA-F]{4}
          | \\u [dD][89abAB][0-9a-fA-F]{2} \\u [dD][c-fC-F][0-9a-fA-F]{2}
          | \\u [dD][89abAB][0-9a-fA-F]{2} (?= [^\\] | \\[^u] | \\u (?![dD][c-fC-F]) [0-9a-fA-F]{4}
                                                  | \\u [0-9a-fA-F]{0,3} [^0-9a-fA-F] )
          | \\u (?= [0-9a-fA-F]{0,3} [^0-9a-fA-F] )
        )*+""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))", re.DOTALL)
_LETTERS = {"b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}


class FreeformInput:
    """The arguments of one custom call in, its input out. `finish` gives what `feed` could not know.

    `ended`: the whole input is known.
    """

    __slots__ = ("_held", "_inside", "_parts", "ended")

    def __init__(self) -> None:
        self._parts: list[str] = []  # all that came, until the input's text begins
        self._held = ""  # the beginning of the arguments, or the rest of an escape
        self._inside = False
        self.ended = False

    def feed(self, arguments: str) -> str:
        """More arguments: the text that is certain now."""
        if self.ended:
            return ""
        if self._inside:
            return self._text(self._held + arguments)
        self._parts.append(arguments)
        if len(self._held) > _MAX_OPENING:
            return ""
        self._held += arguments
        opening = _OPENING.match(self._held)
        if opening is None:
            return ""
        self._inside = True
        self._parts.clear()
        return self._text(self._held[opening.end() :])

    def _text(self, written: str) -> str:
        match = _CERTAIN.match(written)
        end = match.end() if match is not None else 0
        self.ended = written[end : end + 1] == '"'
        self._held = "" if self.ended else written[end:]
        return _unescaped(written[:end])

    def finish(self) -> str:
        """The call is over: the rest of its input."""
        if self.ended:
            return ""
        self.ended = True
        if self._inside:  # it was cut off: half an escape says nothing
            return ""
        return whole_text(free_text("".join(self._parts)))


def _unescaped(written: str) -> str:
    return whole_text(_ESCAPE.sub(_character, written)) if "\\" in written else whole_text(written)


def _character(match: re.Match[str]) -> str:
    code, letter = match.groups()
    return chr(int(code, 16)) if code else _LETTERS.get(letter, letter)
