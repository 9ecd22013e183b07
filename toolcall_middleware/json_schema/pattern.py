r"""Is a text a regular expression that can be run safely, and the search for it in a text. Nothing is run to find out.

Patterns in JSON Schema are JavaScript's (ECMA-262). Python's `re` does not know all of its syntax (clients do send
`\p{L}`, `(?<name>...)` and `[\w-.]`) and needs 5 s to compile 10 kB of wide character classes, so what it judges is a
plainer pattern of the same shape.

`regex` copies what is before `{1000}` a thousand times when it compiles, has syntax of its own (`(?x)`, `{e<=3}`,
`(?R)`) and other ideas of `\d` and `$`. So no pattern of a client reaches it as it is: what is known is written anew,
and counted on the way; what is not known is not run.
"""

from __future__ import annotations

import re
import warnings
from typing import Any, Final, NamedTuple

from ..errors import shown
from ..lru_cache import LRUCache

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
    """Python's way of writing one piece of a pattern, or something that is allowed in the same places."""
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


_NAME = "[A-Za-z_][A-Za-z0-9_]{0,63}"
_CHARACTER = r"""\\(?P<shape>[pP])\{(?P<property>[A-Za-z_=]{1,64})\} | \\u\{(?P<braced>[0-9a-fA-F]{1,6})\}
    | \\u(?P<code>[0-9a-fA-F]{4}) | \\x(?P<byte>[0-9a-fA-F]{2}) | \\c(?P<control>[A-Za-z])"""
_TOKEN = re.compile(
    rf"""(?P<flags>\(\?[ims]{{1,3}}\)) | \(\?P=(?P<python>{_NAME})\) | \\k<(?P<called>{_NAME})>
    | (?P<open>\((?:\?(?:[:=!>]|<[=!]|P?<(?P<name>{_NAME})>|[ims]{{1,3}}(?:-[ims]{{1,3}})?:|-[ims]{{1,3}}:))?)
    | (?P<close>\)) | (?P<or>\|) | (?P<class>\[(?P<negated>\^?)(?P<items>(?:\\.|[^\]\\])*)\])
    | \{{(?P<least>[0-9]{{1,30}})(?:,[0-9]{{0,30}})?\}}(?P<lazy>[?+]?) | (?P<repeat>[*+?])(?P<lazier>[?+]?)
    | {_CHARACTER} | \\(?P<group>[1-9][0-9]?) | \\(?P<letter>.) | (?P<edge>[\^$]) | (?P<dot>\.) | (?P<literal>.)""",
    re.DOTALL | re.VERBOSE,
)
_TOKEN_IN_CLASS = re.compile(rf"{_CHARACTER} | \\(?P<letter>.) | .", re.DOTALL | re.VERBOSE)
_LETTERS = {
    "b": r"\b", "B": r"\B", "d": "[0-9]", "D": "[^0-9]", "w": "[A-Za-z0-9_]", "W": "[^A-Za-z0-9_]", "s": r"\s",
    "S": r"\S",
}  # fmt: skip
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "v": "\v", "f": "\f", "0": "\0"}
_IN_CLASS = {"d": "0-9", "w": "A-Za-z0-9_", "s": r"\s", "S": r"\S", "D": r"\D", "W": r"\W", "b": r"\x08"}
_SETS = frozenset("dDsSwW")


class Translated(NamedTuple):
    """A pattern for `regex`. `size`: what it copies when it compiles, at about 1.3 us and 260 bytes each."""

    text: str
    size: int


def translated(pattern: str) -> Translated | None:
    """`pattern` for `regex`, or None where it holds what is not known. Never raises; linear."""
    out: list[str] = []
    # The sizes of the open groups, innermost last, and of the piece that a count would repeat.
    sizes, piece = [0], 0
    for match in _TOKEN.finditer(pattern):
        kind = match.lastgroup
        if match["open"]:
            if match[0] == "(" and pattern.startswith("?", match.end()):
                return None
            name = match["name"]
            out.append(f"(?P<{name}>" if name else match[0])
            sizes.append(1)
            piece = 0
        elif match["close"]:
            if len(sizes) == 1:
                return None
            out.append(")")
            piece = sizes.pop()
            sizes[-1] += piece
        elif match["least"] is not None or match["repeat"]:
            least = match["least"]
            out.append(match[0])
            more = piece * max(int(least or 0), 1)
            sizes[-1] += more
            piece += more
        else:
            text = _class(match) if match["class"] else _single(match, kind)
            if text is None:
                return None
            out.append(text)
            piece = 1
            sizes[-1] += 1
    return Translated("".join(out), sizes[0]) if len(sizes) == 1 else None


def _single(match: re.Match[str], kind: str | None) -> str | None:
    """One piece that is no class, group or count."""
    if kind in {"or", "flags"}:
        return match[0]
    if kind == "edge":
        return "^" if match[0] == "^" else r"\Z"
    if kind == "dot":
        return "."
    if kind == "group":
        return f"(?:{match[0]})"  # what follows may be a digit
    name = match["called"] or match["python"]
    if name:
        return f"(?P={name})"
    if match["letter"] in _LETTERS:
        return _LETTERS[match["letter"]]
    return _character(match)


def _character(match: re.Match[str]) -> str | None:
    """A single character, or a property of some."""
    if match["property"]:
        return match[0]
    code = match["braced"] or match["code"] or match["byte"]
    if code:
        return re.escape(chr(int(code, 16))) if int(code, 16) <= 0x10FFFF else None
    if match["control"]:
        return re.escape(chr(ord(match["control"]) & 31))
    letter = match["letter"]
    if letter is None:
        return re.escape(match[0])
    if letter in _CONTROLS:
        return re.escape(_CONTROLS[letter])
    return None if letter.isascii() and letter.isalnum() else re.escape(letter)


def _class(match: re.Match[str]) -> str | None:
    """A class of characters, such as `[^a-z]`."""
    items = match["items"]
    if not items:
        return r"(?:[\s\S])" if match["negated"] else "(?!)"
    out = ["[", match["negated"]]
    after_set = False
    for item in _TOKEN_IN_CLASS.finditer(items):
        if item[0] == "-":
            after = _TOKEN_IN_CLASS.match(items, item.end())
            # At an edge, or beside a set as in `[\w-.]`, the dash is itself.
            alone = item.start() == 0 or after is None or after_set or _is_set(after)
            out.append(r"\-" if alone else "-")
            after_set = False
            continue
        letter = item["letter"]
        after_set = _is_set(item)
        text = _IN_CLASS.get(letter) if letter else None
        text = text or _character(item)
        if text is None:
            return None
        out.append(text)
    return "".join([*out, "]"])


def _is_set(item: re.Match[str]) -> bool:
    return bool(item["property"]) or item["letter"] in _SETS
