"""Chunks of which no two are alike, for there are logprobs in each: read by their type, once, and forwarded.

A chunk of any other form is read field by field.
"""

from __future__ import annotations

import msgspec

from ..wire import openai


class _Delta(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    content: str


class _Choice(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    index: int
    delta: _Delta
    logprobs: msgspec.Raw = openai.NULL
    finish_reason: None = None
    stop_reason: None = None  # vLLM's
    matched_stop: None = None  # SGLang's


class _Chunk(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    choices: tuple[_Choice]
    id: msgspec.Raw = openai.NULL
    object: msgspec.Raw = openai.NULL
    created: msgspec.Raw = openai.NULL
    model: msgspec.Raw = openai.NULL
    system_fingerprint: msgspec.Raw = openai.NULL
    service_tier: msgspec.Raw = openai.NULL
    usage: None = None


_decode = msgspec.json.Decoder(_Chunk).decode


def read_said(data: bytes) -> tuple[int, str] | None:
    """(index of the choice, its text) of a chunk that says nothing else; None for any other."""
    try:
        choice = _decode(data).choices[0]
    except openai.FAILURES:
        return None
    return choice.index, choice.delta.content
