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
_SENTINEL = "\x00toolcall\x00"
_SENTINEL_JSON = openai.encode(_SENTINEL)
_MOST_SHAPES = 8
"""Choices whose chunks take turns."""
_MOST_MISSES = 32
"""In a row, until no more shapes are looked for: with logprobs no chunk is like another."""


class _Shape:
    """Events that differ in their text alone: the bytes around it, and those that it has around it in a chat's."""

    __slots__ = ("_after", "_before", "_middle", "around")

    def __init__(self, raw: tuple[bytes, bytes], chat: tuple[bytes, bytes]) -> None:
        self.around = raw
        self._middle = slice(len(raw[0]), -len(raw[1]))
        self._before, self._after = chat

    def rewritten(self, data: bytes) -> bytes | None:
        """The chat's event for an event of this shape, None for another."""
        written = data[self._middle]
        if written.join(self.around) != data or openai.read_text(written) is None or written[:1] != b'"':
            return None
        return b"".join((self._before, written, self._after))


class CompletionAnswer:
    """One answer: either `whole`, or `feed`s and `finish`.

    top: how many of the likeliest tokens the client wants beside each. limit: bytes that an unfinished event may take.
    """

    def __init__(self, *, top: int | None = None, limit: int | None = None) -> None:
        self._top = top
        self._events = EventReader(limit)
        self._begun: set[int] = set()
        self._shapes: list[_Shape] = []
        self._misses = 0

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
        if not self._events.buffer:
            for place, shape in enumerate(self._shapes):
                out = shape.rewritten(data)
                if out is not None:
                    self._misses = 0
                    if place:
                        self._shapes.insert(0, self._shapes.pop(place))
                    return out
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
        text = choices[0].get("text") if len(choices) == 1 else None
        made = [self._choice(choice, "delta") for choice in choices]
        out = openai.event(openai.one_line(openai.encode({**top, **_head(top), "object": _CHUNK, "choices": made})))
        if text is not None and "role" not in made[0]["delta"]:
            self._learn(event.raw, bytes(text), out)
        return out

    def _learn(self, raw: bytes, text: bytes, out: bytes) -> None:
        """Keep the shape of an event of one choice that became `out`, to read its likes without parsing."""
        self._misses += 1
        at = raw.find(b'"text"')
        at = raw.find(text, at + len(b'"text"')) if at >= 0 else -1
        written = out.find(b'"content":' + text)
        if self._misses > _MOST_MISSES or at < 0 or written < 0 or not raw.startswith(b"data: "):
            return
        before, after = raw[:at], raw[at + len(text) :]
        written += len(b'"content":')
        chat = out[:written], out[written + len(text) :]
        # The places that were found may be others, in logprobs for instance.
        probes = [(before[6:], after, ("text",)), (chat[0][6:], chat[1], ("delta", "content"))]
        if after and all(_stands(*probe) for probe in probes):
            self._shapes = [_Shape((before, after), chat), *self._shapes[: _MOST_SHAPES - 1]]

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


def _stands(before: bytes, after: bytes, path: tuple[str, ...]) -> bool:
    """Whether what stands between these bytes is the value at `path` of the only choice."""
    value = openai.read_value(before + _SENTINEL_JSON + after)
    for step in ("choices", 0, *path):
        try:
            value = value[step]
        except (TypeError, LookupError):
            return False
    return bool(value == _SENTINEL)


def _head(top: openai.Fields) -> dict[str, Any]:
    own = openai.read_text(top.get("id"))
    return {"id": f"chat{own}"} if own is not None and own.startswith(_ID) else {}


def _entry(token: Any, logprob: Any) -> dict[str, Any]:
    text = token if isinstance(token, str) else str(token)
    return {"token": text, "logprob": logprob, "bytes": list(text.encode("utf-8", "replace"))}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
