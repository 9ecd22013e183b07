"""Google's event stream as OpenAI's, as it arrives: each event is a whole GenerateContentResponse."""

from __future__ import annotations

from typing import Any

from ...errors import ToolCallError
from ...wire import openai
from ...wire.sse import DONE, EventReader, TooLargeError
from .answer import MAX_SHOWN, Candidate, Head, blocked_by, error_of, finish_reason_of, usage_of

_CHUNK = "chat.completion.chunk"


class Stream:
    """Bytes of Google's event stream in, OpenAI's events out.

    expected: how many candidates were asked for. limit: bytes that an event may take.
    """

    def __init__(self, model: str, *, include_usage: bool, expected: int = 1, limit: int | None = None) -> None:
        self._head = Head(model)
        self._include_usage = include_usage
        self._expected = expected
        self._reader = EventReader(limit)
        self._candidates: dict[int, Candidate] = {}
        self._last: dict[str, Any] = {}
        self._usage: dict[str, Any] | None = None
        self.done = False

    def feed(self, data: bytes) -> bytes:
        """The next bytes, cut anywhere."""
        if self.done:
            return b""
        try:
            events = self._reader.feed(data)
        except TooLargeError:
            return self._fail(ToolCallError("upstream_error", "An event of the upstream's stream is too large."))
        return b"".join(self._event(event.data) for event in events)

    def finish(self, *, cut: bool) -> bytes:
        """The stream is over. Google's has no mark for its end: it is complete when its candidates have a reason."""
        out = b"".join(self._event(event.data) for event in self._reader.finish())
        if self.done:
            return out
        complete = bool(self._candidates) and all(one.finished for one in self._candidates.values())
        if cut and (not complete or len(self._candidates) < self._expected):
            return out
        if not complete:
            what = "broke off before the answer was complete" if self._candidates else "ended without an answer"
            return out + self._fail(ToolCallError("upstream_error", f"The upstream's stream {what}."))
        self.done = True
        if self._include_usage and self._usage is not None:
            chunk = {**self._head.of(self._last, _CHUNK), "choices": [], "usage": self._usage}
            out += openai.event(openai.encode(chunk))
        return out + DONE

    def _event(self, data: bytes | None) -> bytes:
        if data is None or self.done:
            return b""
        top = openai.read_value(data)
        top = top[0] if isinstance(top, list) and len(top) == 1 else top
        if not isinstance(top, dict):
            text = data[:MAX_SHOWN].decode("utf-8", "replace")
            return self._fail(ToolCallError("upstream_error", f"An event of the upstream's stream is no JSON: {text}"))
        if top.get("error") is not None:
            return self._fail(error_of(data, None))
        self._last = top
        self._usage = usage_of(top.get("usageMetadata")) or self._usage
        head = self._head.of(top, _CHUNK)
        out: list[bytes] = []
        candidates = top.get("candidates")
        for place, fields in enumerate(candidates if isinstance(candidates, list) else ()):
            if isinstance(fields, dict):
                index = fields.get("index")
                out += self._candidate(head, index if isinstance(index, int) else place, fields)
                if self.done:
                    return b"".join(out)
        if not self._candidates and (blocked := blocked_by(top)) is not None:
            for index in range(self._expected):
                candidate = self._candidates[index] = Candidate()
                candidate.finished = True
                delta = {"role": "assistant", "content": None, "refusal": blocked[1]}
                out.append(_chunk(head, index, delta))
                out.append(_chunk(head, index, {}, "content_filter", blocked[0]))
        return b"".join(out)

    def _candidate(self, head: dict[str, Any], index: int, fields: dict[str, Any]) -> list[bytes]:
        candidate = self._candidates.setdefault(index, Candidate())
        if candidate.finished:
            return []
        read = candidate.read(fields)
        out: list[bytes] = []
        delta: dict[str, Any] = {}
        if not candidate.begun:
            candidate.begun = True
            delta = {"role": "assistant", "content": ""}
        if read.reasoning:
            out.append(_chunk(head, index, {**delta, "reasoning": read.reasoning}))
            delta = {}
        if read.text or read.signature is not None or (delta and not out and not read.calls):
            delta["content"] = read.text
            if read.signature is not None:
                delta["extra_content"] = {"google": {"thought_signature": read.signature}}
            out.append(_chunk(head, index, delta))
            delta = {}
        if read.images:
            out.append(_chunk(head, index, {**delta, "images": read.images}))
            delta = {}
        # A call beside a fault is not the model's word.
        for call in read.calls if read.fault is None else ():
            function = call["function"]
            opened = {**call, "function": {**function, "arguments": ""}}
            out.append(_chunk(head, index, {**delta, "tool_calls": [opened]}))
            delta = {}
            piece = {"index": call["index"], "function": {"arguments": function["arguments"]}}
            out.append(_chunk(head, index, {"tool_calls": [piece]}))
        if read.fault is not None:
            out.append(self._fail(read.fault))
        elif read.reason is not None:
            candidate.finished = True
            reason = finish_reason_of(read.reason, calls=candidate.calls > 0)
            out.append(_chunk(head, index, {}, reason, read.reason))
        return out

    def _fail(self, error: ToolCallError) -> bytes:
        self.done = True
        return error.sse() + DONE


def _chunk(
    head: dict[str, Any], index: int, delta: dict[str, Any], reason: str | None = None, own: str | None = None
) -> bytes:
    choice: dict[str, Any] = {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}
    if own is not None:
        choice["native_finish_reason"] = own
    return openai.event(openai.encode({**head, "choices": [choice]}))
