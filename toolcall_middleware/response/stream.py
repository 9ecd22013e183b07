"""A backend's stream of chunks becomes the client's: content and tool_call deltas, finish reasons, one `[DONE]`.

A chunk goes one of two ways. One that fits a template (templates.py) is only asked for its text; any other is read in
full (chunk.py) and written anew (chunk_writer.py). A chunk in which nothing is to be changed leaves with its own bytes.
What is changed keeps its unknown fields: those of the chunk stay on each chunk made from it, those of its choice
(logprobs, token ids) and of its delta leave once.
"""

from __future__ import annotations

from collections.abc import Callable

from ..errors import ToolCallError
from ..usage.meter import UsageMeter, usage_chunk
from ..wire import openai
from ..wire.openai import Fields
from ..wire.sse import DONE, EventReader, LineEnds, ServerEvent, TooLargeError, is_one_line
from .choice import ChoiceAnswer
from .chunk import Choice, Choices, ChunkHead, is_plain, says
from .chunk_writer import ChunkWriter, DeltaWriter, Opening, says_beside
from .operations import Content, Op
from .release_gate import Gate, Hold
from .templates import Template, Templates

_COMMENT = b":\n\n"
"""What leaves for an event with empty data, which keeps a connection alive: SDKs would read that data as JSON."""


class StreamRewriter:
    """Bytes of the backend's event stream in, bytes for the client out. One per attempt. Never raises: see `failed`.

    make_choice: makes a ChoiceAnswer. include_usage: whether the client asked for usage. choices: how many it asked
    for. hold: what must have come before anything leaves. legacy: calls leave as the deprecated `function_call`.
    as_object: arguments are a JSON object, whole, in the call's last delta; its first has an empty string there, as
    ever. max_bytes: of one event, and of what is held. head: what a chunk says of itself where the backend does not.
    """

    def __init__(
        self,
        make_choice: Callable[[], ChoiceAnswer],
        usage: UsageMeter,
        *,
        include_usage: bool,
        choices: int = 1,
        hold: Hold = Hold.NOTHING,
        legacy: bool = False,
        as_object: bool = False,
        reasoning_field: str | None = None,
        max_bytes: int | None = None,
        head: Fields | None = None,
    ) -> None:
        self._usage = usage
        self._include_usage = include_usage
        self._counts = include_usage or usage.limit is not None
        self.choices = Choices(make_choice, usage, expected=choices, counts=self._counts)
        """What has come so far, and how long a complete answer is waited for."""
        self._writer = ChunkWriter(
            DeltaWriter(usage, legacy=legacy, as_object=as_object, reasoning_field=reasoning_field)
        )
        self._templates = Templates()
        self._gate = Gate(hold, max_bytes)
        self._opening = Opening(self._writer, self._gate)
        self._reader = EventReader(max_bytes)
        self._limit = max_bytes
        self._usage_event = b""  # the backend's own, if it can go to the client as it is
        self._line_ends = LineEnds()
        self._head = ChunkHead(head)
        self._odd = b""  # an event that is no JSON, and waits for the next
        self._expected: Template | None = None  # see `_expect`
        self._read_all = False  # the backend said [DONE], or the answer failed: no further event is read
        self.ended = False
        """Nothing that the backend could still send is wanted: the answer failed, or is complete without it."""
        self.failed: ToolCallError | None = None
        """Why the answer cannot go on."""

    # -- what the exchange asks ----------------------------------------------------------------------------------

    @property
    def received_done(self) -> bool:
        """Whether the backend said `[DONE]` behind an answer: however its stream ends then, nothing is missing."""
        return self.choices.begun and self.failed is None and self._read_all

    @property
    def complete(self) -> bool:
        """Whether the backend's stream came to its own end."""
        return self.received_done or (self.failed is None and self.choices.all_finished)

    @property
    def opens(self) -> bool:
        """Whether the client's answer can begin, although its first chunk waits for what is said first."""
        return self._gate.waits_for_speech

    @property
    def is_due(self) -> bool:
        """Whether `end` should wait for a count."""
        return self._include_usage and self._usage.is_due

    # -- bytes ---------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> bytes:
        """The next bytes of the backend."""
        template = self._expected
        if template is None or (text := template.text_of(data)) is None:
            return self._unexpected(data)
        # What nearly every engine sends: one event a message, and it is like the one before.
        template.met = True
        if self._counts:
            self._usage.wrote(text, template.index)
        answer = template.answer
        ops = answer.feed(text)
        if len(ops) == 1:
            op = ops[0]
            if type(op) is Content and op.text == text:
                return data  # what stops an answer takes some of its text away
            if not answer.message.stopped and (filled := template.filled(op, text)) is not None:
                return filled
        return self._written(data, template, text, ops)

    def _expect(self) -> None:
        """Settle which template the next bytes are compared with, so that nothing else is asked of each message.

        None where they go on with an event, or what comes of them does not leave at once, or looks different.
        """
        last = self._templates.last
        is_next = last is not None and last.top is self._writer.top and not last.choice.finished
        self._expected = last if is_next and self._gate.is_open and not self._reader.buffer else None

    def _unexpected(self, data: bytes) -> bytes:
        """Bytes that are not like those before."""
        templates = self._templates
        if self._gate.is_open and not (self._reader.buffer or self._read_all):
            if templates.are_several and (found := templates.find(data)) is not None:
                out = self._repeat(data, *found)
                self._expect()
                return out
            if templates.are_useless and not self._head.fills and is_one_line(data):
                typed = self._typed_chunk(data, data[6:-2])
                if typed is not None:
                    return typed
        return self._read(data)

    def _read(self, data: bytes) -> bytes:
        """The events that are complete with `data`, one by one."""
        out: list[bytes] = []
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
        over = self._read_all and self.choices.all_finished  # else its end may still end a call
        left = self._let(out, all_there=self.choices.all_begun, over=over)
        self._expect()
        return left

    def finish(self, *, cut: bool = False) -> bytes:
        """The end of the backend's stream: what is held back and missing finish reasons. `end` follows, or an error.

        cut: the stream broke off. Then no choice is finished that the backend did not finish.
        """
        choices, out, stopped = self.choices, list[bytes](), self.choices.stopped
        for event in self._reader.finish():
            if not self._read_all and not stopped and event.data is not None:
                # It has no blank line of its own.
                self._event(ServerEvent(event.raw + b"\n\n", event.data, event.name), out)
        lost = (cut or not self.complete) and not stopped
        for index, choice in choices.by_index.items():
            if not choice.finished:
                part, fault = choices.end(index, lost=lost and not choice.answer.stopped, failed=self.failed)
                if fault is not None:
                    self._fail(fault)
                self._gate.said = self._gate.said or bool(part.ops) or part.reason is not None
                self._writer.put(part, out)
                part.ops.clear()
        ends = not lost and self.failed is None
        self._read_all |= ends and not self._gate.waits_for_call
        # Of an answer that failed, choices that have not begun might have been those that are waited for.
        return self._let(out, all_there=self.failed is None or choices.all_begun, over=ends)

    def end(self) -> bytes:
        """The usage chunk, if the client asked for it, and `[DONE]`. Once, and last."""
        if not self._include_usage:
            return DONE
        return (self._usage_event or usage_chunk(self._writer.head(), self._usage)) + DONE

    def _let(self, out: list[bytes], *, all_there: bool, over: bool) -> bytes:
        """Let `out` go, or keep it until all has come that it waits for."""
        gate = self._gate
        if not gate.is_open:
            try:
                gate.keep(out)
            except ToolCallError as error:
                self._fail(error)
            out = gate.take(over=over and self.failed is None, all_there=all_there, all_called=self.choices.all_called)
            if gate.is_open and self._opening.is_held:
                out = [*self._opening.take(), *out]
        return out[0] if len(out) == 1 else b"".join(out)

    def _end_events(self) -> None:
        """Whatever else the backend sends is not read."""
        self._read_all = True
        self._templates.clear()
        self._expected = None

    def _fail(self, error: ToolCallError) -> None:
        self.failed, self.ended = error, True
        self._end_events()

    def _blame(self, choice: Choice) -> None:
        """A fault of the model that a setting makes an error ends the whole answer."""
        if choice.answer.fault is not None:
            self._fail(choice.answer.fault)

    # -- events in -----------------------------------------------------------------------------------------------

    def _event(self, event: ServerEvent, out: list[bytes]) -> None:
        data = event.data
        if (event := self._line_ends.of_one_kind(event)).raw == b"":
            return
        if data is None:
            # Without a colon it is the beginning of a word where a stream broke off.
            if b":" in event.raw or not event.raw.strip():
                self._gate.said = True  # a comment keeps the connection alive: that is what it is for
                out.append(event.raw)
            return
        if (found := self._templates.find(event.raw)) is not None:
            made = self._repeat(event.raw, *found)
            self._gate.said = self._gate.said or bool(made)
            out.append(made)
            return
        if self._templates.are_useless and not self._head.fills and not event.name and self._gate.is_open:
            if (typed := self._typed_chunk(event.raw, data)) is not None:
                out.append(typed)
                return
        if not data.strip():
            self._gate.said = True
            out.append(_COMMENT)
            return
        if data.strip() == b"[DONE]":
            self._flush_odd(out)
            self._end_events()
            return
        event, data, top = self._head.read(event, data)
        if event.name == "error" or (top is not None and openai.is_error(top)):
            if (last := self.choices.unparsed_call(error := openai.read_error(data))) is None:
                self._fail(error)
                return
            self._flush_odd(out)
            top = self._head.filled({**self._writer.head(), "choices": last})
            self._chunk(ServerEvent(openai.event(openai.encode(top)), b""), top, out)
            self._end_events()
        elif top is None:
            self._flush_odd(out)
            self._odd = event.raw
            self._templates.clear()
        else:
            self._flush_odd(out)
            self._chunk(event, top, out)

    def _flush_odd(self, out: list[bytes]) -> None:
        """Let an event go that is no JSON, now that it was not the last: half an event is where a stream broke off,
        and a client that cannot read it never sees the error behind it.
        """
        if self._odd:
            out.append(self._odd)
            self._odd = b""

    # -- the full way --------------------------------------------------------------------------------------------

    def _chunk(self, event: ServerEvent, top: Fields, out: list[bytes]) -> None:
        counted = not openai.is_null(top.get("usage"))
        good = counted and self._usage.saw(openai.read_value(top["usage"]))
        choices = openai.read_objects(top.get("choices"))
        if not choices:
            if not counted:
                out.append(event.raw)
                return
            # For the end of the stream, wherever it stands here.
            self._usage_event = event.raw if good and choices is not None else b""
            self._writer.top = self._writer.head() or top
            return
        try:
            parts = [part for fields in choices if (part := self.choices.read(fields)) is not None]
        except ToolCallError as error:
            self._fail(error)
            return
        for part in parts:
            if not part.may_repeat:
                self._templates.forget(part.index)
        news = self._writer.turn_to(top)
        if len(parts) == 1 and not counted and self._opening.holds(event, parts[0]):
            return
        self._gate.said = self._gate.said or any(map(says, parts))
        if not counted and len(parts) == len(choices) and all(part.unchanged for part in parts):
            out.append(event.raw)
            for part in parts:
                part.choice.has_role = True
        else:
            for part in parts:
                self._writer.put(part, out, news=news)
                news = False
        if len(choices) == len(parts) == 1 and not counted and not parts[0].beside:
            self._templates.learn(event, parts[0], self._writer.top)
        for part in parts:
            self._blame(part.choice)

    def _repeat(self, raw: bytes, template: Template, text: str) -> bytes:
        """What leaves for the event `raw`, which differs from an earlier one in its text alone."""
        template.met = True
        writer = self._writer
        news = writer.top is not template.top and writer.turn_to(template.top)
        if template.choice.finished:
            return b""
        if self._counts:
            self._usage.wrote(text, template.index)
        return self._written(raw, template, text, template.answer.feed(text), news=news)

    def _written(self, raw: bytes, template: Template, text: str, ops: list[Op], *, news: bool = False) -> bytes:
        """What leaves for `raw`, whose text has become `ops`. news: its chunk's own fields must leave."""
        if not template.answer.message.stopped:
            if len(ops) == 1:
                op = ops[0]
                if type(op) is Content and op.text == text:
                    return raw
                filled = template.filled(op, text)
                if filled is not None:
                    return filled
            elif not ops and text and template.silent and not news:
                return b""
        self.ended |= self.choices.end_after_event(self._read_all)
        if is_plain(ops, text):
            return raw if text or not template.answer.calls else b""  # nothing is no content behind calls
        part, writer = template.part, self._writer
        part.text, part.ops = text, ops
        out: list[bytes] = []
        writer.put(part, out, shell=template.shell, news=news)
        if ops:
            op = ops[-1]
            template.expect(op, writer.frame(template.shell, op), silent=not says_beside(part.fields))
        else:
            template.silent = not out
        ops.clear()
        self._blame(template.choice)
        return b"".join(out)

    def _typed_chunk(self, raw: bytes, data: bytes) -> bytes | None:
        """What leaves for the event `raw`, which says some text, and beside it what only the client reads.

        None: it says something else, and nothing of it has been read.
        """
        typed = None if self._odd else self._templates.read_typed(data)
        if typed is None:
            return None
        index, text = typed.index, typed.delta.content
        choice = self.choices.by_index.get(index)
        if choice is None or choice.finished or not text:
            return None
        answer = choice.answer
        if answer.reads_reasoning:
            return None  # what comes in its reasoning field has to end first
        self._templates.note_typed()
        if self._counts:
            self._usage.wrote(text, index)
        ops = answer.feed(text)
        out = raw
        if len(ops) == 1 and type(only := ops[0]) is Content and only.text == text:
            self._writer.unread = data
        else:
            out = self._writer.rewritten(choice, index, data, text, ops)
        if answer.stopped:
            self.ended |= self.choices.end_after_event(self._read_all)
            self._blame(choice)
        return out
