"""Answers of Messages and Responses, whole or streamed, as a client reads them: each deviation is a fault."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_STREAM_STARTS = (b"data:", b"event:", b":", b"id:", b"retry:")
_STOP_REASONS = {
    "end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length",
    "refusal": "content_filter", "model_context_window_exceeded": "length", "pause_turn": "stop",
}  # fmt: skip
_ID = re.compile(r"[a-zA-Z0-9_-]+")
_CALL_ITEMS = frozenset({"function_call", "custom_tool_call"})
_BLOCK_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}


@dataclass(slots=True)
class FaceCall:
    """A call as the client would run it."""

    id: str
    name: str
    arguments: str
    pieces: int = 1


@dataclass(slots=True)
class FaceAnswer:
    """An answer in the words of chat completions. faults: what a strict client would stumble over."""

    text: str = ""
    reasoning: str = ""
    calls: list[FaceCall] = field(default_factory=list)
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    error: str | None = None
    faults: list[str] = field(default_factory=list)
    events: int = 1


def api_of(data: bytes) -> str | None:
    """The API whose answer `data` is, whole or streamed: `messages` or `responses`; None for any other."""
    kinds = {event.get("type") for event in events_of(data)[:4]} if is_stream(data) else set()
    if any(isinstance(kind, str) and kind.startswith("response.") for kind in kinds):
        return "responses"
    if kinds & {"message_start", "content_block_start", "content_block_delta"}:
        return "messages"
    body = _object(data)
    if body.get("object") == "response":
        return "responses"
    is_error = body.get("type") == "error" and isinstance(body.get("error"), dict)
    return "messages" if body.get("type") == "message" or is_error else None


def is_stream(data: bytes) -> bool:
    """Whether the bytes are an event stream."""
    return data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(_STREAM_STARTS)


def read_answer(api: str, data: bytes) -> FaceAnswer:
    """An answer of `messages` or `responses`, whole or streamed. Never raises on what it reads."""
    reader = _Messages() if api == "messages" else _Responses()
    if not is_stream(data):
        reader.whole(_object(data))
    else:
        for event in events_of(data):
            reader.answer.events += 1
            reader.event(event)
        reader.answer.events -= 1
        if not reader.over:
            reader.fault("the stream has no end")
    reader.check_calls()
    return reader.answer


def events_of(data: bytes) -> list[dict[str, Any]]:
    """The data of each event; `name` is added, which the event's line gives."""
    found: list[dict[str, Any]] = []
    for block in data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n\n"):
        lines = block.split("\n")
        value = _object("\n".join(line[5:].lstrip() for line in lines if line.startswith("data:")))
        if value:
            name = next((line[6:].strip() for line in lines if line.startswith("event:")), "")
            found.append({**value, "name": name})
    return found


def _object(data: bytes | str) -> dict[str, Any]:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _is_object(text: str) -> bool:
    return text.lstrip().startswith("{") and (_object(text) != {} or text.strip().strip("{}").strip() == "")


class _Reader:
    """Reads one answer. over: its last event has come."""

    def __init__(self) -> None:
        self.answer = FaceAnswer()
        self.over = False

    def fault(self, what: str) -> None:
        if what not in self.answer.faults:
            self.answer.faults.append(what)

    def failed(self, error: Any) -> None:
        message = error.get("message") if isinstance(error, dict) else None
        self.answer.error = str(message or "an error without a message")

    def check_calls(self) -> None:
        """What holds for calls on every API."""
        calls = self.answer.calls
        if len({call.id for call in calls}) != len(calls):
            self.fault("ids of calls are not unique")
        for call in calls:
            if not _ID.fullmatch(call.id):
                self.fault(f"the id {call.id!r} of a call holds more than letters, digits, _ and -")
            # One that the limit cut off is a prefix of JSON.
            if self.answer.finish_reason not in {"length", None} and not _is_object(call.arguments):
                self.fault(f"the arguments of {call.name} are no JSON object")

    def whole(self, body: dict[str, Any]) -> None:
        raise NotImplementedError

    def event(self, event: dict[str, Any]) -> None:
        raise NotImplementedError

    def named(self, event: dict[str, Any]) -> str:
        """The type of an event, whose line must name it, too."""
        kind = str(event.get("type"))
        if event["name"] != kind:
            self.fault(f"the event's line says {event['name'] or 'nothing'!r} of {kind}")
        if self.over:
            self.fault(f"{kind} follows the last event")
        return kind


class _Messages(_Reader):
    def __init__(self) -> None:
        super().__init__()
        self._begun = False
        self._block: str | None = None
        self._blocks = 0
        self._usage: dict[str, Any] = {}

    def whole(self, body: dict[str, Any]) -> None:
        if body.get("type") == "error" or "content" not in body:
            self.failed(body.get("error"))
            return
        for block in _dicts(body["content"]):
            self._open(block)
            match block.get("type"):
                case "text":
                    self.answer.text += str(block.get("text") or "")
                case "thinking":
                    self.answer.reasoning += str(block.get("thinking") or "")
                case "tool_use":
                    if not isinstance(block.get("input"), dict):
                        self.fault("the input of a call is no object")
                    self.answer.calls[-1].arguments = json.dumps(block.get("input"), ensure_ascii=False)
        self._end(body, body.get("usage"))

    def event(self, event: dict[str, Any]) -> None:
        kind = self.named(event)
        if not self._begun and kind not in {"message_start", "ping", "error"}:
            self.fault("the stream does not begin with message_start")
        match kind:
            case "message_start":
                if self._begun:
                    self.fault("message_start comes again")
                self._begun = True
                self._count(event.get("message", {}).get("usage"))
            case "content_block_start":
                if self._block is not None or event.get("index") != self._blocks:
                    self.fault(f"block {event.get('index')} opens out of turn")
                block = event.get("content_block")
                block = block if isinstance(block, dict) else {}
                self._open(block)
                self._block = str(block.get("type"))
            case "content_block_delta":
                self._delta(event)
            case "content_block_stop":
                if self._block is None or event.get("index") != self._blocks:
                    self.fault(f"block {event.get('index')} closes out of turn")
                if self._block == "tool_use" and not self.answer.calls[-1].arguments:
                    self.answer.calls[-1].arguments = "{}"
                self._block = None
                self._blocks += 1
            case "message_delta":
                if self._block is not None:
                    self.fault("the message ends inside a block")
                self._end(event.get("delta"), event.get("usage"))
            case "message_stop":
                self.over = True
            case "error":
                self.over = True
                self.failed(event.get("error"))

    def _open(self, block: dict[str, Any]) -> None:
        if block.get("type") == "tool_use":
            self.answer.calls.append(FaceCall(str(block.get("id")), str(block.get("name")), "", 0))

    def _delta(self, event: dict[str, Any]) -> None:
        if self._block is None or event.get("index") != self._blocks:
            self.fault(f"a delta of block {event.get('index')}, which is not open")
        delta = event.get("delta")
        delta = delta if isinstance(delta, dict) else {}
        text = str(delta.get(_BLOCK_DELTAS.get(str(delta.get("type")), "")) or "")
        match delta.get("type"):
            case "text_delta":
                self.answer.text += text
            case "thinking_delta":
                self.answer.reasoning += text
            case "input_json_delta" if self.answer.calls:
                self.answer.calls[-1].arguments += text
                self.answer.calls[-1].pieces += bool(text)

    def _end(self, delta: Any, usage: Any) -> None:
        reason = delta.get("stop_reason") if isinstance(delta, dict) else None
        if reason not in _STOP_REASONS:
            self.fault(f"stop_reason is {reason!r}")
        if (reason == "tool_use") != bool(self.answer.calls) and reason in {"tool_use", "end_turn"}:
            self.fault(f"stop_reason is {reason} with {len(self.answer.calls)} calls")
        self.answer.finish_reason = _STOP_REASONS.get(str(reason))
        self._count(usage)
        if {"input_tokens", "output_tokens"} - self._usage.keys():
            self.fault("usage lacks numbers")
            return
        prompt = self._usage["input_tokens"] + sum(self._usage.get(f"cache_{name}_input_tokens", 0) for name in _CACHED)
        written = self._usage["output_tokens"]
        self.answer.usage = {
            "prompt_tokens": prompt, "completion_tokens": written, "total_tokens": prompt + written
        }  # fmt: skip

    def _count(self, usage: Any) -> None:
        if isinstance(usage, dict):
            self._usage |= {name: value for name, value in usage.items() if type(value) is int}


_CACHED = ("read", "creation")


class _Responses(_Reader):
    def __init__(self) -> None:
        super().__init__()
        self._number = 0
        self._open: str | None = None
        self._done: list[Any] = []
        self._loose: dict[str, FaceCall] = {}  # calls whose item is not done yet

    def whole(self, body: dict[str, Any]) -> None:
        if body.get("object") != "response":
            self.failed(body.get("error"))
            return
        for item in _dicts(body.get("output")):
            self._item(item)
        self._end(body)

    def event(self, event: dict[str, Any]) -> None:
        kind = self.named(event)
        if event.get("sequence_number") != self._number:
            self.fault(f"sequence_number is {event.get('sequence_number')!r}, not {self._number}")
        if self._number == 0 and kind != "response.created":
            self.fault("the stream does not begin with response.created")
        self._number += 1
        item = event.get("item")
        match kind:
            case "response.output_item.added" if isinstance(item, dict):
                if self._open is not None:
                    self.fault("an item is added while another is open")
                self._open = str(item.get("id"))
                if item.get("type") in _CALL_ITEMS:
                    self._loose[self._open] = FaceCall(str(item.get("call_id")), str(item.get("name")), "", 0)
            case "response.output_item.done" if isinstance(item, dict):
                if self._open != item.get("id"):
                    self.fault("an item is done that was not open")
                self._open = None
                self._done.append(item)
                self._item(item)
            case "response.completed" | "response.incomplete" | "response.failed":
                self.over = True
                self._last(event.get("response"))
            case "error":
                self.over = True
                self.failed(event)
            case _ if kind.endswith(".delta"):
                self._delta(kind, event)

    def _delta(self, kind: str, event: dict[str, Any]) -> None:
        if event.get("item_id") != self._open:
            self.fault(f"{kind} of an item that is not open")
        call = self._loose.get(str(event.get("item_id")))
        if call is not None:
            call.arguments += str(event.get("delta") or "")
            call.pieces += bool(event.get("delta"))

    def _last(self, response: Any) -> None:
        body = response if isinstance(response, dict) else {}
        if body.get("status") == "completed" and body.get("output") != self._done:
            self.fault("the output at the end is not what the items were")
        self._end(body)

    def _item(self, item: dict[str, Any]) -> None:
        match item.get("type"):
            case "message":
                parts = _dicts(item.get("content"))
                self.answer.text += "".join(str(part.get("text") or part.get("refusal") or "") for part in parts)
            case "reasoning":
                parts = [*_dicts(item.get("content")), *_dicts(item.get("summary"))]
                self.answer.reasoning += "".join(str(part.get("text") or "") for part in parts)
            case "function_call" | "custom_tool_call":
                written = item.get("arguments" if item["type"] == "function_call" else "input")
                arguments = written if item["type"] == "function_call" else json.dumps({"input": written})
                streamed = self._loose.pop(str(item.get("id")), None)
                if streamed is not None and streamed.arguments != written:
                    self.fault("the deltas of a call are not its arguments")
                pieces = streamed.pieces if streamed is not None else 1
                name, inside = str(item.get("name")), item.get("namespace")
                name = f"{inside}__{name}" if inside else name
                self.answer.calls.append(FaceCall(str(item.get("call_id")), name, str(arguments), pieces))

    def _end(self, body: dict[str, Any]) -> None:
        status = body.get("status")
        if status == "failed":
            self.failed(body.get("error"))
        elif status == "incomplete":
            reason = (body.get("incomplete_details") or {}).get("reason")
            self.answer.finish_reason = "content_filter" if reason == "content_filter" else "length"
        elif status == "completed":
            self.answer.finish_reason = "tool_calls" if self.answer.calls else "stop"
        else:
            self.fault(f"status is {status!r}")
        self.answer.calls += self._loose.values()  # cut off
        usage = body.get("usage")
        names = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens", "total_tokens": "total_tokens"}
        if isinstance(usage, dict) and names.keys() <= usage.keys():
            self.answer.usage = {chat: usage[name] for name, chat in names.items()}
        elif status != "failed":
            self.fault("there is no usage")


def _dicts(value: Any) -> Sequence[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []
