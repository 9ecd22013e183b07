"""A call that ends too early, in any format: what is said to be complete was written in full, and is valid JSON."""

from __future__ import annotations

import json
from typing import Any

from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import ToolCall

from .conserved import OFFERED, complete_calls, merged
from .dice import Dice, pick, pieces
from .texts import FORMATS
from .told import told

# Values of the declared types: families without JSON spell them so. None is the markup around it: of a text that ends
# behind that, nobody can tell which of the two it is.
_CITIES = (
    "Paris",
    "",
    "a\nb",
    'a "b" c',
    "\\",
    "it's",
    "```",
    "😀",
    "x" * 300,
    "null",
    "12",
    "a, b=1)",
    "}",
)
_DAYS = (0, 7, -12, 365)
_PLACES: tuple[dict[str, Any], ...] = ({}, {"lat": 48.85, "on": True}, {"a": [1, "b", {"c": None}]}, {"name": "Île"})


def one(dice: Dice) -> str:
    """See the module."""
    name = pick(dice, FORMATS)
    given: dict[str, Any] = {}
    for key, values in (("city", _CITIES), ("days", _DAYS), ("at", _PLACES)):
        if dice.below(3):
            given[key] = pick(dice, values)
    spaced = bool(dice.below(2))
    arguments = json.dumps(given, ensure_ascii=bool(dice.below(2)), separators=None if spaced else (",", ":"))
    calls = [ToolCall("weather", arguments, "call_1")] * (1 + dice.below(2))
    written = registry.get(name).render_calls(calls)
    text = written[: dice.below(len(written) + 1)]
    reader = name if dice.below(2) else "auto"
    end_cut = bool(dice.below(2))
    sent = pieces(dice, text)
    with told(text=text, format=reader, sent=sent, cut=end_cut):
        parser = registry.get(reader).parser(OFFERED, ParserOptions())
        whole = [*parser.feed(text), *parser.finish(cut=end_cut)]
        parser = registry.get(reader).parser(OFFERED, ParserOptions())
        cut = [event for piece in sent for event in parser.feed(piece)]
        cut += parser.finish(cut=end_cut)
        assert merged(cut) == merged(whole), (merged(cut), merged(whole))
        found = complete_calls(whole)
        for got in found:
            value = json.loads(got)
            assert _is_part(value, given), f"{value} of {given}"
    return "complete" if found else "none"


def _is_part(got: Any, whole: Any) -> bool:
    """Whether `got` is what is left of `whole` where only later members and items are missing."""
    match got, whole:
        case dict(), dict():
            return all(key in whole and _is_part(value, whole[key]) for key, value in got.items())
        case list(), list():
            return len(got) <= len(whole) and all(map(_is_part, got, whole))
    return type(got) is type(whole) and bool(got == whole)
