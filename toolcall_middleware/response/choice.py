"""One choice of an answer: parser events become operations on the client's message, streamed or not.

This module orders the events of several sources (the text, the backend's own calls, its reasoning) and decides the
finish_reason. message.py turns events into operations.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from ..answer.operations import Content, Op, ReasoningText
from ..errors import ToolCallError
from ..formats import registry
from ..formats.base import ParserOptions, StreamParser, ToolFormat
from ..formats.near_misses import NoCall
from ..parsing.events import CallArgs, CallEnd, CallStart, Event, Malformed, Reasoning, Stop, Text
from ..parsing.text.reasoning import OpenedAnswer, OpenedReasoning
from ..request.parse import ChatRequest
from ..settings import Settings
from ..wire import openai
from ..wire.openai import Fields
from .inner_calls import Asked, InnerCalls, InnerTools, OuterEvents
from .message import AnswerPolicy, Message, Source
from .native_calls import NativeCalls
from .outcome import LONGEST_PIECE, FinishedCall, first_of

_MOST_CHOICES = 128
"""The most choices of an answer whose request asks for fewer (`n`); OpenAI's own limit. A reader takes about 9 KiB."""
_FULL = "model_length"  # Mistral's word for a context that is full
CALLS = ("tool_calls", "function_call")
"""The fields of a delta or message that hold the backend's own calls."""
CUT = frozenset({"length", "content_filter", _FULL})
"""The finish reasons of an answer that its model did not end."""
_CALLED = frozenset({"tool_calls", "function_call"})
_TEXT = Source.TEXT  # read for each chunk; up to Python 3.11, `Source.TEXT` costs a Python call
_OF_A_CALL = frozenset({CallStart, CallArgs, CallEnd, Malformed, Stop})


class Verbatim:
    """The parser of an answer in which nothing is parsed."""

    def feed(self, text: str, /) -> list[Event]:
        """Return the piece as text."""
        return [Text(text)]

    def finish(self, *, cut: bool = False) -> list[Event]:  # noqa: ARG002 - as a parser
        """Return nothing: no text is held back."""
        return []


class ChoiceAnswer:
    """The state of one choice. Feed it the model's text; it gives operations for the client's message."""

    __slots__ = (
        "_alone", "_channel", "_ended", "_make_native", "_opened", "_outer", "_parser", "_reasoning", "_see",
        "_start", "_straight", "_tagged", "_waiting", "cut", "finished", "has_role", "has_spoken", "inner", "lost",
        "message", "native", "owes_content", "policy", "reads_native", "thought", "thought_bytes",
    )  # fmt: skip

    def __init__(
        self,
        parser: StreamParser,
        policy: AnswerPolicy,
        make_native: Callable[[], NativeCalls] | None = None,
        in_thoughts: Callable[[], StreamParser] | None = None,
        thought: OpenThought | None = None,
        start: OpenedAnswer | None = None,
        *,
        inner: InnerCalls | None = None,
    ) -> None:
        """make_native: makes the reader of the backend's own calls. in_thoughts: makes the parser of a thought, where
        calls are read in thoughts. start: `parser`, where it begins in a thought. inner: the calls that the parsers
        filter out.
        """
        self.inner = inner
        self._outer = None if inner is None else OuterEvents(inner)  # of the backend's own calls
        self.message = Message(policy, reads_thoughts=in_thoughts is not None)
        """The client's message as the events so far make it."""
        self._see = self.message.outcomes.see
        self._parser = parser
        self.thought = thought
        """Finds the calls in a thought that is never closed; `read_reasoning` feeds it the reasoning field."""
        self._start = start
        self._tagged = False  # a tag of reasoning was read
        self._opened: bool | None = None
        self.policy = policy
        self._make_native = make_native
        self.reads_native = make_native is not None
        """Whether the backend's own calls are read; some backends make calls though they were given no tools."""
        self.native: NativeCalls | None = None
        """Their reader, once there is one."""
        self._reasoning = None if in_thoughts is None else ReasoningReader(in_thoughts)
        self._channel = None if in_thoughts is None else ReasoningReader(in_thoughts)
        self._alone = in_thoughts is None  # only the text may hold calls so far
        self._straight = policy.is_straight  # text is emitted unchanged
        self._ended = False
        self._waiting: list[tuple[Source, Event]] = []  # events of other sources, while a call is open
        self.cut = False
        """The token limit or the content filter ended the answer."""
        self.lost = False
        """The finish_reason reports a call, and the answer has none."""
        self.has_spoken = False
        """The answer has text."""
        self.thought_bytes = 0
        """Bytes of reasoning before any text (`read_reasoning`)."""
        # What the client has received of the choice:
        self.has_role = False
        """Its role was emitted."""
        self.finished = False
        """Its finish_reason was emitted."""
        self.owes_content = False
        """Its empty content was emitted as null, because calls could follow. Where none follow, the finish_reason's
        chunk has the empty content."""

    # -- results -------------------------------------------------------------------------------------------------

    @property
    def asked(self) -> Asked | None:
        """The call for the middleware to answer; None where a stop string or a fault ended the answer first."""
        ended = self.message.fault is not None or self.stop_reason
        return None if ended or self.inner is None else self.inner.asked

    @property
    def opened(self) -> bool | None:
        """Whether this answer shows that its prompt opens the thought; None where it shows nothing."""
        return self._opened if self._start is None else self._start.opened

    @property
    def stop_reason(self) -> dict[str, Any]:
        """The field to send with the finish_reason where one of the client's stop strings ended the text, named as in
        vLLM. The backend cannot set it, because it is not given the stop strings.
        """
        stops = self.message.stops
        return {} if stops is None or stops.found is None else {"stop_reason": stops.found}

    # -- input ---------------------------------------------------------------------------------------------------

    def feed(self, text: str) -> list[Op]:
        """Read the next piece of the model's text."""
        message = self.message
        if message.stopped or self._ended:
            return []
        events = self._parser.feed(text)
        if not events:
            return []
        if len(events) == 1:
            # Nearly every piece: text that is emitted unchanged, or a part of the open call's arguments.
            only = events[0]
            if type(only) is Text:
                if self._straight and (self.thought is None or not self.thought.is_open):
                    if len(only.text) <= LONGEST_PIECE:
                        self._see(only.text)
                    else:
                        message.outcomes.see_text(only.text)
                    return events  # type: ignore[return-value]  # the same list: `Content` is `Text`
            elif type(only) is CallArgs:
                if message.source is _TEXT:
                    return message.add_arguments(only.text)
            elif self._straight and type(only) is Reasoning and not (only.markup or only.channel):
                if self.policy.settings.reasoning_field is None:
                    if self.thought is not None:
                        self.thought.feed(only.text)
                    return [Content(only.text)]
        self._follow(events)
        return message.apply(events) if self._alone else self._take(events, _TEXT)

    def feed_both(self, text: str, deltas: list[Any]) -> list[Op]:
        """Read text and entries of the backend's own `tool_calls` that are in one delta or message.

        A call in the text is one that the backend's parser missed: it follows those that it parsed.
        """
        message, make = self.message, self._make_native
        if message.stopped or self._ended or make is None:
            return []
        native = self.native = self.native or make()
        self._alone = False
        events = self._parser.feed(text)
        self._follow(events)
        first = next((at for at, event in enumerate(events) if type(event) in _OF_A_CALL), len(events))
        ops = self._take(events[:first], Source.TEXT)
        ops += self._take(self._without_inner(native.feed(deltas)), Source.NATIVE)
        if native.oversized is not None and not message.stopped:
            message.refuse_size(native.oversized)
        return ops + self._take(events[first:], Source.TEXT)

    def _without_inner(self, events: list[Event], *, cut: bool = False) -> list[Event]:
        """The events of the backend's own calls without those that the middleware answers."""
        return events if self._outer is None else self._outer.take(events, cut=cut)

    def wait_for_all(self) -> None:
        """Note that the whole answer arrives in one piece, before any of it is emitted."""
        if self._start is not None:
            self._start.is_whole = True

    # -- thoughts ------------------------------------------------------------------------------------------------

    def read_reasoning(self, said: Fields, text: str) -> tuple[list[Op], Fields, bool, bool]:
        """Read the reasoning field of a delta or message before its content `text`.

        Returns the operations, the fields that are passed on, whether these are the delta's reasoning unchanged, and
        whether the delta holds a thought beside its text. Such a thought is separate from those in the text; the
        backend's own calls end it. Not called for each piece of text: after the first, another piece changes nothing.
        """
        self.has_spoken = self.has_spoken or bool(text) or openai.is_odd_content(said)
        reader, follows = self._reasoning, self.thought is not None or self._start is not None
        if self.has_spoken and not follows and reader is None:
            return [], said, True, False
        reasoning, names, rest = split_reasoning(said)
        if not self.has_spoken:
            self.thought_bytes += len(reasoning.encode("utf-8", "replace"))
        if follows and reasoning:
            if self._start is not None:
                self._start.skip()
            self._tagged = True
            if self.thought is not None:
                self.thought.feed(reasoning)
        open_ = reader is not None or (self.thought is not None and self.thought.is_open)
        calls = open_ and any(openai.read_value(said.get(name)) for name in CALLS)
        if calls and self.thought is not None:
            self._ignore(self.thought.close())
        if reader is None:
            return [], said, True, follows and bool(reasoning)
        if self.message.stopped or self._ended:
            return [], rest, not reasoning, bool(reasoning)
        ops: list[Op] = []
        if reasoning:
            field = self.policy.settings.reasoning_field
            # Where that field already holds another text, each text keeps its own field.
            self.message.reasoning_names = names if field is None or openai.read_text(rest.get(field)) else (field,)
            ops = self._take(reader.feed(reasoning), Source.REASONING)
        if text or calls:
            ops += self._take(reader.finish(), Source.REASONING)
        return ops, rest, ops == ([ReasoningText(reasoning, names)] if reasoning else []), bool(reasoning)

    def _follow(self, events: list[Event]) -> None:
        """Follow where the text's events begin, continue and end a thought."""
        for event in events:
            if type(event) is Reasoning and event.markup:
                self._note_tag(event)
        if self.thought is not None:
            self._ignore(self.thought.follow(events))

    def _note_tag(self, tag: Reasoning) -> None:
        """A tag begins or ends a thought: the first tag shows whether the prompt opened one."""
        first, self._tagged = not self._tagged, True
        if first and not (tag.text or tag.channel or self.message.calls):
            self._opened = True

    def _ignore(self, names: list[str]) -> None:
        """Record calls of these names as ignored: they are in a thought that was closed."""
        for name in names:
            self.message.outcomes.ignore(name)

    def _end_in_thought(self, *, cut: bool) -> list[Op]:
        """The answer ends. Where it ends in a thought, the complete calls in that thought count as its calls."""
        message = self.message
        if self.thought is None or message.stopped or not (events := self.thought.finish(cut=cut)):
            return []
        message.source = Source.ENDED_IN
        return message.apply(events)

    # -- the end -------------------------------------------------------------------------------------------------

    def finish(self, reason: str | None, *, lost: bool = False) -> tuple[list[Op], str]:
        """The end: (last operations, the true finish_reason). `lost`: the backend went away in the middle."""
        ops: list[Op] = []
        message = self.message
        thinks = self._tagged or self.thought_bytes > 0 or (self.thought is not None and self.thought.is_open)
        if not message.stopped and not self._ended:
            if reason not in CUT and self._breaks_off():
                reason = "length"
            cut = lost or reason in CUT
            events = self._parser.finish(cut=cut)
            if message.calls and not message.refused and events and _is_blank(events[-1]):
                events.pop()  # white space after a call is not part of the answer's text
            if self._start is None or not self._start.unclosed:
                self._follow(events)
            elif self.thought is not None:
                if self._start.opened is not False and all(type(event) is Reasoning for event in events):
                    self._ignore(self.thought.follow(events))
                else:
                    self.thought.close()  # there was no thought, or its calls are all calls of the answer
            # The limit cuts only the last call, not one after which the model began another.
            begun = max((at for at, event in enumerate(events) if type(event) is CallStart), default=0)
            earlier, events = events[:begun], events[begun:]
            message.limited = cut
            own = [] if self.native is None else self._without_inner(self.native.finish(cut=cut), cut=cut)
            is_whole = all(event.complete for event in own if type(event) is CallEnd)
            if self._reasoning is not None:
                ops += self._take(self._reasoning.finish(cut=cut), Source.REASONING)
            if message.source is Source.NATIVE and message.call is not None:
                message.limited = cut and not self._waiting
                ops += self._take(own, Source.NATIVE)
                own = []
            message.limited = False
            ops += self._take(earlier, Source.TEXT)
            message.limited = cut
            ops += self._take(events, Source.TEXT)
            if self._channel is not None:
                ops += self._take(self._channel.finish(cut=cut), Source.CHANNEL)
            message.flush_stops(ops)
            ops += self._take(own, Source.NATIVE)
            if is_whole:
                ops += self._end_in_thought(cut=cut)
            self.cut = reason in CUT
            # A call that was refused for its name counts.
            came = message.calls > 0 or (self.native is not None and self.native.named)
            self.lost = not came and reason in _CALLED and not message.stopped
        if not self._ended:
            cut = self.cut or lost or message.broken
            message.no_call = message.outcomes.why_no_call(called=message.calls > 0, cut=cut, thinks=thinks)
        self._ended = True
        if not self.policy.chat.choice.must_call and self.asked is None:
            # Only an answer with calls drops its prose.
            message.release_prose(ops)
        return ops, self._reason(reason)

    def _reason(self, reason: str | None) -> str:
        message = self.message
        if reason in CUT and not message.stopped:
            return "length" if reason == _FULL and message.calls else str(reason)
        if message.broken:
            return "length"
        if message.calls:
            return "function_call" if self.policy.chat.legacy else "tool_calls"
        # The backend may report a call where there is no call.
        return "stop" if message.stopped or reason in {None, "tool_calls", "function_call"} else str(reason)

    def _breaks_off(self) -> bool:
        """Whether the backend's own call was cut off by the token limit, whatever finish_reason it gives."""
        native, full = self.native, self.policy.full
        return native is not None and native.unfinished and full is not None and full()

    # -- several sources -----------------------------------------------------------------------------------------

    def _take(self, events: list[Event], source: Source) -> list[Op]:
        """Apply events of one source: the text, the backend's own calls, or its reasoning field. Calls do not
        mix: the events of another source wait until the open call is over.
        """
        if self._alone:
            return self.message.apply(events)
        if self._channel is None or source is not Source.TEXT:
            return self._take_from([(source, event) for event in events])
        routed: list[tuple[Source, Event]] = []
        for event in events:
            if type(event) is Reasoning and event.channel:
                routed += [(Source.CHANNEL, inner) for inner in self._channel.feed(event.text)]
                self._straight = False  # the next text first ends the channel
            else:
                routed += [(Source.CHANNEL, inner) for inner in self._channel.finish()]
                self._straight = self.policy.is_straight
                routed.append((source, event))
        return self._take_from(routed)

    def _take_from(self, events: list[tuple[Source, Event]]) -> list[Op]:
        ops: list[Op] = []
        message = self.message
        for source, event in events:
            if message.stopped:
                break
            other = message.call is not None and message.source is not source
            if other and (self._waiting or type(event) in _OF_A_CALL):
                self._waiting.append((source, event))
                continue
            if type(event) is CallStart:
                message.source = source
            if source >= Source.REASONING and isinstance(event, Text | Reasoning):
                message.keep_reasoning(event.text, source, ops)
            else:
                ops += message.apply([event])
            if message.call is None:
                if message.source >= Source.REASONING:
                    message.source = Source.TEXT
                if self._waiting:
                    waiting, self._waiting = self._waiting, []
                    ops += self._take_from(waiting)
        return ops


def _is_blank(event: Event) -> bool:
    return type(event) is Text and event.text.isspace()


# -- calls in reasoning ------------------------------------------------------------------------------------------------
# In the backend's reasoning field, and in a thought that is never closed: an engine with a reasoning parser takes
# everything up to `</think>` for reasoning. A model that omits it has its call there; with thinking switched off, even
# the whole answer: https://github.com/vllm-project/vllm/issues/19839


MAX_KEPT = 1 << 20
"""The most characters of one thought's calls that are kept. No calls are read in a thought with more."""
_PER_CALL = 256  # characters added to the size of each kept call
_MANY = 64  # pieces of a thought that are read together
_LONG = 4096  # a longer piece is read at once


class ReasoningReader:
    """Reads the reasoning field of one choice, or a channel in its text.

    Content or a call of the backend's own ends a piece of reasoning; later reasoning is a new piece.
    """

    __slots__ = ("_make_parser", "_parser")

    def __init__(self, make_parser: Callable[[], StreamParser]) -> None:
        self._make_parser = make_parser
        self._parser: StreamParser | None = None

    def feed(self, text: str) -> list[Event]:
        """Read more reasoning."""
        if self._parser is None:
            self._parser = self._make_parser()
        return self._parser.feed(text)

    def finish(self, *, cut: bool = False) -> list[Event]:
        """End the piece, if one is open, and return the events that were held back."""
        parser, self._parser = self._parser, None
        return [] if parser is None else parser.finish(cut=cut)


class OpenThought:
    """Reads the thoughts of one choice, one at a time. Calls in a closed thought do not count; where the answer ends in
    a thought, those in it do. `is_open`: a thought has begun and has not ended.

    A thought is emitted as it arrives, its calls included, because only the end shows whether it is closed. The calls
    found in it are held until then.
    """

    __slots__ = ("_calls", "_full", "_open", "_pieces", "_reader", "_size", "is_open")

    def __init__(self, make_parser: Callable[[], StreamParser]) -> None:
        self._reader = ReasoningReader(make_parser)
        self._pieces: list[str] = []  # text that is not read yet
        self._calls: list[Event] = []  # events of complete calls
        self._open: list[Event] = []  # events of the open call
        self._size = 0
        self._full = False
        self.is_open = False

    def feed(self, text: str) -> None:
        """Read more of the thought."""
        self.is_open = True
        if self._full:
            return
        self._pieces.append(text)
        if len(self._pieces) == _MANY or len(text) > _LONG:
            self._read()

    def follow(self, events: list[Event]) -> list[str]:
        """Read a parser's events: pieces of thoughts, and events that end them. Returns names as `close` does."""
        names: list[str] = []
        for event in events:
            if type(event) is Reasoning and not event.markup:
                self.feed(event.text)
            elif self.is_open:
                names += self.close()
        return names

    def close(self) -> list[str]:
        """Close the thought. Return the names of the calls in it, which do not count."""
        if not self.is_open:
            return []
        names = [event.name for event in self.finish(cut=True) if type(event) is CallStart]
        self._full = False
        return names

    def finish(self, *, cut: bool) -> list[Event]:
        """End the answer. Return the complete calls of an open thought. cut: the model did not end it itself."""
        self._read()
        self.is_open = False
        self._take(self._reader.finish(cut=cut))
        calls = self._calls
        self._drop()
        return calls

    def _read(self) -> None:
        """Read the buffered pieces together: reading each by itself would double the cost."""
        text = "".join(self._pieces)
        self._pieces.clear()
        if text and not self._full:
            self._take(self._reader.feed(text))

    def _take(self, events: list[Event]) -> None:
        for event in events:
            match event:
                case CallStart():
                    self._open = [msgspec.structs.replace(event, in_reasoning=True)]
                    self._size += len(event.name) + _PER_CALL
                case CallArgs(text):
                    self._open.append(event)
                    self._size += len(text)
                case CallEnd(complete, _, raw, _, written):
                    if complete:
                        self._calls += [*self._open, event]
                    self._open = []
                    self._size += len(raw) + len(written)
                case Malformed(raw):
                    self._calls.append(event)
                    self._size += len(raw) + _PER_CALL
        if self._size > MAX_KEPT:
            self._full = True
            self._reader.finish()
            self._drop()

    def _drop(self) -> None:
        self._calls, self._open, self._size = [], [], 0


def split_reasoning(message: Fields) -> tuple[str, tuple[str, ...], Fields]:
    """The reasoning in a delta or message, the names of the fields that hold it, and the rest.

    Some backends send it twice, under both names. Where the two differ, only the first is read.
    """
    text, names = "", []
    for name in openai.REASONING_FIELDS:
        said = openai.read_text(message.get(name))
        if said and said == (text or said):
            text = said
            names.append(name)
    if not names:
        return "", (), message
    return text, tuple(names), {name: value for name, value in message.items() if name not in names}


# -- the readers of one answer -----------------------------------------------------------------------------------------


def choice_maker(
    attempt: AnswerPolicy,
    syntax: ToolFormat,
    *,
    opened: OpenedReasoning | None = None,
    sure: bool = True,
    hold: Callable[[StreamParser], StreamParser] | None = None,
    inner: InnerTools | None = None,
) -> Callable[[], ChoiceAnswer]:
    """Return a factory for the readers of one answer's choices.

    It raises ToolCallError for more choices than a client can want: endless choices of an upstream would fill the
    memory with readers.

    attempt: the policy but for its `syntax`. syntax: the format of the prompt. opened: the thought
    that the prompt is known (`sure`) or assumed to open. hold: where the text must be JSON, wraps a parser so that it
    holds the text. inner: the tools whose calls the client does not see.
    """
    chat, settings, native = attempt.chat, attempt.settings, attempt.native
    offered, calls = chat.callable_tools, chat.offers_tools
    options = _parser_options(chat, settings)
    # Thoughts do not nest: the calls in one are found wherever it begins.
    in_thought = replace(options, parse_reasoning=True, in_thought=True)
    if not calls:
        # Without tools only reasoning is parsed, where it must be removed from the text.
        syntax = registry.plain()
    elif native:
        syntax = registry.get("auto")
    policy = msgspec.structs.replace(attempt, syntax=syntax if calls else None)
    left = max(chat.n, _MOST_CHOICES)

    def make() -> ChoiceAnswer:
        nonlocal left
        if not left:
            raise ToolCallError("upstream_error", f"The backend's answer has more choices than n ({chat.n}) asks for.")
        left -= 1
        # Also where the backend was given no tools: vLLM parses gpt-oss's calls in any case.
        own = functools.partial(
            NativeCalls,
            offered,
            options,
            free=not chat.tools.tools,
            waits=settings.malformed_arguments != "repair",
            max_arguments_bytes=settings.max_arguments_bytes,
        )
        taken = None if inner is None else InnerCalls(inner)

        def parser(options: ParserOptions = options) -> StreamParser:
            made = syntax.parser(offered, options)
            return made if taken is None else OuterEvents(taken, made)

        thoughts = thought = None
        if calls and options.parse_reasoning:
            thoughts = functools.partial(parser, in_thought)
        elif calls:
            thought = OpenThought(functools.partial(parser, in_thought))
        elif settings.reasoning_field is None and hold is None:
            return ChoiceAnswer(Verbatim(), policy, own)
        start = None
        if opened is not None:
            repeats = opened.channel or settings.reasoning_field is not None
            start = OpenedAnswer(parser, opened, sure=sure, parsed=options.parse_reasoning, repeats=repeats)
        reader: StreamParser = start or parser()
        if hold is not None:
            reader = hold(reader)
        return ChoiceAnswer(reader, policy, own, thoughts, thought, start, inner=taken)

    return make


def _parser_options(chat: ChatRequest, settings: Settings) -> ParserOptions:
    unknown = settings.unknown_tool
    if unknown == "forward" and chat.choice.name is not None:
        unknown = "text"  # the client asked for this one tool: a call of another is text
    return ParserOptions(
        unknown_tool=unknown,
        parse_reasoning=settings.reasoning == "parse",
        repair_names=settings.repair_names,
        # A custom tool's input is emitted once complete, and as text when it never is; an error quotes it.
        keep_raw=bool(chat.custom) or not settings.stream_arguments or unknown == "error",
        # A call refused for its arguments is shown or reported as the model wrote it.
        keep_complete=settings.validate_arguments not in {"off", "warn"}
        or settings.malformed_arguments != "repair"
        or settings.arguments_as_object
        or not settings.stream_arguments,
        keep_arguments=settings.malformed_arguments == "forward",
        any_arguments=chat.custom
        if settings.malformed_arguments == "repair" and not settings.arguments_as_object
        else None,
        tell_unknown=True,
    )


@dataclass(frozen=True, slots=True)
class AnswerOutcome:
    """`calls`: of all choices. `satisfied`: every choice has one. `text` is what was written instead of a call.

    read_markup: calls were read from text, and none was the backend's own. cut, lost: as of a ChoiceAnswer. warnings:
    what the checks let pass. finished: the calls that are over, refused ones too. silent: no choice says or calls
    anything; thought_bytes: how much it thinks, in UTF-8. opened, asked: as of a ChoiceAnswer.
    no_call: why no choice has a call.
    """

    calls: int
    satisfied: bool
    text: str
    read_markup: bool
    cut: bool
    lost: bool
    warnings: tuple[str, ...]
    finished: tuple[FinishedCall, ...]
    silent: bool
    thought_bytes: int
    opened: bool | None = None
    asked: Asked | None = None
    no_call: NoCall | None = None

    @classmethod
    def of(cls, answers: Collection[ChoiceAnswer]) -> AnswerOutcome:
        """The outcome of an answer with these choices."""
        own = any(answer.native is not None and answer.native.seen for answer in answers)
        calls = sum(answer.message.calls for answer in answers)
        return cls(
            calls=calls,
            satisfied=bool(answers) and all(answer.message.calls for answer in answers),
            text="\n".join(held for answer in answers if (held := "".join(answer.message.prose))),
            read_markup=not own and any(answer.message.calls > answer.message.calls_in_reasoning for answer in answers),
            cut=any(answer.cut for answer in answers),
            lost=any(answer.lost for answer in answers),
            warnings=tuple(warning for answer in answers for warning in answer.message.warnings),
            finished=tuple(call for answer in answers for call in answer.message.outcomes.finished),
            silent=not own and not any(answer.has_spoken for answer in answers),
            thought_bytes=sum(answer.thought_bytes for answer in answers),
            no_call=first_of(set() if calls else {answer.message.no_call for answer in answers}),
            opened=max((answer.opened for answer in answers if answer.opened is not None), default=None),
            asked=next((answer.asked for answer in answers if answer.asked is not None), None),
        )
