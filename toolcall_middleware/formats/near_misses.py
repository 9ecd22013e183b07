"""Finds text that looks like a tool call but is not one, and says why: for the log, `replay` and the inspector."""

from __future__ import annotations

import difflib
import enum
import itertools
import re
from collections.abc import Collection, Iterator, Sequence
from typing import NamedTuple

from ..model import ToolSet
from ..parsing.events import CallStart
from .base import ParserOptions, ToolFormat

MAX_LOOKED_AT = 1 << 16
"""Characters of an answer that are looked at: this is done on the event loop."""
_MAX_SHOWN = 64
_MAX_READ = 4096
"""Characters after a marker that are read as another format's."""
_MOST_PLACES, _MOST_READ = 64, 8
"""Places of one answer that are looked at, and different markers among them whose text is read by parsers."""
_MOST_NAMES = 128
"""Tools whose names are looked for."""
_UNMARKED, _UNREAD = "{} follows no marker", "{} is in a syntax that no format has"
_UNREADABLE = "what follows {} cannot be read as one"
_TAG = re.compile(
    r"<[|｜]?(?:\w{1,32}[:_▁-])?(?:tools?|functions?|invoke|actions?)(?:[_▁-]?\w{1,32})?(?=[\s=|｜>:])"
    r"|\[(?:TOOL|FUNCTION)[A-Z_]{0,32}\]"
)
_NAMED = re.compile(r"""["'](?:name|function|tool)["']\s{0,32}:\s{0,32}["']([^"']{1,64})["']""")
_ARGUMENTS = re.compile(r"""\(\s{0,8}(?:[A-Za-z_]\w{0,63}\s{0,4}[=:]|["'{\[])|\s{0,4}(?:\{\s{0,8}["'}]|<[A-Za-z_])""")
"""What begins arguments right after a tool's name: `(city=`, `("`, ` {"`, `<city`."""
_BEFORE_NAME = re.compile(r"(?:^|[^\w.-])(?:functions\.)?$")
_LONGEST_BEFORE = 12
_FENCE = re.compile(r"^[ \t]{0,3}(?:```|~~~)", re.MULTILINE)


class NoCall(enum.StrEnum):
    """Why an answer to a request with tools holds no call. Where several are true the first is given."""

    UNKNOWN_TOOL = "unknown_tool"
    """The model called a tool that the request does not offer."""
    CUT = "cut"
    """The answer ended at its limit of tokens, or in the middle of a call."""
    THOUGHT = "thought"
    """A call is in the model's reasoning, or the answer is nothing but reasoning."""
    EXAMPLE = "example"
    """What looks like a call is in a code fence or a code span."""
    OTHER_FORMAT = "other_format"
    """What looks like a call is in a syntax that is not read, or its arguments cannot be read."""
    EMPTY = "empty"
    """The model ended without a word."""
    PROSE = "prose"
    """It answered in words."""


def unknown_name(name: str, offered: Collection[str]) -> str:
    """The reason for a call whose tool is not offered."""
    near = difflib.get_close_matches(name[:_MAX_SHOWN], offered, n=1)
    meant = f", did you mean `{near[0]}`?" if near else ""
    return f"looked like a call: unknown name `{name[:_MAX_SHOWN]}`{meant}"


class NearMiss(NamedTuple):
    """A place that looks like a call but is not one, and why."""

    start: int
    end: int
    why: str
    kind: NoCall


Places = Sequence[tuple[int, int]]
"""Where pieces of a text begin and end."""


def places(
    text: str,
    thoughts: Places = (),
    *,
    tools: ToolSet | None,
    syntax: ToolFormat,
    calls: Places = (),
    explains: bool = True,
) -> list[NearMiss]:
    """The places of an answer's text, outside `calls`, that look like calls but are not, in order.

    thoughts: what the model thinks, where no calls are read. tools: None where any name may be called. syntax: the
    format that the answer is read in. explains: say which other format a call is in. Its first use
    loads all formats, which takes time.
    """
    text = text[:MAX_LOOKED_AT]
    fences = [match.start() for match in _FENCE.finditer(text)]
    fenced = list(zip(fences[::2], [*fences[1::2], len(text)], strict=False))
    found: list[NearMiss] = []
    reasons: dict[str, _Why] = {}  # by marker, because each takes a run of a parser
    shown = 0

    def add(start: int, end: int, marker: str, why: _Why) -> None:
        kind, said = why
        found.append(NearMiss(start, end, f"looked like a call: {said.format(marker)}", kind))

    for match in itertools.islice(_TAG.finditer(text), _MOST_PLACES):
        shown += 1
        if _is_within(calls, match.start()):
            continue
        marker = match.group()[:_MAX_SHOWN]
        why = _where(text, match.start(), fenced, thoughts) or reasons.get(marker)
        if why is None and tools is not None and not tools.tools:
            why = NoCall.OTHER_FORMAT, "{} calls nothing: no tool may be called"
        if why is None:
            if len(reasons) == _MOST_READ:
                break
            why = reasons[marker] = _why_unread(text, match.start(), marker, syntax, explains=explains)
        add(match.start(), match.end(), f"`{marker}`", why)
    if shown or tools is None:
        return found
    named = itertools.islice(_NAMED.finditer(text), _MOST_PLACES)
    for start, end, name, what, otherwise in (
        *((match.start(), match.end(), match.group(1), "JSON that names `{}`", _UNMARKED) for match in named),
        *((start, end, name, "`{}` with arguments", _UNREAD) for start, end, name in _called(text, tools.by_name)),
    ):
        if name in tools.by_name and not _is_within(calls, start):
            why = _where(text, start, fenced, thoughts) or (NoCall.OTHER_FORMAT, otherwise)
            add(start, end, what.format(name), why)
    return found


def _called(text: str, names: Collection[str]) -> Iterator[tuple[int, int, str]]:
    """Where the text has one of the names with what begins its arguments. The last of each name are looked at."""
    for name in itertools.islice(names, _MOST_NAMES):
        at = len(text)
        for _ in range(_MOST_PLACES):
            if (at := text.rfind(name, 0, at)) < 0:
                break
            before = _BEFORE_NAME.search(text[max(at - _LONGEST_BEFORE, 0) : at])
            if before and (begun := _ARGUMENTS.match(text, at + len(name))):
                yield at, begun.end(), name


_Why = tuple[NoCall, str]
"""Why there is no call at a place. `{}` in the words is replaced by what is there."""


def _where(text: str, at: int, fenced: Places, thoughts: Places) -> _Why | None:
    """Why no call is read at this place: it is in reasoning, a fence or a code span. None in plain text."""
    if _is_within(thoughts, at):
        return NoCall.THOUGHT, "{} is in the model's reasoning"
    if _is_within(fenced, at):
        return NoCall.EXAMPLE, "{} is an example in a fence"
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return (NoCall.EXAMPLE, "{} is an example in a code span") if line.count("`") % 2 else None


def _is_within(pieces: Places, at: int) -> bool:
    return any(begin <= at < end for begin, end in pieces)


def _why_unread(text: str, at: int, marker: str, syntax: ToolFormat, *, explains: bool) -> _Why:
    """Why there is no call at a marker in plain text."""
    begun = text[at : at + _MAX_READ]
    # All of it is held back: more text could have made a call of it.
    if len(begun) < _MAX_READ and len(text) < MAX_LOOKED_AT and not syntax.parser(None, ParserOptions()).feed(begun):
        return NoCall.CUT, "the answer ends before the call after {} is complete"
    return NoCall.OTHER_FORMAT, _what_is(begun, marker, syntax) if explains else _UNREADABLE


def _what_is(begun: str, marker: str, syntax: ToolFormat) -> str:
    """What is known of a text that begins with a marker and that the syntax does not read."""
    from . import registry  # imported late, because what follows loads all families

    common = registry.get("auto")
    if syntax.name != common.name:
        parser = common.parser(None, ParserOptions())
        events = [*parser.feed(begun), *parser.finish(cut=True)]
        if events and isinstance(events[0], CallStart):
            return f"{{}} begins a call of another format; here calls are read as {syntax.name} writes them"
    return _UNREADABLE if _is_known(marker, begun) else "unknown marker {}"


def _is_known(marker: str, begun: str) -> bool:
    """Whether a format's calls begin with the marker, or as the text does."""
    from .family import all_openers

    return any(
        known.marker.startswith(marker) if known.marker else re.match(known.pattern, begun) is not None
        for known in all_openers()
    )
