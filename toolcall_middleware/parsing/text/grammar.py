"""What a scanner looks for, as data: opening markers, reasoning tags, the beginnings of another role's turn."""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Callable
from dataclasses import dataclass

from ..cursor import Make
from ..patterns import Anywhere, Trie, anywhere, chars_of

_LOOK_AHEAD = 3  # characters after a marker's first one
_ASCII = "".join(map(chr, range(0x80)))


class Where(enum.Enum):
    """Where an opening counts (never inside a code fence or code span that follows other text)."""

    ANYWHERE = 0
    START = 1  # before any other text of the answer, or first in a fence that opens it
    LINE = 2  # at the beginning of a line
    FENCE = 3  # first in a fence of its own, and nowhere else


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Opener:
    """One way in which calls begin. Compared by identity: a grammar of sixty is looked up for each answer."""

    body: Make
    """Begins the reader of the text that follows."""
    marker: str = ""
    """Literal text that opens the calls. Where a literal does not do, `pattern` and `partial` are given instead."""
    pattern: str = ""
    partial: str = ""
    """Matches what could still become a match of `pattern`, up to the end of the text."""
    first: str = ""
    """The characters that `pattern` may begin with; empty where it begins with a literal."""
    where: Where = Where.ANYWHERE
    consume: bool = True
    """False where the opening is itself part of the call (`{`)."""
    fences: frozenset[str] = frozenset()
    """Info strings of the code fences in which this syntax counts anywhere in a text."""
    not_behind: tuple[str, ...] = ()
    """Text that it cannot directly follow (white space aside), because there it is part of other data."""
    special: bool = False
    """The marker is a single token, which no thought contains: a thought that is never closed ends there."""
    named: bool = False
    """The group `tool` of `pattern`, and of `partial` as far as it is there, must be the name of an offered tool."""
    as_last: tuple[Opener, ...] = ()
    """How the same calls open as the last lines of a thought, where this opener counts only at the start."""
    in_thought: bool = False
    """It counts in thoughts only."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """All that one parser recognises."""

    openers: tuple[Opener, ...]
    reasoning: tuple[tuple[str, str], ...] = ()
    """Opening and closing tags."""
    stops: tuple[str, ...] = ()
    """Beginnings of another role's turn, which count only after a call."""
    noise: tuple[str, ...] = ()
    """Markers that are never content."""
    ends: tuple[str, ...] = ()
    """Tokens that are not content at the end of the answer."""
    closers: tuple[str, ...] = ()
    """Markers that are not content directly after a call."""


@dataclass(frozen=True, slots=True)
class Seldom:
    """Openers that count only at some places of a text: their patterns by the first character, and for those that are
    not whole, whether they are named.
    """

    whole: dict[str, re.Pattern[str]]
    partial: dict[str, tuple[tuple[re.Pattern[str], bool], ...]]

    def marker_at(self, s: str, at: int) -> re.Match[str] | None:
        """The match of the opener at `s[at]`; its `lastgroup` is the opener's group."""
        whole = self.whole.get(s[at : at + 1])
        return None if whole is None else whole.match(s, at)

    def may_begin_at(self, s: str, at: int, begins: Callable[[str], bool]) -> bool:
        """Whether the text ends in the middle of one. begins: whether the name of an offered tool begins so."""
        for pattern, named in self.partial.get(s[at : at + 1], ()):
            m = pattern.match(s, at)
            if m is not None and (not named or begins(m["tool"] or "")):
                return True
        return False


@dataclass(frozen=True, slots=True)
class Compiled:
    """A grammar's regular expressions."""

    first: re.Pattern[str]
    """Finds places after other text where a marker may be; the other patterns are matched there."""
    first_at_start: re.Pattern[str]
    """The same at an answer's start, where more may open a call."""
    whole: dict[str, re.Pattern[str]]
    """Markers, by their first character. A literal has no group in them: `groups` has it."""
    groups: dict[str, str]
    """The group of each literal marker."""
    partial: dict[str, re.Pattern[str]]
    """What could still become a marker, up to the end of the text, by its first character."""
    on_line: Seldom
    """Openers that count only at the beginning of a line."""
    fenced: Seldom
    """Openers that count only first in a code fence."""
    openers: dict[str, Opener]
    """By their groups."""
    reasoning: dict[str, str]
    """Closing tags, by the groups of the opening ones."""
    special: tuple[str, ...]
    """Markers of openers that are `special`."""
    ends: Anywhere
    """Tokens that end a turn, and white space, in any number."""

    def marker_at(self, s: str, at: int) -> re.Match[str] | None:
        """The match of the marker at `s[at]`; `group` returns its group."""
        whole = self.whole.get(s[at : at + 1])
        return None if whole is None else whole.match(s, at)

    def may_begin_at(self, s: str, at: int) -> bool:
        """Whether the text ends in the middle of what could be a marker, which begins at `s[at]`."""
        partial = self.partial.get(s[at : at + 1])
        return partial is not None and partial.match(s, at) is not None

    def may_stand_first(self, s: str, at: int) -> bool:
        """Whether a marker may begin at `s[at]` as the first character of its line, whatever precedes it in `s`."""
        return self.first.match(s[at : at + _LOOK_AHEAD + 2]) is not None

    def named(self, marker: re.Match[str]) -> str | None:
        """The tool that an opener of `Seldom` names; None where it names none."""
        group = marker.lastgroup or ""
        return marker[f"tool_{group}"] if self.openers[group].named else None

    def group(self, marker: re.Match[str]) -> str:
        """A marker's group: its first letter is the kind, the rest the number within that kind."""
        return marker.lastgroup or self.groups[marker.group()]


def beginnings(*parts: str, gap: str = r"[ \t\r\n]{0,32}") -> str:
    """A pattern for every beginning of the literals `parts` with white space between them."""
    atoms: list[str] = []
    for number, part in enumerate(parts):
        if number:
            atoms.append(gap)
        atoms += map(re.escape, part)
    pattern = ""
    for atom in reversed(atoms[1:]):
        pattern = f"(?:{atom}{pattern})?"
    return atoms[0] + pattern


@functools.lru_cache(maxsize=128)
def compile_grammar(grammar: Grammar) -> Compiled:
    """The expressions for `grammar`; kept, since formats are few and requests many."""
    patterned: list[tuple[set[str], str]] = []  # the characters with which it may begin, and the pattern
    partial: list[tuple[set[str], str]] = []
    openers: dict[str, Opener] = {}
    start_firsts: set[str] = set()
    floating: dict[str, list[Opener]] = {}  # those with a pattern that count at any place, by their first characters
    literal: list[tuple[str, str]] = []
    seldom: dict[Where, list[tuple[str, Opener]]] = {Where.LINE: [], Where.FENCE: []}
    for number, opener in enumerate(grammar.openers):
        group = f"o{number}"
        openers[group] = opener
        if opener.where in seldom:
            seldom[opener.where].append((group, opener))
            continue
        if opener.named:  # at the start, which begins a line, too
            seldom[Where.LINE].append((group, opener))
            start_firsts |= _begins(opener)
            continue
        if opener.marker:
            literal.append((opener.marker, group))
            continue
        begins = _begins(opener)
        patterned.append((begins, f"(?P<{group}>{opener.pattern})"))
        if opener.partial:
            partial.append((begins, opener.partial))
        if _opens_only(opener):
            start_firsts |= begins
        else:
            for char in begins:
                floating.setdefault(char, []).append(opener)
    for number, (opening, close) in enumerate(grammar.reasoning):
        literal += [(opening, f"r{number}"), (close, f"c{number}")]
    others = (("s", grammar.stops), ("n", grammar.noise), ("e", grammar.ends), ("x", grammar.closers))
    for kind, markers in others:
        literal += [(marker, f"{kind}{number}") for number, marker in enumerate(markers)]
    groups: dict[str, str] = {}
    for marker, group in literal:
        groups.setdefault(marker, group)
    trie = Trie.of(groups)
    # Where two openers have one marker, the first of them counts: so the other's places need no look.
    far = Trie.of(marker for marker, group in groups.items() if not _opens_only(openers.get(group)))
    on_line: dict[str, list[Opener]] = {}
    for _, opener in seldom[Where.LINE]:
        for char in set() if _opens_only(opener) else _begins(opener):
            on_line.setdefault(char, []).append(opener)
    firsts = {"`", "~", *far.ways, *floating, *on_line}
    return Compiled(
        first=re.compile("|".join(_first(char, far, floating, on_line.get(char, [])) for char in sorted(firsts))),
        first_at_start=re.compile(chars_of({*firsts, *start_firsts, *trie.ways})),
        whole=_by_first(patterned, {char: re.escape(char) + way.longest() for char, way in trie.ways.items()}, ""),
        groups=groups,
        partial=_by_first(partial, trie.beginnings(), "\\Z"),
        on_line=_seldom(seldom[Where.LINE]),
        fenced=_seldom(seldom[Where.FENCE]),
        openers=openers,
        reasoning={f"r{number}": close for number, (_, close) in enumerate(grammar.reasoning)},
        special=tuple(opener.marker for opener in grammar.openers if opener.special),
        ends=anywhere("(?:" + "|".join([r"[ \t\r\n]", *map(re.escape, grammar.ends)]) + ")*"),
    )


def _begins(opener: Opener) -> set[str]:
    """The characters with which it may begin."""
    return set(opener.first or opener.pattern.lstrip("\\")[0])


def _seldom(openers: list[tuple[str, Opener]]) -> Seldom:
    whole: dict[str, list[str]] = {}
    partial: dict[str, list[tuple[re.Pattern[str], bool]]] = {}
    for group, opener in openers:
        for char in _begins(opener):
            pattern = opener.pattern.replace("(?P<tool>", f"(?P<tool_{group}>")
            whole.setdefault(char, []).append(f"(?P<{group}>{pattern})")
            partial.setdefault(char, []).append((re.compile(f"(?:{opener.partial})\\Z"), opener.named))
    return Seldom(
        {char: re.compile("|".join(patterns)) for char, patterns in whole.items()},
        {char: tuple(patterns) for char, patterns in partial.items()},
    )


def _opens_only(opener: Opener | None) -> bool:
    return opener is not None and opener.where is Where.START


def _by_first(patterned: list[tuple[set[str], str]], literal: dict[str, str], end: str) -> dict[str, re.Pattern[str]]:
    """By first character, a pattern of all that begins so, then `end`: patterns first, then the longest literal."""
    ways: dict[str, list[str]] = {}
    for chars, pattern in patterned:
        for char in chars:
            ways.setdefault(char, []).append(pattern)
    for char, pattern in literal.items():
        ways.setdefault(char, []).append(pattern)
    return {char: re.compile(f"(?:{'|'.join(patterns)}){end}") for char, patterns in ways.items()}


def _first(char: str, trie: Trie, patterned: dict[str, list[Opener]], on_line: list[Opener]) -> str:
    """`char`, where a marker may begin with it: `<` by the million is not looked at one by one.

    Each begins with a literal, or Python's engine would not look for the first characters at once.
    """
    way = trie.ways.get(char)
    ahead = [] if way is None else [way.ahead(_LOOK_AHEAD)]
    ahead += [_next_of(opener, char) for opener in patterned.get(char, ())]
    literal = re.escape(char)
    if "" in ahead or not (ahead or on_line):
        return literal
    ways = [f"(?={'|'.join(ahead)})"] if ahead else []
    if on_line:
        # Another character before it rules it out; where none is at hand, it may begin a line.
        ways.append(f"(?<![^\\n]{literal})(?={'|'.join(_next_of(opener, char) for opener in on_line)})")
    return f"{literal}(?:{'|'.join(ways)})"


def _next_of(opener: Opener, char: str) -> str:
    """A pattern for what may follow the first character of an opener that has a pattern.

    It is derived from `partial`, which matches all beginnings. Beyond ASCII nothing is ruled out.
    """
    if re.match(opener.pattern, char):
        return ""
    begun, whole = re.compile(rf"(?:{opener.partial})\Z"), re.compile(opener.pattern)
    found = [re.escape(other) for other in _ASCII if begun.match(char + other) or whole.match(char + other)]
    return f"(?:[{''.join(found)}\x80-\U0010ffff]|\\Z)"
