"""Calls written as a name and then JSON: `[TOOL_CALLS]lookup[ARGS]{"city": "Paris"}`. Arguments stand there verbatim.

A name that holds white space, quotes or brackets cannot be written so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...model import ToolCall
from ...parsing.patterns import TOOL_NAME
from .json import WriteCalls

One = Callable[[int, ToolCall], str | None]
"""Writes one call, given its number in the turn; None where it has no way to."""


def write_each(one: One, *, opening: str = "", closing: str = "", between: str = "") -> WriteCalls:
    """Writes the calls of a turn one by one, `opening` and `closing` around all of them."""

    def write(calls: Sequence[ToolCall]) -> str | None:
        each = [one(number, call) for number, call in enumerate(calls) if TOOL_NAME.fullmatch(call.name)]
        found = [text for text in each if text is not None]
        return opening + between.join(found) + closing if len(found) == len(calls) else None

    return write
