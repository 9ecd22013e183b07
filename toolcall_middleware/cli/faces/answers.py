"""Answers of all three APIs, whole or streamed, as a strict client reads them.

This reader shares no code with the middleware on purpose: it is what the middleware is checked against. It never
raises on what it reads; each deviation from the API becomes a `Fault`, filed under what it spoils.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

_STREAM_STARTS = (b"data:", b"event:", b":", b"id:", b"retry:")
_STOP_REASONS = {
    "end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length",
    "refusal": "content_filter", "model_context_window_exceeded": "length", "pause_turn": "stop",
}  # fmt: skip
_FINISH_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter"})
_CALL_ITEMS = frozenset({"function_call", "custom_tool_call"})
_BLOCK_DELTAS = {"text_delta": "text", "thinking_delta": "thinking", "input_json_delta": "partial_json"}
_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Fault:
    """One deviation. `area` is `form`, `calls`, `ending` or `usage`."""

    area: str
    text: str


@dataclass(slots=True)
class ReceivedCall:
    """A call as the client would run it: the fragments of its arguments are joined."""

    id: str
    name: str
    arguments: str
    pieces: int = 1

    def decoded(self) -> Any:
        """The arguments as a value. Raises ValueError where they are no JSON."""
        return json.loads(self.arguments)


@dataclass(slots=True)
class Received:
    """One answer in the words of chat completions. `events` is 1 for a whole answer."""

    status: int
    streamed: bool
    text: str = ""
    reasoning: str = ""
    calls: list[ReceivedCall] = field(default_factory=list)
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    error: str | None = None
    faults: list[Fault] = field(default_factory=list)
    events: int = 1

    @property
    def content(self) -> str | None:
        """The text; None where there is none."""
        return self.text or None

    def same_answer(self) -> tuple[Any, ...]:
        """What must not depend on streaming: everything but ids and the number of events."""
        return self.content, [(call.name, call.arguments) for call in self.calls], self.finish_reason, self.usage


def api_of(data: bytes) -> str | None:
    """The API whose answer `data` is, whole or streamed: `messages` or `responses`; None for any other."""
    events = [_object(text) or {} for _, text in _events(data)[:4]] if is_stream(data) else []
    kinds = {event.get("type") for event in events}
    if any(isinstance(kind, str) and kind.startswith("response.") for kind in kinds):
        return "responses"
    if kinds & {"message_start", "content_block_start", "content_block_delta"}:
        return "messages"
    body = _object(data) or {}
    if body.get("object") == "response":
        return "responses"
    is_error = body.get("type") == "error" and isinstance(body.get("error"), dict)
    return "messages" if body.get("type") == "message" or is_error else None


def is_stream(data: bytes) -> bool:
    """Whether the bytes are an event stream."""
    return data.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(_STREAM_STARTS)


def read_answer(
    api: str, data: bytes, *, status: int = 200, streamed: bool | None = None, content_type: str | None = None
) -> Received:
    """An answer of `chat`, `messages` or `responses`. streamed: what the client asked for; None is as it came."""
    came = is_stream(data)
    reader = _READERS[api](Received(status, came if streamed is None else streamed))
    answer = reader.answer
    if came:
        reader.stream(data)
    else:
        reader.body(data)
    if status != 200:
        if answer.error is None:
            shown = data[:_SHOWN].decode("utf-8", "replace")
            answer.faults = [Fault("form", f"status {status} without an error of the API: {shown}")]
        return answer
    if came != answer.streamed:
        reader.fault("the answer is streamed or whole where it should not be")
    expected = "text/event-stream" if answer.streamed else "application/json"
    if content_type is not None and content_type.partition(";")[0].strip().lower() != expected:
        reader.fault(f"content-type is {content_type or 'absent'}, not {expected}")
    reader.check()
    return answer


def told(status: int, raw: bytes) -> str:
    """What a backend itself says in a whole chat completion: its text, its calls or its error."""
    answer = read_answer("chat", raw, status=status)
    if answer.calls:
        return "calls: " + ", ".join(f"{call.name} {call.arguments}" for call in answer.calls)
    if status != 200:
        return f"status {status}: {answer.error}" if answer.error else answer.faults[0].text
    return answer.text or "an empty answer"


def _events(data: bytes) -> list[tuple[str, str]]:
    """The name and the data of each whole event that has data."""
    found = []
    for block in data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n\n")[:-1]:
        lines = block.split("\n")
        if text := "\n".join(line[5:].lstrip() for line in lines if line.startswith("data:")):
            found.append((next((line[6:].strip() for line in lines if line.startswith("event:")), ""), text))
    return found


def _object(data: bytes | str) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


class _Reader:
    """Reads one answer. over: its last event has come."""

    id = re.compile(r"[a-zA-Z0-9_-]+")

    def __init__(self, answer: Received) -> None:
        self.answer = answer
        self.over = False

    def fault(self, text: str, area: str = "form") -> None:
        if (found := Fault(area, text)) not in self.answer.faults:
            self.answer.faults.append(found)

    def failed(self, error: Any) -> None:
        message = error.get("message") if isinstance(error, dict) else error
        self.answer.error = str(message or "an error without a message")

    def body(self, data: bytes) -> None:
        """Reads a whole answer."""
        body = _object(data)
        if body is None:
            self.fault(f"the body is no JSON object: {data[:80]!r}")
        self.whole(body or {})

    def stream(self, data: bytes) -> None:
        """Reads a streamed answer."""
        if data.replace(b"\r\n", b"\n").rpartition(b"\n\n")[2].strip():
            self.fault("the stream ends inside an event")
        self.answer.events = 0
        for name, text in _events(data):
            if self.over:
                self.fault("an event follows the last one")
            if self.is_end(text):
                self.over = True
                continue
            self.answer.events += 1
            event = _object(text)
            if event is None:
                self.fault(f"an event is no JSON object: {text[:80]!r}")
            else:
                self.event(name, event)
        if not self.over:
            self.fault("the stream has no end")

    def is_end(self, text: str) -> bool:  # noqa: ARG002
        """Whether an event's data is only the mark of the end."""
        return False

    def check(self) -> None:
        """What holds for a whole answer and a stream on every API."""
        answer = self.answer
        if len({call.id for call in answer.calls}) != len(answer.calls):
            self.fault("ids of calls are not unique", "calls")
        for call in answer.calls:
            if not self.id.fullmatch(call.id):
                self.fault(f"the id {call.id!r} of a call is not of the API's form", "calls")
            if not call.name:
                self.fault("a call has no name", "calls")
            # One that the limit cut off is a prefix of JSON.
            if answer.finish_reason not in {"length", None} and _object(call.arguments) is None:
                self.fault(f"the arguments of {call.name} are no JSON object: {call.arguments!r}", "calls")
        if answer.error is not None:
            self.fault(f"an error came: {answer.error}", "ending")
            return
        reason = answer.finish_reason
        if reason not in _FINISH_REASONS:
            self.fault(f"the reason of the end is {reason!r}", "ending")
        elif (reason == "tool_calls") != bool(answer.calls) and reason in {"tool_calls", "stop"}:
            self.fault(f"finish_reason is {reason} with {len(answer.calls)} calls", "ending")
        self._check_usage()

    def _check_usage(self) -> None:
        usage = self.answer.usage
        if usage is None:
            self.fault("there is no usage", "usage")
            return
        prompt, completion, total = (usage.get(f"{name}_tokens") for name in ("prompt", "completion", "total"))
        if type(prompt) is not int or type(completion) is not int or min(prompt, completion) < 0:
            self.fault(f"usage holds no counts: {usage}", "usage")
        elif prompt + completion != total:
            self.fault(f"usage does not add up: {prompt} + {completion} is not {total}", "usage")

    def whole(self, body: dict[str, Any]) -> None:
        raise NotImplementedError

    def event(self, name: str, event: dict[str, Any]) -> None:
        raise NotImplementedError

    def named(self, name: str, event: dict[str, Any]) -> str:
        """The type of an event, whose line must name it, too."""
        kind = str(event.get("type"))
        if name != kind:
            self.fault(f"the event's line says {name or 'nothing'!r} of {kind}")
        return kind


class _Chat(_Reader):
    id = re.compile(r"call_[a-zA-Z0-9]+")

    def __init__(self, answer: Received) -> None:
        super().__init__(answer)
        self._role = False

    def whole(self, body: dict[str, Any]) -> None:
        if (error := body.get("error")) is not None:
            self.failed(error)
            if not isinstance(error, dict) or {"message", "type", "param", "code"} - error.keys():
                self.fault(f"the error lacks fields of OpenAI's: {error}")
            return
        if body.get("object") != "chat.completion":
            self.fault(f"object is {body.get('object')!r}, not chat.completion")
        self.answer.usage = body.get("usage")
        match body.get("choices"):
            case [{"message": {**message}} as choice]:
                self.answer.finish_reason = choice.get("finish_reason")
                self._message(message)
            case _:
                self.fault("there is not one choice with a message")

    def _message(self, message: Mapping[Any, Any]) -> None:
        if message.get("role") != "assistant":
            self.fault(f"role is {message.get('role')!r}")
        if "content" not in message:
            self.fault("content is absent")
        self.answer.text = message.get("content") or ""
        for call in message.get("tool_calls") or []:
            function = call.get("function") or {}
            if call.get("type") != "function":
                self.fault(f"type is {call.get('type')!r}, not function", "calls")
            arguments = function.get("arguments")
            if not isinstance(arguments, str):
                self.fault(f"arguments are no string: {arguments!r}", "calls")
            self.answer.calls.append(ReceivedCall(str(call.get("id")), str(function.get("name")), str(arguments)))
        if self.answer.calls and message.get("content") == "":
            self.fault('content is "" beside a call, not null')

    def is_end(self, text: str) -> bool:
        return text == "[DONE]"

    def event(self, name: str, event: dict[str, Any]) -> None:  # noqa: ARG002
        if isinstance(event.get("error"), dict):
            self.failed(event["error"])
            return
        if event.get("object") != "chat.completion.chunk":
            self.fault(f"object is {event.get('object')!r}, not chat.completion.chunk")
        if self.answer.usage is not None:
            self.fault("a chunk follows the usage", "usage")
        match event.get("choices"):
            case []:
                self.answer.usage = event.get("usage")
                if self.answer.finish_reason is None:
                    self.fault("usage came before finish_reason", "usage")
            case [{"index": 0, "delta": {**delta}} as choice]:
                if event.get("usage") is not None:
                    self.fault("usage came in a chunk with choices", "usage")
                self._delta(delta)
                self.answer.finish_reason = choice.get("finish_reason") or self.answer.finish_reason
            case choices:
                self.fault(f"choices are {choices!r}")

    def _delta(self, delta: Mapping[Any, Any]) -> None:
        if self.answer.finish_reason is not None:
            self.fault("a delta follows finish_reason", "ending")
        if not self._role and delta.get("role") != "assistant":
            self.fault("the first delta has no role")
        self._role = True
        # An empty piece says nothing: where no other comes, the message has no text.
        self.answer.text += str(delta.get("content") or "")
        for piece in delta.get("tool_calls") or []:
            self._piece(piece)

    def _piece(self, piece: dict[str, Any]) -> None:
        calls = self.answer.calls
        function = piece.get("function") or {}
        index = piece.get("index")
        if index == len(calls):
            if piece.get("type") != "function" or not isinstance(function.get("arguments"), str):
                self.fault(f"call {index} opens without type or arguments: {piece}", "calls")
            calls.append(ReceivedCall(str(piece.get("id")), str(function.get("name")), "", 0))
        elif index != len(calls) - 1:
            self.fault(f"index is {index!r} where call {len(calls) - 1} is open", "calls")
            return
        elif {"id", "type"} & piece.keys() or "name" in function:
            self.fault(f"call {index} repeats its id, type or name: {piece}", "calls")
        if function.get("arguments"):
            calls[-1].arguments += str(function["arguments"])
            calls[-1].pieces += 1


class _Messages(_Reader):
    def __init__(self, answer: Received) -> None:
        super().__init__(answer)
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

    def event(self, name: str, event: dict[str, Any]) -> None:
        kind = self.named(name, event)
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
            self.answer.calls.append(ReceivedCall(str(block.get("id")), str(block.get("name")), "", 0))

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
        self.answer.finish_reason = _STOP_REASONS.get(str(reason), reason)
        self._count(usage)
        if {"input_tokens", "output_tokens"} - self._usage.keys():
            self.fault("usage lacks numbers", "usage")
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
    def __init__(self, answer: Received) -> None:
        super().__init__(answer)
        self._number = 0
        self._open: str | None = None
        self._done: list[Any] = []
        self._loose: dict[str, ReceivedCall] = {}  # calls whose item is not done yet

    def whole(self, body: dict[str, Any]) -> None:
        if body.get("object") != "response":
            self.failed(body.get("error"))
            return
        for item in _dicts(body.get("output")):
            self._item(item)
        self._end(body)

    def event(self, name: str, event: dict[str, Any]) -> None:
        kind = self.named(name, event)
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
                    self._loose[self._open] = ReceivedCall(str(item.get("call_id")), str(item.get("name")), "", 0)
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
                self.answer.calls.append(ReceivedCall(str(item.get("call_id")), name, str(arguments), pieces))

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
            self.fault(f"status is {status!r}", "ending")
        self.answer.calls += self._loose.values()  # cut off
        usage = body.get("usage")
        names = {"input_tokens": "prompt_tokens", "output_tokens": "completion_tokens", "total_tokens": "total_tokens"}
        if isinstance(usage, dict) and names.keys() <= usage.keys():
            self.answer.usage = {chat: usage[name] for name, chat in names.items()}


def _dicts(value: Any) -> Sequence[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


_READERS: dict[str, type[_Reader]] = {"chat": _Chat, "messages": _Messages, "responses": _Responses}
