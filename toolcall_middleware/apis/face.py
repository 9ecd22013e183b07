"""The seam to a client that speaks another API than chat completions: one request and its answer, without I/O.

A host turns the client's request into a chat completion and lets the exchange answer it as it answers any other. What
leaves (whole answer, stream or error, all in OpenAI's form) goes to the same object, which writes it as the client's
API has it. Guards, formats and limits therefore hold on each face, and no face knows them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..answer.writer import AnswerWriter
from ..errors import ToolCallError
from .extension import ExtensionCopy


@dataclass(frozen=True, slots=True, kw_only=True)
class FaceRequest:
    """A client's request as a chat completion.

    body: the JSON of a chat completion. stream: whether the client asked for events. settings: options that this
    request needs to be answered on its face (`{"reasoning_field": "reasoning"}`), weaker than what an operator set by
    hand. dropped_tools: names of tools that nobody here can run and that are not offered to the model.
    """

    body: bytes
    stream: bool
    settings: Mapping[str, Any] = field(default_factory=dict)
    dropped_tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FaceReply:
    """A whole answer for the client. Its headers are added to those of the chat answer, and win over them."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Face(Protocol):
    """One request and its answer. First `request`, then either `whole` or `error`, or `feed`s and `finish`.

    extension: what writes the operator's field of warnings into the answer.
    """

    extension: ExtensionCopy
    writer: AnswerWriter | None
    """Writes the answer from the exchange's operations, once `request` was read; None where chat bytes are read."""

    def whole_headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """Headers that are added to an answer that `writer` has written and that is not streamed."""
        ...

    @property
    def api(self) -> str:
        """`messages` or `responses`, as the header `x-toolcall` names it."""
        ...

    def request(self, body: bytes, headers: Mapping[bytes, bytes], /) -> FaceRequest:
        """The client's request (header names in lower case) as a chat completion.

        Raises ToolCallError for what the API forbids or what cannot be served without state.
        """
        ...

    def whole(self, status: int, headers: Mapping[bytes, bytes], data: bytes, /) -> FaceReply:
        """A collected chat answer of any status (completion, or error in OpenAI's envelope), for the client."""
        ...

    def error(self, error: ToolCallError, /) -> FaceReply:
        """An error of our own, before anything has left."""
        ...

    def stream_headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """Headers that are added to a streamed answer."""
        ...

    def begin(self) -> bytes:
        """The first events, for a host that starts the answer before the backend does. `feed` does not repeat them."""
        ...

    @property
    def feed(self) -> Callable[[bytes], bytes]:
        """Takes the next bytes of the chat stream, cut anywhere: the client's events, as far as they are known."""
        ...

    def finish(self, *, cut: bool) -> bytes:
        """The chat stream is over (`cut`: it broke off): the events that are missing for the end that the API demands.

        A stream that lacks its end gets the API's error event.
        """
        ...

    def fail(self, error: ToolCallError, /) -> bytes:
        """The last event of a stream that has begun and cannot go on."""
        ...

    def keepalive(self) -> bytes:
        """An event that tells a waiting client that the answer is still being made; empty before the stream's begin."""
        ...


class AnswerStream(Protocol):
    """One streamed answer in a client's API; what each does says `Face`."""

    def begin(self) -> bytes: ...
    def feed(self, data: bytes, /) -> bytes: ...
    def finish(self, *, cut: bool) -> bytes: ...
    def fail(self, error: ToolCallError, /) -> bytes: ...
    def keepalive(self) -> bytes: ...


class StreamedFace:
    """The part of a face that writes streams: handed on to an `AnswerStream`, made when the first event is due.

    feed: as `Face.feed`; the stream's own, as soon as there is one.
    """

    def __init__(self) -> None:
        self.extension = ExtensionCopy()
        self.writer: AnswerWriter | None = None
        self._stream: AnswerStream | None = None
        self.feed: Callable[[bytes], bytes] = self._first

    def _first(self, data: bytes, /) -> bytes:
        return self._events.feed(data)

    def _new_stream(self) -> AnswerStream:
        """The stream of the request that was read."""
        raise NotImplementedError

    @property
    def _events(self) -> AnswerStream:
        if self._stream is None:
            self._stream = self._new_stream()
            self.feed = self._stream.feed
        return self._stream

    def begin(self) -> bytes:
        """As `Face.begin`."""
        if self.writer is not None:
            self.writer.begin()
            return self.writer.leaving()
        return self._events.begin()

    def finish(self, *, cut: bool) -> bytes:
        """As `Face.finish`."""
        if self.writer is not None:
            self.writer.fail(ToolCallError("upstream_error", "The stream broke off before the answer was complete."))
            return self.writer.leaving()
        return self._events.finish(cut=cut)

    def fail(self, error: ToolCallError, /) -> bytes:
        """As `Face.fail`."""
        if self.writer is not None:
            self.writer.fail(error)
            return self.writer.leaving()
        return self._events.fail(error)

    def keepalive(self) -> bytes:
        """As `Face.keepalive`."""
        if self.writer is not None:
            self.writer.alive()
            return self.writer.leaving()
        return b"" if self._stream is None else self._stream.keepalive()
