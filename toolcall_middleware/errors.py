"""Every error that a client can see: its code, its HTTP status and its OpenAI-shaped body.

The table is the public contract; nothing else in the package chooses a status.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

_STATUS: dict[str, int] = {
    "invalid_json": 400,
    "invalid_request": 400,
    "invalid_tool_schema": 400,
    "invalid_tool_choice": 400,
    "invalid_tool_call_id": 400,
    "invalid_message_order": 400,
    "tool_schema_incompatible": 400,
    "too_many_tools": 400,
    "tool_not_allowed": 403,
    "model_not_found": 404,
    "limit_exceeded": 400,
    "request_too_large": 413,
    "request_timeout": 408,
    "rate_limit_exceeded": 429,
    "rate_limit_unavailable": 503,
    "unknown_tool_call": 422,
    "malformed_tool_arguments": 422,
    "invalid_tool_arguments": 422,
    "tool_choice_not_satisfied": 422,
    "upstream_error": 502,
    "upstream_timeout": 504,
    "invalid_api_key": 401,
}

_MODEL_FAULTS = frozenset(
    {"unknown_tool_call", "malformed_tool_arguments", "invalid_tool_arguments", "tool_choice_not_satisfied"}
)
_UPSTREAM_FAULTS = frozenset({"upstream_error", "upstream_timeout"})


class SettingsError(ValueError):
    """A setting is unknown or has a bad value. The message names it and says what is allowed."""


class FormatError(ValueError):
    """A format is unknown or cannot be loaded. The message names it and lists what there is."""


class ToolCallError(Exception):
    """An error for the client.

    `code` is one of this package's codes, which decide status and type (docs: reference, errors); a backend's own error
    keeps its own code, and then `status` and `type` are given.
    `param` is a path such as `tools[1].function.parameters`, or None.
    `extra` fields are added to the error object. `headers` are added to the HTTP answer.
    """

    def __init__(
        self,
        code: str | int | None,
        message: str,
        *,
        param: str | None = None,
        status: int | None = None,
        type: str | None = None,  # noqa: A002 - the wire's own name
        headers: dict[str, str] | None = None,
        extra: dict[str, Any] | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.param = param
        self.status = _STATUS[str(code)] if status is None else status
        self.type = _type_of(code, self.status) if type is None else type
        self.headers = dict(headers or {})
        if code in _MODEL_FAULTS:
            # The OpenAI SDKs obey this header; without it some clients repeat a request twenty times.
            self.headers.setdefault("x-should-retry", "false")
        self.extra = dict(extra or {})
        self.written = ""  # what the model wrote, where it is the model's fault

    def body(self) -> bytes:
        """The JSON body `{"error": {"message", "type", "param", "code"}}`."""
        return error_body(self.message, type=self.type, param=self.param, code=self.code, extra=self.extra)

    def sse(self) -> bytes:
        """The same as one SSE event, for a response that has already started (`[DONE]` is not included)."""
        return b"data: " + self.body() + b"\n\n"


def error_body(
    message: str,
    *,
    type: str,  # noqa: A002 - the wire's own name
    param: str | None = None,
    code: str | int | None = None,
    extra: dict[str, Any] | None = None,
) -> bytes:
    """The OpenAI error envelope as JSON bytes."""
    body = {"error": {"message": message, "type": type, "param": param, "code": code, **(extra or {})}}
    try:
        return msgspec.json.encode(body)
    except UnicodeEncodeError:
        # Half an emoji, as a model or a backend may write it, has no bytes: it stays an escape.
        return json.dumps(body).encode()


def status_of(code: Any) -> int:
    """The HTTP status for an error that a backend put into a stream, by its `code`: often the status itself."""
    if isinstance(code, int) and 400 <= code < 600:
        return code
    return _STATUS.get(code, 502) if isinstance(code, str) else 502


def is_ours(code: Any) -> bool:
    """Whether the code stands in this table, and not in a backend's."""
    return isinstance(code, str) and code in _STATUS


def _type_of(code: str | int | None, status: int) -> str:
    if code in _MODEL_FAULTS:
        return "model_error"
    if code in _UPSTREAM_FAULTS:
        return "upstream_error"
    if code == "tool_schema_incompatible":
        return "semantic_error"
    return _type_of_status(status)


def _type_of_status(status: int) -> str:
    """`invalid_request_error` for 4xx, `upstream_error` for 5xx."""
    return "invalid_request_error" if status < 500 else "upstream_error"


def kind(value: Any) -> str:
    """What JSON calls the type of `value`."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list():
            return "an array"
    return "an object"


def shown(value: Any) -> str:
    """`value` for an error message: short, on one line, and never more than a hint of what the client sent."""
    if isinstance(value, str):
        return repr(value if len(value) <= 80 else value[:77] + "...")
    if value is None or isinstance(value, int | float):
        return json.dumps(value)[:40]
    return kind(value)
