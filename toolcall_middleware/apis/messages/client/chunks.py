"""Chunks of a chat stream by their type. What only passes stays raw JSON."""

from __future__ import annotations

import msgspec

from ....wire import openai
from ....wire.openai import Fields
from ...repeated_chunk import ABSENT, Call, Function
from .blocks import inner_of, text_of


class Delta(msgspec.Struct, gc=False):
    """What a chunk adds."""

    content: msgspec.Raw = ABSENT
    reasoning: msgspec.Raw = ABSENT
    reasoning_content: msgspec.Raw = ABSENT
    refusal: msgspec.Raw = ABSENT
    tool_calls: list[Call] | None = None


class Choice(msgspec.Struct, gc=False):
    """One answer of those that were asked for."""

    index: int = 0
    delta: Delta | None = None
    finish_reason: str | None = None
    stop_reason: msgspec.Raw = ABSENT
    matched_stop: msgspec.Raw = ABSENT


class Chunk(msgspec.Struct, gc=False):
    """A chunk."""

    choices: list[Choice] = []
    usage: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT


_decode = msgspec.json.Decoder(Chunk).decode


def read_chunk(data: bytes) -> Chunk | None:
    """The chunk in an event's data; None where that is no JSON object."""
    try:
        return _decode(data)
    except openai.FAILURES:
        top = openai.read_object(data)
    return None if top is None else _chunk_of(top)


def _chunk_of(top: Fields) -> Chunk:
    """The same of what msgspec does not read: NaN among logprobs, a lone surrogate, a field of an odd type."""
    choices: list[Choice] = []
    for choice in openai.read_objects(top.get("choices")) or ():
        index = openai.read_value(choice.get("index"))
        reason = openai.read_text(choice.get("finish_reason"))
        stops = {name: choice.get(name, ABSENT) for name in ("stop_reason", "matched_stop")}
        delta = _delta_of(openai.read_object(choice.get("delta")) or {})
        choices.append(Choice(index if isinstance(index, int) else 0, delta, reason, **stops))
    return Chunk(choices, top.get("usage", ABSENT), top.get("error", ABSENT))


def _delta_of(fields: Fields) -> Delta:
    calls: list[Call] = []
    for call in openai.read_objects(fields.get("tool_calls")) or ():
        index = openai.read_value(call.get("index"))
        function = openai.read_object(call.get("function")) or {}
        made = Function(openai.read_text(function.get("name")), function.get("arguments", ABSENT))
        calls.append(Call(index if isinstance(index, int) else 0, openai.read_text(call.get("id")), made))
    content, *thoughts = (fields.get(name, ABSENT) for name in ("content", "reasoning", "reasoning_content"))
    return Delta(content, thoughts[0], thoughts[1], fields.get("refusal", ABSENT), calls)


def text_in(raw: msgspec.Raw) -> bytes:
    """A JSON string that says something, else nothing."""
    if raw is ABSENT:
        return b""
    data = bytes(raw)
    return data if data.startswith(b'"') and len(data) > 2 else b""


def thoughts_of(own: bytes, read: bytes) -> list[bytes]:
    """Reasoning under both of its names, as JSON strings or nothing: some backends send it under each, and what was in
    the text (`read`) may stand beside what the backend tells apart (`own`).
    """
    if own and read and not text_of(read[1:-1]).startswith(text_of(own[1:-1])):
        return [own, read]
    return [read or own]


def arguments_of(raw: msgspec.Raw) -> bytes:
    """Arguments as a JSON string; the object that some settings make of them is written as one."""
    data = bytes(raw)
    if data.startswith(b'"'):
        return data
    if data.startswith((b"{", b"[")):
        return b'"%b"' % inner_of(data.decode("utf-8", "replace"))
    return b""
