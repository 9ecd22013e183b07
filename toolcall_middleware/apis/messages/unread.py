"""Parts of a Messages request that are not read here, but may be tools to an upstream that gets the request unchanged.

They are recognized by the names of members. The content of a call or a tool (`input`, a schema) is only data.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ...errors import ToolCallError
from ...wire.tool_words import CARRIERS, SPEAKS_OF_TOOLS

_CARRIERS = CARRIERS | {"definition", "input_schema"}
_CALLS = frozenset({"tool_use", "server_tool_use", "mcp_tool_use"})
_READ = frozenset({
    "text", "image", "document", "search_result", "thinking", "redacted_thinking", "compaction", "fallback",
    "container_upload", "mcp_tool_listing", "tool_result", "tool_reference", *_CALLS,
})  # fmt: skip
_CHANGES = frozenset({"tool_addition", "tool_removal"})
_LONGEST_PATH = 200
_OF_A_TOOL = frozenset({"input_schema", "input_examples", "configs"})


def refuse_unread(name: str, value: Any) -> None:
    """Refuse a request's field (`messages`, `tools` or `mcp_servers`) that holds tools where they are not read.

    Raises ToolCallError `tool_not_allowed`, whose `param` is the path of the member.
    """
    for number, item in enumerate(value if isinstance(value, list) else ()):
        if not isinstance(item, dict):
            continue
        path = f"{name}.{number}"
        if name == "messages":
            _look(item, path, _carries, without={"content"})
            _blocks(item.get("content"), f"{path}.content", str(item.get("role")))
        else:
            _look(item, path, _carries, without=_OF_A_TOOL)


def _blocks(content: Any, path: str, role: str) -> None:
    for number, block in enumerate(content if isinstance(content, list) else ()):
        if not isinstance(block, dict):
            continue
        where, kind = f"{path}.{number}", block.get("type")
        if role == "system" and kind in _CHANGES:
            _look(block, where, _carries, without={"tool"})
            tool = block.get("tool")
            definition = tool.get("definition") if isinstance(tool, dict) else None
            if isinstance(definition, dict):
                _look(definition, f"{where}.tool.definition", _carries, without=_OF_A_TOOL)
        elif kind in _READ or str(kind).endswith("_tool_result"):
            data = "input" if kind in _CALLS else "content" if kind == "tool_result" else ""
            _look(block, where, _carries, without={data})
            if kind == "tool_result":
                _blocks(block.get("content"), f"{where}.content", role)
        elif SPEAKS_OF_TOOLS.search(str(kind)):
            raise _refusal(f"{where}.type")
        else:
            _look(block, where, SPEAKS_OF_TOOLS.search)


def _look(
    holder: Mapping[str, Any],
    path: str,
    found: Callable[[str], object],
    *,
    without: frozenset[str] | set[str] = frozenset(),
) -> None:
    """Look through a value for a member whose name says that it holds tools. without: members of `holder`."""
    waiting = [(_within(path, name), name, value) for name, value in holder.items() if name not in without]
    while waiting:
        where, name, value = waiting.pop()
        if value and found(name):
            raise _refusal(where)
        if isinstance(value, dict):
            waiting += [(_within(where, inner), inner, item) for inner, item in value.items()]
        elif isinstance(value, list):
            waiting += [(_within(where, str(number)), "", item) for number, item in enumerate(value)]


def _within(path: str, name: str) -> str:
    """The path of a member, cut because names may be long and a member may hold many."""
    return f"{path}.{name[:_LONGEST_PATH]}"[:_LONGEST_PATH]


def _carries(name: str) -> bool:
    return name.casefold() in _CARRIERS


def _refusal(path: str) -> ToolCallError:
    message = f"Tools are guarded here, and {path} is not read: tools stand in the request's own field tools."
    return ToolCallError("tool_not_allowed", message, param=path)
