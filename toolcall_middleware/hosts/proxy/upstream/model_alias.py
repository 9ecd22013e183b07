"""A model under another name: the upstream's in the request, the client's own in the answer."""

from __future__ import annotations

import msgspec
from starlette.types import Send

from ....wire import openai
from ....wire.sse import EventReader, ServerEvent, TooLargeError
from ...http.answer import Answer, Reads
from ...http.headers import OF_ITS_BYTES, without
from ...http.offload import offloaded

_HOLDERS = ("message", "response")
"""Where events of Messages (`message_start`) and of Responses (`response.created`) have what names the model."""


class _Named(msgspec.Struct):
    model: msgspec.Raw | None = None


_named = msgspec.json.Decoder(_Named)


def model_of(body: bytes) -> str | None:
    """The model that a JSON body names; None where it names none or is no object."""
    try:
        found = _named.decode(body).model
    except openai.FAILURES:
        found = (openai.read_object(body) or {}).get("model")
    return openai.read_text(found)


def with_model(body: bytes, model: str) -> bytes:
    """A JSON object with another model; every other field keeps its bytes."""
    return openai.with_fields(body, {"model": model})


class AliasedAnswer(Answer):
    """Puts `model` into an answer, whole or streamed, where it names a model.

    What is no JSON object and no event stream, is coded, or exceeds `limit` bytes passes as it is.
    """

    def __init__(self, send: Send, model: str, limit: int | None) -> None:
        super().__init__(send, limit)
        self._model = msgspec.Raw(openai.encode(model))
        self._events = EventReader(limit)
        self._gives_up = False
        self._seen = self._instead = b""

    def begun(self) -> Reads:
        """See Answer."""
        if self.coding or self.kind not in {b"text/event-stream", b"application/json"}:
            return Reads.NOTHING
        if self.kind == b"application/json":
            return Reads.WHOLE
        self.start["headers"] = without(self.start["headers"], OF_ITS_BYTES)
        return Reads.PIECES

    async def piece(self, data: bytes, *, last: bool) -> bytes:
        """See Answer."""
        if self._gives_up:
            return data
        size = len(data) + len(self._events.buffer)  # the end of a huge event may be small
        return await offloaded(size, self._read, self._events, data, last)

    async def whole(self, body: bytes) -> bytes | None:
        """See Answer."""
        out = await offloaded(len(body), self._in_object, body)
        if out is body:
            return None
        self.replaced(length=len(out))
        return out

    def _read(self, reader: EventReader, data: bytes, last: bool) -> bytes:  # noqa: FBT001 - for a thread
        try:
            events = reader.feed(data)
        except TooLargeError:
            events = []
            self._gives_up = True
        if last:
            events += reader.finish()
        out = b"".join([self._aliased(event) for event in events])
        return out + reader.rest() if self._gives_up else out

    def _aliased(self, event: ServerEvent) -> bytes:
        if self._seen and event.raw.startswith(self._seen):
            return self._instead + event.raw[len(self._seen) :]
        if event.data is None or b'"model"' not in event.data:
            return event.raw
        data = self._in_object(event.data)
        if data is event.data:
            return event.raw
        self._remember(event)
        before, found, after = event.raw.partition(event.data)
        if not found:  # on several lines, between the tokens of the object
            data = data.replace(b"\n", b" ")
            return (b"event: " + event.name.encode() + b"\n" if event.name else b"") + openai.event(data)
        return before + data + after

    def _remember(self, event: ServerEvent) -> None:
        """The bytes up to the model's value: events that begin with them have their model there, too."""
        value = bytes((openai.read_object(event.data) or {}).get("model", b""))
        before, found, after = event.raw.partition(b'"model":')
        if not found or not value or not after.startswith(value):
            return
        begin = before + found
        # What was found may be the key of an inner object.
        probe = (begin + b"0" + after[len(value) :]).partition(b"{")[2]
        if bytes((openai.read_object(b"{" + probe) or {}).get("model", b"")) == b"0":
            self._seen = begin + value
            self._instead = begin + bytes(self._model)

    def _in_object(self, data: bytes) -> bytes:
        fields = openai.read_object(data)
        if fields is None:
            return data
        if "model" in fields:
            fields["model"] = self._model
            return openai.encode(fields)
        for name in _HOLDERS if "type" in fields else ():
            inner = openai.read_object(fields.get(name))
            if inner is not None and "model" in inner:
                return openai.encode({**fields, name: {**inner, "model": self._model}})
        return data
