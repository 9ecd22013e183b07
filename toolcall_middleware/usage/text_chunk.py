"""Chunks that hold some text and nothing else, as nearly all of an answer do, told by their type.

For streams in which no two chunks are alike to the byte, because each has logprobs or another number beside its text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import msgspec

MAX_UNLIKE = 16
"""Chunks in a row of which none was like the one before: then none is remembered any more, for it costs to do so."""


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
    """A choice that goes on. What stands beside, such as logprobs, is the client's alone."""

    index: int
    delta: TypedDelta
    finish_reason: Literal[""] | None = None


class TypedChunk(msgspec.Struct, gc=False):
    """A chunk that holds some text and nothing else. What stands beside is the client's alone."""

    choices: tuple[TypedChoice]
    usage: None = None
    error: None = None


read_by_type: Callable[[bytes], TypedChunk] = msgspec.json.Decoder(TypedChunk).decode
"""A chunk of that type. Raises one of `openai.FAILURES` for any other."""
