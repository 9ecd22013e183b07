"""Turns the events of one choice into the client's message: text, calls and reasoning. Refuses calls.

This module assigns indexes and ids to calls, keeps or drops text beside calls, and decides when generation may stop.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from ..answer.operations import Arguments, CallClosed, CallOpened, Content, Op, ReasoningText
from ..errors import ToolCallError
from ..formats.base import ToolFormat
from ..formats.near_misses import NoCall
from ..json_schema.validate_arguments import checker_for
from ..parsing.events import CallArgs, CallEnd, CallStart, Event, Malformed, Reasoning, Stop, Text, UnknownCall
from ..parsing.sink import Gathered, StopFinder
from ..parsing.values.typing import Coercion
from ..request.parse import ChatRequest
from ..settings import Settings
from ..settings.settings import admits
from ..wire.openai import free_text, new_call_id
from .call_id_codec import write_id
from .outcome import (
    CallOutcome,
    CallOutcomes,
    CallReport,
    FinishedCall,
    OpenCall,
    counted,
    malformed_text,
    place_of,
)

_MAX_SHOWN = 2000
_ALWAYS = (
    "tool calls are written by a model: check them before you run them; "
    "none has been run: the client runs the tools and sends their results"
)


@dataclass(frozen=True, slots=True)
class Extension:
    """The operator's extension `field` for warnings. `notes` are the request's own, such as on its tool results."""

    field: str
    notes: tuple[str, ...] = ()

    def of(
        self, warnings: Sequence[str], calls: Iterable[FinishedCall] = (), no_call: NoCall | None = None
    ) -> dict[str, Any]:
        """`{field: {"warning": text}}`; a general caution where there is no other warning.

        calls: those with an outcome that is not clean are counted under `outcomes`. no_call: why the answer holds no
        call; it is said in place of a warning.
        """
        said: dict[str, Any] = {"warning": "; ".join([*self.notes, *warnings]) or _ALWAYS}
        if no_call is not None:
            said = {"no_call": no_call.value}
        if outcomes := counted(calls):
            said["outcomes"] = outcomes
        return {self.field: said}


class AnswerPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """The policy for one choice: the settings of the request, and facts of the request and of the attempt."""

    chat: ChatRequest
    settings: Settings = Settings()
    constrained: bool = False
    """The backend is asked for calls alone."""
    native: bool = False
    """The backend was given the tools: its calls have ids."""
    strict: frozenset[str] = frozenset()
    """Tools whose calls are refused under every setting where they do not fit."""
    held: frozenset[str] = frozenset()
    """The strict tools whose calls are emitted only after that check, not while they stream."""
    extension: Extension | None = None
    full: Callable[[], bool] | None = None
    """Whether the model has written about as many tokens as the request allows."""
    report: CallReport | None = None
    """Receives finished calls."""
    syntax: ToolFormat | None = None
    """The format in which calls are read; None where no call can come."""
    retried: bool = False
    """The model was asked again, and this answer is the last."""

    def checker(self) -> Callable[[str, str], list[str]] | None:
        """Return what finds the faults of a finished call, given its name and arguments: of each tool's where arguments
        are validated, else of strict ones only.
        """
        validates = self.settings.validate_arguments != "off"
        if not (validates or self.strict):
            return None
        faults = checker_for(self.chat.tools_raw, self.chat.listed).faults
        return faults if validates else lambda name, written: faults(name, written) if name in self.strict else []

    def refuses_misfits_of(self, name: str) -> bool:
        """Whether a call of this tool is refused where the checker finds a fault; else the fault is a warning."""
        return self.settings.validate_arguments not in {"off", "warn"} or name in self.strict

    def admits(self, name: str) -> bool:
        """Whether the operator's allowlist lets a tool be called."""
        return self.settings.allowlist_mode == "off" or admits(self.settings.allowlist, name)

    @property
    def drops_prose(self) -> bool:
        """Whether text beside calls is left out. Where no call can come, no text is beside one."""
        return self.settings.prose == "drop" and self.chat.offers_tools

    @property
    def holds_prose(self) -> bool:
        """Whether text waits for the first call: a retry would lose it otherwise."""
        return self.chat.choice.must_call

    @property
    def holds_later(self) -> bool:
        """Whether calls after the first are emitted when they are complete. One that is cut off is not emitted."""
        return self.constrained and self.chat.choice.must_call

    @property
    def is_straight(self) -> bool:
        """Whether text is emitted as it is."""
        return not (self.chat.stop or self.holds_prose or self.drops_prose)


def _fault(code: str, message: str, param: str | None) -> ToolCallError:
    """A fault of the model. Where it exceeds a limit the status is not that of a request which does."""
    if code != "limit_exceeded":
        return ToolCallError(code, message, param=param)
    again = {"x-should-retry": "false"}
    return ToolCallError(code, message, param=param, status=422, type="model_error", headers=again)


class Source(enum.IntEnum):
    """Where an event was read."""

    TEXT = 0
    NATIVE = 1  # the backend's own calls
    REASONING = 2  # its reasoning field
    CHANNEL = 3  # a reasoning channel in the text
    ENDED_IN = 4  # a thought that was never closed, whose text was already emitted


class Message:
    """Events in, operations out. stopped: no more input is read; `fault` is the reason, where the model made one."""

    __slots__ = (
        "_check", "_ids", "_policy", "_prose_size", "_reads_thoughts", "_tools", "broken", "call", "calls",
        "calls_in_reasoning", "fault", "limited", "no_call", "outcomes", "prose", "reasoning_names", "refused",
        "source", "stopped", "stops", "warnings",
    )  # fmt: skip

    def __init__(self, policy: AnswerPolicy, *, reads_thoughts: bool = False) -> None:
        self._policy = policy
        self._check = policy.checker()
        self._tools = policy.chat.callable_tools  # made once: a request may allow some of many tools
        self._reads_thoughts = reads_thoughts  # calls are read in thoughts, too
        self.reasoning_names: tuple[str, ...] = ()
        """The fields that the last piece of the backend's reasoning is emitted in."""
        self.stops = StopFinder(policy.chat.stop) if policy.chat.stop else None
        """Finds the client's stop strings."""
        self._ids: set[str] = set()  # ids of the calls so far; an engine may give all calls the same id
        self.prose: list[str] = []
        """Text held until the first call, which may drop it; a retry discards it."""
        self._prose_size = 0  # in characters
        self.no_call: NoCall | None = None
        self.call: OpenCall | None = None
        """The open call."""
        self.source = Source.TEXT
        """Where the current events, and so the open call, were read."""
        self.refused = False  # the last call went out as text
        self.broken = False  # a call ended inside a value, though the model ended by itself
        self.limited = False  # the model did not end by itself: a call cut off at the end is not a fault
        self.calls = 0
        self.calls_in_reasoning = 0
        self.stopped = False
        self.fault: ToolCallError | None = None
        self.warnings: list[str] = []
        self.outcomes = CallOutcomes(self._tools, policy.syntax, policy.report)

    @property
    def extras(self) -> dict[str, Any]:
        """The operator's extension field, sent beside the choices of an answer; empty where there is nothing to say."""
        extension = self._policy.extension
        if extension is None or not (self.calls or self.no_call):
            return {}
        return extension.of(self.warnings, self.outcomes.finished, self.no_call)

    def keep_reasoning(self, text: str, source: Source, ops: list[Op]) -> None:
        """Emit reasoning that is not a call in the field that held it."""
        ops.append(ReasoningText(text, self.reasoning_names if source is Source.REASONING else ()))

    def apply(self, events: list[Event]) -> list[Op]:
        """Return the operations for events of one source."""
        ops: list[Op] = []
        for event in events:
            if self.stopped:
                break
            match event:
                case Text(text):
                    self._text(text, ops)
                case CallArgs(text):
                    ops += self.add_arguments(text)
                case CallStart():
                    self.flush_stops(ops)
                    self._start(event, ops)
                case CallEnd():
                    self._end(event, ops)
                case Reasoning(text, markup, channel):
                    if self._policy.settings.reasoning_field is None and not channel:
                        # Where calls are read in thoughts, a thought is treated as other text.
                        self._text(text, ops, thought=not self._reads_thoughts)
                    elif not markup:
                        ops.append(ReasoningText(text))
                case Stop():
                    self.stopped = True
                case UnknownCall(name, True):
                    self.outcomes.refuse(name, CallOutcome.MALFORMED, "arguments")
                case UnknownCall(name):
                    self.outcomes.refuse(name)
                case Malformed(raw, _, name):
                    # Emitted only where the setting makes an unknown tool an error.
                    self.outcomes.refuse(name or "")
                    message = f"The model called {name!r}, which is not among the tools of the request: "
                    self._refuse("unknown_tool_call", message + raw[:_MAX_SHOWN], raw, at="name")
        return ops

    def refuse_size(self, name: str) -> None:
        """Refuse the current call: its arguments exceed their limit."""
        begun = self.call is not None and not self.call.held
        limit = self._policy.settings.max_arguments_bytes
        message = f"The arguments of the model's call of {name!r} exceed max_arguments_bytes ({limit})."
        self._refuse("limit_exceeded", message, at="arguments", begun=begun)
        if self.call is not None:
            self.call.note(CallOutcome.MALFORMED, "arguments")
            self.outcomes.end(replace(self.call, name=name))  # another source's call may be the open one

    def _refuse(
        self, code: str, message: str, written: str = "", *, at: str | None = None, begun: bool = False
    ) -> None:
        """End the answer with a fault. at: where in the current call. begun: the client already has the call's name."""
        param = None if at is None else f"tool_calls[{self.calls - begun}].function.{at}"
        self.fault = _fault(code, message, param)
        self.fault.written = written
        self.stopped = True

    # -- text ----------------------------------------------------------------------------------------------------

    def _text(self, text: str, ops: list[Op], *, thought: bool = False) -> None:
        if self.stops is not None:
            text = self.stops.feed(text)
            self.stopped = self.stops.found is not None
        self._show(text, ops, thought=thought)

    def flush_stops(self, ops: list[Op]) -> None:
        """A call begins, or the text ends: emit the text held back as the possible beginning of a stop string."""
        if self.stops is not None:
            self._show(self.stops.flush(), ops)

    def _show(self, text: str, ops: list[Op], *, thought: bool = False) -> None:
        if not text:
            return
        policy = self._policy
        if not thought:
            self.outcomes.see_text(text)
        if not self.calls and (policy.holds_prose or policy.drops_prose):
            self.prose.append(text)
            self._prose_size += len(text)
            most = policy.settings.max_response_bytes
            if most is not None and self._prose_size > most:
                self._refuse("upstream_error", f"The text before the first call exceeds max_response_bytes ({most}).")
        elif not policy.drops_prose:
            ops.append(Content(text))

    def release_prose(self, ops: list[Op]) -> None:
        """Emit the held prose, if any."""
        if self.prose:
            ops.append(Content("".join(self.prose)))
            self.prose.clear()

    # -- calls ---------------------------------------------------------------------------------------------------

    def _start(self, event: CallStart, ops: list[Op]) -> None:
        policy, limit = self._policy, self._policy.settings.max_arguments_bytes
        name, call_id, offered = event.name, event.id, self._tools.by_name
        own = None
        if call_id is not None and policy.native:
            own = write_id(call_id) if policy.settings.rewrite_ids else call_id
        call = self.call = OpenCall(name, own, math.inf if limit is None else limit, extra=event.extra)
        for happened, outcome, path in (
            (bool(policy.chat.tools.tools) and name not in offered, CallOutcome.UNKNOWN_TOOL, "name"),
            (policy.retried, CallOutcome.RETRIED, ""),
            (event.written is not None, CallOutcome.RENAMED, "name"),
            (event.in_reasoning or self.source >= Source.REASONING, CallOutcome.IN_REASONING, ""),
        ):
            if happened:
                call.note(outcome, path)
        tool = offered.get(name)
        if tool is not None and policy.settings.coerce_arguments and name not in policy.chat.custom:
            call.coercion = Coercion(tool.parameters)
        if not policy.admits(name):
            message = f"The model called the tool {name!r}, which is not on the allowlist."
            if policy.settings.allowlist_mode != "warn":
                self._refuse("tool_not_allowed", message, at="name")
                return
            self.warnings.append(message)
        call.held = not self._may_stream(name) or name in policy.held or self._is_held_later(name)
        if call.held or name in policy.strict:
            call.kept = Gathered()
        if not call.held:
            self._open(call, ops)

    def _is_held_later(self, name: str) -> bool:
        """Whether a later call of this name is held until its end although it would stream as the first call."""
        return self._policy.holds_later and self.calls > 0 and self._may_stream(name)

    def _may_stream(self, name: str) -> bool:
        return self._policy.settings.stream_arguments and name not in self._policy.chat.custom

    def _open(self, call: OpenCall, ops: list[Op]) -> None:
        if not self._policy.drops_prose:
            self.release_prose(ops)
        self.prose.clear()
        custom = call.name in self._policy.chat.custom
        call_id = new_call_id() if call.id is None or call.id in self._ids else call.id
        self._ids.add(call_id)
        ops.append(CallOpened(self.calls, call_id, call.name, custom, call.extra))
        self.calls += 1
        self.calls_in_reasoning += self.source in (Source.REASONING, Source.ENDED_IN)

    def add_arguments(self, text: str) -> list[Op]:
        """Read more of the open call's arguments."""
        call = self.call
        assert call is not None  # noqa: S101 - the parser's order of events
        call.room -= len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))
        if call.room < 0:
            # In small pieces, the first shows whether the arguments are an object before they exceed the limit.
            if call.begun or call.held or self._begins_object(call, text):
                self.refuse_size(call.name)
            return []
        if call.coercion is not None and not (text := call.coercion.feed(text)):
            return []
        if call.begun and call.kept is None:
            return [Arguments(self.calls - 1, text)]  # nearly always
        return self._leave(call, text)

    def _leave(self, call: OpenCall, text: str) -> list[Op]:
        if call.kept is not None:
            call.kept.write(text)
        if call.held or not (call.begun or self._begins_object(call, text)):
            return []
        return [Arguments(self.calls - 1, text)]

    def _begins_object(self, call: OpenCall, text: str) -> bool:
        """Whether arguments that stream may be emitted: they begin an object, or are only white space so far."""
        start = text.lstrip()[:1]
        call.begun = start == "{"
        if not start or call.begun:
            return True
        # This cannot be repaired, and the client already has the call's name.
        self._malformed(call, "a JSON object", text, begun=True)
        self.outcomes.end(call)
        return False

    def _malformed(self, call: OpenCall, what: str, written: str, *, begun: bool = False) -> None:
        """Refuse a call whose arguments are not `what`, such as "a JSON object"."""
        call.note(CallOutcome.MALFORMED, "arguments")
        message = f"The arguments of the model's call of {call.name!r} are not {what}: {written[:_MAX_SHOWN]}"
        self._refuse("malformed_tool_arguments", message, written, at="arguments", begun=begun)

    def _end(self, event: CallEnd, ops: list[Op]) -> None:
        call, self.call = self.call, None
        assert call is not None  # noqa: S101 - the parser's order of events
        if call.coercion is not None:
            if rest := call.coercion.finish():
                ops += self._leave(call, rest)
                if self.fault is not None:
                    return
            if call.coercion.coerced:
                call.note(CallOutcome.COERCED, place_of(call.coercion.path))
        for happened, outcome in (
            (event.coerced, CallOutcome.COERCED),
            (event.repaired, CallOutcome.REPAIRED),
            (not event.complete, CallOutcome.CUT),
        ):
            if happened:
                call.note(outcome, "arguments")
        begun = self.calls if call.held else self.calls - 1  # before this one
        self._judge(call, event, ops)
        if self.calls > begun:
            ops.append(CallClosed(self.calls - 1, event.complete))
        self.outcomes.end(call)

    def _judge(self, call: OpenCall, event: CallEnd, ops: list[Op]) -> None:
        """Emit a finished call that was held, or refuse it, or show it as text. One that streamed is only checked."""
        written = "" if call.kept is None else call.kept.take()
        if not call.held:
            if call.kept is None or not event.complete or self._fits(call, written, event.raw, begun=True):
                self._follow(call, event)
            return
        settings, free = self._policy.settings, call.name in self._policy.chat.custom
        malformed = settings.malformed_arguments
        if malformed == "forward":
            verbatim = "" if free else malformed_text(event, written)
            if verbatim and self._forward(call, verbatim, written, event, ops):
                if self.fault is None:
                    self._follow(call, event)
                return
            malformed = "error" if verbatim else "repair"
        # JSON, but not an object: this cannot be repaired.
        other = event.complete and not free and not written.lstrip().startswith("{")
        if other and malformed == "repair":
            malformed = "error"
        if event.complete and not other and (malformed == "repair" or not event.repaired):
            if not self._fits(call, written, event.raw):
                return
            self._open(call, ops)
            ops.append(Arguments(self.calls - 1, free_text(written) if free else written, custom=free))
        elif malformed == "error" and (event.complete or not self.limited):
            what = "a JSON object" if other or settings.arguments_as_object else "JSON"
            self._malformed(call, what if event.complete else "complete: the text ends inside of them", event.raw)
            return
        else:
            self.broken = self.broken or not (event.complete or self.limited)
            if event.complete:
                call.note(CallOutcome.MALFORMED, "arguments")
            if not self._is_held_later(call.name):
                self.refused = True
                if self.source < Source.REASONING:
                    self._show(event.raw, ops)
                elif self.source is not Source.ENDED_IN:
                    self.keep_reasoning(event.raw, self.source, ops)
            return
        self._follow(call, event)

    def _follow(self, call: OpenCall, event: CallEnd) -> None:
        """A call was emitted: decide whether anything may be emitted after it."""
        self.refused = False
        if not event.complete and not self.limited:
            # The cut call was emitted: a client could take later output for the rest of it.
            self.broken = self.stopped = True
        parallel = self._policy.chat.choice.parallel
        most = self._policy.settings.max_tool_calls if parallel else 1
        if event.complete and most is not None and self.calls >= most:
            self.stopped = True
            if parallel:
                self.warnings.append(f"max_tool_calls is {most}: the answer was ended after the call of {call.name!r}")

    def _forward(self, call: OpenCall, verbatim: str, written: str, event: CallEnd, ops: list[Op]) -> bool:
        """Emit malformed arguments as the model wrote them, if allowed. written: the repaired arguments."""
        policy = self._policy
        checks = self._check is not None and policy.refuses_misfits_of(call.name)
        # A call that the token limit cut is not a fault, and only an object can be checked.
        readable = event.complete and written.lstrip().startswith("{")
        if policy.settings.arguments_as_object or (not event.complete and self.limited) or (checks and not readable):
            return False
        call.note(CallOutcome.MALFORMED, "arguments")
        most = policy.settings.max_arguments_bytes
        if most is not None and len(verbatim.encode("utf-8", "replace")) > most:
            self.refuse_size(call.name)
            return True
        if readable and not self._fits(call, written, event.raw, written=verbatim):
            return True
        self._open(call, ops)
        ops.append(Arguments(self.calls - 1, verbatim))
        return True

    def _fits(self, call: OpenCall, arguments: str, raw: str, *, written: str = "", begun: bool = False) -> bool:
        """Whether a finished call may be emitted. A misfit with its schema is a warning, or the call is refused.

        written: the arguments as the model wrote them, where they differ. begun: the call was emitted unchecked.
        """
        faults = [] if self._check is None else self._check(call.name, arguments)
        if not faults:
            return True
        what = f"The arguments of the model's call of {call.name!r} do not fit its schema: {'; '.join(faults)}"
        at = place_of(faults[0].partition(": ")[0])
        call.note(CallOutcome.INVALID, at)
        if not self._policy.refuses_misfits_of(call.name):
            self.warnings.append(what)
            return True
        message = f"{what}. It wrote: {(written or arguments)[:_MAX_SHOWN]}"
        self._refuse("invalid_tool_arguments", message, raw, at=at, begun=begun)
        return False
