"""Google's Gemini API behind the OpenAI face: one request and its answer. See request.py and answer.py."""

from __future__ import annotations

from typing import Any

from ...errors import ToolCallError
from ...wire import openai
from ..passage import Passage
from ..upstream import TranslatedRequest
from .answer import Stream, error_of, whole
from .request import model_path, translate

_PAGE = b"pageSize=1000"


class GoogleTranslation:
    """A `Translation` (apis/upstream.py) to `generateContent` and `streamGenerateContent`.

    limit: bytes that an event of a stream may take.
    """

    def __init__(self, *, limit: int | None = None) -> None:
        self._limit = limit
        self._model = ""
        self._lists: bool | None = None  # the list of models was asked for, or one of them
        self._stream: Stream | None = None
        self.stream = False

    @property
    def done(self) -> bool:
        """Whether `[DONE]` has left."""
        return self._stream is not None and self._stream.done

    def request(self, body: bytes, _passage: Passage | None = None, /) -> TranslatedRequest:
        """The client's chat completion. Raises ToolCallError."""
        raw = openai.read_object(body)
        if raw is None:
            raise ToolCallError("invalid_json", "The request's body must be a JSON object.")
        request, fields = translate(raw)
        self._model = str(fields["model"])
        self.stream = fields.get("stream") is True
        if self.stream:
            options = fields.get("stream_options")
            asked = isinstance(options, dict) and options.get("include_usage") is True
            expected = int(fields.get("n") or 1)
            self._stream = Stream(self._model, include_usage=asked, expected=expected, limit=self._limit)
        return request

    def models(self, name: str | None, /) -> TranslatedRequest:
        """The list of models, or one."""
        self._lists = name is None
        if name is None:
            return TranslatedRequest(path="/v1beta/models", method="GET", query=_PAGE)
        return TranslatedRequest(path=f"/v1beta/{model_path(name)}", method="GET")

    def whole(self, status: int, data: bytes, /) -> tuple[int, bytes]:
        """A collected answer. Raises ToolCallError, also for an error of the API that comes with a time to wait."""
        if status >= 400:
            error = error_of(data, status)
            if error.headers:
                raise error
            return status, error.body()
        if self._lists is None:
            return status, whole(data, self._model)
        value = openai.read_value(data)
        if not isinstance(value, dict):
            raise ToolCallError("upstream_error", "The upstream's list of models is no JSON object.")
        if not self._lists:
            return status, openai.encode(_model(value))
        models = value.get("models")
        listed = [_model(model) for model in models if isinstance(model, dict)] if isinstance(models, list) else []
        return status, openai.encode({"object": "list", "data": listed})

    def feed(self, data: bytes, /) -> bytes:
        """The next bytes of the event stream."""
        assert self._stream is not None  # noqa: S101 - the request asked for a stream
        return self._stream.feed(data)

    def finish(self, *, cut: bool) -> bytes:
        """The event stream is over."""
        assert self._stream is not None  # noqa: S101 - the request asked for a stream
        return self._stream.finish(cut=cut)


def _model(fields: dict[str, Any]) -> dict[str, Any]:
    name = str(fields.get("name", "")).removeprefix("models/")
    return {"id": name, "object": "model", "created": 0, "owned_by": "google"}
