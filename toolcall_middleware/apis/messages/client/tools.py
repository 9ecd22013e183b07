"""The tools of a Messages request as functions, and which of them the model is offered.

Deferred tools (`defer_loading`) are offered from the place on where the conversation names them: in the result of a
tool search, or by a `tool_addition`. They stand behind the others, in the order in which they came, so that the prompt
up to them keeps its bytes from turn to turn.
"""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ....errors import ToolCallError, refusal
from ....model import DEFERRED_FIELD, LOADED_FIELD
from ....wire import openai
from ....wire.openai import Fields
from ..mcp import TOOLSET, tools_of_server, tools_of_set
from . import fields as client_fields
from .typed_tools import typed_tool

_log = logging.getLogger("toolcall_middleware")

_NOT_IN_HEADER = re.compile(r"[^A-Za-z0-9_.:-]")
_PLACEHOLDER = "DeferredToolPlaceholder"  # Claude Code's: "never call this tool"
_SEARCH = "tool_search_tool_"


@dataclass(frozen=True, slots=True)
class Declared:
    """A tool that the client runs. path: where it stands. function: `name`, `description`, `parameters`,
    `strict`.
    """

    name: str
    path: str
    function: dict[str, Any]
    deferred: bool


@dataclass(slots=True)
class Toolbox:
    """The tools of a request; what the conversation says of them is told in its order."""

    native: bool = False
    """The upstream speaks this API itself."""
    declared: dict[str, Declared] = field(default_factory=dict)
    dropped: list[str] = field(default_factory=list)
    """Names of hosted tools: only Anthropic's service can run them, so they are left out of the request."""
    foreign: set[str] = field(default_factory=set)
    """Names of tools that a native upstream runs. They are declared, so that what guards tools sees them."""
    unproven: list[str] = field(default_factory=list)
    """Paths of MCP servers of which a native upstream may call any tools."""
    written: set[str] = field(default_factory=set)
    """Names of tools whose definitions the conversation holds."""
    waiting: dict[str, Declared] = field(default_factory=dict)
    """The deferred tools that the conversation has not named so far. They may be called."""
    _offered: dict[str, bool] = field(default_factory=dict)
    _loaded: dict[str, None] = field(default_factory=dict)

    def declare(self, tool: Declared) -> None:
        """One more tool. Raises ToolCallError where its name is taken."""
        if tool.name in self.declared:
            message = f"Tool names must be unique; {client_fields.shown(tool.name)} was declared before."
            raise refusal(f"{tool.path}.name", message, "invalid_tool_schema")
        if self.native:
            tool.function.pop("strict", None)  # Anthropic's API keeps that promise itself
        self.declared[tool.name] = tool
        self._offered[tool.name] = not tool.deferred
        if tool.deferred and tool.name != _PLACEHOLDER:
            self.waiting[tool.name] = tool

    def leave_out(self, name: str, path: str) -> None:
        """A tool that only Anthropic's servers can run: kept where they are the upstream, else left out."""
        if not self.native:
            self.dropped.append(name)
        elif name not in self.foreign:
            self.declare(Declared(name, path, {"name": name, "parameters": {"type": "object"}}, deferred=False))
            self.foreign.add(name)

    def serve(self, name: str, tools: list[str] | None, path: str) -> None:
        """An MCP server, or a set of its tools. tools: those that can be called; None where they may be any."""
        if tools is None or not self.native:
            self.unproven.append(path)
            self.leave_out(name, path)
            return
        for tool in tools:
            if tool not in self.declared:
                self.leave_out(tool, path)

    def load(self, name: str) -> Declared | None:
        """The conversation names a tool from here on; the tool, if it is declared and was not offered until now."""
        tool = self.declared.get(name)
        if tool is None or self._offered[name] or name == _PLACEHOLDER:
            return None
        self._offered[name] = True
        self.waiting.pop(name, None)
        if tool.deferred:
            self._loaded.setdefault(name)
        return tool

    def remove(self, name: str) -> Declared | None:
        """The conversation takes a tool away; the tool, if it was offered until now."""
        if not self._offered.get(name):
            return None
        self._offered[name] = False
        return self.declared[name]

    def load_all(self) -> None:
        """Offer all deferred tools: only Anthropic's servers could run the search that finds them."""
        for name in self.declared:
            self.load(name)

    def is_offered(self, name: str) -> bool:
        """Whether the model may call it after the conversation as it is so far."""
        return self._offered.get(name, False)

    @property
    def unoffered(self) -> list[Declared]:
        """The deferred tools that the conversation has not named so far."""
        return [tool for tool in self.declared.values() if not self._offered[tool.name]]

    @property
    def offered(self) -> list[Declared]:
        """The tools for the model, deferred ones behind the others."""
        first = [tool for tool in self.declared.values() if not tool.deferred]
        loaded = [self.declared[name] for name in self._loaded]
        return [tool for tool in [*first, *loaded] if self._offered[tool.name]]


def read_tools(fields: Fields, *, native: bool = False) -> Toolbox:
    """The request's `tools`. native: see `Toolbox`. Raises ToolCallError for what is no tool."""
    box = Toolbox(native)
    searches = False
    entries = client_fields.items(fields, "tools", "")
    sets = [_values(entry) for entry in entries if openai.read_text(entry.get("type")) == TOOLSET]
    for number, entry in enumerate(entries):
        path = f"tools.{number}"
        tool = read_tool(entry, path)
        if tool is not None:
            box.declare(tool)
            continue
        kind = client_fields.string(entry, "type", path)
        searches = searches or kind.startswith(_SEARCH)
        if kind == TOOLSET:
            box.serve(_name_of(entry, kind), tools_of_set(_values(entry)), path)
        else:
            box.leave_out(_name_of(entry, kind), path)
    for number, server in enumerate(client_fields.items(fields, "mcp_servers", "")):
        path = f"mcp_servers.{number}"
        box.serve(_name_of(server, path), tools_of_server(_values(server), sets), path)
    if searches:
        box.load_all()
    if box.dropped:
        _log.warning("messages: tools that nobody here can run are left out: %s", ", ".join(box.dropped))
    return box


def read_tool(entry: Fields, path: str) -> Declared | None:
    """A tool that the client runs; None for one that Anthropic's servers would run."""
    kind = client_fields.optional_string(entry, "type", path) or "custom"
    deferred = client_fields.boolean(entry, "defer_loading", path)
    if kind != "custom" and (function := typed_tool(kind, entry)) is not None:
        name = client_fields.optional_string(entry, "name", path) or function["name"]
        return Declared(name, path, {**function, "name": name}, deferred)
    if kind != "custom" and not client_fields.is_object(entry.get("input_schema")):
        return None
    name = client_fields.filled_string(entry, "name", path)
    made: dict[str, Any] = {"name": name}
    if client_fields.has(entry, "description"):
        client_fields.string(entry, "description", path)
        made["description"] = entry["description"]
    if "input_schema" not in entry:
        raise refusal(f"{path}.input_schema", "Field required", "invalid_tool_schema")
    if not client_fields.is_object(entry["input_schema"]):
        message = "Input should be a valid object"
        raise refusal(f"{path}.input_schema", message, "invalid_tool_schema")
    made["parameters"] = entry["input_schema"]
    if client_fields.boolean(entry, "strict", path):
        made["strict"] = True
    return Declared(name, path, made, deferred)


def _values(entry: Fields) -> dict[str, Any]:
    return {name: openai.read_value(raw) for name, raw in entry.items()}


def _name_of(entry: Fields, otherwise: str) -> str:
    """The name of a tool that is left out, as a log line and a header may hold it: the client wrote it."""
    for name in ("name", "mcp_server_name"):
        if text := openai.read_text(entry.get(name)):
            return _NOT_IN_HEADER.sub("_", text[:64])
    return _NOT_IN_HEADER.sub("_", otherwise[:64])


def chat_tools(box: Toolbox) -> dict[str, Any]:
    """The tools as fields of a chat completion; those whose definitions the conversation holds say so."""
    made = [_chat_tool(tool, {LOADED_FIELD: True} if tool.name in box.written else {}) for tool in box.offered]
    waiting = [_chat_tool(tool, {}) for tool in box.waiting.values()]
    return {"tools": made, **({DEFERRED_FIELD: waiting} if waiting else {})} if made else {}


def _chat_tool(tool: Declared, more: dict[str, Any]) -> dict[str, Any]:
    return {"type": "function", "function": tool.function, **more}


def chat_choice(fields: Fields, box: Toolbox) -> dict[str, Any]:
    """The request's `tool_choice` as fields of a chat completion (`tool_choice`, `parallel_tool_calls`).

    A tool that the upstream runs is no call for the client: one that is asked for is the upstream's to satisfy.
    Raises ToolCallError where it asks for a tool that is not offered.
    """
    choice = client_fields.inner(fields, "tool_choice", "")
    offered = box.offered
    if choice is None:
        return {}
    kind = client_fields.string(choice, "type", "tool_choice")
    made: dict[str, Any] = {}
    if client_fields.boolean(choice, "disable_parallel_tool_use", "tool_choice"):
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
            name = client_fields.filled_string(choice, "name", "tool_choice")
            if not box.is_offered(name):
                raise _no_tool("tool_choice.name", f"the tool {client_fields.shown(name)} is not offered", box)
            named = {"type": "function", "function": {"name": name}}
            made["tool_choice"] = "auto" if name in box.foreign else named
        case _:
            message = f"Input should be 'auto', 'any', 'tool' or 'none', got {client_fields.shown(kind)}"
            raise refusal("tool_choice.type", message)
    return made if offered else {}


def _no_tool(path: str, message: str, box: Toolbox) -> ToolCallError:
    dropped = (
        f"; {', '.join(box.dropped)} would be run by Anthropic's servers, and nobody here can" if box.dropped else ""
    )
    return refusal(path, f"{message}{dropped}.", "invalid_tool_choice")


def inline_definition(raw: msgspec.Raw | None, path: str) -> Declared | None:
    """The tool in the `definition` of a `tool_addition`. None for a tool that only Anthropic's servers run."""
    entry = openai.read_object(raw)
    if entry is None:
        raise refusal(path, "Input should be a valid object")
    found = read_tool(entry, path)
    return None if found is None else Declared(found.name, path, found.function, deferred=True)
