"""Google's answers as OpenAI's: candidates, calls, reasons, usage, errors.

A stream's pieces are whole GenerateContentResponses: text and thoughts come in pieces, a call in one.
"""

from __future__ import annotations

import math
import re
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from ...errors import ToolCallError
from ...wire import openai
from ...wire.openai import ALPHABET, new_call_id
from ...wire.sse import DONE, EventReader, TooLargeError
from ..context_errors import CONTEXT, is_context_error

_ID_CHARACTERS = frozenset(ALPHABET + "_-.:")
_MAX_ID = 64
MAX_SHOWN = 2000
_SECONDS = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,9})?)s")

_LENGTH = frozenset({"MAX_TOKENS", "CONTINUATION"})
# The model's faults, and Google's: no answer that could go on.
_FAULTS = {
    "MALFORMED_FUNCTION_CALL": ("malformed_tool_arguments", "The model wrote a function call that cannot be read"),
    "UNEXPECTED_TOOL_CALL": ("unknown_tool_call", "The model called a function that it was not offered"),
    "MISSING_THOUGHT_SIGNATURE": ("invalid_request", "A call in the history lacks its thought signature"),
    "TOO_MANY_TOOL_CALLS": ("upstream_error", "The model called too many of Google's own tools"),
    "MALFORMED_RESPONSE": ("upstream_error", "The model's answer cannot be read"),
}


def finish_reason_of(reason: str, *, calls: bool) -> str:
    """OpenAI's word. What is neither an end nor a limit has cut the answer by some policy: `content_filter`."""
    if reason in {"STOP", "FINISH_REASON_UNSPECIFIED"}:
        return "tool_calls" if calls else "stop"
    return "length" if reason in _LENGTH else "content_filter"


def usage_of(metadata: Any) -> dict[str, Any] | None:
    """`usageMetadata` as OpenAI's usage; thoughts are part of what was written. None where it says nothing."""
    if not isinstance(metadata, dict):
        return None

    def count(name: str) -> int:
        value = metadata.get(name)
        return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else 0

    prompt = count("promptTokenCount") + count("toolUsePromptTokenCount")
    thoughts = count("thoughtsTokenCount")
    completion = count("candidatesTokenCount") + thoughts
    if not prompt and not completion:
        return None
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": count("cachedContentTokenCount")},
        "completion_tokens_details": {"reasoning_tokens": thoughts},
    }


@dataclass(slots=True)
class Delta:
    """What one response says of a candidate. `calls` are OpenAI's, complete, each with its index."""

    text: str = ""
    reasoning: str = ""
    signature: str | None = None  # of the text
    images: list[dict[str, Any]] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    reason: str | None = None
    fault: ToolCallError | None = None  # the end is one


class Candidate:
    """One candidate over all pieces of an answer."""

    __slots__ = ("_ids", "begun", "calls", "finished")

    def __init__(self) -> None:
        self.calls = 0
        self.begun = False
        self.finished = False
        self._ids: set[str] = set()

    def read(self, candidate: dict[str, Any]) -> Delta:
        """The next piece."""
        delta = Delta()
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        for part in parts if isinstance(parts, list) else ():
            if isinstance(part, dict):
                self._part(part, delta)
        reason = candidate.get("finishReason")
        if isinstance(reason, str) and reason:
            if reason in _FAULTS:
                delta.fault = _fault(reason, candidate.get("finishMessage"))
            delta.reason = reason
        return delta

    def _part(self, part: dict[str, Any], delta: Delta) -> None:
        text, call, signature = part.get("text"), part.get("functionCall"), part.get("thoughtSignature")
        if isinstance(call, dict):
            self._call(call, signature if isinstance(signature, str) else None, delta)
            return
        if isinstance(text, str):
            if part.get("thought") is True:
                delta.reasoning += text
            else:
                delta.text += text
        elif isinstance(data := part.get("inlineData"), dict):
            if str(kind := data.get("mimeType")).startswith("image/") and part.get("thought") is not True:
                url = f"data:{kind};base64,{data.get('data')}"
                delta.images.append({"type": "image_url", "image_url": {"url": url}})
        elif isinstance(code := part.get("executableCode"), dict):
            delta.text += f"\n```{str(code.get('language', '')).lower()}\n{code.get('code', '')}\n```\n"
        elif isinstance(result := part.get("codeExecutionResult"), dict):
            delta.text += f"\n```\n{result.get('output', '')}\n```\n"
        if isinstance(signature, str) and signature:
            delta.signature = signature

    def _call(self, call: dict[str, Any], signature: str | None, delta: Delta) -> None:
        given, args = call.get("id"), call.get("args")
        good = isinstance(given, str) and 0 < len(given) <= _MAX_ID and _ID_CHARACTERS.issuperset(given)
        call_id = str(given) if good and given not in self._ids else new_call_id()
        self._ids.add(call_id)
        arguments = openai.encode(args if isinstance(args, dict) else {}).decode()
        made: dict[str, Any] = {
            "index": self.calls,
            "id": call_id,
            "type": "function",
            "function": {"name": str(call.get("name") or ""), "arguments": arguments},
        }
        if signature:
            made["extra_content"] = {"google": {"thought_signature": signature}}
        self.calls += 1
        delta.calls.append(made)


def _fault(reason: str, message: Any) -> ToolCallError:
    code, what = _FAULTS[reason]
    said = f": {message[:MAX_SHOWN]}" if isinstance(message, str) and message else ""
    return ToolCallError(code, f"{what} (finishReason {reason}){said}.")


def blocked_by(top: dict[str, Any]) -> tuple[str, str] | None:
    """(the reason, a sentence about it) where the prompt itself was refused."""
    feedback = top.get("promptFeedback")
    reason = feedback.get("blockReason") if isinstance(feedback, dict) else None
    if not isinstance(reason, str) or not isinstance(feedback, dict):
        return None
    said = feedback.get("blockReasonMessage")
    return reason, f"The prompt was blocked ({reason})" + (f": {said}" if isinstance(said, str) and said else ".")


class Head:
    """What is the same in each chunk of an answer."""

    def __init__(self, model: str) -> None:
        self._id = ""
        self._model = model
        self._created = int(time.time())

    def of(self, top: dict[str, Any], kind: str) -> dict[str, Any]:
        """The head of a chunk or of a whole answer."""
        if not self._id:
            given = top.get("responseId")
            good = isinstance(given, str) and 0 < len(given) <= 200
            self._id = f"chatcmpl-{given if good else secrets.token_hex(12)}"
        version = top.get("modelVersion")
        model = version if isinstance(version, str) and version else self._model
        return {"id": self._id, "object": kind, "created": self._created, "model": model}


# -- a whole answer ------------------------------------------------------------------------------------------------


def whole(data: bytes, model: str) -> bytes:
    """A GenerateContentResponse as a chat completion. Raises ToolCallError."""
    top = openai.read_value(data)
    if not isinstance(top, dict):
        text = data[:MAX_SHOWN].decode("utf-8", "replace")
        raise ToolCallError("upstream_error", f"The upstream's answer is no GenerateContentResponse: {text}")
    head = Head(model).of(top, "chat.completion")
    choices = [
        _choice(candidate, index)
        for index, candidate in enumerate(top.get("candidates") or ())
        if isinstance(candidate, dict)
    ]
    if not choices:
        blocked = blocked_by(top)
        if blocked is None:
            raise ToolCallError("upstream_error", "The upstream's answer holds no candidate.")
        message = {"role": "assistant", "content": None, "refusal": blocked[1]}
        choices = [_told(0, message, "content_filter", blocked[0])]
    usage = usage_of(top.get("usageMetadata"))
    return openai.encode({**head, "choices": choices, **({"usage": usage} if usage else {})})


def _choice(fields: dict[str, Any], place: int) -> dict[str, Any]:
    candidate = Candidate()
    delta = candidate.read({"finishReason": "STOP", **fields})
    if delta.fault is not None:
        raise delta.fault
    message: dict[str, Any] = {"role": "assistant", "content": delta.text or (None if delta.calls else "")}
    if delta.reasoning:
        message["reasoning"] = delta.reasoning
    if delta.images:
        message["images"] = delta.images
    if delta.signature is not None:
        message["extra_content"] = {"google": {"thought_signature": delta.signature}}
    if delta.calls:
        message["tool_calls"] = [{name: call[name] for name in call if name != "index"} for call in delta.calls]
    index = fields.get("index")
    own = str(delta.reason)
    reason = finish_reason_of(own, calls=bool(delta.calls))
    return _told(index if isinstance(index, int) else place, message, reason, own)


def _told(index: int, message: dict[str, Any], reason: str, own: str) -> dict[str, Any]:
    return {
        "index": index,
        "message": message,
        "logprobs": None,
        "finish_reason": reason,
        "native_finish_reason": own,
    }


# -- errors --------------------------------------------------------------------------------------------------------


def error_of(data: bytes, status: int | None) -> ToolCallError:
    """Google's error (`{"error": {code, message, status, details}}`, or a list of one) as ours.

    The HTTP status is kept. Google's name for it (`INVALID_ARGUMENT`) is the code, and the field that it blames the
    param. A prompt that is too long has OpenAI's code instead: clients shorten the prompt when they see it.
    """
    error = openai.read_error(data, status)
    name, details = error.extra.pop("status", None), error.extra.get("details")
    if isinstance(name, str):
        error.code = name
    error.param = error.param or _blamed(details)
    error.headers |= _wait(details)
    if is_context_error(error):
        error.code = CONTEXT
    return error


def _wait(details: Any) -> dict[str, str]:
    """How long to wait before another try: Google says it in the body (google.rpc.RetryInfo), OpenAI in a header."""
    for detail in details if isinstance(details, list) else ():
        match detail:
            case {"retryDelay": str(delay)} if found := _SECONDS.fullmatch(delay):
                return {"retry-after": str(math.ceil(float(found[1])))}
    return {}


def _blamed(details: Any) -> str | None:
    for detail in details if isinstance(details, list) else ():
        match detail:
            case {"fieldViolations": [{"field": str(name)}, *_]} if name:
                return name
    return None


# -- Google's event stream as OpenAI's, as it arrives: each event is a whole GenerateContentResponse -------------------


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
