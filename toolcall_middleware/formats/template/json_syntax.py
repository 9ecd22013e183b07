"""Readers and writers for layouts whose arguments are one JSON object: the whole call is JSON, or its name outside."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any

from ...parsing.text.grammar import Opener
from ..prompt.escaping import dump
from ..syntax.json import Json
from ..syntax.named import Named
from ..syntax.openers import bare_call, ignored, opener
from ..syntax.shape import Shape, WriteCalls
from .compare import tokens
from .layout import ARGUMENTS, ID, NAME, NUMBER, Layout


@dataclass(frozen=True, slots=True)
class Syntax:
    """How calls are read and written."""

    kind: str
    """In words."""
    openers: tuple[Opener, ...]
    calls: Shape
    writer: Shape | None = None
    """Writes them; None: `calls` does."""

    @property
    def write(self) -> WriteCalls:
        """Writes the calls of a turn."""
        return (self.writer or self.calls).writer(*self.openers)


def of_layout(layout: Layout) -> Syntax | None:
    """The syntax of a layout whose arguments are JSON; None: no reader knows such."""
    if ARGUMENTS not in layout.call or NAME not in layout.call:
        return None
    return _object(layout) or _named(layout)


# -- the whole call is JSON -------------------------------------------------------------------------------------------


def _object(layout: Layout) -> Syntax | None:
    sample = layout.call.replace(NAME, "n").replace(ARGUMENTS, "{}").replace(ID, "i").replace(NUMBER, "0")
    place = layout.call.index(NAME)
    at = layout.call.find("{", 0, place)
    if at < 0:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(sample, at)
    except ValueError:
        return None
    known = _keys(value)
    if known is None:
        return None
    calls = Json(
        call=_with_holes(layout.call),
        open=layout.opening.lstrip(),
        between=layout.between,
        close=layout.closing.rstrip(),
        first=layout.first,
    )
    marker = calls.marker
    if not marker:
        if calls.syntax.keyed:
            return None
        return Syntax("a JSON object without a marker", (bare_call(dump(known[0]), ":"),), calls)
    if not unmistakable(marker):
        return None
    openers = [opener(marker, calls, special=is_special(marker))]
    if not layout.call.lstrip().startswith("{"):
        openers += [ignored(each) for each in (layout.opening.strip(), layout.closing.strip()) if each]
    return Syntax(kind(calls), tuple(openers), calls)


def kind(calls: Json) -> str:
    """How such calls are written, in words."""
    return f"JSON objects{' whose key is the name' if calls.syntax.keyed else ''} behind {calls.marker}"


def _with_holes(text: str) -> str:
    for part, hole in ((NAME, "{name}"), (ARGUMENTS, "{arguments}"), (ID, "{id}"), (NUMBER, "{number}")):
        text = text.replace(part, hole)
    return text


def _keys(value: Any) -> tuple[str, str] | None:
    """The keys of name and arguments; empty ones where the name is the key."""
    if not isinstance(value, dict):
        return None
    if value == {"n": {}}:
        return "", ""
    for inner in (value, *(each for each in value.values() if isinstance(each, dict))):
        name = next((key for key, each in inner.items() if each == "n"), None)
        arguments = next((key for key, each in inner.items() if each == {}), None)
        if name is not None and arguments is not None:
            return name, arguments
    return None


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


# -- the name stands outside ------------------------------------------------------------------------------------------


def _named(layout: Layout) -> Syntax | None:
    if layout.order not in {NAME + ARGUMENTS, ID + NAME + ARGUMENTS, NAME + ID + ARGUMENTS}:
        return None
    marker = layout.opening.strip()
    calls = Named(
        call=_with_holes(layout.call),
        open=layout.opening.lstrip() if marker else "",
        between=layout.between,
        close=layout.closing.rstrip(),
        first=layout.first,
        alone=not marker,
        special=is_special(marker or layout.before.strip()),
    )
    item, parts = calls.parts.item.strip(), calls.parts
    if not item or not unmistakable(item) or not parts.name_ends or (marker and not unmistakable(marker)):
        return None
    if (ID in layout.order[:1] and not parts.leading) or (parts.call_id and not all(parts.call_id)):
        return None
    behind = f", all behind {marker}" if marker else ""
    return Syntax(f"a name and JSON behind {item}{behind}", calls.openers, calls)
