"""Errors as a Responses client understands them: before the stream a status and OpenAI's envelope, in it
`response.failed` with a code.

The codes and statuses decide who tries again. Codex shows a 400 and the code `invalid_prompt` at once, and repeats
nearly everything else up to thirty times; it goes on with a compacted conversation at `context_length_exceeded`.
"""

from __future__ import annotations

from collections.abc import Callable

from ...errors import ToolCallError, is_ours
from ..context_errors import CONTEXT, is_context_error
from ..face import FaceReply

_ERROR_HEADER = b"x-toolcall-error"
_QUOTA = "insufficient_quota"
_OVERLOADED = "server_is_overloaded"
_MODEL_FAULT = "model_error"


def error_reply(error: ToolCallError, param: Callable[[str | None], str | None]) -> FaceReply:
    """The HTTP answer for an error. param: a path in the chat completion as the client's."""
    told = _told(error, param)
    headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in told.headers.items()]
    if is_ours(error.code):
        headers.append((_ERROR_HEADER, str(error.code).encode("latin-1")))
    return FaceReply(status=told.status, body=told.body(), headers=tuple(headers))


def failed_code(error: ToolCallError) -> str:
    """The code of `response.failed`, for an error within a stream."""
    if is_context_error(error):
        return CONTEXT
    if error.code == _QUOTA or error.type == _QUOTA:
        return _QUOTA
    if error.type == _MODEL_FAULT:
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
    elif error.type == _MODEL_FAULT:
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
