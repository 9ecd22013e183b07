"""A Responses request as a chat completion: bytes in, the chat body and what the answer has to know out.

The items of one answer (a thought, text, calls) are joined to one assistant message; each output becomes a tool
message. Items that only OpenAI's servers can make or read are left out.
"""

from __future__ import annotations

import base64
import binascii
import re
import zlib
from dataclasses import dataclass, field
from typing import Any

import msgspec

from ...errors import kind, refusal, shown
from ...model import DEFERRED_FIELD
from ...wire import openai
from ...wire.json_input import OPENAI, Raw, Reader, let_go, read_fields, written_arguments
from ..face import FaceRequest
from ..offered_tools import definitions, named_in, write_definitions
from .tools import FIELD, ClientTools, Kind, arguments_of, chat_choice, read_tools, shell_text

# -- the content of messages and of results: parts of Responses as parts of a chat completion --------------------------


Part = dict[str, Any]

_TEXTS = frozenset({"input_text", "output_text", "text", "summary_text", "reasoning_text"})
_KNOWN = _TEXTS | {"refusal", "image_url", "input_image", "input_file", "input_audio"}
_DETAILS = {"low": "low", "high": "high", "original": "high"}  # chat completions have no `original`


def encode(value: Any, param: str) -> bytes:
    """JSON of what was read from the field `param`."""
    try:
        return msgspec.json.encode(value)
    except RecursionError:
        raise refusal(param, f"'{param}' is nested too deeply.") from None


def chat_content(holder: Reader, name: str = "content") -> str | list[Part]:
    """A message's content: a string where it is one text, else parts. Raises ToolCallError."""
    if holder.begins(name, b'"'):
        return holder.required(name)
    if not holder.begins(name, b"["):
        found = kind(holder.value(name))
        raise holder.error(name, f"'{name}' must be a string or an array of parts, got {found}.")
    parts = [_part(part) for part in holder.items(name)]
    if len(parts) > 1 or (parts and parts[0]["type"] != "text"):
        return parts
    return parts[0]["text"] if parts else ""


def chat_text(holder: Reader) -> str:
    """An assistant's content, which is text."""
    found = "" if holder.given("content") is None else chat_content(holder)
    if isinstance(found, str):
        return found
    for index, part in enumerate(found):
        if part["type"] != "text":
            raise holder.error(f"content[{index}].type", "The content of an assistant's message is text.")
    return "".join(part["text"] for part in found)


def chat_result(item: Reader) -> str | list[Part]:
    """What a tool gave back: text, parts, or any other JSON value, as JSON."""
    output = item.value("output")
    if isinstance(output, str) or (isinstance(output, list) and output and all(map(_is_part, output))):
        return chat_content(item, "output")
    return encode(output, item.where("output")).decode()


def _is_part(value: Any) -> bool:
    return isinstance(value, dict) and isinstance(kind_ := value.get("type"), str) and kind_ in _KNOWN


def _part(part: Reader) -> Part:
    match part.value("type"):
        case str(variant) if variant in _TEXTS:
            return {"type": "text", "text": part.required("text")}
        case "refusal":  # shown as text: not every template knows refusals
            return {"type": "text", "text": part.required("refusal")}
        case "input_image" | "image_url":
            return {"type": "image_url", "image_url": _image(part)}
        case "input_file":
            return {"type": "file", "file": _file(part)}
        case "input_audio":
            return {"type": "input_audio", "input_audio": part.object("input_audio") or part.required("input_audio")}
        case variant:
            known = ", ".join(sorted(_KNOWN))
            raise part.error("type", f"A part's type must be one of {known}; got {shown(variant)}.")


def _image(part: Reader) -> dict[str, Any]:
    if part.begins("image_url", b"{"):  # as in a chat completion, which some clients send on Responses too
        image = part.inner("image_url")
        if image is not None and image.required("url"):
            return part.object("image_url") or {}
    if part.given("image_url") is None and part.given("file_id") is not None:
        raise part.error("file_id", "Files are not stored here: send the image itself in 'image_url'.")
    detail = _DETAILS.get(str(part.value("detail")))
    return {"url": part.required("image_url"), **({"detail": detail} if detail else {})}


def _file(part: Reader) -> dict[str, Any]:
    file = {name: part.required(name) for name in ("filename", "file_data") if part.given(name) is not None}
    if "file_data" not in file:
        missing = next((name for name in ("file_id", "file_url") if part.given(name) is not None), "file_data")
        raise part.error(missing, "Files are not stored or fetched here: send the file in 'file_data'.")
    return file


# -- reasoning that a client carries from one request to the next ------------------------------------------------------
# `encrypted_content` of our items holds the thought itself, marked and with a checksum. It hides nothing: it only tells
# our own from what another provider has really encrypted. Beside the text it has what an upstream signed and wants
# back: `reasoning_details`, and the `extra_content` of calls.


_TEXT_MARK = "tcr1_"  # the text alone: what 0.3.0 wrote, and conversations still hold
_MARK = "tcr2_"
_SUM = 4


class Carried(msgspec.Struct, omit_defaults=True):
    """What one reasoning item carries. details: items of `reasoning_details`. calls: `extra_content` by the call's id.

    False where it carries nothing.
    """

    text: str = ""
    details: list[dict[str, Any]] = []
    calls: dict[str, dict[str, Any]] = {}

    def __bool__(self) -> bool:
        return bool(self.text or self.details or self.calls)


_decode = msgspec.json.Decoder(Carried).decode


def write_carried(thought: Carried) -> str:
    """The `encrypted_content` of a reasoning item."""
    data = openai.encode(thought)
    return _MARK + base64.urlsafe_b64encode(zlib.crc32(data).to_bytes(_SUM, "big") + data).decode("ascii")


def read_carried(value: Any) -> Carried | None:
    """The content of an `encrypted_content` that this package wrote; None for any other value."""
    if not isinstance(value, str) or not value.startswith((_MARK, _TEXT_MARK)):
        return None
    try:
        data = base64.b64decode(value[len(_MARK) :].encode("ascii"), altchars=b"-_", validate=True)
        if zlib.crc32(data[_SUM:]).to_bytes(_SUM, "big") != data[:_SUM]:
            return None
        return _decode(data[_SUM:]) if value.startswith(_MARK) else Carried(data[_SUM:].decode())
    except (binascii.Error, UnicodeError, msgspec.MsgspecError, RecursionError):
        return None


def thought_of(item: Reader) -> Carried:
    """The thought in a reasoning item of the input: what this package carried, or the plain `content`. Empty for what
    another provider encrypted. The `summary` is not read: it is for the user and is not the thought.
    """
    carried = read_carried(item.value("encrypted_content"))
    if carried is not None:
        return carried
    content = item.value("content")
    if isinstance(content, str):
        return Carried(content)
    parts = content if isinstance(content, list) else []
    texts = (part["text"] for part in parts if isinstance(part, dict) and isinstance(part.get("text"), str))
    return Carried("".join(texts))


Message = dict[str, Any]

_CALLS = {kind.item_type: kind for kind in Kind}
_OUTPUTS = {item_type.removesuffix("_call") + "_call_output" for item_type in _CALLS} - {"tool_search_call_output"}
_DEFINITION = ("description", "parameters", "format")
_COMPACTED = "(Earlier turns of this conversation were compacted by another provider and cannot be read here.)"
_SUMMARY = "Summary of the earlier turns of this conversation:\n"
_SUMMARISE = (
    "Summarise the conversation so far, so that it can go on from your summary alone: what the user wants, what was "
    "done and found (names of files, commands, results, decisions), and what is left to do. Answer with the summary "
    "only, and call no tool."
)


@dataclass(slots=True)
class Paths:
    """The client's paths of what became a message: `messages[i]`, and each call `j` of it."""

    messages: list[str] = field(default_factory=list)
    calls: dict[tuple[int, int], str] = field(default_factory=dict)


class History:
    """Converts the items in turn to `messages` and `paths`."""

    def __init__(self, tools: ClientTools) -> None:
        self.messages: list[Message] = []
        self.paths = Paths()
        self.compacts = False
        """Whether the client asks for a summary of the conversation in place of an answer: Codex does."""
        self._tools = tools
        self._open: Message | None = None  # the assistant message that the next item may belong to
        self._thoughts: list[Carried] = []  # thoughts that wait for the text or calls after them
        self._signed: dict[str, dict[str, Any]] = {}  # `extra_content` of calls by their ids
        self._call_ids: set[str] = set()
        self._by_item_id: dict[str, str] = {}  # an old shell's output names the item, not the call
        self._left_out = 0  # references to what is stored elsewhere

    def instructions(self, text: str) -> None:
        """Add the request's instructions, which come before all items."""
        self._system(text, "instructions")

    def add(self, item: Reader) -> None:
        """Add the next item. Raises ToolCallError, whose `param` begins with the item's path."""
        variant = item.text("type")
        match variant:
            case None if "role" not in item.fields and item.begins("id", b'"'):
                self._left_out += 1  # the type of a reference may be missing
            case None | "message":
                self._message(item)
            case "reasoning":
                if thought := thought_of(item):
                    self._thoughts.append(thought)
                    self._signed |= thought.calls
            case "item_reference":
                self._left_out += 1
            case "tool_search_output":
                self._found(item)
            case "compaction" | "compaction_summary":
                carried = read_carried(item.value("encrypted_content"))
                self._system(_COMPACTED if carried is None else _SUMMARY + carried.text, item.path)
            case "compaction_trigger":
                self._turn({"role": "user", "content": _SUMMARISE}, item.path)
                self.compacts = True
            case _ if variant in _CALLS:
                self._call(_CALLS[variant], item)
            case _ if variant in _OUTPUTS:
                self._output(variant, item)
            case _ if {"role", "content"} <= item.fields.keys():
                raise item.error("type", f"{shown(variant)} is no type of a message.")
            # Other items are of OpenAI's servers or a newer client: they cannot be shown to the model.

    def close(self) -> None:
        """End the open message, and drop thoughts that belong to no message."""
        if self._open is not None:
            self._join_thoughts(self._open)
        self._thoughts.clear()
        self._open = None

    # -- messages --------------------------------------------------------------------------------------------------

    def _message(self, item: Reader) -> None:
        match item.value("role"):
            case "assistant":
                self._said(chat_text(item), item.path)
            case "user":
                self._turn({"role": "user", "content": chat_content(item)}, item.path)
            case "system" | "developer":
                self._system(chat_content(item), item.path)
            case role:
                known = "assistant, developer, system, user"
                raise item.error("role", f"A message's role must be one of {known}; got {shown(role)}.")

    def _system(self, content: Any, param: str) -> None:
        """Add a system or developer message. Templates take one, at the front, and not all know `developer`."""
        self.close()
        before = self.messages[-1] if len(self.messages) == 1 else None
        if before is not None and before["role"] == "system":
            if isinstance(before["content"], str) and isinstance(content, str):
                before["content"] = f"{before['content']}\n\n{content}" if before["content"] else content
            else:
                before["content"] = [*_parts(before["content"]), *_parts(content)]
            return
        self._turn({"role": "system", "content": content}, param)

    def _said(self, text: str, param: str) -> None:
        message = self._open
        if message is not None and (message["content"] is None or "tool_calls" in message):
            # Text after calls belongs to their message, because results have to follow right after that message.
            before = message["content"]
            message["content"] = text if not before else _joined(before, text)
            self._join_thoughts(message)
            return
        self._assistant(param)["content"] = text

    def _assistant(self, param: str) -> Message:
        """Add an assistant message, with the thoughts that came before it."""
        message: Message = {"role": "assistant", "content": None}
        self._join_thoughts(message)
        self._add(message, param)
        self._open = message
        return message

    def _join_thoughts(self, message: Message) -> None:
        texts = [thought.text for thought in self._thoughts if thought.text]
        if texts:
            before = [message["reasoning_content"]] if "reasoning_content" in message else []
            message["reasoning_content"] = "\n\n".join([*before, *texts])
        details = [detail for thought in self._thoughts for detail in thought.details]
        if details:
            message["reasoning_details"] = message.get("reasoning_details", []) + details
        self._thoughts.clear()

    def _add(self, message: Message, param: str) -> None:
        self.messages.append(message)
        self.paths.messages.append(param)

    def _turn(self, message: Message, param: str) -> None:
        """Add a message that is not the assistant's, and so ends the open one."""
        self.close()
        self._add(message, param)

    # -- calls and their results -----------------------------------------------------------------------------------

    def _call(self, own: Kind, item: Reader) -> None:
        if own is Kind.TOOL_SEARCH and item.given("call_id") is None:
            return  # OpenAI's own search, which no client ran
        call_id = item.filled("call_id")
        name, arguments = self._called(own, item)
        message = self._open or self._assistant(item.path)
        self._join_thoughts(message)
        calls: list[dict[str, Any]] = message.setdefault("tool_calls", [])
        self.paths.calls[len(self.messages) - 1, len(calls)] = item.path
        call = {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        if call_id in self._signed:
            call["extra_content"] = self._signed[call_id]
        calls.append(call)
        self._call_ids.add(call_id)
        if isinstance(item_id := item.value("id"), str):
            self._by_item_id[item_id] = call_id

    def _called(self, own: Kind, item: Reader) -> tuple[str, str]:
        """The name for the model, and the arguments as JSON text."""
        where = item.where("arguments")
        if own is Kind.FUNCTION or own is Kind.CUSTOM:
            name = self._tools.name_of(own, item.filled("name"), item.text("namespace") or None)
            if own is Kind.CUSTOM:
                return name, written_arguments({FIELD: item.required("input")}, item.where("input"))
            arguments = item.value("arguments")
        else:
            name = self._tools.name_of(own, own.value)
            arguments = arguments_of(own, {name: item.value(name) for name in item.fields})
        if not isinstance(arguments, str | dict | None):
            raise refusal(where, f"'arguments' must be a string, got {kind(arguments)}.")
        return name, arguments if isinstance(arguments, str) else written_arguments(arguments or {}, where)

    def _output(self, variant: str, item: Reader) -> None:
        if item.given("call_id") is None and isinstance(name := item.value("name"), str):
            self._notice(name, item)
            return
        message: Message = {"role": "tool", "tool_call_id": self._answered(variant, item)}
        if variant == "apply_patch_call_output":
            failed = item.value("status") == "failed"
            said = "The patch could not be applied." if failed else "The patch was applied."
            message["content"] = item.text("output") or said
            if failed:
                message["is_error"] = True
        elif "output" not in item.fields:
            raise item.error("output", f"An item of type {variant} needs 'output'.")
        elif variant == "shell_call_output" and item.begins("output", b"["):
            message["content"] = shell_text(item.value("output"))
        else:
            message["content"] = chat_result(item)
        if loaded := [self._tools.load(name) for name in named_in(message["content"], self._tools.waiting)]:
            text = write_definitions(loaded)
            content = message["content"]
            message["content"] = f"{content}\n{text}" if isinstance(content, str) else [*content, *_parts(text)]
        self._turn(message, item.path)

    def _notice(self, name: str, item: Reader) -> None:
        """Add an output that answers no call: it has a name and no call id. Codex reports the state of a goal so."""
        if "output" not in item.fields:
            raise item.error("output", "An item with a 'name' and no 'call_id' needs 'output'.")
        output, said = chat_result(item), f"{name}:\n"
        content = said + output if isinstance(output, str) else [*_parts(said), *output]
        self._turn({"role": "user", "content": content}, item.path)

    def _found(self, item: Reader) -> None:
        """Add a search's result: it names the found tools to the model. `read_tools` offers them."""
        if item.given("call_id") is None:
            return
        call_id = self._answered("tool_search_output", item)
        found = [one for tool in item.value("tools") or () for one in self._loaded(tool)]
        text = definitions(found) if found else "No tool was found."
        self._turn({"role": "tool", "tool_call_id": call_id, "content": text}, item.path)

    def _loaded(self, tool: Any, namespace: str | None = None) -> list[dict[str, Any]]:
        """The definitions of the found tools."""
        match tool:
            case {"type": "namespace", "name": str(name), "tools": list(tools)} if namespace is None:
                return [found for inner in tools for found in self._loaded(inner, name)]
            case {"type": ("function" | "custom") as own, "name": str(name)}:
                found: dict[str, Any] = {"name": self._tools.name_of(Kind(own), name, namespace)}
                found |= {field: tool[field] for field in _DEFINITION if tool.get(field) is not None}
                if own == "custom":
                    found["parameters"] = {"type": "object", "properties": {FIELD: {"type": "string"}}}
                return [found]
        return []

    def _answered(self, variant: str, item: Reader) -> str:
        call_id = item.value("call_id")
        if call_id is None and variant == "local_shell_call_output":
            item_id = item.filled("id")
            call_id = self._by_item_id.get(item_id, item_id)
        if not isinstance(call_id, str) or not call_id:
            message = f"An item of type {variant} needs the 'call_id' of the call that it answers."
            raise item.error("call_id", message, "invalid_tool_call_id")
        if call_id not in self._call_ids:
            message = f"No tool call found for the output with call_id {shown(call_id)}."
            if self._left_out:
                message += " Nothing is stored here: send the call itself in place of a reference."
            raise item.error("call_id", message, "invalid_tool_call_id")
        return call_id


def _parts(content: Any) -> list[dict[str, Any]]:
    return content if isinstance(content, list) else [{"type": "text", "text": content}]


def _joined(before: str, text: str) -> str:
    """Two texts of one answer, joined unchanged if white space is between them."""
    return before + text if before[-1:].isspace() or text[:1].isspace() or not text else f"{before}\n{text}"


# -- the request -----------------------------------------------------------------------------------------------------


ENCRYPTED = "reasoning.encrypted_content"
_NO_REASONING = {"effort": None, "summary": None}
_PLAIN_TEXT = {"type": "text"}

# Fields of the Responses API (`ResponseCreateParams`, and `client_metadata` of Codex). They are read here, echoed, or
# have no meaning without OpenAI's servers. All others are the backend's, such as `top_k`, and go on as they are.
_OWN = frozenset(
    {
        "access_programs", "background", "background_options", "client_metadata", "context_management", "conversation",
        "image", "include", "input", "instructions", "max_output_tokens", "max_tool_calls", "metadata", "model",
        "moderation", "parallel_tool_calls", "previous_response_id", "prompt", "prompt_cache_key",
        "prompt_cache_options", "prompt_cache_retention", "reasoning", "safety_identifier", "service_tier", "store",
        "stream", "stream_options", "text", "tool_choice", "tools", "top_logprobs", "truncation",
    }
)  # fmt: skip
# Fields of a chat completion that have other names in a Responses request: they would repeat these.
_CHAT_ONLY = frozenset(
    {
        "audio", "function_call", "functions", "logprobs", "max_completion_tokens", "max_tokens", "messages",
        "modalities", "n", "reasoning_effort", "response_format", "verbosity",
    }
)  # fmt: skip
_NOT_FORWARDED = frozenset(name.casefold() for name in _OWN | _CHAT_ONLY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The parts of a request that its answer needs. `echo`: the fields of the response that repeat the request's.

    `encrypted`: whether thoughts are carried in `encrypted_content`. `compacts`: the text is a summary of the
    conversation, which a `compaction` item carries.
    """

    model: str
    echo: dict[str, Any]
    tools: ClientTools = field(default_factory=ClientTools)
    encrypted: bool = False
    compacts: bool = False
    paths: Paths = field(default_factory=Paths)

    def param(self, param: str | None) -> str | None:
        """A path in the chat completion as the path in the client's request."""
        found = _PLACE.match(param or "")
        if param is None or found is None:
            return None if param is None else _PARAMS.get(param, param)
        field_, number, rest = found[1], int(found[2]), found[3]
        if field_ != "messages":
            paths = self.tools.paths[field_]
            path = paths[number] if number < len(paths) else "tools"
            return path + rest.replace(".function", "", 1)
        call = _CALL.match(rest)
        if call is not None and (path := self.paths.calls.get((number, int(call[1])), "")):
            return path + (".call_id" if call[2] == ".id" else call[2].replace(".function", "", 1))
        if number >= len(self.paths.messages):
            return "input"
        path = self.paths.messages[number]
        if path in ("instructions", "input"):
            return path
        return path + rest.replace(".tool_call_id", ".call_id", 1)


_PLACE = re.compile(rf"(tools|messages|{DEFERRED_FIELD})\[(\d{{1,9}})\](.*)", re.DOTALL)
_CALL = re.compile(r"\.tool_calls\[(\d{1,9})\](.*)", re.DOTALL)
_PARAMS = {
    "messages": "input",
    "max_tokens": "max_output_tokens",
    "max_completion_tokens": "max_output_tokens",
    "reasoning_effort": "reasoning.effort",
    "response_format": "text.format",
}


def read_request(body: bytes) -> tuple[FaceRequest, Asked]:
    """The request as a chat completion. Raises ToolCallError and nothing else, whatever the bytes."""
    read = Reader(read_fields(body), OPENAI)
    model = read.filled("model")
    _refuse_state(read)
    items = _items(read)
    tools = read_tools(read, items)
    history = _history(read, items, tools)
    stream = read.flag("stream") is True
    include = read.texts("include")
    chat: dict[str, Any] = {"model": model, "messages": history.messages, **tools.fields}
    choice = chat_choice(read.value("tool_choice"), tools)
    if tools.shown and history.compacts:
        choice = "none"
    if choice is not None:
        chat["tool_choice"] = choice
    parallel = read.flag("parallel_tool_calls")
    if parallel is not None and tools.shown:
        chat["parallel_tool_calls"] = parallel
    echo = _echo(read, parallel=parallel)
    chat.update(_sampling(read, echo))
    chat["stream"] = stream
    if stream:
        chat["stream_options"] = {"include_usage": True}
    chat.update({name: raw for name, raw in read.fields.items() if name.casefold() not in _NOT_FORWARDED})
    asked = Asked(
        model=model,
        echo=echo,
        tools=tools,
        encrypted=ENCRYPTED in include,
        compacts=history.compacts,
        paths=history.paths,
    )
    encoded = encode(chat, "input")
    let_go(history.messages, items)
    return FaceRequest(body=encoded, stream=stream, dropped_tools=tuple(tools.dropped)), asked


def _refuse_state(read: Reader) -> None:
    """Refuse what needs stored turns, instead of answering as if the earlier turns were not there."""
    previous = read.value("previous_response_id")
    if previous is not None:
        message = f"Previous response with id {shown(previous)} not found."
        hint = " Responses are not stored here: send the whole conversation in 'input' (many clients: store=False)."
        raise refusal("previous_response_id", message + hint)
    if read.given("conversation") is not None:
        message = "'conversation' is not supported: nothing is stored here. Send the whole conversation in 'input'."
        raise refusal("conversation", message)
    if read.given("prompt") is not None:
        raise refusal("prompt", "'prompt' is not supported: no prompts are stored here. Send it in 'instructions'.")
    if read.flag("background"):
        raise refusal("background", "'background' is not supported: nothing is stored here that could be fetched.")


def _items(read: Reader) -> list[Reader]:
    """The items of `input`; a string is one message of the user's."""
    if read.begins("input", b'"'):
        message = {"role": Raw(b'"user"'), "content": read.fields["input"]}
        return [Reader(message, OPENAI, "input")]
    if not read.begins("input", b"["):
        found = kind(read.value("input"))
        raise refusal("input", f"'input' must be a string or an array of items, got {found}.")
    return read.items("input")


def _history(read: Reader, items: list[Reader], tools: ClientTools) -> History:
    history = History(tools)
    instructions = read.text("instructions")
    if instructions:
        history.instructions(instructions)
    for item in items:
        history.add(item)
    history.close()
    if not history.messages:
        raise refusal("input", "'input' must hold at least one message.")
    return history


# -- the other fields --------------------------------------------------------------------------------------------------


def _sampling(read: Reader, echo: dict[str, Any]) -> dict[str, Any]:
    """The fields that have other names in a chat completion. echo: what was read of them."""
    made: dict[str, Any] = {}
    if (limit := echo["max_output_tokens"]) is not None:
        made["max_tokens"] = limit
    effort = echo["reasoning"]["effort"]
    if not isinstance(effort, str | None):
        raise refusal("reasoning.effort", f"'effort' must be a string, got {kind(effort)}.")
    if effort:
        made["reasoning_effort"] = effort
    shape = _response_format((read.object("text") or {}).get("format"))
    if shape is not None:
        made["response_format"] = shape
    return made


def _echo(read: Reader, *, parallel: bool | None) -> dict[str, Any]:
    """The fields of the response that repeat the request's: checked, in the client's spelling."""
    reasoning, text = read.object("reasoning") or {}, read.object("text") or {}
    temperature, top_p = read.number("temperature", 0, 100), read.number("top_p", 0, 1)
    metadata = read.object("metadata") or {}
    read.flag("store")
    read.object("stream_options")
    return {
        "background": False,
        "frequency_penalty": _penalty(read, "frequency_penalty"),
        "instructions": read.text("instructions"),
        "max_output_tokens": read.count("max_output_tokens"),
        "max_tool_calls": read.count("max_tool_calls", 0),
        "metadata": metadata,
        "parallel_tool_calls": parallel is not False,
        "presence_penalty": _penalty(read, "presence_penalty"),
        "previous_response_id": None,
        "prompt_cache_key": read.text("prompt_cache_key"),
        "reasoning": {**_NO_REASONING, **reasoning},
        "safety_identifier": read.text("safety_identifier"),
        "service_tier": read.text("service_tier") or "default",
        "store": False,
        "temperature": 1.0 if temperature is None else temperature,
        "text": {**text, "format": text.get("format") or _PLAIN_TEXT},
        "tool_choice": _line(read.given("tool_choice")) or "auto",
        "tools": _with_strict(read.given("tools")),
        "top_logprobs": read.count("top_logprobs", 0) or 0,
        "top_p": 1.0 if top_p is None else top_p,
        "truncation": read.choice("truncation", "auto", "disabled") or "disabled",
    }


def _penalty(read: Reader, name: str) -> float:
    """A field that is passed on unchanged, for the backend to check."""
    value = read.value(name)
    return value if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _line(raw: Raw | None) -> Raw | None:
    """The same JSON on one line, as events need it."""
    return None if raw is None else Raw(openai.one_line(bytes(raw)))


def _with_strict(raw: Raw | None) -> Any:
    """The tools on one line, each function with `strict`: false where the client says nothing."""
    tools = openai.read_objects(raw)
    for tool in tools or ():
        if openai.read_text(tool.get("type")) == "function" and openai.is_null(tool.get("strict")):
            tool["strict"] = Raw(b"false")
    return _line(openai.raw(tools)) if tools else []


def _response_format(value: Any) -> dict[str, Any] | None:
    """`text.format` as the `response_format` of a chat completion."""
    param = "text.format"
    match value:
        case None | {"type": "text"}:
            return None
        case {"type": "json_object"}:
            return {"type": "json_object"}
        case {"type": "json_schema"}:
            name, schema = value.get("name"), value.get("schema")
            if not isinstance(name, str) or not name:
                raise refusal(f"{param}.name", f"'name' must be a string that is not empty, got {shown(name)}.")
            if not isinstance(schema, dict):
                raise refusal(f"{param}.schema", f"'schema' must be an object, got {kind(schema)}.")
            kept = ("name", "description", "schema", "strict")
            return {"type": "json_schema", "json_schema": {n: value[n] for n in kept if value.get(n) is not None}}
        case dict():
            allowed = "'text', 'json_object' or 'json_schema'"
            raise refusal(f"{param}.type", f"'type' must be {allowed}; got {shown(value.get('type'))}.")
    raise refusal(param, f"'format' must be an object, got {kind(value)}.")
