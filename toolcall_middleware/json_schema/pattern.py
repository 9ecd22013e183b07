r"""Is a text a regular expression that can be run safely, and the search for it in a text. Nothing is run to find out.

Patterns in JSON Schema are JavaScript's (ECMA-262). Python's `re` does not know all of its syntax (clients do send
`\p{L}`, `(?<name>...)` and `[\w-.]`) and needs 5 s to compile 10 kB of wide character classes, so what it judges is a
plainer pattern of the same shape.
"""

from __future__ import annotations

import re
import warnings
from typing import Any, Final

from ..errors import shown
from ..lru_cache import LRUCache
from .ecma import Translated, translated

MAX_UNROLLED = 5000
"""Pieces of one pattern once `regex` has compiled its counted repeats, at about 1.3 us and 260 bytes each."""

_ECMA = re.compile(
    r"""\\u\{(?P<braced>[0-9a-fA-F]{1,8})\} | \\u(?P<plain>[0-9a-fA-F]{4}) | (?P<wide>[^\x00-\xff])
    | (?P<class>\\[dDsSwW]|\\[pP]\{[^{}]*\})(?P<dash>-?) | (?P<literal>-)(?=\\[dDsSwWpP])
    | (?P<other>\\k<[^<>]*>|\\c[A-Za-z]) | \\x[0-9a-fA-F]{2} | \\(?P<letter>[A-Za-z]) | \\.
    | (?P<group>\(\?<(?![=!])[^>]{1,64}>|\(\?[A-Za-z-]+:) | (?P<flags>\(\?[A-Za-z-]+)(?=\)) | (?P<behind>\(\?<)""",
    re.DOTALL | re.VERBOSE,
)
_COUNT = re.compile(r"\{[0-9]*,?[0-9]*\}")


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


_PLAIN = re.compile(
    r"""(?: [\w ,:;/@#%&=<>!~-] | \\[dw.+*?()\[\]{}|/-] | \((?!\?) | [)|*+?] | \{[0-9]{1,4}(?:,[0-9]{0,4})?\}
    | \[(?: [a-z]-[a-z] | [A-Z]-[A-Z] | [0-9]-[0-9] | [\w ,:;/.@#%&=] | \\[dw.-] )+-?\] )+""",
    re.ASCII | re.VERBOSE,
)
"""Regular expressions that Rust, Python and JavaScript read alike, and that match no character that JSON escapes."""


def text_pattern(grammar: str) -> str | None:
    """A regular expression for a whole text as a `pattern` of JSON Schema; None where its meaning is not certain.

    Engines write what a pattern matches into a JSON string as it is, without escapes (xgrammar 0.2, llama.cpp).
    """
    inner = grammar.removeprefix("^").removesuffix("$")
    if len(grammar) > 1024 or _PLAIN.fullmatch(inner) is None or (inner != grammar and "|" in inner):
        return None  # an anchor may belong to one branch alone
    pattern = f"^({inner})$"
    return None if pattern_fault(pattern)[0] else pattern


_VERDICTS: LRUCache[str, tuple[str | None, int]] = LRUCache(max_size=1 << 19)  # by characters


def pattern_fault(pattern: str) -> tuple[str | None, int]:
    """(why `pattern` is not a regular expression that can be run, or None; how many pieces it becomes).

    Costs about 3 us a character the first time.
    """
    found = _VERDICTS.get(pattern)
    if found is None:
        found = _verdict(pattern)
        _VERDICTS.put(pattern, found, size=256 + len(pattern))
    return found


def _verdict(pattern: str) -> tuple[str | None, int]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # "possible nested set" is advice to Python programmers
        try:
            re.compile(_ECMA.sub(_plain, pattern))
        except (re.error, OverflowError, RecursionError):
            return f"{shown(pattern)} is not a 'regex'", 0
    ours = translated(pattern)
    size = 0 if ours is None else ours.size
    if size > MAX_UNROLLED:
        counts = ", ".join(_COUNT.findall(pattern)[:3])
        return (
            f"{shown(pattern)} cannot be checked: its counted repeats ({counts[:60]}) make more than {MAX_UNROLLED}"
            " pieces; use smaller counts, or minLength and maxLength"
        ), size
    return None, size


_NOT_RUN: Final = object()
_COMPILED: LRUCache[str, Any] = LRUCache(max_size=100_000)
"""By pieces, of which each character is at least one: about 26 MB."""


def matcher(pattern: str) -> Any:
    """`pattern`, which was admitted, as compiled by `regex`; None where it cannot be run."""
    found = _COMPILED.get(pattern)
    if found is None:
        ours = translated(pattern)
        found = _NOT_RUN if ours is None or ours.size > MAX_UNROLLED else _compiled(ours)
        _COMPILED.put(pattern, found, size=16 + len(pattern) + (0 if ours is None else ours.size))
    return None if found is _NOT_RUN else found


def _compiled(ours: Translated) -> Any:
    import regex

    try:
        # Its own cache would keep 500 of them, whatever they cost.
        return regex.compile(ours.text, cache_pattern=False)
    except (regex.error, OverflowError, RecursionError):
        return _NOT_RUN
