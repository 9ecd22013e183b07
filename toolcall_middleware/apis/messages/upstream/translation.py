"""Translates chat completions to Anthropic's Messages API: one request and its answer. No I/O.

https://platform.claude.com/docs/en/api/messages
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from ....errors import ToolCallError
from ....wire.json_input import OPENAI, Reader, read_fields, without_lone_surrogates
from ....wire.openai import read_object, read_value
from ...passage import Passage
from ...upstream import TranslatedRequest, Translation, asks_usage
from .answer import AnthropicAnswer, error_of
from .request import build

PATH = "/v1/messages"
_MODELS_A_PAGE = 1000
_COUNTED = frozenset({"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config"})
"""Fields for counting a prompt's tokens; the API refuses others there."""


class AnthropicTranslation(Translation):
    """To `POST /v1/messages`.

    `default_max_tokens`: the limit of an answer if the client sets none. `limit`: bytes of one event.
    `created`: seconds since 1970 for the answers, which have none of their own.
    """

    def __init__(self, *, default_max_tokens: int, limit: int | None = None, created: int | None = None) -> None:
        self._default_max_tokens = default_max_tokens
        self._created = int(time.time()) if created is None else created
        self._limit = limit
        self._passage: Passage | None = None

    def request(self, body: bytes, passage: Passage | None = None, /) -> TranslatedRequest:
        if passage is not None:
            self._passage = passage
            if passage.take(body):
                # The client's own request goes to the provider.
                if read_value((read_object(body) or {}).get("stream")) is True:
                    self._streamed = self._answer(include_usage=True)
                return TranslatedRequest(passage.path, passage.body, query=passage.query, headers=passage.headers)
            body = passage.translatable(body)
        request = Reader(read_fields(without_lone_surrogates(body, b"?")), OPENAI)
        sent = build(request, default_max_tokens=self._default_max_tokens)
        if passage is not None and passage.counts:
            counted = {name: value for name, value in sent.items() if name in _COUNTED}
            return TranslatedRequest(passage.path, msgspec.json.encode(counted))
        if request.value("stream") is True:
            self._streamed = self._answer(include_usage=asks_usage(request.value("stream_options")))
        return TranslatedRequest(PATH, msgspec.json.encode(sent))

    def _answer(self, *, include_usage: bool) -> AnthropicAnswer:
        passage = self._passage
        on_event = passage.note if passage is not None and passage.used else None
        return AnthropicAnswer(created=self._created, include_usage=include_usage, limit=self._limit, on_event=on_event)

    def models(self, name: str | None, /) -> TranslatedRequest:
        self._lists = name is None
        if name is None:
            return TranslatedRequest("/v1/models", method="GET", query=b"limit=%d" % _MODELS_A_PAGE)
        return TranslatedRequest(f"/v1/models/{quote(name, safe='')}", method="GET")

    def whole(self, status: int, data: bytes, /) -> tuple[int, bytes]:
        passage = self._passage
        if passage is not None and (passage.used or passage.counts):
            passage.whole = status, data
            if passage.counts and 200 <= status < 300:
                return status, data
        return super().whole(status, data)

    def _error(self, data: bytes, status: int) -> ToolCallError:
        return error_of(data, status)

    def _completion(self, data: bytes) -> bytes:
        return self._answer(include_usage=True).whole(data)

    def _listed(self, value: Any) -> list[dict[str, Any]] | dict[str, Any] | None:
        match value:
            case {"data": list(items)}:
                return [_model(item) for item in items if isinstance(item, dict)]
            case {"id": str()}:
                return _model(value)
        return None


def _model(item: Mapping[str, Any]) -> dict[str, Any]:
    known = {"id": item.get("id"), "object": "model", "created": 0, "owned_by": "anthropic"}
    return {**known, **{name: value for name, value in item.items() if name not in {"type", "object"}}}
