"""Patterns that several readers share, and a type for those that match everywhere, if only the empty text: who uses one
of these need not ask whether it matched.
"""

from __future__ import annotations

import re
import sys
from typing import Protocol, cast


class Anywhere(Protocol):
    """A compiled pattern that matches at every place of a text."""

    def match(self, string: str, pos: int = 0, endpos: int = sys.maxsize, /) -> re.Match[str]: ...
    def fullmatch(self, string: str, /) -> re.Match[str] | None: ...


def anywhere(pattern: str) -> Anywhere:
    """`pattern`, compiled. Raises ValueError where it does not match the empty text."""
    compiled = re.compile(pattern)
    if compiled.match("") is None:
        raise ValueError(f"{pattern} does not match everywhere")
    return cast("Anywhere", compiled)


WHITE_SPACE = anywhere(r"[ \t\r\n]*")
"""JSON's white space."""

SPACE = anywhere(r"\s*")
"""Any white space."""

PYTHON_NAME = r"(?:\d{1,8}(?=[A-Za-z_]))?[A-Za-z_][\w.\-/:]{0,255}"
"""A tool's name before a parenthesis. It may begin with a digit, as no identifier of Python's does."""

TOOL_NAME = re.compile(r"[^\s<>{}\[\]\"'`|,;]{1,256}")
"""A tool's name that stands among markup, without quotes."""
