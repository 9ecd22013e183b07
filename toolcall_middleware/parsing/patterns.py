"""Patterns that several readers share, a type for patterns that match everywhere, at least the empty text (so that no
caller checks for a match), many literals as one pattern, and the beginnings of a pattern.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
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

TAG = re.compile(r"<[^<>]*>(?:\w+<[^<>]*>)?")
"""A tag, and what tokens and text make together: `<|close|>call<|sep|>` is one."""

TOOL_NAME = re.compile(r"[^\s<>{}\[\]\"'`|,;]{1,256}")
"""A tool's name within markup, without quotes."""

_MAX_MARKER = 80  # characters: a pattern that is nested deeper cannot be compiled


@dataclass(slots=True)
class Trie:
    """Words by their characters: a prefix that several words share is matched once.

    `ends`: a word ends here; `ways`: what the others go on with.
    """

    ends: bool = False
    ways: dict[str, Trie] = field(default_factory=dict)

    @classmethod
    def of(cls, words: Iterable[str]) -> Trie:
        """A trie of `words`."""
        root = cls()
        for word in words:
            at = root
            for char in word:
                at = at.ways.setdefault(char, cls())
            at.ends = True
        return root

    def longest(self) -> str:
        """A pattern for the longest word at a place."""
        ways = [re.escape(char) + way.longest() for char, way in self._sorted()]
        if len(ways) == 1 and not self.ends:
            return ways[0]
        return f"(?:{'|'.join(ways)}){'?' if self.ends else ''}" if ways else ""

    def beginnings(self) -> dict[str, str]:
        """A pattern for every beginning of a word that is not the whole of it, by its first character."""
        return {char: re.escape(char) + way._begun() for char, way in self._sorted() if way.ways}  # noqa: SLF001

    def _begun(self) -> str:
        ways = self.beginnings().values()
        return f"(?:{'|'.join(ways)})?" if ways else ""

    def _sorted(self) -> Iterator[tuple[str, Trie]]:
        return iter(sorted(self.ways.items()))


@functools.lru_cache(maxsize=1024)
def half(markers: tuple[str, ...]) -> re.Pattern[str]:
    """A pattern for the beginning of one of `markers`, but not the whole, at the end of the text."""
    ways = Trie.of(marker[:_MAX_MARKER] for marker in markers).beginnings().values()
    return re.compile(f"(?:{'|'.join(ways)})\\Z" if ways else r"(?!)")


def half_at(s: str, markers: tuple[str, ...], begin: int = 0) -> int:
    """The first index in `s[begin:]` where one of `markers` may begin that the text ends in; else the text's length."""
    m = half(markers).search(s, max(begin, len(s) - _MAX_MARKER))
    return len(s) if m is None else m.start()


def chars_of(chars: Iterable[str]) -> str:
    """A pattern for one of `chars`."""
    given = sorted(chars)
    return re.escape(given[0]) if len(given) == 1 else "[" + "".join(map(re.escape, given)) + "]"


# -- beginnings --------------------------------------------------------------------------------------------------------

_TOKEN = re.compile(
    r"\\.|\[\^?\]?(?:\\.|[^\]\\])*\]|(?P<times>[*?+]|\{(?P<least>\d+)(?P<comma>,?)(?P<most>\d*)\})[?+]?|.", re.DOTALL
)
_GROUP = re.compile(r"\((?:\?(?:P<\w+>|:|(?P<ahead>=)|\(\w+\)|(?P<fixed>!|<[=!]|P=)))?")
_NAME = re.compile(r"\(\?P<\w+>")
_TIMES = {"?": (0, "1"), "*": (0, ""), "+": (1, "")}
_Atom = tuple[str, int, str]
"""A character, a set or a group, and how often it must and may be there (empty: without a limit)."""


@functools.lru_cache(maxsize=1024)
def begun(pattern: str) -> str:
    """A pattern for all that is no match of `pattern` and may become one, and for the empty text.

    It may match a little more: what a lookbehind at the end would rule out.
    """
    # Greedy: what goes up to the end of the text is a match at once, without a try after each character.
    return _TOKEN.sub(lambda m: m["times"] or m[0], _optional(_begun(pattern))) or "(?:)"


def half_of(pattern: re.Pattern[str]) -> re.Pattern[str]:
    """A pattern for what is no match of `pattern` and may become one with more text; for the empty text, too."""
    return _half_of(pattern.pattern)  # a compiled pattern's hash is not cached, and reads all of its code


@functools.lru_cache(maxsize=1024)
def _half_of(pattern: str) -> re.Pattern[str]:
    return re.compile(rf"{begun(pattern)}\Z")


def _begun(pattern: str, *, ends: bool = True) -> str:
    """Ways to begin a match of one of the alternatives; empty where one character is a match. ends: nothing follows the
    match, which may thus be a shorter one.
    """
    return "|".join(filter(None, (_begun_sequence(atoms, ends=ends) for atoms in _alternatives(pattern))))


def _begun_sequence(atoms: list[_Atom], *, ends: bool) -> str:
    rest: str | None = None  # ways to begin what follows; None: a match needs nothing more
    for text, least, most in reversed(atoms):
        group = _GROUP.match(text)
        fixed = group is not None and group["fixed"]  # it has no beginning of its own
        if (not rest and fixed) or (rest is None and not least and ends):
            continue
        inside = ""
        if group is not None and not fixed:  # a copy, in which groups have no names
            inside = _NAME.sub("(?:", _begun(text[group.end() : -1], ends=ends and rest is None))
        if rest is None and not (least or inside):
            continue
        if inside and most != "1":
            inside = f"{_NAME.sub('(?:', text)}{{0,{int(most) - 1 if most else ''}}}(?:{inside})"
        ways = [inside, f"{text}{{1,{least - 1}}}" if least > 1 else ""]
        if rest is not None:
            if group is not None and group["ahead"]:
                whole = rf"(?={text[group.end() : -1]}|{_optional(inside)}\Z)"
                ways = []
            else:
                whole = text if (least, most) == (1, "1") else f"{text}{{{least},{most}}}"
            ways.append(whole + _optional(rest))
        ways = list(filter(None, ways))
        rest = ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})" if ways else ""
    return rest or ""


def _optional(ways: str) -> str:
    return f"(?:{ways})?" if ways else ""


def _alternatives(pattern: str) -> list[list[_Atom]]:
    found: list[list[_Atom]] = [[]]
    begin = depth = 0
    for token in _TOKEN.finditer(pattern):
        if depth or token[0] == "(":
            begin = begin if depth else token.start()
            depth += {"(": 1, ")": -1}.get(token[0], 0)
            if not depth:
                found[-1].append((pattern[begin : token.end()], 1, "1"))
        elif token[0] == "|":
            found.append([])
        elif token["times"]:
            counted = int(token["least"] or 0), token["most"] if token["comma"] else token["least"]
            found[-1][-1] = (found[-1][-1][0], *_TIMES.get(token["times"], counted))
        else:
            found[-1].append((token[0], 1, "1"))
    return found
