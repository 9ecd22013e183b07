"""A backend's stream of chunks becomes the client's: content and tool_call deltas, finish reasons, one `[DONE]`.

A chunk in which nothing is to be changed leaves with its own bytes. What is changed keeps its unknown fields: those of
the chunk stay on each chunk made from it, those of its choice (logprobs, token ids) and of its delta leave once.
"""

from __future__ import annotations

from collections.abc import Callable

from ..errors import ToolCallError
from ..usage.meter import ENDED, UsageMeter, usage_chunk
from ..wire import openai
from ..wire.openai import Fields
from ..wire.sse import DONE, EventReader, ServerEvent, TooLargeError, is_one_line
from .choice import ChoiceAnswer
from .chunk import Choice, Part, is_plain, says, take_calls
from .chunk_writer import ChunkWriter
from .deltas import DeltaWriter
from .fast_path import MAX_UNLIKE
from .operations import Op
from .release_gate import Gate, Hold
from .shortcuts import ShortWays


class StreamRewriter(ShortWays):
    """Bytes of the backend's event stream in, bytes for the client out. One per try.

    make_choice: a new ChoiceAnswer. include_usage: whether the client asked for usage. choices: how many it asked
    for. hold: what nothing leaves before. legacy: calls leave as the deprecated `function_call`. as_object: arguments
    are a JSON object, whole, in the call's last delta; its first has an empty string there, as ever:
    `{"arguments": ""}`, then `{"arguments": {"city": "Paris"}}`.
    max_bytes: of one event, and of what is held. Never raises: `failed` tells why the answer cannot go on.
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
    ) -> None:
        deltas = DeltaWriter(usage, legacy=legacy, as_object=as_object, reasoning_field=reasoning_field)
        counts = include_usage or usage.limit is not None
        super().__init__(make_choice, usage, ChunkWriter(deltas), expected=choices, counts=counts)
        self._include_usage = include_usage
        self._gate = Gate(hold, max_bytes)
        self._reader = EventReader(max_bytes)
        self._limit = max_bytes
        self._usage_event = b""  # the backend's own, if it can go to the client as it is

    # -- bytes ---------------------------------------------------------------------------------------------------

    def feed(self, data: bytes) -> bytes:
        """The next bytes of the backend."""
        known = self._known
        if known is not None and not self._reader.buffer and self._gate.is_open:
            # What nearly every engine sends: one event a message, and it is like the one before.
            content = known.shape.content(data)
            if content is not None:
                return self._text_chunk(data, known, content)
        if self._unlike >= MAX_UNLIKE and not self._reader.buffer and self._gate.is_open and is_one_line(data):
            left = self._typed_chunk(data, data[6:-2])
            if left is not None:
                return left
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
            if self._over:
                break
            self._event(event, out)
        self._see_stop()
        return self._let(out, all_there=self._all_there)

    def finish(self, *, cut: bool = False) -> bytes:
        """The end of the backend's stream: what is held back and missing finish reasons. `end` follows, or an error.

        cut: the stream broke off. Then no choice is finished that the backend did not finish.
        """
        out: list[bytes] = []
        for event in self._reader.finish():
            if not self._over and not self.stopped and event.data is not None:
                # It has no blank line of its own.
                self._event(ServerEvent(event.raw + b"\n\n", event.data, event.name), out)
        lost = (cut or not self.complete) and not self.stopped
        for index, choice in self._choices.items():
            if not choice.finished:
                broken = lost and not choice.answer.stopped
                ops, reason = choice.answer.finish(None, lost=broken)
                self._blame(choice)
                choice.finished = not broken and self.failed is None
                told = reason if choice.finished else None
                self._gate.said = self._gate.said or bool(ops) or told is not None
                self._writer.put(Part(choice, {"index": openai.raw(index)}, {}, "", ops, told, unchanged=False), out)
                ops.clear()
        if not self._gate.waits_for_call and not lost and self.failed is None:
            self._over = True
        return self._let(out, all_there=True)

    def end(self) -> bytes:
        """The usage chunk, if the client asked for it, and `[DONE]`. Once, and last."""
        if not self._include_usage:
            return DONE
        return (self._usage_event or usage_chunk(self._writer.head(), self._usage)) + DONE

    @property
    def is_due(self) -> bool:
        """Whether `end` should wait for a count."""
        return self._include_usage and self._usage.is_due

    def _let(self, out: list[bytes], *, all_there: bool) -> bytes:
        """Let `out` go, or keep it until all has come that it waits for."""
        gate = self._gate
        if not gate.is_open:
            try:
                gate.keep(out)
            except ToolCallError as error:
                self._fail(error)
            over = self._over and self.failed is None
            out = gate.take(over=over, all_there=all_there, all_called=self._all_called)
        return out[0] if len(out) == 1 else b"".join(out)

    # -- events in -----------------------------------------------------------------------------------------------

    def _event(self, event: ServerEvent, out: list[bytes]) -> None:
        data = event.data
        if data is None:
            # Without a colon it is the beginning of a word where a stream broke off.
            if b":" in event.raw or not event.raw.strip():
                self._gate.said = True  # a comment keeps the connection alive: that is what it is for
                out.append(event.raw)
            return
        known = self._known
        if known is not None and (text := known.shape.content(event.raw)) is not None:
            out.append(self._text_chunk(event.raw, known, text))
            return
        if self._unlike >= MAX_UNLIKE and not event.name and self._gate.is_open:
            left = self._typed_chunk(event.raw, data)
            if left is not None:
                out.append(left)
                return
        if data.strip() == b"[DONE]":
            self._let_odd(out)
            self._end_events()
            return
        valid = openai.without_constants(data)
        if valid is not data:
            raw = event.raw.replace(data, valid) if data in event.raw else openai.event(valid)
            event, data = ServerEvent(raw, valid, event.name), valid
        top = openai.read_object(data)
        if event.name == "error" or (top is not None and openai.is_error(top)):
            self._fail(openai.read_error(data))
        elif top is None:
            self._let_odd(out)
            self._odd, self._known = event.raw, None
        else:
            self._let_odd(out)
            self._chunk(event, top, out)

    def _let_odd(self, out: list[bytes]) -> None:
        """Let an event go that is no JSON, now that it was not the last: half an event is where a stream broke off,
        and a client that cannot read it never sees the error behind it.
        """
        if self._odd:
            out.append(self._odd)
            self._odd = b""

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
        parts = [part for fields in choices if (part := self._part(fields)) is not None]
        news = self._writer.turn_to(top)
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
            self._learn(event, parts[0])
        for part in parts:
            self._blame(part.choice)

    def _part(self, fields: Fields) -> Part | None:
        """A choice of a chunk, read by its parser; None after the end of that choice."""
        index = openai.read_value(fields.get("index"))
        unchanged = isinstance(index, int)
        if not isinstance(index, int):
            index, fields = 0, {"index": openai.raw(0), **fields}
        choice = self._choices.get(index)
        if choice is None:
            choice = self._choices[index] = Choice(self._make_choice())
        if choice.finished:
            return None
        delta = openai.read_object(fields.get("delta"))
        if delta is None:
            unchanged, delta = False, {}
        text = openai.read_text(delta.get("content")) or ""
        beside = self._counts and self._usage.wrote_beside(delta, index)
        if text and self._counts:
            self._usage.wrote(text, index)
        thoughts: list[Op] = []
        if choice.answer.thinks:
            thoughts, rest, same = choice.answer.take_thoughts(delta, text)
            if rest is not delta:
                self._known = None  # it may go on as content, and that ends it
                beside, delta = True, rest
            unchanged = unchanged and same
        if choice.answer.native is not None and ("tool_calls" in delta or "function_call" in delta):
            calls, delta = take_calls(delta)
            ops = choice.answer.feed_both(text, calls)
            plain = not calls and is_plain(ops, text)
        else:
            ops = choice.answer.feed(text) if text else []
            plain = is_plain(ops, text)
        # Some engines send an empty finish_reason until the end.
        reason = told = openai.read_text(fields.get("finish_reason")) or None
        if told is not None:
            last, reason = choice.answer.finish(told)
            ops += last
            if choice.answer.fault is None:
                choice.finished = True
            else:
                reason = None
        unchanged = unchanged and (plain and is_plain(ops, text)) and reason == told
        ops = thoughts + ops if thoughts else ops
        if reason is not None and (choice.answer.extras or (text and choice.answer.calls)):
            unchanged = False  # behind calls, a delta that finishes is empty
        if not choice.has_role and openai.is_null(delta.get("role")):
            unchanged = False
        if told in ENDED:
            self._usage.ended()
        return Part(choice, fields, delta, text, ops, reason, unchanged, index, beside)
