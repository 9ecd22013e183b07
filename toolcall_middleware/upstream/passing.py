"""Requests without tools, which are forwarded unchanged, and changes to their answers.

`UsageOnlyAnswer` adds usage that a client asks for and its backend does not report. `GuardedAnswer` reads the answer
for calls while a guard is on: a backend may call its own tools (an agent, a router with a server's tools), and the
limits of a guard apply to them too. `JsonInWords` asks in words for a `response_format` that the backend refuses.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace

from ..errors import ToolCallError, shown
from ..request.parse import ChatRequest, read_request, unread_request
from ..response.answer_form import Reply, is_completion
from ..settings import Settings
from ..usage.meter import UsageMeter, meter_for
from ..usage.tap import UsageTap
from ..wire import openai
from .actions import Ask, Facts, State
from .attempt import ToolRequest
from .backend_memory import BackendMemory
from .tool_answer import ToolAnswer

_ASKED = "stream_options"
_MAX_READ = 4096  # bytes of a refusal
_FIELD = "response_format"
_NAMES = (b"response_format", b"json_schema", b"json_object")
_IN_WORDS = {"structured": "prompt"}
_SOURCE = "what the backend refuses"
_log = logging.getLogger("toolcall_middleware")


class UsageOnlyAnswer:
    """A forwarded request and its answer, with methods of `ToolAnswer`.

    counts: whether usage is added to a stream.
    """

    calls = 0
    stream = None
    error: ToolCallError | None = None

    def __init__(self, body: bytes, settings: Settings, memory: BackendMemory, *, counts: bool = True) -> None:
        self._counts = counts
        self._model = openai.model_of(body)
        self._usage: UsageMeter = meter_for(settings, self._model, memory)
        self._body = body
        self._settings = settings
        self._memory = memory
        self._unasked = False  # the backend was asked again without stream_options
        self._next: Ask | None = None
        self._status = 200
        self._tap = self._new_tap()

    def _new_tap(self) -> UsageTap:
        return UsageTap(self._usage, self._settings.max_response_bytes)

    @property
    def facts(self) -> Facts:
        """The facts for observers."""
        return Facts(
            usage=self._usage,
            mode="pass",
            model=self._model,
            stream=True,
            why="field_refused" if self._unasked else "first",
            error=self.error,
        )

    def first(self) -> Ask:
        """Ask the backend."""
        unasked = self._memory.refuses(self._model, _ASKED)
        body = openai.without_field(self._body, _ASKED) if unasked else self._body
        self._usage.sent(body)
        return Ask(body)

    def take_next(self) -> Ask | None:
        """Ask the backend again, once; None if it is not to be asked."""
        ask, self._next = self._next, None
        return ask

    def begin(self, status: int, headers: Mapping[bytes, bytes]) -> State:
        """A response begins. Return the state that handles it."""
        self._status = status
        is_stream = headers.get(b"content-type", b"").startswith(b"text/event-stream")
        plain = headers.get(b"content-encoding", b"identity") == b"identity"
        if status in {400, 422} and plain:
            return State.COLLECTING
        if self._unasked and status == 200:
            # The request succeeds without the field, so the field was the fault: the refusal did not merely quote it.
            self._memory.refuse(self._model, _ASKED)
        return State.TAPPING if self._counts and status == 200 and is_stream and plain else State.PASSING

    def headers(self) -> dict[str, str]:
        """Headers for a streamed answer; they replace the backend's."""
        return {"x-toolcall": f"mode=pass{'; usage=estimated' if self._usage.will_estimate else ''}"}

    def feed(self, data: bytes) -> bytes:
        """Take the next bytes of the stream. Return what is to be sent."""
        return self._tap.feed(data)

    def finish(self, *, cut: bool, left: bool) -> bytes:  # noqa: ARG002 - as a conversation
        """The stream is over. Return the unfinished event that it ends with."""
        return self._tap.finish()

    def pending(self) -> UsageMeter | None:
        """The meter whose count the stream's end waits for; None if it does not wait."""
        return self._usage if self._tap.waits else None

    def counted(self) -> bytes:
        """The rest of a stream that waited."""
        return self._tap.release()

    def whole(self, data: bytes) -> Reply | None:
        """Take a refusal. If it is for `stream_options`, return None: the request is sent again without the field."""
        known = self._memory.refuses(self._model, _ASKED)
        if _ASKED.encode() not in data[:_MAX_READ].lower() or self._unasked or known:
            return Reply(self._status, data, None)
        self._unasked = True
        self._usage = meter_for(self._settings, self._model, self._memory)
        self._tap = self._new_tap()
        self._next = Ask(openai.without_field(self._body, _ASKED))
        self._usage.sent(self._next.body)
        return None


# Text and reasoning are emitted unchanged, and nothing is retried.
_AS_IT_CAME = {"mode": "native", "reasoning_field": None, "validate_arguments": "off", "retries": 0}


_CALLS = ("tool_calls", "function_call")


def _may_hold_calls(data: bytes) -> bool:
    """Whether a body that is not a chat completion holds calls. One that is not valid JSON may to a lenient reader."""
    value = openai.read_value(data)
    if value is None:
        return any(name.encode() in data for name in _CALLS)
    open_ = [value]
    while open_:
        value = open_.pop()
        if isinstance(value, dict):
            if any(value.get(name) for name in _CALLS):
                return True
            value = list(value.values())
        if isinstance(value, list):
            open_ += value
    return False


def _asked(body: bytes, chat: ChatRequest, settings: Settings) -> bytes:
    """The body. If tokens are limited it asks for usage, which the client does not see."""
    if settings.token_limit is None or not chat.stream or chat.include_usage:
        return body
    return openai.with_fields(body, {"stream_options": {"include_usage": True}})


class GuardedAnswer(ToolAnswer):
    """A forwarded request and its answer, which is read for calls."""

    def __init__(self, body: bytes, settings: Settings, memory: BackendMemory) -> None:
        chat = unread_request(body, openai.model_of(body))
        self._passed = UsageOnlyAnswer(_asked(body, chat, settings), settings, memory)
        super().__init__(ToolRequest(chat, settings.layer(_AS_IT_CAME, "guard"), memory, None))

    @property
    def facts(self) -> Facts:
        """The facts for observers."""
        return replace(super().facts, mode="pass", format=None)

    def first(self) -> Ask:
        """Ask the backend."""
        return self.request.sends(self._passed.first())

    def take_next(self) -> Ask | None:
        """Ask the backend again, once; None if it is not to be asked."""
        ask = self._passed.take_next()
        return super().take_next() if ask is None else self.request.sends(ask)

    def begin(self, status: int, headers: Mapping[bytes, bytes]) -> State:
        """A response begins. Return the state that handles it. A refusal is passed to the client unchanged."""
        refused = self._passed.begin(status, headers)
        state = super().begin(status, headers)
        if status >= 400:
            return refused
        return State.SNIFFING if self._is_stream and state is State.COLLECTING else state

    def headers(self) -> dict[str, str]:
        """Headers for a streamed answer; they replace the backend's."""
        return {**super().headers(), **self._passed.headers()}

    def whole(self, data: bytes) -> Reply | None:
        """The reply for a collected response. None: ask again, with `take_next`."""
        if self._status >= 400:
            return self._passed.whole(data)
        if is_completion(data) or _may_hold_calls(data):
            return super().whole(data)
        return Reply(self._status, data, None)

    def finish(self, *, cut: bool, left: bool) -> bytes:
        """The stream is over. Its end is unchanged if no choice of a chat completion began in it."""
        stream = self._stream
        if stream.choices.begun or stream.failed is not None:
            return super().finish(cut=cut, left=left)
        return stream.finish(cut=cut) + stream.end()

    def _is_refusal(self, error: ToolCallError) -> bool:  # noqa: ARG002 - as a ToolAnswer
        return False


class JsonInWords:
    """What one exchange does about the `response_format` of a request without tools, with `structured=auto`.

    settings: those that the request is read with.
    """

    def __init__(self, body: bytes, settings: Settings, memory: BackendMemory) -> None:
        self._memory = memory
        self._body = body
        self._status = 0
        self._refused = ""  # the model whose backend refused the field, until an answer without it confirms this
        known = memory.refuses(openai.model_of(body), _FIELD)
        self.settings = settings.layer(_IN_WORDS, _SOURCE) if known else settings
        self._waits = not known  # the request is forwarded with the field, and the backend has not answered yet

    def answered(self, status: int) -> None:
        """The head of an answer has arrived."""
        self._status = status
        if self._refused and status == 200:
            self._memory.refuse(self._refused, _FIELD)

    def instead(self, refusal: bytes, *, always: bool) -> tuple[Settings, ChatRequest] | None:
        """The settings and the request that ask in words, if the answer's body refuses the field by name; else None."""
        said = refusal[:_MAX_READ].lower()
        waited, self._waits = self._waits, False
        if not waited or self._status not in {400, 422} or b"invalid schema" in said:
            return None
        if not any(name in said for name in _NAMES):
            return None
        settings = self.settings.layer(_IN_WORDS, _SOURCE)
        try:
            chat = read_request(self._body, settings, always=always)
        except ToolCallError:
            return None  # the request was not checked until now: the client gets the refusal
        if not isinstance(chat, ChatRequest):
            return None
        _log.info("The backend of %s takes no response_format: it is asked in words.", shown(chat.model))
        self._refused = chat.model
        return settings, chat
