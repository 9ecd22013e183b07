"""Every error that a client can see: its code, its HTTP status and its OpenAI-shaped body.

The table is the public contract; nothing else in the package chooses a status.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec


class _Code(NamedTuple):
    """A row of the table. `type`: None for the one that its status has. `when`: for the documentation."""

    status: int
    type: str | None
    when: str


CODES: dict[str, _Code] = {
    "invalid_json": _Code(400, None, "the body is not JSON, or no object"),
    "invalid_request": _Code(400, None, "a field has a wrong type or value"),
    "invalid_tool_schema": _Code(
        400, None, "parameters are no JSON Schema of an object, or cannot be checked; bad or double names"
    ),
    "invalid_tool_choice": _Code(400, None, "it names a tool that is not offered, or asks for one where none is"),
    "invalid_tool_call_id": _Code(400, None, "a tool message answers no earlier call"),
    "invalid_message_order": _Code(400, None, "a tool message does not follow the message with its call"),
    "tool_schema_incompatible": _Code(400, "semantic_error", "the upstream's API cannot express a tool's schema"),
    "too_many_tools": _Code(400, None, "more than `max_tools`"),
    "tool_not_allowed": _Code(403, None, "a tool is not in the allowlist"),
    "model_not_found": _Code(404, None, "no upstream of `upstreams_file` serves the request's model"),
    "limit_exceeded": _Code(400, None, "one of the other limits"),
    "request_too_large": _Code(413, None, "more than `max_request_bytes`"),
    "request_timeout": _Code(408, None, "the request's body does not come within `upload_timeout`"),
    "rate_limit_exceeded": _Code(429, None, "too many tool calls, requests or tokens in a time"),
    "rate_limit_unavailable": _Code(503, None, "the rates' storage is down, under `rate_limit_failure=closed`"),
    "unknown_tool_call": _Code(422, "model_error", "the model called what is not offered, under `unknown_tool=error`"),
    "malformed_tool_arguments": _Code(
        422,
        "model_error",
        "arguments are not a JSON object, under `malformed_arguments=error`; by default the call is text",
    ),
    "invalid_tool_arguments": _Code(422, "model_error", "arguments do not fit the tool's schema"),
    "tool_choice_not_satisfied": _Code(422, "model_error", "a call had to come, and after all tries none did"),
    "upstream_error": _Code(
        502, "upstream_error", "the backend is down, breaks off, or answers with something else than a completion"
    ),
    "upstream_timeout": _Code(504, "upstream_error", "the upstream is silent for `upstream_timeout`"),
    "invalid_api_key": _Code(401, None, "the proxy has `api_keys` and the client showed none of them"),
    "host_not_allowed": _Code(
        403, None, "the request's `Host` is not in `allowed_hosts`, or its `Origin` not in `cors_origins`"
    ),
    "unknown_url": _Code(
        404, None, "the proxy has no such path: it is not in `forward_paths`, or not translated for the upstream's API"
    ),
    "websocket_not_supported": _Code(426, None, "a WebSocket upgrade: the proxy takes HTTP requests only"),
    "method_not_allowed": _Code(405, None, "models are only looked at, by `GET`, `HEAD` and `OPTIONS`"),
    "loop_detected": _Code(508, None, "the request has already passed this proxy: an upstream's address leads back"),
}
"""Every code of ours."""
_MODEL_ERROR = "model_error"
_MOST_CARRIED = 8192  # bytes of an error that carries its JSON


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
        self.status = CODES[str(code)].status if status is None else status
        self.type = type or _own_type(code) or _type_of_status(self.status)
        self.headers = dict(headers or {})
        if _own_type(code) == _MODEL_ERROR:
            # The OpenAI SDKs obey this header; without it some clients repeat a request twenty times.
            self.headers.setdefault("x-should-retry", "false")
        self.extra = dict(extra or {})
        self.written = ""  # what the model wrote, where it is the model's fault

    def body(self) -> bytes:
        """The JSON body `{"error": {"message", "type", "param", "code"}}`."""
        fields = {"message": self.message, "type": self.type, "param": self.param, "code": self.code, **self.extra}
        return ErrorBody.of({"error": fields})

    def sse(self) -> bytes:
        """The same as one SSE event, for a response that has already started (`[DONE]` is not included)."""
        return b"data: " + self.body() + b"\n\n"


class ErrorBody(bytes):
    """The body of an error, with the JSON in it as `value`: whoever passes the body on need not parse it again.

    A change of the bytes makes plain bytes of it. A large body stays plain bytes: its JSON may take twenty times the
    memory, which a client that reads slowly would hold.
    """

    value: Any

    @classmethod
    def of(cls, value: Any) -> bytes:
        """The JSON of `value`."""
        try:
            written = msgspec.json.encode(value)
        except UnicodeEncodeError:
            # A lone surrogate, as a model or a backend may write it, has no bytes: it stays an escape.
            written = json.dumps(value).encode()
        return cls.carrying(written, lambda: value)

    @classmethod
    def carrying(cls, data: bytes, value: Callable[[], Any]) -> bytes:
        """`data` with the JSON in it, which `value` gives."""
        if isinstance(data, cls) or len(data) > _MOST_CARRIED:
            return data
        body = cls(data)
        body.value = value()
        return body


def refusal(param: str, message: str, code: str = "invalid_request", **extra: Any) -> ToolCallError:
    """The error for a field that the client has to change. param: its path. extra: more fields of the error object."""
    return ToolCallError(code, message, param=param, extra=extra)


def status_of(code: Any) -> int:
    """The HTTP status for an error that a backend put into a stream, by its `code`: often the status itself, and with
    some (LiteLLM) as a string.
    """
    if isinstance(code, str) and len(code) == len("500") and code.isdecimal():
        code = int(code)
    if isinstance(code, int) and 400 <= code < 600:
        return code
    return CODES[code].status if is_ours(code) else 502


def is_ours(code: Any) -> bool:
    """Whether the code is in this table, and so not a backend's own."""
    return isinstance(code, str) and code in CODES


def _own_type(code: str | int | None) -> str | None:
    return CODES[code].type if isinstance(code, str) and code in CODES else None


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


def on_one_line(text: str, keep: str = "") -> str:
    """`text` with control and invisible characters written out, except those in `keep`.

    A client or a model may write codes that end a line of the log, move a terminal's cursor, or colour or hide text.
    """
    return "".join([char if char.isprintable() or char in keep else ascii(char)[1:-1] for char in text])
