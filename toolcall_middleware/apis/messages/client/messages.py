"""The conversation of a Messages request as chat messages.

Neighbours of one role are one turn, as in the API. The results in a user's turn become tool messages and come before
what else it says: a backend that takes tools wants them right behind the calls.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import Any

from ....errors import ToolCallError, refusal, shown
from ....wire import openai
from ....wire.json_input import decode, written_arguments
from ....wire.openai import Fields
from ...deferred_tools import definitions, named_in
from . import fields as client_fields
from . import tools as client_tools
from .content import Content, Part, content_blocks, joined, parts_of, text_part, unknown
from .server_results import readable
from .thinking import read_block
from .tools import Declared, Toolbox

_log = logging.getLogger("toolcall_middleware")

_ROLES = ("user", "assistant", "system")
_BLANK_LINE = "\n\n"
_FOREIGN = frozenset({
    "server_tool_use", "mcp_tool_use", "mcp_tool_listing", "container_upload", "fallback", "redacted_thinking",
})  # fmt: skip
"""Blocks of histories that began at Anthropic, and that say nothing to another model, but for calls with results."""


@dataclass(slots=True)
class Conversation:
    """Chat messages, the client's path of each, and the ids of the calls among them.

    unreadable: what no chat completion can hold, where the upstream speaks this API itself and can read it.
    """

    messages: list[dict[str, Any]] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    call_ids: set[str] = field(default_factory=set)
    unreadable: ToolCallError | None = None

    def add(self, message: dict[str, Any], path: str) -> None:
        self.messages.append(message)
        self.paths.append(path)


def read_messages(fields: Fields, box: Toolbox, system: str, *, inline: bool) -> Conversation:
    """The request's `messages` behind its system text. What they say of tools is told to `box`.

    inline: definitions of tools are written where they are loaded. Raises ToolCallError.
    """
    if "messages" not in fields:
        raise refusal("messages", "Field required")
    messages = client_fields.items(fields, "messages", "")
    if not messages:
        raise refusal("messages", "at least one message is required")
    conversation = Conversation()
    if system:
        conversation.add({"role": "system", "content": system}, "system")
    reader = _Reader(conversation, box, inline=inline)
    at = 0
    while at < len(messages):
        role = _role(messages[at], f"messages.{at}")
        turn = [(messages[at], f"messages.{at}")]
        at += 1
        while role != "system" and at < len(messages) and _role(messages[at], f"messages.{at}") == role:
            turn.append((messages[at], f"messages.{at}"))
            at += 1
        reader.read(role, turn)
    return conversation


def _role(message: Fields, path: str) -> str:
    role = client_fields.string(message, "role", path)
    if role not in _ROLES:
        text = f"Input should be 'user', 'assistant' or 'system', got {client_fields.shown(role)}"
        raise refusal(f"{path}.role", text)
    if "content" not in message:
        raise refusal(f"{path}.content", "Field required")
    return role


@dataclass(slots=True)
class _Said:
    """What an assistant's message says so far. between: what separates the next text from those before it."""

    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    between: str = ""

    def __bool__(self) -> bool:
        return any(self.texts) or any(self.thoughts) or bool(self.calls)

    def add(self, text: str) -> None:
        self.texts += [self.between, text] if text and self.texts else [text]
        self.between = "" if text else self.between

    def leave_out(self, kind: str, path: str) -> None:
        _leave_out(kind, path)
        self.between = self.between or "\n"

    def message(self, calls: list[dict[str, Any]]) -> dict[str, Any]:
        content = "".join(self.texts)
        made: dict[str, Any] = {"role": "assistant", "content": content if content or not calls else None}
        if any(self.thoughts):
            made["reasoning_content"] = _BLANK_LINE.join(text for text in self.thoughts if text)
        if calls:
            made["tool_calls"] = calls
        return made


class _Reader:
    """Reads turn after turn into a conversation."""

    def __init__(self, conversation: Conversation, box: Toolbox, *, inline: bool) -> None:
        self._conversation = conversation
        self._box = box
        self._inline = inline

    def read(self, role: str, turn: list[tuple[Fields, str]]) -> None:
        match role:
            case "user":
                self._user(turn)
            case "assistant":
                self._assistant(turn)
            case _:
                self._system(turn)

    # -- user ------------------------------------------------------------------------------------------------------

    def _user(self, turn: list[tuple[Fields, str]]) -> None:
        parts: list[Part] = []
        results = 0
        for message, path in turn:
            for block, where in content_blocks(message, path):
                kind = client_fields.string(block, "type", where)
                if kind == "tool_result":
                    self._result(block, where)
                    results += 1
                elif kind.endswith("_tool_result") or kind in _FOREIGN:
                    _leave_out(kind, where)
                else:
                    parts += self._parts(block, kind, where)
        if parts or not results:
            self._conversation.add({"role": "user", "content": joined(parts, _BLANK_LINE)}, turn[0][1])

    def _result(self, block: Fields, path: str) -> None:
        call_id = client_fields.filled_string(block, "tool_use_id", path)
        if call_id not in self._conversation.call_ids:
            message = (
                f"unexpected `tool_use_id` found in `tool_result` blocks: {client_fields.shown(call_id)}. "
                "Each `tool_result` block must have a corresponding `tool_use` block in an earlier message."
            )
            raise refusal(f"{path}.tool_use_id", message, "invalid_tool_call_id")
        made: dict[str, Any] = {"role": "tool", "tool_call_id": call_id, "content": self._result_content(block, path)}
        if client_fields.boolean(block, "is_error", path):
            made["is_error"] = True
        self._conversation.add(made, path)

    def _result_content(self, block: Fields, path: str) -> Content:
        parts: list[Part] = []
        names: list[str] = []
        for inner, where in content_blocks(block, path):
            kind = client_fields.string(inner, "type", where)
            if kind == "tool_reference":
                names.append(client_fields.filled_string(inner, "tool_name", where))
            else:
                parts += self._parts(inner, kind, where)
        if waiting := self._box.waiting:
            names += named_in(parts, waiting)
        for name in names:
            self._box.load(name)
        loaded = [self._box.declared[name] for name in dict.fromkeys(names) if self._box.is_offered(name)]
        if loaded:
            parts.append(text_part(self._announced(loaded)))
        return joined(parts, "\n")

    def _announced(self, tools: list[Declared]) -> str:
        """What the model reads where tools are loaded."""
        if self._inline:
            self._box.written.update(tool.name for tool in tools)
            return definitions(tool.function for tool in tools)
        return "These tools can be called from now on: " + ", ".join(tool.name for tool in tools)

    # -- assistant -------------------------------------------------------------------------------------------------

    def _assistant(self, turn: list[tuple[Fields, str]]) -> None:
        said = _Said()
        of_servers: dict[str, tuple[Fields, str]] = {}
        before = len(self._conversation.messages)
        for message, path in turn:
            said.between = _BLANK_LINE if said.texts else ""
            for block, where in content_blocks(message, path):
                kind = client_fields.string(block, "type", where)
                match kind:
                    case "text":
                        said.add(client_fields.string(block, "text", where))
                    case "thinking":
                        said.thoughts.append(read_block(block))
                    case "tool_use":
                        said.calls.append(self._call(block, where))
                        said.between = said.between or "\n"
                    case "compaction":
                        said.texts += [said.between, client_fields.optional_string(block, "content", where)]
                    case "tool_result":
                        raise unknown(kind, where)
                    case _ if kind.endswith("_tool_result"):
                        call = of_servers.pop(openai.read_text(block.get("tool_use_id")) or "", None)
                        text = readable(client_fields.value(block, "content"))
                        if call is not None and text:
                            self._of_server(self._call(*call), text, said, turn[0][1])
                            said = _Said(calls=said.calls)
                        else:
                            said.leave_out(kind, where)
                    case _ if kind in _FOREIGN:
                        of_servers[openai.read_text(block.get("id")) or ""] = block, where
                        said.leave_out(kind, where)
                    case _:
                        said.texts += [said.between, *self._texts(block, kind, where)]
        if said or len(self._conversation.messages) == before:
            self._conversation.add(said.message(said.calls), turn[0][1])

    def _of_server(self, call: dict[str, Any], result: str, said: _Said, path: str) -> None:
        """What a server's tool gave, as a call and its result: these are shown to the model as data."""
        self._conversation.add(said.message([call]), path)
        self._conversation.add({"role": "tool", "tool_call_id": call["id"], "content": result}, path)

    def _call(self, block: Fields, path: str) -> dict[str, Any]:
        call_id = client_fields.filled_string(block, "id", path)
        name = client_fields.filled_string(block, "name", path)
        arguments = "{}"
        if client_fields.has(block, "input"):
            if not client_fields.is_object(block["input"]):
                raise refusal(f"{path}.input", "Input should be a valid object")
            arguments = written_arguments(decode(block["input"], f"{path}.input"), f"{path}.input")
        self._conversation.call_ids.add(call_id)
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}

    # -- system ----------------------------------------------------------------------------------------------------

    def _parts(self, block: Fields, kind: str, path: str) -> list[Part]:
        try:
            return parts_of(block, kind, path)
        except ToolCallError as error:
            return self._unread(error)

    def _texts(self, block: Fields, kind: str, path: str) -> list[str]:
        try:
            return _texts_of(parts_of(block, kind, path), path)
        except ToolCallError as error:
            return [part["text"] for part in self._unread(error)]

    def _unread(self, error: ToolCallError) -> list[Part]:
        """What stands for a block that is not known here, but may be to an upstream of this API."""
        if not self._box.native:
            raise error
        self._conversation.unreadable = self._conversation.unreadable or error
        return [text_part("(a block that is not read here)")]

    def _system(self, turn: list[tuple[Fields, str]]) -> None:
        parts: list[Part] = []
        for message, path in turn:
            for block, where in content_blocks(message, path):
                kind = client_fields.string(block, "type", where)
                match kind:
                    case "tool_addition":
                        parts += self._addition(block, where)
                    case "tool_removal":
                        parts += self._removal(block, where)
                    case _ if kind in _FOREIGN:
                        _leave_out(kind, where)
                    case _:
                        parts += self._parts(block, kind, where)
        if parts:
            self._conversation.add({"role": "system", "content": joined(parts, _BLANK_LINE)}, turn[0][1])

    def _addition(self, block: Fields, path: str) -> list[Part]:
        reference = _reference(block, path)
        if "definition" in reference:
            tool = client_tools.inline_definition(reference["definition"], f"{path}.tool.definition")
            if tool is None:
                return []
            if tool.name not in self._box.declared:
                self._box.declare(tool)
            name = tool.name
        else:
            name = openai.read_text(reference.get("name")) or ""
        loaded = self._box.load(name)
        return [text_part(self._announced([loaded]))] if loaded is not None else []

    def _removal(self, block: Fields, path: str) -> list[Part]:
        removed = self._box.remove(openai.read_text(_reference(block, path).get("name")) or "")
        return [] if removed is None else [text_part(f"This tool cannot be called any more: {removed.name}")]


def _reference(block: Fields, path: str) -> Fields:
    reference = client_fields.inner(block, "tool", path)
    if reference is None:
        raise refusal(f"{path}.tool", "Field required")
    return reference


def _texts_of(parts: list[Part], path: str) -> list[str]:
    if any(part["type"] != "text" for part in parts):
        raise refusal(path, "An assistant's message holds text, thinking and calls only")
    return [part["text"] for part in parts]


def _leave_out(kind: str, path: str) -> None:
    _log.debug("messages: %s of type %s is left out", path, shown(kind))
