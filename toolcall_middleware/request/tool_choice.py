"""`tool_choice` and `parallel_tool_calls`, resolved against the tools."""

from __future__ import annotations

from typing import Any

from ..errors import ToolCallError, kind, shown
from ..model import ChoiceMode, ToolChoice, ToolSet


def read_choice(value: Any, tools: ToolSet, *, parallel: bool, param: str) -> ToolChoice:
    """The choice that `value` (of the field `param`, decoded; None where absent) makes among `tools`.

    `parallel` is whether several calls are welcome where no tool is named. Without tools, nothing is chosen.
    Raises ToolCallError `invalid_tool_choice` for a tool that is not there, `invalid_request` for a wrong form.
    """
    match value:
        case None | "auto":
            return ToolChoice(ChoiceMode.AUTO if len(tools) else ChoiceMode.NONE, parallel=parallel)
        case "none":
            return ToolChoice(ChoiceMode.NONE, parallel=parallel)
        case "required" | "any":  # Mistral's word
            if not len(tools):
                raise ToolCallError("invalid_tool_choice", f"'{param}' is '{value}' without tools.", param=param)
            return ToolChoice(ChoiceMode.REQUIRED, parallel=parallel)
        case {"type": "allowed_tools"}:
            return _allowed(value, tools, parallel=parallel, param=param)
        case dict():
            name = _known(_name(value, param), tools, param)
            return ToolChoice(ChoiceMode.NAMED, name=name, parallel=False)
    allowed = "'none', 'auto', 'required' or an object that names a tool"
    raise ToolCallError("invalid_request", f"'{param}' must be {allowed}; got {shown(value)}.", param=param)


def _allowed(value: dict[str, Any], tools: ToolSet, *, parallel: bool, param: str) -> ToolChoice:
    inner = value.get("allowed_tools", value)  # the Responses API has no inner object
    entries = inner.get("tools") if isinstance(inner, dict) else None
    if not isinstance(entries, list):
        raise ToolCallError("invalid_request", "'allowed_tools' needs 'tools', an array of tools.", param=param)
    names = frozenset(_known(_name(entry, param), tools, param) for entry in entries)
    match inner.get("mode"):
        case None | "auto":
            mode = ChoiceMode.AUTO if names else ChoiceMode.NONE
        case "required":
            mode = ChoiceMode.REQUIRED
        case other:
            message = f"The mode of 'allowed_tools' must be 'auto' or 'required'; got {shown(other)}."
            raise ToolCallError("invalid_request", message, param=param)
    if mode is ChoiceMode.REQUIRED and not names:
        raise ToolCallError("invalid_tool_choice", "'allowed_tools' requires a call and allows no tool.", param=param)
    return ToolChoice(mode, allowed=names, parallel=parallel)


def _name(entry: Any, param: str) -> str:
    """The name in `{"type": "function", "function": {"name"}}`, the same for `custom`, or one without the wrapper."""
    match entry:
        case {"type": "custom", "custom": {"name": str(name)}}:
            return name
        case {"type": "function" | None, "function": {"name": str(name)}} | {"type": "function", "name": str(name)}:
            return name
        case {"type": _}:
            pass
        case {"function": {"name": str(name)}} | {"name": str(name)}:
            return name
    got = "an object without a tool's name" if isinstance(entry, dict) else kind(entry)
    raise ToolCallError("invalid_request", f"'{param}' must name a tool; got {got}.", param=param)


def _known(name: str, tools: ToolSet, param: str) -> str:
    if name not in tools.by_name:
        raise ToolCallError("invalid_tool_choice", f"The tool {shown(name)} is not in 'tools'.", param=param)
    return name
