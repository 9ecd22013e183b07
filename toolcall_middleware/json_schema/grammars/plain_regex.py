r"""Regular expressions that Rust's `regex` crate, Python and JavaScript read alike, for texts that match as a whole.

What is alike is written anew: groups without names, no lazy repeats (they change no whole match), no dot (Rust's stops
at a line feed, JavaScript's at four characters, xgrammar's at none). The classes `\d`, `\w` and `\s` are those of ASCII
then, which says less, never more. All other syntax is not translated.
"""

from __future__ import annotations

import re

_TOKEN = re.compile(
    r"""(?P<open>\((?:\?:)?)(?!\?) | (?P<close>\)) | (?P<or>\|) | (?P<dot>\.)
    | \[(?P<negated>\^?)(?P<items>(?:\\[-\]\[\\^dwsnrtf/.*+?(){}|$"'] | [^\]\[\\])+)\]
    | (?P<repeat>[*+?]|\{[0-9]{1,4}(?:,[0-9]{0,4})?\})(?P<lazy>\??) | \\(?P<escaped>[-\]\[\\^.*+?(){}|$/"'#&~])
    | \\(?P<letter>[dwsnrtf]) | (?P<plain>[^\\.*+?(){}|\[\]^$])""",
    re.VERBOSE,
)
_ITEM = re.compile(r"\\(.)|(.)", re.DOTALL)
_ODD_ITEMS = re.compile(r"&&|--|~~|\\[dws]-.|.-\\[dws]", re.DOTALL)
"""Operators of Rust's, and a dash beside a set, which is a fault for some."""
_CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}
_SETS = {"d": "09", "w": "az"}
_MAX_DEPTH = 50


def plain_regex(inner: str) -> str | None:
    """An expression without anchors, written anew; None where it holds what is not translated. Linear."""
    out: list[str] = []
    position, depth, repeatable = 0, 0, False
    while position < len(inner):
        match = _TOKEN.match(inner, position)
        if match is None:
            return None
        position = match.end()
        if match["repeat"]:
            if not repeatable or not _in_order(match["repeat"]):
                return None
            out.append(match["repeat"])
            repeatable = False
            continue
        repeatable = not (match["open"] or match["or"])
        if match["open"]:
            depth += 1
            out.append("(")
        elif match["close"]:
            depth -= 1
            out.append(")")
        elif match["dot"]:
            out.append(r"[^\n]")
        elif match["items"] and not _classes_in_order(match["items"]):
            return None
        else:
            out.append(match[0])
        if not 0 <= depth <= _MAX_DEPTH:
            return None
    return None if depth else "".join(out)


def json_safe(pattern: str) -> bool:
    """Whether no text that `^(…)$` around a plain expression matches holds a character that JSON has to escape."""
    position = 2
    while position < len(pattern) - 2:
        match = _TOKEN.match(pattern, position)
        if match is None or match["negated"]:
            return False
        position = match.end()
        letter, text = match["letter"], match["escaped"] or match["plain"]
        if (letter and letter not in _SETS) or (text and _is_escaped(text, text)):
            return False
        if match["items"] and any(_is_escaped(least, most) for least, most in _ranges(match["items"])):
            return False
    return True


def _in_order(repeat: str) -> bool:
    least, comma, most = repeat.strip("{}").partition(",")
    return not (comma and most) or int(least) <= int(most)


def _ranges(items: str) -> list[tuple[str, str]]:
    """The characters of a class, each range by its ends; a set that JSON cannot hold is a line feed."""
    units: list[tuple[str, str]] = []
    for match in _ITEM.finditer(items):
        escaped, plain = match.groups()
        if escaped in _SETS:
            units.append((_SETS[escaped][0], _SETS[escaped][1]))
        else:
            one = plain or ("\n" if escaped == "s" else _CONTROLS.get(escaped, escaped))
            units.append((one, one if plain != "-" else ""))
    found: list[tuple[str, str]] = []
    place = 0
    while place < len(units):
        least, most = units[place]
        if place + 2 < len(units) and units[place + 1] == ("-", ""):
            most = units[place + 2][0]
            place += 2
        found.append((least, most or least))
        place += 1
    return found


def _classes_in_order(items: str) -> bool:
    return _ODD_ITEMS.search(items) is None and all(least <= most for least, most in _ranges(items))


def _is_escaped(least: str, most: str) -> bool:
    return least < " " or least <= '"' <= most or least <= "\\" <= most or most >= "\ud800" >= least
