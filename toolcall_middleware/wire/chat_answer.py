"""A chat completion, whole or streamed, as forgivingly as it can be read.

For what looks at recorded or received answers (`check`, `replay`, spans, the inspector). Requests are answered by
`response/`, which forwards what it does not know.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from . import openai
from .sse import EventReader

_KINDS = {"function": "arguments", "custom": "input"}
_BLANK = b"\xef\xbb\xbf \t\r\n"


@dataclass(slots=True)
class Call:
    """A call, its pieces joined. `mark`: of the bytes in which it began."""

    id: Any
    name: str
    mark: int
    kind: str = "function"
    arguments: str = ""


@dataclass(slots=True)
class Choice:
    """One choice. `pieces`: (mark, text) of its content. `entries`: the `tool_calls` of each message or
    delta, as they came.
    """

    pieces: list[tuple[int, str]] = field(default_factory=list)
    reasoning: str = ""
    entries: list[list[Any]] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    finish_reason: str | None = None

    @property
    def text(self) -> str:
        """All of its content."""
        return "".join(text for _, text in self.pieces)

    def take(self, message: Any, mark: int) -> None:
        """A delta or a message."""
        if not isinstance(message, dict):
            return
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(str(part.get("text", "")) for part in content if isinstance(part, dict))
        if isinstance(content, str) and content:
            self.pieces.append((mark, content))
        texts = (message.get(name) for name in openai.REASONING_FIELDS)
        self.reasoning += next((text for text in texts if isinstance(text, str) and text), "")
        if isinstance(legacy := message.get("function_call"), dict):
            self._call({"index": 0, "function": legacy}, mark)
        if isinstance(entries := message.get("tool_calls"), list):
            self.entries.append(entries)
            for entry in entries:
                if isinstance(entry, dict):
                    self._call(entry, mark)

    def _call(self, entry: dict[str, Any], mark: int) -> None:
        kind = next((kind for kind in _KINDS if isinstance(entry.get(kind), dict)), None)
        inner = entry[kind] if kind is not None else {}
        # Without an index a name opens a call.
        index = entry.get("index", len(self.calls) - ("name" not in inner))
        if index == len(self.calls):
            self.calls.append(Call(entry.get("id"), "", mark, kind or "function"))
        if not isinstance(index, int) or not 0 <= index < len(self.calls):
            return
        call = self.calls[index]
        call.name += name if isinstance(name := inner.get("name"), str) else ""
        given = inner.get(_KINDS[call.kind]) or ""
        call.arguments += given if isinstance(given, str) else json.dumps(given, ensure_ascii=False)


class ChatAnswer:
    """An answer, fed in pieces. `choices`: by their index, in the order in which they came.

    `error`: the value of its member of that name. `usage`: the last that is an object. `has_choices`: it has a member
    `choices`, which may be empty. `unreadable`: something in it, except `[DONE]`, is no JSON object.
    """

    def __init__(self) -> None:
        self.choices: dict[int, Choice] = {}
        self.usage: dict[str, Any] | None = None
        self.error: Any = None
        self.has_choices = False
        self.unreadable = False
        self.is_stream = False
        self._whole: bytearray | None = bytearray()
        self._events = EventReader()
        self._mark = 0

    @classmethod
    def of(cls, data: bytes) -> ChatAnswer:
        """All of an answer's bytes, read."""
        answer = cls()
        answer.feed(data)
        answer.finish()
        return answer

    def feed(self, data: bytes, mark: int = 0) -> None:
        """More of the answer. `mark`: what pieces and calls that begin in it are marked with."""
        self._mark = mark
        if self._whole is not None:
            self._whole += data
            if not (start := self._whole[:64].lstrip(_BLANK)) or start.startswith((b"{", b"[")):
                return
            data, self._whole, self.is_stream = bytes(self._whole), None, True
        for event in self._events.feed(data):
            self._event(event.data)

    def finish(self) -> None:
        """Nothing follows."""
        if self._whole is not None:
            self._value(openai.read_value(bytes(self._whole).lstrip(_BLANK)), "message")
            self._whole = bytearray()
        for event in self._events.finish():
            self._event(event.data)

    def choice(self, index: int) -> Choice:
        """The choice of that index, an empty one where none came."""
        return self.choices.get(index) or Choice()

    def _event(self, data: bytes | None) -> None:
        if data is not None and data.strip() != b"[DONE]":
            self._value(openai.read_value(data), "delta")

    def _value(self, value: Any, name: str) -> None:
        if not isinstance(value, dict):
            self.unreadable = True
            return
        self.error = self.error or value.get("error")
        self.usage = usage if isinstance(usage := value.get("usage"), dict) else self.usage
        self.has_choices = self.has_choices or "choices" in value
        choices = value.get("choices")
        for at, one in enumerate(choices if isinstance(choices, list) else ()):
            if isinstance(one, dict):
                index = one.get("index")
                choice = self.choices.setdefault(index if isinstance(index, int) else at, Choice())
                choice.take(one.get(name), self._mark)
                if isinstance(reason := one.get("finish_reason"), str) and reason:
                    choice.finish_reason = reason
