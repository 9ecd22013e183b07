"""Declares the calls of a layout in the shape that they are written in. A shape that does not fit is not refused here:
it does not read back what the template renders.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...parsing.text.grammar import Opener
from ..syntax.json import Json, Named
from ..syntax.literals import Gemma, Python, double, single
from ..syntax.shape import ANY_JSON, Rendered, Shape, WriteCalls, bare_call, ignored, opener, reads
from ..syntax.slots import Slots
from .probes import KEYS, VALUES, as_call
from .turns import ARGUMENTS, ID, NAME, NUMBER, Layout, common_end, common_start, tokens


@dataclass(frozen=True, slots=True)
class Syntax:
    """How calls are read and written."""

    kind: str
    """In words."""
    openers: tuple[Opener, ...]
    calls: Shape
    writer: Shape | None = None
    """Writes them; None: `calls` does."""
    like: str | None = None
    """The built-in family whose reader it is."""

    @property
    def write(self) -> WriteCalls:
        """Writes the calls of a turn."""
        return (self.writer or self.calls).writer(*self.openers)

    def written(self, arguments: Sequence[dict[str, Any]]) -> list[Rendered]:
        """Calls with these arguments as it writes them."""
        calls = [as_call("look_up", each) for each in arguments]
        return [Rendered(text, (call,)) for call in calls if (text := self.write([call])) is not None]

    def reads_back(self, turns: Iterable[Rendered]) -> bool:
        """Whether each of the turns is read as the calls that it was rendered from."""
        return all(reads((*self.openers, *ANY_JSON), turn) for turn in turns)


def of_layout(layout: Layout, texts: Mapping[str, str]) -> Syntax | None:
    """The syntax of a layout; None: no reader knows such. texts: turns with one call, by its arguments."""
    if layout.json:
        return (_object if "{" in layout.before else _named)(layout)
    if layout.order != NAME + ARGUMENTS or NUMBER in layout.call:
        return None
    is_, _, rest = layout.region.removeprefix(KEYS[0]).partition(VALUES[0])
    next_, _, again = rest.partition(KEYS[1])
    if again != is_ + VALUES[1]:
        return None
    if layout.gap_after(NAME).strip() == "(" and is_.strip().startswith("="):
        return _pythonic(layout, is_, texts)
    if layout.before.endswith("call:") and layout.gap_after(NAME) == "{" and is_.startswith(":"):
        return _gemma(layout, is_[1:])
    return _tags(layout, is_, next_, texts)


def unmistakable(marker: str) -> bool:
    """Whether no ordinary text holds it."""
    return (
        any(len(token) > 4 for token in tokens(marker))
        or not marker.isascii()
        or re.search(r"\W{3}|<[|/]?[\w:.-]{4,}[= ]", marker) is not None
    )


def is_special(marker: str) -> bool:
    """Whether it looks like a token of its own, which no thought holds and which backends leave out of the text."""
    return marker.startswith(("<|", "<｜", "[", "]"))


def _after_openers(kind: str, calls: Shape, *openers: Opener) -> Syntax | None:
    """The syntax of calls that begin with one of the openers. Openers that ordinary text may hold are dropped."""
    known = tuple(each for each in openers if unmistakable(each.marker))
    return Syntax(f"{kind} after {known[0].marker}", known, calls) if known else None


# -- arguments are one JSON object ------------------------------------------------------------------------------------


def _object(layout: Layout) -> Syntax | None:
    """The whole call is JSON."""
    calls = Json(
        call=layout.call,
        open=layout.opening.lstrip(),
        between=layout.between,
        close=layout.closing.rstrip(),
        first=layout.first,
    )
    marker, keyed = calls.marker, calls.syntax.keyed
    if not marker:
        begin = re.match(r"\s*\{\s*(\"[^\"{}]+\")\s*:", layout.call)
        return (
            None if keyed or not begin else Syntax("a JSON object without a marker", (bare_call(begin[1], ":"),), calls)
        )
    around = (layout.opening.strip(), layout.closing.strip()) if not layout.call.lstrip().startswith("{") else ()
    return _after_openers(
        f"JSON objects{' whose key is the name' * keyed}",
        calls,
        opener(marker, calls, special=is_special(marker)),
        *(ignored(each) for each in around if each),
    )


def _named(layout: Layout) -> Syntax | None:
    """The name is outside of the JSON."""
    if layout.order not in {NAME + ARGUMENTS, ID + NAME + ARGUMENTS, NAME + ID + ARGUMENTS}:
        return None
    marker = layout.opening.strip()
    calls = Named(
        call=layout.call,
        open=layout.opening.lstrip() if marker else "",
        between=layout.between,
        close=layout.closing.rstrip(),
        first=layout.first,
        alone=not marker,
        special=is_special(marker or layout.before.strip()),
    )
    return _after_openers("a name and JSON", calls, *calls.openers) if calls.layout.end else None


# -- arguments are one by one -----------------------------------------------------------------------------------------


def _pythonic(layout: Layout, is_: str, texts: Mapping[str, str]) -> Syntax | None:
    calls = Python(
        open=layout.opening.lstrip() + layout.before,
        close=layout.closing.rstrip(),
        between=layout.between or ", ",
        json_words="true" in texts.get('{"flag": true, "other": false}', ""),
        quote=single if is_.endswith("'") else double,
    )
    marker = calls.marker
    return _after_openers("a Python list of calls", calls, opener(marker, calls, special=is_special(marker)))


def _gemma(layout: Layout, mark: str) -> Syntax | None:
    begin, end = layout.before.removesuffix("call:").strip(), layout.after.removeprefix(f"{mark}}}").strip()
    calls = Gemma(mark=mark, open=begin, close=end)
    return _after_openers("Gemma's notation", calls, *calls.openers) if mark and begin and end else None


def _tags(layout: Layout, is_: str, next_: str, texts: Mapping[str, str]) -> Syntax | None:
    value_end = common_start(next_, layout.after)
    parameter = common_end(next_[len(value_end) :], layout.gap_after(NAME))
    end = layout.after[len(value_end) :]
    written = _between_key_and_value(is_, texts)
    if value_end + parameter != next_ or not parameter or len(tokens(value_end)) != 1 or not tokens(end) or not written:
        return None
    before, outer = layout.before, layout.opening.strip()
    slots = Slots(
        open=layout.opening.lstrip(),
        close=layout.closing.rstrip(),
        between=layout.between or "",
        call=before + NAME + layout.gap_after(NAME).removesuffix(parameter) + "{slots}" + end,
        slot=parameter + "{key}" + written + "{value}" + value_end,
        noise=(*tokens(before[: before.rfind("<")]), *tokens(end)[1:]) if outer else (),
    )
    try:
        _ = slots.layout().call, slots.layout().slot
    except (LookupError, ValueError, re.error):
        return None
    marker = outer or slots.layout().wrapper
    return _after_openers(
        "a tag for each argument",
        slots,
        opener(marker, slots, special=is_special(marker)),
        slots.unwrapped(),
    )


_KINDS = (("true", "false", "{kind}"), ("string", "number", "{type}"), ("string", "integer", "{type}"))
"""What says that a value is a string, what says that it is a number, and the hole for it."""


def _between_key_and_value(is_: str, texts: Mapping[str, str]) -> str | None:
    """The text between key and value, with `{kind}` or `{type}` where it says what the value is."""
    number = texts.get('{"days": 7}', "").partition("days")[2].partition("7")[0]
    if number == is_:
        return is_
    for text, other, hole in _KINDS:
        if is_.replace(text, other) == number:
            return is_.replace(text, hole)
    return None
