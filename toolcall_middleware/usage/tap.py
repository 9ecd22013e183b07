"""Usage for requests without tools: their answers go on unchanged but for the numbers that the backend did not give."""

from __future__ import annotations

import re

import msgspec

from ..wire import openai
from ..wire.openai import Fields, Shape
from ..wire.sse import EventReader, ServerEvent, TooLargeError
from .meter import ENDED, UsageMeter, usage_chunk

_MAX_UNLIKE = 16
"""Chunks in a row of which none was like the one before: then none is remembered any more, for it costs to do so."""


class UsageTap:
    """A stream whose client asks for usage. Its chunks are not parsed while each is like the one before.

    One chunk is added before `[DONE]`, and only when the backend sent no usage; the backend's is taken away where the
    meter does not take it. defer: do not count at `[DONE]` but wait for `release`, when the count is due.
    """

    __slots__ = (
        "_choice",
        "_defer",
        "_head",
        "_held",
        "_looking",
        "_meter",
        "_reader",
        "_shape",
        "_unlike",
    )

    def __init__(self, meter: UsageMeter, max_event_bytes: int | None = None, *, defer: bool = False) -> None:
        self._meter = meter
        self._reader = EventReader(max_event_bytes)
        self._defer = defer
        self._looking = True  # whether a usage chunk may still be due
        self._head: Fields = {}  # a chunk of the answer
        self._shape: Shape | None = None  # that of events that say nothing but content
        self._choice = 0  # the choice of those events
        self._unlike = 0
        self._held: list[bytes] | None = None  # from `[DONE]` on, while the count is waited for

    @property
    def waits(self) -> bool:
        """Whether the stream is held for `release`."""
        return self._held is not None

    def feed(self, data: bytes) -> bytes:
        """Read the next bytes. Return the bytes to emit."""
        if self._looking and not self._reader.buffer and self._is_like(data):
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
        return usage_chunk(self._head, self._meter) + b"".join(held)

    def finish(self) -> bytes:
        """End the stream. Return the held bytes, and the incomplete event at its end."""
        return (self.release() if self._held is not None else b"") + self._reader.rest()

    def _is_like(self, raw: bytes) -> bool:
        """Whether this event is one more with nothing but content; then that is noted."""
        if self._shape is None or (text := self._shape.content(raw)) is None:
            return False
        self._meter.wrote(text, self._choice)
        self._unlike = 0
        return True

    def _event(self, event: ServerEvent) -> bytes:
        if event.data is None or not self._looking or self._is_like(event.raw):
            return event.raw
        if event.data.strip() == b"[DONE]":
            self._looking = False
            if not self._head:
                return event.raw
            if self._defer and self._meter.is_due:
                self._held = [event.raw]
                return b""
            return usage_chunk(self._head, self._meter) + event.raw
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
        for choice in choices:
            self._head = fields
            self._read(choice, len(choices) == 1 and not counted, event.raw, data)
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

    def _read(self, choice: Fields, alone: bool, raw: bytes, data: bytes) -> None:  # noqa: FBT001
        index = openai.read_value(choice.get("index"))
        index = index if isinstance(index, int) else 0
        delta = openai.read_object(choice.get("delta")) or {}
        beside = self._meter.wrote_beside(delta, index)
        if openai.read_text(choice.get("finish_reason")) in ENDED:
            self._meter.ended()
        text = openai.read_text(delta.get("content"))
        if not text:
            return
        self._meter.wrote(text, index)
        if self._unlike >= _MAX_UNLIKE:
            self._shape = None
        elif alone and not beside and openai.is_null(choice.get("finish_reason")):
            self._unlike += 1
            shape = Shape.of(data, delta["content"])
            self._shape = None if shape is None else shape.in_event(raw, data)
            self._choice = index


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
        meter.wrote_beside(message or {}, number)
        meter.wrote(openai.read_text((message or {}).get("content")) or "", number)
        if openai.read_text(choice.get("finish_reason")) in ENDED:
            meter.ended()
    meter.saw(openai.read_value(fields.get("usage")))
    return None if meter.is_complete else fields


def with_numbers(answer: bytes, fields: Fields, meter: UsageMeter) -> bytes:
    """The answer with usage; the rest of it keeps its bytes. fields: those of `without_numbers`."""
    usage = openai.encode(meter.total())
    if "usage" in fields:
        return msgspec.json.encode({**fields, "usage": msgspec.Raw(usage)})
    return answer.rstrip()[:-1] + b',"usage":' + usage + b"}"
