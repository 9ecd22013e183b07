"""Token usage: the backend's own numbers where it gives any, else an estimate that says so.

A backend that was asked several times for one answer (retries) cost all of it: the numbers add up.
"""

from __future__ import annotations

import re
from typing import Any

import msgspec

from ..wire import openai
from ..wire.sse import EventReader, TooLargeError

_MAX_KEPT = 16 << 20  # bytes of a stream that are kept for counting

# Words, numbers in threes, punctuation and single wide characters: about what byte-pair vocabularies make of text.
_PIECE = re.compile(r"[A-Za-z]+|[0-9]{1,3}|[^\x00-\x7f]|[^A-Za-z0-9\s]+|\n+")
_LETTERS_A_TOKEN = 6
_TOKENS_A_MESSAGE = 4  # role and separators of a chat template
_SAMPLE = 1 << 16
_NEAR = 0.6  # an estimate errs by about a third


class UsageMeter:
    """Counts one exchange, over all its tries. `known`: take the backend's numbers; `count`: estimate without them.

    `limit`: how many tokens an answer may have, where that is of interest.
    """

    __slots__ = ("_backend", "_count", "_known", "_length", "_prompt", "_sample", "_tries", "limit")

    def __init__(self, *, known: bool = True, count: bool = True) -> None:
        self._known = known
        self._count = count
        self._tries: list[dict[str, Any] | None] = []
        self._prompt: bytes = b""
        self.limit: int | None = None
        self._begin()

    def _begin(self) -> None:
        self._backend: dict[str, Any] | None = None
        self._sample: list[str] = []
        self._length = 0

    def sent(self, body: bytes) -> None:
        """A request leaves for the backend."""
        self._prompt = body

    def wrote(self, text: str) -> None:
        """The model wrote `text`."""
        if self._length < _SAMPLE:
            self._sample.append(text)
        self._length += len(text)

    def saw(self, usage: Any) -> bool:
        """The backend gave numbers; the last ones of a try count (some engines send them with each chunk).

        True when they can go to the client as they are.
        """
        if not self._known or not isinstance(usage, dict) or not _is_count(usage.get("completion_tokens")):
            return False
        self._backend = usage
        return not self._tries and _is_count(usage.get("prompt_tokens")) and _is_count(usage.get("total_tokens"))

    def full(self) -> bool:
        """Whether this try has written about `limit` tokens: by the backend's numbers, else by estimate."""
        limit = self.limit
        if limit is None:
            return False
        if self._backend is not None:
            return bool(self._backend["completion_tokens"] >= limit)
        return estimate("".join(self._sample), self._length) >= limit * _NEAR

    def next_try(self) -> None:
        """This try is over and another one follows."""
        self._tries.append(self._this_try())
        self._begin()

    def total(self) -> dict[str, Any] | None:
        """The numbers for the client, in OpenAI's form; with `"estimated": true` where any of it is counted here.

        None where the backend gave none and nothing is to be counted.
        """
        tries = [usage for usage in (*self._tries, self._this_try()) if usage is not None]
        if not tries:
            return None
        total: dict[str, Any] = {}
        for usage in tries:
            _add(total, usage)
        return total

    def _this_try(self) -> dict[str, Any] | None:
        usage = self._backend
        if usage is None and not self._count:
            return None
        if usage is None:
            completion = estimate("".join(self._sample), self._length)
            usage = {"prompt_tokens": None, "completion_tokens": completion, "total_tokens": None, "estimated": True}
        if not _is_count(usage.get("prompt_tokens")):
            usage = {**usage, "prompt_tokens": estimate_prompt(self._prompt), "total_tokens": None, "estimated": True}
        if not _is_count(usage.get("total_tokens")):
            usage = {**usage, "total_tokens": usage["prompt_tokens"] + usage["completion_tokens"]}
        return usage


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def estimate(text: str, length: int | None = None) -> int:
    """About how many tokens `text` is for a common vocabulary. Long text is sampled.

    length: of the whole text, where `text` is only its beginning.
    """
    sample = text[:_SAMPLE]
    if not sample:
        return 0
    tokens = sum(1 + (len(piece) - 1) // _LETTERS_A_TOKEN for piece in _PIECE.findall(sample))
    return max(1, tokens * (len(text) if length is None else length) // len(sample))


def estimate_prompt(body: bytes) -> int:
    """About how many tokens the messages of a request are."""
    try:
        messages = msgspec.json.decode(body, type=_Prompt).messages
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return estimate(body.decode("utf-8", "replace"))
    total = 0
    for message in messages:
        total += _TOKENS_A_MESSAGE
        content = message.content
        if isinstance(content, str):
            total += estimate(content)
        elif isinstance(content, list):
            total += sum(estimate(part.get("text", "")) for part in content if isinstance(part.get("text", ""), str))
    return total


class _Message(msgspec.Struct):
    content: str | list[dict[str, Any]] | None = None


class _Prompt(msgspec.Struct):
    messages: list[_Message] = []


def _add(total: dict[str, Any], usage: dict[str, Any]) -> None:
    for name, value in usage.items():
        if isinstance(value, bool):
            total[name] = total.get(name) or value
        elif isinstance(value, int) and isinstance(total.get(name, 0), int):
            total[name] = total.get(name, 0) + value
        elif isinstance(value, dict) and isinstance(total.get(name, {}), dict):
            inner = dict(total.get(name, {}))
            _add(inner, value)
            total[name] = inner
        else:
            total[name] = value


class UsageTap:
    """A stream without tools whose client asks for usage: its bytes go on unchanged, unread but for their events.

    One chunk is added before `[DONE]`, and only when the backend sent no usage.
    """

    __slots__ = ("_kept", "_looking", "_meter", "_reader", "_size")

    def __init__(self, meter: UsageMeter, max_event_bytes: int | None = None) -> None:
        self._meter = meter
        self._reader = EventReader(max_event_bytes)
        self._kept: list[bytes] = []
        self._size = 0
        self._looking = True  # whether a usage chunk may still be due

    def feed(self, data: bytes) -> bytes:
        """The next bytes; what leaves."""
        if not self._looking:
            return self._reader.rest() + data
        out: list[bytes] = []
        try:
            events = self._reader.feed(data)
        except TooLargeError:
            self._looking = False
            return self._reader.rest()
        for event in events:
            if event.data is not None and self._looking:
                if event.data.strip() == b"[DONE]":
                    out.append(self._chunk())
                    self._looking = False
                else:
                    self._look(event.data)
            out.append(event.raw)
        return b"".join(out)

    def finish(self) -> bytes:
        """The end of the stream: what it broke off in the middle of."""
        return self._reader.rest()

    def _look(self, payload: bytes) -> None:
        if b'"usage"' in payload or b'"error"' in payload:
            fields = openai.read_object(payload) or {}
            if not openai.is_null(fields.get("usage")) or not openai.is_null(fields.get("error")):
                self._looking = False
                self._kept.clear()
                return
        if self._size < _MAX_KEPT:
            self._kept.append(payload)
            self._size += len(payload)

    def _chunk(self) -> bytes:
        head: openai.Fields = {}
        for payload in self._kept:
            fields = openai.read_object(payload) or {}
            for choice in openai.read_objects(fields.get("choices")) or []:
                head = fields
                delta = openai.read_object(choice.get("delta")) or {}
                for name in ("content", "reasoning", "reasoning_content"):
                    self._meter.wrote(openai.read_text(delta.get(name)) or "")
        return usage_chunk(head, self._meter) if head else b""


def usage_chunk(head: openai.Fields, meter: UsageMeter) -> bytes:
    """The last chunk of a stream, with the head of another one; empty where there are no numbers."""
    usage = meter.total()
    if usage is None:
        return b""
    body = {name: value for name, value in head.items() if name in openai.HEAD}
    return openai.event(msgspec.json.encode({**body, "choices": [], "usage": usage}))
