"""A Responses request as a chat completion: bytes in, the chat body and what the answer has to know out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...errors import kind, refusal, shown
from ...model import DEFERRED_FIELD
from ...wire import openai
from ...wire.json_input import OPENAI, Raw, Reader, let_go, read_fields
from ..face import FaceRequest
from .items import History, Paths, encode
from .tools import Names, OfferedTools, ToolReader, chat_choice

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
# Fields of a chat completion that a Responses request has other words for: one of them would say it twice.
_CHAT_ONLY = frozenset(
    {
        "audio", "function_call", "functions", "logprobs", "max_completion_tokens", "max_tokens", "messages",
        "modalities", "n", "reasoning_effort", "response_format", "verbosity",
    }
)  # fmt: skip
_NOT_FORWARDED = frozenset(name.casefold() for name in _OWN | _CHAT_ONLY)


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """What the answer has to know of its request. `echo`: the fields of the response that repeat the request's.

    `encrypted`: whether thoughts are carried in `encrypted_content`. `compacts`: the text is a summary of the
    conversation, which a `compaction` item carries.
    """

    model: str
    echo: dict[str, Any]
    names: Names = field(default_factory=Names)
    encrypted: bool = False
    compacts: bool = False
    tool_paths: Mapping[str, Sequence[str]] = field(default_factory=dict)
    paths: Paths = field(default_factory=Paths)

    def param(self, param: str | None) -> str | None:
        """A path in the chat completion as the path in the client's request."""
        found = _PLACE.match(param or "")
        if param is None or found is None:
            return None if param is None else _PARAMS.get(param, param)
        field_, number, rest = found[1], int(found[2]), found[3]
        if field_ != "messages":
            paths = self.tool_paths.get(field_, ())
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
    return _Request(Reader(read_fields(body), OPENAI)).read()


class _Request:
    """Reads the fields of one request."""

    def __init__(self, read: Reader) -> None:
        self._read = read

    def read(self) -> tuple[FaceRequest, Asked]:
        read = self._read
        model = read.filled("model")
        self._refuse_state()
        items = self._items()
        offered = self._tools(items)
        history = self._history(items, offered)
        stream = read.flag("stream") is True
        include = read.texts("include")
        chat: dict[str, Any] = {"model": model, "messages": history.messages}
        chat.update(offered.fields)
        choice = chat_choice(read.value("tool_choice"), offered)
        if offered.chat and history.compacts:
            choice = "none"
        if choice is not None:
            chat["tool_choice"] = choice
        parallel = read.flag("parallel_tool_calls")
        if parallel is not None and offered.chat:
            chat["parallel_tool_calls"] = parallel
        echo = self._echo(parallel=parallel)
        chat.update(self._sampling())
        chat["stream"] = stream
        if stream:
            chat["stream_options"] = {"include_usage": True}
        chat.update({name: raw for name, raw in read.fields.items() if name.casefold() not in _NOT_FORWARDED})
        asked = Asked(
            model=model,
            echo=echo,
            names=offered.names,
            encrypted=ENCRYPTED in include,
            compacts=history.compacts,
            tool_paths={"tools": offered.paths, DEFERRED_FIELD: [path for _, path in offered.waiting.values()]},
            paths=history.paths,
        )
        body = encode(chat, "input")
        let_go(history.messages, items)
        return FaceRequest(body=body, stream=stream, dropped_tools=offered.dropped), asked

    def _refuse_state(self) -> None:
        """What only a server with a memory can serve. Nothing is answered as if the earlier turns were not there."""
        read = self._read
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

    # -- input and tools -------------------------------------------------------------------------------------------

    def _items(self) -> list[Reader]:
        """The items of `input`; a string is one message of the user's."""
        if self._read.begins("input", b'"'):
            message = {"role": Raw(b'"user"'), "content": self._read.fields["input"]}
            return [Reader(message, OPENAI, "input")]
        if not self._read.begins("input", b"["):
            found = kind(self._read.value("input"))
            raise refusal("input", f"'input' must be a string or an array of items, got {found}.")
        return self._read.items("input")

    def _tools(self, items: list[Reader]) -> OfferedTools:
        reader = ToolReader()
        reader.add(self._read.items("tools"))
        for item in items:
            if "tools" in item.fields and (variant := item.value("type")) in ("additional_tools", "tool_search_output"):
                reader.add(item.items("tools"), loaded=variant == "tool_search_output")
        return reader.read()

    def _history(self, items: list[Reader], offered: OfferedTools) -> History:
        history = History(offered)
        instructions = self._read.text("instructions")
        if instructions:
            history.instructions(instructions)
        for item in items:
            history.add(item)
        history.close()
        if not history.messages:
            raise refusal("input", "'input' must hold at least one message.")
        return history

    # -- the other fields ------------------------------------------------------------------------------------------

    def _sampling(self) -> dict[str, Any]:
        """What the chat completion calls otherwise."""
        read = self._read
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

    def _echo(self, *, parallel: bool | None) -> dict[str, Any]:
        """The fields of the response that say what was asked, checked, as the client spelled them."""
        read = self._read
        reasoning, text = read.object("reasoning") or {}, read.object("text") or {}
        temperature, top_p = read.number("temperature", 0, 100), read.number("top_p", 0, 1)
        metadata = read.object("metadata") or {}
        read.flag("store")
        read.object("stream_options")
        echo: dict[str, Any] = {
            "background": False,
            "frequency_penalty": self._penalty("frequency_penalty"),
            "instructions": read.text("instructions"),
            "max_output_tokens": read.count("max_output_tokens"),
            "max_tool_calls": read.count("max_tool_calls", 0),
            "metadata": metadata,
            "parallel_tool_calls": parallel is not False,
            "presence_penalty": self._penalty("presence_penalty"),
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
        return echo

    def _penalty(self, name: str) -> float:
        """A field that goes on as it is, for the backend to judge."""
        value = self._read.value(name)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else 0.0


def _line(raw: Raw | None) -> Raw | None:
    """The same on one line: it stands in events."""
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
