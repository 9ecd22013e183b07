"""Tools that a client runs itself and that the API knows by their type: shells, patches, the search for more tools.

For the model each is a function; its call becomes the item that the client waits for, and back. The items are those of
`openai.types.responses`: `LocalShellCall`, `ResponseFunctionShellToolCall`, `ResponseApplyPatchToolCall`,
`ResponseToolSearchCall`.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import msgspec

from .names import Kind

_TEXT = {"type": "string"}
_COUNT = {"type": "integer", "minimum": 0}
_WORDS = {"type": "array", "items": _TEXT}

DESCRIPTIONS: dict[Kind, str] = {
    Kind.LOCAL_SHELL: "Runs one command on the user's machine and returns its output.",
    Kind.SHELL: "Runs shell commands on the user's machine, one after the other, and returns their output.",
    Kind.APPLY_PATCH: "Creates, updates or deletes one file of the user's.",
    Kind.TOOL_SEARCH: "Searches for more tools. Those that are found can be called afterwards.",
}

PARAMETERS: dict[Kind, dict[str, Any]] = {
    Kind.LOCAL_SHELL: {
        "type": "object",
        "properties": {
            "command": {**_WORDS, "description": "The program and its arguments."},
            "working_directory": {**_TEXT, "description": "Where the command runs."},
            "env": {"type": "object", "additionalProperties": _TEXT, "description": "Environment variables to set."},
            "timeout_ms": {**_COUNT, "description": "After how many milliseconds it is stopped."},
        },
        "required": ["command"],
        "additionalProperties": False,
    },
    Kind.SHELL: {
        "type": "object",
        "properties": {
            "commands": {**_WORDS, "description": "The command lines."},
            "timeout_ms": {**_COUNT, "description": "After how many milliseconds they are stopped."},
            "max_output_length": {**_COUNT, "description": "How many characters of output are returned."},
        },
        "required": ["commands"],
        "additionalProperties": False,
    },
    Kind.APPLY_PATCH: {
        "type": "object",
        "properties": {
            "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
            "path": {**_TEXT, "description": "The file."},
            "diff": {
                **_TEXT,
                "description": "The change as a V4A diff: lines that begin with a space stay, with - go, with + come,"
                " below a line @@ that names a place. For a new file all lines begin with +. Not for delete_file.",
            },
        },
        "required": ["type", "path"],
        "additionalProperties": False,
    },
    Kind.TOOL_SEARCH: {
        "type": "object",
        "properties": {"query": {**_TEXT, "description": "What the tools should be able to do."}},
        "required": ["query"],
        "additionalProperties": False,
    },
}


# -- what the model called, as an item -------------------------------------------------------------------------------


def call_fields(kind: Kind, arguments: str) -> dict[str, Any]:
    """The fields that hold what is called, of an item of this kind. Whatever the model wrote fits the item's type."""
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        value = None
    if kind is Kind.TOOL_SEARCH:
        return {"execution": "client", "arguments": value if isinstance(value, dict) else {"query": arguments}}
    given: dict[str, Any] = value if isinstance(value, dict) else {}
    return _MADE[kind](given)


def _local_shell(given: dict[str, Any]) -> dict[str, Any]:
    command = given.get("command")
    words = ["bash", "-lc", command] if isinstance(command, str) else _words(command)
    env = given.get("env")
    action: dict[str, Any] = {
        "type": "exec",
        "command": words,
        "env": {k: v for k, v in env.items() if isinstance(v, str)} if isinstance(env, dict) else {},
    }
    _copy(given, action, "working_directory", str)
    _copy(given, action, "timeout_ms", int)
    return {"action": action}


def _shell(given: dict[str, Any]) -> dict[str, Any]:
    commands = given.get("commands", given.get("command"))
    action: dict[str, Any] = {
        "commands": [commands] if isinstance(commands, str) else _words(commands),
        "max_output_length": None,
        "timeout_ms": None,
    }
    _copy(given, action, "max_output_length", int)
    _copy(given, action, "timeout_ms", int)
    return {"action": action, "environment": {"type": "local"}}


def _apply_patch(given: dict[str, Any]) -> dict[str, Any]:
    kind, path, diff = given.get("type"), given.get("path"), given.get("diff")
    if kind not in ("create_file", "update_file", "delete_file"):
        kind = "update_file"
    operation: dict[str, Any] = {"type": kind, "path": path if isinstance(path, str) else ""}
    if kind != "delete_file":
        operation["diff"] = diff if isinstance(diff, str) else ""
    return {"operation": operation}


_MADE: dict[Kind, Callable[[dict[str, Any]], dict[str, Any]]] = {
    Kind.LOCAL_SHELL: _local_shell,
    Kind.SHELL: _shell,
    Kind.APPLY_PATCH: _apply_patch,
}


def _words(value: Any) -> list[str]:
    return [word for word in value if isinstance(word, str)] if isinstance(value, list) else []


def _copy(given: dict[str, Any], action: dict[str, Any], name: str, kind: type) -> None:
    value = given.get(name)
    if isinstance(value, kind) and not isinstance(value, bool):
        action[name] = value


# -- an item of the history, as the call that the model made ---------------------------------------------------------


def arguments_of(kind: Kind, item: dict[str, Any]) -> Any:
    """The arguments of the call that an item holds: what `call_fields` was given, save its spelling."""
    if kind is Kind.TOOL_SEARCH:
        return item.get("arguments", {})
    if kind is Kind.APPLY_PATCH:
        return _told(item.get("operation"), "type", "path", "diff")
    if kind is Kind.SHELL:
        return _told(item.get("action"), "commands", "timeout_ms", "max_output_length")
    return _told(item.get("action"), "command", "working_directory", "env", "timeout_ms")


def _told(value: Any, *names: str) -> dict[str, Any]:
    given = value if isinstance(value, dict) else {}
    return {name: given[name] for name in names if given.get(name) not in (None, {})}


def shell_text(output: list[Any]) -> str:
    """The output of shell commands as a model reads it."""
    texts: list[str] = []
    for part in output:
        given = part if isinstance(part, dict) else {}
        streams = [text for name in ("stdout", "stderr") if isinstance(text := given.get(name), str) and text]
        match given.get("outcome"):
            case {"type": "exit", "exit_code": int(code)}:
                streams.append(f"(exit code {code})")
            case {"type": "timeout"}:
                streams.append("(stopped: it took too long)")
        texts.append("\n".join(streams) if given else msgspec.json.encode(part).decode())
    return "\n".join(texts)
