"""Google's answers as OpenAI's: candidates, calls, reasons, usage, errors. Streams share it (stream.py).

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
