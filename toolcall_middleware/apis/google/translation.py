"""Translates chat completions to Google's Gemini API: one request and its answer. See request.py and answer.py."""

from __future__ import annotations

from typing import Any

from ...errors import ToolCallError
from ...wire import openai
from ..passage import Passage
from ..upstream import TranslatedRequest, Translation, asks_usage
from .answer import GoogleAnswer, error_of
from .request import model_path, translate

_PAGE = b"pageSize=1000"


class GoogleTranslation(Translation):
    """To `generateContent` and `streamGenerateContent`. limit: bytes that an event of a stream may take."""

    def __init__(self, *, limit: int | None = None) -> None:
        self._limit = limit
        self._model = ""

    def request(self, body: bytes, _passage: Passage | None = None, /) -> TranslatedRequest:
        raw = openai.read_object(body)
        if raw is None:
            raise ToolCallError("invalid_json", "The request's body must be a JSON object.")
        request, fields = translate(raw)
        self._model = str(fields["model"])
        if fields.get("stream") is True:
            asked, expected = asks_usage(fields.get("stream_options")), int(fields.get("n") or 1)
            self._streamed = GoogleAnswer(self._model, include_usage=asked, expected=expected, limit=self._limit)
        return request

    def models(self, name: str | None, /) -> TranslatedRequest:
        self._lists = name is None
        if name is None:
            return TranslatedRequest(path="/v1beta/models", method="GET", query=_PAGE)
        return TranslatedRequest(path=f"/v1beta/{model_path(name)}", method="GET")

    def _error(self, data: bytes, status: int) -> ToolCallError:
        return error_of(data, status)

    def _completion(self, data: bytes) -> bytes:
        return GoogleAnswer(self._model).whole(data)

    def _listed(self, value: Any) -> list[dict[str, Any]] | dict[str, Any] | None:
        if not isinstance(value, dict):
            return None
        if not self._lists:
            return _model(value)
        models = value.get("models")
        return [_model(model) for model in models if isinstance(model, dict)] if isinstance(models, list) else []


def _model(fields: dict[str, Any]) -> dict[str, Any]:
    name = str(fields.get("name", "")).removeprefix("models/")
    return {"id": name, "object": "model", "created": 0, "owned_by": "google"}
