"""The answer to a request with tools, streamed or whole. It is rewritten, and either sent or retried.

attempt.py sends the request to the backend. This module reads the answers.
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
from ..errors import ToolCallError, is_ours, on_one_line
from ..formats import registry
from ..formats.base import ParserOptions, StreamParser, ToolFormat
from ..formats.near_misses import NoCall
from ..formats.unparsed_calls import unparsed_calls
from ..request.parse import ChatRequest
from ..response.answer_form import AnswerForm, Reply, WholeAnswer, as_stream, is_stream, no_completion, read_whole
from ..response.choice import AnswerOutcome
from ..response.message import Extension
from ..response.outcome import CallReport, as_header, log_no_call
from ..response.stream import StreamRewriter
from ..settings import Settings
from ..usage.meter import UsageMeter
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
        if (not 200 <= status < 300 or status in {204, 205}) and not self._form.goes_on:
            return State.PASSING
        return State.SNIFFING if self._chat.stream else State.COLLECTING

    def sniff(self, data: bytes) -> State:
        """Return the state for a body that begins with `data`."""
        streams = is_stream(data, told=self._is_stream)
        if streams is None:
            return State.SNIFFING
        if not streams:
            return State.COLLECTING
        self.stream = self._new_rewriter()
        return State.STREAMING

    def _new_rewriter(self) -> StreamRewriter:
        request = self.request
        accepts = None if request.native or request.json is None else request.json.accepts
        hold = request.hold(checked=accepts is not None)
        made = self._form.stream(request.make_choice, request.usage, request.settings, hold, accepts)
        if request.may_ask_again and not self._form.goes_on:
            made.wait_for_words()
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
            self._form.goes_on = outcome.asked is not None and (stream.leaves_off() or left)
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
        _tell_no_call(self.request.report, outcome.no_call, self.request.memory)
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
            if self._form.goes_on:
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
        out = self._restart(events, left=self._form.goes_on)
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
        told = self.headers()["x-toolcall"] + _note(outcome, request)
        return Reply(self._status, body, {"content-type": "application/json", "x-toolcall": told})

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
    told = outcome.calls or outcome.no_call
    remarks = extension.of(outcome.warnings, outcome.finished, outcome.no_call) if told else {}
    return remarks | ({extension.field: {**remarks.get(extension.field, {}), **injection}} if injection else {})


def _note(outcome: AnswerOutcome, request: ToolRequest) -> str:
    """What `x-toolcall` says of a whole answer."""
    misfit = "; structured=misfit" if request.json is not None and request.json.misfit else ""
    estimated = "; usage=estimated" if request.usage.is_estimated else ""
    why = "" if outcome.no_call is None else f"; no_call={outcome.no_call.value}"
    return f"; calls={outcome.calls}{as_header(outcome.finished)}{why}{misfit}{estimated}"


def _tell_no_call(report: CallReport, reason: NoCall | None, memory: BackendMemory) -> None:
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
