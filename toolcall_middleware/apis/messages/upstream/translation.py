"""Translates chat completions to Anthropic's Messages API: one request and its answer. No I/O.

https://platform.claude.com/docs/en/api/messages
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any
from urllib.parse import quote

import msgspec

from ....errors import ToolCallError
from ....wire.json_input import OPENAI, Reader, read_fields, without_lone_surrogates
from ....wire.openai import Fields, encode, read_error, read_object, read_objects, read_value
from ....wire.sse import ServerEvent
from ...context_errors import CONTEXT, is_context_error
from ...passage import Block, Passage, Taped
from ...upstream import Chunk, TranslatedRequest, Translation, UpstreamAnswer, asks_usage
from .request import build

_STOP_REASONS = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "pause_turn": "stop",
    "tool_use": "tool_calls",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
# The status that each type of error has when it is an answer of its own (in a stream it comes without).
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
_OF_BLOCKS = frozenset({"content_block_start", "content_block_delta", "content_block_stop"})
_DETAILS_FORMAT = "anthropic-claude-v1"
_MAX_THINKING = 8 * 1024 * 1024
"""Characters of a thinking block that are kept to be given back with its signature."""


def _finish_reason(stop_reason: Any) -> str:
    """OpenAI's word for why the model stopped."""
    return _STOP_REASONS.get(stop_reason, "stop") if isinstance(stop_reason, str) else "stop"


def _usage_of(usage: Mapping[str, Any]) -> dict[str, Any]:
    """OpenAI's usage. Anthropic counts what it read from its cache, and wrote there, apart from the input."""
    read, written = _count(usage, "cache_read_input_tokens"), _count(usage, "cache_creation_input_tokens")
    prompt = _count(usage, "input_tokens") + read + written
    completion = _count(usage, "output_tokens")
    details: dict[str, Any] = {"cached_tokens": read}
    if written:
        details["cache_creation_tokens"] = written
    counts: dict[str, Any] = {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": details,
    }
    thought = usage.get("output_tokens_details")
    if isinstance(thought, dict):
        counts["completion_tokens_details"] = {"reasoning_tokens": _count(thought, "thinking_tokens")}
    return counts


def _count(values: Mapping[str, Any], name: str) -> int:
    value = values.get(name)
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def _text(values: Mapping[str, Any], name: str) -> str:
    """The text of a field; empty if the field is not a text."""
    value = values.get(name)
    return value if isinstance(value, str) else ""


def _refusal_of(message: Mapping[str, Any]) -> str | None:
    """The explanation of a model that refuses, if the API gives one."""
    details = message.get("stop_details")
    return (_text(details, "explanation") or None) if isinstance(details, dict) else None


def error_of(data: bytes, status: int | None) -> ToolCallError:
    """An error of the API, or of the host; its status, type and text stay.

    status: None for an event of a stream, which has none. Then the usual status of its type is used as code.
    """
    error = read_error(data, status)
    if error.code is None and status is None and error.type in _STATUS:
        error.code = error.status = _STATUS[error.type]
    elif error.code is None and status is not None and is_context_error(error):
        error.code = CONTEXT  # clients shorten the prompt at this code
    return error


class AnthropicAnswer(UpstreamAnswer):
    """One answer. The deltas of an event are emitted with that event. on_event: takes each event before its chunks."""

    def __init__(
        self,
        *,
        created: int,
        include_usage: bool = False,
        limit: int | None = None,
        on_event: Callable[[Taped], None] | None = None,
    ) -> None:
        super().__init__("", created, include_usage=include_usage, limit=limit)
        self._on_event = on_event
        self._counted: dict[str, Any] = {}
        self._calls = 0
        self._details = 0
        self._blocks: dict[int | None, Block] = {}  # by the upstream's index
        self._stop_reason: Any = None
        self._refusal: str | None = None

    def whole(self, data: bytes) -> bytes:
        """A whole message as a completion. Arguments keep their spelling. Raises ToolCallError for other bodies."""
        message = read_value(data)
        content = message.get("content") if isinstance(message, dict) else None
        # The same blocks with their values as they are written.
        written = read_objects((read_object(data) or {}).get("content"))
        if not isinstance(content, list) or written is None:
            raise ToolCallError("upstream_error", "The upstream's answer is not one of Anthropic's messages.")
        return self._joined(self._message(message, content, written), thoughts="\n\n", refusal=None)

    def _message(self, message: dict[str, Any], content: list[Any], written: list[Fields]) -> Iterator[Chunk]:
        """The chunks of a whole message, which is read as the events of its blocks."""
        yield from self._start(message)
        for index, (block, spelled) in enumerate(zip(content, written, strict=True)):
            read = {**block, "input": block.get("input") and spelled["input"]}
            begun = {"index": index, "content_block": read}
            yield from self._taped(Taped(b"", begun, "content_block_start"), spelled)
            yield from self._taped(Taped(b"", {"index": index}, "content_block_stop"))
        last = {"delta": message, "usage": message.get("usage")}
        yield from self._taped(Taped(b"", last, "message_delta"))
        yield from self._taped(Taped(b"", {}, "message_stop"))
        yield from self._last()

    # -- events ----------------------------------------------------------------------------------------------------

    def _read(self, event: ServerEvent) -> Iterator[Chunk]:
        value = read_value(event.data)
        if not isinstance(value, dict):
            return
        yield from self._taped(Taped(event.raw, value, str(value.get("type"))))
        if value.get("type") == "error" or ("error" in value and "type" not in value):
            raise error_of(event.data or b"", None)

    def _taped(self, item: Taped, spelled: Fields | None = None) -> Iterator[Chunk]:
        """The chunks of an event, whose block and piece are filled in. spelled: see `Block`."""
        value, index = item.value, item.value.get("index")
        index = index if isinstance(index, int) else None
        if item.kind == "content_block_start":
            content = value.get("content_block")
            content = content if isinstance(content, dict) else {}
            self._blocks[index] = Block(str(content.get("type")), content, spelled or content)
        item.block = block = self._blocks.get(index) if item.kind in _OF_BLOCKS else None
        if self._on_event is not None:
            self._on_event(item)
        match item.kind:
            case "message_start":
                yield from self._start(value.get("message"))
            case "message_delta":
                self._message_delta(value.get("delta"), value.get("usage"))
            case "message_stop":
                self._over = True
            case "content_block_start" if block is not None:
                yield from self._block_start(item, block, block.content)
            case "content_block_delta" if block is not None and isinstance(delta := value.get("delta"), dict):
                yield from self._delta(item, block, delta)
            case "content_block_stop" if block is not None and not block.ended:
                yield from self._block_stop(item, block)
                block.ended = True
                block.thinking.clear()
                if self._on_event is None:  # a passed answer compares later events of the block with it
                    del self._blocks[index]

    def _is_complete(self, *, cut: bool) -> bool:
        """Whether only the last event of the stream is missing."""
        return not cut and self._stop_reason is not None

    def _usage(self) -> dict[str, Any]:
        return _usage_of(self._counted)

    def _last(self) -> Iterator[Chunk]:
        yield from self._role()
        reason = _finish_reason(self._stop_reason)
        if reason == "content_filter" and self._refusal is not None:
            yield Chunk({"refusal": self._refusal})
        yield Chunk({}, reason=reason)

    def _start(self, message: Any) -> Iterator[Chunk]:
        fields = message if isinstance(message, dict) else {}
        self._head |= {"id": str(fields.get("id") or ""), "model": str(fields.get("model") or "")}
        if isinstance(fields.get("usage"), dict):
            self._counted.update(fields["usage"])
        yield from self._role()

    def _role(self) -> Iterator[Chunk]:
        if not self.begun:
            self.begun = True
            yield Chunk({"role": "assistant", "content": ""})

    def _block_start(self, item: Taped, block: Block, fields: Mapping[str, Any]) -> Iterator[Chunk]:
        yield from self._role()
        match block.kind:
            case "text":
                item.piece = str(fields.get("text") or "")
                if said := _text(fields, "text"):
                    yield Chunk({"content": said})
            case "thinking":
                block.signature = _text(fields, "signature")
                if thought := _text(fields, "thinking"):
                    yield self._thought(thought, block)
            case "redacted_thinking" if isinstance(data := fields.get("data"), str):
                yield self._detail({"type": "reasoning.encrypted", "data": data})
            case "tool_use" if isinstance(call_id := fields.get("id"), str) and isinstance(
                name := fields.get("name"), str
            ):
                block.number = self._calls
                self._calls += 1
                if fields.get("input"):  # all arguments at once are allowed, too
                    block.given = encode(fields["input"]).decode()
                    block.waits = len(block.given)
                call = {"index": block.number, "id": call_id, "type": "function"}
                yield Chunk({"tool_calls": [{**call, "function": {"name": name, "arguments": ""}}]})

    def _delta(self, item: Taped, block: Block, delta: Mapping[str, Any]) -> Iterator[Chunk]:
        """The chunks of a delta. After the end of its block a delta says nothing."""
        match delta.get("type"):
            case "text_delta":
                text = _text(delta, "text")
                item.piece = text if block.kind == "text" else None
                if text and not block.ended:
                    yield Chunk({"content": text})
            case "input_json_delta" if block.kind == "tool_use":
                item.piece = _text(delta, "partial_json")
                if item.piece:
                    block.begun = True
                    yield from self._arguments(item.piece, block)
            case "thinking_delta" if (text := _text(delta, "thinking")) and not block.ended:
                yield self._thought(text, block)
            case "signature_delta":
                block.signature += _text(delta, "signature")

    def _block_stop(self, item: Taped, block: Block) -> Iterator[Chunk]:
        if block.number is not None and not block.begun:
            item.piece, block.waits = block.given or "{}", 0
            yield from self._arguments(item.piece, block)
        if block.kind == "thinking" and block.signature and block.size <= _MAX_THINKING:
            text = "".join(block.thinking)
            yield self._detail({"type": "reasoning.text", "text": text, "signature": block.signature})

    def _arguments(self, text: str, block: Block) -> Iterator[Chunk]:
        block.waits += len(text)
        if block.number is not None and not block.ended:
            yield Chunk({"tool_calls": [{"index": block.number, "function": {"arguments": text}}]})

    def _thought(self, text: str, block: Block) -> Chunk:
        block.size += len(text)
        if block.size <= _MAX_THINKING:
            block.thinking.append(text)
        return Chunk({"reasoning": text})

    def _detail(self, detail: dict[str, Any]) -> Chunk:
        """A thinking block as an item of `reasoning_details`, which a client gives back.

        It has the number of calls before it: the API wants its blocks back where they were.
        """
        detail |= {"format": _DETAILS_FORMAT, "index": self._details}
        if self._calls:
            detail["calls_before"] = self._calls
        self._details += 1
        return Chunk({"reasoning_details": [detail]})

    def _message_delta(self, delta: Any, usage: Any) -> None:
        if isinstance(delta, dict):
            self._stop_reason = delta.get("stop_reason") or self._stop_reason
            self._refusal = _refusal_of(delta)
        if isinstance(usage, dict):
            # Cumulative; what is null here stays as it was at the start.
            self._counted.update({name: count for name, count in usage.items() if count is not None})


# -- the translation ---------------------------------------------------------------------------------------------------


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
                    self.streamed = self._answer(include_usage=True)
                return TranslatedRequest(passage.path, passage.body, query=passage.query, headers=passage.headers)
            body = passage.translatable(body)
        request = Reader(read_fields(without_lone_surrogates(body, b"?")), OPENAI)
        sent = build(request, default_max_tokens=self._default_max_tokens)
        if passage is not None and passage.counts:
            counted = {name: value for name, value in sent.items() if name in _COUNTED}
            return TranslatedRequest(passage.path, msgspec.json.encode(counted))
        if request.value("stream") is True:
            self.streamed = self._answer(include_usage=asks_usage(request.value("stream_options")))
        return TranslatedRequest(PATH, msgspec.json.encode(sent))

    def _answer(self, *, include_usage: bool) -> AnthropicAnswer:
        passage = self._passage
        on_event = passage.add if passage is not None and passage.used else None
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
