"""OpenAI's Responses as a client speaks it: `POST …/v1/responses`, stateless. The request is read in request.py.

The answer: steps in, events or one whole response out (`ResponseWriter`).

    response.created, response.in_progress, (output_item.added, … deltas …, … done, output_item.done) …,
    response.completed | response.incomplete | response.failed

Each event has its `sequence_number`. An item is encoded once, when it is done, and is in the last event as it is.
"""

from __future__ import annotations

import logging
import math
import re
import secrets
import time
from typing import Any

import msgspec

from ...answer.operations import (
    Alive,
    Arguments,
    CallOpened,
    Content,
    Finished,
    Image,
    Opened,
    ReasoningText,
    Refusal,
    Signed,
    Step,
)
from ...errors import ToolCallError, is_ours
from ...parsing.calls.call_arguments import FirstString
from ...wire.openai import free_text, new_call_id
from ..context_errors import CONTEXT, is_context_error
from ..face import Face, FaceReply, FaceRequest
from ..serial import BlockWriter, tokens_of, whole_text
from ..serial import Kind as Block
from .request import Asked, Carried, read_request, write_carried
from .tools import ClientTool, Kind, call_fields

_encode = msgspec.json.encode
_DELTA = b'%b%d,"delta":%b}\n\n'
_DATA_URL = re.compile(r"data:[^,]{0,100};base64,(.*)", re.DOTALL)
_log = logging.getLogger("toolcall_middleware")
_PIECE = 64  # bytes that a kept piece of text takes besides its characters, about
_CUT = {
    "length": "max_output_tokens",
    "model_length": "max_output_tokens",  # Mistral's word for a context that is full
    "content_filter": "content_filter",
}
"""What cuts an answer short, as `incomplete_details` has it."""
_PARTS: dict[type, tuple[str, str, dict[str, Any]]] = {
    Content: ("response.output_text", "text", {"logprobs": []}),
    Refusal: ("response.refusal", "refusal", {}),
    ReasoningText: ("response.reasoning_text", "text", {}),
}
"""A part of a message's or a thought's content: how its events begin, the field of its text, and their other fields."""


class ResponseWriter(BlockWriter):
    """Writes the answer to one request. asked: the request. mark: what is random in the ids. See `AnswerWriter`.

    max_kept: bytes of the answer, all of which is kept for the last event; None where that is not bounded.
    """

    def __init__(self, asked: Asked, mark: str, max_kept: int | None = None) -> None:
        super().__init__(blanks=True)
        self.asked = asked
        self.mark = mark
        self._max_kept = max_kept
        self._left = math.inf if max_kept is None else max_kept
        self._number = 0
        self._items: list[msgspec.Raw] = []
        self._item = _Item(self, 0)  # the open one
        self._call_ids: set[str] = set()
        self._model = asked.model
        self._created = 0
        self._cut_in_call = False
        self._abandoned = False  # the answer has failed: no more events of its items

    # -- the whole answer ------------------------------------------------------------------------------------------

    def begin(self) -> None:
        self._begin(Opened())

    def say(self, op: Content | Arguments, /) -> bytes:
        text = op.text
        if type(op) is self._plain and text.isascii() and self._left > (size := len(text) + _PIECE):
            self._left -= size
            item, number = self._item, self._number
            self._number = number + 1
            item.pieces.append(text)
            return _DELTA % (item.head, number, _encode(text))
        self.take(op)
        return self.leaving()

    def take(self, step: Step, /) -> None:
        if self.over:
            return
        self._left -= len(step.url if isinstance(step, Image) else getattr(step, "text", "")) + _PIECE
        if self._left < 0:
            raise ToolCallError("upstream_error", f"The answer exceeds max_response_bytes ({self._max_kept}).")
        match step:
            case Opened():
                self._begin(step)
            case Alive():
                pass
            case Finished():
                self._finished = step
                self._remarks |= step.remarks
                self._finish_blocks(complete=step.reason not in _CUT)
            case Signed() if not self.asked.encrypted:
                pass
            case Image(url) if _DATA_URL.match(url) is None:
                self.dropped_images += 1
                _log.warning("responses: an image of the answer is left out, because it is an address and no data")
            case CallOpened(index, call_id, name, _, extra):
                call_id, name = whole_text(call_id), whole_text(name)
                if not call_id or call_id in self._call_ids:
                    call_id = new_call_id()  # clients distinguish calls by it
                self._call_ids.add(call_id)
                given = (extra or {}).get("extra_content")
                if isinstance(given, dict) and self.asked.encrypted:
                    # A call's item has no field in which clients give a signature back: an item before it carries it.
                    self._block(Signed([{call_id: given}]))
                self._block(CallOpened(index, call_id, name))
            case Content(text) | Refusal(text) | ReasoningText(text) if not text:
                pass
            case _:
                self._block(step)
        self._plain = self._item.plain if (self.kind is Block.CALL) is (self.call is not None) else None

    def _end(self, finished: Finished, usage: Any) -> dict[str, Any]:
        cut = _CUT.get(finished.reason)
        if cut is None and not self._item.said:
            self._block(Content(""))  # several clients fail without any output
            self._finish_blocks(complete=True)
        response = self._response("completed" if cut is None else "incomplete")
        response["incomplete_details"] = None if cut is None else {"reason": cut}
        response["usage"] = _usage(usage)
        response |= {name: said for name, said in self._remarks.items() if name not in response}
        self.emit(f"response.{response['status']}", {"response": response})
        return response

    def fail(self, error: ToolCallError, /) -> None:
        if self.over:
            return
        self.begin()
        self.over, self._plain = True, None
        self._abandoned = True
        self._finish_blocks(complete=False)  # the text so far is in the output; no event says that it is done
        self._abandoned = False
        response = self._response("failed")
        response["error"] = {"code": failed_code(error), "message": whole_text(error.message)}
        self.emit("response.failed", {"response": response})

    def alive(self) -> None:
        if self.begun and not self.over:
            self.emit("response.in_progress", {"response": self._response("in_progress")})

    def _begin(self, opened: Opened) -> None:
        if self.begun:
            return
        self.begun = True
        self._model = opened.model or self.asked.model
        self._created = opened.created or int(time.time())
        self.emit("response.created", {"response": self._response("in_progress")})
        self.emit("response.in_progress", {"response": self._response("in_progress")})

    def _response(self, status: str) -> dict[str, Any]:
        return {
            "id": f"resp_{self.mark}",
            "object": "response",
            "created_at": self._created,
            "completed_at": int(time.time()) if status == "completed" else None,
            "status": status,
            "error": None,
            "incomplete_details": None,
            "model": self._model,
            "output": [] if status == "in_progress" else self._items,
            **self.asked.echo,
            "usage": None,
        }

    # -- items ----------------------------------------------------------------------------------------------------

    def _open(self, kind: Block, call: CallOpened | None) -> None:
        index, said = len(self._items), self._item.said
        match kind:
            case Block.TEXT:
                self._item = (_Compaction if self.asked.compacts else _Text)(self, index)
            case Block.THOUGHT:
                self._item = _Thought(self, index)
                self._item.said = said
            case Block.IMAGE:
                self._item = _Drawn(self, index)
            case Block.CALL:
                assert call is not None  # noqa: S101 - a block of a call has one
                tool = self.asked.tools.by_name.get(call.name) or ClientTool(Kind.FUNCTION, call.name)
                made = {Kind.FUNCTION: _FunctionCall, Kind.CUSTOM: _CustomCall}.get(tool.kind, _LocalCall)
                self._item = made(self, index, tool=tool, call_id=call.id)
        self.emit("response.output_item.added", {"output_index": index, "item": self._item.fields("in_progress")})

    def _add(self, step: Step) -> None:
        self._item.add(step)

    def _close(self, *, complete: bool) -> None:
        """End the open item. A call with all of its content is complete, also in an answer that was cut later."""
        item = self._item
        if item.is_call:
            if item.whole is not None and self._finished is not None:
                complete = item.whole
            cut = self._finished is None or self._finished.reason in _CUT
            self._cut_in_call |= cut and not complete
        else:  # only the last text is cut, unless the answer was cut in a call before it
            cut = self._finished is not None and self._finished.reason in _CUT and not self._cut_in_call
        status = "incomplete" if cut and not complete else "completed"
        done = status == "completed" or item.done_when_cut
        if self._abandoned:
            status, done = "incomplete", False
        if done:
            item.ending()
        raw = msgspec.Raw(_encode(item.fields(status)))
        self._items.append(raw)
        if done:
            self.emit("response.output_item.done", {"output_index": item.index, "item": raw})

    # -- events ----------------------------------------------------------------------------------------------------

    def emit(self, name: str, fields: dict[str, Any]) -> None:
        """Emit an event of this type, with its number and these fields."""
        if self._abandoned:
            return
        data = _encode({"type": name, "sequence_number": self._number, **fields})
        self._number += 1
        self._out.append(b"event: %b\ndata: %b\n\n" % (name.encode(), data))

    def delta(self, head: bytes, text: str) -> None:
        """Emit an event for a piece of text, fast, as an answer has thousands. head: see `_delta_head`."""
        if self._abandoned:
            return
        self._out.append(_DELTA % (head, self._number, _encode(text)))
        self._number += 1


def _delta_head(name: str, fields: dict[str, Any]) -> bytes:
    """The part of an event that is the same for all pieces of a text: its bytes up to the number."""
    return b'event: %b\ndata: %b,"sequence_number":' % (name.encode(), _encode({"type": name, **fields})[:-1])


def _part(kind: type, text: str) -> dict[str, Any]:
    name, field, _ = _PARTS[kind]
    more: dict[str, Any] = {"annotations": [], "logprobs": []} if kind is Content else {}
    return {"type": name.removeprefix("response."), field: text, **more}


_QUOTA = "insufficient_quota"


def failed_code(error: ToolCallError) -> str:
    """The code of `response.failed`, for an error within a stream."""
    if is_context_error(error):
        return CONTEXT
    if error.code == _QUOTA or error.type == _QUOTA:
        return _QUOTA
    if error.type == "model_error":
        return "invalid_prompt"
    match error.status:
        case 429:
            return "rate_limit_exceeded"
        case 503:
            return "server_is_overloaded"
        case status if status < 500 and status != 408:
            return "invalid_prompt"  # the same request would be refused again
    return "server_error"


def _usage(usage: Any) -> dict[str, Any]:
    """The usage of a chat completion in the terms of Responses. Missing counts are 0, because clients add them up."""
    tokens = tokens_of(usage)
    return {
        "input_tokens": tokens.prompt or 0,
        "input_tokens_details": {"cached_tokens": tokens.cached, "cache_write_tokens": 0},
        "output_tokens": tokens.written or 0,
        "output_tokens_details": {"reasoning_tokens": tokens.thought},
        "total_tokens": tokens.total,
    }


class _Item:
    """One item of the output. said: whether the answer has any but thoughts. plain: see `ResponseWriter`."""

    prefix = ""
    done_when_cut = True
    said = False
    is_call = False
    whole: bool | None = None
    """Whether the item is complete; None if the end of the call's arguments decides that."""

    def __init__(self, writer: ResponseWriter, index: int) -> None:
        self._writer = writer
        self.index = index
        self._id = f"{self.prefix}_{writer.mark}{index:08x}"
        self._place = {"item_id": self._id, "output_index": index}
        self.pieces: list[str] = []
        self.head = b""
        self.plain: type | None = None

    def fields(self, status: str) -> dict[str, Any]:
        """The fields of the item so far."""
        raise NotImplementedError

    def add(self, step: Step) -> None:
        """Add a step to the item."""
        raise NotImplementedError

    def more(self, text: str) -> None:
        """Add a piece of the item's text."""
        text = text if text.isascii() else whole_text(text)
        self.pieces.append(text)
        self._writer.delta(self.head, text)

    def ending(self) -> None:
        """The events before `output_item.done`."""


class _Text(_Item):
    """A message: text, or a refusal, each a part of its content."""

    prefix = "msg"
    said = True

    def __init__(self, writer: ResponseWriter, index: int) -> None:
        super().__init__(writer, index)
        self._parts: list[dict[str, Any]] = []
        self._kind: type | None = None  # of the open part
        self._part: dict[str, Any] = {}

    @property
    def _content(self) -> list[dict[str, Any]]:
        return [*self._parts, *([_part(self._kind, "".join(self.pieces))] if self._kind else [])]

    def fields(self, status: str) -> dict[str, Any]:
        return {"type": "message", "id": self._id, "status": status, "role": "assistant", "content": self._content}

    def add(self, step: Step) -> None:
        kind = type(step)
        if kind is not self._kind:
            self.ending()
            self._kind = self.plain = kind
            name, _, more = _PARTS[kind]
            self._part = {**self._place, "content_index": len(self._parts)}
            self.head = _delta_head(f"{name}.delta", {**self._part, **more})
            self._writer.emit("response.content_part.added", {**self._part, "part": _part(kind, "")})
        if step.text:  # type: ignore[union-attr]
            self.more(step.text)  # type: ignore[union-attr]

    def ending(self) -> None:
        if self._kind is None:
            return
        name, field, more = _PARTS[self._kind]
        text = "".join(self.pieces)
        part = _part(self._kind, text)
        self._writer.emit(f"{name}.done", {**self._part, field: text, **more})
        self._writer.emit("response.content_part.done", {**self._part, "part": part})
        self._parts.append(part)
        self.pieces, self._kind = [], None


class _Thought(_Text):
    """A thought, and what an upstream signed of it."""

    prefix = "rs"
    said = False

    def __init__(self, writer: ResponseWriter, index: int) -> None:
        super().__init__(writer, index)
        self._signed = Carried()

    def fields(self, status: str) -> dict[str, Any]:
        content = self._content
        item = {"type": "reasoning", "id": self._id, "status": status, "summary": [], "content": content}
        carried = msgspec.structs.replace(self._signed, text="".join(part["text"] for part in content))
        if self._writer.asked.encrypted and carried:
            item["encrypted_content"] = write_carried(carried)
        return item

    def add(self, step: Step) -> None:
        if type(step) is not Signed:
            super().add(step)
            return
        for detail in step.details:
            # A call's signature comes under its id (`ResponseWriter.take`): no detail of a thought is like that.
            (key, value), *others = detail.items() if detail else [("", None)]
            if not others and isinstance(value, dict) and key.startswith("call_"):
                self._signed.calls[key] = value
            else:
                self._signed.details.append(detail)


class _Compaction(_Item):
    """A summary of the conversation, which the client sends back in place of it."""

    prefix = "cmp"
    said = True

    def fields(self, status: str) -> dict[str, Any]:  # noqa: ARG002 - this item has no status
        summary = Carried("".join(self.pieces))
        return {"type": "compaction", "id": self._id, "encrypted_content": write_carried(summary)}

    def add(self, step: Step) -> None:
        if isinstance(step, (Content, Refusal)):
            self.pieces.append(whole_text(step.text))


class _Drawn(_Item):
    """An image."""

    prefix = "ig"
    said = True

    def fields(self, status: str) -> dict[str, Any]:
        result = "".join(self.pieces)
        status = "completed" if result else status
        return {"type": "image_generation_call", "id": self._id, "status": status, "result": result or None}

    def add(self, step: Step) -> None:
        found = _DATA_URL.match(step.url)  # type: ignore[union-attr]
        self.pieces.append(found[1] if found else "")

    def ending(self) -> None:
        self._writer.emit("response.image_generation_call.completed", self._place)


class _FunctionCall(_Item):
    """A call of a function. event: how its events begin. field: of its item and of the last event."""

    prefix = "fc"
    said = is_call = True
    event = "response.function_call_arguments"
    field = "arguments"

    def __init__(self, writer: ResponseWriter, index: int, *, tool: ClientTool, call_id: str) -> None:
        super().__init__(writer, index)
        self._tool = tool
        self._call_id = call_id
        self.head = _delta_head(f"{self.event}.delta", self._place)
        self.plain = Arguments if tool.kind is Kind.FUNCTION else None

    def fields(self, status: str) -> dict[str, Any]:
        tool = self._tool
        shown = "in_progress" if tool.kind is Kind.APPLY_PATCH and status == "incomplete" else status  # no other word
        item = {"type": tool.kind.item_type, "id": self._id, "status": shown, "call_id": self._call_id}
        if tool.kind.has_names:
            item["name"] = tool.name
            if tool.namespace is not None:
                item["namespace"] = tool.namespace
        return {**item, **self._said(status)}

    def _said(self, status: str) -> dict[str, Any]:  # noqa: ARG002 - for local calls
        return {self.field: "".join(self.pieces)}

    def add(self, step: Step) -> None:
        self.more(step.text)  # type: ignore[union-attr]

    def ending(self) -> None:
        name = {"name": self._tool.name} if self._tool.kind is Kind.FUNCTION else {}
        self._writer.emit(f"{self.event}.done", {**self._place, **name, self.field: "".join(self.pieces)})


class _CustomCall(_FunctionCall):
    """A call of a custom tool, whose input is free text.

    One that is cut off never gets the events that say it is done: nothing in a text says that its end is missing, and
    clients run what is done, whatever its status.
    """

    prefix = "ctc"
    event = "response.custom_tool_call_input"
    field = "input"
    done_when_cut = False

    def __init__(self, writer: ResponseWriter, index: int, *, tool: ClientTool, call_id: str) -> None:
        super().__init__(writer, index, tool=tool, call_id=call_id)
        self._input = FreeformInput()
        self.whole = False

    def add(self, step: Step) -> None:
        if text := self._input.feed(step.text):  # type: ignore[union-attr]
            self.more(text)
        self.whole = self._input.ended

    def ending(self) -> None:
        if text := self._input.finish():
            self.more(text)
        super().ending()


class _LocalCall(_FunctionCall):
    """A call whose item holds fields made of the arguments, which are known when the arguments are complete."""

    prefix = "lc"
    done_when_cut = False

    def _said(self, status: str) -> dict[str, Any]:
        return call_fields(self._tool.kind, "".join(self.pieces) if status == "completed" else "{}")

    def add(self, step: Step) -> None:
        self.pieces.append(whole_text(step.text))  # type: ignore[union-attr]

    def ending(self) -> None:
        """Emit nothing: the item has no events for its parts."""


# -- the input of a custom tool, out of the arguments `{"input": "…"}` that the model writes ---------------------------


class FreeformInput:
    """Takes the arguments of one custom call and returns its input. `finish` returns what `feed` held back.

    ended: the whole input is known.
    """

    __slots__ = ("_parts", "_reader", "ended")

    def __init__(self) -> None:
        self._reader = FirstString("input")
        self._parts: list[str] = []  # all arguments, until the input's text begins
        self.ended = False

    def feed(self, arguments: str) -> str:
        """Take more arguments. Return the part of the input that is certain now."""
        reader = self._reader
        text = whole_text(reader.feed(whole_text(arguments)))
        if not reader.begun:
            self._parts.append(arguments)
        self.ended = reader.ended
        return text

    def finish(self) -> str:
        """The call is over. Return the rest of its input: half an escape of one that was cut off is dropped."""
        self.ended = True
        return "" if self._reader.begun else whole_text(free_text("".join(self._parts)))


# -- the face ----------------------------------------------------------------------------------------------------------
# Errors before the stream are a status and OpenAI's envelope, in it `response.failed` with a code. The codes and
# statuses decide who tries again. Codex shows a 400 and the code `invalid_prompt` at once, and repeats nearly all else
# up to thirty times; it goes on with a compacted conversation at `context_length_exceeded`.


_MARK_BYTES = 16
_ERROR_HEADER = b"x-toolcall-error"


class ResponsesFace(Face):
    """One request and its answer (`Face`). mark: what is random in the answer's ids; new where it is not given.

    max_kept: see `ResponseWriter`; a response that is not streamed has no such limit.
    """

    api = "responses"

    def __init__(self, mark: str | None = None, *, max_kept: int | None = None) -> None:
        super().__init__()
        self._max_kept = max_kept
        self._mark = mark or secrets.token_hex(_MARK_BYTES)
        self._asked: Asked | None = None

    def request(self, body: bytes, /) -> FaceRequest:
        """The request as a chat completion. Raises ToolCallError for what the API forbids or what needs a memory."""
        request, self._asked = read_request(body)
        self.writer = ResponseWriter(self._asked, self._mark, self._max_kept if request.stream else None)
        if request.dropped_tools:
            names = ", ".join(name[:64] for name in request.dropped_tools)
            _log.warning("responses: tools that nobody here can run are left out: %s", names)
        return request

    def error(self, error: ToolCallError, /) -> FaceReply:
        """An error of our own, in OpenAI's envelope."""
        code, status = error.code, error.status
        if is_context_error(error):
            code, status = CONTEXT, 400
        elif error.type == "model_error":
            status = 400
        sent = ToolCallError(
            code,
            error.message,
            param=error.param if self._asked is None else self._asked.param(error.param),
            status=status,
            type="invalid_request_error" if code == CONTEXT else error.type,
            headers=error.headers,
            extra=error.extra,
        )
        headers = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in sent.headers.items()]
        if is_ours(error.code):
            headers.append((_ERROR_HEADER, str(error.code).encode("latin-1")))
        return FaceReply(status=sent.status, body=sent.body(), headers=tuple(headers))
