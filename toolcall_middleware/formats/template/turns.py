"""What a template's renderings show of turns: where the calls are in one, and where their names, arguments and ids; the
end of a turn, reasoning, and the tags of results. A turn with one call, one with two and one with text are compared.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .. import markup
from . import probes
from .probes import DIALECTS, Dialect, context, said
from .render import ChatTemplate

NAME, ARGUMENTS, ID, NUMBER = "{name}", "{arguments}", "{id}", "{number}"
"""The holes of a layout, as the shapes of calls have them."""
_PARTS = re.compile(r"(\{(?:name|arguments|id)\})")
_COUNT = r"(?<!\d)\d{1,9}(?!\d)"  # Python reads no integer of 4,301 digits, and no call has such a number
_MARKER = re.compile(r"<[^<>\s][^<>\n]{0,80}>?|\[/?[A-Z][A-Z_]{1,40}\]?|[\w▁]+(?:=[\w▁]*)?")
_TOKEN = re.compile(r"<[｜|/]?[^<>\n]{1,100}>|\[/?[A-Z][A-Z_]{1,40}\]")

_ASKED = said(probes.USER)
_CALLS = ((probes.NAMES[0], probes.SAMPLE), (probes.NAMES[1], probes.OTHER))


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A turn's calls: `opening call between call closing`."""

    opening: str = ""
    call: str
    """One call, with a hole for its name, its arguments, its id and its number."""
    between: str | None = None
    """Between two calls; None: a turn has one at most."""
    closing: str = ""
    first: int = 0
    """The first call's number."""
    region: str
    """The first call's arguments as they are written."""

    @property
    def json(self) -> bool:
        """The arguments are one JSON object."""
        return self.region.startswith("{")

    @property
    def before(self) -> str:
        """A call's text up to its first part."""
        return _PARTS.split(self.call, maxsplit=1)[0]

    @property
    def after(self) -> str:
        """A call's text after its last part."""
        return _PARTS.split(self.call)[-1]

    @property
    def order(self) -> str:
        """The parts in their order."""
        return "".join(_PARTS.findall(self.call))

    def gap_after(self, part: str) -> str:
        """The text between a part and the next one."""
        pieces = _PARTS.split(self.call)
        return pieces[pieces.index(part) + 1]


@dataclass(frozen=True, slots=True, kw_only=True)
class Turns:
    """What a template's renderings show of turns."""

    dialect: Dialect = DIALECTS[0]
    layout: Layout
    begin: str = ""
    """The text between the user's question and the assistant's calls."""
    end: str = ""
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
        text = _after_question(text)
        marks = (*self.ends, *self.stops)
        return None if text is None else _without_turn(text, self.begin, self.end, marks, self.reasoning)


def read(template: ChatTemplate) -> Turns | str:
    """The turns of a template, or why they cannot be found. Raises FormatError (ChatTemplate.render)."""
    answer = said(probes.CONTENT, "assistant")
    asked = [[answer], [answer, _ASKED]]
    asked += [[{**answer, field: probes.THOUGHT}] for field in probes.THOUGHT_FIELDS]
    for dialect in DIALECTS:
        call = dialect.calls(_CALLS[:1])
        asked += [[call], [dialect.calls(_CALLS)], [call, dialect.result()]]
    rendered = template.render([context([_ASKED, *messages]) for messages in asked])
    plain, followed, *texts = map(_after_question, rendered)
    if plain is None or probes.CONTENT not in plain:
        return "a conversation without tools cannot be rendered"
    before, after = plain.split(probes.CONTENT, 1)
    following = (followed or "").partition(probes.CONTENT)[2]
    ends = tuple(dict.fromkeys(filter(None, (_first(after or following), template.special.get("eos_token", "")))))
    reasoning = _reasoning(texts[:3], before)
    why = "the template does not write calls"
    for number, dialect in enumerate(DIALECTS, start=1):
        one, two, answered = texts[3 * number :][:3]
        if one is None or probes.NAMES[0] not in one:
            continue
        begin, end = common_start(before, one), common_end(after, one)
        to_result, sentinel, after_result = (answered or "").partition(probes.RESULT)
        to_result = to_result[len(common_start(to_result, one)) :] if sentinel else ""
        others = (*ends, *tokens(_without_turn(one, begin, end, ends, reasoning)))
        stops = tuple(dict.fromkeys((*_opens(to_result, others), *_opens(following, others))))
        marks = (*ends, *stops)
        first, both = (_without_turn(text or "", begin, end, marks, reasoning) for text in (one, two))
        layout = _layout(first, both)
        if layout is not None:
            return Turns(
                dialect=dialect,
                layout=layout,
                begin=begin,
                end=end,
                reasoning=None if reasoning is None or reasoning[1] in marks else reasoning,
                ends=ends,
                stops=stops,
                result=_result(to_result, after_result),
            )
        if probes.VALUES[0] in one:
            why = "the template writes calls, but arguments in another order, or two calls in different forms"
    return why


# -- around a turn -----------------------------------------------------------------------------------------------------


def _after_question(text: str | None) -> str | None:
    _, question, rest = (text or "").partition(probes.USER)
    return rest if question else None


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


def _first(text: str) -> str:
    """The marker with which a text begins; empty where it begins with none."""
    found = _TOKEN.match(text.lstrip())
    return found[0] if found else ""


def _opens(text: str, others: Sequence[str]) -> list[str]:
    """The first marker in a text that closes nothing and is none of `others`: it begins another role's turn."""
    return [token for token in tokens(text) if token not in others and not token.startswith(("</", "[/"))][:1]


def _directly_around(before: str, after: str) -> tuple[str, str] | None:
    """The markers directly around a place, with the white space up to it; None where one is missing."""
    opening, closing = (tokens(before) or [""])[-1], _first(after)
    if not opening or not closing or not before.rstrip().endswith(opening):
        return None
    return before[before.rindex(opening) :], after[: after.index(closing) + len(closing)]


def _result(before: str, after: str) -> tuple[str, str] | None:
    """The tags directly around a result, where there are such."""
    found = _directly_around(before, after)
    if found is None or (closing := found[1].lstrip()) in markup.gathered().ends:
        return None
    names = [tag.strip().strip("<>[]/|｜").lower() for tag in found]
    return None if names[0] != names[1] and "/" in closing else found


def _reasoning(thinking: Sequence[str | None], before_text: str) -> tuple[str, str] | None:
    """The markers around reasoning. One that also opens the text opens any message."""
    for text in thinking:
        before, thought, after = (text or "").partition(probes.THOUGHT)
        if not thought or probes.CONTENT not in before + after:
            continue
        found = _directly_around(before, after.partition(probes.CONTENT)[0])
        if found is not None and not before_text.rstrip().endswith(opening := found[0].rstrip()):
            return opening, found[1].lstrip()
    return None


# -- where the calls are -----------------------------------------------------------------------------------------------


def _layout(one: str, two: str) -> Layout | None:
    """The layout of turns of which `one` holds the first of the calls, and `two` both. None: no call is found."""
    found, both = _with_holes(one, 1), _PARTS.split((_with_holes(two, 2) or ("",))[0])
    if found is None:
        return None
    first, region = found
    pieces = _PARTS.split(first)
    if both[1::2] != pieces[1::2] * 2:
        return Layout(call=first, region=region)
    last = len(pieces) - 1
    before, middle, after = pieces[0], both[last], pieces[last]
    inner = [_counted(a, b) for a, b in zip(both[2:last:2], both[last + 2 : -1 : 2], strict=True)]
    texts = [each[0] for each in inner if each is not None]
    if len(texts) < len(inner):
        return None
    numbers = [each[1] for each in inner if each is not None and each[1] is not None]
    close = common_start(middle, after)
    between = middle.removeprefix(close)
    counted = re.search(rf"({_COUNT})(\D*)\Z", before)
    if counted is not None and between.endswith(again := f"{int(counted[1]) + 1}{counted[2]}"):
        numbers.append(int(counted[1]))
        before, between = (
            text + NUMBER + counted[2] for text in (before[: counted.start()], between.removesuffix(again))
        )
    begin = common_end(before, between)
    return Layout(
        opening=before.removesuffix(begin),
        call=begin + "".join(itertools.chain(*zip(pieces[1::2], [*texts, close], strict=True))),
        between=between.removesuffix(begin),
        closing=after.removeprefix(close),
        first=min(numbers, default=0),
        region=region,
    )


def _with_holes(text: str, calls: int) -> tuple[str, str] | None:
    """The text with holes in place of the parts of so many calls, and the last one's arguments as they are written.
    None where a call does not have one name and its arguments.
    """
    region = ""
    for (name, arguments), call_id in itertools.islice(zip(_CALLS, probes.IDS, strict=True), calls):
        found = _arguments_at(text, arguments)
        if found is None:
            return None
        region = text[slice(*found)]
        text = text[: found[0]] + ARGUMENTS + text[found[1] :]
        if name not in text:
            return None
        text = text.replace(name, NAME).replace(call_id, ID)
    return text, region


def _counted(a: str, b: str) -> tuple[str, int | None] | None:
    """What two calls have at one place: the same text, or one with a hole for a number that is one more in the second,
    and the first's number. None: anything else.
    """
    if a == b:
        return a, None
    pieces, others = re.split(f"({_COUNT})", a), re.split(f"({_COUNT})", b)
    differ = [place for place, (x, y) in enumerate(zip(pieces, others, strict=False)) if x != y]
    if len(pieces) != len(others) or len(differ) != 1 or differ[0] % 2 == 0:
        return None
    number = int(pieces[differ[0]])
    if int(others[differ[0]]) != number + 1:
        return None
    return "".join([*pieces[: differ[0]], NUMBER, *pieces[differ[0] + 1 :]]), number


def _arguments_at(text: str, arguments: Mapping[str, str]) -> tuple[int, int] | None:
    """Where the arguments are: from the first key to the last value, with the braces where they are one JSON object."""
    begin = end = -1
    for key, value in arguments.items():
        at = text.find(key, max(end, 0))
        end = text.find(value, at + len(key)) + len(value)
        if at < 0 or end < len(value):
            return None
        begin = at if begin < 0 else begin
    head, tail = text[:begin].removesuffix('"').rstrip(), text[end:].removeprefix('"').lstrip()
    if head.endswith("{") and tail.startswith("}"):
        begin, end = len(head) - 1, len(text) - len(tail) + 1
    return begin, end


# -- texts -------------------------------------------------------------------------------------------------------------


def common_start(a: str, b: str) -> str:
    """What both begin with, up to the end of a whole marker or word."""
    cut = _shared(a, b)
    return a[: min(_around(a, cut)[0], _around(b, cut)[0])]


def common_end(a: str, b: str) -> str:
    """What both end with, from the beginning of a whole marker or word."""
    keep = _shared(a[::-1], b[::-1])
    return a[len(a) - min(len(text) - _around(text, len(text) - keep)[1] for text in (a, b)) :]


def _shared(a: str, b: str) -> int:
    """How many characters two texts begin with alike."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def _around(text: str, cut: int) -> tuple[int, int]:
    """Where the marker or word begins and ends that holds the place `cut`; twice `cut` where none does."""
    for found in _MARKER.finditer(text, max(0, cut - 100)):
        if found.start() >= cut:
            break
        if found.end() > cut:
            return found.span()
    return cut, cut


def tokens(text: str) -> list[str]:
    """The markers in a text: `<…>`, `<|…|>`, `[UPPER]`."""
    return _TOKEN.findall(text)
