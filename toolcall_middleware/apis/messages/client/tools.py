"""The tools of a Messages request as functions, and which of them the model is offered.

Deferred tools (`defer_loading`) are offered from the place on where the conversation names them: in the result of a
tool search, or by a `tool_addition`. They follow the others, in the order in which they were loaded, so that the
prompt before them keeps its bytes from turn to turn.
"""

from __future__ import annotations

import logging
import re
from typing import Any

from ....errors import ToolCallError, refusal, shown
from ....wire.json_input import ANTHROPIC, Reader
from ...offered_tools import OfferedTools, Schema, Tool, field_schema, object_schema

_log = logging.getLogger("toolcall_middleware")

_NOT_IN_HEADER = re.compile(r"[^A-Za-z0-9_.:-]")
_PLACEHOLDER = "DeferredToolPlaceholder"  # Claude Code's: "never call this tool"
_SEARCH = "tool_search_tool_"
_LONGEST = 64  # characters of a name


class Toolbox(OfferedTools):
    """The tools of a request. Which of them are offered changes in the course of the conversation.

    native: the upstream speaks this API itself. foreign: names of tools that a native upstream runs; they are declared,
    so that guards see them. servers: paths of MCP servers, whose tools a native upstream may call.
    """

    def __init__(self, *, native: bool = False) -> None:
        super().__init__()
        self.native = native
        self.declared: dict[str, Tool] = {}
        self.foreign: set[str] = set()
        self.servers: list[str] = []
        self._removed: set[str] = set()

    def declare(self, tool: Tool) -> None:
        """Add a tool. Raises ToolCallError if its name is taken."""
        if tool.name in self.declared:
            message = f"Tool names must be unique; {shown(tool.name)} was declared before."
            raise refusal(f"{tool.path}.name", message, "invalid_tool_schema")
        if self.native:
            tool.function.pop("strict", None)  # Anthropic's API keeps that promise itself
        self.declared[tool.name] = tool
        if not tool.deferred:
            self.shown.append(tool)
        elif tool.name == _PLACEHOLDER:
            self._removed.add(tool.name)
        else:
            self.waiting[tool.name] = tool

    def leave_out(self, name: str, path: str) -> None:
        """Handle a tool that only Anthropic's servers can run: keep it if they are the upstream, else leave it out."""
        if not self.native:
            self.dropped.append(name)
        elif name not in self.foreign:
            self.declare(Tool(name, path, {"parameters": {"type": "object"}}))
            self.foreign.add(name)

    def serve(self, name: str, path: str) -> None:
        """Add an MCP server or a set of its tools, whose names are not known here: one tool is declared for all.

        Its name has a colon, which the API refuses in names of the client's tools.
        """
        self.servers.append(path)
        self.leave_out(f"mcp:{name}"[:_LONGEST] if self.native else name, path)

    def load(self, name: str) -> Tool | None:
        """See OfferedTools. A tool that the conversation took away comes back to its place."""
        if name in self._removed and name != _PLACEHOLDER:
            self._removed.discard(name)
            return self.declared[name]
        return super().load(name)

    def remove(self, name: str) -> Tool | None:
        """The conversation removes a tool. Return the tool if it was offered until now."""
        if not self.is_offered(name):
            return None
        self._removed.add(name)
        return self.declared[name]

    def is_offered(self, name: str) -> bool:
        """Whether the model may call it after the conversation as it is so far."""
        return name in self.declared and name not in self.waiting and name not in self._removed

    @property
    def offered(self) -> list[Tool]:
        """The tools for the model, without those that the conversation took away."""
        return [tool for tool in self.shown if tool.name not in self._removed]

    @property
    def unoffered(self) -> list[Tool]:
        """The tools that the conversation has not named so far, or took away."""
        return [tool for tool in self.declared.values() if not self.is_offered(tool.name)]


def read_tools(request: Reader, *, native: bool = False) -> Toolbox:
    """The request's `tools`. native: see `Toolbox`. Raises ToolCallError for an entry that is not a tool."""
    box = Toolbox(native=native)
    searches = False
    for entry in request.items("tools"):
        tool = read_tool(entry)
        if tool is not None:
            box.declare(tool)
            continue
        kind = entry.required("type")
        searches = searches or kind.startswith(_SEARCH)
        serve = box.serve if kind == "mcp_toolset" else box.leave_out
        serve(_name_of(entry, kind), entry.path)
    for server in request.items("mcp_servers"):
        box.serve(_name_of(server, server.path), server.path)
    if searches:  # only Anthropic's servers could run the search that finds the deferred tools
        for name in [*box.waiting]:
            box.load(name)
    if box.dropped:
        _log.warning("messages: tools that nobody here can run are left out: %s", ", ".join(box.dropped))
    return box


def read_tool(entry: Reader) -> Tool | None:
    """A tool that the client runs; None for one that Anthropic's servers would run."""
    kind = entry.text("type") or "custom"
    deferred = entry.flag("defer_loading") is True
    if kind != "custom" and (function := typed_tool(kind, entry)) is not None:
        name = function.pop("name")
        return Tool(entry.text("name") or name, entry.path, function, deferred)
    if kind != "custom" and not entry.begins("input_schema", b"{"):
        return None
    name, made = entry.filled("name"), dict[str, Any]()
    if entry.text("description") is not None:
        made["description"] = entry.fields["description"]
    if not entry.begins("input_schema", b"{"):
        wrong = ANTHROPIC["object" if "input_schema" in entry.fields else "missing"]
        raise entry.error("input_schema", wrong, "invalid_tool_schema")
    made["parameters"] = entry.fields["input_schema"]
    if entry.flag("strict"):
        made["strict"] = True
    return Tool(name, entry.path, made, deferred)


def _name_of(entry: Reader, otherwise: str) -> str:
    """The name of a tool that is left out, made safe for log lines and headers: the client wrote it."""
    names = [entry.value(name) for name in ("name", "mcp_server_name")]
    name = next((name for name in names if isinstance(name, str) and name), otherwise)
    return _NOT_IN_HEADER.sub("_", name[:_LONGEST])


def chat_choice(request: Reader, box: Toolbox) -> dict[str, Any]:
    """The request's `tool_choice` as fields of a chat completion (`tool_choice`, `parallel_tool_calls`).

    A tool that the upstream runs is no call for the client: one that is asked for is the upstream's to satisfy. So is
    an unknown name where it may be a tool of an MCP server.
    Raises ToolCallError where it asks for a tool that is not offered.
    """
    choice = request.inner("tool_choice")
    offered = box.offered
    if choice is None:
        return {}
    kind = choice.required("type")
    made: dict[str, Any] = {}
    if choice.flag("disable_parallel_tool_use"):
        made["parallel_tool_calls"] = False
    match kind:
        case "auto":
            made["tool_choice"] = "auto"
        case "none":
            made = {"tool_choice": "none"}
        case "any":
            if not offered:
                raise _no_tool("tool_choice", "asks for a call, and no tool is offered that can be called here", box)
            made["tool_choice"] = "auto" if box.foreign else "required"
        case "tool":
            name = choice.filled("name")
            of_server = box.native and bool(box.servers) and name not in box.declared
            if not of_server and not box.is_offered(name):
                raise _no_tool("tool_choice.name", f"the tool {shown(name)} is not offered", box)
            named = {"type": "function", "function": {"name": name}}
            made["tool_choice"] = "auto" if of_server or name in box.foreign else named
        case _:
            raise choice.error("type", f"Input should be 'auto', 'any', 'tool' or 'none', got {shown(kind)}")
    return made if offered else {}


def _no_tool(path: str, message: str, box: Toolbox) -> ToolCallError:
    dropped = (
        f"; {', '.join(box.dropped)} would be run by Anthropic's servers, and nobody here can" if box.dropped else ""
    )
    return refusal(path, f"{message}{dropped}.", "invalid_tool_choice")


def inline_definition(reference: Reader) -> Tool | None:
    """The tool in the `definition` of a `tool_addition`. None for a tool that only Anthropic's servers run."""
    entry = reference.inner("definition")
    if entry is None:
        raise reference.error("definition", ANTHROPIC["object"])
    found = read_tool(entry)
    if found is not None:
        found.deferred = True
    return found


# -- tools that Anthropic defines and the client runs: a request names their type, Claude knows their schema -----------
# A local model does not, so they are offered as functions. The parameters are those of Anthropic's pages
#   https://platform.claude.com/docs/en/agents-and-tools/tool-use/bash-tool (text-editor-tool, memory-tool,
#   computer-use-tool), and of the SDK's types `BetaMemoryTool20250818Command`. The descriptions are ours.


_TYPE = re.compile(r"(bash|text_editor|memory|computer)_(\d{8})")


def typed_tool(kind: str, entry: Reader) -> dict[str, Any] | None:
    """The function (`name`, `description`, `parameters`) for a tool of this type; None for an unknown type.

    A version that is newer than those known here is read as the newest.
    """
    found = _TYPE.fullmatch(kind)
    if found is None:
        return None
    name, description, properties, *required = _MAKERS[found[1]](found[2], entry)
    return {"name": name, "description": description, "parameters": object_schema(properties, *required)}


def _integers(count: int, description: str) -> Schema:
    return field_schema(description, "array", items={"type": "integer"}, minItems=count, maxItems=count)


_WHAT_TO_DO = "What to do."
_LINES = _integers(2, "For view: the first and the last line to show, counted from 1; -1 is the end of the file.")


def _bash(_version: str, _entry: Reader) -> tuple[Any, ...]:
    properties = {
        "command": field_schema("The command to run. Required unless the shell is restarted."),
        "restart": field_schema("True restarts the shell.", "boolean"),
    }
    return "bash", "Runs commands in a shell that stays open between calls.", properties


def _text_editor(version: str, _entry: Reader) -> tuple[Any, ...]:
    commands = ["view", "create", "str_replace", "insert", *(["undo_edit"] if version < "20250429" else [])]
    # The page names `new_str` for the text of an insertion up to 20250429, and `insert_text` from 20250728 on.
    inserts = version >= "20250728"
    more = "" if inserts else " For insert: the text to insert."
    properties = {
        "command": field_schema(_WHAT_TO_DO, enum=commands),
        "path": field_schema("The file, or for view also the directory."),
        "file_text": field_schema("For create: the content of the new file."),
        "old_str": field_schema(
            "For str_replace: the text to replace; it must match exactly and occur once in the file."
        ),
        "new_str": field_schema(f"For str_replace: the text to put in its place.{more}"),
        "insert_line": field_schema(
            "For insert: the line after which the text goes; 0 is the beginning of the file.", "integer"
        ),
        "view_range": _LINES,
        **({"insert_text": field_schema("For insert: the text to insert.")} if inserts else {}),
    }
    name = "str_replace_based_edit_tool" if version >= "20250429" else "str_replace_editor"
    return name, "Views, creates and edits text files.", properties, "command", "path"


def _memory(_version: str, _entry: Reader) -> tuple[Any, ...]:
    properties = {
        "command": field_schema(_WHAT_TO_DO, enum=["view", "create", "str_replace", "insert", "delete", "rename"]),
        "path": field_schema("The file or directory under /memories; not for rename."),
        "view_range": _LINES,
        "file_text": field_schema("For create: the content of the file."),
        "old_str": field_schema("For str_replace: the text to replace."),
        "new_str": field_schema("For str_replace: the text to put in its place."),
        "insert_line": field_schema("For insert: the line at which the text goes.", "integer"),
        "insert_text": field_schema("For insert: the text to insert."),
        "old_path": field_schema("For rename: the present path."),
        "new_path": field_schema("For rename: the new path."),
    }
    return "memory", "Reads and writes files that last beyond this conversation.", properties, "command"


_ACTIONS_2024 = (
    "key", "type", "mouse_move", "left_click", "left_click_drag", "right_click", "middle_click", "double_click",
    "screenshot", "cursor_position",
)  # fmt: skip
_ACTIONS_2025 = (
    *_ACTIONS_2024, "left_mouse_down", "left_mouse_up", "scroll", "hold_key", "wait", "triple_click",
)  # fmt: skip


def _computer(version: str, entry: Reader) -> tuple[Any, ...]:
    zoom = version >= "20251124" and entry.value("enable_zoom") is True
    actions = _ACTIONS_2024 if version < "20250124" else _ACTIONS_2025
    properties = {
        "action": field_schema(_WHAT_TO_DO, enum=[*actions, *(["zoom"] if zoom else [])]),
        "coordinate": _integers(2, "[x, y] in pixels from the left and the top, for actions of the mouse."),
        "text": field_schema("For type: the text. For key and hold_key: the key or combination, such as ctrl+s."),
    }
    if version >= "20250124":
        properties |= {
            "start_coordinate": _integers(2, "For left_click_drag: [x, y] where it begins."),
            "scroll_direction": field_schema("For scroll: where to.", enum=["up", "down", "left", "right"]),
            "scroll_amount": field_schema("For scroll: how many clicks of the wheel.", "integer"),
            "duration": field_schema("For wait and hold_key: seconds.", "number"),
        }
    if zoom:
        properties["region"] = _integers(4, "For zoom: [x1, y1, x2, y2], the part to show enlarged.")
    width, height = (entry.value(f"display_{side}_px") for side in ("width", "height"))
    size = f" The screen has {width} x {height} pixels." if isinstance(width, int) and isinstance(height, int) else ""
    return "computer", f"Controls mouse and keyboard, and shows the screen.{size}", properties, "action"


# Each gives a name, a description, properties and the names of those that are required.
_MAKERS = {"bash": _bash, "text_editor": _text_editor, "memory": _memory, "computer": _computer}
