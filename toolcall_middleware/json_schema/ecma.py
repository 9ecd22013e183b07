r"""Patterns of JSON Schema, which are JavaScript's (ECMA-262), written for the module `regex`.

`regex` copies what stands before `{1000}` a thousand times when it compiles, has syntax of its own (`(?x)`, `{e<=3}`,
`(?R)`) and other ideas of `\d` and `$`. So no pattern of a client reaches it as it is: what is known is written anew,
and counted on the way; what is not known is not run.
"""

from __future__ import annotations

import re
from typing import NamedTuple

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
