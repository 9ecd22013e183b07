"""Anthropic's Messages as a client speaks it: one request and its answer. See `apis.face.Face` for the order of calls.

face = MessagesFace()
chat = face.request(body)
face.whole(status, headers, data)           # or face.error(error), or face.writer
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from ....errors import ToolCallError
from ....wire import openai
from ....wire.openai import PREFIX, new_call_id
from ...face import Face, FaceReply, FaceRequest
from ...passage import Passage
from ..passed import PassedWriter, passed_body
from .request import read_request
from .writer import JSON, Errors, MessageWriter, is_error

_PATH = "/v1/messages"
_COUNT = "/v1/messages/count_tokens"
_SETTINGS: dict[str, Any] = {"reasoning_field": "reasoning", "arguments_as_object": False, "rewrite_ids": True}
"""Options under which an answer can be written as Messages: thoughts beside the text, arguments as they are written,
and ids of letters, digits, `_` and `-`."""
_NATIVE = {name: value for name, value in _SETTINGS.items() if name != "rewrite_ids"}
"""The options for an upstream of this API, whose ids have this form and identify the calls of its answer."""
_LATEST = 253_402_300_799  # the last second that a date can have


class MessagesFace(Face):
    """One request and its answer.

    native: the upstream speaks Messages itself; a request has a `passage` then, once it was read. counting: the request
    is one for count_tokens.
    """

    api = "messages"

    def __init__(self, *, native: bool = False, counting: bool = False) -> None:
        super().__init__()
        self._native = native
        self.settings = _NATIVE if native else _SETTINGS
        self.counting = counting
        self.request_id = _new_id("req_")
        self._message_id = _new_id("msg_")
        self._errors = Errors(self.request_id)

    # -- the request -----------------------------------------------------------------------------------------------

    def request(self, body: bytes, /) -> FaceRequest:
        asked = read_request(body, counting=self.counting, native=self._native)
        self._errors.paths = {"messages": asked.talk.paths, **asked.tools.paths}
        chat = FaceRequest(
            body=openai.encode(asked.chat), stream=asked.stream, dropped_tools=tuple(asked.tools.dropped)
        )
        self.writer = plain = MessageWriter(asked, self._message_id, self._errors)
        if self._native:
            path = _COUNT if self.counting else _PATH
            self.passage = Passage(
                path,
                passed_body(body),
                chat.body,
                asked.talk.unreadable,
                foreign=asked.tools.foreign,
                servers=asked.tools.servers,
                unoffered=asked.tools.unoffered,
            )
            self.writer = PassedWriter(self.passage, plain)
        return chat

    # -- a whole answer ----------------------------------------------------------------------------------------------

    def whole(self, status: int, headers: Mapping[bytes, bytes], data: bytes, /) -> FaceReply:
        passed = self._passed
        if passed is not None and passed.whole is not None and status == passed.whole[0]:
            if passed.counts or is_error(passed.whole[1]):
                return FaceReply(status=status, body=passed.whole[1], headers=(JSON,))
        error = openai.read_error(data, status) if status >= 400 else openai.read_error(data)
        for name in ("retry-after", "x-should-retry"):
            if value := headers.get(name.encode()):
                error.headers.setdefault(name, value.decode("latin-1"))
        return self.error(error)

    def error(self, error: ToolCallError, /) -> FaceReply:
        return self._errors.reply(error)

    def counted(self, tokens: int) -> FaceReply:
        """The answer to count_tokens. The host marks it as an estimate in `x-toolcall`."""
        body = openai.encode({"input_tokens": tokens})
        return FaceReply(status=200, body=body, headers=(JSON, self._id_header))

    def headers(self, *, stream: bool) -> tuple[tuple[bytes, bytes], ...]:
        kind = (b"content-type", b"text/event-stream; charset=utf-8") if stream else JSON
        if self._passed is not None:
            return (kind,)
        return (kind, (b"cache-control", b"no-cache"), self._id_header) if stream else (kind, self._id_header)

    # -- state -------------------------------------------------------------------------------------------------------

    @property
    def _passed(self) -> Passage | None:
        """The passage, if the upstream got the client's own request, or answers as the client asked."""
        passage = self.passage
        return passage if passage is not None and (passage.used or passage.counts) else None

    @property
    def _id_header(self) -> tuple[bytes, bytes]:
        return b"request-id", self.request_id.encode()


def models_reply(data: bytes, name: str = "") -> FaceReply:
    """`GET /v1/models`, or `/v1/models/{name}`, for a client that speaks Messages: all models are one page.

    data: the body of OpenAI's list, or its entry of that model.
    """
    face = MessagesFace()
    value = openai.read_value(data)
    listed = value.get("data", [value] if name else None) if isinstance(value, dict) else None
    entries = listed if isinstance(listed, list) else []
    models = [_model(entry) for entry in entries if isinstance(entry, dict) and isinstance(entry.get("id"), str)]
    if name:
        found = next((model for model in models if model["id"] == name), None)
        if found is None:
            return face.error(ToolCallError("model_not_found", f"model: {name[:200]}"))
        body = openai.encode(found)
    elif not isinstance(listed, list):
        return face.error(ToolCallError("upstream_error", "The answer is no list of models."))
    else:
        first, last = (models[at]["id"] if models else None for at in (0, -1))
        body = openai.encode({"data": models, "has_more": False, "first_id": first, "last_id": last})
    return FaceReply(status=200, body=body, headers=(JSON, (b"request-id", face.request_id.encode())))


def _model(entry: dict[str, Any]) -> dict[str, Any]:
    """An entry of OpenAI's list in Anthropic's words."""
    created = entry.get("created")
    seconds = created if isinstance(created, int) and 0 <= created <= _LATEST else 0
    model = {
        "type": "model",
        "id": entry["id"],
        "display_name": entry["id"],
        "created_at": datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "lifecycle": "active",
    }
    # vLLM reports the longest prompt in this field; Anthropic's field for it has another name.
    length = entry.get("max_model_len")
    if isinstance(length, int) and not isinstance(length, bool) and length > 0:
        model["max_input_tokens"] = length
    return model


def _new_id(prefix: str) -> str:
    return prefix + new_call_id().removeprefix(PREFIX)
