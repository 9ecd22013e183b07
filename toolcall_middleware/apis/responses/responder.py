"""The face of OpenAI's Responses: `POST …/v1/responses`, stateless."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec

from ...errors import ToolCallError
from ...wire import openai
from ..face import ChatRequest, FaceReply
from .answer import ResponseWriter, response_usage
from .chunks import read_completion
from .errors import error_reply
from .request import Asked, read_request
from .stream import EventStream, write_choice

_MARK_BYTES = 16
_log = logging.getLogger("toolcall_middleware")


class ResponsesFace:
    """One request and its answer (`Face`). mark: what is random in the answer's ids; new where it is not given."""

    def __init__(self, mark: str | None = None) -> None:
        self._mark = mark or secrets.token_hex(_MARK_BYTES)
        self._asked: Asked | None = None
        self._stream: EventStream | None = None

    @property
    def api(self) -> str:
        """As the header `x-toolcall` names it."""
        return "responses"

    def request(self, body: bytes, headers: Mapping[bytes, bytes], /) -> ChatRequest:  # noqa: ARG002 - the body says all
        """The request as a chat completion. Raises ToolCallError for what the API forbids or what needs a memory."""
        request, self._asked = read_request(body)
        if request.dropped_tools:
            names = ", ".join(name[:64] for name in request.dropped_tools)
            _log.warning("responses: tools that nobody here can run are left out: %s", names)
        return request

    def relaxed(self, status: int, data: bytes, /) -> ChatRequest | None:  # noqa: ARG002 - as a face
        """None: clients of this API send only what they were told to."""
        return None

    def whole(self, status: int, headers: Mapping[bytes, bytes], data: bytes, /) -> FaceReply:  # noqa: ARG002 - likewise
        """A collected chat answer as a response, or its error in the form and with the status that clients expect."""
        if status >= 400:
            return self.error(openai.read_error(data, status))
        fields = openai.read_object(data)
        if fields is None or openai.is_error(fields):
            return self.error(openai.read_error(data))
        try:
            completion = read_completion(data)
            writer = ResponseWriter(self._known, _Nowhere(), self._mark)
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

    def begin(self) -> bytes:
        """The first events, for a host that starts the answer before the backend does. `feed` does not repeat them."""
        return self._events.begin()

    def feed(self, data: bytes, /) -> bytes:
        """The next bytes of the chat stream, cut anywhere: the client's events, as far as they are known."""
        return self._events.feed(data)

    def finish(self, *, cut: bool) -> bytes:
        """The chat stream is over: the events that are missing. A stream without its end gets `response.failed`."""
        return self._events.finish(cut=cut)

    def fail(self, error: ToolCallError, /) -> bytes:
        """`response.failed`, the last event of a stream that cannot go on; empty where it is over already."""
        return self._events.fail(error)

    def keepalive(self) -> bytes:
        """`response.in_progress` once more: an event that every client reads, and none minds."""
        return self._events.keepalive()

    @property
    def _known(self) -> Asked:
        assert self._asked is not None  # noqa: S101 - `request` comes first
        return self._asked

    @property
    def _events(self) -> EventStream:
        if self._stream is None:
            self._stream = EventStream(self._known, self._mark)
        return self._stream


class _Nowhere:
    """A whole answer has no events."""

    def emit(self, name: str, fields: dict[str, Any]) -> None:
        pass

    def delta(self, head: bytes, text: str) -> None:
        pass


def _same(param: str | None) -> str | None:
    return param
