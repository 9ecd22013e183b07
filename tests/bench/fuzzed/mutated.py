"""Damaged calls (`damaged`): those of random values as a format writes them, and the golden texts."""

from __future__ import annotations

import json

from toolcall_middleware.formats import registry
from toolcall_middleware.model import Tool, ToolCall, ToolSet

from .conserved import AROUND_GOLDENS, checked
from .damaged import damaged, golden
from .dice import Dice, pick
from .texts import FORMATS, NAMES, VALUES


def one(dice: Dice) -> str:
    """Calls in a format's own syntax: what `conserved` asks of any text."""
    own = pick(dice, FORMATS)
    calls = [_call(dice) for _ in range(1 + dice.below(3))]
    written = damaged(dice, registry.get(own).render_calls(calls))
    text = pick(dice, ("", "", "Hi. ", "<think>x</think>")) + written + pick(dice, ("", " So.", "\n"))
    return checked(dice, "auto" if dice.below(3) == 0 else own, text)


def goldens(dice: Dice) -> str:
    """A golden text, by its format or by `auto`."""
    made = golden(dice)
    functions = made.case.get("tools")
    offered = None if functions is None else ToolSet.of([_tool(tool["function"]) for tool in functions])
    name = "auto" if dice.below(4) == 0 else made.case["format"]
    return checked(dice, name, made.text, offered, AROUND_GOLDENS)


def _tool(function: dict[str, object]) -> Tool:
    parameters = function.get("parameters")
    return Tool(str(function["name"]), parameters=parameters if isinstance(parameters, dict) else {})


def _call(dice: Dice) -> ToolCall:
    values = {key: pick(dice, VALUES) for key in ("city", "days", "at") if dice.below(2)}
    return ToolCall(pick(dice, NAMES), json.dumps(values, ensure_ascii=bool(dice.below(2))))
