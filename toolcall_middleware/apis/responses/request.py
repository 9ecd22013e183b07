"""A Responses request as a chat completion: bytes in, the chat body and what the answer has to know out."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from ...errors import kind, refusal, shown
from ...model import DEFERRED_FIELD
from ...wire import openai
from ...wire.json_input import OPENAI, Raw, Reader, let_go, read_fields
from ..face import FaceRequest
from .items import History, Paths, encode
from .tools import ClientTools, chat_choice, read_tools

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
    chat.update(_sampling(read))
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


def _sampling(read: Reader) -> dict[str, Any]:
    """The fields that have other names in a chat completion."""
    made: dict[str, Any] = {}
    limit = read.count("max_output_tokens")
    if limit is not None:
        made["max_tokens"] = limit
    effort = (read.object("reasoning") or {}).get("effort")
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
