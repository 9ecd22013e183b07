"""The face of OpenAI's Responses: `POST …/v1/responses`, stateless."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec

from ...errors import ToolCallError
from ...wire import openai
from ..face import FaceReply, FaceRequest, StreamedFace
from .answer import ResponseWriter, response_usage
from .chunks import read_completion
from .errors import error_reply
from .request import Asked, read_request
from .stream import EventStream, write_choice

_MARK_BYTES = 16
_log = logging.getLogger("toolcall_middleware")


class ResponsesFace(StreamedFace):
    """One request and its answer (`Face`). mark: what is random in the answer's ids; new where it is not given.

    max_kept: see `EventStream`.
    """

    def __init__(self, mark: str | None = None, *, max_kept: int | None = None) -> None:
        super().__init__()
        self._max_kept = max_kept
        self._mark = mark or secrets.token_hex(_MARK_BYTES)
        self._asked: Asked | None = None

    @property
    def api(self) -> str:
        """As the header `x-toolcall` names it."""
        return "responses"

    def request(self, body: bytes, headers: Mapping[bytes, bytes], /) -> FaceRequest:  # noqa: ARG002 - the body says all
        """The request as a chat completion. Raises ToolCallError for what the API forbids or what needs a memory."""
        request, self._asked = read_request(body)
        if request.dropped_tools:
            names = ", ".join(name[:64] for name in request.dropped_tools)
            _log.warning("responses: tools that nobody here can run are left out: %s", names)
        return request

    def whole(self, status: int, headers: Mapping[bytes, bytes], data: bytes, /) -> FaceReply:  # noqa: ARG002 - likewise
        """A collected chat answer as a response, or its error in the form and with the status that clients expect."""
        if status >= 400:
            return self.error(openai.read_error(data, status))
        fields = openai.read_object(data)
        if fields is None or openai.is_error(fields):
            return self.error(openai.read_error(data))
        try:
            completion = read_completion(data)
            self.extension.read(data)
            writer = ResponseWriter(self._known, _Nowhere(), self._mark, self.extension)
            writer.begin(completion.model, completion.created_at)
            write_choice(writer, completion.only)
        except ToolCallError as error:
            return self.error(error)
        if writer.finish_reason is None:
            writer.finish("stop")
        writer.usage = response_usage(completion.usage)
        return FaceReply(status=status, body=msgspec.json.encode(writer.complete()))

    def error(self, error: ToolCallError, /) -> FaceReply:
        """An error of our own, in OpenAI's envelope."""
        asked = self._asked
        return error_reply(error, asked.param if asked is not None else _same)

    def stream_headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """None: those of the chat answer serve."""
        return ()

    @property
    def _known(self) -> Asked:
        assert self._asked is not None  # noqa: S101 - `request` comes first
        return self._asked

    def _new_stream(self) -> EventStream:
        return EventStream(self._known, self._mark, self.extension, max_kept=self._max_kept)


class _Nowhere:
    """A whole answer has no events."""

    def emit(self, name: str, fields: dict[str, Any]) -> None:
        pass

    def delta(self, head: bytes, text: str) -> None:
        pass


def _same(param: str | None) -> str | None:
    return param
