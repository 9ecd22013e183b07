"""Anthropic's answers as chat completions: whole ones, lists of models, errors, and what streams share with them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ....errors import ToolCallError
from ....wire.openai import encode, read_error, read_object, read_objects, read_value
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
