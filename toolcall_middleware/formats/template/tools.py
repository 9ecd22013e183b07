"""How a template presents the tools: its own words around them, and how it spells each."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from ...model import Tool
from .. import markup
from ..prompt.tools import definition, definition_indented, function, function_indented
from . import probes
from .probes import TOOLS
from .render import ChatTemplate
from .turns import Turns, common_end, common_start, tokens

MAX_WORDS = 20_000
"""Characters of a template's words around the tools; a longer prompt is not taken over."""

_OWN_WORDS = """\
# Tools

You can call these tools:
{tools}"""
_LETTERS = re.compile(r"[^\W\d_]{3}")  # a word: brackets alone do not tell what the tools are
_FORM = """

To call tools, answer in this form, for example:
{example}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolBlock:
    """The prompt's part about tools, as `Family` wants it."""

    prompt: str
    tool: Callable[[Tool], str]
    between: str
    own_words: bool = False
    """The words are ours: the template's could not be found."""
    place: str = ""
    """Where the template has it, in words."""


OURS = ToolBlock(prompt=_OWN_WORDS + _FORM, tool=function, between="\n", own_words=True)
"""Used where the template's words cannot be found."""


_SPELLINGS = (function, definition, function_indented, definition_indented)


def read(template: ChatTemplate, turns: Turns, shown: str) -> ToolBlock:
    """The tools' part of a template; `OURS` where its words cannot be found. shown: how a call begins."""
    texts = template.render(probes.FRONTS)
    for with_tools, without in (texts[:2], texts[2:]):
        found = None if with_tools is None or without is None else _block(with_tools, without, turns, shown)
        if found is not None:
            return found
    return OURS


def _block(with_tools: str, without: str, turns: Turns, shown: str) -> ToolBlock | None:
    begin = common_start(with_tools, without)
    end = common_end(with_tools[len(begin) :], without[len(begin) :])
    added = with_tools[len(begin) : len(with_tools) - len(end)]
    for spelling in _SPELLINGS:
        one, two = map(spelling, TOOLS)
        at = added.find(one)
        then = added.find(two, at + len(one)) if at >= 0 else -1
        if then < 0:
            continue
        before, between, after = added[:at], added[at + len(one) : then], added[then + len(two) :]
        before, after = _within_turn(before, after, turns)
        words = before + after
        if any(name in words or name in between for name in probes.NAMES) or len(words) > MAX_WORDS:
            return None
        prompt = f"{_literal(before.lstrip())}{{tools}}{_literal(after.rstrip())}"
        if not _LETTERS.search(words):
            prompt = _OWN_WORDS.replace("{tools}", prompt)
        if not shown or shown not in words:
            prompt += _FORM
        where = "before" if probes.SYSTEM not in begin and probes.SYSTEM in end else "behind"
        place = f"{where} the system message's text" if probes.SYSTEM in with_tools else "at the beginning"
        return ToolBlock(prompt=prompt, tool=spelling, between=between, place=place)
    return None


def _within_turn(before: str, after: str, turns: Turns) -> tuple[str, str]:
    """The words without other messages and without the markers of turns."""
    for sentinel in (probes.SYSTEM, probes.USER):
        before = before.rpartition(sentinel)[2]
        after = after.partition(sentinel)[0]
    known = markup.gathered()
    marks = {*turns.ends, *turns.stops, *known.ends, *known.stops, *tokens(turns.begin)}
    # The tags of results are stops too, and words about them stay.
    marks = {mark for mark in marks if mark.startswith(("<|", "<｜", "[")) or mark in turns.ends}
    cut = max((before.rfind(mark) + len(mark) for mark in marks if mark in before), default=0)
    if cut:
        before = before[cut:]
        head, newline, rest = before.partition("\n")
        before = rest if newline and head.strip().isalpha() else before  # the role
    ends = [after.find(mark) for mark in marks if mark in after]
    return before, after[: min(ends)] if ends else after


def _literal(text: str) -> str:
    """The text with what a layout of `Family` would read as a hole made harmless."""
    return text.replace("{tools}", "{ tools }").replace("{example}", "{ example }")
