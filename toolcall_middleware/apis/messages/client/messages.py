"""The conversation of a Messages request as chat messages.

Neighbours of one role are one turn, as in the API. The results in a user's turn become tool messages and come before
its other content: a backend that takes tools requires them right after the calls.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import logging
from dataclasses import dataclass, field
from typing import Any

from ....errors import ToolCallError, refusal, shown
from ....wire import openai
from ....wire.json_input import ANTHROPIC, Reader, let_go, written_arguments
from ...offered_tools import Tool, named_in, write_definitions
from .tools import Toolbox, inline_definition

_log = logging.getLogger("toolcall_middleware")


# -- content blocks that a user, a tool result or a system message holds, as parts of a chat message -------------------


Part = dict[str, Any]
Content = str | list[Part]


def content_blocks(holder: Reader) -> list[Reader]:
    """The blocks of `content`; a string is one text block, absent content none."""
    if holder.begins("content", b'"'):
        text = {"type": openai.raw("text"), "text": holder.fields["content"]}
        return [Reader(text, ANTHROPIC, holder.where("content"))]
    return holder.items("content", "blocks")


def joined(parts: list[Part], between: str) -> Content:
    """Parts as content: one text where they are all text, else the list of them."""
    if all(part["type"] == "text" for part in parts):
        return between.join(part["text"] for part in parts if part["text"])
    return [part for part in parts if part["type"] != "text" or part["text"]]


def text_part(text: str) -> Part:
    """A part that is text."""
    return {"type": "text", "text": text}


def parts_of(block: Reader) -> list[Part]:
    """A block of text, image, document or search result as parts. Raises ToolCallError for any other."""
    match block.required("type"):
        case "text":
            return [text_part(block.required("text"))]
        case "image":
            return [{"type": "image_url", "image_url": {"url": _image(_source(block))}}]
        case "document":
            return _document(block)
        case "search_result":
            texts = [one.required("text") for one in content_blocks(block)]
            lines = [block.text("title"), block.text("source"), *texts]
            return [text_part("\n".join(line for line in lines if line))]
    raise unknown(block)


def unknown(block: Reader) -> Exception:
    """The error for a block whose kind cannot be read where it is."""
    return block.error("type", f"A block of type {shown(block.value('type'))} cannot be given to the model here")


def _source(block: Reader) -> Reader:
    source = block.inner("source")
    if source is None:
        raise block.error("source", ANTHROPIC["missing"])
    return source


def _data_url(source: Reader) -> str:
    return f"data:{source.filled('media_type')};base64,{source.required('data')}"


def _image(source: Reader) -> str:
    match source.required("type"):
        case "base64":
            return _data_url(source)
        case "url":
            return source.filled("url")
    raise _not_here(source)


def _document(block: Reader) -> list[Part]:
    """A document: its text under its title, or a file for a backend that reads such."""
    source, title = _source(block), block.text("title")
    head = "\n".join(text for text in (title, block.text("context")) if text)
    match source.required("type"):
        case "text":
            found = [text_part(source.required("data"))]
        case "content":
            found = [part for inner in content_blocks(source) for part in parts_of(inner)]
        case "base64":
            file = {"filename": title or "document.pdf", "file_data": _data_url(source)}
            found = [{"type": "file", "file": file}]
        case "url":
            # No chat backend fetches documents: the model gets the URL.
            found = [text_part(f"(a document at {source.filled('url')})")]
        case _:
            raise _not_here(source)
    return [text_part(head), *found] if head else found


def _not_here(source: Reader) -> Exception:
    kind = shown(source.value("type"))
    return source.error("type", f"A source of type {kind} cannot be read here; send the content itself, as base64")


_ROLES = ("user", "assistant", "system")
_BLANK_LINE = "\n\n"
_FOREIGN = frozenset({
    "server_tool_use", "mcp_tool_use", "mcp_tool_listing", "container_upload", "fallback", "redacted_thinking",
})  # fmt: skip
"""Blocks of Anthropic's histories that mean nothing to another model, except for calls with results."""


def read_messages(request: Reader, box: Toolbox, system: str) -> Conversation:
    """The request's `messages` after its system text. Changes to the tools are applied to `box`.

    Raises ToolCallError.
    """
    if "messages" not in request.fields:
        raise request.error("messages", ANTHROPIC["missing"])
    conversation = Conversation(box)
    if system:
        conversation.add({"role": "system", "content": system}, "system")
    messages = request.items("messages")
    if not messages:
        raise request.error("messages", "at least one message is required")
    for role, turn in itertools.groupby(messages, _role):
        match role:
            case "user":
                conversation.user([*turn])
            case "assistant":
                conversation.assistant([*turn])
            case _:
                for message in turn:
                    conversation.system(message)
    let_go(messages)
    return conversation


def _role(message: Reader) -> str:
    role = message.required("role")
    if role not in _ROLES:
        raise message.error("role", f"Input should be 'user', 'assistant' or 'system', got {shown(role)}")
    if "content" not in message.fields:
        raise message.error("content", ANTHROPIC["missing"])
    return role


@dataclass(slots=True)
class _Said:
    """The content of an assistant's message so far. between: separates the next text from those before it."""

    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    between: str = ""

    def __bool__(self) -> bool:
        return any(self.texts) or any(self.thoughts) or bool(self.calls)

    def add(self, text: str) -> None:
        self.texts += [self.between, text] if text and self.texts else [text]
        self.between = "" if text else self.between

    def leave_out(self, block: Reader) -> None:
        _leave_out(block)
        self.between = self.between or "\n"

    def message(self, calls: list[dict[str, Any]]) -> dict[str, Any]:
        content = "".join(self.texts)
        made: dict[str, Any] = {"role": "assistant", "content": content if content or not calls else None}
        if any(self.thoughts):
            made["reasoning_content"] = _BLANK_LINE.join(text for text in self.thoughts if text)
        if calls:
            made["tool_calls"] = calls
        return made


class Conversation:
    """Chat messages, the client's path of each, and the ids of the calls among them.

    unreadable: the error for content that no chat completion can hold, if the upstream speaks this API and can read it.
    """

    def __init__(self, box: Toolbox) -> None:
        self._box = box
        self.messages: list[dict[str, Any]] = []
        self.paths: list[str] = []
        self.call_ids: set[str] = set()
        self.unreadable: ToolCallError | None = None

    def add(self, message: dict[str, Any], path: str) -> None:
        """One more chat message."""
        self.messages.append(message)
        self.paths.append(path)

    # -- user ------------------------------------------------------------------------------------------------------

    def user(self, turn: list[Reader]) -> None:
        """Add a turn of the user: its results, then its other content."""
        parts: list[Part] = []
        results = 0
        for message in turn:
            for block in content_blocks(message):
                kind = block.required("type")
                if kind == "tool_result":
                    self._result(block)
                    results += 1
                elif kind.endswith("_tool_result") or kind in _FOREIGN:
                    _leave_out(block)
                else:
                    parts += self._parts(block)
        if parts or not results:
            self.add({"role": "user", "content": joined(parts, _BLANK_LINE)}, turn[0].path)

    def _result(self, block: Reader) -> None:
        call_id = block.filled("tool_use_id")
        if call_id not in self.call_ids:
            message = (
                f"unexpected `tool_use_id` found in `tool_result` blocks: {shown(call_id)}. "
                "Each `tool_result` block must have a corresponding `tool_use` block in an earlier message."
            )
            raise block.error("tool_use_id", message, "invalid_tool_call_id")
        made: dict[str, Any] = {"role": "tool", "tool_call_id": call_id, "content": self._result_content(block)}
        if block.flag("is_error"):
            made["is_error"] = True
        self.add(made, block.path)

    def _result_content(self, block: Reader) -> Content:
        parts: list[Part] = []
        names: list[str] = []
        for inner in content_blocks(block):
            if inner.required("type") == "tool_reference":
                names.append(inner.filled("tool_name"))
            else:
                parts += self._parts(inner)
        names += named_in(parts, self._box.waiting)
        for name in names:
            self._box.load(name)
        loaded = [self._box.declared[name] for name in dict.fromkeys(names) if self._box.is_offered(name)]
        if loaded:
            parts.append(text_part(self._announced(loaded)))
        return joined(parts, "\n")

    def _announced(self, tools: list[Tool]) -> str:
        """The text for the model at the place where tools are loaded: their definitions, which need not be in the front
        of the prompt then. For an upstream of this API their names, because it gets the definitions with its tools.
        """
        if self._box.native:
            return "These tools can be called from now on: " + ", ".join(tool.name for tool in tools)
        return write_definitions(tools)

    # -- assistant -------------------------------------------------------------------------------------------------

    def assistant(self, turn: list[Reader]) -> None:
        """Add a turn of the assistant as one message, or several if it holds results of servers' tools."""
        said = _Said()
        of_servers: dict[str, Reader] = {}
        before = len(self.messages)
        for message in turn:
            said.between = _BLANK_LINE if said.texts else ""
            for block in content_blocks(message):
                kind = block.required("type")
                match kind:
                    case "text":
                        said.add(block.required("text"))
                    case "thinking":
                        said.thoughts.append(read_block(block))
                    case "tool_use":
                        said.calls.append(self._call(block))
                        said.between = said.between or "\n"
                    case "compaction":
                        said.texts += [said.between, block.text("content") or ""]
                    case "tool_result":
                        raise unknown(block)
                    case _ if kind.endswith("_tool_result"):
                        call = of_servers.pop(str(block.value("tool_use_id")), None)
                        text = readable(block.value("content"))
                        if call is not None and text:
                            self._of_server(self._call(call), text, said, turn[0].path)
                            said = _Said(calls=said.calls)
                        else:
                            said.leave_out(block)
                    case _ if kind in _FOREIGN:
                        of_servers[str(block.value("id"))] = block
                        said.leave_out(block)
                    case _:
                        said.texts += [said.between, *self._texts(block)]
        if said or len(self.messages) == before:
            self.add(said.message(said.calls), turn[0].path)

    def _of_server(self, call: dict[str, Any], result: str, said: _Said, path: str) -> None:
        """Add the result of a server's tool as a call and its result, which the model is shown as data."""
        self.add(said.message([call]), path)
        self.add({"role": "tool", "tool_call_id": call["id"], "content": result}, path)

    def _call(self, block: Reader) -> dict[str, Any]:
        call_id, name = block.filled("id"), block.filled("name")
        arguments = written_arguments(block.object("input") or {}, block.where("input"))
        self.call_ids.add(call_id)
        return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}

    # -- system ----------------------------------------------------------------------------------------------------

    def _parts(self, block: Reader) -> list[Part]:
        try:
            return parts_of(block)
        except ToolCallError as error:
            return self._unread(error)

    def _texts(self, block: Reader) -> list[str]:
        parts = self._parts(block)
        if any(part["type"] != "text" for part in parts):
            parts = self._unread(refusal(block.path, "An assistant's message holds text, thinking and calls only"))
        return [part["text"] for part in parts]

    def _unread(self, error: ToolCallError) -> list[Part]:
        """The parts in place of a block that only an upstream of this API may know. Raises `error` for any other."""
        if not self._box.native:
            raise error
        self.unreadable = self.unreadable or error
        return [text_part("(a block that is not read here)")]

    def system(self, message: Reader) -> None:
        """A system message, and the tools that it adds or takes away."""
        parts: list[Part] = []
        for block in content_blocks(message):
            kind = block.required("type")
            match kind:
                case "tool_addition":
                    parts += self._addition(block)
                case "tool_removal":
                    parts += self._removal(block)
                case _ if kind in _FOREIGN:
                    _leave_out(block)
                case _:
                    parts += self._parts(block)
        if parts:
            self.add({"role": "system", "content": joined(parts, _BLANK_LINE)}, message.path)

    def _addition(self, block: Reader) -> list[Part]:
        reference = _reference(block)
        name: Any = reference.value("name")
        if "definition" in reference.fields:
            tool = inline_definition(reference)
            if tool is None:
                return []
            if tool.name not in self._box.declared:
                self._box.declare(tool)
            name = tool.name
        loaded = self._box.load(name) if isinstance(name, str) else None
        return [text_part(self._announced([loaded]))] if loaded is not None else []

    def _removal(self, block: Reader) -> list[Part]:
        name = _reference(block).value("name")
        removed = self._box.remove(name) if isinstance(name, str) else None
        return [] if removed is None else [text_part(f"This tool cannot be called any more: {removed.name}")]


def _reference(block: Reader) -> Reader:
    reference = block.inner("tool")
    if reference is None:
        raise block.error("tool", ANTHROPIC["missing"])
    return reference


def _leave_out(block: Reader) -> None:
    _log.debug("messages: %s of type %s is left out", block.path, shown(block.value("type")))


# -- the readable text in the result of a tool that Anthropic's servers ran -------------------------------------------


_READ = (
    "title", "url", "text", "stdout", "stderr", "lines", "tool_name", "tool_references", "error_code", "data", "source",
    "content",
)  # fmt: skip
"""The members that hold text, or hold what does, of search results, fetched pages, runs of code and MCP's results."""


def readable(content: Any) -> str:
    """The titles, addresses, texts and outputs in the `content` of a `*_tool_result` block; empty where it has none.

    Encrypted content and files have no text.
    """
    lines: list[str] = []
    waiting = [content]
    while waiting:
        match waiting.pop():
            case str(text) if text:
                lines.append(text)
            case list(items):
                waiting += reversed(items)
            case {"type": "base64"}:
                pass
            case dict(part):
                if part.get("return_code"):
                    waiting.append(f"(exit code {part['return_code']})")
                waiting += [part[name] for name in reversed(_READ) if name in part]
    return "\n".join(lines)


# -- thoughts as Messages has them: a block with a signature, which comes back in the next request ---------------------
# Nothing is remembered here. A client that asked for `display: omitted` gets the block without its text, as from the
# API, and the signature carries the text, so that a family whose template wants its thoughts back can have them.


MARK = "toolcall-v1."
"""What a signature of this package begins with."""
MOST_CARRIED = 1 << 20
"""Bytes of thoughts that one signature carries. The client sends them again in each request."""


@dataclass(frozen=True, slots=True)
class Thinking:
    """How the client wants thoughts. wanted: as blocks. omitted: the text of the blocks is empty."""

    wanted: bool = False
    omitted: bool = False


def read_thinking(request: Reader) -> Thinking:
    """The request's `thinking`. Kinds that are not known yet ask for it: only `disabled` and none at all do not."""
    config = request.inner("thinking")
    if config is None:
        return Thinking()
    return Thinking(wanted=config.required("type") != "disabled", omitted=config.value("display") == "omitted")


def write_signature(text: str | None) -> str:
    """A signature that `read_signature` knows again. `text`: what it carries, where the block does not show it."""
    if not text:
        return MARK
    data = text.encode("utf-8", "replace")
    return MARK + base64.b64encode(data).decode("ascii") if len(data) <= MOST_CARRIED else MARK


def read_signature(signature: str) -> str:
    """The text that a signature of ours carries; empty where it carries none, or is another's."""
    if not signature.startswith(MARK):
        return ""
    try:
        return base64.b64decode(signature[len(MARK) :], validate=True).decode("utf-8", "replace")
    except (binascii.Error, ValueError):
        return ""


def read_block(block: Reader) -> str:
    """The text of a `thinking` block of the history. Empty if neither the block nor its signature has one."""
    text, signature = block.value("thinking"), block.value("signature")
    if isinstance(text, str) and text:
        return text
    return read_signature(signature) if isinstance(signature, str) else ""
