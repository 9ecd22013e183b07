"""Usage for requests without tools: their answers go on unchanged but for the numbers that the backend did not give."""

from __future__ import annotations

import re

import msgspec

from ..wire import openai
from ..wire.openai import Fields
from ..wire.sse import EventReader, ServerEvent, TooLargeError, is_one_line
from .meter import ENDED, UsageMeter, usage_chunk


class UsageTap:
    """A stream whose client asks for usage. A chunk that holds text alone is read by its type.

    One chunk is added before `[DONE]`, and only when the backend sent no usage; the backend's is taken away where the
    meter does not take it. A count that is due is not made at `[DONE]`: the stream waits for `release`.
    """

    __slots__ = ("_held", "_last", "_looking", "_meter", "_reader")

    def __init__(self, meter: UsageMeter, max_event_bytes: int | None = None) -> None:
        self._meter = meter
        self._reader = EventReader(max_event_bytes)
        self._looking = True  # whether a usage chunk may still be due
        self._last = b""  # the last chunk with a choice
        self._held: list[bytes] | None = None  # from `[DONE]` on, while the count is waited for

    @property
    def waits(self) -> bool:
        """Whether the stream is held for `release`."""
        return self._held is not None

    def feed(self, data: bytes) -> bytes:
        """Read the next bytes. Return the bytes to emit."""
        if self._looking and not self._reader.buffer and is_one_line(data) and self._is_text(data[6:-2]):
            return data
        if self._held is not None:
            self._held.append(data)
            return b""
        if not self._looking:
            return self._reader.rest() + data
        try:
            events = self._reader.feed(data)
        except TooLargeError:
            self._looking = False
            return self._reader.rest()
        out: list[bytes] = []
        for event in events:
            if self._held is not None:
                self._held.append(event.raw)
            else:
                out.append(self._event(event))
        return b"".join(out)

    def release(self) -> bytes:
        """Return the awaited usage chunk, and what was held after it."""
        held, self._held = self._held or [], None
        return self._counted() + b"".join(held)

    def finish(self) -> bytes:
        """End the stream. Return the held bytes, and the incomplete event at its end."""
        return (self.release() if self._held is not None else b"") + self._reader.rest()

    def _counted(self) -> bytes:
        """The chunk with usage."""
        return usage_chunk(openai.read_object(self._last) or {}, self._meter)

    def _is_text(self, data: bytes) -> bool:
        """Whether a chunk holds text alone; then that is noted."""
        try:
            choice = openai.read_by_type(data).choices[0]
        except openai.FAILURES:
            return False
        self._last = data
        if choice.delta.content:
            self._meter.wrote(choice.delta.content, choice.index)
        return True

    def _event(self, event: ServerEvent) -> bytes:
        if event.data is None or not self._looking or (not event.name and self._is_text(event.data)):
            return event.raw
        if event.data.strip() == b"[DONE]":
            self._looking = False
            if not self._last:
                return event.raw
            if self._meter.is_due:
                self._held = [event.raw]
                return b""
            return self._counted() + event.raw
        fields = openai.read_object(event.data)
        if fields is None:
            return event.raw
        if event.name == "error" or openai.is_error(fields):
            self._looking = False
            return event.raw
        return self._chunk(event, event.data, fields)

    def _chunk(self, event: ServerEvent, data: bytes, fields: Fields) -> bytes:
        choices = openai.read_objects(fields.get("choices")) or []
        counted = not openai.is_null(fields.get("usage"))
        if choices:
            self._last = data
        for choice in choices:
            index = openai.read_value(choice.get("index"))
            delta = openai.read_object(choice.get("delta")) or {}
            _note(self._meter, choice, delta, index if isinstance(index, int) else 0)
        if not counted:
            return event.raw
        self._meter.saw(openai.read_value(fields["usage"]))
        if not self._meter.known:
            return b"" if not choices else openai.event(msgspec.json.encode({**fields, "usage": openai.NULL}))
        if self._meter.is_complete:
            self._looking = False
        elif not choices:
            return b""  # zeros are not a count: our own chunk follows
        return event.raw


def _note(meter: UsageMeter, choice: Fields, message: Fields, index: int) -> None:
    """Tell the meter what the model wrote in a message or delta."""
    meter.wrote_outside_content(message, index)
    meter.wrote(openai.read_text(message.get("content")) or "", index)
    if openai.read_text(choice.get("finish_reason")) in ENDED:
        meter.ended()


_GIVEN = re.compile(rb'"usage"\s*:\s*\{')
_ZERO = re.compile(rb'"(?:prompt|completion)_tokens"\s*:\s*0\b')


def may_lack_numbers(answer: bytes) -> bool:
    """Whether this may be a whole answer without numbers, by a look at its bytes: one that has usage is not parsed."""
    return not _GIVEN.search(answer) or _ZERO.search(answer) is not None


def without_numbers(answer: bytes, meter: UsageMeter) -> Fields | None:
    """The fields of a completion without numbers that count, which the meter reads; None for any other answer."""
    fields = openai.read_object(answer) or {}
    choices = openai.read_objects(fields.get("choices"))
    messages = [openai.read_object(choice.get("message")) for choice in choices or ()]
    if not choices or None in messages:
        return None
    for number, (choice, message) in enumerate(zip(choices, messages, strict=True)):
        _note(meter, choice, message or {}, number)
    meter.saw(openai.read_value(fields.get("usage")))
    return None if meter.is_complete else fields


def with_numbers(answer: bytes, fields: Fields, meter: UsageMeter) -> bytes:
    """The answer with usage; the rest of it keeps its bytes. fields: those of `without_numbers`."""
    usage = openai.encode(meter.total())
    if "usage" in fields:
        return msgspec.json.encode({**fields, "usage": msgspec.Raw(usage)})
    return answer.rstrip()[:-1] + b',"usage":' + usage + b"}"
