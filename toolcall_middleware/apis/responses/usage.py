"""The usage of a chat completion in the words of Responses."""

from __future__ import annotations

from typing import Any

import msgspec

from ...wire import openai


def response_usage(usage: Usage | None) -> dict[str, Any]:
    """The usage of a chat completion in the words of Responses. What was not counted is 0: clients add it up."""
    usage = usage or Usage()
    prompt, completion = _count(usage.prompt_tokens), _count(usage.completion_tokens)
    read, written = usage.prompt_tokens_details, usage.completion_tokens_details
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": _detail(read, "cached_tokens"), "cache_write_tokens": 0},
        "output_tokens": openai.output_tokens(msgspec.structs.asdict(usage)) or completion,
        "output_tokens_details": {"reasoning_tokens": _detail(written, "reasoning_tokens")},
        "total_tokens": _count(usage.total_tokens) or prompt + completion,
    }


class Usage(msgspec.Struct, gc=False):
    """The usage of a chat completion, as backends write it."""

    prompt_tokens: Any = 0
    completion_tokens: Any = 0
    total_tokens: Any = 0
    prompt_tokens_details: Any = None
    completion_tokens_details: Any = None


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0


def _detail(details: Any, name: str) -> int:
    return _count(details.get(name)) if isinstance(details, dict) else 0
