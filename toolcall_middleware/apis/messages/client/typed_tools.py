"""Tools that Anthropic defines and the client runs: a request names their type, the model knows their schema.

A local model does not, so they are offered as functions. The parameters are those of Anthropic's pages
  https://platform.claude.com/docs/en/agents-and-tools/tool-use/bash-tool (text-editor-tool, memory-tool,
  computer-use-tool), and of the SDK's types `BetaMemoryTool20250818Command`.
The descriptions are ours.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from ....wire.json_reader import Reader

_TYPE = re.compile(r"(bash|text_editor|memory|computer)_(\d{8})")
Schema = dict[str, Any]


def typed_tool(kind: str, entry: Reader) -> dict[str, Any] | None:
    """The function (`name`, `description`, `parameters`) that a tool of this type is; None of any other type.

    A version that is newer than those known here is read as the newest.
    """
    found = _TYPE.fullmatch(kind)
    if found is None:
        return None
    name, description, parameters = _MAKERS[found[1]](found[2], entry)
    return {"name": name, "description": description, "parameters": parameters}


def _object(properties: Schema, *required: str) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required)}


def _text(description: str) -> Schema:
    return {"type": "string", "description": description}


def _integer(description: str) -> Schema:
    return {"type": "integer", "description": description}


_LINES = {
    "type": "array",
    "items": {"type": "integer"},
    "minItems": 2,
    "maxItems": 2,
    "description": "For view: the first and the last line to show, counted from 1; -1 is the end of the file.",
}


def _bash(_version: str, _entry: Reader) -> tuple[str, str, Schema]:
    properties = {
        "command": _text("The command to run. Required unless the shell is restarted."),
        "restart": {"type": "boolean", "description": "True restarts the shell."},
    }
    return "bash", "Runs commands in a shell that stays open between calls.", _object(properties)


def _text_editor(version: str, _entry: Reader) -> tuple[str, str, Schema]:
    undo = version < "20250429"
    commands = ["view", "create", "str_replace", "insert", *(["undo_edit"] if undo else [])]
    # The page names `new_str` for the text of an insertion up to 20250429, and `insert_text` from 20250728 on.
    inserted = "insert_text" if version >= "20250728" else "new_str"
    properties: Schema = {
        "command": {"type": "string", "enum": commands, "description": "What to do."},
        "path": _text("The file, or for view also the directory."),
        "file_text": _text("For create: the content of the new file."),
        "old_str": _text("For str_replace: the text to replace; it must match exactly and stand in the file once."),
        "new_str": _text("For str_replace: the text to put in its place."),
        "insert_line": _integer("For insert: the line after which the text goes; 0 is the beginning of the file."),
        "view_range": _LINES,
    }
    if inserted == "insert_text":
        properties["insert_text"] = _text("For insert: the text to insert.")
    else:
        properties["new_str"] = _text("For str_replace: the text to put in its place. For insert: the text to insert.")
    name = "str_replace_based_edit_tool" if version >= "20250429" else "str_replace_editor"
    return name, "Views, creates and edits text files.", _object(properties, "command", "path")


def _memory(_version: str, _entry: Reader) -> tuple[str, str, Schema]:
    commands = ["view", "create", "str_replace", "insert", "delete", "rename"]
    properties = {
        "command": {"type": "string", "enum": commands, "description": "What to do."},
        "path": _text("The file or directory under /memories; not for rename."),
        "view_range": _LINES,
        "file_text": _text("For create: the content of the file."),
        "old_str": _text("For str_replace: the text to replace."),
        "new_str": _text("For str_replace: the text to put in its place."),
        "insert_line": _integer("For insert: the line at which the text goes."),
        "insert_text": _text("For insert: the text to insert."),
        "old_path": _text("For rename: the present path."),
        "new_path": _text("For rename: the new path."),
    }
    return "memory", "Reads and writes files that last beyond this conversation.", _object(properties, "command")


_ACTIONS_2024 = (
    "key", "type", "mouse_move", "left_click", "left_click_drag", "right_click", "middle_click", "double_click",
    "screenshot", "cursor_position",
)  # fmt: skip
_ACTIONS_2025 = (
    *_ACTIONS_2024, "left_mouse_down", "left_mouse_up", "scroll", "hold_key", "wait", "triple_click",
)  # fmt: skip


def _point(description: str) -> Schema:
    return {
        "type": "array",
        "items": {"type": "integer"},
        "minItems": 2,
        "maxItems": 2,
        "description": description,
    }


def _computer(version: str, entry: Reader) -> tuple[str, str, Schema]:
    zoom = version >= "20251124" and entry.value("enable_zoom") is True
    actions = _ACTIONS_2024 if version < "20250124" else _ACTIONS_2025
    properties: Schema = {
        "action": {"type": "string", "enum": [*actions, *(["zoom"] if zoom else [])], "description": "What to do."},
        "coordinate": _point("[x, y] in pixels from the left and the top, for actions of the mouse."),
        "text": _text("For type: the text. For key and hold_key: the key or combination, such as ctrl+s."),
    }
    if version >= "20250124":
        directions = ["up", "down", "left", "right"]
        properties |= {
            "start_coordinate": _point("For left_click_drag: [x, y] where it begins."),
            "scroll_direction": {"type": "string", "enum": directions, "description": "For scroll: where to."},
            "scroll_amount": _integer("For scroll: how many clicks of the wheel."),
            "duration": {"type": "number", "description": "For wait and hold_key: seconds."},
        }
    if zoom:
        region = {"type": "array", "items": {"type": "integer"}, "minItems": 4, "maxItems": 4}
        properties["region"] = {**region, "description": "For zoom: [x1, y1, x2, y2], the part to show enlarged."}
    width, height = (entry.value(f"display_{side}_px") for side in ("width", "height"))
    size = f" The screen has {width} x {height} pixels." if isinstance(width, int) and isinstance(height, int) else ""
    return "computer", f"Controls mouse and keyboard, and shows the screen.{size}", _object(properties, "action")


_MAKERS: dict[str, Callable[[str, Reader], tuple[str, str, Schema]]] = {
    "bash": _bash,
    "text_editor": _text_editor,
    "memory": _memory,
    "computer": _computer,
}
