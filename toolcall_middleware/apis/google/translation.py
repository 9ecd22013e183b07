"""Translates chat completions to Google's Gemini API: one request (see request.py) and its answer.

Candidates, calls, reasons, usage and errors become OpenAI's. A stream's pieces are whole GenerateContentResponses: text
and thoughts come in pieces, a call in one.
"""

from __future__ import annotations

import math
import re
import secrets
import time
from collections.abc import Iterator
from typing import Any

from ...errors import ToolCallError
from ...wire import openai
from ...wire.openai import ALPHABET, new_call_id
from ...wire.sse import ServerEvent
from ..context_errors import CONTEXT, is_context_error
from ..passage import Passage
from ..upstream import Chunk, TranslatedRequest, Translation, UpstreamAnswer, asks_usage
from .request import model_path, translate

_ID_CHARACTERS = frozenset(ALPHABET + "_-.:")
_MAX_ID = 64
_MAX_SHOWN = 2000
_SECONDS = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,9})?)s")

_LENGTH = frozenset({"MAX_TOKENS", "CONTINUATION"})
# Reasons that are faults of the model or of Google: the answer is unusable.
_FAULTS = {
    "MALFORMED_FUNCTION_CALL": ("malformed_tool_arguments", "The model wrote a function call that cannot be read"),
    "UNEXPECTED_TOOL_CALL": ("unknown_tool_call", "The model called a function that it was not offered"),
    "MISSING_THOUGHT_SIGNATURE": ("invalid_request", "A call in the history lacks its thought signature"),
    "TOO_MANY_TOOL_CALLS": ("upstream_error", "The model called too many of Google's own tools"),
    "MALFORMED_RESPONSE": ("upstream_error", "The model's answer cannot be read"),
}


def _finish_reason(reason: str, *, calls: bool) -> str:
    """OpenAI's finish reason. All that are neither an end nor a limit are policies: `content_filter`."""
    if reason in {"STOP", "FINISH_REASON_UNSPECIFIED"}:
        return "tool_calls" if calls else "stop"
    return "length" if reason in _LENGTH else "content_filter"


def _usage_of(metadata: Any) -> dict[str, Any] | None:
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


def _blocked_by(top: dict[str, Any]) -> tuple[str, str] | None:
    """(the reason, a sentence about it) where the prompt itself was refused."""
    feedback = top.get("promptFeedback")
    reason = feedback.get("blockReason") if isinstance(feedback, dict) else None
    if not isinstance(reason, str) or not isinstance(feedback, dict):
        return None
    said = feedback.get("blockReasonMessage")
    return reason, f"The prompt was blocked ({reason})" + (f": {said}" if isinstance(said, str) and said else ".")


class GoogleAnswer(UpstreamAnswer):
    """One answer, of one or more GenerateContentResponses. expected: how many candidates were asked for."""

    def __init__(self, model: str, *, include_usage: bool = False, expected: int = 1, limit: int | None = None) -> None:
        super().__init__(model, int(time.time()), include_usage=include_usage, limit=limit)
        self._model = model
        self._expected = expected
        self._candidates: dict[int, _Candidate] = {}
        self._counted: dict[str, Any] | None = None

    def whole(self, data: bytes) -> bytes:
        """A GenerateContentResponse as a chat completion. Raises ToolCallError."""
        top = openai.read_value(data)
        if not isinstance(top, dict):
            text = data[:_MAX_SHOWN].decode("utf-8", "replace")
            raise ToolCallError("upstream_error", f"The upstream's answer is no GenerateContentResponse: {text}")
        joined = self._joined(self._response(top, ended="STOP"))
        if not self.begun:
            raise ToolCallError("upstream_error", "The upstream's answer holds no candidate.")
        return joined

    def _read(self, event: ServerEvent) -> Iterator[Chunk]:
        data = event.data or b""
        top = openai.read_value(data)
        top = top[0] if isinstance(top, list) and len(top) == 1 else top
        if not isinstance(top, dict):
            text = data[:_MAX_SHOWN].decode("utf-8", "replace")
            raise ToolCallError("upstream_error", f"An event of the upstream's stream is no JSON: {text}")
        if top.get("error") is not None:
            raise error_of(data, None)
        yield from self._response(top)

    def _is_complete(self, *, cut: bool) -> bool:
        """Google's stream has no mark for its end: it is complete when its candidates have a reason."""
        found = self._candidates.values()
        return self.begun and all(one.finished for one in found) and not (cut and len(found) < self._expected)

    def _usage(self) -> dict[str, Any] | None:
        return self._counted

    def _response(self, top: dict[str, Any], ended: str | None = None) -> Iterator[Chunk]:
        """The chunks of one response. ended: the reason for candidates that end without one."""
        self._counted = _usage_of(top.get("usageMetadata")) or self._counted
        answer_id = self._head["id"]
        if not answer_id:
            given = top.get("responseId")
            good = isinstance(given, str) and 0 < len(given) <= 200
            answer_id = f"chatcmpl-{given if good else secrets.token_hex(12)}"
        version = top.get("modelVersion")
        self._head |= {"id": answer_id, "model": version if isinstance(version, str) and version else self._model}
        candidates = top.get("candidates")
        for place, fields in enumerate(candidates if isinstance(candidates, list) else ()):
            if isinstance(fields, dict):
                self.begun = True
                index = fields.get("index")
                index = index if isinstance(index, int) else place
                candidate = self._candidates.setdefault(index, _Candidate(index))
                reason = fields.get("finishReason")
                yield from candidate.read(fields, reason if isinstance(reason, str) and reason else ended)
        if not self._candidates and (blocked := _blocked_by(top)) is not None:
            self.begun = True
            for index in range(self._expected):
                self._candidates[index] = _Candidate(index, finished=True)
                yield Chunk({"role": "assistant", "content": None, "refusal": blocked[1]}, index)
                yield Chunk({}, index, "content_filter", blocked[0])


class _Candidate:
    """One candidate over all pieces of an answer."""

    def __init__(self, index: int, *, finished: bool = False) -> None:
        self.finished = finished
        self._index = index
        self._calls = 0
        self._ids: set[str] = set()
        # What begins the next chunk: the first has the role.
        self._begin: dict[str, Any] = {"role": "assistant", "content": ""}

    def read(self, candidate: dict[str, Any], reason: str | None) -> Iterator[Chunk]:
        """The chunks of the next piece. Raises ToolCallError if the model's answer ended in a fault."""
        if self.finished:
            return
        content = candidate.get("content")
        parts = content.get("parts") if isinstance(content, dict) else None
        parts = [part for part in parts if isinstance(part, dict)] if isinstance(parts, list) else []
        calls = [part for part in parts if isinstance(part.get("functionCall"), dict)]
        said: dict[str, list[Any]] = {"reasoning": [], "content": [], "images": []}
        signed: dict[str, Any] = {}
        for part in parts:
            if not isinstance(part.get("functionCall"), dict):
                field, value = _said(part)
                said[field].append(value)
                signed = _signed(part) or signed
        if reasoning := "".join(said["reasoning"]):
            yield self._chunk({"reasoning": reasoning})
        text = "".join(said["content"])
        if text or signed or (self._begin and not calls):
            yield self._chunk({"content": text, **signed})
        if said["images"]:
            yield self._chunk({"images": said["images"]})
        if reason in _FAULTS:
            # A call in an answer with a fault is not reliable.
            code, what = _FAULTS[reason]
            message = candidate.get("finishMessage")
            detail = f": {message[:_MAX_SHOWN]}" if isinstance(message, str) and message else ""
            raise ToolCallError(code, f"{what} (finishReason {reason}){detail}.")
        for part in calls:
            yield from self._call(part["functionCall"], _signed(part))
        if reason is not None:
            self.finished = True
            yield self._chunk({}, _finish_reason(reason, calls=self._calls > 0), reason)

    def _chunk(self, delta: dict[str, Any], reason: str | None = None, own: str | None = None) -> Chunk:
        begin, self._begin = self._begin, {}
        return Chunk({**begin, **delta}, self._index, reason, own)

    def _call(self, call: dict[str, Any], signed: dict[str, Any]) -> Iterator[Chunk]:
        given, args = call.get("id"), call.get("args")
        good = isinstance(given, str) and 0 < len(given) <= _MAX_ID and _ID_CHARACTERS.issuperset(given)
        call_id = str(given) if good and given not in self._ids else new_call_id()
        self._ids.add(call_id)
        function = {"name": str(call.get("name") or ""), "arguments": ""}
        opened = {"index": self._calls, "id": call_id, "type": "function", "function": function, **signed}
        yield self._chunk({"tool_calls": [opened]})
        arguments = openai.encode(args if isinstance(args, dict) else {}).decode()
        yield self._chunk({"tool_calls": [{"index": self._calls, "function": {"arguments": arguments}}]})
        self._calls += 1


def _said(part: dict[str, Any]) -> tuple[str, Any]:
    """(the field of a delta, what a part that is no call adds to it)."""
    is_thought = part.get("thought") is True
    if isinstance(text := part.get("text"), str):  # without `match`, which takes ten times as long
        return "reasoning" if is_thought else "content", text
    if isinstance(data := part.get("inlineData"), dict):
        if str(kind := data.get("mimeType")).startswith("image/") and not is_thought:
            url = f"data:{kind};base64,{data.get('data')}"
            return "images", {"type": "image_url", "image_url": {"url": url}}
    elif isinstance(code := part.get("executableCode"), dict):
        return "content", f"\n```{str(code.get('language', '')).lower()}\n{code.get('code', '')}\n```\n"
    elif isinstance(result := part.get("codeExecutionResult"), dict):
        return "content", f"\n```\n{result.get('output', '')}\n```\n"
    return "content", ""


def _signed(part: dict[str, Any]) -> dict[str, Any]:
    """The signature of a part, as a field of a delta or a call."""
    signature = part.get("thoughtSignature")
    has_one = isinstance(signature, str) and signature
    return {"extra_content": {"google": {"thought_signature": signature}}} if has_one else {}


# -- errors --------------------------------------------------------------------------------------------------------


def error_of(data: bytes, status: int | None) -> ToolCallError:
    """Google's error (`{"error": {code, message, status, details}}`, or a list of one) as ours.

    The HTTP status is kept. Google's name for it (`INVALID_ARGUMENT`) is the code, and the field that it blames the
    param. How long to wait before another try Google says in the body (google.rpc.RetryInfo), OpenAI in a header.
    """
    error = openai.read_error(data, status)
    name, details = error.extra.pop("status", None), error.extra.get("details")
    if isinstance(name, str):
        error.code = name
    for detail in details if isinstance(details, list) else ():
        match detail:
            case {"retryDelay": str(delay)} if found := _SECONDS.fullmatch(delay):
                error.headers.setdefault("retry-after", str(math.ceil(float(found[1]))))
            case {"fieldViolations": [{"field": str(field)}, *_]} if field:
                error.param = error.param or field
    if is_context_error(error):
        error.code = CONTEXT  # clients shorten the prompt at this code
    return error


# -- the translation -----------------------------------------------------------------------------------------------


_PAGE = b"pageSize=1000"


class GoogleTranslation(Translation):
    """To `generateContent` and `streamGenerateContent`. limit: bytes that an event of a stream may take."""

    def __init__(self, *, limit: int | None = None) -> None:
        self._limit = limit
        self._model = ""

    def request(self, body: bytes, _passage: Passage | None = None, /) -> TranslatedRequest:
        raw = openai.read_object(body)
        if raw is None:
            raise ToolCallError("invalid_json", "The request's body must be a JSON object.")
        request, fields = translate(raw)
        self._model = str(fields["model"])
        if fields.get("stream") is True:
            asked, expected = asks_usage(fields.get("stream_options")), int(fields.get("n") or 1)
            self.streamed = GoogleAnswer(self._model, include_usage=asked, expected=expected, limit=self._limit)
        return request

    def models(self, name: str | None, /) -> TranslatedRequest:
        self._lists = name is None
        if name is None:
            return TranslatedRequest(path="/v1beta/models", method="GET", query=_PAGE)
        return TranslatedRequest(path=f"/v1beta/{model_path(name)}", method="GET")

    def _error(self, data: bytes, status: int) -> ToolCallError:
        return error_of(data, status)

    def _completion(self, data: bytes) -> bytes:
        return GoogleAnswer(self._model).whole(data)

    def _listed(self, value: Any) -> list[dict[str, Any]] | dict[str, Any] | None:
        if not isinstance(value, dict):
            return None
        if not self._lists:
            return _model(value)
        models = value.get("models")
        return [_model(model) for model in models if isinstance(model, dict)] if isinstance(models, list) else []


def _model(fields: dict[str, Any]) -> dict[str, Any]:
    name = str(fields.get("name", "")).removeprefix("models/")
    return {"id": name, "object": "model", "created": 0, "owned_by": "google"}
