"""What a scanner looks for, as data: opening markers, reasoning tags, the beginnings of another role's turn."""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..cursor import Make
from ..patterns import Anywhere, Trie, begun, chars_of
from ..patterns import anywhere as matches_anywhere

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
    """Literal text that opens the calls. Where a literal does not do, `pattern` is given instead (see `begun`)."""
    pattern: str = ""
    where: Where = Where.ANYWHERE
    consume: bool = True
    """False where the opening is itself part of the call (`{`)."""
    fences: frozenset[str] = frozenset()
    """Info strings of the code fences in which this syntax counts anywhere in a text."""
    not_after: tuple[str, ...] = ()
    """Text that it cannot directly follow (white space aside), because there it is part of other data."""
    special: bool = False
    """The marker is a single token, which no thought contains: a thought that is never closed ends there."""
    named: bool = False
    """The group `tool` of `pattern` must be the name of an offered tool."""
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
class Markers:
    """Markers that count at some places of a text, by their first characters."""

    whole: dict[str, re.Pattern[str]]
    partial: dict[str, tuple[tuple[re.Pattern[str], bool], ...]]
    """What could still become a marker, up to the end of the text, and whether it is `named`."""

    def marker_at(self, s: str, at: int) -> re.Match[str] | None:
        """The match of the marker at `s[at]`; `Compiled.group` returns its group."""
        whole = self.whole.get(s[at : at + 1])
        return None if whole is None else whole.match(s, at)

    def may_begin_at(self, s: str, at: int, begins: Callable[[str], bool] = bool) -> bool:
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
    """Finds places after other text where a marker may be."""
    first_at_start: re.Pattern[str]
    """The same at an answer's start, where more may open a call."""
    anywhere: Markers
    """A literal has no group in their patterns: `groups` has it."""
    at_start: Markers
    """These, and openers that count only at an answer's start."""
    on_line: Markers
    """Openers that count only at the beginning of a line."""
    fenced: Markers
    """Openers that count only first in a code fence."""
    groups: dict[str, str]
    """The group of each literal marker."""
    openers: dict[str, Opener]
    """By their groups."""
    reasoning: dict[str, str]
    """Closing tags, by the groups of the opening ones."""
    special: tuple[str, ...]
    """Markers of openers that are `special`."""
    ends: Anywhere
    """Tokens that end a turn, and white space, in any number."""

    def named(self, marker: re.Match[str]) -> str | None:
        """The tool that an opener of `on_line` or `fenced` names; None where it names none."""
        group = marker.lastgroup or ""
        return marker[f"tool_{group}"] if self.openers[group].named else None

    def group(self, marker: re.Match[str]) -> str:
        """A marker's group: its first letter is the kind, the rest the number within that kind."""
        return marker.lastgroup or self.groups[marker.group()]


@functools.lru_cache(maxsize=128)
def compile_grammar(grammar: Grammar) -> Compiled:
    """The expressions for `grammar`; kept, since formats are few and requests many."""
    openers = {f"o{number}": opener for number, opener in enumerate(grammar.openers)}
    on_line: dict[str, Opener] = {}
    fenced: dict[str, Opener] = {}
    usual: dict[str, Opener] = {}
    for group, opener in openers.items():
        if opener.where is Where.FENCE:
            fenced[group] = opener
        elif opener.where is Where.LINE or opener.named:
            on_line[group] = opener  # the start begins a line, too
        else:
            usual[group] = opener
    literal = [(opener.marker, group) for group, opener in usual.items() if opener.marker]
    for number, (opening, close) in enumerate(grammar.reasoning):
        literal += [(opening, f"r{number}"), (close, f"c{number}")]
    others = (("s", grammar.stops), ("n", grammar.noise), ("e", grammar.ends), ("x", grammar.closers))
    for kind, markers in others:
        literal += [(marker, f"{kind}{number}") for number, marker in enumerate(markers)]
    groups: dict[str, str] = {}
    for marker, group in literal:
        groups.setdefault(marker, group)  # where two openers have one marker, the first of them counts
    later = {group: opener for group, opener in usual.items() if opener.where is not Where.START}
    anywhere = _markers(later, [marker for marker, group in groups.items() if group in later or group not in usual])
    at_start = _markers(usual, groups)
    lines = _markers(on_line)
    seldom = _markers({group: opener for group, opener in on_line.items() if opener.where is Where.LINE})
    firsts = {"`", "~", *anywhere.whole, *seldom.whole}
    return Compiled(
        first=re.compile("|".join(_first(char, anywhere, seldom) for char in sorted(firsts))),
        first_at_start=re.compile(chars_of({*firsts, *at_start.whole, *lines.whole})),
        anywhere=anywhere,
        at_start=at_start,
        on_line=lines,
        fenced=_markers(fenced),
        groups=groups,
        openers=openers,
        reasoning={f"r{number}": close for number, (_, close) in enumerate(grammar.reasoning)},
        special=tuple(opener.marker for opener in grammar.openers if opener.special),
        ends=matches_anywhere("(?:" + "|".join([r"[ \t\r\n]", *map(re.escape, grammar.ends)]) + ")*"),
    )


@functools.lru_cache(maxsize=256)
def _half(pattern: str) -> tuple[re.Pattern[str], frozenset[str]]:
    """What could still become a match, up to the end of the text, and the characters with which a match may begin:
    those of ASCII, and others that the pattern holds.
    """
    half, whole = re.compile(rf"{begun(pattern)}\Z"), re.compile(pattern)
    return half, frozenset(char for char in {*_ASCII, *pattern} if half.match(char) or whole.match(char))


def _markers(openers: dict[str, Opener], literals: Iterable[str] = ()) -> Markers:
    """Openers that have a pattern, and literals: the longest counts, where no pattern matches."""
    whole: dict[str, list[str]] = {}
    partial: dict[str, list[tuple[re.Pattern[str], bool]]] = {}
    for group, opener in openers.items():
        if opener.marker:
            continue
        pattern = opener.pattern.replace("(?P<tool>", f"(?P<tool_{group}>")
        half, firsts = _half(opener.pattern)
        for char in firsts:
            whole.setdefault(char, []).append(f"(?P<{group}>{pattern})")
            partial.setdefault(char, []).append((half, opener.named))
    trie = Trie.of(literals)
    for char, way in trie.ways.items():
        whole.setdefault(char, []).append(re.escape(char) + way.longest())
    for char, begins in trie.beginnings().items():
        partial.setdefault(char, []).append((re.compile(rf"{begins}\Z"), False))
    return Markers(
        {char: re.compile("|".join(patterns)) for char, patterns in whole.items()},
        {char: tuple(patterns) for char, patterns in partial.items()},
    )


def _first(char: str, anywhere: Markers, on_line: Markers) -> str:
    """A pattern for `char` where a marker may begin with it, by the next character: `<` by the million is passed over.

    It begins with a literal, or Python's engine would not look for the first characters at once. Beyond ASCII nothing
    is ruled out.
    """
    literal = re.escape(char)
    ahead: set[str] = set()
    for markers in (anywhere, on_line):
        if char in markers.whole:
            begins = [markers.whole[char], *(pattern for pattern, _ in markers.partial.get(char, ()))]
            if begins[0].match(char):
                return literal
            ahead.update(other for other in _ASCII if any(pattern.match(char + other) for pattern in begins))
    if not ahead:
        return literal
    # Another character before it rules it out; where none is at hand, it may begin a line.
    before = "" if char in anywhere.whole else rf"(?<![^\n]{literal})"
    return rf"{literal}{before}(?=[{''.join(map(re.escape, sorted(ahead)))}\x80-\U0010ffff]|\Z)"
