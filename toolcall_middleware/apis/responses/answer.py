"""What a chat completion says, as a response: its items in order, its status, its usage. One writer for both modes."""

from __future__ import annotations

import time
from collections import deque
from typing import Any, TypeVar

import msgspec

from ...errors import ToolCallError
from ...wire.new_call_id import new_call_id
from ..extension import ExtensionCopy
from .errors import failed_code
from .names import ClientTool, Kind
from .output import CallItem, Events, Frame, Item, ReasoningItem, TextItem, call_item
from .request import Asked

_ItemT = TypeVar("_ItemT", bound=Item)
# What cuts an answer short, as `incomplete_details` has it.
_CUT = {
    "length": "max_output_tokens",
    "model_length": "max_output_tokens",  # Mistral's word for a context that is full
    "content_filter": "content_filter",
}


class ResponseWriter:
    """Takes what the model says and emits the events of the response. See `Face` for the order of calls.

    events: where its events go. mark: what is random in the ids, new for each answer. extension: of the chat answer.
    `begun`: the first event is out. `ended`: the last one is.
    """

    def __init__(self, asked: Asked, events: Events, mark: str, extension: ExtensionCopy) -> None:
        self._asked = asked
        self._extension = extension
        self._events = events
        self._mark = mark
        self._items: list[Item] = []
        self._told: Item | None = None  # the one item whose events are sent at once
        self._waiting: deque[Item] = deque()  # later items, whose events are kept until it is complete
        self._written: Item | None = None  # the item that the model's last piece belongs to
        self._calls: dict[int, CallItem] = {}  # by their index in the chat completion
        self._call_ids: set[str] = set()
        self._model = asked.model
        self._created = 0
        self.begun = False
        self.ended = False
        self.finish_reason: str | None = None
        self.usage: dict[str, Any] | None = None

    # -- what the model says ---------------------------------------------------------------------------------------

    def begin(self, model: str | None = None, created: int | None = None) -> None:
        """The answer begins. model: as the backend calls it. created: seconds since 1970."""
        self.begun = True
        self._model = model or self._asked.model
        self._created = created or int(time.time())
        self._events.emit("response.created", {"response": self._response("in_progress")})
        self._events.emit("response.in_progress", {"response": self._response("in_progress")})

    def still(self) -> None:
        """The answer is still being made. Every client reads this event, also twice."""
        self._events.emit("response.in_progress", {"response": self._response("in_progress")})

    def reason(self, text: str) -> None:
        """More of a thought."""
        item = self._written = self._thought()
        item.say(text)

    def sign(self, details: list[dict[str, Any]]) -> None:
        """What the upstream wants back with the thought: items of `reasoning_details`."""
        if self._asked.encrypted:
            item = self._written = self._thought()
            item.signed.details += details

    def say(self, text: str, kind: str = "output_text") -> None:
        """More text, or more of a `refusal`."""
        item = self._going_on(TextItem)
        if item is None:
            item = self._next(TextItem(self._events, len(self._items), self._mark))
        self._written = item
        item.say(text, kind)

    def call(
        self,
        index: int,
        call_id: str | None,
        name: str | None,
        arguments: str,
        extra: dict[str, Any] | None = None,
    ) -> None:
        """More of the call `index`: the first time with its id and name. extra: `extra_content`, such as a signature.

        A call's item has no field in which clients give such things back, so a reasoning item before it carries them.
        """
        item = self._calls.get(index)
        if item is None:
            tool = self._asked.names.by_offered.get(name or "") or ClientTool(Kind.FUNCTION, name or "")
            if not call_id or call_id in self._call_ids:
                call_id = new_call_id()  # clients tell calls apart by it
            self._call_ids.add(call_id)
            if extra and self._asked.encrypted:
                self._thought().signed.calls[call_id] = extra
            made = call_item(self._events, len(self._items), self._mark, tool=tool, call_id=call_id)
            item = self._calls[index] = self._next(made)
        self._written = item
        if item.raw is None:
            item.write(arguments)
            if item is not self._items[-1] and item.is_over:
                item.close("completed")
                self._go_on()
        elif arguments.strip():
            raise ToolCallError("upstream_error", "The backend went on with a call that was complete.")

    @property
    def frame(self) -> Frame | None:
        """What more of the same becomes; None where it waits, or where that depends on what has come."""
        item = self._written
        return None if item is None or item is not self._told or self._waiting else item.frame

    # -- how it ends -----------------------------------------------------------------------------------------------

    def finish(self, reason: str) -> None:
        """The model has stopped: what is open is done, or cut.

        Text is cut where it is the last that was said, unless a call before it is: the answer was cut in that one.
        """
        self.finish_reason = reason
        cut, still_open = reason in _CUT, self._still_open
        in_a_call = any(isinstance(item, CallItem) and not item.is_whole for item in still_open)
        for item in still_open:
            is_whole = item.is_whole if isinstance(item, CallItem) else in_a_call
            item.close("incomplete" if cut and not is_whole else "completed")
        self._go_on()

    def complete(self) -> dict[str, Any]:
        """The last event; the whole response."""
        cut = _CUT.get(self.finish_reason or "")
        if cut is None and all(isinstance(item, ReasoningItem) for item in self._items):
            # Several clients cannot do without any output.
            self.say("")
            self.finish("stop")
        response = self._response("completed" if cut is None else "incomplete")
        response["incomplete_details"] = None if cut is None else {"reason": cut}
        response["usage"] = self.usage or response_usage(None)
        response = self._extension.beside(response)
        self.ended = True
        self._events.emit(f"response.{response['status']}", {"response": response})
        return response

    def fail(self, error: ToolCallError, code: str | None = None) -> None:
        """The last event of an answer that broke off."""
        if not self.begun:
            self.begin()
        for item in self._still_open:
            item.abandon()
        response = self._response("failed")
        response["error"] = {"code": code or failed_code(error), "message": error.message}
        if self.usage is not None:
            response["usage"] = self.usage
        self.ended = True
        self._events.emit("response.failed", {"response": response})

    # -- parts -----------------------------------------------------------------------------------------------------

    def _thought(self) -> ReasoningItem:
        """The thought that goes on, or a new one."""
        item = self._going_on(ReasoningItem)
        if item is None:
            encrypted = self._asked.encrypted
            item = self._next(ReasoningItem(self._events, len(self._items), self._mark, encrypted=encrypted))
        return item

    def _going_on(self, kind: type[_ItemT]) -> _ItemT | None:
        """The last item, where it is of this kind and goes on."""
        last = self._items[-1] if self._items else None
        return last if isinstance(last, kind) and last.raw is None else None

    def _next(self, item: _ItemT) -> _ItemT:
        """The item begins: the one before is over, unless it is a call whose arguments are not complete."""
        before = self._items[-1] if self._items else None
        if before is not None and before.raw is None and (not isinstance(before, CallItem) or before.is_over):
            before.close("completed")
        self._items.append(item)
        item.wait()
        self._waiting.append(item)
        item.open()
        self._go_on()
        return item

    def _go_on(self) -> None:
        """The items whose turn has come are told."""
        while self._waiting and (self._told is None or self._told.raw is not None):
            self._told = self._waiting.popleft()
            self._told.tell(self._events)

    @property
    def _still_open(self) -> list[Item]:
        return [item for item in (self._told, *self._waiting) if item is not None and item.raw is None]

    def _response(self, status: str) -> dict[str, Any]:
        running = status == "in_progress"
        return {
            "id": f"resp_{self._mark}",
            "object": "response",
            "created_at": self._created,
            "completed_at": int(time.time()) if status == "completed" else None,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "model": self._model,
            "output": [] if running else [item.raw for item in self._items if item.raw is not None],
            **self._asked.echo,
            "usage": None,
        }


def response_usage(usage: Usage | None) -> dict[str, Any]:
    """The usage of a chat completion in the words of Responses. What was not counted is 0: clients add it up."""
    usage = usage or Usage()
    prompt, completion = _count(usage.prompt_tokens), _count(usage.completion_tokens)
    read, written = usage.prompt_tokens_details, usage.completion_tokens_details
    return {
        "input_tokens": prompt,
        "input_tokens_details": {"cached_tokens": _detail(read, "cached_tokens"), "cache_write_tokens": 0},
        "output_tokens": completion,
        "output_tokens_details": {"reasoning_tokens": _detail(written, "reasoning_tokens")},
        "total_tokens": _count(usage.total_tokens) or prompt + completion,
    }


class Usage(msgspec.Struct, gc=False):
    """The usage of a chat completion, as backends write it."""

    prompt_tokens: Any = 0
    completion_tokens: Any = 0
    total_tokens: Any = 0
    prompt_tokens_details: Any = None
    completion_tokens_details: Any = None


def _count(value: Any) -> int:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and value > 0 else 0


def _detail(details: Any, name: str) -> int:
    return _count(details.get(name)) if isinstance(details, dict) else 0
