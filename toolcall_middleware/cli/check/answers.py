"""A backend's answer, read as forgivingly as can be: what is judged here are backends, not this reader."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ...model import ToolCall, ToolSet
from ...parsing.events import CallArgs, CallEnd, CallStart
from ...response.native_calls import NativeCalls
from ...wire import openai
from ...wire.sse import EventReader
from ..faces import answers as faces
from .findings import Verdict

_MAX_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer. `status` is 0 where none came. `faults` say in which ways native calls need repair."""

    status: int
    text: str = ""
    reasoning: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    error: str | None = None
    faults: tuple[str, ...] = ()
    late: bool = False
    """None came in time: that says nothing of what the backend can do."""

    @property
    def was_cut(self) -> bool:
        """Whether it ended at its limit of tokens."""
        return self.finish_reason == "length"

    @property
    def verdict(self) -> Verdict:
        """Whether the feature that the failed request tried is missing: unknown where no answer came in time."""
        return Verdict.UNKNOWN if self.late else Verdict.NO

    @property
    def fault(self) -> str:
        """The same in words."""
        return self.refusal if self.late else f"refused: {self.refusal}"

    @property
    def ok(self) -> bool:
        """Whether it is an answer at all, and no error."""
        return self.status == 200 and self.error is None

    @property
    def refusal(self) -> str:
        """Why the request failed, in one line."""
        said = " ".join((self.error or "").split())[:_MAX_SHOWN]
        return f"status {self.status}: {said}" if self.status else said


def read_answer(status: int, body: bytes, api: str = "chat") -> Answer:
    """The answer in a response's body, whole or streamed: its bytes tell which. api: whose answer it is."""
    if status != 200:
        return Answer(status, error=openai.read_error(body, status).message)
    if api != "chat":
        return _of_face(faces.read_answer(api, body))
    start = body.lstrip(b"\xef\xbb\xbf \t\r\n")
    reader = _Reader()
    if start.startswith((b"data:", b"event:", b":", b"id:", b"retry:")):
        events = EventReader()
        for event in [*events.feed(body), *events.finish()]:
            if event.data is not None and event.data.strip() != b"[DONE]":
                reader.chunk(openai.read_value(event.data), streamed=True)
    else:
        reader.chunk(openai.read_value(body), streamed=False)
    return reader.answer()


def _of_face(read: faces.FaceAnswer) -> Answer:
    calls = tuple(ToolCall(call.name, call.arguments or "{}") for call in read.calls)
    return Answer(200, read.text, read.reasoning, calls, read.finish_reason, read.usage, read.error, tuple(read.faults))


@dataclass(slots=True)
class _Reader:
    text: list[str] = field(default_factory=list)
    reasoning: list[str] = field(default_factory=list)
    entries: list[Any] = field(default_factory=list)
    finish_reason: str | None = None
    usage: dict[str, Any] | None = None
    error: str | None = None
    choices: int = 0
    faults: dict[str, None] = field(default_factory=dict)  # ordered, each once

    def chunk(self, value: Any, *, streamed: bool) -> None:
        if not isinstance(value, dict):
            self.error = self.error or "the answer is not JSON"
            return
        if value.get("error") is not None:
            self.error = openai.read_error(openai.encode(value)).message
        if isinstance(value.get("usage"), dict):
            self.usage = value["usage"]
        choices = value.get("choices")
        for choice in choices if isinstance(choices, list) else ():
            if not isinstance(choice, dict) or choice.get("index", 0) != 0:
                continue
            self.choices += 1
            said = choice.get("delta" if streamed else "message")
            self._said(said if isinstance(said, dict) else {}, streamed=streamed)
            if isinstance(choice.get("finish_reason"), str):
                self.finish_reason = choice["finish_reason"]

    def _said(self, said: dict[str, Any], *, streamed: bool) -> None:
        if isinstance(said.get("content"), str):
            self.text.append(said["content"])
        for name in ("reasoning", "reasoning_content"):
            if isinstance(said.get(name), str):
                self.reasoning.append(said[name])
                break
        entries = said.get("tool_calls")
        for entry in entries if isinstance(entries, list) else ():
            self._form(entry, streamed=streamed)
            self.entries.append(entry)

    def _form(self, entry: Any, *, streamed: bool) -> None:
        """What a strict client would stumble over."""
        function = entry.get("function") if isinstance(entry, dict) else None
        if not isinstance(function, dict):
            self.faults["an entry without a function"] = None
            return
        seen = {known.get("index") for known in self.entries if isinstance(known, dict)}
        if streamed and not isinstance(entry.get("index"), int):
            self.faults["no index"] = None
        opens = not streamed or entry.get("index") not in seen
        if opens:
            for name in ("id", "type"):
                if not entry.get(name):
                    self.faults[f"no {name}"] = None
        elif function.get("name"):
            self.faults["the name comes again"] = None
        if not isinstance(function.get("arguments", ""), str):
            self.faults["arguments are no string"] = None
        elif not streamed and "arguments" not in function:
            self.faults["no arguments"] = None

    def answer(self) -> Answer:
        error = self.error
        if error is None and not self.choices:
            error = "the answer holds no choice"
        calls = self._calls()
        if calls and self.finish_reason != "tool_calls":
            self.faults[f"finish_reason is {self.finish_reason}"] = None
        text, reasoning = "".join(self.text), "".join(self.reasoning)
        return Answer(
            200, text, reasoning, calls, self.finish_reason, self.usage, error, tuple(self.faults) if calls else ()
        )

    def _calls(self) -> tuple[ToolCall, ...]:
        native = NativeCalls(ToolSet())
        calls: list[ToolCall] = []
        for event in [*native.feed(self.entries), *native.finish()]:
            match event:
                case CallStart(name=name):
                    calls.append(ToolCall(name, ""))
                case CallArgs(text=text):
                    calls[-1] = ToolCall(calls[-1].name, calls[-1].arguments + text)
                case CallEnd():
                    calls[-1] = ToolCall(calls[-1].name, calls[-1].arguments or "{}")
                case _:
                    pass
        return tuple(calls)
