"""One choice of an answer: what the parser says becomes what the client gets. Stream and whole answer share it.

Here is decided in which order the events of several sources come (the text, the backend's own calls, its reasoning),
and which finish_reason is true. What the events come to is message.py's.
"""

from __future__ import annotations

from typing import Any

from ..formats.base import StreamParser
from ..parsing.events import CallArgs, CallEnd, CallStart, Event, Malformed, Reasoning, Stop, Text
from ..wire import openai
from ..wire.openai import Fields
from .message import Message, Source, is_straight, size_of
from .native_calls import NativeCalls
from .operations import Arguments, Content, Op, Opened, Thought
from .policy import AnswerPolicy
from .reasoning import ThoughtReader, take_thoughts

__all__ = ["AnswerPolicy", "Arguments", "ChoiceAnswer", "Content", "Op", "Opened", "Thought", "Verbatim"]

_CUT = frozenset({"length", "content_filter"})
_CALLED = frozenset({"tool_calls", "function_call"})
_OF_A_CALL = frozenset({CallStart, CallArgs, CallEnd, Malformed, Stop})


class Verbatim:
    """The parser of an answer in which nothing is to be found."""

    def feed(self, text: str, /) -> list[Event]:
        """All of it is text."""
        return [Text(text)]

    def finish(self, *, cut: bool = False) -> list[Event]:  # noqa: ARG002 - as a parser
        """Nothing was held back."""
        return []


class ChoiceAnswer(Message):
    """The state of one choice. Feed it the model's text; it gives operations for the client's message.

    `calls`: those that have begun. `stopped`: nothing that the model writes from here on is wanted. `fault`: why the
    answer must not go on, the operations before it are still good; then it is stopped too. `cut`: the answer ended at
    its limit of tokens. `lost`: the backend says that there was a call, and none came. `in_thoughts`: the calls that
    were read in its reasoning field. `thinks`: calls are read in it at all; `take_thoughts` comes first then.
    """

    __slots__ = (
        "_alone", "_channel", "_ended", "_native", "_parser", "_straight", "_waiting", "cut", "lost", "thinks",
    )  # fmt: skip

    def __init__(
        self,
        parser: StreamParser,
        policy: AnswerPolicy,
        native: NativeCalls | None = None,
        thoughts: ThoughtReader | None = None,
    ) -> None:
        super().__init__(policy, thoughts)
        self._parser = parser
        self._native = native
        self._channel = None if thoughts is None else thoughts.another()
        self.thinks = thoughts is not None
        self._alone = native is None and thoughts is None  # calls are read from the text only
        self._straight = is_straight(policy)  # text leaves as it is
        self._ended = False
        self._waiting: list[tuple[Source, Event]] = []  # of other sources of calls, while a call is open
        self.cut = self.lost = False

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
        ops = self._take(events[:first], Source.TEXT)
        ops += self._take(self._native.feed(deltas), Source.OWN)
        if self._native.oversized is not None and not self.stopped:
            begun = self._call is not None and self._call.parts is None
            self._refuse_size(self._native.oversized, begun=begun)
        return ops + self._take(events[first:], Source.TEXT)

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
            ops = self._take(thoughts.feed(thought, kept), Source.THOUGHTS)
        if text or any(openai.read_value(rest.get(name)) for name in ("tool_calls", "function_call")):
            ops += self._take(thoughts.finish(), Source.THOUGHTS)
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
        events = self._parser.feed(text)
        if not events:
            return []
        if len(events) == 1:
            only = events[0]
            if type(only) is Text and self._straight:
                return [only]
            if type(only) is CallArgs and self._alone:
                call, size = self._call, size_of(only.text)
                if call is None or call.parts is not None or call.room < size:
                    return self._arguments(only.text)
                call.room -= size
                return only.text
            if type(only) is Reasoning and self._straight and self._policy.reasoning_field is None and not only.channel:
                return [Content(only.text)]
        return self._apply(events) if self._alone else self._take(events, Source.TEXT)

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
                ops += self._take(self._thoughts.finish(cut=cut), Source.THOUGHTS)
            if self._source is Source.OWN and self._call is not None:
                ops += self._take(own, Source.OWN)
                own = []
            ops += self._take(events, Source.TEXT)
            if self._channel is not None:
                ops += self._take(self._channel.finish(cut=cut), Source.CHANNEL)
            self._flush_stops(ops)
            ops += self._take(own, Source.OWN)
            self.cut = reason in _CUT
            # One that was refused for its name did come.
            came = self.calls > 0 or (self._native is not None and self._native.named)
            self.lost = not came and reason in _CALLED and not self.stopped
        self._ended = True
        if self._held and not self._policy.hold_prose:
            # Prose is dropped beside calls, and there were none.
            ops.append(Content("".join(self._held)))
            self._held = []
        return ops, self._reason(reason)

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

    def _take(self, events: list[Event], source: Source) -> list[Op]:
        """Events of one of the sources: the text, the backend's own calls, its reasoning field. Their calls do not mix:
        what comes of another one waits until the open call is over.
        """
        if self._alone:
            return self._apply(events)
        if self._channel is None or source is not Source.TEXT:
            return self._take_from([(source, event) for event in events])
        told: list[tuple[Source, Event]] = []
        for event in events:
            if type(event) is Reasoning and event.channel:
                told += [(Source.CHANNEL, inner) for inner in self._channel.feed(event.text)]
                self._straight = False  # what follows ends it first
            else:
                told += [(Source.CHANNEL, inner) for inner in self._channel.finish()]
                self._straight = is_straight(self._policy)
                told.append((source, event))
        return self._take_from(told)

    def _take_from(self, events: list[tuple[Source, Event]]) -> list[Op]:
        ops: list[Op] = []
        for source, event in events:
            if self.stopped:
                break
            if self._call is not None and self._source is not source and (self._waiting or type(event) in _OF_A_CALL):
                self._waiting.append((source, event))
                continue
            if type(event) is CallStart:
                self._source = source
            if source >= Source.THOUGHTS and isinstance(event, Text | Reasoning):
                self._keep_thought(event.text, source, ops)
            else:
                ops += self._apply([event])
            if self._call is None:
                if self._source >= Source.THOUGHTS:
                    self._source = Source.TEXT
                if self._waiting:
                    waiting, self._waiting = self._waiting, []
                    ops += self._take_from(waiting)
        return ops


def _is_blank(event: Event) -> bool:
    return type(event) is Text and event.text.isspace()
