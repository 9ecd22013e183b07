"""Answers of all three APIs, whole or streamed, as a client reads them.

This reader shares no code with the middleware on purpose: it is what the middleware is checked against. It reads what
it can and never raises on it; a deviation from the API that spoils what a client gets becomes a `Fault`. The order and
numbers of the events of Messages and Responses are not looked at: tests check them by the SDKs' own types.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

_STREAM_STARTS = (b"data:", b"event:", b":", b"id:", b"retry:")
_STOP_REASONS = {
    "end_turn": "stop", "stop_sequence": "stop", "tool_use": "tool_calls", "max_tokens": "length",
    "refusal": "content_filter", "model_context_window_exceeded": "length", "pause_turn": "stop",
}  # fmt: skip
_FINISH_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter"})
_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")
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

    def decoded(self) -> Any:
        """The arguments as a value, or as text where they are not JSON."""
        try:
            return json.loads(self.arguments)
        except (ValueError, RecursionError):
            return self.arguments


@dataclass(slots=True)
class Received:
    """One answer in the words of chat completions. `events` is 1 for a whole answer.

    status: 0 where no answer came. late: none arrived in time, which does not show what the backend can do.
    """

    status: int
    streamed: bool = False
    text: str = ""
    reasoning: str = ""
    calls: list[ReceivedCall] = field(default_factory=list)
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    error: str | None = None
    faults: list[Fault] = field(default_factory=list)
    events: int = 1
    late: bool = False

    @property
    def content(self) -> str | None:
        """The text; None where it is empty."""
        return self.text or None

    @property
    def ok(self) -> bool:
        """Whether it is an answer, not an error."""
        return self.status == 200 and self.error is None

    @property
    def refusal(self) -> str:
        """Why the request failed, in one line."""
        said = " ".join((self.error or "").split())[:_SHOWN]
        return f"status {self.status}: {said}" if self.status else said

    def same_answer(self) -> tuple[Any, ...]:
        """What must not depend on streaming: everything but ids and the number of events."""
        return self.content, [(call.name, call.arguments) for call in self.calls], self.finish_reason, self.usage


def api_of(data: bytes) -> str | None:
    """The API whose answer `data` is, whole or streamed: `messages` or `responses`; None for any other."""
    events = [_object(text) or {} for text in _events(data)[:4]] if is_stream(data) else []
    kinds = {str(event.get("type")) for event in events}
    if any(kind.startswith("response.") for kind in kinds):
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
    reader.read(data, streamed=came)
    if status != 200:
        answer.error = answer.error or f"no error of the API: {data[:_SHOWN].decode('utf-8', 'replace')}"
    if came != answer.streamed and status == 200:
        reader.fault("the answer is streamed or whole where it should not be")
    expected = "text/event-stream" if came else "application/json"
    if content_type is not None and content_type.partition(";")[0].strip().lower() != expected:
        reader.fault(f"content-type is {content_type or 'absent'}, not {expected}")
    reader.check()
    return answer


def summary_of(status: int, raw: bytes) -> str:
    """What a backend itself says in a whole chat completion: its text, its calls or its error."""
    answer = read_answer("chat", raw, status=status)
    if answer.calls:
        return "calls: " + ", ".join(f"{call.name} {call.arguments}" for call in answer.calls)
    return (answer.text or "an empty answer") if answer.ok else answer.refusal


def _events(data: bytes) -> list[str]:
    """The data of each whole event that has data."""
    blocks = data.decode("utf-8", "replace").replace("\r\n", "\n").split("\n\n")[:-1]
    found = ("\n".join(line[5:].lstrip() for line in block.split("\n") if line.startswith("data:")) for block in blocks)
    return [text for text in found if text]


def _object(data: bytes | str) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _dicts(value: Any) -> Sequence[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


class _Reader:
    """Reads one answer. streamed: as it came. over: its last event has come. `end`: data that only marks the end."""

    end: str | None = None

    def __init__(self, answer: Received) -> None:
        self.answer = answer
        self.streamed = self.over = False

    def fault(self, text: str, area: str = "form") -> None:
        if (found := Fault(area, text)) not in self.answer.faults:
            self.answer.faults.append(found)

    def failed(self, error: Any) -> None:
        message = error.get("message") if isinstance(error, dict) else error
        self.answer.error = str(message or "an error without a message")

    def read(self, data: bytes, *, streamed: bool) -> None:
        """Reads all of an answer."""
        self.streamed = streamed
        if not streamed:
            body = _object(data)
            if body is None:
                self.failed("the answer is not JSON")
            else:
                self.whole(body)
            return
        if data.replace(b"\r\n", b"\n").rpartition(b"\n\n")[2].strip():
            self.fault("the stream ends inside an event")
        self.answer.events = 0
        for text in _events(data):
            if self.over:
                self.fault("an event follows the last one")
            if text == self.end:
                self.over = True
                continue
            self.answer.events += 1
            event = _object(text)
            if event is None:
                self.fault(f"an event is no JSON object: {text[:80]!r}")
            else:
                self.event(event)
        if not self.over:
            self.fault("the stream has no end")

    def check(self) -> None:
        """What holds for a whole answer and a stream on every API."""
        answer = self.answer
        if answer.error is not None:
            self.fault(f"an error came: {answer.error}", "ending")
            return
        if len({call.id for call in answer.calls}) != len(answer.calls):
            self.fault("ids of calls are not unique", "calls")
        for call in answer.calls:
            if not call.id or not call.name:
                self.fault("a call has no id or no name", "calls")
            # One that the limit cut off is a prefix of JSON.
            if answer.finish_reason not in {"length", None} and _object(call.arguments) is None:
                self.fault(f"the arguments of {call.name} are no JSON object: {call.arguments!r}", "calls")
        reason = answer.finish_reason
        if reason not in _FINISH_REASONS or (
            reason in {"tool_calls", "stop"} and (reason == "tool_calls") != bool(answer.calls)
        ):
            self.fault(f"finish_reason is {reason}", "ending")
        prompt, completion, total = ((answer.usage or {}).get(name) for name in _COUNTS)
        if type(prompt) is not int or type(completion) is not int or min(prompt, completion) < 0:
            self.fault(f"usage holds no counts: {answer.usage}", "usage")
        elif prompt + completion != total:
            self.fault(f"usage does not add up: {prompt} + {completion} is not {total}", "usage")

    def whole(self, body: dict[str, Any]) -> None:
        raise NotImplementedError

    def event(self, event: dict[str, Any]) -> None:
        raise NotImplementedError

    def count(self, usage: Any, prompt: str, completion: str, *more: str) -> None:
        """The usage, from its names on this API. more: what of the prompt is counted beside it."""
        if isinstance(usage, dict) and type(usage.get(prompt)) is int and type(usage.get(completion)) is int:
            read = usage[prompt] + sum(value for name in more if type(value := usage.get(name)) is int)
            total = usage.get("total_tokens", read + usage[completion])
            self.answer.usage = dict(zip(_COUNTS, (read, usage[completion], total), strict=True))


class _Chat(_Reader):
    end = "[DONE]"

    def __init__(self, answer: Received) -> None:
        super().__init__(answer)
        self._begun = False

    def read(self, data: bytes, *, streamed: bool) -> None:
        super().read(data, streamed=streamed)
        if not self._begun and self.answer.error is None:
            self.failed("the answer holds no choice")

    def event(self, event: dict[str, Any]) -> None:
        self.whole(event)

    def whole(self, body: dict[str, Any]) -> None:
        """An answer, or a chunk of one."""
        if body.get("error"):
            self.failed(body["error"])
            return
        kind = "chat.completion.chunk" if self.streamed else "chat.completion"
        if body.get("object") != kind:
            self.fault(f"object is {body.get('object')!r}, not {kind}")
        if self.streamed and self.answer.usage is not None:
            self.fault("a chunk follows the usage", "usage")
        choices = _dicts(body.get("choices"))
        if isinstance(usage := body.get("usage"), dict):
            self.answer.usage = usage
            if self.streamed and (choices or self.answer.finish_reason is None):
                self.fault("usage came before the end", "usage")
        if len(choices) > 1 or any(choice.get("index", 0) != 0 for choice in choices):
            self.fault("there is not one choice")
        for choice in choices[:1]:
            message = choice.get("delta" if self.streamed else "message")
            self._message(message if isinstance(message, dict) else {})
            reason = choice.get("finish_reason")
            self.answer.finish_reason = str(reason) if reason else self.answer.finish_reason

    def _message(self, message: dict[str, Any]) -> None:
        """A message or a delta."""
        answer = self.answer
        if answer.finish_reason is not None:
            self.fault("a delta follows finish_reason", "ending")
        if not self._begun and message.get("role") != "assistant":
            self.fault(f"the role is {message.get('role')!r}")
        self._begun = True
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(str(part.get("text") or "") for part in _dicts(content))
        answer.text += str(content or "")
        answer.reasoning += str(message.get("reasoning") or message.get("reasoning_content") or "")
        calls = message.get("tool_calls")
        for entry in calls if isinstance(calls, list) else ():
            self._call(entry)
        if not self.streamed and (content is None) != (not answer.text) and (answer.calls or "content" not in message):
            self.fault('content is absent, or "" beside a call')

    def _call(self, entry: Any) -> None:
        """An entry of `tool_calls`: a call, or a piece of one."""
        calls = self.answer.calls
        function = entry.get("function") if isinstance(entry, dict) else None
        if not isinstance(function, dict):
            self.fault("an entry without a function", "calls")
            return
        index = entry.get("index")
        if self.streamed and not isinstance(index, int):
            self.fault("no index", "calls")
            index = len(calls) - ("name" not in function)  # without an index a name opens a call
        if not self.streamed or index == len(calls):
            for name in ("id", "type"):
                if not entry.get(name):
                    self.fault(f"no {name}", "calls")
            calls.append(ReceivedCall(str(entry.get("id") or ""), str(function.get("name") or ""), ""))
        elif index != len(calls) - 1 or not calls:
            self.fault(f"index is {index!r} where call {len(calls) - 1} is open", "calls")
            return
        elif entry.get("id") or entry.get("type") or function.get("name"):
            self.fault(f"call {index} repeats its id, type or name", "calls")
        given = function.get("arguments", "" if self.streamed else None)
        if not isinstance(given, str):
            self.fault("arguments are no string", "calls")
            given = "" if given is None else json.dumps(given)
        calls[-1].arguments += given


class _Messages(_Reader):
    def __init__(self, answer: Received) -> None:
        super().__init__(answer)
        self._usage: dict[Any, Any] = {}

    def whole(self, body: dict[str, Any]) -> None:
        if "content" not in body:
            self.failed(body.get("error"))
            return
        for block in _dicts(body["content"]):
            self._block(block)
        self._end(body)

    def event(self, event: dict[str, Any]) -> None:
        match event:
            case {"type": "message_start", "message": {"usage": {**usage}}}:
                self._usage.update(usage)
            case {"type": "content_block_start", "content_block": {**block}}:
                self._block(block)
            case {"type": "content_block_delta", "delta": {"type": "text_delta", "text": str(text)}}:
                self.answer.text += text
            case {"type": "content_block_delta", "delta": {"type": "thinking_delta", "thinking": str(text)}}:
                self.answer.reasoning += text
            case {"type": "content_block_delta", "delta": {"partial_json": str(text)}} if self.answer.calls:
                self.answer.calls[-1].arguments += text
            case {"type": "message_delta", "delta": {**delta}}:
                self._end({"usage": event.get("usage"), **delta})
            case {"type": "message_stop"}:
                self.over = True
            case {"type": "error"}:
                self.over = True
                self.failed(event.get("error"))

    def _block(self, block: dict[Any, Any]) -> None:
        """A whole block, or the start of one."""
        self.answer.text += str(block.get("text") or "")
        self.answer.reasoning += str(block.get("thinking") or "")
        if block.get("type") == "tool_use":
            given = block.get("input")
            if not isinstance(given, dict):
                self.fault("the input of a call is no object")
            written = json.dumps(given, ensure_ascii=False) if given else ""
            self.answer.calls.append(ReceivedCall(str(block.get("id")), str(block.get("name")), written))

    def _end(self, ending: dict[Any, Any]) -> None:
        reason = ending.get("stop_reason")
        self.answer.finish_reason = None if reason is None else _STOP_REASONS.get(str(reason), str(reason))
        for call in self.answer.calls:
            call.arguments = call.arguments or "{}"
        self._usage.update(usage if isinstance(usage := ending.get("usage"), dict) else {})
        cached = ("cache_read_input_tokens", "cache_creation_input_tokens")
        self.count(self._usage, "input_tokens", "output_tokens", *cached)


class _Responses(_Reader):
    def __init__(self, answer: Received) -> None:
        super().__init__(answer)
        self._done: list[Any] = []
        self._loose: dict[str, ReceivedCall] = {}  # calls whose item is not done yet

    def whole(self, body: dict[str, Any]) -> None:
        if body.get("object") != "response":
            self.failed(body.get("error"))
            return
        for item in _dicts(body.get("output")):
            self._item(item)
        self._end(body)

    def event(self, event: dict[str, Any]) -> None:
        match event:
            case {"type": "response.output_item.added", "item": {"call_id": call_id, **item}}:
                self._loose[str(item.get("id"))] = ReceivedCall(str(call_id), str(item.get("name")), "")
            case {"type": "response.output_item.done", "item": {**item}}:
                self._done.append(item)
                self._item(item)
            case {"type": "response.completed" | "response.incomplete" | "response.failed", "response": {**response}}:
                self.over = True
                if response.get("status") == "completed" and response.get("output") != self._done:
                    self.fault("the output at the end is not what the items were")
                self._end(response)
            case {"type": "error"}:
                self.over = True
                self.failed(event)
            case {"delta": str(text), "item_id": name} if call := self._loose.get(str(name)):
                call.arguments += text

    def _item(self, item: dict[Any, Any]) -> None:
        """A whole item."""
        parts = [*_dicts(item.get("content")), *_dicts(item.get("summary"))]
        text = "".join(str(part.get("text") or part.get("refusal") or "") for part in parts)
        match item.get("type"):
            case "message":
                self.answer.text += text
            case "reasoning":
                self.answer.reasoning += text
            case "function_call" | "custom_tool_call" as kind:
                written = str(item.get("arguments" if kind == "function_call" else "input"))
                call = self._loose.pop(str(item.get("id")), None)
                if call is not None and call.arguments != written:
                    self.fault("the deltas of a call are not its arguments")
                space = f"{item['namespace']}__" if item.get("namespace") else ""
                arguments = written if kind == "function_call" else json.dumps({"input": written})
                self.answer.calls.append(
                    ReceivedCall(str(item.get("call_id")), f"{space}{item.get('name')}", arguments)
                )

    def _end(self, body: dict[Any, Any]) -> None:
        match body.get("status"):
            case "failed":
                self.failed(body.get("error"))
            case "incomplete":
                details = body.get("incomplete_details")
                is_filtered = isinstance(details, dict) and details.get("reason") == "content_filter"
                self.answer.finish_reason = "content_filter" if is_filtered else "length"
            case "completed":
                self.answer.finish_reason = "tool_calls" if self.answer.calls else "stop"
        self.answer.calls += self._loose.values()  # cut off
        self.count(body.get("usage"), "input_tokens", "output_tokens")


_READERS: dict[str, type[_Reader]] = {"chat": _Chat, "messages": _Messages, "responses": _Responses}
