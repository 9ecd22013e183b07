"""Reads a backend's stream of chunks: events, choices, finish reasons, usage. An `Emitter` writes the client's stream.

A chunk is read in one of two ways. Only the text is read of one that fits a template; any other is read in
full (chunk.py). answer_form.py emits chat chunks, said.py the steps of an answer in another API.
"""

from __future__ import annotations

import enum
from collections.abc import Callable
from typing import Any, Generic, Protocol, TypeVar

from ..answer.operations import Arguments, Content, Image, Op, ReasoningText, Refusal, Step
from ..errors import ToolCallError
from ..request.parse import ChatRequest
from ..settings import Settings
from ..usage.meter import UsageMeter
from ..wire import openai
from ..wire.openai import Fields
from ..wire.sse import EventReader, LineEnds, ServerEvent, TooLargeError
from .choice import ChoiceAnswer
from .chunk import Choices, ChunkHead, Part, Template, speaks, template_of

_COMMENT = b":\n\n"
"""Replaces an event with empty data, which keeps a connection alive: SDKs would read that data as JSON."""
Item = TypeVar("Item")
_SIZE = 64  # bytes of a step besides its text, about


class Hold(enum.Flag):
    """What must arrive before anything is emitted. Until then the answer can be refused or retried."""

    NOTHING = 0
    SPEECH = enum.auto()  # something that a client shows: more than a role
    END = enum.auto()  # the end of the answer: any of its calls may be refused, and then all of it is tried again
    CALL = enum.auto()  # a call in each choice
    WORDS = enum.auto()  # a word or a call: without one the answer may be retried, or `release`d at its end


def hold_for(
    chat: ChatRequest, settings: Settings, *, must_call: bool = False, checked: bool = False, refuses: bool = False
) -> Hold:
    """Return what the client's stream waits for, so that it can still be retried, or refused with an HTTP status.

    must_call: the answer needs a call, whatever `tool_choice` says. checked: its text is checked at its end, and the
    answer may be retried. refuses: calls of strict tools are checked before they are emitted.
    """
    # Where no tools are offered, no call can be refused.
    retries = checked or (settings.validate_arguments == "retry" and chat.offers_tools)
    if chat.choice.must_call or must_call:
        return Hold.CALL | Hold.END if retries else Hold.CALL
    if retries:
        return Hold.END
    policies = (settings.malformed_arguments, settings.unknown_tool, settings.allowlist_mode)
    strict = settings.validate_arguments == "error" or not {"error", "enforce"}.isdisjoint(policies)
    strict = strict or refuses or settings.arguments_as_object  # arguments that are not an object are refused
    return Hold.SPEECH if strict else Hold.NOTHING


def size_of(step: Step) -> int:
    """Return about how many bytes a held step takes."""
    if isinstance(step, Image):
        return _SIZE + len(step.url)
    return _SIZE + (len(step.text) if isinstance(step, Content | ReasoningText | Refusal | Arguments) else 0)


class Gate(Generic[Item]):
    """Holds items for the client until they may be emitted: bytes of a chat stream, or steps for a writer.

    limit: the most bytes that are held. size: counts the bytes of an item.
    said: the answer has something that a client shows. is_open: items are emitted at once.
    """

    __slots__ = (
        "_kept", "_limit", "_mark", "_size", "_size_of", "hold", "is_open", "said", "waits_for_speech",
    )  # fmt: skip

    def __init__(self, hold: Hold, limit: int | None, size: Callable[[Item], int]) -> None:
        self.hold = hold
        self._limit = limit
        self._size_of = size
        self._kept: list[Item] = []
        self._size = self._mark = 0
        self.is_open = hold is Hold.NOTHING
        self.said = False
        self.waits_for_speech = False

    def wait(self) -> None:
        """Hold all items until something is said. Sets `waits_for_speech` where the gate was open."""
        if self.is_open:
            self.hold, self.is_open, self.waits_for_speech = Hold.SPEECH, False, True

    @property
    def outlasts_end(self) -> bool:
        """Whether the gate stays closed at the end of the answer."""
        return not self.is_open and (Hold.CALL in self.hold or (Hold.WORDS in self.hold and not self.said))

    def release(self) -> list[Item]:
        """Open the gate and return all held items."""
        kept, self._kept, self.is_open = self._kept, [], True
        return kept

    def mark(self) -> None:
        """Mark the items held so far as final: `rewind` does not remove them."""
        self._mark = len(self._kept)

    def rewind(self) -> None:
        """Drop the items after the mark: the rest of the answer begins, perhaps again."""
        del self._kept[self._mark :]

    def keep(self, out: list[Item]) -> None:
        """Hold more items. Raises ToolCallError when they exceed the limit."""
        self._kept += out
        self._size += sum(map(self._size_of, out))
        if self._limit is not None and self._size > self._limit:
            message = f"What is held of the answer exceeds max_response_bytes ({self._limit})."
            raise ToolCallError("upstream_error", message)

    def take(self, *, over: bool, all_there: bool, all_called: bool) -> list[Item]:
        """Return the items that may be emitted now: all that are held, or none.

        over: the stream has ended. all_there: each requested choice has begun. all_called: each choice that has begun
        has a call.
        """
        hold, said = self.hold, self.said
        self.is_open = not (  # called for each chunk that is held: a look into the flags costs more than the rest
            (not said and Hold.WORDS in hold)
            or (not (said or (all_there and over)) and Hold.SPEECH in hold)
            or (not over and Hold.END in hold)
            or (not (all_there and all_called) and Hold.CALL in hold)
        )
        return self.release() if self.is_open else []


class Emitter(Protocol[Item]):
    """Writes what `StreamRewriter` reads. Items are held at the gate until `joined` makes bytes of them.

    opens: the client's answer can begin although it has no item yet. fault: why the answer fails. top: the fields of
    the last chunk.
    """

    gate: Gate[Item]
    top: Fields
    opens: bool = False
    fault: ToolCallError | None = None
    _usage: UsageMeter

    def __init__(self, usage: UsageMeter, gate: Gate[Item]) -> None:
        self.gate, self.top, self._usage = gate, {}, usage

    def turn_to(self, top: Fields, /) -> bool:
        """Keep the fields of a chunk. True when they hold something that the last chunk did not."""

    def usual(self, raw: bytes, template: Template, text: str, ops: list[Op], /) -> bytes | None:
        """Return the bytes for a chunk that repeats the last one, while the gate is open; None after a fault."""

    def repeated(self, raw: bytes, template: Template, text: str, ops: list[Op], out: list[Item], /) -> None:
        """Emit a chunk that fits a template."""

    def holds(self, event: ServerEvent, part: Part, /) -> bool:
        """Whether a chunk of one part is not emitted yet because it only opens the answer."""

    def chunk(self, raw: bytes | None, parts: list[Part], out: list[Item], /, *, news: bool) -> bool:
        """Emit a chunk that was read in full, or what was held back of a choice when the stream ended. Return whether
        its template may be learned.

        raw: the bytes of the chunk, where all of its choices were read.
        """

    def unread(self, raw: bytes, out: list[Item], /, *, comment: bool = False) -> None:
        """Emit an event without choices: one that keeps the connection alive (`comment`), or another chunk."""

    def odd(self, raw: bytes, out: list[Item], /) -> None:
        """Emit an event whose data is not JSON."""

    def counted(self, raw: bytes, usage: Any, top: Fields, /) -> None:
        """Keep the backend's usage chunk for the end; empty bytes and None where its numbers are not used."""

    def opening(self) -> list[Item]:
        """Return the held items that open the answer, once they may be emitted."""
        return []

    def joined(self, out: list[Item], /) -> bytes:
        """Return the bytes of items to emit."""

    def end(self) -> bytes:
        """Return the last bytes of a complete answer."""


class StreamRewriter:
    """Bytes of the backend's event stream in, bytes for the client out. One per attempt. Never raises: see `failed`.

    make_choice: makes a ChoiceAnswer. emitter: writes the client's answer. max_bytes: of one event. head: fields for
    chunks in which the backend omits them. begun: those fields of the backend's earlier answer, with which the
    client's answer began; the emitter is the same.
    """

    def __init__(
        self,
        make_choice: Callable[[], ChoiceAnswer],
        usage: UsageMeter,
        emitter: Emitter[Any],
        chat: ChatRequest,
        *,
        max_bytes: int | None = None,
        head: Fields | None = None,
        begun: Fields | None = None,
    ) -> None:
        self._usage = usage
        self._emit = emitter
        self._include_usage = chat.include_usage
        self._counts = usage.listens
        self.choices = Choices(make_choice, usage, expected=chat.n)
        """The choices read so far, and how long a complete answer is awaited."""
        self.choices.resumed = begun is not None
        self._last: Template | None = None  # of the last chunk that was read in full, if others may repeat it
        self._gate = emitter.gate
        self.accepts: Callable[[], bool] | None = None
        """Called at the end of an answer of which nothing was emitted: whether it may be emitted."""
        self._reader = EventReader(max_bytes)
        self._limit = max_bytes
        self._line_ends = LineEnds()
        self._head = ChunkHead(head, begun)
        self._odd = b""  # an event that is not JSON, held until the next event
        self._expected: Template | None = None  # see `_expect`
        self._read_all = False  # the backend sent [DONE], or the answer failed: no further event is read
        self.ended = False
        """The rest of the backend's stream is not needed: the answer failed, or is already complete."""
        self.failed: ToolCallError | None = None
        """Why the answer cannot go on."""

    # -- what the exchange asks ----------------------------------------------------------------------------------

    @property
    def received_done(self) -> bool:
        """Whether the backend sent `[DONE]` after an answer: nothing is missing then, however its stream ends."""
        return self.choices.begun and self.failed is None and self._read_all

    @property
    def complete(self) -> bool:
        """Whether the backend's stream came to its own end."""
        return self.received_done or (self.failed is None and self.choices.all_finished)

    def suspend(self) -> bool:
        """Continue the answer in another stream. The same emitter writes it; the gate keeps its items.

        Returns whether the answer so far has anything that a client shows.
        """
        self._gate.mark()
        return self._gate.said

    @property
    def opens(self) -> bool:
        """Whether the client's answer can begin although its first chunk is held."""
        return self._gate.waits_for_speech or (self._emit.opens and self._gate.is_open)

    @property
    def is_due(self) -> bool:
        """Whether `end` should wait for a count."""
        return self._include_usage and self._usage.is_due

    # -- bytes ---------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> bytes:
        """Read the next bytes of the backend. Return bytes for the client."""
        template = self._expected
        if template is None or (text := template.text_of(data)) is None:
            return self._read(data)
        # Nearly every engine sends one event per message, and the event is like the one before.
        if self._counts:
            self._usage.wrote(text, template.index)
        answer = template.choice
        ops = answer.feed(text)
        if not answer.message.stopped:
            left = self._emit.usual(data, template, text, ops)
            return left if left is not None else self._joined([])
        out: list[Any] = []
        self._emit.repeated(data, template, text, ops, out)
        self._after(template.choice)
        return self._joined(out)

    def _expect(self) -> None:
        """Set the template for the next bytes, so that `feed` makes one comparison per message.

        None where they continue an event, or their output is held, or the last chunk had other fields.
        """
        last = self._last
        is_next = last is not None and last.top is self._emit.top and not last.choice.finished
        self._expected = last if is_next and self._gate.is_open and not self._reader.buffer else None

    def _read(self, data: bytes) -> bytes:
        """Read the events that `data` completes."""
        out: list[Any] = []
        try:
            events = self._reader.feed(data)
        except TooLargeError:
            message = f"An event of the backend's stream exceeds max_response_bytes ({self._limit})."
            self._fail(ToolCallError("upstream_error", message))
            return b""
        for event in events:
            if self._read_all:
                break
            self._event(event, out)
        self.ended |= self.choices.end_after_event(self._read_all)
        over = self._read_all and self.choices.all_finished  # else the end of the stream may still end a call
        left = self._let(out, all_there=self.choices.all_begun, over=over)
        self._expect()
        return left

    def finish(self, *, cut: bool = False) -> bytes:
        """End the backend's stream: emit held text and missing finish reasons. `end` or an error follows.

        cut: the stream broke off. Then no choice is finished that the backend did not finish.
        """
        choices, out, stopped = self.choices, list[Any](), self.choices.stopped
        for event in self._reader.finish():
            if not self._read_all and not stopped and event.data is not None:
                # The blank line after it is missing.
                self._event(ServerEvent(event.raw + b"\n\n", event.data, event.name), out)
        lost = (cut or not self.complete) and not stopped
        for index, choice in choices.by_index.items():
            if not choice.finished:
                failed = self.failed is not None
                part = choices.end(index, lost=lost and not choice.message.stopped, failed=failed)
                self._blame(choice)
                self._gate.said = self._gate.said or self._says(part)
                self._emit.chunk(None, [part], out, news=False)
                part.ops.clear()
        ends = not lost and self.failed is None and not choices.asked
        self._read_all |= ends and not self._gate.outlasts_end
        # Where the answer failed, the gate may still wait for choices that have not begun.
        return self._let(out, all_there=self.failed is None or choices.all_begun, over=ends)

    def end(self) -> bytes:
        """Return the held items and the last bytes of a complete answer, with usage if requested. Call once, last."""
        held = [] if self._gate.is_open else [*self._emit.opening(), *self._gate.release()]
        return (self._joined(held) if held else b"") + self._emit.end()

    def _says(self, part: Part) -> bool:
        """Whether a part opens a gate that holds for speech."""
        return speaks(part) or (part.reason is not None and Hold.WORDS not in self._gate.hold)

    def _let(self, out: list[Any], *, all_there: bool, over: bool) -> bytes:
        """Emit `out`, or hold it until the gate opens."""
        gate = self._gate
        if not gate.is_open:
            try:
                gate.keep(out)
            except ToolCallError as error:
                self._fail(error)
            over = over and self.failed is None and (self.accepts is None or self.accepts())
            out = gate.take(over=over, all_there=all_there, all_called=self.choices.all_called)
            if gate.is_open:
                out = [*self._emit.opening(), *out]
        return self._joined(out)

    def _joined(self, out: list[Any]) -> bytes:
        left = self._emit.joined(out)
        if self._emit.fault is not None:
            self._fail(self._emit.fault)
        return left

    def _after(self, choice: ChoiceAnswer) -> None:
        """Handle an event that stopped its choice."""
        self.ended |= self.choices.end_after_event(self._read_all)
        self._blame(choice)

    def _end_events(self) -> None:
        """Read no further event of the backend."""
        self._read_all = True
        self._last = self._expected = None

    def _fail(self, error: ToolCallError) -> None:
        self.failed, self.ended = error, True
        self._end_events()

    def _blame(self, choice: ChoiceAnswer) -> None:
        """A fault of the model that a setting makes an error ends the whole answer."""
        if choice.message.fault is not None:
            self._fail(choice.message.fault)

    # -- events in -----------------------------------------------------------------------------------------------

    def _event(self, event: ServerEvent, out: list[Any]) -> None:
        data = event.data
        if (event := self._line_ends.of_one_kind(event)).raw == b"":
            return
        if data is None:
            # Without a colon it is the beginning of a field name, where a stream broke off.
            if b":" in event.raw or not event.raw.strip():
                self._gate.said = True  # a comment keeps the connection alive: it must not be held
                self._emit.unread(event.raw, out, comment=True)
            return
        last = self._last
        if last is not None and (text := last.text_of(event.raw)) is not None:
            self._repeat(event.raw, last, text, out)
            return
        if not data.strip():
            self._gate.said = True
            self._emit.unread(_COMMENT, out, comment=True)
            return
        if data.strip() == b"[DONE]":
            self._flush_odd(out)
            self._end_events()
            return
        event, data, top = self._head.read(event, data)
        if event.name == "error" or (top is not None and openai.is_error(top)):
            self._usage.saw(None if top is None else openai.usage_of(top))
            if (unparsed := self.choices.unparsed_call(error := openai.read_error(data))) is None:
                self._fail(error)
                return
            self._flush_odd(out)
            top = self._head.filled({**self._emit.top, "choices": unparsed})
            data = openai.encode(top)
            self._chunk(ServerEvent(openai.event(data), data), top, out)
            self._end_events()
        elif top is None:
            self._flush_odd(out)
            self._odd = event.raw
            self._last = None
        else:
            self._flush_odd(out)
            self._chunk(event, top, out)

    def _flush_odd(self, out: list[Any]) -> None:
        """Emit the held event that is not JSON, because another event follows it. As the last event it would be half an
        event, and a client that fails to read it would not see the error after it.
        """
        if self._odd:
            self._emit.odd(self._odd, out)
            if self._emit.fault is not None:
                self._fail(self._emit.fault)
        self._odd = b""

    def _chunk(self, event: ServerEvent, top: Fields, out: list[Any]) -> None:
        """A chunk that is read in full."""
        emit = self._emit
        counted = not openai.is_null(top.get("usage"))
        usage = openai.usage_of(top)
        good = self._usage.saw(usage) and counted
        choices = openai.read_objects(top.get("choices"))
        if not choices:
            if not counted:
                emit.unread(event.raw, out)
            elif good and choices is not None:
                emit.counted(event.raw, usage, top)  # emitted at the end of the stream, wherever it arrives
            else:
                emit.counted(b"", None, top)
            return
        try:
            parts = [part for fields in choices if (part := self.choices.read(fields)) is not None]
        except ToolCallError as error:
            self._fail(error)
            return
        if self._last is not None and any(part.index == self._last.index and not part.may_repeat for part in parts):
            self._last = None  # the next chunk of its choice may differ
        news = emit.turn_to(top)
        alone = len(choices) == len(parts) == 1 and not counted
        if len(parts) == 1 and not counted and emit.holds(event, parts[0]):
            return
        self._gate.said = self._gate.said or any(map(self._says, parts))
        as_it_is = not counted and len(parts) == len(choices)
        repeats = emit.chunk(event.raw if as_it_is else None, parts, out, news=news)
        if alone and repeats and not parts[0].outside_content:
            self._last = template_of(event, parts[0], top) or self._last
        for part in parts:
            self._blame(part.choice)

    def _repeat(self, raw: bytes, template: Template, text: str, out: list[Any]) -> None:
        """Handle an event that differs from an earlier one only in its text."""
        if template.choice.finished:
            self._emit.turn_to(template.top)
            return
        if self._counts:
            self._usage.wrote(text, template.index)
        ops = template.choice.feed(text)
        self._gate.said = self._gate.said or bool(ops) or speaks(template.part)
        self._emit.repeated(raw, template, text, ops, out)
        if template.choice.message.stopped:
            self._after(template.choice)
