"""The tools that a backend is asked to call, and what is said of a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...json_schema.validate_arguments import ArgumentChecker
from ...model import Tool, ToolCall, ToolSet


def _tool(name: str, description: str, required: list[str], **properties: Any) -> dict[str, Any]:
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


TOOLS: list[dict[str, Any]] = [
    _tool(
        "get_weather", "The current weather in a city.", ["city"],
        city={"type": "string"}, unit={"type": "string", "enum": ["celsius", "fahrenheit"]},
    ),
    _tool("get_time", "The current local time in a city.", ["city"], city={"type": "string"}),
    _tool("add", "Adds two numbers.", ["a", "b"], a={"type": "number"}, b={"type": "number"}),
]  # fmt: skip

# (what a user says, the tool that is meant)
PROMPTS: list[tuple[str, str]] = [
    ("What is the weather in Paris right now?", "get_weather"),
    ("What time is it in Tokyo?", "get_time"),
    ("Add 17 and 25 with the tool.", "add"),
    ("How warm is it in Cairo, in fahrenheit?", "get_weather"),
]

_SET = ToolSet.of([Tool(one["function"]["name"], "", one["function"]["parameters"]) for one in TOOLS])
_CHECKER = ArgumentChecker(_SET)


def fault_of(calls: Sequence[ToolCall]) -> str | None:
    """What is wrong with an answer's calls. None: there are some, each of one of TOOLS and with fitting arguments."""
    if not calls:
        return "no call"
    for call in calls:
        if call.name not in _SET.by_name:
            return f"a call of {call.name!r}"
        faults = _CHECKER.faults(call.name, call.arguments)
        if faults:
            return f"{call.name}: {faults[0]}"
    return None
