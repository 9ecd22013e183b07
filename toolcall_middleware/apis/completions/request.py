"""A chat completion's body as a text completion's: the prompt in the place of the messages, every other field as it is
called there. What concerns only a chat, and was used to write the prompt, is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from ...wire import openai

_ONLY_CHAT = frozenset(
    {
        *("messages", "tools", "tool_choice", "parallel_tool_calls", "functions", "function_call"),
        *("chat_template", "chat_template_kwargs", "add_generation_prompt", "continue_final_message", "documents"),
        *("reasoning", "reasoning_effort", "include_reasoning", "separate_reasoning", "stream_reasoning", "thinking"),
        *("modalities", "audio", "prediction", "verbosity", "web_search_options", "mm_processor_kwargs"),
        *("max_completion_tokens", "max_tokens", "logprobs", "top_logprobs", "add_special_tokens"),
    }
)
_PRESERVED = "preserved_tokens"
_LEAST_LOGPROBS = 1
"""llama.cpp takes 0 for none at all."""


def completion_body(
    body: bytes, prompt: str, *, stop: Sequence[str] = (), preserved: Sequence[str] = (), llama_cpp: bool = False
) -> bytes:
    """The body for `/v1/completions`.

    body: a chat completion's, whose fields keep their bytes. stop: strings at which the backend ends, beside those of
    the body. preserved: special tokens that are to be text, for a body that wants them so (`skip_special_tokens`).
    llama_cpp: the backend is known to be its server.
    """
    given = openai.read_object(body) or {}
    fields: dict[str, Any] = {}
    for name, value in given.items():
        if name == "messages":
            fields["prompt"] = prompt
        elif name not in _ONLY_CHAT:
            fields[name] = value
    # A text completion of OpenAI's API ends after 16 tokens where nothing is said, a chat completion does not. Engines
    # take null for no limit (vLLM, llama.cpp, llama-cpp-python).
    fields["max_tokens"] = _limit(given)
    if openai.read_value(given.get("logprobs")) is True:
        fields["logprobs"] = max(wanted_logprobs(body) or 0, _LEAST_LOGPROBS)
    # The template writes the token that begins a text, where the model wants one: vLLM would put another before it.
    fields["add_special_tokens"] = False
    if stop:
        fields["stop"] = _stops(given.get("stop"), stop)
    # llama.cpp's own word for it: a text completion of its has no special token else, and no call behind one.
    if preserved and _PRESERVED not in fields and openai.read_value(fields.get("skip_special_tokens")) is False:
        fields[_PRESERVED] = list(preserved)
    _name_schema(fields, llama_cpp=llama_cpp)
    return openai.encode(fields)


def wanted_logprobs(body: bytes) -> int | None:
    """How many of the likeliest tokens a chat completion wants beside each; None where it wants no logprobs."""
    given = openai.read_object(body) or {}
    if openai.read_value(given.get("logprobs")) is not True:
        return None
    wanted = openai.read_value(given.get("top_logprobs"))
    return wanted if isinstance(wanted, int) and not isinstance(wanted, bool) else 0


def _limit(given: openai.Fields) -> int | None:
    limits = [openai.read_value(given.get(name)) for name in ("max_completion_tokens", "max_tokens")]
    return min((limit for limit in limits if isinstance(limit, int)), default=None)


def _stops(own: msgspec.Raw | None, more: Sequence[str]) -> list[str]:
    value = openai.read_value(own)
    asked = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return list(dict.fromkeys([*(text for text in asked if isinstance(text, str)), *more]))


def _name_schema(fields: dict[str, Any], *, llama_cpp: bool) -> None:
    """llama.cpp reads `response_format` in chat completions only; in text completions a schema is `json_schema`. Others
    read what OpenAI's API has, `json_schema` within it; only llama.cpp is asked for a schema beside `json_object`.
    """
    match openai.read_value(fields.get("response_format")):
        case {"type": "json_object", "schema": dict() as schema}:
            pass
        case {"type": "json_schema", "json_schema": {"schema": dict() as schema}} if llama_cpp:
            pass
        case {"type": "json_object"} if llama_cpp:
            schema = {"type": "object"}
        case _:
            return
    del fields["response_format"]
    fields["json_schema"] = schema
