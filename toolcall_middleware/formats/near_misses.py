"""Finds text that looks like a tool call but is not one, and says why: for the log, `replay` and the inspector."""

from __future__ import annotations

import difflib
import functools
import itertools
import re
from collections.abc import Collection, Sequence
from typing import NamedTuple

from ..model import ToolSet
from ..parsing.events import CallStart
from .base import ParserOptions, ToolFormat

MAX_LOOKED_AT = 1 << 16
"""Characters of an answer that are looked at: this is done on the event loop."""
_MAX_SHOWN = 64
_MAX_READ = 4096
"""Characters behind a marker that are read as another format's."""
_MOST, _MOST_PLACES = 4, 64
"""Reasons of one answer, and places that are looked at for them."""
_TAG = re.compile(
    r"<[|｜]?(?:\w{1,32}[:_▁-])?(?:tools?|functions?|invoke|actions?)(?:[_▁-]?\w{1,32})?(?=[\s=|｜>:])"
    r"|\[(?:TOOL|FUNCTION)[A-Z_]{0,32}\]"
)
_NAMED = re.compile(r"""["'](?:name|function|tool)["']\s{0,32}:\s{0,32}["']([^"']{1,64})["']""")
_FENCE = re.compile(r"^[ \t]{0,3}(?:```|~~~)", re.MULTILINE)


def unknown_name(name: str, offered: Collection[str]) -> str:
    """The reason for a call whose tool is not offered."""
    near = difflib.get_close_matches(name[:_MAX_SHOWN], offered, n=1)
    meant = f", did you mean `{near[0]}`?" if near else ""
    return f"looked like a call: unknown name `{name[:_MAX_SHOWN]}`{meant}"


class NearMiss(NamedTuple):
    """A place that looks like a call and is none, and why."""

    start: int
    end: int
    why: str


Places = Sequence[tuple[int, int]]
"""Where pieces of a text begin and end."""


def reasons(text: str, thoughts: Places = (), *, tools: ToolSet | None, syntax: ToolFormat) -> list[str]:
    """Why the text of an answer is no call, for each place that looks like one. Nothing of it is shown but markers
    and the names of offered tools. See `places`.
    """
    return list(dict.fromkeys(place.why for place in places(text, thoughts, tools=tools, syntax=syntax)))[:_MOST]


def places(
    text: str, thoughts: Places = (), *, tools: ToolSet | None, syntax: ToolFormat, calls: Places = ()
) -> list[NearMiss]:
    """The places of an answer's text that look like calls and are none, in order; those in `calls` are some.

    thoughts: what the model thinks, where no calls are read. tools: None where any name may be called. syntax: the
    format that the answer is read in.
    """
    text = text[:MAX_LOOKED_AT]
    fences = [match.start() for match in _FENCE.finditer(text)]
    fenced = list(zip(fences[::2], [*fences[1::2], len(text)], strict=False))
    where = _Where(text, fenced, thoughts)
    found: list[NearMiss] = []
    behind: dict[str, str] = {}  # by marker, for it takes a parser to tell
    shown = 0
    for match in itertools.islice(_TAG.finditer(text), _MOST_PLACES):
        shown += 1
        if _stands_in(calls, match.start()):
            continue
        marker = match.group()[:_MAX_SHOWN]
        why = where.of(match.start()) or behind.get(marker)
        if why is None and tools is not None and not tools.tools:
            why = "{} calls nothing: no tool may be called"
        if why is None:
            why = behind[marker] = _behind(text, match.start(), marker, syntax)
        found.append(NearMiss(match.start(), match.end(), f"looked like a call: {why.format(f'`{marker}`')}"))
    offered = () if tools is None else tools.by_name
    for match in itertools.islice(_NAMED.finditer(text), 0 if shown else _MOST_PLACES):
        if match.group(1) in offered and not _stands_in(calls, match.start()):
            why = where.of(match.start()) or "{} stands behind no marker"
            what = f"JSON that names `{match.group(1)}`"
            found.append(NearMiss(match.start(), match.end(), f"looked like a call: {why.format(what)}"))
    return found


class _Where(NamedTuple):
    """Where no call is read, whatever stands there."""

    text: str
    fenced: Places
    thoughts: Places

    def of(self, at: int) -> str | None:
        """Why there is none at this place; `{}` stands for what is there. None in plain text."""
        if _stands_in(self.thoughts, at):
            return "{} stands in the model's reasoning"
        if _stands_in(self.fenced, at):
            return "{} is an example in a fence"
        line = self.text[self.text.rfind("\n", 0, at) + 1 : at]
        return "{} is an example in a code span" if line.count("`") % 2 else None


def _stands_in(pieces: Places, at: int) -> bool:
    return any(begin <= at < end for begin, end in pieces)


def _behind(text: str, at: int, marker: str, syntax: ToolFormat) -> str:
    """Why there is no call at a marker in plain text; `{}` stands for the marker."""
    from . import registry  # what follows imports how all families write, which nobody needs before a text looks so

    common = registry.get("auto")
    begun = text[at : at + _MAX_READ]
    if syntax.name != common.name:
        parser = common.parser(None, ParserOptions())
        events = [*parser.feed(begun), *parser.finish(cut=True)]
        if events and isinstance(events[0], CallStart):
            return f"{{}} begins a call of another format; here calls are read as {syntax.name} writes them"
    # All of it is held back: more text could have made a call of it.
    if len(begun) < _MAX_READ and len(text) < MAX_LOOKED_AT and not syntax.parser(None, ParserOptions()).feed(begun):
        return "the answer ends before what stands behind {} is a call"
    if any(known.startswith(marker) for known in _markers()) or any(known.match(text, at) for known in _patterns()):
        return "nothing behind {} can be read as one"
    return "unknown marker {}"


@functools.cache
def _markers() -> frozenset[str]:
    from .auto import all_openers

    return frozenset(opener.marker for opener in all_openers() if opener.marker)


@functools.cache
def _patterns() -> tuple[re.Pattern[str], ...]:
    from .auto import all_openers

    return tuple(re.compile(opener.pattern) for opener in all_openers() if opener.pattern)
