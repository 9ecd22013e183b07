"""The interface to a client that speaks another API than chat completions: one request and its answer, without I/O.

A host turns the client's request into a chat completion and lets the exchange answer it as any other. The exchange
passes the steps of its answer to the face's writer. Guards, formats and limits therefore apply on each face, and no
face knows them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, ClassVar

from ..answer.operations import AnswerWriter
from ..errors import ToolCallError
from ..wire import openai
from .passage import Passage
from .serial import BROKEN_OFF


@dataclass(frozen=True, slots=True, kw_only=True)
class FaceRequest:
    """A client's request as a chat completion.

    body: the JSON of a chat completion. stream: whether the client asked for events. dropped_tools: names of tools that
    only a provider's servers can run, and that are not offered to the model.
    """

    body: bytes
    stream: bool
    dropped_tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class FaceReply:
    """A whole answer for the client. Its headers are added to those of the chat answer, and win over them."""

    status: int
    body: bytes
    headers: tuple[tuple[bytes, bytes], ...] = ()


class Face(ABC):
    """One request and its answer. First `request`, then either `whole` or `error`, or a stream by `writer`."""

    api: ClassVar[str]
    """`messages` or `responses`, as the header `x-toolcall` names it."""
    settings: Mapping[str, Any] = MappingProxyType({"reasoning_field": "reasoning"})
    """Options that an answer in this API needs, weaker than what an operator set by hand."""

    def __init__(self) -> None:
        self.writer: AnswerWriter | None = None
        """Writes the answer from the exchange's operations; None before `request`."""
        self.passage: Passage | None = None
        """The client's own request, for an upstream that speaks the client's API; None before `request`."""

    @abstractmethod
    def request(self, body: bytes, /) -> FaceRequest:
        """The client's request as a chat completion.

        Raises ToolCallError for what the API forbids or what cannot be served without state.
        """

    @abstractmethod
    def error(self, error: ToolCallError, /) -> FaceReply:
        """An error of our own, before anything is sent."""

    def whole(self, status: int, headers: Mapping[bytes, bytes], data: bytes, /) -> FaceReply:  # noqa: ARG002 - for others
        """The client's error for a collected response that the exchange did not write."""
        return self.error(openai.read_error(data, status) if status >= 400 else openai.read_error(data))

    def headers(self, *, stream: bool) -> tuple[tuple[bytes, bytes], ...]:  # noqa: ARG002 - for others
        """Headers that are added to an answer that `writer` writes."""
        return ()

    @property
    def dropped_images(self) -> int:
        """The number of images, in the answer so far, that the API cannot express and the writer dropped."""
        return getattr(self.writer, "dropped_images", 0)

    def begin(self) -> bytes:
        """The first events, for a host that starts the answer before the backend does."""
        self._writer.begin()
        return self._writer.leaving()

    def cut(self) -> bytes:
        """The last event of a stream that breaks off; empty if the stream is over."""
        return self.fail(ToolCallError("upstream_error", BROKEN_OFF))

    def fail(self, error: ToolCallError, /) -> bytes:
        """The last event of a stream that has begun and cannot go on."""
        self._writer.fail(error)
        return self._writer.leaving()

    def keepalive(self) -> bytes:
        """An event that shows a waiting client that the answer is still in progress; empty before the stream begins."""
        self._writer.alive()
        return self._writer.leaving()

    @property
    def _writer(self) -> AnswerWriter:
        assert self.writer is not None  # noqa: S101 - `request` comes first
        return self.writer
