"""Chat-completion chunks and answers as bytes: read what matters, keep the rest to the byte.

Values that are not read here stay `msgspec.Raw`, so unknown fields survive with their spelling.
"""

from __future__ import annotations

import html
import json
import math
import re
import secrets
import string
import time
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec

from ..errors import ErrorBody, ToolCallError, status_of
from .json_input import LARGE

Fields = dict[str, msgspec.Raw]

_object = msgspec.json.Decoder(Fields)
_objects = msgspec.json.Decoder(list[Fields])
_text = msgspec.json.Decoder(str)
_raw = msgspec.json.Decoder(msgspec.Raw)
_raws = msgspec.json.Decoder(list[msgspec.Raw])
_encode = msgspec.json.encode
_SENTINEL = "\x00toolcall\x00"
_SENTINEL_JSON = _encode(_SENTINEL)
FAILURES = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are no JSON, or not of the type that is asked for."""
_MAX_SHOWN = 4000
_MAX_PAGE = 16384  # characters of an HTML page of which the words are read
_UNSEEN = re.compile(r"<(script|style)\b", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_ENVELOPE = frozenset({"message", "type", "param", "code"})
NULL = msgspec.Raw(b"null")
REASONING_FIELDS = ("reasoning", "reasoning_content")
"""Where backends put reasoning in a message; some use both."""
_ONE_LINE = bytes.maketrans(b"\r\n", b"  ")

# What is the same in each chunk of an answer.
HEAD = frozenset({"id", "object", "created", "model", "system_fingerprint", "service_tier"})


# -- reading -------------------------------------------------------------------------------------------------------


def usage_of(top: Fields) -> Any:
    """The usage in a chunk or answer; Groq's streams have it under `x_groq`. None where there is none."""
    usage = read_value(top.get("usage"))
    if usage is None and isinstance(beside := read_value(top.get("x_groq")), dict):
        usage = beside.get("usage")
    return usage


def output_tokens(usage: Mapping[str, Any]) -> int | None:
    """The tokens that the model wrote. A total that is larger than the sum counts reasoning beside the completion."""
    prompt, written, total = (_count(usage.get(f"{name}_tokens")) for name in ("prompt", "completion", "total"))
    if written is None or prompt is None or total is None:
        return written
    return max(written, total - prompt)


def _count(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def read_object(data: bytes | msgspec.Raw | None) -> Fields | None:
    """A JSON object's fields, raw; None when `data` is no JSON object."""
    if data is None:
        return None
    try:
        return _object.decode(data)
    except FAILURES:
        value = _lenient(data)
        return _raw_fields(value) if isinstance(value, dict) else None


def read_objects(data: bytes | msgspec.Raw | None) -> list[Fields] | None:
    """A JSON array of objects; None when it is none."""
    if data is None:
        return None
    try:
        if len(bytes(data)) > LARGE:  # one by one: other threads get their turns in between
            return [_object.decode(each) for each in _raws.decode(data)]
        return _objects.decode(data)
    except FAILURES:
        value = _lenient(data)
        if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
            return None
        return [_raw_fields(item) for item in value]


def read_text(data: bytes | msgspec.Raw | None) -> str | None:
    """A JSON string; None when it is none."""
    if data is None or bytes(data) == b"null":
        return None
    try:
        return _text.decode(data)
    except FAILURES:
        value = _lenient(data)
        return value if isinstance(value, str) else None


def read_value(data: bytes | msgspec.Raw | None) -> Any:
    """Any JSON value; None when it cannot be read."""
    if data is None:
        return None
    try:
        return msgspec.json.decode(data)
    except FAILURES:
        return _lenient(data)


class _Named(msgspec.Struct):
    model: str = ""


def model_of(body: bytes) -> str:
    """The model that a body names; empty when it names none."""
    try:
        return msgspec.json.decode(body, type=_Named).model
    except FAILURES:
        return ""


def is_null(data: msgspec.Raw | None) -> bool:
    """Whether a field is absent or null."""
    return data is None or bytes(data) == b"null"


def _finite(text: str) -> float | None:
    number = float(text)
    return number if math.isfinite(number) else None


_read_leniently = json.JSONDecoder(parse_float=_finite, parse_constant=lambda _word: None).decode


def _lenient(data: bytes | msgspec.Raw) -> Any:
    """What engines write and msgspec does not read: NaN and -Infinity as logprobs, a lone surrogate, broken UTF-8.

    JSON has no word for the first two, and what is read here may be written again: they are null.
    """
    try:
        return _read_leniently(bytes(data).decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None


def _raw_fields(value: dict[str, Any]) -> Fields:
    # A name that holds a lone surrogate could not be written again.
    return {
        name.encode("utf-8", "replace").decode(): msgspec.Raw(json.dumps(item).encode()) for name, item in value.items()
    }


# -- writing -------------------------------------------------------------------------------------------------------


def raw(value: Any) -> msgspec.Raw:
    """A value as raw JSON."""
    return msgspec.Raw(encode(value))


def encode(value: Any) -> bytes:
    """A value as JSON. A lone surrogate, which has no bytes, stays an escape."""
    try:
        return _encode(value)
    except UnicodeEncodeError:
        return json.dumps(value, default=_lenient).encode()  # of what is no JSON value only msgspec.Raw is ever written


def without_constants(data: bytes) -> bytes:
    """The same JSON with null for NaN and Infinity, which no JSON has; `data` itself where there are none."""
    if b"NaN" not in data and b"Infinity" not in data:
        return data
    try:
        _raw.decode(data)
    except FAILURES:
        value = _lenient(data)
        return data if value is None else encode(value)
    return data  # they are in a string


def with_fields(body: bytes, fields: dict[str, Any]) -> bytes:
    """A JSON object with more fields."""
    return _encode({**(read_object(body) or {}), **{name: raw(value) for name, value in fields.items()}})


def without_field(body: bytes, name: str) -> bytes:
    """A JSON object with one field less."""
    fields = read_object(body) or {}
    return _encode({key: value for key, value in fields.items() if key != name}) if name in fields else body


def one_line(payload: bytes) -> bytes:
    """JSON without line ends, which occur only between its tokens: an event's data is one line."""
    return payload.translate(_ONE_LINE)


def event(payload: bytes) -> bytes:
    """One SSE event."""
    return b"data: " + payload + b"\n\n"


def new_head(model: str, kind: str) -> Fields:
    """What an answer says of itself: `id`, `object`, `created` and `model`. kind: `chat.completion`, or its chunk."""
    identity = "chatcmpl-" + new_call_id().removeprefix("call_")
    return {"id": raw(identity), "object": raw(kind), "created": raw(int(time.time())), "model": raw(model)}


def missing(head: Fields, top: Fields) -> Fields:
    """The fields of `head` that an answer omits. An error is no answer."""
    absent = {name: value for name, value in head.items() if (said := top.get(name)) is None or bytes(said) == b"null"}
    return absent if absent and not is_error(top) else {}


Frame = tuple[bytes, bytes]
"""The bytes of an event before and after a JSON value in it."""


def frame_of_delta(top: Fields, choice: Fields) -> Frame:
    """A chunk of one choice around its delta, finish_reason null and without usage, as a whole SSE event."""
    inner = {**choice, "delta": msgspec.Raw(_SENTINEL_JSON), "finish_reason": NULL}
    body: dict[str, Any] = {**top, "choices": [inner]}
    body.pop("usage", None)
    before, _, after = event(_encode(body)).partition(_SENTINEL_JSON)
    return before, after


def frame_of_content(raw: bytes, data: bytes, content: msgspec.Raw) -> Frame | None:
    """The event `raw` around the `delta.content` of its only choice; None where that place is not certain.

    An event with the same bytes before and after, and one JSON string between, differs in its content only. data: the
    event's data, which must be one line. content: the string as it is written there.
    """
    written = bytes(content)
    at = data.find(b'"content"')
    at = at if at < 0 else data.find(written, at + 9)
    start, _, end = raw.partition(data)
    if at < 0 or not start.endswith((b"data: ", b"data:")) or end.strip(b"\r\n"):
        return None
    before, after = data[:at], data[at + len(written) :]
    # The place that was found may be another one, in logprobs for instance.
    probe = read_object(before + _SENTINEL_JSON + after)
    choices = read_objects(probe.get("choices")) if probe else None
    delta = read_object(choices[0].get("delta")) if choices else None
    if not delta or read_text(delta.get("content")) != _SENTINEL:
        return None
    return start + before, after + end


# -- chunks that hold text alone -----------------------------------------------------------------------------------


class TypedDelta(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """A delta that holds nothing but text."""

    content: str
    role: str | None = None
    refusal: None = None
    reasoning: None = None
    reasoning_content: None = None
    tool_calls: None = None
    function_call: None = None


class TypedChoice(msgspec.Struct, gc=False):
    """A choice that continues. Other fields, such as logprobs, are not read here."""

    index: int
    delta: TypedDelta
    finish_reason: Literal[""] | None = None


class TypedChunk(msgspec.Struct, gc=False):
    """A chunk that holds some text and nothing else. Other fields are not read here."""

    choices: tuple[TypedChoice]
    usage: None = None
    error: None = None


read_by_type: Callable[[bytes], TypedChunk] = msgspec.json.Decoder(TypedChunk).decode
"""Reads a chunk that holds some text and nothing else, as most chunks do. Raises one of `FAILURES` for others."""


# -- errors --------------------------------------------------------------------------------------------------------


def is_error(fields: Fields) -> bool:
    """Whether a JSON object is an error: `{"error": …}`, the `{"object": "error", "message"}` of older vLLMs, or the
    `{"detail": …}` of FastAPI. An empty `error` is a gateway's way to say that there is none.
    """
    if not is_null(fields.get("error")) and read_value(fields["error"]):
        return True
    return "choices" not in fields and (
        not is_null(fields.get("detail")) or read_value(fields.get("object")) == "error"
    )


def broken_choice(choice: Fields) -> ToolCallError | None:
    """The error with which the backend broke off a choice, in its `error` or without a word (OpenRouter, Mistral)."""
    if read_text(choice.get("finish_reason")) != "error":
        return None
    if is_null(choice.get("error")):
        return ToolCallError("upstream_error", "The backend broke the answer off with an error, and does not say why.")
    return read_error(encode({"error": choice["error"]}))


def words_of(page: str) -> str:
    """The words of an HTML page, as gateways answer errors with, each line once; any other text as it is. Linear."""
    begin = page[:64].lower()
    if not begin.startswith(("<!doctype html", "<html")):
        return page
    page = page[:_MAX_PAGE]
    lower = page.lower()
    kept, at = [], 0
    while (found := _UNSEEN.search(page, at)) is not None:
        kept.append(page[at : found.start()])
        end = lower.find(f"</{found[1].lower()}", found.end())
        at = len(page) if end < 0 else end
    lines = [" ".join(html.unescape(line).split()) for line in _TAG.split("".join([*kept, page[at:]]))]
    return "; ".join(dict.fromkeys(line for line in lines if line))


def is_odd_content(message: Fields) -> bool:
    """Whether the content of a message or delta is neither a string nor null: parts that are not text."""
    content = bytes(message.get("content", NULL)).lstrip()
    return content[:1] not in {b"n", b'"', b""}


def parsed_error(data: bytes) -> bytes:
    """The body of an error with the JSON in it, which is parsed only once; a large one stays as it is."""
    return ErrorBody.carrying(data, lambda: read_value(data))


def error_value(data: bytes) -> Any:
    """The JSON value in the body of an error; None when it cannot be read."""
    return data.value if isinstance(data, ErrorBody) else read_value(data)


def read_error(data: bytes, status: int | None = None) -> ToolCallError:
    """A backend's error, in whatever form it came, as one of ours. Its text is kept, and its code.

    status: of the HTTP answer. An error in a stream has none, and its code tells.
    """
    value = error_value(data)
    if isinstance(value, list) and len(value) == 1:
        value = value[0]  # Google's, in its OpenAI API as well
    outer = value if isinstance(value, dict) else {}
    inner = outer.get("error")
    match outer.get("errors"):
        case [{"message": str()} as first, *_] if not inner:  # Cloudflare's
            inner = first
    fields = inner if isinstance(inner, dict) else outer  # {"error": {"message"}}, or {"object": "error", "message"}
    message = fields.get("message") or outer.get("detail") or inner  # FastAPI's {"detail"}, or {"error": "text"}
    code, kind, param = fields.get("code"), fields.get("type"), fields.get("param")
    if isinstance(code, bool) or not isinstance(code, str | int):
        code = None
    if status is None:
        status = status_of(code)
    if not isinstance(message, str | list | dict) or not message:
        text = words_of(data.decode("utf-8", "replace").strip())[:_MAX_SHOWN]
        message = text or f"The backend answered with status {status} and no text."
    return ToolCallError(
        code,
        message if isinstance(message, str) else encode(message).decode(),
        param=param if isinstance(param, str) else None,
        status=status,
        type=kind if isinstance(kind, str) and kind else None,
        extra={name: item for name, item in fields.items() if name not in _ENVELOPE} if fields is inner else None,
    )


# -- content that is a list of parts where OpenAI's API has a string ---------------------------------------------------
# Mistral's servers write thoughts so, Databricks' all that gpt-oss says.


THOUGHTS = frozenset({"thinking", "reasoning"})
"""Types of the parts that hold a thought."""
_TEXTS = frozenset({"text", "output_text"})


def thought_in(part: Any) -> str:
    """What a part says of a thought; empty where it is no such part."""
    if not isinstance(part, dict) or part.get("type") not in THOUGHTS:
        return ""
    said = next((part[name] for name in (part["type"], "text", "summary") if name in part), None)
    if isinstance(said, list):  # text parts within
        return "".join(text for inner in said if isinstance(inner, dict) and isinstance(text := inner.get("text"), str))
    return said if isinstance(said, str) else ""


def with_plain_content(said: Fields) -> Fields:
    """A message or delta with the text of its parts as `content` and their thoughts after its `reasoning`; `said`
    itself where its content is no list, or one with other parts.
    """
    if bytes(said.get("content", b""))[:1] != b"[":
        return said
    texts: list[str] = []
    thoughts: list[str] = []
    for part in read_value(said["content"]) or ():
        if not isinstance(part, dict):
            return said
        text = part.get("text")
        if part.get("type") in THOUGHTS:
            thoughts.append(thought_in(part))
        elif part.get("type") in _TEXTS and isinstance(text, str):
            texts.append(text)
        else:
            return said
    made = {**said, "content": raw("".join(texts)) if texts else NULL}
    if thought := "".join(thoughts):
        made["reasoning"] = raw((read_text(said.get("reasoning")) or "") + thought)
    return made


# -- the id of a call that has none ------------------------------------------------------------------------------------


ALPHABET = string.digits + string.ascii_letters
PREFIX = "call_"
_LENGTH = 24
# A random byte is a character of the alphabet; those above its last multiple are left out, or some were likelier.
_FAIR = 256 - 256 % len(ALPHABET)
_CHARACTERS = bytes(ord(ALPHABET[byte % len(ALPHABET)]) for byte in range(256))
_UNFAIR = bytes(range(_FAIR, 256))


def new_call_id() -> str:
    """`call_` and 24 random characters."""
    characters = b""
    while len(characters) < _LENGTH:
        # At once: `secrets.choice` asks the system for each character, and a call begins with this.
        characters += secrets.token_bytes(2 * _LENGTH).translate(_CHARACTERS, _UNFAIR)
    return PREFIX + characters[:_LENGTH].decode("ascii")


# -- the text that a call of a custom tool means -----------------------------------------------------------------------
# A model is shown such a tool as a function of one string, `input`.


def free_text(arguments: str) -> str:
    """The input in a call's arguments: `input`, the only text under another name, or a text by itself.

    What is none of these is the text.
    """
    try:
        value: Any = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    match value:
        case str():
            return value
        case {"input": str(text)}:
            return text
        case dict() if not value:
            return ""
        case dict() if len(value) == 1 and isinstance(text := next(iter(value.values())), str):
            return text
    return arguments
