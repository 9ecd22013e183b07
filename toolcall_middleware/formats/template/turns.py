"""What surrounds a turn's calls and text: the end of a turn, reasoning, and the tags of results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from .. import markup
from . import probes
from .layout import Layout, Written, common_end, common_start, find, tokens
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
    """What a template's renderings show of turns."""

    dialect: Dialect
    layout: Layout
    begin: str
    """The text between the user's question and the assistant's calls."""
    end: str
    """The text after them."""
    reasoning: tuple[str, str] | None
    ends: tuple[str, ...] = ()
    """Markers that end a turn."""
    stops: tuple[str, ...] = ()
    """Markers that begin a tool's or a user's turn."""
    result: tuple[str, str] | None = None
    """The text before and after a result, where the template has tags for it."""

    def calls_of(self, text: str | None) -> str | None:
        """What the model writes of a rendered turn with calls; None where it is not rendered."""
        text = _behind_question(text)
        marks = (*self.ends, *self.stops)
        return None if text is None else _without_turn(text, self.begin, self.end, marks, self.reasoning)


def read(template: ChatTemplate) -> Turns | str:
    """The turns of a template, or why they cannot be found. Raises FormatError (ChatTemplate.render)."""
    answer = said(probes.CONTENT, "assistant")
    asked = [context([_ASKED, answer]), context([_ASKED, answer, _ASKED])]
    asked += [
        context([_ASKED, {**answer, field: probes.THOUGHT}]) for field in ("reasoning_content", "reasoning", "thinking")
    ]
    for dialect in DIALECTS:
        asked += [
            context([_ASKED, dialect.calls(_PAIRS[:1])]),
            context([_ASKED, dialect.calls(_PAIRS)]),
            context([_ASKED, dialect.calls(_PAIRS[:1]), dialect.result()]),
        ]
    plain, followed, *texts = map(_behind_question, template.render(asked))
    if plain is None or probes.CONTENT not in plain:
        return "a conversation without tools cannot be rendered"
    ends = _ends(template, plain, followed)
    reasoning = _reasoning(texts[:3], plain)
    why = "the template does not write calls"
    for number, dialect in enumerate(DIALECTS, start=1):
        one, two, answered = texts[3 * number :][:3]
        if one is None or probes.NAMES[0] not in one:
            continue
        begin, end = _around(plain, one)
        before, behind = _result(one, answered)
        stops = _stops(before, followed, (*ends, *tokens(_without_turn(one, begin, end, ends, reasoning))))
        marks = (*ends, *stops)
        first, both = (_without_turn(text or "", begin, end, marks, reasoning) for text in (one, two))
        layout = find(first, both, _CALLS)
        if layout is not None:
            return Turns(
                dialect=dialect,
                layout=layout,
                begin=begin,
                end=end,
                reasoning=None if reasoning is None or reasoning[1] in (*ends, *stops) else reasoning,
                ends=ends,
                stops=stops,
                result=_tags(before, behind),
            )
        if probes.VALUES[0] in one:
            why = "the template writes calls, but arguments in another order, or two calls in different forms"
    return why


def _behind_question(text: str | None) -> str | None:
    if text is None or probes.USER not in text:
        return None
    return text[text.index(probes.USER) + len(probes.USER) :]


def _around(plain: str, one: str) -> tuple[str, str]:
    """The text before and after that turns with calls and turns with text have in common."""
    before, behind = plain.split(probes.CONTENT, 1)
    return common_start(before, one), common_end(behind, one)


def _without_turn(text: str, begin: str, end: str, marks: Sequence[str], reasoning: tuple[str, str] | None) -> str:
    """The calls of a turn, without its begin and end and the tags of a thought that is empty or opened before."""
    known = markup.gathered()
    text = text.removeprefix(begin).removesuffix(end).strip()
    tags = [tag for pair in (*known.reasoning, *((reasoning,) if reasoning else ())) for tag in pair]
    while found := [tag for tag in tags if text.startswith(tag)]:
        text = text[len(max(found, key=len)) :].lstrip()
    marks = [mark for mark in (*marks, *known.ends, *tokens(begin)) if mark]
    while found := [mark for mark in marks if text.endswith(mark)]:
        text = text[: -len(max(found, key=len))].rstrip()
    return text


def _ends(template: ChatTemplate, plain: str, followed: str | None) -> tuple[str, ...]:
    """The marker directly after the assistant's text, and the template's end-of-text token."""
    behind = plain.split(probes.CONTENT, 1)[1]
    if followed is not None and probes.CONTENT in followed:
        behind = behind or followed.split(probes.CONTENT, 1)[1]
    found = [token for token in tokens(behind)[:1] if behind.lstrip().startswith(token)]
    eos = template.special.get("eos_token", "")
    return tuple(dict.fromkeys([*found, *([eos] if eos else [])]))


def _result(one: str, answered: str | None) -> tuple[str, str]:
    """The texts before and after the result of one call."""
    sentinel = probes.RESULT
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


def _reasoning(thinking: Sequence[str | None], plain: str) -> tuple[str, str] | None:
    """The markers around reasoning. One that also opens the text opens any message."""
    opens_text = plain.partition(probes.CONTENT)[0].rstrip().endswith
    for text in thinking:
        if text is None or probes.THOUGHT not in text or probes.CONTENT not in text:
            continue
        before, behind = text.split(probes.THOUGHT, 1)
        behind = behind.split(probes.CONTENT, 1)[0]
        opening, closing = tokens(before)[-1:], tokens(behind)[:1]
        if not opening or not closing or opens_text(opening[0]):
            continue
        if before.rstrip().endswith(opening[0]) and behind.lstrip().startswith(closing[0]):
            return opening[0], closing[0]
    return None
