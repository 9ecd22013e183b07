"""Faces that read the bytes of a chat answer: the exchange's stream reader feeds the face's writer.

The reader takes a backend's own calls, without tools to choose from.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Protocol

from tests.helpers.policies import CHAT, written_whole
from tests.helpers.policies import policy as made_policy
from toolcall_middleware.answer.operations import Step
from toolcall_middleware.apis.face import FaceReply, FaceRequest
from toolcall_middleware.apis.messages.client import face as messages
from toolcall_middleware.apis.responses import face as responses
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.model import ToolSet
from toolcall_middleware.response.answer_form import no_completion
from toolcall_middleware.response.choice import ChoiceAnswer, Verbatim
from toolcall_middleware.response.native_calls import NativeCalls
from toolcall_middleware.response.said import StepEmitter
from toolcall_middleware.response.stream import Gate, Hold, StreamRewriter, size_of
from toolcall_middleware.usage.meter import UsageMeter


def _choice() -> ChoiceAnswer:
    policy = made_policy(
        may_call=True,
        native=True,
        reasoning_field="reasoning",
        max_tool_calls=None,
        max_arguments_bytes=None,
    )
    return ChoiceAnswer(Verbatim(), policy, lambda: NativeCalls(ToolSet(()), free=True))


class Fed(Protocol):
    """A face that is fed with a chat answer."""

    settings: Mapping[str, Any]

    @property
    def api(self) -> str: ...

    def request(self, body: bytes, /) -> FaceRequest: ...
    def error(self, error: ToolCallError, /) -> FaceReply: ...
    def feed(self, data: bytes, /) -> bytes: ...
    def finish(self, *, cut: bool) -> bytes: ...
    def whole(self, status: int, headers: Mapping[bytes, bytes], data: bytes, /) -> FaceReply: ...


class _Fed:
    writer: Any
    rewriter: StreamRewriter | None = None
    max_bytes: int | None = None

    def _read_by(self) -> StreamRewriter:
        if self.rewriter is None:
            usage = UsageMeter(count=False)
            emitter = StepEmitter(usage, Gate[Step](Hold.NOTHING, None, size=size_of), self.writer)
            self.rewriter = StreamRewriter(
                _choice, usage, emitter, replace(CHAT, include_usage=True), max_bytes=self.max_bytes
            )
        return self.rewriter

    def feed(self, data: bytes, /) -> bytes:
        rewriter = self._read_by()
        if self.writer.over:
            return b""
        out = rewriter.feed(data)
        if rewriter.failed is not None or rewriter.received_done:
            out += self.finish(cut=False)
        return out

    def finish(self, *, cut: bool) -> bytes:
        if self.writer.over:
            return b""
        rewriter = self._read_by()
        out = rewriter.finish(cut=cut and not rewriter.received_done)
        if rewriter.failed is not None:
            self.writer.fail(rewriter.failed)
            return out + bytes(self.writer.leaving())
        if cut and not rewriter.complete:
            error = ToolCallError("upstream_error", "The stream broke off before the answer was complete.")
            self.writer.fail(error)
            return out + bytes(self.writer.leaving())
        return out + rewriter.end()

    def whole(self, status: int, headers: Mapping[bytes, bytes], data: bytes, /) -> FaceReply:
        if status >= 400:
            return super().whole(status, headers, data)  # type: ignore[misc, no-any-return]
        try:
            made = written_whole(data, _choice, UsageMeter(count=False), writer=self.writer)
            if made is None:
                raise no_completion(data)
        except ToolCallError as error:
            return self.error(error)  # type: ignore[attr-defined, no-any-return]
        return FaceReply(status=status, body=made[0], headers=self.headers(stream=False))  # type: ignore[attr-defined]


class MessagesFace(_Fed, messages.MessagesFace):
    @property
    def read(self) -> Any:
        """The request as it was read."""
        return self.writer.asked


class ResponsesFace(_Fed, responses.ResponsesFace):
    pass


models_reply = messages.models_reply
_NEW = re.compile(rb'(?<=ed_at":)\d+|[a-z]+_[A-Za-z0-9]{20,}')


def however_cut(new: Callable[[], Fed], data: bytes) -> bytes:
    """The answer to a chat stream, which is the same if the stream comes in bytes, but for times and new ids."""
    face, other = new(), new()
    made = face.feed(data) + face.finish(cut=False)
    size = 1 + len(data) // 4000
    slowly = b"".join(other.feed(data[at : at + size]) for at in range(0, len(data), size)) + other.finish(cut=False)
    assert _NEW.sub(b"", slowly) == _NEW.sub(b"", made)
    return made
