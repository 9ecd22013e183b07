"""A provider whose API is not OpenAI's: one request and its answer are translated. No I/O.

hosts/proxy/upstream/providers.py drives a `Translation`; each provider has one in a package here. A provider's
answer is read as `Chunk`s, which are written as a stream or joined to a whole answer.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import msgspec

from ..errors import ToolCallError
from ..wire import openai
from ..wire.sse import DONE, EventReader, ServerEvent, TooLargeError
from .passage import Passage


@dataclass(frozen=True, slots=True)
class TranslatedRequest:
    """A request for the provider. `path` begins at the root of its API (`/v1/messages`), already escaped.

    `query` is without the question mark. `headers` are added to the client's and win over them; the host
    adds those that the provider always requires, and its key.
    """

    path: str
    body: bytes = b""
    method: str = "POST"
    query: bytes = b""
    headers: tuple[tuple[bytes, bytes], ...] = ()


_CHUNK = "chat.completion.chunk"


class Chunk(msgspec.Struct, frozen=True):
    """The content of one chunk. choice: its index. reason: the finish reason in OpenAI's terms; own: the provider's."""

    delta: dict[str, Any]
    choice: int = 0
    reason: str | None = None
    own: str | None = None


class UpstreamAnswer(abc.ABC):
    """Reads one answer of a provider and writes it as a chat completion.

    done: `[DONE]` is sent; later events and errors are not passed to the client.

    limit: bytes that an event of its stream may take. `begun`: some of the answer was received.
    """

    def __init__(self, model: str, created: int, *, include_usage: bool = False, limit: int | None = None) -> None:
        self._head: dict[str, Any] = {"id": "", "object": "", "created": created, "model": model}
        self._include_usage = include_usage
        self._reader = EventReader(limit)
        self._over = False  # the event that ends the stream was received
        self.begun = False
        self.done = False

    # -- what a provider does --------------------------------------------------------------------------------------

    @abc.abstractmethod
    def _read(self, event: ServerEvent) -> Iterator[Chunk]:
        """The chunks of an event of the stream. Raises ToolCallError for an error in it."""

    @abc.abstractmethod
    def _is_complete(self, *, cut: bool) -> bool:
        """Whether a stream that ended without its last event is complete nevertheless. cut: it broke off."""

    @abc.abstractmethod
    def _usage(self) -> dict[str, Any] | None:
        """OpenAI's usage; None if the provider counted nothing."""

    def _last(self) -> Iterable[Chunk]:
        """The last chunks of the stream."""
        return ()

    # -- a stream --------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> bytes:
        """The next bytes of the stream, cut anywhere; events of a chat completion. Raises ToolCallError."""
        if self.done:
            return b""
        try:
            events = self._reader.feed(data)
        except TooLargeError:
            self._reader.rest()
            raise ToolCallError("upstream_error", "An event of the upstream's stream is too large.") from None
        return self._written(events)

    def finish(self, *, cut: bool) -> bytes:
        """The provider's stream is over. Return the events that are held back.

        Without `cut`, a stream that lacks its end gets an error event and `[DONE]`. With `cut` nothing is said about
        that, and no `[DONE]`: the host knows the reason and tells it.
        """
        if self.done:
            return b""
        # Of a stream that broke off, an event that is no JSON is only a part of one.
        events = [one for one in self._reader.finish() if not cut or openai.read_value(one.data) is not None]
        out = self._written(events)
        if self.done:
            return out
        if self._is_complete(cut=cut):
            return out + self._end()
        if cut:
            return out
        what = "broke off before the answer was complete" if self.begun else "ended without an answer"
        return out + self._fail(ToolCallError("upstream_error", f"The upstream's stream {what}."))

    def _written(self, events: Iterable[ServerEvent]) -> bytes:
        out: list[bytes] = []
        for event in events:
            if event.data is None or self.done:
                continue
            try:
                for chunk in self._read(event):
                    out.append(self._chunk(chunk))  # noqa: PERF401 - those before an error count
            except ToolCallError as error:
                out.append(self._fail(error))
            if self._over and not self.done:
                out.append(self._end())
        return b"".join(out)

    def _chunk(self, chunk: Chunk) -> bytes:
        delta = openai.raw(chunk.delta)
        choice = {"index": chunk.choice, "delta": delta, "logprobs": None, "finish_reason": chunk.reason}
        if chunk.own is not None:
            choice["native_finish_reason"] = chunk.own
        return self._event(choices=[choice])

    def _event(self, **fields: Any) -> bytes:
        return openai.event(openai.encode({**self._head, "object": _CHUNK, **fields}))

    def _end(self) -> bytes:
        out = [self._chunk(chunk) for chunk in self._last()]
        self.done = True
        if self._include_usage and (usage := self._usage()) is not None:
            out.append(self._event(choices=[], usage=usage))
        return b"".join([*out, DONE])

    def _fail(self, error: ToolCallError) -> bytes:
        self.done = True
        return error.sse() + DONE

    # -- a whole answer --------------------------------------------------------------------------------------------

    def _joined(self, chunks: Iterable[Chunk], *, thoughts: str = "", **fields: Any) -> bytes:
        """The whole answer made of these chunks.

        thoughts: what separates the reasoning of two chunks. fields: of each message, unless a chunk has them.
        """
        choices: dict[int, _Choice] = {}
        for chunk in chunks:
            if (choice := choices.get(chunk.choice)) is None:
                choice = choices[chunk.choice] = _Choice(chunk.choice, fields)
            choice.add(chunk)
        usage = self._usage()
        answer = {
            **self._head,
            "object": "chat.completion",
            "choices": [choice.whole(thoughts) for choice in choices.values()],
        }
        return openai.encode(answer if usage is None else {**answer, "usage": usage})


class _Choice:
    """A choice of a whole answer, joined from its chunks."""

    def __init__(self, index: int, fields: dict[str, Any]) -> None:
        self._index = index
        self._message: dict[str, Any] = {"role": "assistant", "content": None, **fields}
        self._texts: dict[str, list[str]] = {}
        self._calls: list[dict[str, Any]] = []
        self._end = Chunk({})

    def add(self, chunk: Chunk) -> None:
        if chunk.reason is not None:
            self._end = chunk
        for name, value in chunk.delta.items():
            if name in {"content", "reasoning"} and value is not None:
                self._texts.setdefault(name, []).append(value)
            elif name == "tool_calls":
                for piece in value:
                    self._add_call(piece)
            elif isinstance(value, list):
                self._message.setdefault(name, []).extend(value)
            else:
                self._message[name] = value

    def _add_call(self, piece: dict[str, Any]) -> None:
        if "id" in piece:
            self._calls.append({name: value for name, value in piece.items() if name != "index"})
        else:
            function = self._calls[piece["index"]]["function"]
            function["arguments"] += piece["function"]["arguments"]

    def whole(self, thoughts: str) -> dict[str, Any]:
        message = self._message
        if (content := self._texts.get("content")) is not None:
            message["content"] = "".join(content) or (None if self._calls else "")
        if reasoning := self._texts.get("reasoning"):
            message["reasoning"] = thoughts.join(reasoning)
        if self._calls:
            message["tool_calls"] = self._calls
        choice = {"index": self._index, "message": message, "logprobs": None, "finish_reason": self._end.reason}
        return choice if self._end.own is None else {**choice, "native_finish_reason": self._end.own}


class Translation(abc.ABC):
    """One request and its answer. First `request` or `models`, then either `whole`, or `streamed`."""

    streamed: UpstreamAnswer | None = None
    """The reader of the answer's stream; None if the client asked for none. Known after `request`."""
    _lists: bool | None = None  # the list of models was asked for (True), or one of them (False)

    @abc.abstractmethod
    def request(self, body: bytes, passage: Passage | None = None, /) -> TranslatedRequest:
        """The client's chat completion for the provider. Raises ToolCallError for what it cannot express.

        passage: the client's original request, which a provider of the client's API gets unchanged.
        """

    @abc.abstractmethod
    def models(self, name: str | None, /) -> TranslatedRequest:
        """The same for the list of models (None), or for one of them."""

    @abc.abstractmethod
    def _error(self, data: bytes, status: int) -> ToolCallError:
        """An error of the API or its host in OpenAI's form, with its status and text."""

    @abc.abstractmethod
    def _completion(self, data: bytes) -> bytes:
        """A whole answer as a chat completion. Raises ToolCallError for a body that is not an answer."""

    @abc.abstractmethod
    def _listed(self, value: Any) -> list[dict[str, Any]] | dict[str, Any] | None:
        """The models of a list, or the requested model, in OpenAI's form; None if the value is neither."""

    def whole(self, status: int, data: bytes, /) -> tuple[int, bytes]:
        """A collected answer of any status: the client's status and body (a completion, a list of models, an error).

        An error keeps its status and text, in OpenAI's envelope. Raises ToolCallError (`upstream_error`) for a success
        that cannot be read, and for an error that has headers of its own.
        """
        if not 200 <= status < 300:
            error = self._error(data, status)
            if error.headers:
                raise error
            return status, error.body()
        if self._lists is None:
            return status, self._completion(data)
        listed = self._listed(openai.read_value(data))
        if listed is None:
            raise ToolCallError("upstream_error", "The upstream's answer is no list of models.")
        return status, openai.encode({"object": "list", "data": listed} if isinstance(listed, list) else listed)


def asks_usage(options: Any) -> bool:
    """Whether a request's `stream_options` ask for usage."""
    return isinstance(options, dict) and options.get("include_usage") is True
