"""Where a turn's calls are: what is around all of them, around each, between two, and where name, arguments and id are
in one. Found by taking a turn with one call and a turn with two apart.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

NAME, ARGUMENTS, ID, NUMBER = "{name}", "{arguments}", "{id}", "{number}"
"""The holes of a layout, as the shapes of calls have them."""
_PARTS = re.compile(r"(\{(?:name|arguments|id)\})")
_COUNT = r"(?<!\d)\d{1,9}(?!\d)"  # Python reads no integer of 4,301 digits, and no call has such a number
_MARKER = re.compile(r"<[^<>\s][^<>\n]{0,80}>?|\[/?[A-Z][A-Z_]{1,40}\]?|[\w▁]+(?:=[\w▁]*)?")
_TOKEN = re.compile(r"<[｜|/]?[^<>\n]{1,100}>|\[/?[A-Z][A-Z_]{1,40}\]")


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """A turn: `opening call between call closing`."""

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

    def behind(self, part: str) -> str:
        """The text between a part and the next one."""
        pieces = _PARTS.split(self.call)
        return pieces[pieces.index(part) + 1]


@dataclass(frozen=True, slots=True)
class Written:
    """A call as it was asked for."""

    name: str
    arguments: Mapping[str, str]
    id: str


def find(one: str, two: str, calls: Sequence[Written]) -> Layout | None:
    """The layout of turns of which `one` holds the first of `calls`, and `two` both. None: no call is found."""
    first = _with_holes(one, calls[:1])
    if first is None:
        return None
    region = one[slice(*(_arguments_at(one, calls[0].arguments) or (0, 0)))]
    pieces = _PARTS.split(first)
    both = _PARTS.split(_with_holes(two, calls) or "")
    if both[1::2] != pieces[1::2] * 2:
        return Layout(call=first, region=region)
    last = len(pieces) - 1
    before, middle, after = pieces[0], both[last], pieces[last]
    inner = [_counted(a, b) for a, b in zip(both[2:last:2], both[last + 2 : -1 : 2], strict=True)]
    if not all(inner):
        return None
    texts = [text for text, _ in filter(None, inner)]
    numbers = [number for _, number in filter(None, inner) if number is not None]
    close = common_start(middle, after)
    between = middle.removeprefix(close)
    found = re.search(rf"({_COUNT})(\D*)\Z", before)
    if found is not None and between.endswith(again := f"{int(found[1]) + 1}{found[2]}"):
        numbers.append(int(found[1]))
        before, between = (text + NUMBER + found[2] for text in (before[: found.start()], between.removesuffix(again)))
    begin = common_end(before, between)
    return Layout(
        opening=before.removesuffix(begin),
        call=begin + "".join(itertools.chain(*zip(pieces[1::2], [*texts, close], strict=True))),
        between=between.removesuffix(begin),
        closing=after.removeprefix(close),
        first=min(numbers, default=0),
        region=region,
    )


def _with_holes(text: str, calls: Sequence[Written]) -> str | None:
    """The text with holes in place of the calls' parts; None where a call does not have one name and its arguments."""
    for call in calls:
        found = _arguments_at(text, call.arguments)
        if found is None:
            return None
        text = text[: found[0]] + ARGUMENTS + text[found[1] :]
        if call.name not in text:
            return None
        text = text.replace(call.name, NAME).replace(call.id, ID)
    return text


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


def shared(a: str, b: str) -> int:
    """How many characters two texts begin with alike."""
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(a, b, strict=False)))


def common_start(a: str, b: str) -> str:
    """What both begin with, up to the end of a whole marker or word."""
    cut = shared(a, b)
    if len(a) == cut == len(b):
        return a
    return a[: min(_whole(a, cut, back=True), _whole(b, cut, back=True))]


def common_end(a: str, b: str) -> str:
    """What both end with, from the beginning of a whole marker or word."""
    cut = shared(a[::-1], b[::-1])
    if len(a) == cut == len(b):
        return a
    begins = (_whole(text, len(text) - cut, back=False) - len(text) for text in (a, b))
    keep = -max(begins)
    return a[len(a) - keep :] if keep else ""


def _whole(text: str, cut: int, *, back: bool) -> int:
    """`cut`, or the nearest place before (`back`) or after it that is not inside a marker or a word."""
    for found in _MARKER.finditer(text, max(0, cut - 100)):
        if found.start() >= cut:
            break
        if found.end() > cut:
            return found.start() if back else found.end()
    return cut


def tokens(text: str) -> list[str]:
    """The markers in a text: `<…>`, `<|…|>`, `[UPPER]`."""
    return _TOKEN.findall(text)
