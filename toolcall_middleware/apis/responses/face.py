"""The face of OpenAI's Responses: `POST …/v1/responses`, stateless.

Errors before the stream are a status and OpenAI's envelope, in it `response.failed` with a code (writer.py). The codes
and statuses decide who tries again. Codex shows a 400 and the code `invalid_prompt` at once, and repeats nearly
everything else up to thirty times; it goes on with a compacted conversation at `context_length_exceeded`.
"""

from __future__ import annotations

import logging
import secrets

from ...errors import ToolCallError, is_ours
from ..context_errors import CONTEXT, is_context_error
from ..face import Face, FaceReply, FaceRequest
from .request import Asked, read_request
from .writer import ResponseWriter

_MARK_BYTES = 16
_ERROR_HEADER = b"x-toolcall-error"
_log = logging.getLogger("toolcall_middleware")


class ResponsesFace(Face):
    """One request and its answer (`Face`). mark: what is random in the answer's ids; new where it is not given.

    max_kept: see `ResponseWriter`; a response that is not streamed has no such limit.
    """

    api = "responses"

    def __init__(self, mark: str | None = None, *, max_kept: int | None = None) -> None:
        super().__init__()
        self._max_kept = max_kept
        self._mark = mark or secrets.token_hex(_MARK_BYTES)
        self._asked: Asked | None = None

    def request(self, body: bytes, /) -> FaceRequest:
        """The request as a chat completion. Raises ToolCallError for what the API forbids or what needs a memory."""
        request, self._asked = read_request(body)
        self.writer = ResponseWriter(self._asked, self._mark, self._max_kept if request.stream else None)
        if request.dropped_tools:
            names = ", ".join(name[:64] for name in request.dropped_tools)
            _log.warning("responses: tools that nobody here can run are left out: %s", names)
        return request

    def error(self, error: ToolCallError, /) -> FaceReply:
        """An error of our own, in OpenAI's envelope."""
        code, status = error.code, error.status
        if is_context_error(error):
            code, status = CONTEXT, 400
        elif error.type == "model_error":
            status = 400
        sent = ToolCallError(
            code,
            error.message,
            param=error.param if self._asked is None else self._asked.param(error.param),
            status=status,
            type="invalid_request_error" if code == CONTEXT else error.type,
            headers=error.headers,
            extra=error.extra,
        )
        headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in sent.headers.items()]
        if is_ours(error.code):
            headers.append((_ERROR_HEADER, str(error.code).encode("latin-1")))
        return FaceReply(status=sent.status, body=sent.body(), headers=tuple(headers))
