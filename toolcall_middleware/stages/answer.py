"""One choice of an answer: what the parser says becomes what the client gets. Stream and whole answer share it.

Here is decided which call gets which index and id, what becomes of text beside calls, when generation may stop, and
which finish_reason is true.
"""

from __future__ import annotations

import enum
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..errors import ToolCallError
from ..formats.base import StreamParser
from ..parsing.events import CallArgs, CallEnd, CallStart, Event, Malformed, Reasoning, Stop, Text
from ..parsing.gathered import Gathered
from ..parsing.lane import Lane, Way
from ..parsing.stops import StopFinder
from ..wire import openai
from ..wire.openai import Fields
from .answer_policy import AnswerPolicy
from .ids import new_call_id, write_id
from .native import NativeCalls
from .operations import Arguments, Content, Op, Opened, Thought
from .thoughts import ThoughtReader, take_thoughts

__all__ = ["AnswerPolicy", "Arguments", "ChoiceAnswer", "Content", "Op", "Opened", "Thought", "Verbatim"]

_MAX_SHOWN = 2000
_LANE_ROOM = 1 << 16  # bytes of arguments that may go past uncounted for a while


_CUT = frozenset({"length", "content_filter"})
_CALLED = frozenset({"tool_calls", "function_call"})
_OF_A_CALL = frozenset({CallStart, CallArgs, CallEnd, Malformed, Stop})


class _Source(enum.IntEnum):
    """Where an event was read."""

    TEXT = 0
    OWN = 1  # the backend's own calls
    THOUGHTS = 2  # its reasoning field
    CHANNEL = 3  # a reasoning channel in the text


@dataclass(slots=True)
class _OpenCall:
    name: str
    id: str | None
    room: float  # bytes that its arguments may still take
    parts: Gathered | None = None  # the arguments of a call that waits for its end
    extra: dict[str, Any] | None = None


class Verbatim:
    """The parser of an answer in which nothing is to be found."""

    def feed(self, text: str, /) -> list[Event]:
        """All of it is text."""
        return [Text(text)]

    def finish(self, *, cut: bool = False) -> list[Event]:  # noqa: ARG002 - as a parser
        """Nothing was held back."""
        return []


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


class ChoiceAnswer:
    """The state of one choice. Feed it the model's text; it gives operations for the client's message.

    `calls`: those that have begun. `stopped`: nothing that the model writes from here on is wanted. `fault`: why the
    answer must not go on, the operations before it are still good; then it is stopped too. `cut`: the answer ended at
    its limit of tokens. `lost`: the backend says that there was a call, and none came. `in_thoughts`: the calls that
    were read in its reasoning field.
    """

    __slots__ = (
        "_alone", "_call", "_channel", "_ended", "_held", "_held_size", "_ids", "_native", "_parser", "_policy",
        "_read", "_refused", "_source", "_stops", "_straight", "_thoughts", "_waiting", "calls", "cut", "fault",
        "in_thoughts", "lost", "stopped", "warnings",
    )  # fmt: skip

    def __init__(
        self,
        parser: StreamParser,
        policy: AnswerPolicy,
        native: NativeCalls | None = None,
        thoughts: ThoughtReader | None = None,
    ) -> None:
        self._parser = parser
        self._read: Callable[[str], list[Event] | str] = getattr(parser, "read", parser.feed)
        self._native = native
        self._thoughts = thoughts
        self._channel = None if thoughts is None else thoughts.another()
        self._alone = native is None and thoughts is None  # calls are read from the text only
        self._policy = policy
        self._stops = StopFinder(policy.stop) if policy.stop else None
        self._straight = _is_straight(policy)  # text leaves as it is
        self._call: _OpenCall | None = None
        self._held: list[str] = []  # text beside calls that waits for the first of them
        self._held_size = 0
        self._ids: set[str] = set()  # that are given; an engine may give all calls the same
        self._ended = False
        self._refused = False  # the last call went out as text
        self._source = _Source.TEXT  # of the open call
        self._waiting: list[tuple[_Source, Event]] = []  # of other sources of calls, while a call is open
        self.calls = 0
        self.in_thoughts = 0
        self.stopped = self.cut = self.lost = False
        self.fault: ToolCallError | None = None
        self.warnings: list[str] = []

    @property
    def native(self) -> NativeCalls | None:
        """The backend's own calls, where it was given the tools."""
        return self._native

    def feed_both(self, text: str, deltas: list[Any]) -> list[Op]:
        """Text, and entries of the backend's own `tool_calls`, that come at once.

        A call in the text is one that the backend's parser has left there: it stands behind those that it has read.
        """
        if self.stopped or self._ended or self._native is None:
            return []
        events = self._parser.feed(text)
        first = next((at for at, event in enumerate(events) if type(event) in _OF_A_CALL), len(events))
        ops = self._take(events[:first], _Source.TEXT)
        ops += self._take(self._native.feed(deltas), _Source.OWN)
        if self._native.oversized is not None and not self.stopped:
            self._refuse_size(self._native.oversized)
        return ops + self._take(events[first:], _Source.TEXT)

    @property
    def thinks(self) -> bool:
        """Whether calls are read in the backend's reasoning field, too: `take_thoughts` comes first then."""
        return self._thoughts is not None

    def take_thoughts(self, said: Fields, text: str) -> tuple[list[Op], Fields, bool]:
        """The reasoning field of a delta or message, whose content is `text`.

        Returns what comes of it, the other fields, and whether it leaves as it came.
        """
        thoughts = self._thoughts
        thought, names, rest = take_thoughts(said)
        if thoughts is None or self.stopped or self._ended:
            return [], rest, not thought
        ops: list[Op] = []
        if thought:
            field = self._policy.reasoning_field
            # Where that one is taken, by other words, each stays in its own.
            kept = names if field is None or openai.read_text(rest.get(field)) else (field,)
            ops = self._take(thoughts.feed(thought, kept), _Source.THOUGHTS)
        if text or any(openai.read_value(rest.get(name)) for name in ("tool_calls", "function_call")):
            ops += self._take(thoughts.finish(), _Source.THOUGHTS)
        return ops, rest, ops == ([Thought(thought, names)] if thought else [])

    def feed(self, text: str) -> list[Op]:
        """The next piece of the model's text."""
        said = self.read(text)
        if not isinstance(said, str):
            return said
        return [Arguments(self.calls - 1, said)] if said else []

    def read(self, text: str) -> list[Op] | str:
        """As `feed`; a string where all that leaves are more of the last call's arguments, or nothing."""
        if self.stopped or self._ended:
            return []
        events = self._read(text)
        if isinstance(events, str):
            call = self._call
            size = len(events) if events.isascii() else _size(events)
            if call is not None and call.parts is None and not self._source and call.room >= size:
                call.room -= size
                return events
            events = [CallArgs(events)] if events else []
        if len(events) == 1:
            only = events[0]
            if type(only) is Text and self._straight:
                return [only]
            if type(only) is CallArgs and self._alone:
                call, size = self._call, _size(only.text)
                if call is None or call.parts is not None or call.room < size:
                    return self._arguments(only.text)
                call.room -= size
                return only.text
            if type(only) is Reasoning and self._straight and self._policy.reasoning_field is None and not only.channel:
                return [Content(only.text)]
        return self._apply(events) if self._alone else self._take(events, _Source.TEXT)

    @property
    def lane(self) -> Lane | None:
        """What may go past `feed` now, and leaves as it is: text as content, arguments as those of the last call.

        `went_by` is told of it before anything else is asked for, and at the latest after 64 KiB.
        """
        lane: Lane | None = getattr(self._parser, "lane", None)
        if lane is None or self.stopped or self._ended or self._source or self._waiting:
            return None
        if lane.way is Way.ARGUMENTS:
            call = self._call
            return lane if call is not None and call.parts is None and call.room > _LANE_ROOM else None
        return lane if self._straight and (lane.way is Way.TEXT or self._policy.reasoning_field is None) else None

    @property
    def run(self) -> Callable[[str], str | None] | None:
        """What may be fed in place of `read` now, where all that comes is more of the last call's arguments.

        `ran` is told how much left so, before anything else is asked for and at the latest after 16 KiB.
        """
        run: Callable[[str], str | None] | None = getattr(self._parser, "run", None)
        call = self._call
        if run is None or call is None or call.parts is not None or call.room <= _LANE_ROOM:
            return None
        return None if self.stopped or self._ended or self._source or self._waiting else run

    def ran(self, size: int) -> None:
        """So many bytes of arguments left."""
        if self._call is not None:
            self._call.room -= size

    def went_by(self, lane: Lane, text: str) -> None:
        """`text` left by the lane."""
        if lane.way is Way.ARGUMENTS and self._call is not None:
            self._call.room -= len(text) - (text.count("\\\\") if lane.twice else 0)
        self._parser.went_by(text)  # type: ignore[attr-defined]  # a parser with a lane

    def finish(self, reason: str | None, *, lost: bool = False) -> tuple[list[Op], str]:
        """The end: (last operations, the true finish_reason). `lost`: the backend went away in the middle."""
        ops: list[Op] = []
        if not self.stopped and not self._ended:
            if reason not in _CUT and self._breaks_off():
                reason = "length"
            cut = lost or reason in _CUT
            events = self._parser.finish(cut=cut)
            if self.calls and not self._refused and events and _is_blank(events[-1]):
                events.pop()  # white space behind a call is none of the answer's text
            own = [] if self._native is None else self._native.finish(cut=cut)
            if self._thoughts is not None:
                ops += self._take(self._thoughts.finish(cut=cut), _Source.THOUGHTS)
            if self._source is _Source.OWN and self._call is not None:
                ops += self._take(own, _Source.OWN)
                own = []
            ops += self._take(events, _Source.TEXT)
            if self._channel is not None:
                ops += self._take(self._channel.finish(cut=cut), _Source.CHANNEL)
            self._flush_stops(ops)
            ops += self._take(own, _Source.OWN)
            self.cut = reason in _CUT
            self.lost = not self.calls and reason in _CALLED and not self.stopped
        self._ended = True
        if self._held and not self._policy.hold_prose:
            # Prose is dropped beside calls, and there were none.
            ops.append(Content("".join(self._held)))
            self._held = []
        return ops, self._reason(reason)

    @property
    def extras(self) -> dict[str, Any]:
        """What stands beside the choices of an answer with calls: the operator's extension field."""
        extension = self._policy.extension
        return {} if extension is None or not self.calls else extension.of(self.warnings)

    @property
    def held_text(self) -> str:
        """Text that waits for a call which has not come."""
        return "".join(self._held)

    def _reason(self, reason: str | None) -> str:
        if reason in _CUT and not self.stopped:
            return str(reason)
        if self.calls:
            return "function_call" if self._policy.legacy else "tool_calls"
        # The backend may have seen a call where there is none.
        return "stop" if self.stopped or reason in {None, "tool_calls", "function_call"} else str(reason)

    def _breaks_off(self) -> bool:
        """Whether the backend's own call was cut off by the token limit, whatever finish_reason it gives."""
        native, full = self._native, self._policy.full
        return native is not None and native.unfinished and (native.amid or (full is not None and full()))

    def _take(self, events: list[Event], source: _Source) -> list[Op]:
        """Events of one of the sources: the text, the backend's own calls, its reasoning field. Their calls do not mix:
        what comes of another one waits until the open call is over.
        """
        if self._alone:
            return self._apply(events)
        if self._channel is None or source is not _Source.TEXT:
            return self._take_from([(source, event) for event in events])
        told: list[tuple[_Source, Event]] = []
        for event in events:
            if type(event) is Reasoning and event.channel:
                told += [(_Source.CHANNEL, inner) for inner in self._channel.feed(event.text)]
                self._straight = False  # what follows ends it first
            else:
                told += [(_Source.CHANNEL, inner) for inner in self._channel.finish()]
                self._straight = _is_straight(self._policy)
                told.append((source, event))
        return self._take_from(told)

    def _take_from(self, events: list[tuple[_Source, Event]]) -> list[Op]:
        ops: list[Op] = []
        for source, event in events:
            if self.stopped:
                break
            if self._call is not None and self._source is not source and (self._waiting or type(event) in _OF_A_CALL):
                self._waiting.append((source, event))
                continue
            if type(event) is CallStart:
                self._source = source
            if source >= _Source.THOUGHTS and isinstance(event, Text | Reasoning):
                self._keep_thought(event.text, source, ops)
            else:
                ops += self._apply([event])
            if self._call is None:
                if self._source >= _Source.THOUGHTS:
                    self._source = _Source.TEXT
                if self._waiting:
                    waiting, self._waiting = self._waiting, []
                    ops += self._take_from(waiting)
        return ops

    def _keep_thought(self, text: str, source: _Source, ops: list[Op]) -> None:
        """Reasoning that is no call stays reasoning, in the field that it came in."""
        thoughts = self._thoughts
        ops.append(Thought(text, thoughts.names if thoughts is not None and source is _Source.THOUGHTS else ()))

    def _apply(self, events: list[Event]) -> list[Op]:
        ops: list[Op] = []
        for event in events:
            if self.stopped:
                break
            match event:
                case Text(text):
                    self._text(text, ops)
                case CallArgs(text):
                    ops += self._arguments(text)
                case CallStart(name, call_id, extra):
                    self._flush_stops(ops)
                    self._start(name, call_id, extra, ops)
                case CallEnd():
                    self._end(event, ops)
                case Reasoning(text, markup, channel):
                    if self._policy.reasoning_field is None and not channel:
                        self._text(text, ops)
                    elif not markup:
                        ops.append(Thought(text))
                case Stop():
                    self.stopped = True
                case Malformed(raw, _, name):
                    # Only told where the setting makes it an error.
                    message = f"The model called {name!r}, which is not among the tools of the request: "
                    self._refuse("unknown_tool_call", message + raw[:_MAX_SHOWN], raw, at="name")
        return ops

    def _refuse_size(self, name: str) -> None:
        limit = self._policy.max_arguments_bytes
        message = f"The arguments of the model's call of {name!r} exceed max_arguments_bytes ({limit})."
        self._refuse("limit_exceeded", message, at="arguments")

    def _refuse(self, code: str, message: str, written: str = "", *, at: str | None = None) -> None:
        """End the answer. at: where in the call at hand."""
        param = None if at is None else f"tool_calls[{self.calls}].function.{at}"
        self.fault = ToolCallError(code, message, param=param)
        self.fault.written = written
        self.stopped = True

    # -- text ----------------------------------------------------------------------------------------------------

    def _text(self, text: str, ops: list[Op]) -> None:
        if self._stops is not None:
            text = self._stops.feed(text)
            self.stopped = self._stops.found is not None
        self._show(text, ops)

    def _flush_stops(self, ops: list[Op]) -> None:
        """A call begins, or the text ends: what could still have become a stop string is none."""
        if self._stops is not None:
            self._show(self._stops.flush(), ops)

    def _show(self, text: str, ops: list[Op]) -> None:
        if not text:
            return
        policy = self._policy
        if not self.calls and (policy.hold_prose or policy.drop_prose):
            self._held.append(text)
            self._held_size += len(text)
            if policy.max_held is not None and self._held_size > policy.max_held:
                message = f"The text before the first call exceeds max_response_bytes ({policy.max_held})."
                self._refuse("upstream_error", message)
        elif not policy.drop_prose:
            ops.append(Content(text))

    # -- calls ---------------------------------------------------------------------------------------------------

    def _start(self, name: str, call_id: str | None, extra: dict[str, Any] | None, ops: list[Op]) -> None:
        policy, limit = self._policy, self._policy.max_arguments_bytes
        own = None
        if call_id is not None and (policy.keep_ids or policy.write_ids):
            own = call_id if policy.keep_ids else write_id(call_id)
        call = self._call = _OpenCall(name, own, math.inf if limit is None else limit, extra=extra)
        if policy.admits is not None and not policy.admits(name):
            message = f"The model called the tool {name!r}, which is not on the allowlist."
            if not policy.admit_only_warns:
                self._refuse("tool_not_allowed", message, at="name")
                return
            self.warnings.append(message)
        if policy.stream_arguments and name not in policy.custom and not self._waits_behind(name):
            self._open(call, ops)
        else:
            call.parts = Gathered()

    def _waits_behind(self, name: str) -> bool:
        """Whether a call of this name, that would stream if it were the first, waits for its end."""
        policy = self._policy
        return policy.hold_later and self.calls > 0 and policy.stream_arguments and name not in policy.custom

    def _open(self, call: _OpenCall, ops: list[Op]) -> None:
        if self._held and not self._policy.drop_prose:
            ops.append(Content("".join(self._held)))
        self._held = []
        custom = call.name in self._policy.custom
        call_id = new_call_id() if call.id is None or call.id in self._ids else call.id
        self._ids.add(call_id)
        ops.append(Opened(self.calls, call_id, call.name, custom, call.extra))
        self.calls += 1
        self.in_thoughts += self._source is _Source.THOUGHTS

    def _arguments(self, text: str) -> list[Op]:
        call = self._call
        assert call is not None  # noqa: S101 - the parser's order of events
        call.room -= _size(text)
        if call.room < 0:
            self._refuse_size(call.name)
        elif call.parts is None:
            return [Arguments(self.calls - 1, text)]
        else:
            call.parts.write(text)
        return []

    def _end(self, event: CallEnd, ops: list[Op]) -> None:
        call, self._call = self._call, None
        assert call is not None  # noqa: S101 - the parser's order of events
        if call.parts is not None:
            written, malformed = call.parts.take(), self._policy.malformed
            if event.complete and self._policy.objects and not written.lstrip().startswith("{"):
                # JSON, but none that could be given as an object; there is nothing to repair.
                kept, malformed = False, "error" if malformed == "repair" else malformed
            else:
                kept = malformed == "repair" or not event.repaired
            if event.complete and kept:
                self._whole_call(call, written, event.raw, ops)
                if self.fault is not None:
                    return
            elif event.complete and malformed == "error":
                what = "a JSON object" if self._policy.objects else "JSON"
                message = f"The arguments of the model's call of {call.name!r} are not {what}: {event.raw[:_MAX_SHOWN]}"
                self._refuse("malformed_tool_arguments", message, event.raw, at="arguments")
                return
            else:
                if not self._waits_behind(call.name):
                    self._refused = True
                    if self._source >= _Source.THOUGHTS:
                        self._keep_thought(event.raw, self._source, ops)
                    else:
                        self._show(event.raw, ops)
                return
        self._refused = False
        most = self._policy.max_calls
        if event.complete and most is not None and self.calls >= most:
            self.stopped = True
            if self._policy.limited:
                self.warnings.append(f"max_tool_calls is {most}: the answer was ended after the call of {call.name!r}")

    def _whole_call(self, call: _OpenCall, arguments: str, raw: str, ops: list[Op]) -> None:
        faults = self._policy.check(call.name, arguments) if self._policy.check is not None else []
        if faults:
            what = f"The arguments of the model's call of {call.name!r} do not fit its schema: {'; '.join(faults)}"
            if self._policy.warn_only:
                self.warnings.append(what)
            else:
                path = faults[0].partition(": ")[0]
                at = "arguments" if path == "(root)" else f"arguments{'' if path[0] == '[' else '.'}{path}"
                self._refuse("invalid_tool_arguments", f"{what}. It wrote: {arguments[:_MAX_SHOWN]}", raw, at=at)
                return
        self._open(call, ops)
        if call.name in self._policy.custom:
            # A custom tool takes free text: what the model gave as `input`.
            given = openai.read_value(arguments.encode("utf-8", "replace"))
            text = given.get("input") if isinstance(given, dict) else None
            ops.append(Arguments(self.calls - 1, text if isinstance(text, str) else arguments, custom=True))
        else:
            ops.append(Arguments(self.calls - 1, arguments))


def _is_straight(policy: AnswerPolicy) -> bool:
    return not (policy.stop or policy.hold_prose or policy.drop_prose)


def _is_blank(event: Event) -> bool:
    return type(event) is Text and event.text.isspace()
