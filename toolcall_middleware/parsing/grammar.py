"""What a scanner looks for, as data: opening markers, reasoning tags, the beginnings of somebody else's turn."""

from __future__ import annotations

import enum
import functools
import re
from collections.abc import Callable
from dataclasses import dataclass

from .lane import Lane, Way, plain_text
from .sink import Body, Sink


class Where(enum.Enum):
    """Where an opening can stand (never inside a code fence or code span that stands after other text)."""

    ANYWHERE = 0
    START = 1  # before any other text of the answer, or first in a fence that opens it


@dataclass(frozen=True, slots=True)
class Context:
    """What a body may want to know when it is made: the text that opened it and where it stands."""

    opening: str
    at_start: bool
    fenced: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Opener:
    """One way in which calls begin. Compared by identity: a grammar of sixty is looked up for each answer.

    marker: literal text. `pattern` and `partial` are given instead where a literal does not do: `partial` matches
    what could still become a match, up to the end of the text, and `first` holds the characters it may begin with
    (empty: the pattern begins with a literal). `consume` is false where the opening is itself part
    of the call (`{`). `fences`: info strings of code fences that this syntax may stand in anywhere.
    not_behind: what it cannot stand directly behind (white space aside), because there it is part of other data.
    """

    body: Callable[[Sink, Context], Body]
    marker: str = ""
    pattern: str = ""
    partial: str = ""
    first: str = ""
    where: Where = Where.ANYWHERE
    consume: bool = True
    fences: frozenset[str] = frozenset()
    not_behind: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Grammar:
    """All that one parser recognises.

    stops are live only after a call. noise is never content; ends are not content at the end of the answer.
    """

    openers: tuple[Opener, ...]
    reasoning: tuple[tuple[str, str], ...] = ()
    stops: tuple[str, ...] = ()
    noise: tuple[str, ...] = ()
    ends: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Compiled:
    """A grammar's regular expressions. `first` finds places worth a look; the others are matched there.

    prose: text in which `first` finds none.

    whole: by a marker's first character, since of a hundred alternatives each would be tried.
    """

    first: re.Pattern[str]
    prose: Lane
    first_at_start: re.Pattern[str]
    whole: dict[str, re.Pattern[str]]
    partial: re.Pattern[str]
    openers: dict[str, Opener]
    reasoning: dict[str, str]
    ends: re.Pattern[str]

    def marker_at(self, s: str, at: int) -> re.Match[str] | None:
        """The marker that stands at `s[at]`; its group tells which one."""
        whole = self.whole.get(s[at : at + 1])
        return None if whole is None else whole.match(s, at)


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


def _prefixes(marker: str) -> str:
    """A pattern for every beginning of `marker` that is not the whole."""
    return beginnings(marker[:-1])


@functools.lru_cache(maxsize=64)
def compile_grammar(grammar: Grammar) -> Compiled:
    """The expressions for `grammar`; kept, since formats are few and requests many."""
    whole: list[tuple[set[str], str]] = []  # the characters with which it may begin, and the pattern
    partial: list[str] = []
    openers: dict[str, Opener] = {}
    firsts: set[str] = {"`", "~"}
    start_firsts: set[str] = set()
    patterned: set[str] = set()  # of `firsts`, those that a pattern begins with
    literal: list[tuple[str, str]] = []
    for number, opener in enumerate(grammar.openers):
        group = f"o{number}"
        openers[group] = opener
        chars = start_firsts if opener.where is Where.START else firsts
        if opener.marker:
            literal.append((opener.marker, group))
            chars.add(opener.marker[0])
        else:
            begins = set(opener.first or opener.pattern.lstrip("\\")[0])
            whole.append((begins, f"(?P<{group}>{opener.pattern})"))
            partial.append(opener.partial)
            chars |= begins
            if opener.where is not Where.START:
                patterned |= begins
    for number, (opening, close) in enumerate(grammar.reasoning):
        literal += [(opening, f"r{number}"), (close, f"c{number}")]
        firsts |= {opening[0], close[0]}
    for kind, markers in (("s", grammar.stops), ("n", grammar.noise), ("e", grammar.ends)):
        for number, marker in enumerate(markers):
            literal.append((marker, f"{kind}{number}"))
            firsts.add(marker[0])
    # The longer literal first, so that `<tool_calls>` is not read as `<tool_call` and the rest.
    literal.sort(key=lambda pair: -len(pair[0]))
    whole += [({marker[0]}, f"(?P<{group}>{re.escape(marker)})") for marker, group in literal]
    partial += [_prefixes(marker) for marker, _ in literal if len(marker) > 1]
    seconds = _seconds(firsts - patterned, [marker for marker, _ in literal])
    first = re.compile(_any_of(firsts) + _not_a_word(seconds))
    return Compiled(
        first=first,
        prose=plain_text(Way.TEXT, "".join(firsts - seconds.keys()), seconds, first.search),
        first_at_start=re.compile(_any_of(firsts | start_firsts)),
        whole=_by_first(whole),
        partial=re.compile("(?:" + ("|".join(f"(?:{pattern})" for pattern in partial if pattern) or "(?!)") + r")\Z"),
        openers=openers,
        reasoning={f"r{number}": close for number, (_, close) in enumerate(grammar.reasoning)},
        ends=re.compile("(?:" + "|".join([r"[ \t\r\n]", *map(re.escape, grammar.ends)]) + ")*"),
    )


def _by_first(whole: list[tuple[set[str], str]]) -> dict[str, re.Pattern[str]]:
    ways: dict[str, list[str]] = {}
    for chars, pattern in whole:
        for char in chars:
            ways.setdefault(char, []).append(pattern)
    return {char: re.compile("|".join(patterns)) for char, patterns in ways.items()}


def _seconds(firsts: set[str], markers: list[str]) -> dict[str, str]:
    """For each letter of `firsts`, of which prose is full, what comes next in the markers."""
    return {
        letter: "".join({marker[1] for marker in markers if marker[0] == letter and len(marker) > 1})
        for letter in sorted(filter(str.isalpha, firsts))
    }


def _not_a_word(seconds: dict[str, str]) -> str:
    """Behind a letter: the next character is a marker's too, or is not there yet."""
    if not seconds:
        return ""
    ways = [f"(?<![{''.join(seconds)}])"]
    ways += [rf"(?<={letter})(?={_any_of(set(chars))}|\Z)" for letter, chars in seconds.items()]
    return f"(?:{'|'.join(ways)})"


def _any_of(chars: set[str]) -> str:
    return "[" + "".join(re.escape(char) for char in sorted(chars)) + "]"
