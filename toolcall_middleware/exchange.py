"""One request end to end, without I/O: events in, actions out (`receive`). The host only executes the actions.

    receive(Request(body))      -> Pass | Learn(proof) | Ask(body) | Fail(error)
    receive(Done())             -> Ask(body)
    receive(Head(status, …))    -> Start? (an answer that passes unread, or is only counted)
    receive(Body(data, last))   -> Start, Send, Forward, …, at the end Send(last=True), StopUpstream; Ask, Count, Fail
    receive(Done())             -> the rest that was held for the count
    receive(BrokenOff()), receive(Failed(error))

Only this module orders the phases: `_TABLE` has the events allowed in each state, and their handlers. Each kind of
request has its own `Conversation` in upstream/tool_answer.py: one with tools, one without tools under a guard, and one
that only requests usage.
A host runs an exchange for each request (hosts/middleware/responder.py); a test can run one with plain bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from .answer.operations import AnswerWriter
from .errors import ToolCallError
from .request.parse import ChatRequest, UsageOnly, asks_for_json, is_chat, one_reading, read_request, without_overrides
from .request.policy import check_repeated_calls, check_request
from .response.answer_form import Reply
from .response.message import Extension
from .response.outcome import FinishedCall
from .response.stream import StreamRewriter
from .settings import Settings
from .upstream.actions import (
    Action,
    Ask,
    Body,
    BrokenOff,
    Count,
    Done,
    Event,
    Facts,
    Fail,
    Failed,
    Forward,
    Head,
    Learn,
    Pass,
    Request,
    Send,
    Start,
    State,
    StopUpstream,
)  # fmt: skip
from .upstream.attempt import ToolRequest
from .upstream.backend_memory import BackendMemory, proof_for
from .upstream.history import result_warnings
from .upstream.tool_answer import GuardedAnswer, JsonInWords, ToolAnswer, UsageOnlyAnswer

__all__ = [
    "Action", "Ask", "Body", "BrokenOff", "Count", "Done", "Event", "Exchange", "Fail", "Failed",
    "Forward", "Head", "Learn", "Pass", "Request", "Send", "Start", "State", "StopUpstream",
]  # fmt: skip

Conversation = ToolAnswer | UsageOnlyAnswer
"""One kind of request: how it is sent to the backend and how its answers are read."""
_NOTHING: Sequence[Action] = ()
_FORWARD: Sequence[Action] = (Forward(),)
_STREAMING = State.STREAMING
_ANSWERED = (State.WAITING, State.SNIFFING, State.COLLECTING, State.STREAMING)
_IGNORED = [
    (State.WAITING, BrokenOff),
    (State.TAPPING, Failed),
    (State.PASSING, Failed),
    *((state, event) for state in (State.COUNTING, State.ENDED) for event in (BrokenOff, Failed)),
    (State.COUNTING, Body),
    (State.ENDED, Body),
]
"""Events that arrive too late or change nothing."""


class Exchange:
    """The state of one request. See the module for its events and actions.

    defer: whether the host takes `Learn`; else no evidence is looked for.
    always: a request without tools is answered too. writer: writes the answer of an API other than chat completions.
    guarded: a request that the middleware does not read is sent on unchanged, and the calls in its answer are read.
    """

    writer: AnswerWriter | None = None
    guarded = False

    def __init__(self, settings: Settings, memory: BackendMemory, *, defer: bool = False, always: bool = False) -> None:
        self._settings = settings
        self._memory = memory
        self._defer = defer
        self._always = always
        self._talk: Conversation | None = None
        self._stream: StreamRewriter | None = None  # what STREAMING feeds
        self._begun = False  # the client's answer has begun
        self._kept: list[bytes] = []  # bytes collected of the current response
        self._size = 0
        self._reply: Reply | None = None  # the non-streaming answer that is held for a count
        self._json: JsonInWords | None = None  # for a chat that asks for JSON
        self._last = False  # the tapped stream is complete
        self._early = False  # the answer ends before the backend's
        self.state = State.NEW

    # -- for hosts -----------------------------------------------------------------------------------------------

    @property
    def passes(self) -> bool:
        """Whether the request is sent on unchanged."""
        return self._talk is None or isinstance(self._talk, GuardedAnswer)

    @property
    def reads_at_most(self) -> int | None:
        """How many bytes of an answer, without its content coding, are read; None without a limit."""
        return self._settings.max_response_bytes

    @property
    def offers_tools(self) -> bool:
        """Whether the answer may hold calls."""
        return self._tools is not None and self._tools.chat.offers_tools

    @property
    def facts(self) -> Facts | None:
        """The facts for observers; None before the request, and for one that passes unread."""
        return None if self._talk is None else self._talk.facts

    @property
    def emitted_calls(self) -> int:
        """How many calls were emitted to the client."""
        return self._talk.calls if self._talk is not None and self._begun else 0

    @property
    def report(self) -> Sequence[FinishedCall]:
        """The calls that the model finished, over all attempts, each with its outcome."""
        return () if self._tools is None else self._tools.report.calls

    def let_go(self) -> None:
        """Free what was read of the request, in steps. No event may follow."""
        if self._tools is not None:
            self._tools.let_go()

    def receive(self, event: Event) -> Sequence[Action]:
        """Return the actions for an event. Raises RuntimeError for an event that is not allowed in this state."""
        stream = self._stream
        if stream is not None and type(event) is Body and self.state is _STREAMING and not event.last:
            # Nearly every event of an answer: `_on_stream` without its checks.
            data = event.data
            out = stream.feed(data)
            if self._begun and not stream.ended:
                if out is data:
                    return _FORWARD if out else _NOTHING
                return (Send(out),) if out else _NOTHING
            return self._after_feed(out, last=False)
        step = self._TABLE.get((self.state, type(event)))
        if step is None:
            if type(event) is Body:
                raise RuntimeError("the app sent http.response.body before http.response.start")
            raise RuntimeError(f"{type(event).__name__} cannot come while an exchange is {self.state.value}")
        try:
            return step(self, event)
        except ToolCallError as error:
            return self._fail(error)

    @property
    def _conversation(self) -> Conversation:
        assert self._talk is not None  # noqa: S101 - the request has come
        return self._talk

    @property
    def _tools(self) -> ToolRequest | None:
        return self._talk.request if isinstance(self._talk, ToolAnswer) else None

    @property
    def _read_answer(self) -> ToolAnswer:
        assert isinstance(self._talk, ToolAnswer)  # noqa: S101 - else an answer is passed, tapped or a refusal
        return self._talk

    # -- the request ---------------------------------------------------------------------------------------------

    def _on_request(self, event: Request) -> Sequence[Action]:
        if self._settings.structured == "auto" and self._settings.mode != "off" and asks_for_json(event.body):
            self._json = JsonInWords(event.body, self._settings, self._memory)
            self._settings = self._json.settings
        chat = read_request(event.body, self._settings, always=self._always)
        if isinstance(chat, ChatRequest):
            talk = self._with_tools(chat)
        elif self.guarded and is_chat(event.body):
            body = one_reading(without_overrides(event.body))
            talk = GuardedAnswer(body, self._settings, self._memory)
        elif isinstance(chat, UsageOnly) or self._json is not None:
            body, counts = without_overrides(event.body), isinstance(chat, UsageOnly)
            talk = UsageOnlyAnswer(body, self._settings, self._memory, counts=counts)
        else:
            self.state = State.ENDED
            return [Pass()]
        self._talk = talk
        if self._defer and isinstance(chat, ChatRequest) and (proof := proof_for(chat, self._settings, self._memory)):
            self.state = State.LEARNING
            return [Learn(proof)]
        return self._ask_first(event)

    def _ask_first(self, _event: Event | None = None) -> Sequence[Action]:
        ask = self._conversation.first()
        self.state = State.WAITING
        return [ask]

    def _with_tools(self, chat: ChatRequest) -> Conversation:
        if chat.overrides:
            self._settings = self._settings.layer(chat.overrides, "request")
        settings = self._settings
        extension = _checked(chat, settings)
        request = ToolRequest(chat, settings, self._memory, extension, lowers_limit=self._always)
        return ToolAnswer(request, self.writer)

    # -- the backend's answer ------------------------------------------------------------------------------------

    def _on_head(self, event: Head) -> Sequence[Action]:
        talk = self._conversation
        headers = {name.lower(): value.lower() for name, value in event.headers}
        self._kept, self._size, self._reply = [], 0, None
        if self._json is not None:
            self._json.answered(event.status)
        self.state = talk.begin(event.status, headers)
        if self.state in {State.PASSING, State.TAPPING}:
            self._begun = True
            return [Start(None if self.state is State.PASSING else talk.headers())]
        return _NOTHING

    def _on_passing(self, event: Body) -> Sequence[Action]:
        if event.last:
            self.state = State.ENDED
        return [Send(event.data, event.last)]

    def _on_sniffing(self, event: Body) -> Sequence[Action]:
        data = b"".join([*self._kept, event.data])
        self._kept, self._size = [], 0
        talk = self._read_answer
        self.state = talk.sniff(data)
        event = Body(data, event.last)
        if self.state is not State.STREAMING:
            return self._on_collecting(event)
        self._stream = talk.stream
        return self._on_stream(event)

    def _on_collecting(self, event: Body) -> Sequence[Action]:
        self._size += len(event.data)
        limit = self._settings.max_response_bytes
        if limit is not None and self._size > limit:
            raise ToolCallError("upstream_error", f"The backend's answer exceeds max_response_bytes ({limit}).")
        self._kept.append(event.data)
        return self._on_whole(event) if event.last else _NOTHING

    def _on_stream(self, event: Body) -> Sequence[Action]:
        return self._after_feed(self._conversation.feed(event.data), last=event.last)

    def _after_feed(self, out: bytes, *, last: bool) -> Sequence[Action]:
        try:
            talk = self._conversation
            if talk.stream is not None and talk.stream.ended:
                self.state = State.COUNTING  # later events are not read as a stream
                out += talk.finish(cut=False, left=self._begun or bool(out))
                return [*self._send(out), *self._conclude(early=True)]
            actions = self._send(out)
            return [*actions, *self._end_stream(cut=False)] if last else actions
        except ToolCallError as error:
            return self._fail(error)

    def _end_stream(self, *, cut: bool) -> Sequence[Action]:
        out = self._conversation.finish(cut=cut, left=self._begun)
        return [*self._send(out), *self._conclude(early=False)]

    def _send(self, out: bytes) -> list[Action]:
        """Bytes of a stream for the client, whose answer begins with the first of them."""
        if self._begun:
            return [Send(out)] if out else []
        if not out and (self._stream is None or not self._stream.opens):
            return []
        self._begun = True
        return [Start(self._conversation.headers()), Send(out)]

    def _conclude(self, *, early: bool) -> Sequence[Action]:
        """End a stream: retry the request, hold the end for a count, or send the end."""
        if (actions := self._ask_again(early=early)) is not None:
            return actions
        pending = self._conversation.pending()
        if pending is not None:
            self.state, self._early = State.COUNTING, early
            return [Count(pending)]
        return self._close(early=early)

    def _ask_again(self, *, early: bool) -> Sequence[Action] | None:
        ask = self._conversation.take_next()
        if ask is None:
            return None
        self.state = State.WAITING
        return [StopUpstream(early), ask]

    def _close(self, *, early: bool) -> Sequence[Action]:
        self.state = State.ENDED
        # Last: an app that is notified of a disconnect may cancel the task that is sending here.
        return [Send(b"", last=True), StopUpstream(early)] if self._begun else [StopUpstream(early)]

    # -- a stream that is only counted ---------------------------------------------------------------------------

    def _on_tapping(self, event: Body | Done) -> Sequence[Action]:
        talk = self._conversation
        waits = talk.pending() is not None
        if isinstance(event, Done):
            out = talk.counted()
        else:
            out, self._last = talk.feed(event.data), event.last
        pending = talk.pending()
        if pending is not None:  # all that follows is held for the count
            return [] if waits else [Send(out), Count(pending)]
        if not self._last:
            return [Send(out)]
        self.state = State.ENDED
        return [Send(out + talk.finish(cut=False, left=True), last=True)]

    def _tapping_broken_off(self, _event: BrokenOff) -> Sequence[Action]:
        if self._conversation.pending() is not None:
            self._last = True  # the count ends the answer
            return _NOTHING
        rest = self._conversation.finish(cut=True, left=True)
        self.state = State.ENDED
        return [*self._send(rest), StopUpstream(early=False)]

    # -- a whole answer ------------------------------------------------------------------------------------------

    def _on_whole(self, _event: Body | BrokenOff) -> Sequence[Action]:
        talk = self._conversation
        # A single part stays the same object: an `ErrorBody` knows its error.
        kept, self._kept = self._kept[0] if len(self._kept) == 1 else b"".join(self._kept), []
        if self._json is not None and (asked := self._json.instead(kept, always=self._always)) is not None:
            self._settings, chat = asked
            self._talk = self._with_tools(chat)
            return [StopUpstream(early=False), *self._ask_first()]
        reply = talk.whole(kept)
        if reply is None:
            return self._ask_again(early=False) or _NOTHING
        pending = talk.pending()
        if pending is None:
            return self._give(reply)
        self.state, self._reply = State.COUNTING, reply
        return [Count(pending)]

    def _give(self, reply: Reply) -> Sequence[Action]:
        begun, self._begun, self.state = self._begun, True, State.ENDED  # begun: by an earlier response
        start = Start(None)
        if reply.headers is not None:
            start = Start({**reply.headers, "content-length": str(len(reply.body))}, reply.status)
        rest: list[Action] = [Send(reply.body, last=True), StopUpstream(early=False)]
        return rest if begun else [start, *rest]

    def _on_counted(self, _event: Done) -> Sequence[Action]:
        talk = self._read_answer
        if self._reply is not None:
            return self._give(talk.counted_in(self._reply))
        return [*self._send(talk.counted()), *self._close(early=self._early)]

    # -- failures ------------------------------------------------------------------------------------------------

    def _stream_broken_off(self, event: BrokenOff) -> Sequence[Action]:
        if event.raised and not self._begun:
            return _NOTHING  # the server answers with an error
        return self._end_stream(cut=True)

    def _whole_broken_off(self, event: BrokenOff) -> Sequence[Action]:
        return _NOTHING if event.raised else self._on_whole(event)

    def _on_failed(self, event: Failed) -> Sequence[Action]:
        stream = self._conversation.stream
        if self.state is State.STREAMING and stream is not None and stream.received_done:
            # A failure after the end changes nothing.
            return self._end_stream(cut=False)
        return self._fail(event.error)

    def _fail(self, error: ToolCallError) -> Sequence[Action]:
        """Send the client an error: as the HTTP answer where nothing was emitted, else as an event."""
        # Its traceback would form a reference cycle with the frames that hold the action.
        error.__traceback__ = error.__context__ = None
        if self._talk is not None:
            self._talk.error = error
        state, self.state = self.state, State.ENDED
        if not self._begun:
            return [Fail(error), StopUpstream(early=True)]
        rest = self._read_answer.broken(error, streaming=state is State.STREAMING)
        return [Send(rest), Send(b"", last=True), StopUpstream(early=True)]

    def _ignore(self, _event: Event) -> Sequence[Action]:
        return _NOTHING

    _TABLE: ClassVar[Mapping[tuple[State, type], Callable[[Exchange, Any], Sequence[Action]]]] = {
        (State.NEW, Request): _on_request,
        (State.LEARNING, Done): _ask_first,
        (State.WAITING, Head): _on_head,
        (State.SNIFFING, Body): _on_sniffing,
        (State.SNIFFING, BrokenOff): _whole_broken_off,
        (State.COLLECTING, Body): _on_collecting,
        (State.COLLECTING, BrokenOff): _whole_broken_off,
        (State.STREAMING, Body): _on_stream,
        (State.STREAMING, BrokenOff): _stream_broken_off,
        (State.TAPPING, Body): _on_tapping,
        (State.TAPPING, BrokenOff): _tapping_broken_off,
        (State.TAPPING, Done): _on_tapping,
        (State.PASSING, Body): _on_passing,
        (State.PASSING, BrokenOff): lambda _self, _event: [StopUpstream(early=False)],
        (State.COUNTING, Done): _on_counted,
        **dict.fromkeys([(state, Failed) for state in _ANSWERED], _on_failed),
        **dict.fromkeys(_IGNORED, _ignore),
    }
    """The handler of each event in each state. Any other pair is a fault of the host or its app."""


def _checked(chat: ChatRequest, settings: Settings) -> Extension | None:
    """Check a request with tools. Return the extension to write beside its calls. Raises ToolCallError."""
    warnings = check_request(chat, settings)
    if settings.max_repeated_calls is not None:
        check_repeated_calls(chat, settings.max_repeated_calls)
    if settings.extension_field is None:
        return None
    return Extension(settings.extension_field, (*warnings, *result_warnings(chat.messages, settings.max_result_bytes)))
