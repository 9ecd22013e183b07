r"""Is a text a regular expression. It is compiled, never run.

Patterns in JSON Schema are JavaScript's (ECMA-262). Python's `re` does not know all of its syntax (clients do send
`\p{L}`, `(?<name>...)` and `[\w-.]`) and needs 5 s to compile 10 kB of wide character classes, so what is compiled
is a plainer pattern of the same shape.
"""

from __future__ import annotations

import re
import warnings
from functools import lru_cache

from ..errors import shown

_ECMA = re.compile(
    r"""\\u\{(?P<braced>[0-9a-fA-F]{1,8})\} | \\u(?P<plain>[0-9a-fA-F]{4}) | (?P<wide>[^\x00-\xff])
    | (?P<class>\\[dDsSwW]|\\[pP]\{[^{}]*\})(?P<dash>-?) | (?P<literal>-)(?=\\[dDsSwWpP])
    | (?P<other>\\k<[^<>]*>|\\c[A-Za-z]) | \\x[0-9a-fA-F]{2} | \\(?P<letter>[A-Za-z]) | \\.
    | (?P<group>\(\?<(?![=!])[^>]{1,64}>|\(\?[A-Za-z-]+:) | (?P<flags>\(\?[A-Za-z-]+)(?=\)) | (?P<behind>\(\?<)""",
    re.DOTALL | re.VERBOSE,
)


def _plain(match: re.Match[str]) -> str:
    """Python's way of writing one piece of a pattern, or something that can stand in the same places."""
    code = match["braced"] or match["plain"]
    if code or match["wide"]:
        return f"\\x{min(int(code, 16) if code else 255, 255):02x}"
    if match["class"]:  # in [\w-.] the dash is itself
        return r"\w\-" if match["dash"] else r"\w"
    if match["literal"]:
        return r"\-"
    if match["other"] or (match["letter"] and match["letter"] not in "AbBZfnrtv"):
        return "x"
    if match["group"] or match["flags"]:  # names may repeat, and case-insensitive classes are slow to compile
        return "(?:"
    return "(?" if match["behind"] else match[0]  # Python wants look-behind of a fixed width


@lru_cache(maxsize=1024)
def pattern_fault(pattern: str) -> str | None:
    """Why `pattern` is not a regular expression, or None. Costs about 3 us a character the first time."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "possible nested set" is advice to Python programmers
        try:
            re.compile(_ECMA.sub(_plain, pattern))
        except (re.error, OverflowError, RecursionError):
            return f"{shown(pattern)} is not a 'regex'"
    return None
