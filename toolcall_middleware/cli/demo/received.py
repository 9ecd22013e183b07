"""What a client received, read from the raw bytes by the client's own rules.

This reader shares no code with the middleware on purpose: it is what the middleware is checked against. It never
raises on what it reads; each deviation from the OpenAI wire becomes a `Fault`, filed under what it spoils.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from ..faces.answers import is_stream, read_answer

_ID = re.compile(r"call_[a-zA-Z0-9]+")
_FINISH_REASONS = frozenset({"stop", "length", "tool_calls", "content_filter"})


@dataclass(frozen=True, slots=True)
class Fault:
    """One deviation. `area` is `form`, `calls`, `ending` or `usage`."""

    area: str
    text: str


@dataclass(frozen=True, slots=True)
class ReceivedCall:
    """A call as the client would run it: the fragments of its arguments are joined."""

    id: str
    name: str
    arguments: str
    pieces: int = 1

    def decoded(self) -> Any:
        """The arguments as a value. Raises ValueError where they are no JSON."""
        return json.loads(self.arguments)


@dataclass(frozen=True, slots=True)
class Received:
    """One answer. `content` is None where the wire had null. `chunks` is 1 for a whole answer."""

    status: int
    streamed: bool
    content: str | None = None
    calls: tuple[ReceivedCall, ...] = ()
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    error: dict[str, Any] | None = None
    faults: tuple[Fault, ...] = ()
    chunks: int = 1

    def same_answer(self) -> tuple[Any, ...]:
        """What must not depend on streaming: everything but ids and the number of chunks."""
        calls = tuple((call.name, call.arguments) for call in self.calls)
        return self.content or None, calls, self.finish_reason, self.usage


def read(status: int, content_type: str, raw: bytes, *, streamed: bool) -> Received:
    """Reads the answer to a request that asked for `stream: streamed` (with `include_usage` where it did)."""
    if status != 200:
        return _read_error(status, raw, streamed=streamed)
    reader = _StreamReader() if streamed else _WholeReader()
    expected = "text/event-stream" if streamed else "application/json"
    if content_type.partition(";")[0].strip().lower() != expected:
        reader.fault("form", f"content-type is {content_type or 'absent'}, not {expected}")
    reader.read(raw)
    return reader.received(status)


def read_face(api: str, status: int, raw: bytes, *, streamed: bool) -> Received:
    """The same for an answer of `messages` or `responses`, in the words of chat completions."""
    answer = read_answer(api, raw)
    error = None if answer.error is None else {"message": answer.error}
    calls = tuple(ReceivedCall(call.id, call.name, call.arguments, call.pieces) for call in answer.calls)
    faults = [Fault("form", text) for text in answer.faults] if status == 200 or error is None else []
    if status != 200 and error is None:
        faults = [Fault("form", f"status {status} without an error of the API")]
    if streamed != is_stream(raw) and status == 200:
        faults.append(Fault("form", "the answer is streamed or whole where it should not be"))
    return Received(
        status, streamed, answer.text or None, calls, answer.finish_reason, answer.usage, error, tuple(faults),
        answer.events,
    )  # fmt: skip


def told(status: int, raw: bytes) -> str:
    """What a backend itself says in a whole answer: its text, its calls or its error."""
    answer = read(status, "application/json", raw, streamed=False)
    if answer.calls:
        return "calls: " + ", ".join(f"{call.name} {call.arguments}" for call in answer.calls)
    error = (answer.error or {}).get("message") or (_object(raw) or {}).get("error")
    text = error.get("message") if isinstance(error, dict) else error
    return f"status {status}: {text}" if status != 200 else answer.content or "an empty answer"


def _read_error(status: int, raw: bytes, *, streamed: bool) -> Received:
    body = _object(raw)
    error = body.get("error") if body is not None else None
    if isinstance(error, dict) and {"message", "type", "param", "code"} <= error.keys():
        return Received(status, streamed, error=error)
    shown = raw[:200].decode("utf-8", "replace")
    return Received(status, streamed, faults=(Fault("form", f"status {status} without an OpenAI error: {shown}"),))


def _object(raw: bytes | str) -> dict[str, Any] | None:
    try:
        value = json.loads(raw)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


@dataclass(slots=True)
class _OpenCall:
    id: str
    name: str
    arguments: list[str] = field(default_factory=list)


class _Reader:
    streamed = False

    def __init__(self) -> None:
        self._faults: list[Fault] = []
        self._content: str | None = None
        self._calls: list[_OpenCall] = []
        self._finish_reason: str | None = None
        self._usage: dict[str, Any] | None = None
        self._error: dict[str, Any] | None = None
        self._chunks = 1

    def read(self, raw: bytes) -> None:
        raise NotImplementedError

    def fault(self, area: str, text: str) -> None:
        self._faults.append(Fault(area, text))

    def received(self, status: int) -> Received:
        calls = tuple(
            ReceivedCall(call.id, call.name, "".join(call.arguments), len(call.arguments)) for call in self._calls
        )
        self._check_calls(calls)
        self._check_ending(called=bool(calls))
        self._check_usage()
        return Received(
            status,
            self.streamed,
            self._content,
            calls,
            self._finish_reason,
            self._usage,
            self._error,
            tuple(self._faults),
            self._chunks,
        )

    def _check_calls(self, calls: tuple[ReceivedCall, ...]) -> None:
        ids = [call.id for call in calls]
        if len(set(ids)) != len(ids):
            self.fault("calls", f"ids are not unique: {', '.join(ids)}")
        for call in calls:
            if not _ID.fullmatch(call.id):
                self.fault("calls", f"id {call.id!r} is not of the form call_…")
            if not call.name:
                self.fault("calls", "a call has no name")
            # A call that max_tokens cut off has a prefix of JSON; everything else must be whole.
            if self._finish_reason != "length" and _object(call.arguments) is None:
                self.fault("calls", f"arguments of {call.name} are no JSON object: {call.arguments!r}")

    def _check_ending(self, *, called: bool) -> None:
        if self._error is not None:
            self.fault("ending", f"an error came in the stream: {self._error.get('message')}")
        elif self._finish_reason not in _FINISH_REASONS:
            self.fault("ending", f"finish_reason is {self._finish_reason!r}")
        elif (self._finish_reason == "tool_calls") != called and self._finish_reason in {"tool_calls", "stop"}:
            self.fault("ending", f"finish_reason is {self._finish_reason} with {'a' if called else 'no'} call")

    def _check_usage(self) -> None:
        usage = self._usage
        if usage is None:
            if self._error is None:
                self.fault("usage", "there is no usage")
            return
        prompt, completion, total = (usage.get(f"{name}_tokens") for name in ("prompt", "completion", "total"))
        if type(prompt) is not int or type(completion) is not int or min(prompt, completion) < 0:
            self.fault("usage", f"usage holds no counts: {usage}")
        elif prompt + completion != total:
            self.fault("usage", f"usage does not add up: {prompt} + {completion} is not {total}")


class _WholeReader(_Reader):
    def read(self, raw: bytes) -> None:
        body = _object(raw)
        if body is None:
            self.fault("form", f"the body is no JSON object: {raw[:80]!r}")
            return
        if body.get("object") != "chat.completion":
            self.fault("form", f"object is {body.get('object')!r}, not chat.completion")
        self._usage = body.get("usage")
        choices = body.get("choices")
        choice = choices[0] if isinstance(choices, list) and len(choices) == 1 else None
        message = choice.get("message") if isinstance(choice, dict) else None
        if not isinstance(choice, dict) or not isinstance(message, dict):
            self.fault("form", "there is not one choice with a message")
            return
        self._finish_reason = choice.get("finish_reason")
        if message.get("role") != "assistant":
            self.fault("form", f"role is {message.get('role')!r}")
        if "content" not in message:
            self.fault("form", "content is absent")
        self._content = message.get("content")
        calls = message.get("tool_calls")
        for call in calls or []:
            function = call.get("function") or {}
            if call.get("type") != "function":
                self.fault("calls", f"type is {call.get('type')!r}, not function")
            arguments = function.get("arguments")
            if not isinstance(arguments, str):
                self.fault("calls", f"arguments are no string: {arguments!r}")
            self._calls.append(_OpenCall(str(call.get("id")), str(function.get("name")), [str(arguments)]))
        if self._calls and self._content == "":
            self.fault("form", 'content is "" beside a call, not null')


class _StreamReader(_Reader):
    streamed = True

    def __init__(self) -> None:
        super().__init__()
        self._chunks = 0
        self._done = False
        self._role = False

    def read(self, raw: bytes) -> None:
        text = raw.decode("utf-8", "replace").replace("\r\n", "\n")
        events = text.split("\n\n")
        if events.pop().strip():
            self.fault("form", "the stream ends inside an event")
        for event in events:
            data = "\n".join(line[5:].lstrip() for line in event.split("\n") if line.startswith("data:"))
            if data:
                self._event(data)
        if not self._done:
            self.fault("form", "there is no [DONE]")

    def _event(self, data: str) -> None:
        if self._done:
            self.fault("form", "something follows [DONE]")
        if data == "[DONE]":
            self._done = True
            return
        chunk = _object(data)
        if chunk is None:
            self.fault("form", f"an event is no JSON object: {data[:80]!r}")
            return
        self._chunks += 1
        if isinstance(chunk.get("error"), dict):
            self._error = chunk["error"]
            return
        if chunk.get("object") != "chat.completion.chunk":
            self.fault("form", f"object is {chunk.get('object')!r}, not chat.completion.chunk")
        if self._usage is not None:
            self.fault("usage", "a chunk follows the usage")
        match chunk.get("choices"):
            case []:
                self._usage_chunk(chunk)
            case [{"index": 0} as choice]:
                if chunk.get("usage") is not None:
                    self.fault("usage", "usage came in a chunk with choices")
                self._choice(choice)
            case choices:
                self.fault("form", f"choices are {choices!r}")

    def _usage_chunk(self, chunk: dict[str, Any]) -> None:
        self._usage = chunk.get("usage")
        if self._finish_reason is None:
            self.fault("usage", "usage came before finish_reason")

    def _choice(self, choice: dict[str, Any]) -> None:
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            self.fault("form", "a choice has no delta")
            return
        if self._finish_reason is not None:
            self.fault("ending", "a delta follows finish_reason")
        if not self._role and delta.get("role") != "assistant":
            self.fault("form", "the first delta has no role")
        self._role = True
        if delta.get("content"):
            # An empty piece says nothing: where no other comes, the message has no text.
            self._content = (self._content or "") + str(delta["content"])
        for piece in delta.get("tool_calls") or []:
            self._piece(piece)
        if choice.get("finish_reason") is not None:
            self._finish_reason = choice["finish_reason"]

    def _piece(self, piece: dict[str, Any]) -> None:
        function = piece.get("function") or {}
        index = piece.get("index")
        if index == len(self._calls):
            if piece.get("type") != "function" or not isinstance(function.get("arguments"), str):
                self.fault("calls", f"call {index} opens without type or arguments: {piece}")
            self._calls.append(_OpenCall(str(piece.get("id")), str(function.get("name"))))
        elif index != len(self._calls) - 1:
            self.fault("calls", f"index is {index!r} where call {len(self._calls) - 1} is open")
            return
        elif {"id", "type"} & piece.keys() or "name" in function:
            self.fault("calls", f"call {index} repeats its id, type or name: {piece}")
        if function.get("arguments"):
            self._calls[-1].arguments.append(str(function["arguments"]))
