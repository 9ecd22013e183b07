"""The answers to one request. With tools an answer, streamed or whole, is rewritten, and either sent or retried;
attempt.py sends the request to the backend.

A request without tools is forwarded unchanged. `UsageOnlyAnswer` adds usage that a client asks for and its backend does
not report. `GuardedAnswer` reads the answer for calls while a guard is on: a backend may call its own tools (an agent,
a router with a server's tools), and the limits of a guard apply to them too. `JsonInWords` asks in words for a
`response_format` that the backend refuses.
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ..answer.operations import AnswerWriter
from ..apis.context_errors import CONTEXT, is_context_error
from ..errors import ToolCallError, is_ours, on_one_line, shown
from ..formats import registry
from ..formats.base import ParserOptions, StreamParser, ToolFormat
from ..formats.near_misses import NoCall
from ..formats.unparsed_calls import unparsed_calls
from ..request.parse import ChatRequest, read_request, unread_request
from ..response.answer_form import (
    AnswerForm,
    Reply,
    WholeAnswer,
    as_stream,
    is_completion,
    is_stream,
    no_completion,
    read_whole,
)
from ..response.choice import AnswerOutcome
from ..response.message import Extension
from ..response.outcome import CallReport, as_header, log_no_call
from ..response.stream import Hold, StreamRewriter
from ..settings import Settings
from ..usage.meter import UsageMeter, meter_for
from ..usage.tap import UsageTap
from ..wire import openai
from .actions import Ask, Facts, State
from .attempt import ToolRequest
from .backend_memory import BackendMemory, Fact, Topic

_log = logging.getLogger("toolcall_middleware")


_FAULTS = " do not fit its schema: "
_UNAUTHORIZED = 401
_PATIENCE = 24
"""Events allowed for the closing brackets after a constrained call, as a model may put white space between them."""


class ToolAnswer:
    """One request with tools, and the answers to its attempts. It keeps no state of the connection.

    writer: writes the answer if the client speaks another API.
    """

    def __init__(self, request: ToolRequest, writer: AnswerWriter | None = None) -> None:
        self.request = request
        self._chat = request.chat
        self._form = AnswerForm(request.chat, request.settings, writer)
        self.error: ToolCallError | None = None  # sent to the client instead of an answer, or at its end
        # Of the current response:
        self.stream: StreamRewriter | None = None
        self._status = 200
        self._is_stream = False  # the content type says so
        self._outcome: AnswerOutcome | None = None  # of the whole answer
        self._answer: WholeAnswer | None = None  # one that waits for a count
        self._is_due = False  # the answer's end waits for a count

    # -- the request ---------------------------------------------------------------------------------------------

    def first(self) -> Ask:
        """Ask the backend."""
        return self.request.first()

    def take_next(self) -> Ask | None:
        """Ask the backend again, once; None if it is not to be asked."""
        ask, self.request.next = self.request.next, None
        return ask

    @property
    def facts(self) -> Facts:
        """The facts for observers."""
        return self.request.facts(self.error)

    # -- the response --------------------------------------------------------------------------------------------

    def begin(self, status: int, headers: Mapping[bytes, bytes]) -> State:
        """A response begins. Return the state that handles it."""
        self.stream = None
        self.request.unparsed = None
        self._form.begin()
        self._status = status
        self._is_stream = headers.get(b"content-type", b"").startswith(b"text/event-stream")
        if status >= 400:
            return State.COLLECTING
        if (not 200 <= status < 300 or status in {204, 205}) and not self._form.resumed:
            return State.PASSING
        return State.SNIFFING if self._chat.stream else State.COLLECTING

    def sniff(self, data: bytes) -> State:
        """Return the state for a body that begins with `data`."""
        streams = is_stream(data, declared=self._is_stream)
        if streams is None:
            return State.SNIFFING
        if not streams:
            return State.COLLECTING
        self.stream = self._new_rewriter()
        return State.STREAMING

    def _new_rewriter(self) -> StreamRewriter:
        request = self.request
        accepts = None if request.native or request.json is None else request.json.accepts
        hold = request.hold(checked=accepts is not None) | (Hold.WORDS if request.may_ask_again else Hold.NOTHING)
        made = self._form.stream(request.make_choice, request.usage, request.settings, hold, accepts)
        if self._chat.offers_tools:
            made.choices.read_unparsed = _reader_of(request.syntax, request.tools.read, request.settings)
        if self._chat.include_usage and self.request.ends_itself:
            made.choices.patience = _PATIENCE
        return made

    def headers(self) -> dict[str, str]:
        """Headers for a streamed answer; they replace the backend's."""
        chat, request = self._chat, self.request
        estimated = chat.stream and chat.include_usage and request.usage.will_estimate
        ours = {"x-toolcall": f"{request.note}{'; usage=estimated' if estimated else ''}"}
        return ours if self._is_stream else {**ours, "content-type": "text/event-stream"}

    @property
    def calls(self) -> int:
        """How many calls the answer has so far."""
        answer = self._outcome if self.stream is None else self.stream.choices
        return 0 if answer is None else answer.calls

    # -- a stream ------------------------------------------------------------------------------------------------

    @property
    def _stream(self) -> StreamRewriter:
        assert self.stream is not None  # noqa: S101 - the state is STREAMING
        return self.stream

    def feed(self, data: bytes) -> bytes:
        """Take bytes of the stream. Return what is to be sent. All but the first may be fed to `stream` directly."""
        out = self._stream.feed(data)
        if self._stream.choices.begun:
            self.request.is_accepted()
        return out

    def finish(self, *, cut: bool, left: bool) -> bytes:
        """The stream is over. Return what to send. The end may wait for a count (`pending`) or a retry (`take_next`).

        cut: it broke off. left: something was sent to the client. Raises ToolCallError for an error if nothing was.
        """
        stream, request = self._stream, self.request
        cut = cut and not stream.received_done
        out = stream.finish(cut=cut)
        left = left or bool(out)
        error = stream.failed
        if stream.choices.begun:
            request.is_accepted()
        elif error is not None and (written := self._written(error)) is not None:
            return self._restart(as_stream(written) or b"", left=left)
        elif error is not None and not left and self._is_refusal(error):
            return b""
        if error is not None and not left and request.retries(error):
            return b""
        if error is None and not stream.choices.begun:
            if not (left or cut) and request.asks_whole():
                return b""
            error = ToolCallError("upstream_error", "The backend's stream ended without an answer.")
        elif error is None and (cut or not stream.complete) and not stream.choices.asked:
            error = ToolCallError("upstream_error", "The backend's stream broke off before the answer was complete.")
        if error is not None:
            if not left:
                raise error
            self.error = error
            return out + self._form.broken(error)
        outcome = stream.choices.outcome
        if not self._is_settled(outcome, left=left):
            self._form.resumed = outcome.asked is not None and (stream.suspend() or left)
            return b"" if outcome.asked is None else out
        _warn(outcome.warnings)
        if stream.is_due:
            self._is_due = True
            return out
        return out + stream.end()

    def _written(self, refusal: ToolCallError) -> bytes | None:
        """A completion of the text in `refusal`, if the backend could not parse a call in it; else None."""
        may_call = self._chat.offers_tools and self.request.unparsed is None
        read = _reader_of(registry.get("auto"), self._chat, self.request.settings)
        unparsed = unparsed_calls(refusal, read) if may_call else None
        if unparsed is None:
            return None
        self.request.unparsed = unparsed.text
        return _completion(unparsed.text)

    def _is_settled(self, outcome: AnswerOutcome, *, left: bool) -> bool:
        """See `ToolRequest.is_settled`. A call that the backend could not parse does not count as markup."""
        if self.request.unparsed is not None or (self.stream is not None and self.stream.choices.salvaged):
            outcome = replace(outcome, read_markup=False)
            self.request.decide("call", "unparsed", "the backend's error holds what the model wrote")
        _report_no_call(self.request.report, outcome.no_call, self.request.memory)
        return self.request.is_settled(outcome, left=left)

    def _is_refusal(self, error: ToolCallError) -> bool:
        """Whether an answer of status 200 is a refusal that leads to another attempt, like one with an error status:
        some engines check a request only after the status is sent.
        """
        return not is_ours(error.code) and self.request.repairs(error)

    def broken(self, error: ToolCallError, *, streaming: bool) -> bytes:
        """Return the last bytes of an answer that fails after its start. streaming: its stream may hold back some."""
        return (self._stream.finish(cut=True) if streaming else b"") + self._form.broken(error)

    # -- a whole answer ------------------------------------------------------------------------------------------

    def whole(self, data: bytes) -> Reply | None:
        """The reply for a collected response. None: ask again (`take_next`). Raises ToolCallError as `finish` does."""
        chat, request = self._chat, self.request
        if self._status >= 400:
            refusal = openai.read_error(data, self._status)
            if (written := self._written(refusal)) is not None:
                self._status = 200
                return self.whole(written)
            if request.repairs(refusal):
                return None
            if self._form.resumed:
                raise refusal
            return _refused(refusal, self._status, self.headers()["x-toolcall"])
        if chat.stream:
            return self._as_stream(data)
        try:
            answer = read_whole(data, request.make_choice, request.usage)
        except ToolCallError as error:
            if request.retries(error):
                return None
            raise
        if answer is None:
            return self._no_answer(data)
        request.is_accepted()
        if not self._is_settled(answer.outcome, left=False):
            if answer.outcome.asked is not None:
                self._form.keep(answer)
            return None
        _warn(answer.outcome.warnings)
        self._outcome = answer.outcome
        if request.usage.is_due:
            self._is_due, self._answer = True, answer
            return Reply(self._status, b"", None)  # `counted_in` writes it
        return self._written_whole(answer)

    def _no_answer(self, data: bytes) -> Reply | None:
        """As `whole`, for a response of status 200 that is not a chat completion."""
        refusal = no_completion(data)
        if (written := self._written(refusal)) is not None:
            return self.whole(written)
        if not self._is_refusal(refusal):
            raise refusal
        return None

    def _as_stream(self, data: bytes) -> Reply | None:
        """As `whole`, for a whole answer to a request for a stream: it is handled as a stream."""
        events = as_stream(data)
        if events is None:
            return None if not data.strip() and self.request.asks_whole() else self._no_answer(data)
        out = self._restart(events, left=self._form.resumed)
        if self.request.next is not None:
            return None
        return Reply(self._status, out, {"content-type": "text/event-stream", **self.headers()})

    def _restart(self, events: bytes, *, left: bool) -> bytes:
        """Take `events` as the whole stream. Return what is to be sent, as `finish` does."""
        self.stream = self._new_rewriter()
        out = self.feed(events)
        return out + self.finish(cut=False, left=left or bool(out))

    def _written_whole(self, answer: WholeAnswer) -> Reply:
        """The reply for a whole answer whose usage is known, with remarks of the middleware."""
        request, outcome = self.request, answer.outcome
        body = self._form.whole(answer, _remarks(request.extension, outcome, request.usage.injection()))
        header = self.headers()["x-toolcall"] + _note(outcome, request)
        return Reply(self._status, body, {"content-type": "application/json", "x-toolcall": header})

    # -- answers that wait for a count ----------------------------------------------------------------------------

    def pending(self) -> UsageMeter | None:
        """The meter whose count the answer's end waits for; None if it does not wait."""
        return self.request.usage if self._is_due else None

    def counted(self) -> bytes:
        """Return the rest of a stream that waited."""
        self._is_due = False
        return self._stream.end()

    def counted_in(self, reply: Reply) -> Reply:
        """The same for a reply that `whole` returned."""
        if self._chat.stream:
            return Reply(reply.status, reply.body + self.counted(), reply.headers)
        self._is_due = False
        answer, self._answer = self._answer, None  # it is large, and a client may be slow
        assert answer is not None  # noqa: S101 - it waited
        return self._written_whole(replace(answer, counted=self.request.usage.total()))


def _refused(refusal: ToolCallError, status: int, note: str) -> Reply:
    """The backend's refusal as the client gets it."""
    if not isinstance(refusal.code, str) and is_context_error(refusal):
        refusal.code = CONTEXT  # engines put the status there; clients that compact conversations look for this code
    headers = {"content-type": "application/json"}
    if status != _UNAUTHORIZED:  # an unauthorized client gets no settings
        headers["x-toolcall"] = note
    return Reply(status, refusal.body(), headers)


def _reader_of(syntax: ToolFormat, chat: ChatRequest, settings: Settings) -> Callable[[], StreamParser]:
    options = ParserOptions(repair_names=settings.repair_names, keep_raw=True)
    return functools.partial(syntax.parser, chat.callable_tools, options)


def _completion(text: str) -> bytes:
    """A chat completion that says `text`."""
    message = {"role": "assistant", "content": text}
    return openai.encode({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]})


def _remarks(extension: Extension | None, outcome: AnswerOutcome, injection: dict[str, Any]) -> dict[str, Any]:
    """What is added to a whole answer under the setting `extension_field`."""
    if extension is None:
        return {}
    has_remarks = outcome.calls or outcome.no_call
    remarks = extension.of(outcome.warnings, outcome.finished, outcome.no_call) if has_remarks else {}
    return remarks | ({extension.field: {**remarks.get(extension.field, {}), **injection}} if injection else {})


def _note(outcome: AnswerOutcome, request: ToolRequest) -> str:
    """What `x-toolcall` says of a whole answer."""
    misfit = "; structured=misfit" if request.json is not None and request.json.misfit else ""
    estimated = "; usage=estimated" if request.usage.is_estimated else ""
    why = "" if outcome.no_call is None else f"; no_call={outcome.no_call.value}"
    return f"; calls={outcome.calls}{as_header(outcome.finished)}{why}{misfit}{estimated}"


def _report_no_call(report: CallReport, reason: NoCall | None, memory: BackendMemory) -> None:
    """Report why an answer holds no call. It is logged once for a model and a reason."""
    report.no_call = reason
    if reason is not None and not memory.recall(report.model, fact := Fact(Topic.NO_CALL, (reason.value,))):
        memory.note(report.model, fact, seconds=math.inf)
        log_no_call(report, reason)


def _warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        # The faults quote the arguments, which do not belong in a log.
        what, fits, faults = warning.partition(_FAULTS)
        places = "; ".join(fault.partition(": ")[0] for fault in faults.split("; "))
        _log.warning("%s", on_one_line(f"{what}{_FAULTS}{places}" if fits else what))


_ASKED = "stream_options"
_MAX_READ = 4096  # bytes of a refusal
_FIELD = "response_format"
_NAMES = (b"response_format", b"json_schema", b"json_object")
_IN_WORDS = {"structured": "prompt"}
_SOURCE = "what the backend refuses"


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
