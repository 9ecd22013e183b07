"""A parser with a syntax of its own and chunks by hand, for the tests of what is made of a parser's events."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from tests.helpers.policies import CHAT
from toolcall_middleware.parsing.events import CallArgs, CallEnd, CallStart, Event, Malformed, Reasoning, Stop, Text
from toolcall_middleware.response.answer_form import ChatEmitter
from toolcall_middleware.response.choice import ChoiceAnswer
from toolcall_middleware.response.stream import Gate, Hold, StreamRewriter
from toolcall_middleware.settings import Settings
from toolcall_middleware.usage.meter import UsageMeter

HEAD: dict[str, Any] = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
DONE = b"data: [DONE]\n\n"


class ScriptParser:
    """Reads `[name|arguments]` as a call, `(thought)` as reasoning, `#` as a stop; everything else is text.

    A `~` in the arguments makes the call a repaired one, the name `?` a malformed one.
    """

    def __init__(self) -> None:
        self._raw: str | None = None
        self._named = False
        self._thinking = False

    def feed(self, text: str, /) -> list[Event]:
        events: list[Event] = []
        for char in text:
            self._step(char, events)
        return _merged(events)

    def _step(self, char: str, events: list[Event]) -> None:
        if self._raw is None:
            match char:
                case "[":
                    self._raw, self._named = char, False
                case "(" | ")":
                    self._thinking = char == "("
                    events.append(Reasoning(char, markup=True))
                case "#":
                    events.append(Stop(char))
                case _:
                    events.append(Reasoning(char) if self._thinking else Text(char))
            return
        self._raw += char
        if not self._named and char == "|":
            self._named = True
            name = self._raw[1:-1]
            events.append(Malformed(self._raw, "unknown_tool", name) if name == "?" else CallStart(name))
        elif self._named and char == "]":
            events.append(CallEnd(complete=True, repaired="~" in self._raw, raw=self._raw))
            self._raw = None
        elif self._named:
            events.append(CallArgs(char))

    def finish(self, *, cut: bool = False) -> list[Event]:
        raw, self._raw = self._raw, None
        if raw is None:
            return []
        if not self._named:
            return [Text(raw)]
        return [CallEnd(complete=not cut, repaired=True, raw=raw)]


def _merged(events: list[Event]) -> list[Event]:
    out: list[Event] = []
    for event in events:
        last = out[-1] if out else None
        if isinstance(event, Text) and isinstance(last, Text):
            out[-1] = Text(last.text + event.text)
        elif isinstance(event, CallArgs) and isinstance(last, CallArgs):
            out[-1] = CallArgs(last.text + event.text)
        else:
            out.append(event)
    return out


def chunk(delta: dict[str, Any], reason: str | None = None, *, index: int = 0, **choice: Any) -> dict[str, Any]:
    """A chunk of one choice."""
    return {**HEAD, "choices": [{"index": index, "delta": delta, **choice, "finish_reason": reason}]}


def event(payload: dict[str, Any] | str) -> bytes:
    """An event as Python servers write it: with spaces, and not ASCII only."""
    text = payload if isinstance(payload, str) else json.dumps(payload, ensure_ascii=False)
    return f"data: {text}\n\n".encode()


def stream(*payloads: dict[str, Any] | str, done: bool = True) -> bytes:
    """A whole stream, with `[DONE]` unless told."""
    return b"".join(event(payload) for payload in payloads) + (DONE if done else b"")


def completion(message: str | dict[str, Any] | None, reason: str | None = "stop", **more: Any) -> bytes:
    """A whole answer of one choice with this message, or with this content."""
    fields = message if isinstance(message, dict) else {"content": message}
    choice = {"index": 0, "message": {"role": "assistant", "content": None, **fields}, "finish_reason": reason}
    return json.dumps({**HEAD, "object": "chat.completion", "choices": [choice], **more}).encode()


def role() -> dict[str, Any]:
    return chunk({"role": "assistant", "content": ""})


def says(*texts: str, index: int = 0) -> list[dict[str, Any]]:
    return [chunk({"content": text}, index=index) for text in texts]


def pieces(text: str, ends: Iterable[int]) -> list[str]:
    """`text` cut at these places."""
    places = [0, *ends, len(text)]
    return [text[a:b] for a, b in itertools.pairwise(places)]


def chat_stream(
    make_choice: Callable[[], ChoiceAnswer],
    usage: UsageMeter,
    *,
    kind: type[StreamRewriter] = StreamRewriter,
    include_usage: bool = False,
    choices: int = 1,
    hold: Hold = Hold.NOTHING,
    max_bytes: int | None = None,
    legacy: bool = False,
    **options: Any,
) -> StreamRewriter:
    """A rewriter whose client speaks chat completions. options: settings."""
    chat = replace(CHAT, include_usage=include_usage, n=choices, legacy=legacy)
    emitter = ChatEmitter(chat, Settings(**options), usage, Gate[bytes](hold, max_bytes, size=len))
    return kind(make_choice, usage, emitter, chat, max_bytes=max_bytes)
