"""Texts of calls in which words, tags and signs are deleted, doubled, exchanged or replaced.

Damage of this kind meets what a reader expects at every place of its syntax. Nothing here imports the package: the
comparison of two checkouts (tests/same) makes the same texts on both sides.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from .dice import Dice, pick

_GOLDENS = Path(__file__).parents[2] / "formats" / "golden"
_TOKEN = re.compile(r"<[^<>\n]{0,60}>|\w+|\s+|[^\w\s]")
_STRANGE = (
    *"\"'\\,:{}[]\n </=()|1-x\t\0", "//", " # c", "// c\n", "/* c", "/* c */", "*/", "</", "null", "None", "True", "1.",
    "e5", "+1", "0x1F", "007", "NaN", "undefined", ", ,", "=>", '"""', "'''", "```", "`", "```json\n", "…", "é", "&lt;",
    "<|", "|>", "\\n", "\\u00e9", "\\u12", "<![CDATA[", "]]>", "\r\n", "\n\n", "<city>", "</city>", '{"city": "Paris"}',
    " " * 300,
)  # fmt: skip
_MOST_DAMAGED = 6
_MOST_DOUBLED = 6


@dataclass(frozen=True, slots=True)
class Damaged:
    """A damaged text of the golden `case`. cut: the model was cut off."""

    case: dict[str, Any]
    text: str
    cut: bool


def golden(dice: Dice) -> Damaged:
    """A golden text, damaged. One in twenty is whole."""
    cases = goldens()
    case, other = pick(dice, cases), pick(dice, cases)
    text = case["text"] if dice.below(20) == 0 else damaged(dice, case["text"], other["text"])
    return Damaged(case, text, dice.below(3) == 0)


@cache
def goldens() -> list[dict[str, Any]]:
    """All golden cases of formats that read calls, as they are in their files."""
    found: list[dict[str, Any]] = []
    for path in sorted(_GOLDENS.glob("*.jsonl")):
        found += [json.loads(line) for line in path.read_text("utf-8").splitlines() if line.strip()]
    return [case for case in found if case["format"] != "plain"]


def damaged(dice: Dice, text: str, other: str = "") -> str:
    """`text` with up to six places damaged. What replaces or is added may be from `other`."""
    tokens = _TOKEN.findall(text)
    lent = _TOKEN.findall(other) or list(_STRANGE)
    for _ in range(dice.below(_MOST_DAMAGED + 1)):
        if tokens:
            _damage(dice, tokens, lent)
    return "".join(tokens)


def _damage(dice: Dice, tokens: list[str], lent: list[str]) -> None:
    at, other = dice.below(len(tokens)), dice.below(len(tokens))
    match dice.below(10):
        case 0:
            del tokens[at]
        case 1:
            tokens.insert(at, pick(dice, _STRANGE))
        case 2:
            tokens[at] = pick(dice, _STRANGE)
        case 3:
            tokens.insert(at, tokens[other])
        case 4:
            tokens[at], tokens[other] = tokens[other], tokens[at]
        case 5:
            tokens.insert(at, pick(dice, [token for token in tokens + lent if token.startswith("<")] or ["<"]))
        case 6:
            tokens[at] = pick(dice, lent)
        case 7:
            tokens[at] = tokens[at][: dice.below(len(tokens[at]) + 1)]
        case 8:
            if dice.below(2):
                del tokens[at:]
        case _:
            tokens[other:other] = tokens[at : at + 1 + dice.below(_MOST_DOUBLED)]
