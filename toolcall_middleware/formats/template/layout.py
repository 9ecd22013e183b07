"""Where a turn's calls stand: what is around all of them, around each, between two, and where name, arguments and id
stand in one. Found by taking a turn with one call and a turn with two apart.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from .compare import common_end, common_start

NAME, ARGUMENTS, ID, NUMBER = "\ue0f1", "\ue0f2", "\ue0f3", "\ue0f4"
"""What stands for the parts of a call in a layout."""
_PARTS = re.compile(f"([{NAME}{ARGUMENTS}{ID}])")
_COUNT = r"(?<!\d)\d{1,9}(?!\d)"  # Python reads no integer of 4,301 digits, and no call has such a number
_MAX_TRIED = 64  # braces at which the arguments may begin


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A turn: `opening call between call closing`."""

    opening: str
    call: str
    """One call, with a character for its name, its arguments, its id and its number."""
    between: str | None
    """Between two calls; None: a turn has one at most."""
    closing: str
    first: int = 0
    """The first call's number."""
    json: bool
    """The arguments stand as one JSON object."""
    region: str
    """The first call's arguments as they stand."""

    @property
    def before(self) -> str:
        """A call's text up to its first part."""
        return _PARTS.split(self.call, maxsplit=1)[0]

    @property
    def after(self) -> str:
        """A call's text behind its last part."""
        return _PARTS.split(self.call)[-1]

    @property
    def order(self) -> str:
        """The parts in their order."""
        return "".join(_PARTS.findall(self.call))

    def behind(self, part: str) -> str:
        """The text between a part and the next one."""
        pieces = _PARTS.split(self.call)
        return pieces[pieces.index(part) + 1]


@dataclass(frozen=True, slots=True)
class Written:
    """A call as it was asked for."""

    name: str
    arguments: Mapping[str, Any]
    id: str


def find(one: str, two: str | None, calls: Sequence[Written]) -> Layout | None:
    """The layout of turns of which `one` holds the first of `calls`, and `two` both. None: no call is to be seen."""
    first = _marked(one, calls[:1])
    if first is None:
        return None
    pieces = _PARTS.split(first)
    parts = len(pieces) // 2
    before, after = pieces[0], pieces[-1]
    is_json = _json_at(one, calls[0].arguments) is not None
    begin, end = _json_at(one, calls[0].arguments) or _elements_at(one, calls[0].arguments) or (0, 0)
    region = one[begin:end]
    both = None if two is None else _marked(two, calls)
    others = [] if both is None else _PARTS.split(both)
    if len(others) != 4 * parts + 1 or others[1::2] != pieces[1::2] * 2:
        return Layout(opening="", call=first, between=None, closing="", json=is_json, region=region)
    inner, inner_two = others[2 : 2 * parts : 2], others[2 * parts + 2 : 4 * parts : 2]
    middle = others[2 * parts]
    numbers: list[int] = []
    for place, (a, b) in enumerate(zip(inner, inner_two, strict=True)):
        if a != b:
            counted = _counted(a, b)
            if counted is None:
                return None
            inner[place], number = counted
            numbers.append(number)
    close = common_start(middle, after)
    rest = middle[len(close) :]
    opening, between, call = _begin(before, rest, numbers)
    for place, part in enumerate(pieces[1::2]):
        call += part + (inner[place] if place < len(inner) else close)
    return Layout(
        opening=opening,
        call=call,
        between=between,
        closing=after[len(close) :],
        first=min(numbers, default=0),
        json=is_json,
        region=region,
    )


def _begin(before: str, rest: str, numbers: list[int]) -> tuple[str, str, str]:
    """What is before all calls, what is between two, and how each begins."""
    begin = common_end(before, rest)
    opening, between = before[: len(before) - len(begin)], rest[: len(rest) - len(begin)]
    number = re.search(_COUNT + r"\Z", opening)
    second = re.search(_COUNT + r"\Z", between)
    if number is not None and second is not None and int(second[0]) == int(number[0]) + 1:
        numbers.append(int(number[0]))
        more = common_end(opening[: number.start()], between[: second.start()])
        begin = more + NUMBER + begin
        opening = opening[: number.start() - len(more)]
        between = between[: second.start() - len(more)]
    return opening, between, begin


def _counted(a: str, b: str) -> tuple[str, int] | None:
    """Two texts that differ in a number which is one more in the second: the text, and the first's number."""
    pieces, others = re.split(f"({_COUNT})", a), re.split(f"({_COUNT})", b)
    differ = [place for place, (x, y) in enumerate(zip(pieces, others, strict=False)) if x != y]
    if len(pieces) != len(others) or len(differ) != 1 or differ[0] % 2 == 0:
        return None
    place = differ[0]
    if int(others[place]) != int(pieces[place]) + 1:
        return None
    return "".join([*pieces[:place], NUMBER, *pieces[place + 1 :]]), int(pieces[place])


def _marked(text: str, calls: Sequence[Written]) -> str | None:
    """The text with a character in the place of each call's parts; None where one is missing."""
    done, left = "", text
    for number, call in enumerate(calls):
        found = _one_marked(left, call, last=number == len(calls) - 1)
        if found is None:
            return None
        marked, left = found
        done += marked
    return done + left


def _one_marked(text: str, call: Written, *, last: bool) -> tuple[str, str] | None:
    """The marked text up to the call's last part, and what is behind it."""
    spans: list[tuple[int, int, str]] = []
    arguments = _json_at(text, call.arguments) or _elements_at(text, call.arguments)
    if arguments is None:
        return None
    spans.append((*arguments, ARGUMENTS))
    name = text.find(call.name)
    if name < 0:
        return None
    spans.append((name, name + len(call.name), NAME))
    at = text.find(call.id)
    while at >= 0:
        if last or at < max(end for _, end, _ in spans) + 64:
            spans.append((at, at + len(call.id), ID))
        at = text.find(call.id, at + 1)
    spans.sort()
    if any(a[1] > b[0] for a, b in itertools.pairwise(spans)):
        return None
    done, place = "", 0
    for begin, end, part in spans:
        done += text[place:begin] + part
        place = end
    return done, text[place:]


def _json_at(text: str, arguments: Mapping[str, Any]) -> tuple[int, int] | None:
    """Where the arguments stand as JSON."""
    decode = json.JSONDecoder().raw_decode
    at = text.find("{")
    for _ in range(_MAX_TRIED):
        if at < 0:
            return None
        try:
            value, end = decode(text, at)
            if value == arguments:
                return at, end
        except (ValueError, RecursionError):
            pass  # no JSON begins here
        at = text.find("{", at + 1)
    return None


def _elements_at(text: str, arguments: Mapping[str, Any]) -> tuple[int, int] | None:
    """Where keys and values stand one by one: from the first key to the end of the last value, strings all."""
    begin = place = -1
    for key, value in arguments.items():
        at = text.find(key, max(place, 0))
        end = text.find(value, at + len(key)) if at >= 0 else -1
        if end < 0:
            return None
        begin = at if begin < 0 else begin
        place = end + len(value)
    return (begin, place) if begin >= 0 else None
