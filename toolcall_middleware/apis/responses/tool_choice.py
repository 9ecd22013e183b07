"""`tool_choice` of a Responses request as a chat completion has it, against the tools that are offered."""

from __future__ import annotations

from typing import Any

from ...errors import kind, refusal, shown
from .names import ClientTool, Kind
from .tools import OfferedTools, no_such_tool

_NAMED = frozenset({"function", "custom"})
_LOCAL = {kind.value: kind for kind in Kind if kind.value not in _NAMED}


def chat_choice(value: Any, offered: OfferedTools) -> Any:
    """The `tool_choice` for the chat completion; None where it has none.

    Raises ToolCallError for a tool that is not offered, and where a call must come and nothing can be called.
    """
    match value:
        case None | "auto":
            return "auto" if value is not None and offered.chat else None
        case "none":
            return "none" if offered.chat else None
        case "required":
            if not offered.chat:
                raise no_such_tool(f"'tool_choice' is 'required', but there is no tool to call{_left_out(offered)}.")
            return "required"
        case {"type": "allowed_tools"}:
            return _allowed(value, offered)
        case dict():
            names = _offered_names(value, offered)
            if not names:
                raise no_such_tool(_missing(value, offered))
            return {"type": "function", "function": {"name": names[0]}}
    allowed = "'none', 'auto', 'required' or an object that names a tool"
    raise refusal("tool_choice", f"'tool_choice' must be {allowed}; got {shown(value)}.")


def _allowed(value: dict[str, Any], offered: OfferedTools) -> Any:
    inner = value.get("allowed_tools", value)  # chat completions wrap it
    entries = inner.get("tools") if isinstance(inner, dict) else None
    if not isinstance(entries, list):
        raise refusal("tool_choice.tools", "'allowed_tools' needs 'tools', an array of tools.")
    mode = inner.get("mode", "auto")
    if mode not in ("auto", "required"):
        message = f"The mode of 'allowed_tools' must be 'auto' or 'required'; got {shown(mode)}."
        raise refusal("tool_choice.mode", message)
    names: dict[str, None] = {}
    for index, entry in enumerate(entries):
        param = f"tool_choice.tools[{index}]"
        if not isinstance(entry, dict):
            raise refusal(param, f"A tool must be an object, got {kind(entry)}.")
        found = _offered_names(entry, offered, param)
        if not found and entry.get("type") in _NAMED:
            raise no_such_tool(_missing(entry, offered))
        names.update(dict.fromkeys(found))
    if not names:
        if mode == "required":
            raise no_such_tool(f"'allowed_tools' requires a call and allows no tool{_left_out(offered)}.")
        return "none" if offered.chat else None
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


def _offered_names(entry: dict[str, Any], offered: OfferedTools, param: str = "tool_choice") -> list[str]:
    """The names of the offered tools that an entry means: one, all of a namespace, or none."""
    variant, name = entry.get("type"), entry.get("name")
    if not isinstance(variant, str):
        raise refusal(f"{param}.type", f"'{param}' needs a type, a string; got {kind(variant)}.")
    by_offered = offered.names.by_offered
    if variant in _LOCAL:
        tool = ClientTool(_LOCAL[variant], variant)
        return [found for found, known in by_offered.items() if known == tool]
    if variant == "namespace" and isinstance(name, str):
        return offered.namespaces.get(name, [])
    if variant not in _NAMED:
        return []
    inner = entry.get(variant)  # chat completions wrap the name
    if name is None and isinstance(inner, dict):
        name = inner.get("name")
    if not isinstance(name, str) or not name:
        raise refusal(f"{param}.name", f"'{param}' must name a tool; got {shown(name)}.")
    space = entry.get("namespace")
    meant = [
        found
        for found, tool in by_offered.items()
        if tool.kind.value in _NAMED and tool.name == name and (tool.namespace == space if space is not None else True)
    ]
    # A name may stand in several namespaces, and outside.
    plain = [found for found in meant if by_offered[found].namespace is None]
    if plain or len(meant) == 1:
        return plain or meant
    return [name] if name in by_offered and by_offered[name].kind.value in _NAMED else []


def _missing(entry: dict[str, Any], offered: OfferedTools) -> str:
    named = entry.get("name") if entry.get("type") in _NAMED else entry.get("type")
    if entry.get("type") in _NAMED or entry.get("type") in _LOCAL:
        return f"The tool {shown(named)} is not in 'tools'{_left_out(offered)}."
    return f"The tool {shown(named)} runs on OpenAI's servers and cannot be called here."


def _left_out(offered: OfferedTools) -> str:
    return f" ({', '.join(offered.dropped)} cannot be run here)" if offered.dropped else ""
