"""Errors as a Responses client understands them: before the stream a status and OpenAI's envelope, in it
`response.failed` with a code.

The codes and statuses decide who tries again. Codex shows a 400 and the code `invalid_prompt` at once, and repeats
nearly everything else up to thirty times; it goes on with a compacted conversation at `context_length_exceeded`.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ...errors import ToolCallError, status_of
from ..face import FaceReply

CONTEXT = "context_length_exceeded"
_ERROR_HEADER = b"x-toolcall-error"
_MODEL_FAULTS = frozenset(
    {"unknown_tool_call", "malformed_tool_arguments", "invalid_tool_arguments", "tool_choice_not_satisfied"}
)
_QUOTA = "insufficient_quota"
_OVERLOADED = "server_is_overloaded"
_CONTEXT_CODES = frozenset({CONTEXT, "exceed_context_size_error", "context_window_exceeded", "prompt_too_long"})
_MAX_READ = 4000

# What engines say of a prompt that is too long: OpenAI and vLLM ("maximum context length is N tokens", "longer than the
# maximum model length"), llama.cpp ("exceeds the available context size"), llama-cpp-python ("exceed context window"),
# SGLang ("longer than the model's context length"), Ollama and LM Studio ("exceeds the context length", "context length
# of only"), TGI ("`inputs` tokens + `max_new_tokens` must be <="), Anthropic ("prompt is too long"), Google ("exceeds
# the maximum number of tokens allowed").
_CONTEXT = re.compile(
    r"maximum context length|maximum model length|max(?:imum)?_?model_?len|available context size"
    r"|exceeds?\b[^.]{0,80}\bcontext|longer than\b[^.]{0,80}\bcontext"
    r"|context (?:length|window|size)\b[^.]{0,60}\bexceed"
    r"|context length of only|prompt is too long|too many tokens|maximum number of tokens allowed"
    r"|`inputs` tokens \+ `max_new_tokens`|`inputs` must have less than",
    re.IGNORECASE,
)


def is_context_error(error: ToolCallError) -> bool:
    """Whether a backend says that the prompt does not fit its context window."""
    if error.code in _CONTEXT_CODES or error.type in _CONTEXT_CODES:
        return True
    refused = error.status in (400, 413, 422) or error.status >= 500
    return refused and not _is_ours(error.code) and _CONTEXT.search(error.message[:_MAX_READ]) is not None


def error_reply(error: ToolCallError, param: Callable[[str | None], str | None]) -> FaceReply:
    """The HTTP answer for an error. param: a path in the chat completion as the client's."""
    told = _told(error, param)
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in told.headers.items()]
    if _is_ours(error.code):
        headers.append((_ERROR_HEADER, str(error.code).encode("latin-1")))
    return FaceReply(status=told.status, body=told.body(), headers=tuple(headers))


def failed_code(error: ToolCallError) -> str:
    """The code of `response.failed`, for an error within a stream."""
    if is_context_error(error):
        return CONTEXT
    if error.code == _QUOTA or error.type == _QUOTA:
        return _QUOTA
    if error.code in _MODEL_FAULTS:
        return "invalid_prompt"
    match error.status:
        case 429:
            return "rate_limit_exceeded"
        case 503:
            return _OVERLOADED
        case status if status < 500 and status != 408:
            return "invalid_prompt"  # the same request would be refused again
    return "server_error"


def _told(error: ToolCallError, param: Callable[[str | None], str | None]) -> ToolCallError:
    code, status = error.code, error.status
    if is_context_error(error):
        code, status = CONTEXT, 400
    elif code in _MODEL_FAULTS:
        status = 400
    return ToolCallError(
        code,
        error.message,
        param=param(error.param),
        status=status,
        type="invalid_request_error" if code == CONTEXT else error.type,
        headers=error.headers,
        extra=error.extra,
    )


def _is_ours(code: object) -> bool:
    """Whether the code stands in our own table of errors, and not in a backend's."""
    return isinstance(code, str) and (code == "upstream_error" or status_of(code) != status_of(None))
