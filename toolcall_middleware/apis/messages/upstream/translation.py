"""Anthropic's Messages API behind the OpenAI face: one request and its answer. No I/O.

https://platform.claude.com/docs/en/api/messages
"""

from __future__ import annotations

import time
from urllib.parse import quote

import msgspec

from ....wire.json_input import OPENAI, Reader, read_fields, without_lone_surrogates
from ....wire.openai import read_object, read_value
from ...passage import Passage
from ...upstream import TranslatedRequest
from . import answer
from .answer import AnthropicStream
from .request import build

PATH = "/v1/messages"
_MODELS_A_PAGE = 1000
_COUNTED = frozenset({"model", "messages", "system", "tools", "tool_choice", "thinking", "output_config"})
"""Fields that a prompt is counted by; the API refuses others there."""


class AnthropicTranslation:
    """A `Translation` (apis/upstream.py).

    `default_max_tokens`: what an answer may take where the client does not say. `limit`: bytes of one event.
    `created`: seconds since 1970 for the answers, which have none of their own.
    """

    def __init__(self, *, default_max_tokens: int, limit: int | None = None, created: int | None = None) -> None:
        self._default_max_tokens = default_max_tokens
        self._created = int(time.time()) if created is None else created
        self._limit = limit
        self._lists = False
        self._events: AnthropicStream | None = None
        self._passage: Passage | None = None

    @property
    def stream(self) -> bool:
        return self._events is not None

    @property
    def done(self) -> bool:
        return self._events is not None and self._events.done

    def request(self, body: bytes, passage: Passage | None = None, /) -> TranslatedRequest:
        if passage is not None:
            self._passage = passage
            if passage.take(body):
                return self._passed(passage, body)
            body = passage.translatable(body)
        request = Reader(read_fields(without_lone_surrogates(body, b"?")), OPENAI)
        sent = build(request, default_max_tokens=self._default_max_tokens)
        if self._passage is not None and self._passage.counts:
            counted = {name: value for name, value in sent.items() if name in _COUNTED}
            return TranslatedRequest(self._passage.path, msgspec.json.encode(counted))
        if request.value("stream") is True:
            options = request.value("stream_options")
            wanted = isinstance(options, dict) and options.get("include_usage") is True
            self._events = AnthropicStream(created=self._created, include_usage=wanted, limit=self._limit)
        return TranslatedRequest(PATH, msgspec.json.encode(sent))

    def _passed(self, passage: Passage, body: bytes) -> TranslatedRequest:
        """The client's own request. body: as a chat completion."""
        if read_value((read_object(body) or {}).get("stream")) is True:
            self._events = AnthropicStream(
                created=self._created,
                include_usage=True,
                limit=self._limit,
                on_event=passage.note,
            )
        return TranslatedRequest(passage.path, passage.body, query=passage.query, headers=passage.headers)

    def models(self, name: str | None, /) -> TranslatedRequest:
        self._lists = True
        if name is None:
            return TranslatedRequest("/v1/models", method="GET", query=b"limit=%d" % _MODELS_A_PAGE)
        return TranslatedRequest(f"/v1/models/{quote(name, safe='')}", method="GET")

    def whole(self, status: int, data: bytes, /) -> tuple[int, bytes]:
        if self._passage is not None and (self._passage.used or self._passage.counts):
            self._passage.note_whole(status, data)
        if not 200 <= status < 300:
            return answer.error(data, status)
        if self._passage is not None and self._passage.counts:
            return status, data
        if self._lists:
            return status, answer.models(read_value(data))
        return status, answer.completion(data, created=self._created)

    def feed(self, data: bytes, /) -> bytes:
        return self._stream().feed(data)

    def finish(self, *, cut: bool) -> bytes:
        return self._stream().finish(cut=cut)

    def _stream(self) -> AnthropicStream:
        assert self._events is not None  # noqa: S101 - the client asked for a stream
        return self._events
