"""What `tool_choice` adds to a prompt, and which tools it lets a model call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ...model import ChoiceMode, Tool, ToolChoice
from .escaping import as_data, dump


def choice_text(tools: Sequence[Tool], choice: ToolChoice, *, noun: str, answer: str) -> str:
    """What `tool_choice` adds to a prompt; empty for `auto`. `answer`: what a call's answer consists of."""
    callable_now = callable_tools(tools, choice)
    lines = []
    if choice.mode in {ChoiceMode.AUTO, ChoiceMode.REQUIRED} and len(callable_now) < len(tools):
        lines.append(f"Only these {noun}s may be called now: {quoted_names(callable_now)}.")
    if choice.mode is ChoiceMode.REQUIRED:
        lines.append(f"Call the one {noun} that fits, with {answer}.")
    elif choice.mode is ChoiceMode.NAMED:
        lines.append(f"Call the {noun} {quoted_names(callable_now)}, with {answer}.")
    return f"({' '.join(lines)})" if lines else ""


def callable_tools(tools: Sequence[Tool], choice: ToolChoice) -> list[Tool]:
    """The tools that `choice` lets the model call."""
    return [tool for tool in tools if choice.allows(tool.name)]


def quoted_names(tools: Iterable[Tool]) -> str:
    """The names as `"f", "g"`."""
    return as_data(", ".join(dump(tool.name) for tool in tools))
