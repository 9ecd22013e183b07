"""Reads the choices of a chunk of the backend's stream with their parsers. Writing for the client is answer_form.py's.

This module holds the choices of a stream, with what the client received of each, and its template. Most chunks of an
answer repeat the chunk before to the byte, except for the text. Of a chunk that fits a template only
the text is decoded as JSON, and its output goes between bytes that were encoded once. Any other is read in full.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from ..answer.operations import CallClosed, Content, Op, ReasoningText
from ..errors import ToolCallError
from ..formats.base import StreamParser
from ..formats.unparsed_calls import rest_of, unparsed_calls
from ..usage.meter import ENDED, UsageMeter
from ..wire import openai
from ..wire.openai import Fields, Frame, with_plain_content
from ..wire.sse import ServerEvent
from .choice import CALLS, AnswerOutcome, ChoiceAnswer

_NO_CALLS = (b"null", b"[]")
_OWN_FIELDS = frozenset({"index", "delta", "finish_reason"})
_SILENT = frozenset({"role", "content", "tool_calls", "function_call"})


class Part(msgspec.Struct):
    """One choice of a chunk, as read."""

    choice: ChoiceAnswer
    fields: Fields
    delta: Fields
    text: str
    ops: list[Op]
    reason: str | None
    unchanged: bool
    """The chunk may be emitted unchanged."""
    index: int = 0
    outside_content: bool = False
    """The model wrote something outside the text."""
    may_repeat: bool = True
    """Later chunks may repeat this one."""
    opens: bool = False
    """It has empty content and nothing else; in an answer of calls that content would be null."""


class Choices:
    """The choices of one stream.

    make_choice: makes the reader of one. expected: how many the client requested.
    `patience`: how often a complete answer is found unended before it is ended here; an event counts once or twice. The
    backend sends its usage when it ends the answer itself. `read_unparsed`: makes the reader for `unparsed_call`,
    where calls are possible; `salvaged`: the call is one that the backend could not parse.
    """

    __slots__ = (
        "_counts", "_expected", "_make_choice", "_usage", "by_index", "patience", "read_unparsed", "resumed",
        "salvaged",
    )  # fmt: skip

    def __init__(self, make_choice: Callable[[], ChoiceAnswer], usage: UsageMeter, *, expected: int) -> None:
        self._make_choice = make_choice
        self._usage = usage
        self._expected = expected
        self._counts = usage.listens
        self.by_index: dict[int, ChoiceAnswer] = {}
        self.resumed = False
        """This answer continues an earlier one of the backend's, with which the client's answer began."""
        self.patience = 0
        self.read_unparsed: Callable[[], StreamParser] | None = None
        self.salvaged = False

    # -- progress ------------------------------------------------------------------------------------------------

    @property
    def outcome(self) -> AnswerOutcome:
        """The outcome of all choices so far."""
        return AnswerOutcome.of(self.by_index.values())

    @property
    def calls(self) -> int:
        """The number of calls of all choices so far."""
        return sum(choice.message.calls for choice in self.by_index.values())

    @property
    def asked(self) -> bool:
        """Whether the model waits for a result from the middleware."""
        return any(choice.asked is not None for choice in self.by_index.values())

    @property
    def begun(self) -> bool:
        """Whether the backend has answered at all."""
        return bool(self.by_index)

    @property
    def all_begun(self) -> bool:
        """Whether each requested choice has begun."""
        return len(self.by_index) >= self._expected

    @property
    def all_finished(self) -> bool:
        """Whether there are choices, and the client has each one's finish_reason."""
        return bool(self.by_index) and all(choice.finished for choice in self.by_index.values())

    @property
    def all_called(self) -> bool:
        """Whether there are choices, and each has a call."""
        return bool(self.by_index) and all(choice.message.calls for choice in self.by_index.values())

    @property
    def stopped(self) -> bool:
        """Whether the rest of the answer is not needed, because calls or stop strings ended it."""
        choices = self.by_index.values()
        for choice in choices:
            if choice.message.stopped:
                return self.all_begun and all(other.message.stopped or other.finished for other in choices)
        return False

    def end_after_event(self, received_all: bool) -> bool:  # noqa: FBT001 - called for each event
        """Return, after an event, whether to end an answer whose rest is not needed. Uses up `patience`.
        received_all: the backend has ended it.
        """
        if not self.stopped:
            return False
        self.patience -= 1
        return received_all or self.patience < 0

    def unparsed_call(self, error: ToolCallError) -> msgspec.Raw | None:
        """The `choices` of a chunk that ends the choice with the calls whose text is in the backend's error; None where
        the error has none, or where other calls have begun.
        """
        read = self.read_unparsed
        if read is None or len(self.by_index) != 1 or self.all_finished:
            return None
        unparsed = unparsed_calls(error, read, spoken=True)
        index, choice = next(iter(self.by_index.items()))
        begun = [] if choice.native is None else choice.native.seen
        if unparsed is None or (not begun and choice.message.calls):
            return None
        delta: dict[str, Any] = {"content": unparsed.text}
        if begun:
            entries = rest_of(begun, unparsed.calls)
            if entries is None:
                return None
            delta = {"tool_calls": entries}
        self.salvaged = True
        return openai.raw([{"index": index, "delta": delta, "finish_reason": "stop"}])

    # -- reading -------------------------------------------------------------------------------------------------

    def read(self, fields: Fields) -> Part | None:
        """Read a choice of a chunk; None after the end of that choice."""
        index = openai.read_value(fields.get("index"))
        unchanged = isinstance(index, int)
        if not isinstance(index, int):
            index, fields = 0, {"index": openai.raw(0), **fields}
        broken = openai.broken_choice(fields)
        choice = self._choice(index, broken)
        if choice.finished:
            return None
        delta = openai.read_object(fields.get("delta"))
        if delta is None:
            unchanged, delta = False, {}
        if self.resumed:
            unchanged = False
            delta = {name: said for name, said in delta.items() if name != "role" and bytes(said) != b'""'}
        plain = with_plain_content(delta)
        part = Part(choice, fields, plain, openai.read_text(plain.get("content")) or "", [], None, unchanged, index)
        if plain is not delta:
            part.may_repeat = part.unchanged = False
        self._take(part)
        # Some engines send an empty finish_reason until the end.
        reason = stated = openai.read_text(fields.get("finish_reason")) or None
        if broken is not None:
            choice.message.fault, reason = broken, None
        elif stated is not None:
            self._finish(part, stated)
            reason = part.reason
        part.unchanged = part.unchanged and reason == stated
        if reason is not None and (choice.message.extras or choice.stop_reason or (part.text and choice.message.calls)):
            part.unchanged = False  # after calls, the delta with the finish_reason is empty
        if not choice.has_role and openai.is_null(part.delta.get("role")):
            part.unchanged = False
        if bytes(part.delta.get("content", b"")) == b'""':
            kept, part.opens = self._empty(choice, part.delta, silent=not (part.ops or reason))
            part.unchanged = part.unchanged and kept is part.delta
            part.delta = kept
        part.unchanged = part.unchanged and not (reason is not None and choice.owes_content)
        part.reason = reason
        return part

    def read_message(self, fields: Fields, message: Fields, text: str, index: int) -> Part:
        """Read a choice of a non-streaming answer with content `text`. Raises ToolCallError where it has a fault."""
        broken = openai.broken_choice(fields)
        choice = self._choice(index, broken)
        choice.wait_for_all()
        part = Part(choice, fields, message, text, [], None, unchanged=False, index=index)
        self._take(part)
        self._finish(part, openai.read_text(fields.get("finish_reason")) or None)
        for op in part.ops:
            if type(op) is ReasoningText and not op.names:
                self._usage.thought(op.text, index)
        if choice.message.fault is not None:
            raise choice.message.fault
        return part

    def _take(self, part: Part) -> None:
        """Read the delta or message of a part. `part.delta` keeps the fields that are passed on."""
        choice, delta, text = part.choice, part.delta, part.text
        if self._counts:
            part.outside_content = self._usage.wrote_outside_content(delta, part.index)
            if text:
                self._usage.wrote(text, part.index)
        reasoning, rest, same, outside = choice.read_reasoning(delta, text)
        if rest is not delta:
            part.may_repeat = False  # the next chunk may have content, which ends the reasoning
        delta, part.outside_content, part.unchanged = rest, part.outside_content or outside, part.unchanged and same
        calls: list[Any] = []
        if choice.reads_native and ("tool_calls" in delta or "function_call" in delta):
            calls, delta = take_calls(delta, asked=choice.policy.native)
        ops = choice.feed_both(text, calls) if calls else choice.feed(text) if text else []
        shown = [op for op in ops if type(op) is not CallClosed]
        part.unchanged = part.unchanged and not calls and shown == ([Content(text)] if text else [])
        part.delta, part.ops = delta, reasoning + ops

    def _finish(self, part: Part, stated: str | None, *, lost: bool = False, failed: bool = False) -> None:
        """End the choice of a part, whose `reason` becomes the true finish_reason. stated: the backend's.

        lost: the backend disconnected, and the choice is not finished. failed: the answer cannot continue.
        """
        choice = part.choice
        last, reason = choice.finish(stated, lost=lost)
        part.ops += last
        part.unchanged = part.unchanged and all(type(op) is CallClosed for op in last)
        if stated in ENDED:
            self._usage.ended()
        choice.finished = not (lost or failed) and choice.message.fault is None and choice.asked is None
        part.reason = reason if choice.finished else None

    def _choice(self, index: int, broken: ToolCallError | None) -> ChoiceAnswer:
        """The choice of this index, created where it is new. Raises `broken` for a new one."""
        choice = self.by_index.get(index)
        if choice is None:
            if broken is not None:
                raise broken
            choice = self.by_index[index] = self._make_choice()
            choice.has_role = self.resumed
        return choice

    def _empty(self, choice: ChoiceAnswer, delta: Fields, *, silent: bool) -> tuple[Fields, bool]:
        """Return a delta with empty content, changed if need be, and whether it may open an answer.

        silent: the part has nothing else. After calls no empty content is emitted; an answer of calls alone has null.
        """
        if choice.message.calls:
            return {name: value for name, value in delta.items() if name != "content"}, False
        if not silent or not choice.policy.chat.offers_tools:
            return delta, False
        if self._expected > 1 and not choice.has_role:
            # With several choices, none is held until another one has text.
            choice.owes_content = True
            return {**delta, "content": openai.NULL}, False
        return delta, self._expected == 1

    def end(self, index: int, *, lost: bool, failed: bool) -> Part:
        """End this choice with the stream. Return what was held back of it. lost, failed: see `_finish`."""
        part = Part(self.by_index[index], {"index": openai.raw(index)}, {}, "", [], None, unchanged=False, index=index)
        self._finish(part, None, lost=lost, failed=failed)
        return part


def take_calls(message: Fields, *, asked: bool) -> tuple[list[Any], Fields]:
    """The backend's own calls in a delta or message, and the rest of it. asked: the backend was given the tools."""
    rest = {name: value for name, value in message.items() if name not in CALLS}
    if not asked and all(bytes(message.get(name, b"null")) in _NO_CALLS for name in CALLS):
        return [], message  # a backend that was given no tools may send them empty
    calls = openai.read_value(message.get("tool_calls"))
    if calls and isinstance(calls, list | dict):
        return calls if isinstance(calls, list) else [calls], rest
    single = openai.read_value(message.get("function_call"))
    return ([{"index": 0, "function": single}] if isinstance(single, dict) else []), rest


def speaks(part: Part) -> bool:
    """Whether a part holds text, reasoning or a call: more than a role or a finish_reason."""
    emits_other = any(name not in _SILENT and not openai.is_null(value) for name, value in part.delta.items())
    return emits_other or bool(part.ops) or openai.is_odd_content(part.delta)


def has_other_fields(fields: Fields) -> bool:
    """Whether a chunk's choice has fields beside its delta."""
    return any(name not in _OWN_FIELDS and not openai.is_null(value) for name, value in fields.items())


class ChunkHead:
    """The fields of every chunk beside its choices (`id`, `object`, `created`, `model`).

    head: values for fields that the backend omits; None to add none. begun: the values that the client received in an
    earlier answer of the backend's, which this one continues.
    """

    __slots__ = ("_begun", "_head", "fills")

    def __init__(self, head: Fields | None, begun: Fields | None = None) -> None:
        self._head = head
        self._begun = begun
        self.fills = begun is not None
        """Chunks are changed: the backend omits some of the fields, or has other values than `begun`."""

    def read(self, event: ServerEvent, data: bytes) -> tuple[ServerEvent, bytes, Fields | None]:
        """Make an event valid and complete. Return it, its data, and its fields; None for data without fields."""
        valid = openai.without_constants(data)
        if valid is not data:
            raw = event.raw.replace(data, valid) if data in event.raw else openai.event(valid)
            event, data = ServerEvent(raw, valid, event.name), valid
        top = openai.read_object(data)
        if top is not None and (filled := self.filled(top)) is not top:
            top = filled
            event = ServerEvent(openai.event(openai.one_line(openai.encode(top))), data, event.name)
        return event, data, top

    def filled(self, top: Fields) -> Fields:
        """`top` with its missing fields; the same object where none is missing."""
        if self._begun is not None and not openai.is_error(top):
            return {**top, **self._begun}
        head = self._head
        if head is None or not (missing := openai.missing(head, top)):
            return top
        if not self.fills:  # the fields that the backend does send keep their value in all chunks
            self.fills = True
            self._head = {**head, **{name: top[name] for name in head if name not in missing}}
        return {**missing, **top, **missing}


_read_text = msgspec.json.Decoder(str).decode


class Template:
    """A chunk that others may repeat in all but their text.

    around: its event around the text. part: its choice, beside the fields `top`. frame: the emitted event around the
    delta. written: the JSON string that `text_of` read last.
    is_bare: its delta holds text alone. is_silent: without text it holds nothing that is emitted.
    """

    frame: Frame = (b"", b"")
    is_bare = False
    is_silent = False
    written = b""

    def __init__(self, around: Frame, part: Part, top: Fields) -> None:
        self._around = around
        self._middle = slice(len(around[0]), -len(around[1]))
        self.part = part
        self.choice = part.choice
        self.index = part.index
        self.top = top

    def complete(self) -> None:
        """Set what only chunks need whose output differs from their input."""
        if not self.frame[0]:
            self.frame = openai.frame_of_delta(self.top, self.part.fields)
            rest = [value for name, value in self.part.delta.items() if name not in {"content", "role"}]
            self.is_bare = not rest
            self.is_silent = all(map(openai.is_null, rest)) and not has_other_fields(self.part.fields)

    def text_of(self, raw: bytes) -> str | None:
        """The text of an event that fits the template; None for any other."""
        written = raw[self._middle]
        if written.join(self._around) != raw:  # faster than comparing both ends
            return None
        self.written = written
        try:
            return _read_text(written)
        except openai.FAILURES:
            return None


def template_of(event: ServerEvent, part: Part, top: Fields) -> Template | None:
    """The template of later chunks that repeat the chunk of `event`; None where none can."""
    content = part.delta.get("content")
    if event.data is None or content is None or not part.text or part.reason is not None:
        return None
    around = openai.frame_of_content(event.raw, event.data, content)
    return None if around is None else Template(around, part, top)
