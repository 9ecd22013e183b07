"""Chunks that say some text and nothing else, as nearly all of an answer do. Only their text is read.

Most are like one before them to the byte, but for their content: that is a known chunk. Where no two are alike, for
there are logprobs in each or several choices take turns, they are told by their type.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

import msgspec

from ..wire.openai import Fields, Shape, Shell
from .chunk import Part

MAX_UNLIKE = 16  # chunks in a row of which none was like the one before: then none is remembered any more


@dataclass(slots=True)
class Known:
    """A chunk that others may resemble in all but their content. `shape` is that of its whole event."""

    shape: Shape
    part: Part
    top: Fields
    shell: Shell
    met: bool = False  # there was another one like it
    silent: bool = False  # nothing of it leaves where its text says nothing yet
    frames: dict[int, tuple[bytes, bytes]] = field(default_factory=dict)
    """The bytes around a piece of a call's arguments, by its index, or of text (-1)."""


class TypedDelta(msgspec.Struct, forbid_unknown_fields=True, gc=False):
    """What says nothing but text."""

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
    """A chunk that says some text and nothing else. What stands beside is the client's alone."""

    choices: tuple[TypedChoice]
    usage: None = None
    error: None = None


read_by_type: Callable[[bytes], TypedChunk] = msgspec.json.Decoder(TypedChunk).decode
"""A chunk of that type. Raises one of `openai.FAILURES` for any other."""
