"""Anthropic's answers as chat completions: whole ones, streams, lists of models, errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from ....errors import ToolCallError
from ....wire.openai import NULL, Shell, encode, event, raw, read_error, read_object, read_objects, read_value
from ....wire.sse import DONE, EventReader, ServerEvent, TooLargeError
from ...context_errors import CONTEXT, is_context_error

_STOP_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
# The status that each type of error has when it is an answer of its own (in a stream it comes without).
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
DETAILS_FORMAT = "anthropic-claude-v1"


def finish_reason(stop_reason: Any) -> str:
    """OpenAI's word for why the model stopped."""
    return _STOP_REASONS.get(stop_reason, "stop") if isinstance(stop_reason, str) else "stop"


def usage_of(usage: Mapping[str, Any]) -> dict[str, Any]:
    """OpenAI's usage. Anthropic counts what it read from its cache, and wrote there, apart from the input."""
    read, written = _count(usage, "cache_read_input_tokens"), _count(usage, "cache_creation_input_tokens")
    prompt = _count(usage, "input_tokens") + read + written
    completion = _count(usage, "output_tokens")
    details: dict[str, Any] = {"cached_tokens": read}
    if written:
        details["cache_creation_tokens"] = written
    told: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": details,
    }
    thought = usage.get("output_tokens_details")
    if isinstance(thought, dict):
        told["completion_tokens_details"] = {"reasoning_tokens": _count(thought, "thinking_tokens")}
    return told


def _count(values: Mapping[str, Any], name: str) -> int:
    value = values.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def refusal_of(message: Mapping[str, Any]) -> str | None:
    """What a model that refuses says of it, where the API tells."""
    details = message.get("stop_details")
    text = details.get("explanation") if isinstance(details, dict) else None
    return text if isinstance(text, str) and text else None


def thinking_detail(block: Mapping[str, Any], index: int, calls: int) -> dict[str, Any] | None:
    """A thinking block as an item of `reasoning_details`, which a client gives back; None where it need not.

    `calls` is how many calls stand before it: the API wants its blocks back where they were.
    """
    base: dict[str, Any] = {"format": DETAILS_FORMAT, "index": index}
    if calls:
        base["calls_before"] = calls
    match block:
        case {"type": "thinking", "thinking": str(text), "signature": str(signature)} if signature:
            return {"type": "reasoning.text", "text": text, "signature": signature, **base}
        case {"type": "redacted_thinking", "data": str(data)}:
            return {"type": "reasoning.encrypted", "data": data, **base}
    return None


def completion(data: bytes, *, created: int) -> bytes:
    """A whole answer; arguments keep the spelling that they have there. Raises ToolCallError where it is none."""
    message = read_value(data)
    content = message.get("content") if isinstance(message, dict) else None
    # The same blocks with their values as they are written.
    written = read_objects((read_object(data) or {}).get("content"))
    if not isinstance(content, list) or written is None:
        raise ToolCallError("upstream_error", "The upstream's answer is not one of Anthropic's messages.")
    texts: list[str] = []
    thoughts: list[str] = []
    details: list[dict[str, Any]] = []
    calls: list[dict[str, Any]] = []
    for block, spelled in zip(content, written, strict=True):
        match block:
            case {"type": "text", "text": str(text)}:
                texts.append(text)
            case {"type": "tool_use", "id": str(call_id), "name": str(name)}:
                arguments = bytes(spelled["input"]).decode() if block.get("input") else "{}"
                calls.append({"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}})
            case {"type": "thinking", "thinking": str(text)} if text:
                thoughts.append(text)
        detail = thinking_detail(block, len(details), len(calls)) if isinstance(block, dict) else None
        if detail is not None:
            details.append(detail)
    answer: dict[str, Any] = {"role": "assistant", "content": "".join(texts) or None, "refusal": None}
    reason = finish_reason(message.get("stop_reason"))
    if reason == "content_filter":
        answer["refusal"] = refusal_of(message)
    if calls:
        answer["tool_calls"] = calls
    elif answer["content"] is None:
        answer["content"] = ""
    if thoughts:
        answer["reasoning"] = "\n\n".join(thoughts)
    if details:
        answer["reasoning_details"] = details
    usage = message.get("usage")
    return encode(
        {
            "id": message.get("id") or "",
            "object": "chat.completion",
            "created": created,
            "model": message.get("model") or "",
            "choices": [{"index": 0, "message": answer, "logprobs": None, "finish_reason": reason}],
            "usage": usage_of(usage if isinstance(usage, dict) else {}),
        }
    )


def models(value: Any) -> bytes:
    """The list of models, or one of them. Raises ToolCallError where it is neither."""
    if isinstance(value, dict) and isinstance(value.get("data"), list):
        data = [_model(item) for item in value["data"] if isinstance(item, dict)]
        return encode({"object": "list", "data": data})
    if isinstance(value, dict) and isinstance(value.get("id"), str):
        return encode(_model(value))
    raise ToolCallError("upstream_error", "The upstream's answer is no list of models.")


def _model(item: Mapping[str, Any]) -> dict[str, Any]:
    known = {"id": item.get("id"), "object": "model", "created": 0, "owned_by": "anthropic"}
    return {**known, **{name: value for name, value in item.items() if name not in {"type", "object"}}}


def error(data: bytes, status: int) -> tuple[int, bytes]:
    """An error of the API, or of the host, in OpenAI's envelope; its status, type and text stay.

    A prompt that is too long gets OpenAI's code: by that clients know that they must shorten it.
    """
    fault = read_error(data, status)
    if fault.code is None and is_context_error(fault):
        fault.code = CONTEXT
    return status, fault.body()


def stream_error(data: bytes) -> ToolCallError:
    """An error event. It has no status of its own: the one that its type stands for becomes its code."""
    fault = read_error(data)
    status = _STATUS.get(fault.type)
    if fault.code is not None or status is None:
        return fault
    return ToolCallError(status, fault.message, param=fault.param, status=status, type=fault.type, extra=fault.extra)


# -- Anthropic's event stream as chat-completion chunks; each delta leaves with the event that brought it --------------


OnEvent = Callable[[bytes, Mapping[str, Any]], None]
"""Takes the bytes of an event, and its data."""
_MAX_THINKING = 8 * 1024 * 1024
"""Characters of a thinking block that are kept to be given back with its signature."""


class AnthropicStream:
    """One answer. Bytes of events in, bytes of chunks out. on_event: is told each event, before its chunks leave."""

    def __init__(
        self, *, created: int, include_usage: bool, limit: int | None = None, on_event: OnEvent | None = None
    ) -> None:
        self._reader = EventReader(limit)
        self._on_event = on_event
        self._created = created
        self._include_usage = include_usage
        self._id = ""
        self._model = ""
        self._usage: dict[str, Any] = {}
        self._shell: Shell | None = None
        self._begun = False
        self._calls = 0
        self._details = 0
        self._blocks: dict[Any, _Block] = {}
        self._stop_reason: Any = None
        self._refusal: str | None = None
        self.done = False

    def feed(self, data: bytes) -> bytes:
        """What leaves with the next bytes. Raises ToolCallError for an event without end."""
        if self.done:
            return b""
        try:
            events = self._reader.feed(data)
        except TooLargeError:
            raise ToolCallError("upstream_error", "An event of the upstream's stream is too large.") from None
        return b"".join([self._on(item) for item in events])

    def finish(self, *, cut: bool) -> bytes:
        """The stream is over."""
        if self.done:
            return b""
        out = b"".join([self._on(item) for item in self._reader.finish()])
        if cut or self.done:
            return out
        if self._stop_reason is not None:
            # All was said but the last word.
            return out + self._end()
        self.done = True
        fault = ToolCallError("upstream_error", "The upstream's stream broke off before the answer was complete.")
        return out + fault.sse() + DONE

    def _on(self, item: ServerEvent) -> bytes:
        if self.done or item.data is None:
            return b""
        value = read_value(item.data)
        if not isinstance(value, dict):
            return b""
        if self._on_event is not None:
            self._on_event(item.raw, value)
        index = value.get("index")
        index = index if isinstance(index, int) else None
        match value.get("type"):
            case "message_start":
                return self._start(value.get("message"))
            case "content_block_start":
                return self._block_start(index, value.get("content_block"))
            case "content_block_delta":
                return self._delta(index, value.get("delta"))
            case "content_block_stop":
                return self._block_stop(index)
            case "message_delta":
                self._message_delta(value)
                return b""
            case "message_stop":
                return self._end()
            case "error":
                self.done = True
                return stream_error(item.data).sse() + DONE
        if "error" in value and "type" not in value:
            self.done = True
            return stream_error(item.data).sse() + DONE
        return b""  # ping, and what is not known yet

    def _start(self, message: Any) -> bytes:
        fields = message if isinstance(message, dict) else {}
        self._id = str(fields.get("id") or "")
        self._model = str(fields.get("model") or "")
        if isinstance(fields.get("usage"), dict):
            self._usage.update(fields["usage"])
        return self._role()

    def _role(self) -> bytes:
        if self._begun:
            return b""
        self._begun = True
        return self._chunk({"role": "assistant", "content": ""})

    def _block_start(self, index: Any, content: Any) -> bytes:
        fields = content if isinstance(content, dict) else {}
        block = _Block(str(fields.get("type") or ""))
        self._blocks[index] = block
        out = self._role()
        match fields:
            case {"type": "text", "text": str(text)} if text:
                return out + self._text(text)
            case {"type": "thinking", "thinking": str(text)} if text:
                return out + self._thought(block, text)
            case {"type": "redacted_thinking"}:
                return out + self._detail(fields)
            case {"type": "tool_use", "id": str(call_id), "name": str(name)}:
                block.call = self._calls
                self._calls += 1
                # Whole at once is allowed, too.
                block.given = fields.get("input") or {}
                call = {"index": block.call, "id": call_id, "type": "function"}
                return out + self._chunk({"tool_calls": [{**call, "function": {"name": name, "arguments": ""}}]})
        return out

    def _delta(self, index: Any, delta: Any) -> bytes:
        block = self._blocks.get(index)
        if block is None or not isinstance(delta, dict):
            return b""
        match delta:
            case {"type": "text_delta", "text": str(text)} if text:
                return self._text(text)
            case {"type": "input_json_delta", "partial_json": str(text)} if text and block.call is not None:
                block.begun = True
                return self._arguments(block.call, text)
            case {"type": "thinking_delta", "thinking": str(text)} if text:
                return self._thought(block, text)
            case {"type": "signature_delta", "signature": str(signature)}:
                block.signature += signature
        return b""

    def _block_stop(self, index: Any) -> bytes:
        block = self._blocks.pop(index, None)
        if block is None:
            return b""
        if block.call is not None and not block.begun:
            return self._arguments(block.call, encode(block.given).decode())
        if block.kind == "thinking" and block.size <= _MAX_THINKING:
            return self._detail({"type": "thinking", "thinking": "".join(block.thinking), "signature": block.signature})
        return b""

    def _message_delta(self, value: dict[str, Any]) -> None:
        delta = value.get("delta")
        if isinstance(delta, dict):
            self._stop_reason = delta.get("stop_reason") or self._stop_reason
            self._refusal = refusal_of(delta)
        usage = value.get("usage")
        if isinstance(usage, dict):
            # Cumulative; what is null here stays as it was at the start.
            self._usage.update({name: count for name, count in usage.items() if count is not None})

    def _end(self) -> bytes:
        self.done = True
        out = self._role()
        reason = finish_reason(self._stop_reason)
        if reason == "content_filter" and self._refusal is not None:
            out += self._chunk({"refusal": self._refusal})
        out += self._last_chunk(reason)
        if self._include_usage:
            out += event(encode({**self._head(), "choices": [], "usage": usage_of(self._usage)}))
        return out + DONE

    # -- what leaves -----------------------------------------------------------------------------------------------

    def _text(self, text: str) -> bytes:
        return self._chunk({"content": text})

    def _thought(self, block: _Block, text: str) -> bytes:
        block.size += len(text)
        if block.size <= _MAX_THINKING:
            block.thinking.append(text)
        return self._chunk({"reasoning": text})

    def _detail(self, block: dict[str, Any]) -> bytes:
        detail = thinking_detail(block, self._details, self._calls)
        if detail is None:
            return b""
        self._details += 1
        return self._chunk({"reasoning_details": [detail]})

    def _arguments(self, call: int, text: str) -> bytes:
        return self._chunk({"tool_calls": [{"index": call, "function": {"arguments": text}}]})

    def _head(self) -> dict[str, Any]:
        return {
            "id": self._id,
            "object": "chat.completion.chunk",
            "created": self._created,
            "model": self._model,
        }

    def _chunk(self, delta: dict[str, Any]) -> bytes:
        if self._shell is None:
            # What is around the delta is the same in all chunks of an answer.
            top = {name: raw(value) for name, value in self._head().items()}
            self._shell = Shell(top, {"index": raw(0), "delta": NULL, "logprobs": NULL})
        return self._shell.around(encode(delta))

    def _last_chunk(self, reason: str) -> bytes:
        choice = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": reason}
        return event(encode({**self._head(), "choices": [choice]}))


class _Block(msgspec.Struct):
    """A content block that is open. `call`: the index of its call, if it is one."""

    kind: str
    call: int | None = None
    begun: bool = False
    given: Any = None
    thinking: list[str] = msgspec.field(default_factory=list)
    size: int = 0
    signature: str = ""
