"""Finds text that looks like a tool call but is not one, and says why: for the log, `replay` and the inspector."""

from __future__ import annotations

import difflib
import functools
import itertools
import re
from collections.abc import Collection, Iterator

from ..model import ToolSet

MAX_LOOKED_AT = 1 << 16
"""Characters of an answer that are looked at: this is done on the event loop."""
_MAX_SHOWN = 64
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


def reasons(text: str, tools: ToolSet) -> list[str]:
    """Why the text of an answer is no call, for each place that looks like one. Nothing of it is shown but markers
    and the names of offered tools.
    """
    return list(dict.fromkeys(_reasons(text[:MAX_LOOKED_AT], tools)))[:_MOST]


def _reasons(text: str, tools: ToolSet) -> Iterator[str]:
    fences = [match.start() for match in _FENCE.finditer(text)]
    fenced = list(zip(fences[::2], [*fences[1::2], len(text)], strict=False))
    shown = 0
    for match in itertools.islice(_TAG.finditer(text), _MOST_PLACES):
        place = _place(text, match.start(), fenced)
        marker = match.group()[:_MAX_SHOWN]
        shown += 1
        if place:
            yield f"looked like a call: `{marker}` {place}"
        elif any(known.startswith(marker) for known in _known()):
            yield f"looked like a call: nothing behind `{marker}` can be read as one"
        else:
            yield f"looked like a call: unknown marker `{marker}`"
    for match in itertools.islice(_NAMED.finditer(text), 0 if shown else _MOST_PLACES):
        if match.group(1) in tools.by_name:
            place = _place(text, match.start(), fenced) or "stands behind no marker"
            yield f"looked like a call: JSON that names `{match.group(1)}` {place}"


def _place(text: str, at: int, fenced: list[tuple[int, int]]) -> str:
    """Where an example stands; empty in plain text."""
    if any(begin <= at < end for begin, end in fenced):
        return "is an example in a fence"
    line = text[text.rfind("\n", 0, at) + 1 : at]
    return "is an example in a code span" if line.count("`") % 2 else ""


@functools.cache
def _known() -> frozenset[str]:
    from .auto import all_openers  # it imports how calls are written, which nobody needs before a text looks like one

    return frozenset(opener.marker for opener in all_openers() if opener.marker)
