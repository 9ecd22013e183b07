"""The seam to a client that speaks another API than chat completions: one request and its answer, without I/O.

A host turns the client's request into a chat completion and lets the exchange answer it as any other. The exchange
gives the operations of its answer to the face's writer. Guards, formats and limits therefore hold on each face, and no
face knows them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..answer.writer import AnswerWriter
from ..errors import ToolCallError
from .serial import BROKEN_OFF


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
    """One request and its answer. First `request`, then either `whole` or `error`, or `feed`s and `finish`."""

    writer: AnswerWriter | None
    """Writes the answer from the exchange's operations; None before `request`."""

    @property
    def dropped_images(self) -> int:
        """How many images of the answer the API has no form for, as far as it is written."""
        ...

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
        """The client's error for a collected response that the exchange did not write."""
        ...

    def error(self, error: ToolCallError, /) -> FaceReply:
        """An error of our own, before anything has left."""
        ...

    def stream_headers(self) -> tuple[tuple[bytes, bytes], ...]:
        """Headers that are added to a streamed answer."""
        ...

    def begin(self) -> bytes:
        """The first events, for a host that starts the answer before the backend does."""
        ...

    def cut(self) -> bytes:
        """The last event of a stream that breaks off; empty where it is over."""
        ...

    def fail(self, error: ToolCallError, /) -> bytes:
        """The last event of a stream that has begun and cannot go on."""
        ...

    def keepalive(self) -> bytes:
        """An event that tells a waiting client that the answer is still being made; empty before the stream's begin."""
        ...


class StreamedFace:
    """The part of a face that writes streams: handed on to the writer, which exists once the request is read."""

    def __init__(self) -> None:
        self.writer: AnswerWriter | None = None

    @property
    def dropped_images(self) -> int:
        """As `Face.dropped_images`."""
        return getattr(self.writer, "dropped_images", 0)

    @property
    def _writer(self) -> AnswerWriter:
        assert self.writer is not None  # noqa: S101 - `request` comes first
        return self.writer

    def begin(self) -> bytes:
        """As `Face.begin`."""
        self._writer.begin()
        return self._writer.leaving()

    def cut(self) -> bytes:
        """As `Face.cut`."""
        return self.fail(ToolCallError("upstream_error", BROKEN_OFF))

    def fail(self, error: ToolCallError, /) -> bytes:
        """As `Face.fail`."""
        self._writer.fail(error)
        return self._writer.leaving()

    def keepalive(self) -> bytes:
        """As `Face.keepalive`."""
        self._writer.alive()
        return self._writer.leaving()
