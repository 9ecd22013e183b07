"""Token counts and stop reasons of a chat answer as Messages has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

_REASONS = {"length": "max_tokens", "content_filter": "refusal", "model_length": "model_context_window_exceeded"}
"""`model_length` is Mistral's word for a context that is full."""


def usage_of(usage: Any, *, input_estimate: int, output_estimate: int) -> dict[str, Any]:
    """The `usage` object. Where the chat answer has none, both numbers are estimates: clients need them to be there."""
    numbers = usage if isinstance(usage, dict) else {}
    prompt = _count(numbers.get("prompt_tokens"))
    written = _count(numbers.get("completion_tokens"))
    cached = min(_count(_detail(numbers, "prompt_tokens_details", "cached_tokens")) or 0, prompt or 0)
    made: dict[str, Any] = {
        "input_tokens": input_estimate if prompt is None else prompt - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": output_estimate if written is None else written,
    }
    thought = _count(_detail(numbers, "completion_tokens_details", "reasoning_tokens"))
    if thought:
        made["output_tokens_details"] = {"thinking_tokens": min(thought, made["output_tokens"])}
    return made


def _detail(numbers: dict[str, Any], group: str, name: str) -> Any:
    details = numbers.get(group)
    return details.get(name) if isinstance(details, dict) else None


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def stop_of(reason: str, *, calls: int, refused: bool, matched: Any, stops: Sequence[str]) -> tuple[str, str | None]:
    """`stop_reason` and `stop_sequence` for a chat answer's `finish_reason`.

    calls: how many calls it has. refused: it holds a refusal. matched: what the backend says ended it; a string where
    it was a stop string (vLLM's `stop_reason`, SGLang's `matched_stop`).
    """
    if reason in _REASONS:
        return _REASONS[reason], None
    if calls:
        return "tool_use", None
    if refused:
        return "refusal", None
    if isinstance(matched, str) and matched in stops:
        return "stop_sequence", matched
    return "end_turn", None
