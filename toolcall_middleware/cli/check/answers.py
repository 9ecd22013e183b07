"""A backend's answer, read as forgivingly as can be: what is judged here are backends, not this reader."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ...model import ToolCall, ToolSet
from ...parsing.events import CallArgs, CallEnd, CallStart
from ...response.native_calls import NativeCalls
from ...wire import openai
from ...wire.chat_answer import ChatAnswer, Choice
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
    return _of_chat(ChatAnswer.of(body))


def _of_face(read: faces.Received) -> Answer:
    calls = tuple(ToolCall(call.name, call.arguments or "{}") for call in read.calls)
    faults = tuple(fault.text for fault in read.faults)
    return Answer(200, read.text, read.reasoning, calls, read.finish_reason, read.usage, read.error, faults)


def _of_chat(read: ChatAnswer) -> Answer:
    choice = read.choice(0)
    error = "the answer is not JSON" if read.unreadable else None
    if read.error:
        error = openai.read_error(openai.encode({"error": read.error})).message
    elif error is None and not read.choices:
        error = "the answer holds no choice"
    calls = _calls(choice)
    faults = _faults(choice, streamed=read.is_stream) if calls else ()
    reason = choice.finish_reason if isinstance(choice.finish_reason, str) else None
    return Answer(200, choice.text, choice.reasoning, calls, reason, read.usage, error, faults)


def _calls(choice: Choice) -> tuple[ToolCall, ...]:
    native = NativeCalls(ToolSet())
    events = [event for entries in choice.entries for event in native.feed(entries)]
    calls: list[ToolCall] = []
    for event in [*events, *native.finish()]:
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


def _faults(choice: Choice, *, streamed: bool) -> tuple[str, ...]:
    """What a strict client would stumble over, each once."""
    faults: list[str] = []
    seen: set[Any] = set()
    for entry in (entry for entries in choice.entries for entry in entries):
        function = entry.get("function") if isinstance(entry, dict) else None
        if not isinstance(function, dict):
            faults.append("an entry without a function")
            continue
        index = entry.get("index")
        if streamed and not isinstance(index, int):
            faults.append("no index")
        if not streamed or index not in seen:
            faults += [f"no {name}" for name in ("id", "type") if not entry.get(name)]
        elif function.get("name"):
            faults.append("the name comes again")
        if not isinstance(function.get("arguments", ""), str):
            faults.append("arguments are no string")
        elif not streamed and "arguments" not in function:
            faults.append("no arguments")
        seen.add(index if isinstance(index, int | None) else str(index))
    if choice.finish_reason != "tool_calls":
        faults.append(f"finish_reason is {choice.finish_reason}")
    return tuple(dict.fromkeys(faults))
