"""Errors as Messages has them: `{"type": "error", "error": {"type", "message"}, "request_id"}`.

Clients go by the status and the type. A fault of the model is told as 500 with `x-should-retry: false`: Claude Code
asks six times after a 400 or 422, and once after that.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from ....errors import ToolCallError, is_ours
from ....model import DEFERRED_FIELD
from ....wire import openai
from ...context_errors import context_fault
from ...face import FaceReply

_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_HEADER_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_HEADER = re.compile(r"[\x20-\x7e]{0,1000}")
_PLACE = re.compile(rf"(messages|tools|{DEFERRED_FIELD})\[(\d{{1,9}})\](.*)", re.DOTALL)
_STEP = re.compile(r"\[(\d+)\]")
_NAMES = {
    "stop": "stop_sequences",
    "response_format": "output_config.format",
    "reasoning_effort": "output_config.effort",
    "stream_options": "stream",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
    "max_completion_tokens": "max_tokens",
}
JSON = (b"content-type", b"application/json")


class Errors:
    """Writes the errors of one request.

    paths: where the client has each item of a list of the chat completion (`messages`, `tools`, `DEFERRED_FIELD`).
    """

    def __init__(self, request_id: str) -> None:
        self._request_id = request_id
        self.paths: Mapping[str, Sequence[str]] = {}

    def reply(self, error: ToolCallError) -> FaceReply:
        """The error as an HTTP answer."""
        status, kind, message = self._told(error)
        headers = {name.lower(): value for name, value in error.headers.items()}
        headers.pop("content-type", None)
        if status != error.status and status >= 500:
            headers["x-should-retry"] = "false"  # it was no fault of a server's: to ask again changes nothing
        if is_ours(error.code):
            headers["x-toolcall-error"] = str(error.code)
        named = tuple(
            (name.encode("ascii"), value.encode("ascii")) for name, value in headers.items() if _sendable(name, value)
        )
        body = self._body(kind, message, error)
        return FaceReply(status=status, body=body, headers=(JSON, (b"request-id", self._request_id.encode()), *named))

    def event(self, error: ToolCallError) -> bytes:
        """The error as the last event of a stream that has begun."""
        _, kind, message = self._told(error)
        return b"event: error\ndata: " + self._body(kind, message, error) + b"\n\n"

    def _body(self, kind: str, message: str, error: ToolCallError) -> bytes:
        told: dict[str, Any] = {"type": kind, "message": message}
        if isinstance(error.extra.get("details"), dict):
            told["details"] = error.extra["details"]
        return openai.encode({"type": "error", "error": told, "request_id": self._request_id})

    def _told(self, error: ToolCallError) -> tuple[int, str, str]:
        """(status, type, message)."""
        if error.type == "model_error":
            return 500, "api_error", error.message
        fault = context_fault(error)
        if fault is not None:
            return 400, "invalid_request_error", fault.message(error.message)
        status, message = error.status, self._placed(error)
        if status == 404 and not _is_of_model(error):
            # To Claude Code a 404 is a wrong name of a model, whatever it says.
            status = 502
        kind = _TYPES.get(status) or ("invalid_request_error" if status < 500 else "api_error")
        return status, kind, message

    def _placed(self, error: ToolCallError) -> str:
        """The message behind the path of its field, as the API writes them."""
        path = self.path_of(error.param) if error.param else ""
        return f"{path}: {error.message}" if path and not error.message.startswith(path) else error.message

    def path_of(self, param: str) -> str:
        """The client's path for a `param` of a chat completion's; a path of ours stays."""
        found = _PLACE.match(param)
        if found is None:
            head, dot, rest = param.partition(".")
            return _NAMES.get(head, f"{head}{dot}{rest}" if head == param or head.isidentifier() else param)
        paths = self.paths.get(found[1], ())
        number, rest = int(found[2]), found[3]
        if number >= len(paths):
            return found[1] if found[1] == "messages" else "tools"
        if found[1] == "messages":
            return paths[number]
        rest = rest.removeprefix(".function").replace(".parameters", ".input_schema", 1)
        return paths[number] + _STEP.sub(r".\1", rest)


def is_error(body: bytes) -> bool:
    """Whether the JSON is an error as this API writes them."""
    fields = openai.read_object(body) or {}
    return openai.read_text(fields.get("type")) == "error" and openai.read_object(fields.get("error")) is not None


def _is_of_model(error: ToolCallError) -> bool:
    return error.code == "model_not_found" or "model" in error.message.lower()


def _sendable(name: str, value: str) -> bool:
    return bool(_HEADER_NAME.fullmatch(name)) and bool(_HEADER.fullmatch(value))
