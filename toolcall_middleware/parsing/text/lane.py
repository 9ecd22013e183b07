"""Which pieces of a string need no reader: its state tells beforehand what it would say of them.

Only the readers of values still say so, and nobody asks them.
"""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Callable

import msgspec

_ASCII = "".join(map(chr, range(0x20, 0x7F)))


class Way(enum.Enum):
    """What the pieces are."""

    TEXT = 0
    REASONING = 1
    ARGUMENTS = 2  # of the open call


class Lane(msgspec.Struct, frozen=True, gc=False):
    """Which pieces go past.

    plain: `fullmatch` of a pattern for the bytes of a JSON string between its quotes. Where it matches, the piece
    leaves as it is. safe: bytes of which each does (`lstrip` takes a quarter of the time of a match).
    special: `search` in a piece as text; nothing found says the same.
    twice: the piece is a string in a string, one layer of whose escapes has to go (`unescaped`).
    """

    way: Way
    safe: bytes
    plain: Callable[[bytes], object]
    special: Callable[[str], object]
    twice: bool = False


def _matching(ways: list[str]) -> Callable[[bytes], object]:
    return re.compile(f"(?:{'|'.join(ways)})++".encode("ascii")).fullmatch


_UNSAFE = '"\\'


def _class(chars: set[str]) -> str:
    return "".join(re.escape(char) for char in sorted(chars) if char.isascii())


def _in_string(escape: str, *, twice: bool) -> Lane:
    safe = set(_ASCII) - set(_UNSAFE)
    ways = [f"[{_class(safe)}]++", escape]
    never = re.compile("").search
    return Lane(Way.ARGUMENTS, "".join(sorted(safe)).encode("ascii"), _matching(ways), never, twice)


@functools.cache
def passing(firsts: str) -> Lane:
    """A string of arguments that is text itself, up to a character that may end it or that means another one."""
    safe = set(_ASCII) - set(firsts) - set(_UNSAFE)
    ways = [f"[{_class(safe)}]++"]
    return Lane(Way.ARGUMENTS, "".join(sorted(safe)).encode("ascii"), _matching(ways), re.compile("").search)


# Inside a string of arguments: its own escapes are escaped again in the chunk.
IN_STRING = _in_string(r"\\\\(?:[bfnrt/]|\\[\"\\]|u[0-9A-Fa-f]{4})", twice=False)
# ... of arguments that are themselves in a string.
IN_STRING_TWICE = _in_string(r"\\\\\\\\[bfnrt]", twice=True)
