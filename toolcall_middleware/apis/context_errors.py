"""What a backend says when a prompt, or a prompt and the answer's limit, does not fit into its context.

Each engine has its own words. Claude Code compacts a conversation when it reads `prompt is too long: N tokens > M
maximum`, so all of them become that.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ..errors import ToolCallError, is_ours

CONTEXT = "context_length_exceeded"
"""OpenAI's code, by which clients know that they must shorten a conversation."""
_STATUSES = frozenset({400, 413, 422})
_CODES = frozenset({CONTEXT, "exceed_context_size_error", "context_window_exceeded", "prompt_too_long"})
"""Codes and types that say it: OpenAI and most others, llama.cpp, LM Studio, Mistral."""
_MOST_READ = 4000

# What engines say of a prompt that is too long: OpenAI and vLLM ("maximum context length is N tokens", "longer than the
# maximum model length", "greater than max_model_len"), llama.cpp ("exceeds the available context size"),
# llama-cpp-python ("exceed context window"), SGLang ("longer than the model's context length"), Ollama and LM Studio
# ("exceeds the context length", "context length of only"), TGI ("`inputs` tokens + `max_new_tokens` must be <=" and so
# on), Anthropic ("prompt is too long"), Bedrock ("Input is too long"), Google ("exceeds the maximum number of tokens
# allowed").
_SAYS_SO = re.compile(
    r"maximum context length|maximum model length|max(?:imum)?_?model_?len|available context size"
    r"|exceeds?\b[^.]{0,80}\bcontext|longer than\b[^.]{0,80}\bcontext"
    r"|context (?:length|window|size)\b[^.]{0,60}\bexceed"
    r"|context length of only|(?:prompt|input) is too long|too many tokens|maximum number of tokens allowed"
    r"|`inputs` tokens \+ `max_new_tokens`|`inputs` must have less than",
    re.IGNORECASE,
)
_LIMITS = (
    r"maximum context length (?:is|of) (\d{1,12})",  # OpenAI, vLLM, SGLang
    r"context size \((\d{1,12}) tokens",  # llama.cpp
    r"context length (?:of )?(?:only )?\(?(\d{1,12})",  # SGLang, LM Studio
    r"max_model_len ?[=:]? ?\(?(\d{1,12})",  # vLLM
    r"> (\d{1,12}) maximum",  # Anthropic
    r"tokens allowed \((\d{1,12})\)",  # Google
    r"must be <= (\d{1,12})",  # TGI
)
_PROMPTS = (
    r"prompt contains (?:at least )?(\d{1,12}) input tokens",  # vLLM
    r"has (\d{1,12}) input tokens",
    r"(\d{1,12}) (?:tokens )?in (?:the messages|your prompt)",  # OpenAI, older vLLM
    r"messages resulted in (\d{1,12}) tokens",
    r"(\d{1,12}) tokens from the input messages",  # SGLang
    r"input \((\d{1,12}) tokens\)",
    r"request \((\d{1,12}) tokens\)",  # llama.cpp
    r"prompt is too long: (\d{1,12}) tokens",
    r"input token count \((\d{1,12})\)",
    r"Given: (\d{1,12}) `inputs` tokens",
)
_TOTALS = (r"requested (?:a total of )?(\d{1,12}) tokens",)
_OF_ANSWER = re.compile(
    r"max_(?:completion_|new_|output_)?tokens|(?:in|for) the completion|output tokens", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class ContextFault:
    """A refusal because the context is too small. The numbers are tokens, None if the backend does not name them.

    by_answer: it mentions the answer's limit, too.
    """

    limit: int | None
    prompt: int | None
    total: int | None
    by_answer: bool

    @property
    def room(self) -> int | None:
        """The tokens that an answer can have; 0 if the prompt alone is too long, None if that is not known."""
        if self.limit is None or self.prompt is None:
            return None
        return max(0, self.limit - self.prompt)

    def message(self, said: str) -> str:
        """The error as agents understand it, with what the backend said."""
        asked = self.prompt if self.prompt is not None and self.prompt > (self.limit or 0) else self.total
        if self.limit is None or asked is None or asked <= self.limit:
            return said if said.lower().startswith("prompt is too long") else f"prompt is too long: {said}"
        summary = f"prompt is too long: {asked} tokens > {self.limit} maximum"
        return said if said.startswith(summary) else f"{summary} ({said})"


def is_context_error(error: ToolCallError) -> bool:
    """Whether a backend says that the prompt, or the prompt and the answer's limit, does not fit its context window."""
    if error.status not in _STATUSES and error.status < 500:
        return False
    if error.code in _CODES or error.type in _CODES:
        return True
    return not is_ours(error.code) and _SAYS_SO.search(error.message[:_MOST_READ]) is not None


def context_fault(error: ToolCallError) -> ContextFault | None:
    """The numbers in a backend's error about the context; None for any other error."""
    if not is_context_error(error):
        return None
    said = error.message[:_MOST_READ]
    return ContextFault(
        limit=_number(error.extra.get("n_ctx")) or _first(_LIMITS, said),
        prompt=_number(error.extra.get("n_prompt_tokens")) or _first(_PROMPTS, said),
        total=_first(_TOTALS, said),
        by_answer=_OF_ANSWER.search(said) is not None,
    )


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _first(patterns: tuple[str, ...], text: str) -> int | None:
    for pattern in patterns:
        if found := re.search(pattern, text, re.IGNORECASE):
            return int(found[1])
    return None
