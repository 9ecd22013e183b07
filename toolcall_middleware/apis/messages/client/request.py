"""A Messages request as a chat completion.

Neighbours of one role are one turn, as in the API. The results in a user's turn become tool messages and come before
its other content: a backend that takes tools requires them right after the calls.

Fields that a chat backend does not have are left out: `metadata`, `service_tier`, `context_management`, `container`,
`cache_control`, `inference_geo` and all that are unknown here. Clients keep sending them after a refusal.
"""

from __future__ import annotations

import base64
import binascii
import itertools
import logging
import re
from dataclasses import dataclass, field
from typing import Any

from ....errors import ToolCallError, refusal, shown
from ....wire import openai
from ....wire.json_input import ANTHROPIC, Reader, let_go, read_fields, written_arguments
from ...offered_tools import Tool, named_in, write_definitions
from .tools import Toolbox, chat_choice, inline_definition, read_tools

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
            return [{"type": "image_url", "image_url": {"url": _image(_inner(block, "source"))}}]
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


def _inner(block: Reader, name: str) -> Reader:
    """An object that has to be there, to be read in turn."""
    inner = block.inner(name)
    if inner is None:
        raise block.error(name, ANTHROPIC["missing"])
    return inner


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
    source, title = _inner(block, "source"), block.text("title")
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
        reference = _inner(block, "tool")
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
        name = _inner(block, "tool").value("name")
        removed = self._box.remove(name) if isinstance(name, str) else None
        return [] if removed is None else [text_part(f"This tool cannot be called any more: {removed.name}")]


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


# -- the request -----------------------------------------------------------------------------------------------------


_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "xhigh": "high", "max": "high"}
"""`output_config.effort` as `reasoning_effort`. `high` is the API's default, the same as none: it is not sent, because
backends whose model does not think refuse the field, and Claude Code sends `high` with each request."""

_PASSED = ("toolcall", "request_options")
_BYTES_A_TOKEN = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that was read. `chat`: the fields of the chat completion. estimate: how many tokens it may have."""

    chat: dict[str, Any]
    model: str
    stream: bool
    thinking: Thinking
    stops: tuple[str, ...]
    talk: Conversation
    tools: Toolbox
    estimate: int


def read_request(body: bytes, *, counting: bool = False, native: bool = False) -> Asked:
    """The request in `body`. counting: it is one for count_tokens, which has no `max_tokens` and no `stream`.

    native: the upstream speaks this API, see `Toolbox`.
    Raises ToolCallError, whose `param` is the path of the field.
    """
    request = Reader(read_fields(body), ANTHROPIC)
    if request.given("thread") is not None:
        raise _no_threads()
    chat: dict[str, Any] = {"model": (model := request.filled("model"))}
    stream = False
    if not counting:
        stream = request.flag("stream") is True
        chat["max_tokens"] = request.count("max_tokens")
        if chat["max_tokens"] is None:
            raise request.error("max_tokens", ANTHROPIC["missing"])
    thinking = read_thinking(request)
    chat.update(_sampling(request))
    if stops := [stop for stop in request.texts("stop_sequences") if stop]:
        chat["stop"] = stops
    chat.update(_output(request))
    box = read_tools(request, native=native)
    talk = read_messages(request, box, system_text(request))
    chat["messages"] = talk.messages
    chat.update(box.fields)
    chat.update(chat_choice(request, box))
    if stream:
        chat["stream"] = True
        chat["stream_options"] = {"include_usage": True}
    chat.update({name: request.fields[name] for name in _PASSED if name in request.fields})
    return Asked(
        chat=chat,
        model=model,
        stream=stream,
        thinking=thinking,
        stops=tuple(stops),
        talk=talk,
        tools=box,
        estimate=_estimate(chat),
    )


def _no_threads() -> ToolCallError:
    """The answer that makes the SDKs' tool runners send whole histories; any other ends the run."""
    return ToolCallError(
        "invalid_request",
        "threads are not kept here; send the whole conversation in messages",
        extra={"details": {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}},
    )


def _sampling(request: Reader) -> dict[str, Any]:
    request.number("temperature", 0)
    request.number("top_p", 0, 1)
    names = ("temperature", "top_p", *(["top_k"] if request.count("top_k", 0) else []))
    return {name: request.fields[name] for name in names if request.given(name) is not None}


def _output(request: Reader) -> dict[str, Any]:
    """`output_config`, and the `output_format` that came before it, as `reasoning_effort` and `response_format`."""
    config = request.inner("output_config")
    made: dict[str, Any] = {}
    if config is not None and (effort := _EFFORTS.get(str(config.value("effort")))):
        made["reasoning_effort"] = effort
    wanted = (config and config.inner("format")) or request.inner("output_format")
    if wanted is not None:
        if wanted.required("type") != "json_schema":
            raise wanted.error("type", "Input should be 'json_schema'")
        if not wanted.begins("schema", b"{"):
            raise wanted.error("schema", ANTHROPIC["object"])
        schema = {"name": "output", "schema": wanted.fields["schema"], "strict": True}
        made["response_format"] = {"type": "json_schema", "json_schema": schema}
    return made


def _estimate(chat: dict[str, Any]) -> int:
    """An estimate of the prompt's tokens, by its size; the true number comes at the answer's end."""
    size = sum(len(openai.encode(tool)) for tool in chat.get("tools", ()))
    for message in chat["messages"]:
        content = message.get("content") or ""
        size += len(content) if isinstance(content, str) else sum(len(part.get("text", "")) for part in content)
        size += sum(len(call["function"]["arguments"]) for call in message.get("tool_calls", ()))
    return size // _BYTES_A_TOKEN + 1


# -- the system text: its blocks as one text, without meaningless lines that change from request to request -----------
# A backend keeps what it computed of a prompt as long as the next one begins with the same bytes. A line that differs
# in each request and comes first makes it compute the whole prompt again.


_KNOWN_LINES: tuple[tuple[str, re.Pattern[str], bool], ...] = (
    # Its suffix changes between sessions, and between the kinds of request of one session.
    ("claude-code-billing", re.compile(r"\s*x-anthropic-billing-header:[^\n]*(?:\n+|$)"), False),
    (
        "leading-date",
        re.compile(
            r"\s*(?:Today's date|Todays date|Current date(?: and time)?|Current time"
            r"|The current (?:date|time)(?: and time)?"
            r"|Today)(?: is\b|:)[^\n]{1,100}(?:\n+|$)"
        ),
        True,
    ),
)
"""Known first lines: name, pattern, whether the line has a meaning and is therefore moved to the end of the text."""


def system_text(request: Reader) -> str:
    """The request's `system` (a string, or text blocks) as one text. It is empty if the request has no `system`."""
    if request.begins("system", b'"'):
        texts = [request.required("system")]
    else:
        texts = []
        for block in request.items("system"):
            if block.required("type") != "text":
                raise block.error("type", "Input should be 'text'")
            texts.append(block.required("text"))
    return "\n\n".join(text for text in _without_known_lines(texts) if text)


def _without_known_lines(texts: list[str]) -> list[str]:
    """The texts with the known lines at their front left out, or moved to the end."""
    moved: list[str] = []
    for name, pattern, keep in _KNOWN_LINES:
        first = next((number for number, text in enumerate(texts) if text.strip()), None)
        found = pattern.match(texts[first]) if first is not None else None
        if first is None or found is None:
            continue
        _log.info("messages: system text: %s is %s", name, "moved to the end" if keep else "left out")
        texts = [*texts[:first], texts[first][found.end() :], *texts[first + 1 :]]
        if keep:
            moved.append(found[0].strip())
    return [*texts, *moved]
