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
A host runs this for each request (hosts/middleware/responder.py); a test can with plain bytes.
How a request is put to the backend
is asked.py's for one with tools, tapped.py's for one that only asks for usage; here the answers are read.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from .errors import ToolCallError
from .request.overrides import without_overrides
from .request.parse import UsageOnly, read_request
from .request.policy import check_request
from .response.extension_field import Extension
from .response.plan import Plan, Reply, plan_by_start, plan_of
from .response.release_gate import hold_for
from .response.stream import StreamRewriter
from .response.whole import as_stream, no_completion, rewrite_whole
from .settings import Settings
from .upstream.attempt import Asked
from .upstream.backend_memory import BackendMemory
from .upstream.tool_results import result_warnings
from .upstream.usage_only import Tapped
from .usage.pending_count import PendingCount
from .wire import openai
from .wire.sse import DONE

__all__ = ["Exchange", "Plan", "Reply"]

Headers = Iterable[tuple[bytes, bytes]]
_log = logging.getLogger("toolcall_middleware")


class Exchange:
    """The state of one request. See the module for the order of calls.

    defer: whether the host waits for counting (`tally`); without, all is counted at once, and nothing is asked.
    """

    def __init__(self, settings: Settings, memory: BackendMemory, *, defer: bool = False) -> None:
        self._settings = settings
        self._memory = memory
        self._defer = defer
        self.tally: PendingCount | None = None
        # The request is one of these:
        self._with_tools: Asked | None = None
        self._tapped: Tapped | None = None  # without, and usage is asked for
        self._extension: Extension | None = None
        # Of the response at hand:
        self._rewriter: StreamRewriter | None = None
        self._status = 200
        self._is_stream = False  # by its content type
        self._left = False  # something has left for the client
        self._calls = 0  # in the whole answer
        self._warnings: tuple[str, ...] = ()  # of the whole answer
        self.stopped = False

    # -- the request ---------------------------------------------------------------------------------------------

    def on_request(self, body: bytes) -> bytes | None:
        """The body for the backend, or None when this request is not ours. Raises ToolCallError to refuse it."""
        chat = read_request(body, self._settings)
        if chat is None:
            return None
        if isinstance(chat, UsageOnly):
            self._tapped = Tapped(without_overrides(body), self._settings, self._memory, defer=self._defer)
            return self._tapped.first()
        if chat.overrides:
            self._settings = self._settings.layer(chat.overrides, "request")
        settings = self._settings
        warnings = check_request(chat, settings)
        if settings.extension_field is not None:
            warnings += result_warnings(chat.messages, settings.max_result_bytes)
            self._extension = Extension(settings.extension_field, tuple(warnings))
        self._with_tools = Asked(chat, settings, self._memory, self._extension)
        return self._with_tools.first()

    def take_next(self) -> bytes | None:
        """The body to ask the backend again with, once; None when the answer has been given."""
        asked = self._tapped or self._asked
        body, asked.next_body = asked.next_body, None
        return body

    @property
    def _asked(self) -> Asked:
        assert self._with_tools is not None  # noqa: S101 - on_request has given a body
        return self._with_tools

    # -- what a host asks ----------------------------------------------------------------------------------------

    @property
    def max_response_bytes(self) -> int | None:
        """How much of a response may be collected."""
        return self._settings.max_response_bytes

    @property
    def paths(self) -> tuple[str, ...]:
        """The path suffixes that are intercepted."""
        return self._settings.paths

    @property
    def native(self) -> bool:
        """Whether the tools go to the backend."""
        return self._with_tools is not None and self._with_tools.native

    @property
    def offers_tools(self) -> bool:
        """Whether the answer may hold calls."""
        return self._with_tools is not None and self._with_tools.offers

    @property
    def calls_left(self) -> int:
        """How many calls have left for the client."""
        rewriter = self._rewriter
        return rewriter.outcome.calls if rewriter is not None and self._left else self._calls

    @property
    def said_all(self) -> bool:
        """Whether the backend's stream came to its `[DONE]`: what goes wrong behind it changes nothing."""
        return self._rewriter is not None and self._rewriter.received_done

    def headers(self) -> dict[str, str]:
        """Headers for a streamed answer; they replace the backend's."""
        if self._tapped is not None:
            return {"x-toolcall": f"mode=pass{_note(self._tapped)}"}
        chat = self._asked.chat
        note = _note(self._asked) if chat.stream and chat.include_usage else ""
        ours = {"x-toolcall": f"{self._asked.note}{note}"}
        return ours if self._is_stream else {**ours, "content-type": "text/event-stream"}

    # -- the response --------------------------------------------------------------------------------------------

    def on_response_start(self, status: int, headers: Headers) -> Plan:
        """What to do with a response that starts like this."""
        self.stopped = False
        self._left = False
        self._rewriter = None
        self._status = status
        kinds = {name.lower(): value.lower() for name, value in headers}
        self._is_stream = kinds.get(b"content-type", b"").startswith(b"text/event-stream")
        if self._tapped is not None:
            plain = kinds.get(b"content-encoding", b"identity") == b"identity"
            return self._tapped.plan_of(status, is_stream=self._is_stream, plain=plain)
        return plan_of(status, stream=self._asked.chat.stream)

    def plan_for(self, data: bytes) -> Plan:
        """The plan for a body that begins with `data`. Content types lie; SNIFF asks for more."""
        plan = plan_by_start(data, is_stream=self._is_stream)
        if plan is Plan.STREAM:
            self._rewriter = self._new_rewriter()
        return plan

    def _new_rewriter(self) -> StreamRewriter:
        chat, settings = self._asked.chat, self._settings
        return StreamRewriter(
            self._asked.make_choice,
            self._asked.usage,
            include_usage=chat.include_usage,
            choices=chat.n,
            hold=hold_for(chat, settings),
            legacy=chat.legacy,
            as_object=settings.arguments_as_object,
            reasoning_field=settings.reasoning_field,
            max_bytes=settings.max_response_bytes,
        )

    # -- a stream ------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> bytes:
        """The next bytes of the backend's stream; what leaves for the client."""
        tapped = self._tapped
        if tapped is not None:
            out = tapped.tap.feed(data)
            if tapped.tap.waits:
                self._wait()
            return out
        rewriter = self._rewriter
        assert rewriter is not None  # noqa: S101 - the plan is STREAM
        out = rewriter.feed(data)
        if out:
            self._left = True
        if rewriter.ended:
            self.stopped = True
            out += self._end(cut=False)
        return out

    def finish(self, *, cut: bool = False) -> bytes:
        """The backend's stream is over (`cut`: it broke off). Ask `take_next` then."""
        if self._tapped is not None:
            return self._tapped.tap.finish()
        return b"" if self.stopped else self._end(cut=cut)

    def _end(self, *, cut: bool) -> bytes:
        rewriter = self._rewriter
        assert rewriter is not None  # noqa: S101 - the plan is STREAM
        cut = cut and not rewriter.received_done
        out = rewriter.finish(cut=cut)
        self._left = self._left or bool(out)
        error = rewriter.failed
        if error is not None and not self._left and self._asked.retries(error):
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
        if not self._asked.is_settled(outcome, left=self._left):
            return b""
        _warn(outcome.warnings)
        if self._defer and rewriter.is_due:
            self._wait()
            return out
        return out + rewriter.end()

    def failure(self, error: ToolCallError) -> bytes:
        """The end of a stream that has begun and cannot go on: what is held back, the error, and `[DONE]`."""
        rest = self._rewriter.finish(cut=True) if self._rewriter is not None and not self.stopped else b""
        self.stopped = True
        return rest + error.sse() + DONE

    # -- a whole answer ------------------------------------------------------------------------------------------

    def whole(self, data: bytes) -> Reply | None:
        """A collected response. None: ask again, with `take_next`."""
        if self._tapped is not None:
            return None if self._tapped.retries(data) else Reply(self._status, data, as_it_came=True)
        asked, settings = self._asked, self._settings
        if self._status >= 400:
            if asked.mends(self._status, data):
                return None
            return self._json(openai.read_error(data, self._status).body())
        if asked.chat.stream:
            return self._as_stream(data)
        try:
            answer = rewrite_whole(
                data,
                asked.make_choice,
                asked.usage,
                legacy=asked.chat.legacy,
                indexed=settings.call_index,
                as_object=settings.arguments_as_object,
                reasoning_field=settings.reasoning_field,
                defer=self._defer,
            )
        except ToolCallError as error:
            if not self._left and asked.retries(error):
                return None
            raise
        if answer is None:
            raise no_completion(data)
        outcome = answer.outcome
        if not asked.is_settled(outcome, left=self._left):
            return None
        _warn(outcome.warnings)
        self._calls = outcome.calls
        self._warnings = outcome.warnings
        if self._defer and asked.usage.is_due:
            self._wait()
            return self._json(answer.body)
        return self._counted_json(answer.body)

    def _as_stream(self, data: bytes) -> Reply | None:
        """A whole answer to a request for a stream goes the way of a stream."""
        stream = as_stream(data)
        if stream is None:
            raise no_completion(data)
        self._rewriter = self._new_rewriter()
        out = self.feed(stream)
        out += self.finish()
        if self._asked.next_body is not None:
            return None
        return Reply(self._status, out, {"content-type": "text/event-stream", **self.headers()})

    def _counted_json(self, body: bytes) -> Reply:
        """A whole answer whose usage is in it, with our own remarks."""
        usage = self._asked.usage
        if self._extension is not None:
            remarks = self._extension.of(self._warnings) if self._calls else {}
            if injection := usage.injection():
                name = self._extension.field
                remarks = {name: {**remarks.get(name, {}), **injection}}
            body = openai.with_fields(body, remarks) if remarks else body
        estimated = "; usage=estimated" if usage.is_estimated else ""
        return self._json(body, f"; calls={self._calls}{estimated}")

    def _json(self, body: bytes, note: str = "") -> Reply:
        headers = {"content-type": "application/json", "x-toolcall": self.headers()["x-toolcall"] + note}
        return Reply(self._status, body, headers)

    # -- what has to wait for a count ----------------------------------------------------------------------------

    def _wait(self) -> None:
        asked = self._tapped or self._asked
        self.tally = PendingCount(asked.usage, asked.model, self._memory)

    def counted(self) -> bytes:
        """The rest of a stream whose `tally` was waited for."""
        self.tally = None
        if self._tapped is not None:
            return self._tapped.tap.release()
        assert self._rewriter is not None  # noqa: S101 - the plan is STREAM
        return self._rewriter.end()

    def counted_in(self, reply: Reply) -> Reply:
        """The same for an answer that `whole` gave."""
        if self._asked.chat.stream:
            return Reply(reply.status, reply.body + self.counted(), reply.headers)
        self.tally = None
        return self._counted_json(openai.with_fields(reply.body, {"usage": self._asked.usage.total()}))


def _note(asked: Asked | Tapped) -> str:
    """That usage will be estimated, where that is known before a stream begins."""
    return "; usage=estimated" if asked.usage.will_estimate else ""


def _warn(warnings: Sequence[str]) -> None:
    for warning in warnings:
        _log.warning("%s", warning)
