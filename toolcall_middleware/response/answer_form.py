"""The form of the client's answer: a chat stream or completion, or what an `AnswerWriter` of another API writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..answer.operations import Step
from ..answer.writer import AnswerWriter
from ..errors import ToolCallError
from ..request.parse import ChatRequest
from ..settings import Settings
from ..usage.meter import UsageMeter
from ..wire import openai
from ..wire.sse import DONE
from .choice import ChoiceAnswer
from .chunk_writer import ChatEmitter
from .release_gate import Gate, Hold, size_of
from .said import StepEmitter
from .stream import StreamRewriter
from .whole import WholeAnswer, rewrite_whole


class AnswerForm:
    """Writes the answers to one request. settings: those of the server. writer: None for chat completions.

    make_choice, usage: as `StreamRewriter` and `rewrite_whole` take them.
    """

    def __init__(self, chat: ChatRequest, settings: Settings, writer: AnswerWriter | None) -> None:
        self._chat = chat
        self._settings = settings
        self._writer = writer
        self._usage: Any = None  # of a whole answer for the writer
        self.goes_on = False
        """The next response is the rest of the answer that the last one began."""
        self._emitter: ChatEmitter | StepEmitter | None = None  # of the stream at hand

    def begin(self) -> None:
        """A response begins. Until `stream` or `whole` is called it is not the writer's."""
        if self._writer is not None:
            self._writer.in_use = False

    def stream(
        self,
        make_choice: Callable[[], ChoiceAnswer],
        usage: UsageMeter,
        settings: Settings,
        hold: Hold,
        accepts: Callable[[], bool] | None,
    ) -> StreamRewriter:
        """Return what rewrites a streamed response. settings: with the request's own. hold: what it waits for.

        accepts: asked at the end whether the answer may leave; all of it is held until then.
        """
        chat, writer = self._chat, self._writer
        limit = settings.max_response_bytes
        emitter: ChatEmitter | StepEmitter
        begun = None
        if writer is not None:
            writer.in_use = True
        if self.goes_on and self._emitter is not None:
            emitter = self._emitter
            emitter.gate.rewind()
            begun = {name: said for name, said in emitter.head().items() if name in openai.HEAD}
        elif writer is None:
            emitter = ChatEmitter(
                usage,
                Gate[bytes](hold, limit, size=len),
                include_usage=chat.include_usage,
                legacy=chat.legacy,
                as_object=settings.arguments_as_object,
                reasoning_field=settings.reasoning_field,
            )
        else:
            emitter = StepEmitter(usage, Gate[Step](hold, limit, size=size_of), writer)
        self._emitter = emitter
        made = StreamRewriter(
            make_choice,
            usage,
            emitter,
            include_usage=chat.include_usage,
            choices=chat.n,
            max_bytes=limit,
            head=openai.new_head(chat.model, "chat.completion.chunk"),
            begun=begun,
        )
        made.accepts = accepts
        return made

    def broken(self, error: ToolCallError) -> bytes:
        """Return the last bytes of a streamed answer that has begun and fails."""
        if self._writer is None:
            return error.sse() + DONE
        self._writer.fail(error)
        return self._writer.leaving()

    def read_whole(
        self, data: bytes, make_choice: Callable[[], ChoiceAnswer], usage: UsageMeter, *, defer: bool
    ) -> WholeAnswer | None:
        """Read a collected response; None if it is no chat completion. Raises ToolCallError as `rewrite_whole` does."""
        chat, settings = self._chat, self._settings
        return rewrite_whole(
            data,
            make_choice,
            usage,
            legacy=chat.legacy,
            indexed=settings.call_index,
            as_object=settings.arguments_as_object,
            reasoning_field=settings.reasoning_field,
            defer=defer,
            head=openai.new_head(chat.model, "chat.completion"),
            as_steps=self._writer is not None,
        )

    def take(self, answer: WholeAnswer) -> None:
        """The whole answer is the one that the client gets."""
        self._usage = answer.usage
        if self._writer is not None:
            self._writer.in_use = True
            for step in answer.steps:
                self._writer.take(step)

    def with_usage(self, body: bytes, usage: Any) -> bytes:
        """Return the body with a usage that had to be counted first."""
        self._usage = usage
        return body if self._writer is not None else openai.with_fields(body, {"usage": usage})

    def finished(self, body: bytes, remarks: dict[str, Any]) -> bytes:
        """Return the client's body. remarks: fields beside the API's."""
        if self._writer is None:
            return openai.with_fields(body, remarks) if remarks else body
        self._writer.end(self._usage, remarks)
        return self._writer.whole()
