"""Calls in which words and signs are left out, doubled, exchanged or strange: what `conserved` asks of any text.

Damage of this kind meets what a reader expects at every place of its syntax.
"""

from __future__ import annotations

import json
import re

from toolcall_middleware.formats import registry
from toolcall_middleware.model import ToolCall

from .conserved import checked
from .dice import Dice, pick
from .texts import FORMATS, NAMES, VALUES

_TOKEN = re.compile(r"<[^<>\s]{0,40}>|\w+|\s+|[^\w\s]")
_STRANGE = (
    *"\"'\\,:{}[]\n </=()|1-x\t\0", "//", " # c", "/* c", "*/", "</", "null", "None", "True", "1.", "e5", '"""', "'''",
    "```", "`", "…", "é", "&lt;", "<|", "|>", "\\n", "\\u00e9", "\\u12",
)  # fmt: skip
_MOST_DAMAGED = 6


def one(dice: Dice) -> str:
    """See the module."""
    own = pick(dice, FORMATS)
    calls = [_call(dice) for _ in range(1 + dice.below(3))]
    tokens = _TOKEN.findall(registry.get(own).render_calls(calls))
    for _ in range(dice.below(_MOST_DAMAGED + 1)):
        if tokens:
            _damage(dice, tokens)
    text = pick(dice, ("", "", "Hi. ", "<think>x</think>")) + "".join(tokens) + pick(dice, ("", " So.", "\n"))
    return checked(dice, "auto" if dice.below(3) == 0 else own, text)


def _call(dice: Dice) -> ToolCall:
    values = {key: pick(dice, VALUES) for key in ("city", "days", "at") if dice.below(2)}
    return ToolCall(pick(dice, NAMES), json.dumps(values, ensure_ascii=bool(dice.below(2))))


def _damage(dice: Dice, tokens: list[str]) -> None:
    at, other = dice.below(len(tokens)), dice.below(len(tokens))
    match dice.below(5):
        case 0:
            del tokens[at]
        case 1:
            tokens.insert(at, pick(dice, _STRANGE))
        case 2:
            tokens[at] = pick(dice, _STRANGE)
        case 3:
            tokens.insert(at, tokens[other])
        case _:
            tokens[at], tokens[other] = tokens[other], tokens[at]
