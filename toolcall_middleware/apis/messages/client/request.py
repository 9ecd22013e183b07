"""A Messages request as a chat completion.

What a chat backend has no word for is left out: `metadata`, `service_tier`, `context_management`, `container`,
`cache_control`, `inference_geo` and whatever else is not known here. Clients do not give these up when refused.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ....errors import ToolCallError, refusal
from ....wire import openai
from ....wire.json_input import read_fields
from ....wire.openai import Fields
from . import fields as client_fields
from .messages import read_messages
from .system import system_text
from .thinking import Thinking, read_thinking
from .tools import chat_choice, chat_tools, read_tools

_EFFORTS = {"minimal": "low", "low": "low", "medium": "medium", "xhigh": "high", "max": "high"}
"""`output_config.effort` as `reasoning_effort`. `high` is the API's default, the same as none: it is not sent, because
backends whose model does not think refuse the field, and Claude Code sends `high` with each request."""

_PASSED = ("toolcall", "request_options")
_BYTES_A_TOKEN = 4

SETTINGS: dict[str, Any] = {"reasoning_field": "reasoning", "arguments_as_object": False, "rewrite_ids": True}
"""Options under which an answer can be written as Messages: thoughts beside the text, arguments as they are written,
and ids of letters, digits, `_` and `-`."""
_NATIVE = {name: value for name, value in SETTINGS.items() if name != "rewrite_ids"}
"""An upstream of this API has such ids; by them a call is known in its own answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """A request that was read. `chat`: the fields of the chat completion.

    messages: the client's path of each chat message. tools: that of each chat tool. deferred: that of each tool that
    the model is not shown. call_ids: those of the history.
    estimate: how many tokens the prompt may have. foreign, unreadable, unproven, unoffered: see `Passage`.
    """

    chat: dict[str, Any]
    model: str
    stream: bool
    thinking: Thinking
    stops: tuple[str, ...]
    messages: list[str]
    tools: list[str]
    deferred: list[str]
    call_ids: set[str]
    dropped: tuple[str, ...]
    estimate: int
    foreign: frozenset[str] = frozenset()
    unreadable: ToolCallError | None = None
    unproven: tuple[str, ...] = ()
    unoffered: tuple[tuple[str, str], ...] = ()
    settings: dict[str, Any] = field(default_factory=lambda: dict(SETTINGS))


def read_request(body: bytes, *, counting: bool = False, inline: bool = False, native: bool = False) -> Asked:
    """The request in `body`. counting: it is one for count_tokens, which has no `max_tokens` and no `stream`.

    inline: see `MessagesFace`. native: the upstream speaks this API, see `Toolbox`.
    Raises ToolCallError, whose `param` is the path of the field.
    """
    fields = read_fields(body)
    if not openai.is_null(fields.get("thread")):
        raise _no_threads()
    model = client_fields.filled_string(fields, "model", "")
    chat: dict[str, Any] = {"model": model}
    stream = False
    if not counting:
        stream = client_fields.boolean(fields, "stream", "")
        if "max_tokens" not in fields:
            raise refusal("max_tokens", "Field required")
        chat["max_tokens"] = _count(fields, "max_tokens")
    stops = _stops(fields)
    thinking = read_thinking(fields)
    chat.update(_sampling(fields))
    if stops:
        chat["stop"] = stops
    chat.update(_output(fields))
    box = read_tools(fields, native=native)
    conversation = read_messages(fields, box, system_text(fields), inline=inline)
    chat["messages"] = conversation.messages
    chat.update(chat_tools(box))
    chat.update(chat_choice(fields, box))
    if stream:
        chat["stream"] = True
        chat["stream_options"] = {"include_usage": True}
    chat.update({name: fields[name] for name in _PASSED if name in fields})
    return Asked(
        chat=chat,
        model=model,
        stream=stream,
        thinking=thinking,
        stops=tuple(stops),
        messages=conversation.paths,
        tools=[tool.path for tool in box.offered],
        deferred=[tool.path for tool in box.waiting.values()],
        call_ids=conversation.call_ids,
        dropped=tuple(box.dropped),
        foreign=frozenset(box.foreign),
        unreadable=conversation.unreadable,
        unproven=tuple(box.unproven),
        unoffered=tuple((tool.name, tool.path) for tool in box.unoffered),
        settings=dict(_NATIVE if native else SETTINGS),
        estimate=_estimate(chat),
    )


def _no_threads() -> ToolCallError:
    """The answer that makes the SDKs' tool runners send whole histories; any other ends the run."""
    return ToolCallError(
        "invalid_request",
        "threads are not kept here; send the whole conversation in messages",
        extra={"details": {"error_code": "thread_unsupported_request", "unsupported": ["thread"]}},
    )


def _count(fields: Fields, name: str) -> int:
    found = client_fields.value(fields, name)
    if not isinstance(found, int) or isinstance(found, bool):
        raise refusal(name, "Input should be a valid integer")
    if found < 1:
        raise refusal(name, "Input should be greater than or equal to 1")
    return found


def _stops(fields: Fields) -> list[str]:
    if not client_fields.has(fields, "stop_sequences"):
        return []
    found = client_fields.value(fields, "stop_sequences")
    if not isinstance(found, list) or not all(isinstance(item, str) for item in found):
        raise refusal("stop_sequences", "Input should be a valid list of strings")
    return [item for item in found if item]


def _sampling(fields: Fields) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name, most in (("temperature", None), ("top_p", 1)):
        if client_fields.has(fields, name):
            found = client_fields.value(fields, name)
            if not isinstance(found, int | float) or isinstance(found, bool):
                raise refusal(name, "Input should be a valid number")
            if found < 0 or (most is not None and found > most):
                limit = "" if most is None else f" and at most {most}"
                raise refusal(name, f"Input should be at least 0{limit}")
            made[name] = fields[name]
    if client_fields.has(fields, "top_k"):
        found = client_fields.value(fields, "top_k")
        if not isinstance(found, int) or isinstance(found, bool) or found < 0:
            raise refusal("top_k", "Input should be a valid integer of at least 0")
        if found:
            made["top_k"] = found
    return made


def _output(fields: Fields) -> dict[str, Any]:
    """`output_config`, and the `output_format` that came before it, as `reasoning_effort` and `response_format`."""
    config = client_fields.inner(fields, "output_config", "") or {}
    made: dict[str, Any] = {}
    effort = _EFFORTS.get(openai.read_text(config.get("effort")) or "")
    if effort is not None:
        made["reasoning_effort"] = effort
    for holder, name, path in ((config, "format", "output_config"), (fields, "output_format", "")):
        where = f"{path}.{name}" if path else name
        wanted = client_fields.inner(holder, name, path)
        if wanted is None:
            continue
        kind = client_fields.string(wanted, "type", where)
        if kind != "json_schema":
            raise refusal(f"{where}.type", "Input should be 'json_schema'")
        if not client_fields.is_object(wanted.get("schema")):
            raise refusal(f"{where}.schema", "Input should be a valid object")
        schema = {"name": "output", "schema": wanted["schema"], "strict": True}
        made["response_format"] = {"type": "json_schema", "json_schema": schema}
        break
    return made


def _estimate(chat: dict[str, Any]) -> int:
    """How many tokens the prompt may have, by its size; the true number comes with the answer's end."""
    size = sum(_text_size(message.get("content")) for message in chat["messages"])
    size += sum(len(call["function"]["arguments"]) for call in _calls(chat))
    size += sum(len(openai.encode(tool)) for tool in chat.get("tools", ()))
    return size // _BYTES_A_TOKEN + 1


def _text_size(content: Any) -> int:
    if isinstance(content, str):
        return len(content)
    return sum(len(part.get("text", "")) for part in content or ())


def _calls(chat: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for message in chat["messages"]:
        yield from message.get("tool_calls", ())
