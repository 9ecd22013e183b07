"""One request end to end, without I/O: bytes in, bytes out. The order of the stages is written here and nowhere else.

    on_request(body) -> the body for the backend (None: not ours, pass everything)
    on_response_start(status, headers) -> Plan
    plan_for(data)                 while the plan is SNIFF
    feed(data) / finish()          while the plan is STREAM or TAP
    whole(data)                    once, when the plan is BUFFER
    failure(error)                 the end of a stream that has begun and cannot go on
    stopped                        set when the backend's generation is to be ended
    take_next()                    the body to ask the backend again with; nothing has left for the client then
    tally                          a host that made it with `defer` counts it, then `counted()` or `counted_in(reply)`

`on_request`, `feed`, `finish` and `whole` raise ToolCallError as long as nothing has left.
A host runs this for each request (hosts/asgi.py); a test can with plain bytes.
"""

from __future__ import annotations

import enum
import functools
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .errors import ToolCallError
from .formats import registry
from .formats.base import ToolFormat
from .settings import Settings
from .stages import inject
from .stages.answer import ChoiceAnswer
from .stages.attempts import Attempts, Next
from .stages.choice_answer import make_choice
from .stages.constrain import Memory, answer_schema, offered_now
from .stages.extension import Extension
from .stages.guard import check_request
from .stages.hold import hold_for
from .stages.outcome import Outcome
from .stages.overrides import without_overrides
from .stages.results import for_backend, result_warnings
from .stages.rewrite import StreamRewriter
from .stages.tally import Tally, meter_for, model_of
from .stages.usage import UsageMeter
from .stages.usage_tap import UsageTap
from .stages.validate import ChatRequest, UsageOnly, read_request
from .stages.whole import as_stream, rewrite_whole
from .wire import openai
from .wire.sse import DONE

Headers = Iterable[tuple[bytes, bytes]]
_CALL_NOW = "Call a tool now."
_RETRIED = frozenset({"invalid_tool_arguments", "malformed_tool_arguments", "unknown_tool_call"})
_log = logging.getLogger("toolcall_middleware")
_STREAM_STARTS = (b"data:", b"event:", b"id:", b"retry:", b":")
_MAX_SHOWN = 500


class Plan(enum.Enum):
    """What the host does with the backend's response."""

    PASS = "pass"  # forward as it is
    STREAM = "stream"  # feed each piece
    TAP = "tap"  # feed each piece; an app that fails does so as without us
    BUFFER = "buffer"  # collect, then whole()
    SNIFF = "sniff"  # decide by the first bytes: plan_for()


@dataclass(slots=True)
class Reply:
    """A whole response for the client. `headers` replace the backend's of the same name."""

    status: int
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)
    as_it_came: bool = False
    """The backend's own headers go with it."""


class Exchange:
    """The state of one request. See the module for the order of calls.

    defer: whether the host waits for counting (`tally`); without, all is counted at once, and nothing is asked.
    """

    def __init__(self, settings: Settings, memory: Memory, *, defer: bool = False) -> None:
        self._settings = settings
        self._defer = defer
        self.tally: Tally | None = None
        self._tapped = b""  # the request's body, of a tap
        self._unasked = False  # ... that was asked again without stream_options
        self._memory = memory
        self._chat: ChatRequest | None = None
        self._format: ToolFormat = registry.plain()
        self._usage = UsageMeter()
        self._tap: UsageTap | None = None
        self._messages: list[dict[str, Any]] = []
        self._tried: Attempts | None = None
        # Of the response at hand:
        self._rewriter: StreamRewriter | None = None
        self._status = 200
        self._is_stream = False  # by its content type
        self._left = False  # something has left for the client
        self._calls = 0  # in the whole answer
        self._extension: Extension | None = None
        self._next_body: bytes | None = None
        self._warnings: tuple[str, ...] = ()  # of the whole answer
        self.stopped = False

    # -- the request ---------------------------------------------------------------------------------------------

    def on_request(self, body: bytes) -> bytes | None:
        """The body for the backend, or None when this request is not ours. Raises ToolCallError to refuse it."""
        chat = read_request(body, self._settings)
        if chat is None:
            return None
        if isinstance(chat, UsageOnly):
            return self._pass(without_overrides(body))
        if chat.overrides:
            self._settings = self._settings.layer(chat.overrides, "request")
        settings = self._settings
        warnings = check_request(chat, settings)
        if settings.extension_field is not None:
            warnings += result_warnings(chat.messages, settings.max_result_bytes)
            self._extension = Extension(settings.extension_field, tuple(warnings))
        wanted = chat.include_usage or not chat.stream
        self._usage = meter_for(settings, chat.model, self._memory, wanted=wanted)
        self._chat = chat
        self._format = registry.for_model(settings.format, chat.model)
        self._tried = Attempts(chat, settings, self._memory)
        if not self._native:
            return self._by_prompt()
        self._messages = for_backend(chat.messages, settings.max_result_bytes, own_ids=settings.rewrite_ids) or []
        self._usage.limit = _token_limit(chat)
        return self._body()

    def _pass(self, body: bytes) -> bytes:
        """The body of a request without tools that asks for usage."""
        settings, model = self._settings, model_of(body)
        self._tapped = body
        if self._unasked or self._memory.refuses(model, "stream_options"):
            body = openai.without_field(body, "stream_options")
        self._usage = meter_for(settings, model, self._memory)
        self._usage.sent(body)
        self._tap = UsageTap(
            self._usage, settings.max_response_bytes, replace=settings.usage == "count", defer=self._defer
        )
        return body

    def _by_prompt(self) -> bytes:
        """The body for a backend that takes no tools."""
        chat = self._request
        self._usage.limit = None
        self._messages = inject.build_messages(chat, self._format, self._settings, answer=self._answer_schema())
        self._attempts.by_prompt(self._format)
        return self._body()

    @property
    def _native(self) -> bool:
        """Whether the tools go to the backend."""
        return self._tried is not None and self._tried.native

    @property
    def _attempts(self) -> Attempts:
        assert self._tried is not None  # noqa: S101 - on_request has given a body
        return self._tried

    @property
    def _offers(self) -> bool:
        return bool(offered_now(self._request).tools)

    def _answer_schema(self) -> Mapping[str, Any] | None:
        """What the client wants of an answer in text, where one may come."""
        free = self._offers and not self._request.choice.must_call
        return answer_schema(self._request) if free else None

    @property
    def _request(self) -> ChatRequest:
        assert self._chat is not None  # noqa: S101 - on_request has given a body
        return self._chat

    def _body(self) -> bytes:
        chat, settings, extra = self._request, self._settings, self._attempts.extra
        if self._native:
            body = inject.build_native_body(chat, settings, messages=self._messages or None, extra=extra)
        else:
            body = inject.build_body(chat, self._format, settings, messages=self._messages, extra=extra)
        self._usage.sent(body, self._injected())
        return body

    def _injected(self) -> str:
        """What we add to the prompt, where that is reported."""
        if self._native or self._settings.extension_field is None:
            return ""
        return inject.injected_text(self._request, self._format, self._settings, answer=self._answer_schema())

    # -- the response --------------------------------------------------------------------------------------------

    @property
    def max_response_bytes(self) -> int | None:
        """How much of a response may be collected."""
        return self._settings.max_response_bytes

    @property
    def paths(self) -> tuple[str, ...]:
        """The path suffixes that are intercepted."""
        return self._settings.paths

    def headers(self) -> dict[str, str]:
        """Headers for a streamed answer; they replace the backend's."""
        if self._tap is not None:
            return {"x-toolcall": "mode=pass" + self._note()}
        mode = "native" if self._native else "prompt"
        # The format that the prompt was written in: `auto` reads them all.
        name = "auto" if self._native else getattr(self._format, "prompt_name", self._format.name)
        note = {"x-toolcall": f"mode={mode}; format={name}{self._note()}"}
        return note if self._is_stream else {**note, "content-type": "text/event-stream"}

    @property
    def calls_left(self) -> int:
        """How many calls have left for the client."""
        rewriter = self._rewriter
        return rewriter.calls if rewriter is not None and self._left else self._calls

    @property
    def offers_tools(self) -> bool:
        """Whether the answer may hold calls."""
        return self._tap is None and self._offers

    def _note(self) -> str:
        """That the usage of a stream will be estimated, where that is known before it begins."""
        asked = self._tap is not None or (self._request.stream and self._request.include_usage)
        return "; usage=estimated" if asked and self._usage.will_estimate else ""

    def take_next(self) -> bytes | None:
        """The body to ask the backend again with, once; None when the answer has been given."""
        body, self._next_body = self._next_body, None
        return body

    def on_response_start(self, status: int, headers: Headers) -> Plan:
        """What to do with a response that starts like this."""
        self.stopped = False
        self._left = False
        self._rewriter = None
        self._status = status
        kinds = {name.lower(): value.lower() for name, value in headers}
        self._is_stream = kinds.get(b"content-type", b"").startswith(b"text/event-stream")
        if self._tap is not None:
            plain = kinds.get(b"content-encoding", b"identity") == b"identity"
            if status in {400, 422} and plain:
                return Plan.BUFFER
            if self._unasked and status == 200:
                # Now it is sure that this was the fault, and no other that was told with the request's own words.
                self._memory.refuse(model_of(self._tapped), "stream_options")
            return Plan.TAP if status == 200 and self._is_stream and plain else Plan.PASS
        if status >= 400:
            return Plan.BUFFER
        if not 200 <= status < 300 or status in {204, 205}:
            return Plan.PASS
        return Plan.SNIFF if self._request.stream else Plan.BUFFER

    def plan_for(self, data: bytes) -> Plan:
        """The plan for a body that begins with `data`. Content types lie; SNIFF asks for more."""
        start = data.lstrip(b"\xef\xbb\xbf \t\r\n")
        if start.startswith(_STREAM_STARTS) or (self._is_stream and start and start[:1] not in b"{[<"):
            self._rewriter = self._new_rewriter()
            return Plan.STREAM
        return Plan.SNIFF if any(mark.startswith(start) for mark in _STREAM_STARTS) else Plan.BUFFER

    def _new_rewriter(self) -> StreamRewriter:
        chat, settings = self._request, self._settings
        return StreamRewriter(
            self._make_choice,
            self._usage,
            include_usage=chat.include_usage,
            choices=chat.n,
            hold=hold_for(chat, settings),
            legacy=chat.legacy,
            as_object=settings.arguments_as_object,
            reasoning_field=settings.reasoning_field,
            max_bytes=settings.max_response_bytes,
        )

    def feed(self, data: bytes) -> bytes:
        """The next bytes of the backend's stream; what leaves for the client."""
        tap = self._tap
        if tap is not None:
            out = tap.feed(data)
            if tap.waits:
                self._wait()
            return out
        rewriter = self._rewriter
        assert rewriter is not None  # noqa: S101 - the plan is STREAM
        out = rewriter.feed(data)
        if out:
            self._left = True
        if rewriter.stopped or rewriter.failed is not None:
            self.stopped = True
            out += self._end(cut=False)
        return out

    @property
    def said_all(self) -> bool:
        """Whether the backend's stream came to its `[DONE]`: what goes wrong behind it changes nothing."""
        return self._rewriter is not None and self._rewriter.done

    def finish(self, *, cut: bool = False) -> bytes:
        """The backend's stream is over (`cut`: it broke off). Ask `take_next` then."""
        if self._tap is not None:
            return self._tap.finish()
        return b"" if self.stopped else self._end(cut=cut)

    def _end(self, *, cut: bool) -> bytes:
        rewriter = self._rewriter
        assert rewriter is not None  # noqa: S101 - the plan is STREAM
        cut = cut and not rewriter.done
        out = rewriter.finish(cut=cut)
        self._left = self._left or bool(out)
        error = rewriter.failed
        if error is not None and self._retries(error):
            return b""
        if error is None and not rewriter.begun:
            error = ToolCallError("upstream_error", "The backend's stream ended without an answer.")
        elif error is None and (cut or not rewriter.complete):
            error = ToolCallError("upstream_error", "The backend's stream broke off before the answer was complete.")
        if error is not None:
            if not self._left:
                raise error
            return out + error.sse() + DONE
        outcome = rewriter.outcome
        if not self._settled(outcome) or self._learn(outcome):
            return b""
        self._warn(outcome.warnings)
        if self._defer and rewriter.is_due:
            self._wait()
            return out
        return out + rewriter.end()

    def _wait(self) -> None:
        model = model_of(self._tapped) if self._tap is not None else self._request.model
        self.tally = Tally(self._usage, model, self._memory)

    def counted(self) -> bytes:
        """The rest of a stream whose `tally` was waited for."""
        self.tally = None
        if self._tap is not None:
            return self._tap.release()
        assert self._rewriter is not None  # noqa: S101 - the plan is STREAM
        return self._rewriter.end()

    def counted_in(self, reply: Reply) -> Reply:
        """The same for an answer that `whole` gave."""
        if self._request.stream:
            return Reply(reply.status, reply.body + self.counted(), reply.headers)
        self.tally = None
        return self._counted_json(openai.with_fields(reply.body, {"usage": self._usage.total()}))

    def failure(self, error: ToolCallError) -> bytes:
        """The end of a stream that has begun and cannot go on: what is held back, the error, and `[DONE]`."""
        rest = self._rewriter.finish(cut=True) if self._rewriter is not None and not self.stopped else b""
        self.stopped = True
        return rest + error.sse() + DONE

    def whole(self, data: bytes) -> Reply | None:
        """A collected response. None: ask again, with `take_next`."""
        if self._tap is not None:
            return self._refused_tap(data)
        if self._status >= 400:
            return self._error(data)
        chat, settings = self._request, self._settings
        if chat.stream:
            return self._as_stream(data)
        try:
            answer = rewrite_whole(
                data,
                self._make_choice,
                self._usage,
                legacy=chat.legacy,
                indexed=settings.call_index,
                as_object=settings.arguments_as_object,
                reasoning_field=settings.reasoning_field,
                defer=self._defer,
            )
        except ToolCallError as error:
            if self._retries(error):
                return None
            raise
        if answer is None:
            raise _no_completion(data)
        outcome = answer.outcome
        if not self._settled(outcome) or self._learn(outcome):
            return None
        self._warn(outcome.warnings)
        self._calls = outcome.calls
        self._warnings = outcome.warnings
        if self._defer and self._usage.is_due:
            self._wait()
            return self._json(answer.body)
        return self._counted_json(answer.body)

    def _counted_json(self, body: bytes) -> Reply:
        """A whole answer whose usage is in it, with our own remarks."""
        if self._extension is not None:
            remarks = self._extension.of(self._warnings) if self._calls else {}
            if injection := self._usage.injection():
                name = self._extension.field
                remarks = {name: {**remarks.get(name, {}), **injection}}
            body = openai.with_fields(body, remarks) if remarks else body
        estimated = "; usage=estimated" if self._usage.is_estimated else ""
        return self._json(body, f"; calls={self._calls}{estimated}")

    def _refused_tap(self, data: bytes) -> Reply | None:
        """A backend refuses a request without tools. It may be for the usage that it asks for."""
        known = self._memory.refuses(model_of(self._tapped), "stream_options")
        if b"stream_options" in data[:4096].lower() and not self._unasked and not known:
            self._unasked = True
            self._next_body = self._pass(self._tapped)
            return None
        return Reply(self._status, data, as_it_came=True)

    def _as_stream(self, data: bytes) -> Reply | None:
        """A whole answer to a request for a stream goes the way of a stream."""
        stream = as_stream(data)
        if stream is None:
            raise _no_completion(data)
        self._rewriter = self._new_rewriter()
        out = self.feed(stream)
        out += self.finish()
        if self._next_body is not None:
            return None
        return Reply(self._status, out, {"content-type": "text/event-stream", **self.headers()})

    def _error(self, data: bytes) -> Reply | None:
        """The backend refused. What we added is left out and tried again; what the client sent is the client's."""
        refusal = data[:4096].lower()
        todo = self._attempts.after_refusal(self._status, refusal)
        if todo is not Next.GIVE:
            self._next_body = self._by_prompt() if todo is Next.PROMPT else self._body()
            return None
        return self._json(openai.read_error(data, self._status).body())

    def _json(self, body: bytes, note: str = "") -> Reply:
        headers = {"content-type": "application/json", "x-toolcall": self.headers()["x-toolcall"] + note}
        return Reply(self._status, body, headers)

    # -- decisions -----------------------------------------------------------------------------------------------

    def _learn(self, outcome: Outcome) -> bool:
        """Learn from an answer. Whether it is to be asked for by prompt instead: the tools never reached the model."""
        todo = self._attempts.after_answer(
            calls=outcome.calls,
            read_markup=outcome.read_markup,
            lost=outcome.lost,
            prompt_tokens=self._usage.prompt_tokens,
        )
        if todo is not Next.PROMPT or self._left:
            return False
        self._usage.next_try()
        self._next_body = self._by_prompt()
        return True

    def _warn(self, warnings: Sequence[str]) -> None:
        for warning in warnings:
            _log.warning("%s", warning)

    def _retries(self, error: ToolCallError) -> bool:
        """Whether a call that is refused is tried again. Nothing has left then."""
        if self._settings.validate_arguments != "retry" or error.code not in _RETRIED or self._left:
            return False
        if not self._attempts.tries_left:
            return False
        self._attempts.tries_left -= 1
        self._again(error.written, f"{error.message} Correct the call and write it again, and nothing else.")
        return True

    def _again(self, said: str, note: str) -> None:
        """Ask once more, with what the model wrote and what was wrong with it."""
        self._usage.next_try()
        before = self._messages or self._request.messages
        # Half an emoji cannot be sent back.
        text, note = (part.encode("utf-8", "replace").decode() for part in (said, note))
        self._messages = [
            *before,
            {"role": "assistant", "content": text or "(empty)"},
            {"role": "user", "content": note},
        ]
        self._next_body = self._body()

    def _settled(self, outcome: Outcome) -> bool:
        """Whether the answer keeps the promise of `tool_choice`. If not, another try is set up, or it is an error."""
        choice = self._request.choice
        if outcome.satisfied or not choice.must_call:
            return True
        todo = self._attempts.after_broken_promise(cut=outcome.cut)
        if todo is Next.PROMPT:
            self._usage.next_try()
            self._next_body = self._by_prompt()
            return False
        if todo is Next.AGAIN:
            wish = self._format.render_choice(self._request.tools.tools, choice) if not self._native else _CALL_NOW
            self._again(outcome.text, f"That answer holds no tool call that can be read. {wish}")
            return False
        wanted = f"the tool {choice.name!r}" if choice.name else "a tool"
        tries = "1 try" if not self._settings.retries else f"{self._settings.retries + 1} tries"
        shown = outcome.text.strip()[:_MAX_SHOWN] or "(nothing)"
        raise ToolCallError(
            "tool_choice_not_satisfied",
            f"The model did not call {wanted}, although tool_choice asks for it ({tries}). It wrote: {shown}",
            param="tool_choice",
        )

    @property
    def _make_choice(self) -> Callable[[], ChoiceAnswer]:
        """What makes the reader of a choice of this try. It does not know the exchange: a circle would keep an answer
        in memory until the collector of garbage comes.
        """
        return functools.partial(
            make_choice,
            self._request,
            self._settings,
            self._format,
            native=self._native,
            constrained=self._attempts.is_constrained,
            full=self._usage.full,
            extension=self._extension,
        )


def _token_limit(chat: ChatRequest) -> int | None:
    """How many tokens the request allows for an answer."""
    limits = [openai.read_value(chat.fields.get(name)) for name in ("max_tokens", "max_completion_tokens")]
    return min((limit for limit in limits if isinstance(limit, int)), default=None)


def _no_completion(data: bytes) -> ToolCallError:
    """A successful answer that is none: an event stream nobody asked for, an error with status 200, HTML."""
    stripped = data.lstrip()
    if stripped.startswith(_STREAM_STARTS):
        return ToolCallError("upstream_error", "The backend answered with an event stream to a request without one.")
    fields = openai.read_object(data)
    if fields is not None and openai.is_error(fields):
        return openai.read_error(data)
    text = stripped[:_MAX_SHOWN].decode("utf-8", "replace")
    return ToolCallError("upstream_error", f"The backend's answer is no chat completion: {text or '(empty)'}")
