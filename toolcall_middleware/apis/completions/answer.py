"""A text completion's answer as a chat completion's, whole or streamed.

What is the same in both stays as it came, to the byte: usage, finish reasons, errors, fields that nobody here knows.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...wire import openai
from ...wire.sse import EventReader, ServerEvent, TooLargeError

_WHOLE, _CHUNK = msgspec.Raw(b'"chat.completion"'), msgspec.Raw(b'"chat.completion.chunk"')
_NULL = msgspec.Raw(b"null")
_ID = "cmpl-"
_STREAM = (b"data:", b"event:", b":")


class CompletionAnswer:
    """One answer: either `whole`, or `feed`s and `finish`.

    top: how many of the likeliest tokens the client wants beside each. limit: bytes that an unfinished event may take.
    """

    def __init__(self, *, top: int | None = None, limit: int | None = None) -> None:
        self._top = top
        self._events = EventReader(limit)
        self._begun: set[int] = set()

    def whole(self, data: bytes) -> bytes:
        """A collected answer; what is no text completion stays as it came, for others to say so."""
        top = openai.read_object(openai.without_constants(data))
        choices = None if top is None else openai.read_objects(top.get("choices"))
        if top is None and data.lstrip().startswith(_STREAM):
            return self.feed(data) + self.finish()  # a stream that was not announced as one
        if top is None or choices is None or not any("text" in choice for choice in choices):
            return data
        made = [self._choice(choice, "message") for choice in choices]
        return openai.encode({**top, **_head(top), "object": _WHOLE, "choices": made})

    def feed(self, data: bytes) -> bytes:
        """The next bytes of the event stream, cut anywhere."""
        try:
            return b"".join(map(self._event, self._events.feed(data)))
        except TooLargeError:
            return self._events.rest()  # whose limit is told by who reads this

    def finish(self) -> bytes:
        """The stream is over: an event that lacks its end."""
        return b"".join(map(self._event, self._events.finish()))

    def _event(self, event: ServerEvent) -> bytes:
        top = None if event.data is None else openai.read_object(event.data)
        choices = None if top is None else openai.read_objects(top.get("choices"))
        if top is None or choices is None:
            return event.raw
        made = [self._choice(choice, "delta") for choice in choices]
        return openai.event(openai.one_line(openai.encode({**top, **_head(top), "object": _CHUNK, "choices": made})))

    def _choice(self, choice: openai.Fields, holder: str) -> dict[str, Any]:
        text = choice.pop("text", None)
        if text is None:
            return choice  # a chat completion's already, or what the reader is to see as it is
        said: dict[str, Any] = {"content": text}
        index = openai.read_value(choice.get("index"))
        if holder == "message" or (isinstance(index, int) and index not in self._begun):
            said = {"role": "assistant", **said}
            self._begun.add(index if isinstance(index, int) else 0)
        made: dict[str, Any] = {"index": choice.get("index", 0), holder: said, **choice}
        if not openai.is_null(choice.get("logprobs")):
            made["logprobs"] = self._logprobs(openai.read_value(choice["logprobs"]))
        made.setdefault("finish_reason", _NULL)
        return made

    def _logprobs(self, value: Any) -> Any:
        """The two lists of a text completion as the one of a chat; llama.cpp gives that at once."""
        tokens = value.get("tokens") if isinstance(value, dict) else None
        if self._top is None:
            return None  # nobody asked
        if not isinstance(tokens, list):
            return value
        logprobs, likeliest = _list(value.get("token_logprobs")), _list(value.get("top_logprobs"))
        content = []
        for place, token in enumerate(tokens):
            others = likeliest[place] if place < len(likeliest) else None
            others = others if isinstance(others, dict) else {}
            entry = _entry(token, logprobs[place] if place < len(logprobs) else None)
            near = [_entry(other, number) for other, number in others.items()]
            content.append({**entry, "top_logprobs": near[: self._top]})
        return {"content": content, "refusal": None}


def _head(top: openai.Fields) -> dict[str, Any]:
    own = openai.read_text(top.get("id"))
    return {"id": f"chat{own}"} if own is not None and own.startswith(_ID) else {}


def _entry(token: Any, logprob: Any) -> dict[str, Any]:
    text = token if isinstance(token, str) else str(token)
    return {"token": text, "logprob": logprob, "bytes": list(text.encode("utf-8", "replace"))}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
