"""The token counts in a chat completion's usage, as the writers of other APIs need them."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..wire import openai


class Tokens(NamedTuple):
    """prompt, written: None where the backend does not count them. cached, thought: parts of these."""

    prompt: int | None
    written: int | None
    cached: int
    thought: int
    total: int


def tokens_of(usage: Any) -> Tokens:
    """The counts in a usage object; none where it is no object."""
    numbers = usage if isinstance(usage, dict) else {}
    prompt, written = _count(numbers.get("prompt_tokens")), openai.output_tokens(numbers)
    written = _count(numbers.get("completion_tokens")) if written is None else written
    return Tokens(
        prompt,
        written,
        _detail(numbers, "prompt_tokens_details", "cached_tokens"),
        _detail(numbers, "completion_tokens_details", "reasoning_tokens"),
        _count(numbers.get("total_tokens")) or (prompt or 0) + (written or 0),
    )


def _detail(numbers: dict[str, Any], group: str, name: str) -> int:
    details = numbers.get(group)
    return (_count(details.get(name)) or 0) if isinstance(details, dict) else 0


def _count(value: Any) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and value >= 0 else None
