"""The answer of Anthropic's Messages: steps in, events or one whole message out. An `AnswerWriter`.

message_start, ping, (content_block_start, content_block_delta …, content_block_stop) …, message_delta, message_stop
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from ....answer.operations import (
    Alive,
    Arguments,
    CallClosed,
    CallOpened,
    Content,
    Finished,
    Image,
    Opened,
    ReasoningText,
    Refusal,
    Step,
)
from ....errors import ToolCallError, is_ours
from ....model import DEFERRED_FIELD
from ....wire import openai
from ....wire.openai import new_call_id
from ...context_errors import context_fault
from ...face import FaceReply
from ...serial import BlockWriter, Kind, WholePairs, tokens_of
from .request import MOST_CARRIED, Asked, write_signature

_log = logging.getLogger("toolcall_middleware")

PING = b'event: ping\ndata: {"type":"ping"}\n\n'
_BYTES_A_TOKEN = 4
_WHERE_OTHER = "arguments"
"""The field for arguments that are not an object. The model sees its text there when the call is sent back."""
REASONS = {"length": "max_tokens", "content_filter": "refusal", "model_length": "model_context_window_exceeded"}
"""`model_length` is Mistral's word for a context that is full."""
_ID = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_encode = msgspec.json.encode
_END = b"}}\n\n"
_DELTAS = {
    Kind.TEXT: (b"text_delta", b"text"),
    Kind.THOUGHT: (b"thinking_delta", b"thinking"),
    Kind.CALL: (b"input_json_delta", b"partial_json"),
}


def _size(text: str) -> int:
    """How many bytes a text has as JSON, without its quotes."""
    return len(openai.encode(text)) - 2


def event(name: str, fields: dict[str, Any]) -> bytes:
    """One event; its data has the name as `type`."""
    return b"event: %b\ndata: %b\n\n" % (name.encode(), openai.encode({"type": name, **fields}))


class MessageWriter(BlockWriter):
    """Writes the answer to one request. asked: the request. See `AnswerWriter`.

    Rules of the wire that it keeps: one block at a time; no block of text that is blank; ids are unique and of
    `[a-zA-Z0-9_-]`; a call's input is an object.
    """

    def __init__(self, asked: Asked, message_id: str, errors: Errors) -> None:
        super().__init__(blanks=False)
        self.asked = asked
        self._id = message_id
        self.errors = errors
        self.content: list[dict[str, Any]] = []
        self.spelled: dict[str, Mapping[str, Any]] = {}  # by id: a call's own block of the upstream, whose fields stay
        self._taken = set(asked.talk.call_ids)
        self._pieces: list[str] = []  # of the open block
        self._before = b""  # a delta of the open block, up to its text
        self._is_object: bool | None = None  # the open call's arguments; None while they are white space only
        self._pairs: WholePairs | None = None  # of the open call's arguments
        self._size = 0
        self._refused = False

    # -- the whole answer ------------------------------------------------------------------------------------------

    def begin(self) -> None:
        if self.begun:
            return
        self.begun = True
        usage = usage_of(None, input_estimate=self.asked.estimate, output_estimate=1)
        message = {**self._head(), "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        self._out += (event("message_start", {"message": message}), PING)

    def say(self, op: Content | Arguments, /) -> bytes:
        text = op.text
        if type(op) is self._plain and (self._pairs is None or "\\" not in text):
            written = _encode(text) if text.isascii() else openai.encode(text)
            self._size += len(written) - 2
            self._pieces.append(text)
            return self._before + written + _END
        self.take(op)
        return self.leaving()

    def take(self, step: Step, /) -> None:
        kind = type(step)
        match step:
            case _ if self.over:
                return
            case Opened():
                self.begin()
            case Alive():
                self.alive()
            case Finished():
                self._finished = step
                self._remarks |= step.remarks
            case ReasoningText(text):
                self._size += _size(text)
                if self.asked.thinking.wanted and text:
                    self._block(step)
            case Content(text) | Refusal(text):
                self._size += _size(text)
                self._refused |= kind is Refusal
                if text:
                    self._block(step)
            case Arguments() | CallOpened() | CallClosed():
                self._size += _size(getattr(step, "text", ""))
                self._block(step)
            case Image():
                self.dropped_images += 1
                _log.warning("messages: an image of the answer is left out, because the API has no block for it")
            case _:
                pass  # signed thoughts are of other APIs
        self._plain = self._plain_delta()

    def _end(self, finished: Finished, usage: Any) -> dict[str, Any]:
        self._finish_blocks(complete=True)
        asked = self.asked
        reason, sequence = stop_of(
            finished.reason, calls=self.calls, refused=self._refused, matched=finished.matched, stops=asked.stops
        )
        counts = usage_of(usage, input_estimate=asked.estimate, output_estimate=self._size // _BYTES_A_TOKEN)
        delta = {"stop_reason": reason, "stop_sequence": sequence}
        last = {"type": "message_delta", "delta": delta, "usage": counts}
        self._out += (event("message_delta", {**self._remarks, **last}), event("message_stop", {}))
        return {**self._head(), "content": self.content, **delta, "usage": counts}

    def fail(self, error: ToolCallError, /) -> None:
        if not self.over:
            self.over, self._plain = True, None
            self._out.append(self.errors.event(error))

    def alive(self) -> None:
        if self.begun and not self.over:
            self._out.append(PING)

    @property
    def is_in_call(self) -> bool:
        """Whether the open block is of a call whose arguments may go on."""
        return self.call is not None

    def close_block(self) -> None:
        """End the open block. The next step begins another."""
        self._finish_blocks(complete=True)
        self._plain = None

    def place(self, block: Any) -> int:
        """Return the index of a block that another writer writes. No block is open."""
        self.content.append(block)
        return len(self.content) - 1

    def go_on(self, call: int) -> None:
        """Write the rest of a call that another writer began. call: its index."""
        self.kind, self.call = Kind.CALL, call
        self.content[-1] = {**self.content[-1]}
        self._begin_deltas()
        self._pairs, self._is_object = WholePairs(), True

    def _head(self) -> dict[str, Any]:
        return {"id": self._id, "type": "message", "role": "assistant", "model": self.asked.model}

    # -- blocks ---------------------------------------------------------------------------------------------------

    def _open(self, kind: Kind, call: CallOpened | None) -> None:
        self._pieces, self._pairs, self._is_object = [], None, None
        match kind:
            case Kind.TEXT:
                block: dict[str, Any] = {"type": "text", "text": ""}
            case Kind.THOUGHT:
                block = {"type": "thinking", "thinking": "", "signature": ""}
            case Kind.CALL:
                assert call is not None  # noqa: S101 - a block of a call has one
                own = self.spelled.get(call.id, {})
                block = {**own, "type": "tool_use", "id": self._safe_id(call.id), "name": call.name, "input": {}}
                self._pairs = WholePairs()
        self._out.append(event("content_block_start", {"index": len(self.content), "content_block": block}))
        self.content.append(block)
        self._begin_deltas()

    def _begin_deltas(self) -> None:
        self._before = (
            b'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"%b","%b":'
            % (len(self.content) - 1, *_DELTAS[self.kind or Kind.TEXT])
        )

    def _add(self, step: Step) -> None:
        text: str = step.text  # type: ignore[union-attr]
        if self._pairs is None:
            self._pieces.append(text)
            if not (self.kind is Kind.THOUGHT and self.asked.thinking.omitted):
                self._delta(text)
            return
        self._pieces.append(text)
        if self._is_object is None and (begun := text.lstrip()):
            self._is_object = begun.startswith("{")
            text = "".join(self._pieces)  # with the white space before it
        if self._is_object:
            self._delta(self._pairs.feed(text))

    def _close(self, *, complete: bool) -> None:  # noqa: ARG002 - a block does not say so here
        block, text = self.content[-1], "".join(self._pieces)
        match block["type"]:
            case "text":
                block["text"] = text
            case "thinking":
                omitted = self.asked.thinking.omitted
                carried = text if omitted and len(text) <= MOST_CARRIED else None
                block["thinking"], block["signature"] = "" if omitted else text, write_signature(carried)
                self._event_delta({"type": "signature_delta", "signature": block["signature"]})
            case _:
                written = as_input(text)
                block["input"] = msgspec.Raw(written)
                if self._is_object is False:
                    self._delta(written.decode())
                elif self._pairs is not None:
                    self._delta(self._pairs.finish())
        self._out.append(event("content_block_stop", {"index": len(self.content) - 1}))

    def _delta(self, text: str) -> None:
        if text:
            self._out += (self._before, openai.encode(text), _END)

    def _event_delta(self, delta: dict[str, Any]) -> None:
        self._out.append(event("content_block_delta", {"index": len(self.content) - 1, "delta": delta}))

    def _plain_delta(self) -> type | None:
        """The type of step that is a delta of the open block; for arguments only those without a backslash."""
        if self.kind is Kind.TEXT and self.call is None:
            return Content
        if self.call is not None and self._is_object and self._pairs is not None and not self._pairs.holds:
            return Arguments
        return None

    def _safe_id(self, call_id: str) -> str:
        """The id, or a new one if it is not valid in this API or belongs to another call."""
        if not _ID.fullmatch(call_id) or call_id in self._taken:
            call_id = new_call_id()
        self._taken.add(call_id)
        return call_id


def usage_of(usage: Any, *, input_estimate: int, output_estimate: int) -> dict[str, Any]:
    """The `usage` object. If the chat answer has none, both numbers are estimates, because clients require them."""
    tokens = tokens_of(usage)
    cached = min(tokens.cached, tokens.prompt or 0)
    made: dict[str, Any] = {
        "input_tokens": input_estimate if tokens.prompt is None else tokens.prompt - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": output_estimate if tokens.written is None else tokens.written,
    }
    if tokens.thought:
        made["output_tokens_details"] = {"thinking_tokens": min(tokens.thought, made["output_tokens"])}
    return made


def stop_of(reason: str, *, calls: int, refused: bool, matched: Any, stops: Sequence[str]) -> tuple[str, str | None]:
    """`stop_reason` and `stop_sequence` for a chat answer's `finish_reason`.

    calls: how many calls it has. refused: it holds a refusal. matched: what the backend says ended it; a string if
    it was a stop string (vLLM's `stop_reason`, SGLang's `matched_stop`).
    """
    if reason in REASONS:
        return REASONS[reason], None
    if calls:
        return "tool_use", None
    if refused:
        return "refusal", None
    if isinstance(matched, str) and matched in stops:
        return "stop_sequence", matched
    return "end_turn", None


def as_input(text: str) -> bytes:
    """A call's arguments as the JSON of an object: unchanged if they are one, else an object that holds them.

    Truncated arguments are not closed to look complete; they are held as a string.
    """
    if not text.strip():
        return b"{}"
    data = text.encode("utf-8", "backslashreplace")  # a lone surrogate stays an escape
    value = openai.read_value(data)
    if isinstance(value, dict):
        return openai.without_constants(data)
    if value is None:
        return b"{}" if text.strip() == "null" else openai.encode({_WHERE_OTHER: text})
    return openai.encode({_WHERE_OTHER: msgspec.Raw(openai.without_constants(data))})


# -- errors ------------------------------------------------------------------------------------------------------------
# `{"type": "error", "error": {"type", "message"}, "request_id"}`. Clients go by the status and the type. A fault of the
# model is a 500 with `x-should-retry: false`: Claude Code asks six times after a 400 or 422, and once after that.


_TYPES = {
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_HEADER_NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")
_HEADER = re.compile(r"[\x20-\x7e]{0,1000}")
_PLACE = re.compile(rf"(messages|tools|{DEFERRED_FIELD})\[(\d{{1,9}})\](.*)", re.DOTALL)
_STEP = re.compile(r"\[(\d+)\]")
_NAMES = {
    "stop": "stop_sequences",
    "response_format": "output_config.format",
    "reasoning_effort": "output_config.effort",
    "stream_options": "stream",
    "parallel_tool_calls": "tool_choice.disable_parallel_tool_use",
    "max_completion_tokens": "max_tokens",
}
JSON = (b"content-type", b"application/json")


class Errors:
    """Writes the errors of one request.

    paths: where the client has each item of a list of the chat completion (`messages`, `tools`, `DEFERRED_FIELD`).
    """

    def __init__(self, request_id: str) -> None:
        self._request_id = request_id
        self.paths: Mapping[str, Sequence[str]] = {}

    def reply(self, error: ToolCallError) -> FaceReply:
        """The error as an HTTP answer."""
        status, kind, message = self._in_anthropic_terms(error)
        headers = {name.lower(): value for name, value in error.headers.items()}
        headers.pop("content-type", None)
        if status != error.status and status >= 500:
            headers["x-should-retry"] = "false"  # the fault is not a server's: a retry changes nothing
        if is_ours(error.code):
            headers["x-toolcall-error"] = str(error.code)
        named = tuple(
            (name.encode("ascii"), value.encode("ascii")) for name, value in headers.items() if _sendable(name, value)
        )
        body = self._body(kind, message, error)
        return FaceReply(status=status, body=body, headers=(JSON, (b"request-id", self._request_id.encode()), *named))

    def event(self, error: ToolCallError) -> bytes:
        """The error as the last event of a stream that has begun."""
        _, kind, message = self._in_anthropic_terms(error)
        return b"event: error\ndata: " + self._body(kind, message, error) + b"\n\n"

    def _body(self, kind: str, message: str, error: ToolCallError) -> bytes:
        fields: dict[str, Any] = {"type": kind, "message": message}
        if isinstance(error.extra.get("details"), dict):
            fields["details"] = error.extra["details"]
        return openai.encode({"type": "error", "error": fields, "request_id": self._request_id})

    def _in_anthropic_terms(self, error: ToolCallError) -> tuple[int, str, str]:
        """(status, type, message)."""
        if error.type == "model_error":
            return 500, "api_error", error.message
        fault = context_fault(error)
        if fault is not None:
            return 400, "invalid_request_error", fault.message(error.message)
        status, message = error.status, self._placed(error)
        if status == 404 and not _is_of_model(error):
            # Claude Code takes every 404 for a wrong model name.
            status = 502
        kind = _TYPES.get(status) or ("invalid_request_error" if status < 500 else "api_error")
        return status, kind, message

    def _placed(self, error: ToolCallError) -> str:
        """The message with the path of its field as a prefix, as the API writes them."""
        path = self.path_of(error.param) if error.param else ""
        return f"{path}: {error.message}" if path and not error.message.startswith(path) else error.message

    def path_of(self, param: str) -> str:
        """The client's path for a `param` of the chat completion; any other path is returned unchanged."""
        found = _PLACE.match(param)
        if found is None:
            head, dot, rest = param.partition(".")
            return _NAMES.get(head, f"{head}{dot}{rest}" if head == param or head.isidentifier() else param)
        paths = self.paths.get(found[1], ())
        number, rest = int(found[2]), found[3]
        if number >= len(paths):
            return found[1] if found[1] == "messages" else "tools"
        if found[1] == "messages":
            return paths[number]
        rest = rest.removeprefix(".function").replace(".parameters", ".input_schema", 1)
        return paths[number] + _STEP.sub(r".\1", rest)


def is_error(body: bytes) -> bool:
    """Whether the JSON is an error as this API writes them."""
    value = openai.error_value(body)
    return isinstance(value, dict) and value.get("type") == "error" and isinstance(value.get("error"), dict)


def _is_of_model(error: ToolCallError) -> bool:
    return error.code == "model_not_found" or "model" in error.message.lower()


def _sendable(name: str, value: str) -> bool:
    return bool(_HEADER_NAME.fullmatch(name)) and bool(_HEADER.fullmatch(value))
