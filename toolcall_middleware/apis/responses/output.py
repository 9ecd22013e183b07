"""The items of an answer, written as events and kept for the response's end.

One item at a time: what the model says next closes the item before, and waits behind a call that may still go on. Each
item is encoded once when it is done and stands in the events of the end as it is.
"""

from __future__ import annotations

from typing import Any, Protocol

import msgspec

from ..object_end import ObjectEnd
from .freeform import FreeformInput
from .local_kinds import call_fields
from .names import ITEM_TYPES, ClientTool, Kind
from .reasoning import Carried, write_carried

_encode = msgspec.json.encode


class Events(Protocol):
    """Where events go."""

    def emit(self, name: str, fields: dict[str, Any]) -> None:
        """An event of the type `name`, with its number and these fields."""
        ...

    def delta(self, head: bytes, text: str) -> None:
        """The same for a piece of text, of which an answer has thousands. head: see `delta_head`."""
        ...


class _HeldEvents:
    """Keeps the events of an item that waits."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: list[tuple[str | bytes, Any]] = []

    def emit(self, name: str, fields: dict[str, Any]) -> None:
        self._kept.append((name, fields))

    def delta(self, head: bytes, text: str) -> None:
        self._kept.append((head, text))

    def release(self, events: Events) -> None:
        """All of them, in order."""
        for name, said in self._kept:
            if isinstance(name, bytes):
                events.delta(name, said)
            else:
                events.emit(name, said)


def delta_head(name: str, fields: dict[str, Any]) -> bytes:
    """What is the same in all pieces of a text: the event as bytes, up to its number."""
    body = _encode({"type": name, **fields})[:-1]
    return b'event: %b\ndata: %b,"sequence_number":' % (name.encode(), body)


class Frame(msgspec.Struct, frozen=True, gc=False):
    """What is the same in all pieces of an item. head: see `delta_head`. pieces: where their texts are kept."""

    head: bytes
    pieces: list[str]


class Item:
    """One item of the output: opened with an event, fed, closed with its `done` events.

    Ids are the response's own mark and the item's place. `raw`: as it is in the output; None while it is open.
    """

    __slots__ = ("_events", "_held", "_index", "_place", "id", "raw")

    prefix = ""
    done_when_cut = True
    """Whether it has its `done` events also when the answer was cut short in it."""

    def __init__(self, events: Events, index: int, mark: str) -> None:
        self._events = events
        self._held: _HeldEvents | None = None
        self._index = index
        self.id = f"{self.prefix}_{mark}{index:08x}"
        self._place = {"item_id": self.id, "output_index": index}
        self.raw: msgspec.Raw | None = None

    def wait(self) -> None:
        """Another item is not over: the events of this one are kept until `tell`."""
        self._events = self._held = _HeldEvents()

    def tell(self, events: Events) -> None:
        """It is this item's turn: what has been kept of it leaves, and what comes of it leaves at once."""
        self._events = events
        if self._held is not None:
            self._held.release(events)
            self._held = None

    def open(self) -> None:
        """`response.output_item.added`."""
        self._events.emit("response.output_item.added", {"output_index": self._index, "item": self.item("in_progress")})

    def item(self, status: str) -> dict[str, Any]:
        """The item as far as it is known."""
        raise NotImplementedError

    def ending(self) -> None:
        """The events before `output_item.done`."""
        raise NotImplementedError

    def close(self, status: str) -> None:
        """The item is over: `completed`, or `incomplete` where the answer was cut short in it."""
        done = status == "completed" or self.done_when_cut
        if done:
            self.ending()
        self.raw = msgspec.Raw(_encode(self.item(status)))
        if done:
            self._events.emit("response.output_item.done", {"output_index": self._index, "item": self.raw})

    @property
    def frame(self) -> Frame | None:
        """Of the next pieces; None where an event is more than its piece, or not each piece makes one."""
        return None

    def abandon(self) -> None:
        """The answer has failed in it: no event says that it is done."""
        self.raw = msgspec.Raw(_encode(self.item("incomplete")))


class TextItem(Item):
    """A message: text, or a refusal, each a part of its content."""

    __slots__ = ("_head", "_kind", "_part", "_parts", "_pieces")

    prefix = "msg"

    def __init__(self, events: Events, index: int, mark: str) -> None:
        super().__init__(events, index, mark)
        self._parts: list[dict[str, Any]] = []
        self._kind = ""  # of the open part
        self._pieces: list[str] = []
        self._part: dict[str, Any] = {}
        self._head = b""

    def item(self, status: str) -> dict[str, Any]:
        return {
            "type": "message",
            "id": self.id,
            "status": status,
            "role": "assistant",
            "content": [*self._parts, *([_part(self._kind, "".join(self._pieces))] if self._kind else [])],
        }

    def say(self, text: str, kind: str = "output_text") -> None:
        """More text of a part; another kind begins another part."""
        if kind != self._kind:
            self._end_part()
            self._kind = kind
            self._part = {**self._place, "content_index": len(self._parts)}
            self._head = (
                delta_head("response.output_text.delta", {**self._part, "logprobs": []})
                if kind == "output_text"
                else delta_head("response.refusal.delta", self._part)
            )
            self._events.emit("response.content_part.added", {**self._part, "part": _part(kind, "")})
        if text:
            self._pieces.append(text)
            self._events.delta(self._head, text)

    @property
    def frame(self) -> Frame | None:
        return Frame(self._head, self._pieces) if self._kind == "output_text" else None

    def ending(self) -> None:
        self._end_part()

    def _end_part(self) -> None:
        if not self._kind:
            return
        text = "".join(self._pieces)
        part = _part(self._kind, text)
        if self._kind == "output_text":
            self._events.emit("response.output_text.done", {**self._part, "text": text, "logprobs": []})
        else:
            self._events.emit("response.refusal.done", {**self._part, "refusal": text})
        self._events.emit("response.content_part.done", {**self._part, "part": part})
        self._parts.append(part)
        self._pieces.clear()
        self._kind = ""


def _part(kind: str, text: str) -> dict[str, Any]:
    if kind == "refusal":
        return {"type": kind, "refusal": text}
    if kind == "reasoning_text":
        return {"type": kind, "text": text}
    return {"type": kind, "text": text, "annotations": [], "logprobs": []}


class ReasoningItem(Item):
    """A thought, or what an upstream signed of one. encrypted: whether it is carried in `encrypted_content`, too."""

    __slots__ = ("_encrypted", "_head", "_part", "_pieces", "signed")

    prefix = "rs"

    def __init__(self, events: Events, index: int, mark: str, *, encrypted: bool) -> None:
        super().__init__(events, index, mark)
        self._pieces: list[str] = []
        self._encrypted = encrypted
        self.signed = Carried()
        """What is carried beside the text."""
        self._part = {**self._place, "content_index": 0}
        self._head = delta_head("response.reasoning_text.delta", self._part)

    def item(self, status: str) -> dict[str, Any]:
        text = "".join(self._pieces)
        item: dict[str, Any] = {
            "type": "reasoning",
            "id": self.id,
            "status": status,
            "summary": [],
            "content": [_part("reasoning_text", text)] if text else [],
        }
        carried = msgspec.structs.replace(self.signed, text=text)
        if self._encrypted and carried:
            item["encrypted_content"] = write_carried(carried)
        return item

    def say(self, text: str) -> None:
        """More of it."""
        if not self._pieces:
            self._events.emit("response.content_part.added", {**self._part, "part": _part("reasoning_text", "")})
        self._pieces.append(text)
        self._events.delta(self._head, text)

    @property
    def frame(self) -> Frame | None:
        return Frame(self._head, self._pieces)

    def ending(self) -> None:
        if not self._pieces:
            return
        text = "".join(self._pieces)
        self._events.emit("response.reasoning_text.done", {**self._part, "text": text})
        self._events.emit("response.content_part.done", {**self._part, "part": _part("reasoning_text", text)})


class CallItem(Item):
    """A call of a function. Other kinds of tools are below."""

    __slots__ = ("_call_id", "_end", "_head", "_pieces", "_read", "_tool")

    prefix = "fc"
    delta_event = "response.function_call_arguments.delta"

    def __init__(self, events: Events, index: int, mark: str, *, tool: ClientTool, call_id: str) -> None:
        super().__init__(events, index, mark)
        self._tool = tool
        self._call_id = call_id
        self._pieces: list[str] = []
        self._end = ObjectEnd()
        self._read = 0  # pieces of which it is known whether they end the arguments
        self._head = delta_head(self.delta_event, self._place)

    def item(self, status: str) -> dict[str, Any]:
        item = self._known(status)
        item["arguments"] = "".join(self._pieces)
        return item

    def _known(self, status: str) -> dict[str, Any]:
        if self._tool.kind is Kind.APPLY_PATCH and status == "incomplete":
            status = "in_progress"  # the API has no other word for it there
        item = {"type": ITEM_TYPES[self._tool.kind], "id": self.id, "status": status, "call_id": self._call_id}
        if self._tool.kind in (Kind.FUNCTION, Kind.CUSTOM):
            item["name"] = self._tool.name
            if self._tool.namespace is not None:
                item["namespace"] = self._tool.namespace
        return item

    @property
    def is_over(self) -> bool:
        """Whether nothing more of its arguments can come."""
        for piece in self._pieces[self._read :]:
            self._end.feed(piece)
        self._read = len(self._pieces)
        return self._end.closed

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing of what the client gets, as far as it tells."""
        return self.is_over

    def write(self, arguments: str) -> None:
        """More of the arguments."""
        if arguments:
            self._pieces.append(arguments)
            self._events.delta(self._head, arguments)

    @property
    def frame(self) -> Frame | None:
        return Frame(self._head, self._pieces) if type(self) is CallItem else None

    def ending(self) -> None:
        self._events.emit("response.function_call_arguments.done", {**self._place, "arguments": "".join(self._pieces)})


class CustomItem(CallItem):
    """A call of a custom tool, whose input is free text.

    One that is cut off is never told to be done: nothing in a text says that its end is missing, and clients run what
    is done, whatever its status.
    """

    __slots__ = ("_input",)

    prefix = "ctc"
    delta_event = "response.custom_tool_call_input.delta"
    done_when_cut = False

    def __init__(self, events: Events, index: int, mark: str, *, tool: ClientTool, call_id: str) -> None:
        super().__init__(events, index, mark, tool=tool, call_id=call_id)
        self._input = FreeformInput()

    def item(self, status: str) -> dict[str, Any]:
        item = self._known(status)
        item["input"] = "".join(self._pieces)
        return item

    @property
    def is_over(self) -> bool:
        return self._end.closed

    @property
    def is_whole(self) -> bool:
        return self._input.ended

    def write(self, arguments: str) -> None:
        self._end.feed(arguments)
        self._say(self._input.feed(arguments))

    def _say(self, text: str) -> None:
        if text:
            self._pieces.append(text)
            self._events.delta(self._head, text)

    def ending(self) -> None:
        self._say(self._input.finish())
        self._events.emit("response.custom_tool_call_input.done", {**self._place, "input": "".join(self._pieces)})


class LocalItem(CallItem):
    """A call whose item holds no arguments but what they say: it is known when they are complete."""

    __slots__ = ()

    prefix = "lc"
    done_when_cut = False

    def item(self, status: str) -> dict[str, Any]:
        arguments = "".join(self._pieces) if status == "completed" else "{}"
        return {**self._known(status), **call_fields(self._tool.kind, arguments)}

    def write(self, arguments: str) -> None:
        self._pieces.append(arguments)

    def ending(self) -> None:
        pass  # no event tells of its parts


def call_item(events: Events, index: int, mark: str, *, tool: ClientTool, call_id: str) -> CallItem:
    """The item for a call of `tool`."""
    match tool.kind:
        case Kind.FUNCTION:
            made = CallItem
        case Kind.CUSTOM:
            made = CustomItem
        case _:
            made = LocalItem
    return made(events, index, mark, tool=tool, call_id=call_id)
