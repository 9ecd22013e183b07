"""The tools of a Responses request, offered to the model as functions.

Functions and custom tools stay what they are, also inside a namespace and where the input brings them
(`additional_tools`, `tool_search_output`). Tools that the client runs and the API knows by type become functions, too.
Tools that only OpenAI's servers can run are dropped, and the answer's header names them.
"""

from __future__ import annotations

import enum
import hashlib
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from ...errors import ToolCallError, kind, refusal, shown
from ...json_schema.pattern import text_pattern
from ...wire.json_input import Reader
from ..offered_tools import OfferedTools, Schema, Tool, field_schema, object_schema

# -- what the model calls a tool, and what the client calls it ---------------------------------------------------------
# Chat completions have one list of names, Responses have namespaces and tools without a name. A name inside a namespace
# is offered as `NAMESPACE__NAME`, in the characters and the length that every engine takes. It depends only on the
# tools that are offered, in their order, so that it is the same at each turn.


MAX_NAME = 64
_OTHER = re.compile(r"[^a-zA-Z0-9_-]")
_DIGEST = 8


class Kind(enum.Enum):
    """How a tool takes its input and what its calls are."""

    FUNCTION = "function"
    CUSTOM = "custom"
    LOCAL_SHELL = "local_shell"
    SHELL = "shell"
    APPLY_PATCH = "apply_patch"
    TOOL_SEARCH = "tool_search"

    @property
    def has_names(self) -> bool:
        """Whether the client names its tools of this kind."""
        return self in (Kind.FUNCTION, Kind.CUSTOM)

    @property
    def item_type(self) -> str:
        """The type of the items of its calls."""
        return "custom_tool_call" if self is Kind.CUSTOM else f"{self.value}_call"


_NAMED = ("function", "custom")
_LOCAL = {kind.value: kind for kind in Kind if not kind.has_names}


@dataclass(frozen=True, slots=True)
class ClientTool:
    """A tool as the client knows it. Kinds other than functions and custom tools have no name of their own there."""

    kind: Kind
    name: str
    namespace: str | None = None

    @property
    def is_plain(self) -> bool:
        """Whether the client's name is the model's name, too."""
        return self.namespace is None and self.kind.has_names

    @property
    def key(self) -> tuple[str | None, str, bool]:
        """Equal for equal tools. Functions and custom tools share their names."""
        return self.namespace, self.name, self.kind.has_names


class ClientTools(OfferedTools):
    """The tools of a Responses request. by_name: the client's tool for each name that the model uses."""

    def __init__(self) -> None:
        super().__init__()
        self.by_name: dict[str, ClientTool] = {}
        self._names: dict[tuple[str | None, str, bool], str] = {}

    def add_name(self, tool: ClientTool) -> str:
        """The name for a tool of the request. A plain function or custom tool keeps its own, also where it is taken:
        two tools of one name are an error that the tools' own check finds.
        """
        found = self._names.get(tool.key)
        if found is None:
            found = self._names[tool.key] = self._new_name(tool)
            self.by_name.setdefault(found, tool)
        return found

    def name_of(self, kind: Kind, name: str, namespace: str | None = None) -> str:
        """The name for a call in the history, whose tool may not be offered any more."""
        if namespace == name and (None, name, True) in self._names:
            namespace = None  # a function that was loaded by itself may have its own name as namespace
        tool = ClientTool(kind, name, namespace)
        return self._names.get(tool.key) or self._new_name(tool)

    def _new_name(self, tool: ClientTool) -> str:
        if tool.is_plain:
            return tool.name
        name = tool.name
        if tool.namespace is not None:
            name = _OTHER.sub("_", f"{tool.namespace.rstrip('_') or tool.namespace}__{name}")
        if len(name) > MAX_NAME or name in self.by_name:
            mark = hashlib.sha256(f"{tool.kind.value}\0{tool.namespace}\0{tool.name}".encode()).hexdigest()[:_DIGEST]
            name = f"{name[: MAX_NAME - _DIGEST - 1]}_{mark}"
        return name


# -- tools that a client runs itself and that the API knows by their type: shells, patches, the search for more tools --
# For the model each is a function; its call becomes the item that the client waits for, and back. The items are those
# of `openai.types.responses`: `LocalShellCall`, `ResponseFunctionShellToolCall`, `ResponseApplyPatchToolCall`,
# `ResponseToolSearchCall`.


_TEXT = {"type": "string"}

DESCRIPTIONS: dict[Kind, str] = {
    Kind.LOCAL_SHELL: "Runs one command on the user's machine and returns its output.",
    Kind.SHELL: "Runs shell commands on the user's machine, one after the other, and returns their output.",
    Kind.APPLY_PATCH: "Creates, updates or deletes one file of the user's.",
    Kind.TOOL_SEARCH: "Searches for more tools. Those that are found can be called afterwards.",
}


def _count(description: str) -> Schema:
    return field_schema(description, "integer", minimum=0)


_CLOSED = {"additionalProperties": False}
PARAMETERS: dict[Kind, Schema] = {
    Kind.LOCAL_SHELL: object_schema({
        "command": field_schema("The program and its arguments.", "array", items=_TEXT),
        "working_directory": field_schema("Where the command runs."),
        "env": field_schema("Environment variables to set.", "object", additionalProperties=_TEXT),
        "timeout_ms": _count("After how many milliseconds it is stopped."),
    }, "command", **_CLOSED),
    Kind.SHELL: object_schema({
        "commands": field_schema("The command lines.", "array", items=_TEXT),
        "timeout_ms": _count("After how many milliseconds they are stopped."),
        "max_output_length": _count("How many characters of output are returned."),
    }, "commands", **_CLOSED),
    Kind.APPLY_PATCH: object_schema({
        "type": {"type": "string", "enum": ["create_file", "update_file", "delete_file"]},
        "path": field_schema("The file."),
        "diff": field_schema(
            "The change as a V4A diff: lines that begin with a space stay, with - go, with + come,"
            " below a line @@ that names a place. For a new file all lines begin with +. Not for delete_file."
        ),
    }, "type", "path", **_CLOSED),
    Kind.TOOL_SEARCH: object_schema(
        {"query": field_schema("What the tools should be able to do.")}, "query", **_CLOSED
    ),
}  # fmt: skip


# -- what the model called, as an item -------------------------------------------------------------------------------


def call_fields(kind: Kind, arguments: str) -> dict[str, Any]:
    """The fields of an item of this kind that hold the call's input. They fit the item's type for any arguments."""
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
    """The arguments of the call that an item holds: the input of `call_fields`, except for its spelling."""
    if kind is Kind.TOOL_SEARCH:
        return item.get("arguments", {})
    value = item.get("operation" if kind is Kind.APPLY_PATCH else "action")
    given = value if isinstance(value, dict) else {}
    return {name: given[name] for name in PARAMETERS[kind]["properties"] if given.get(name) not in (None, {})}


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


# -- the tools of a request --------------------------------------------------------------------------------------------


FIELD = "input"
"""The parameter of the function that a custom tool is for the model."""
_NOT_IN_HEADER = re.compile(r"[^a-zA-Z0-9_.-]")
_MAX_DROPPED_NAME = 64

# Sentences such as "This is a FREEFORM tool, so do not wrap the patch in JSON.": the model writes JSON here.
_SENTENCE = re.compile(r"[^\n]+?(?:[.!?](?=\s)|$)[^\S\n]*", re.MULTILINE)
_ON_JSON = re.compile(r"\bjson\b", re.IGNORECASE)
_NEGATION = re.compile(r"\b(?:not|never|no|without|avoid)\b|n't\b", re.IGNORECASE)

_Listed = Iterator[tuple[ClientTool, Tool]]
"""Tools whose names for the model are not known yet. `written`: a search has found it, and gave its definition."""


def read_tools(request: Reader, items: list[Reader]) -> ClientTools:
    """The request's `tools`, and those that items of its input bring. Raises ToolCallError for what is no tool."""
    tools, dropped = ClientTools(), dict[str, None]()
    listed = [*_listed(request.items("tools"), dropped)]
    for item in items:
        if "tools" in item.fields and (variant := item.value("type")) in ("additional_tools", "tool_search_output"):
            listed += _listed(item.items("tools"), dropped, loaded=variant == "tool_search_output")
    tools.dropped += dropped
    # A deferred tool is loaded by a search that the client runs. Without such a search it is offered at once.
    searched = any(known.kind is Kind.TOOL_SEARCH for known, _ in listed)
    at_hand = {(known.namespace, known.name) for known, tool in listed if not tool.deferred}
    listed = [one for one in listed if not one[1].deferred or (one[0].namespace, one[0].name) not in at_hand]
    listed.sort(key=lambda one: searched and one[1].deferred)
    # Names that the client chose come first: a generated name must not take one of them.
    for known, _ in listed:
        if known.is_plain:
            tools.add_name(known)
    seen: set[tuple[str | None, str]] = set()
    for known, tool in listed:
        if tool.path.startswith("input[") and (known.namespace, known.name) in seen:
            continue  # found once more, or loaded what was offered from the start
        seen.add((known.namespace, known.name))
        tool.name, tool.deferred = tools.add_name(known), searched and tool.deferred
        if tool.deferred:
            tools.waiting[tool.name] = tool
        else:
            tools.shown.append(tool)
    return tools


def _listed(
    tools: list[Reader], dropped: dict[str, None], *, namespace: str | None = None, loaded: bool = False
) -> _Listed:
    """The tools of one list. loaded: a search has found them, so they are no longer deferred."""
    for tool in tools:
        variant = tool.text("type")
        match variant:
            case None:
                raise tool.error("type", "A tool needs a type.")
            case "function" | "custom":
                function = _function(tool) if variant == "function" else _custom(tool)
                deferred = tool.value("defer_loading") is True and not loaded
                known = ClientTool(Kind(variant), _name(tool), namespace)
                yield known, Tool("", tool.path, function, deferred, written=loaded)
            case "namespace":
                if namespace is not None:
                    raise tool.error("type", "A namespace holds functions and custom tools, no namespaces.")
                if tool.given("tools") is None:
                    raise tool.error("tools", "A namespace needs 'tools', an array of tools.")
                yield from _listed(tool.items("tools"), dropped, namespace=_name(tool), loaded=loaded)
            case _ if _is_local(variant, tool):
                own = Kind(variant)
                local: dict[str, Any] = {"description": DESCRIPTIONS[own], "parameters": PARAMETERS[own]}
                if own is Kind.TOOL_SEARCH:  # its client describes it
                    local |= _spelled(tool, "description", "parameters")
                yield ClientTool(own, own.value), Tool("", tool.path, local)
            case _:
                dropped.setdefault(_NOT_IN_HEADER.sub("_", variant)[:_MAX_DROPPED_NAME] or "unknown")


def _function(tool: Reader) -> dict[str, Any]:
    tool.text("description")
    # These are passed on unchanged. Their faults are found where all tools are checked.
    return _spelled(tool, "description", "parameters", "strict")


def _spelled(tool: Reader, *names: str) -> dict[str, Any]:
    return {name: raw for name in names if (raw := tool.given(name)) is not None}


def _name(tool: Reader) -> str:
    name = tool.text("name")
    if not name:
        raise tool.error("name", f"A tool needs a name, a string that is not empty; got {shown(name)}.")
    return name


def _is_local(variant: str, tool: Reader) -> bool:
    """Whether the client runs a tool that the API knows by its type."""
    match variant:
        case "tool_search":
            return bool(tool.value("execution") == "client")
        case "shell":  # in the client's own environment, or in none that is named: others are containers of OpenAI
            environment = tool.value("environment")
            return environment is None or (isinstance(environment, dict) and environment.get("type") == "local")
    return variant in _LOCAL


def _custom(tool: Reader) -> dict[str, Any]:
    """A function of one string, which is the tool's free text. Its grammar is in the string's description, and its
    pattern where it is a plain regular expression.
    """
    more: Schema = {}
    described = tool.text("description")
    match tool.value("format"):
        case None | {"type": "text"}:
            about = "The input of the tool, as plain text."
        case {"type": "grammar", "definition": str(definition), "syntax": ("lark" | "regex") as syntax}:
            about = f"The input of the tool, as text that fits this {syntax} grammar:\n{definition}"
            if syntax == "regex" and (pattern := text_pattern(definition)):
                more["pattern"] = pattern
        case _:
            message = "A custom tool's format must be {'type': 'text'} or a grammar with its definition and syntax."
            raise tool.error("format", message)
    function: dict[str, Any] = {}
    if described and (kept := without_words_on_json(described)):
        function["description"] = kept
    properties = {FIELD: field_schema(about, **more)}
    return {**function, "parameters": object_schema(properties, FIELD, **_CLOSED)}


def without_words_on_json(description: str) -> str:
    """The description without the sentences that forbid JSON."""
    if _ON_JSON.search(description) is None:
        return description
    return _SENTENCE.sub(lambda match: "" if _forbids_json(match[0]) else match[0], description).strip()


def _forbids_json(sentence: str) -> bool:
    return _ON_JSON.search(sentence) is not None and _NEGATION.search(sentence) is not None


def no_such_tool(message: str) -> ToolCallError:
    """The error for a `tool_choice` that cannot be satisfied."""
    return refusal("tool_choice", message, "invalid_tool_choice")


# -- `tool_choice` of a Responses request as a chat completion has it, against the tools that are offered --------------


def chat_choice(value: Any, offered: ClientTools) -> Any:
    """The `tool_choice` for the chat completion; None where it has none.

    Raises ToolCallError for a tool that is not offered, and where a call must come and nothing can be called.
    """
    match value:
        case None | "auto":
            return "auto" if value is not None and offered.shown else None
        case "none":
            return "none" if offered.shown else None
        case "required":
            if not offered.shown:
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


def _allowed(value: dict[str, Any], offered: ClientTools) -> Any:
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
        return "none" if offered.shown else None
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


def _offered_names(entry: dict[str, Any], offered: ClientTools, param: str = "tool_choice") -> list[str]:
    """The names of the offered tools that an entry means: one, all of a namespace, or none."""
    variant, name = entry.get("type"), entry.get("name")
    if not isinstance(variant, str):
        raise refusal(f"{param}.type", f"'{param}' needs a type, a string; got {kind(variant)}.")
    by_name = offered.by_name
    if variant in _LOCAL:
        tool = ClientTool(_LOCAL[variant], variant)
        return [found for found, known in by_name.items() if known == tool]
    if variant == "namespace" and isinstance(name, str):
        return [tool.name for tool in offered.shown if not tool.deferred and by_name[tool.name].namespace == name]
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
        for found, tool in by_name.items()
        if tool.kind.has_names and tool.name == name and (tool.namespace == space if space is not None else True)
    ]
    # A name may occur in several namespaces, and outside of them.
    plain = [found for found in meant if by_name[found].namespace is None]
    if plain or len(meant) == 1:
        return plain or meant
    return [name] if name in by_name and by_name[name].kind.has_names else []


def _missing(entry: dict[str, Any], offered: ClientTools) -> str:
    named = entry.get("name") if entry.get("type") in _NAMED else entry.get("type")
    if entry.get("type") in _NAMED or entry.get("type") in _LOCAL:
        return f"The tool {shown(named)} is not in 'tools'{_left_out(offered)}."
    return f"The tool {shown(named)} runs on OpenAI's servers and cannot be called here."


def _left_out(offered: ClientTools) -> str:
    return f" ({', '.join(offered.dropped)} cannot be run here)" if offered.dropped else ""
