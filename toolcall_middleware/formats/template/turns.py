"""What stands around a turn's calls and text: how a turn ends, what is thought, how results stand."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from .. import markup
from . import probes
from .compare import common_end, common_start, tokens
from .layout import Layout, Written, find
from .probes import DIALECTS, Dialect, context, said
from .render import ChatTemplate

_ASKED = said(probes.USER)
_CALLS = (
    Written(probes.NAMES[0], probes.SAMPLE, probes.IDS[0]),
    Written(probes.NAMES[1], probes.OTHER, probes.IDS[1]),
)
_PAIRS = tuple((call.name, call.arguments) for call in _CALLS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """What a template's renderings say of turns."""

    dialect: Dialect
    layout: Layout
    begin: str
    """What stands before an assistant's calls, from behind the question on."""
    end: str
    """What stands behind them."""
    reasoning: tuple[str, str] | None
    ends: tuple[str, ...] = ()
    """Markers that end a turn."""
    stops: tuple[str, ...] = ()
    """Markers that begin a tool's or a user's turn."""
    result: tuple[str, str] | None = None
    """What stands before and behind a result, where the template has tags for it."""


def read(template: ChatTemplate) -> Turns | str:
    """The turns of a template, or why they cannot be told. Raises FormatError (ChatTemplate.render)."""
    basics = [
        context([_ASKED, said(probes.CONTENT, "assistant")]),
        context([_ASKED, said(probes.CONTENT, "assistant"), _ASKED]),
        context([_ASKED], answer=True),
    ]
    basics += [
        context([_ASKED, {**said(probes.CONTENT, "assistant"), field: probes.THOUGHT}])
        for field in ("reasoning_content", "reasoning", "thinking")
    ]
    asked = [*basics]
    for dialect in DIALECTS:
        asked += [
            context([_ASKED, dialect.calls(_PAIRS[:1])]),
            context([_ASKED, dialect.calls(_PAIRS)]),
            context([_ASKED, dialect.calls(_PAIRS[:1]), *probes.results(1)]),
            context([_ASKED, dialect.calls(_PAIRS), *probes.results(2)]),
        ]
    texts = [_behind_question(text) for text in template.render(asked)]
    plain, followed, _begun, *thinking = texts[: len(basics)]
    why = "the template does not write calls"
    for number, dialect in enumerate(DIALECTS):
        one, two, answered, _ = texts[len(basics) + 4 * number :][:4]
        if plain is None or probes.CONTENT not in plain:
            return "a conversation without tools cannot be rendered"
        if one is None or probes.NAMES[0] not in one:
            continue
        begin, end = _around(plain, one)
        layout = find(_inner(one, begin, end), None if two is None else _inner(two, begin, end), _CALLS)
        if layout is None:
            if probes.VALUES[0] in one:
                why = "the template writes calls, but their parts cannot be told from the rest of the turn"
            continue
        turn_ends = _ends(template, plain, followed)
        before, behind = _result(one, answered)
        reasoning = _reasoning(thinking)
        stops = _stops(before, followed, (*turn_ends, *tokens(layout.opening + layout.call + layout.region)))
        layout = _without_turn(layout, (*turn_ends, *stops, *tokens(begin)), reasoning)
        return Turns(
            dialect=dialect,
            layout=layout,
            begin=begin,
            end=end,
            reasoning=None if reasoning is None or reasoning[1] in (*turn_ends, *stops) else reasoning,
            ends=turn_ends,
            stops=stops,
            result=_tags(before, behind),
        )
    return why


def _behind_question(text: str | None) -> str | None:
    if text is None or probes.USER not in text:
        return None
    return text[text.index(probes.USER) + len(probes.USER) :]


def _around(plain: str, one: str) -> tuple[str, str]:
    """What turns with calls and turns with text have in common before and behind."""
    before, behind = plain.split(probes.CONTENT, 1)
    return common_start(before, one), common_end(behind, one)


def _inner(text: str, begin: str, end: str) -> str:
    text = text.removeprefix(begin)
    return (text[: -len(end)] if end and text.endswith(end) else text).strip()


def _without_turn(layout: Layout, ends: Sequence[str], reasoning: tuple[str, str] | None) -> Layout:
    """The layout without what belongs to the turn: its end, and the tags around a thought that is empty."""
    known = markup.gathered()
    closing = layout.closing
    while found := [token for token in (*ends, *known.ends) if closing.rstrip().endswith(token)]:
        closing = closing.rstrip()[: -len(max(found, key=len))]
    opening = layout.opening
    tags = [tag for pair in (*known.reasoning, *((reasoning,) if reasoning else ())) for tag in pair]
    while found := [tag for tag in tags if opening.lstrip().startswith(tag)]:
        opening = opening.lstrip()[len(max(found, key=len)) :]
    return replace(layout, opening=opening, closing=closing)


def _ends(template: ChatTemplate, plain: str, followed: str | None) -> tuple[str, ...]:
    """The marker directly behind what the assistant says."""
    behind = plain.split(probes.CONTENT, 1)[1]
    if followed is not None and probes.CONTENT in followed:
        behind = behind or followed.split(probes.CONTENT, 1)[1]
    found = [token for token in tokens(behind)[:1] if behind.lstrip().startswith(token)]
    eos = template.special.get("eos_token", "")
    return tuple(dict.fromkeys([*found, *([eos] if eos else [])]))


def _result(one: str, answered: str | None) -> tuple[str, str]:
    """The texts before and behind the result of one call."""
    sentinel = probes.RESULTS[0]
    if answered is None or sentinel not in answered:
        return "", ""
    before, behind = answered.split(sentinel, 1)
    return before[len(common_start(before, one)) :], behind


def _tags(before: str, behind: str) -> tuple[str, str] | None:
    """The tags directly around a result, where there are such."""
    if not before or not behind:
        return None
    opening, closing = tokens(before)[-1:], tokens(behind)[:1]
    if not opening or not closing or not behind.lstrip().startswith(closing[0]):
        return None
    at = before.rindex(opening[0])
    if before[at + len(opening[0]) :].strip() or closing[0] in markup.gathered().ends:
        return None
    if opening[0].strip("<>[]/|｜").lower() != closing[0].strip("<>[]/|｜").lower() and "/" in closing[0]:
        return None
    return before[at:], behind[: behind.index(closing[0]) + len(closing[0])]


def _stops(before: str, followed: str | None, others: tuple[str, ...]) -> tuple[str, ...]:
    """What begins a tool's turn, and a user's: no marker that is one of `others`."""
    found = [token for token in tokens(before) if token not in others and not token.startswith(("</", "[/"))][:1]
    if followed is not None and probes.CONTENT in followed:
        rest = followed.split(probes.CONTENT, 1)[1]
        found += [token for token in tokens(rest) if token not in others and not token.startswith(("</", "[/"))][:1]
    return tuple(dict.fromkeys(found))


def _reasoning(thinking: Sequence[str | None]) -> tuple[str, str] | None:
    """The markers around what is thought."""
    for text in thinking:
        if text is None or probes.THOUGHT not in text or probes.CONTENT not in text:
            continue
        before, behind = text.split(probes.THOUGHT, 1)
        behind = behind.split(probes.CONTENT, 1)[0]
        opening, closing = tokens(before)[-1:], tokens(behind)[:1]
        if opening and closing and before.rstrip().endswith(opening[0]) and behind.lstrip().startswith(closing[0]):
            return opening[0], closing[0]
    return None
