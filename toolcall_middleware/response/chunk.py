"""What a chunk of the backend's stream says of one choice, and what of it a client would see."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ..wire import openai
from ..wire.openai import Fields
from .choice import ChoiceAnswer
from .operations import Content, Op

_SILENT = frozenset({"role", "content", "tool_calls", "function_call"})


@dataclass(slots=True)
class Choice:
    """A choice of the stream, and what the client was told of it so far."""

    answer: ChoiceAnswer
    has_role: bool = False  # the client knows its role
    finished: bool = False  # ... and its finish_reason


@dataclass(slots=True)
class Part:
    """What a chunk says of one choice. `unchanged`: the client may get it as it came."""

    choice: Choice
    fields: Fields
    delta: Fields
    text: str
    ops: list[Op]
    reason: str | None
    unchanged: bool
    index: int = 0
    beside: bool = False  # the model wrote something that is not in the text


def take_calls(message: Fields) -> tuple[list[Any], Fields]:
    """The backend's own calls in a delta or message, and the rest of it."""
    rest = {name: value for name, value in message.items() if name not in {"tool_calls", "function_call"}}
    calls = openai.read_value(message.get("tool_calls"))
    if isinstance(calls, list) and calls:
        return calls, rest
    single = openai.read_value(message.get("function_call"))
    return ([{"index": 0, "function": single}] if isinstance(single, dict) else []), rest


def says(part: Part) -> bool:
    """Whether anything of it is for the client's eyes: more than a role."""
    beside = any(name not in _SILENT and not openai.is_null(value) for name, value in part.delta.items())
    return beside or bool(part.ops) or part.reason is not None


def is_plain(ops: list[Op], text: str) -> bool:
    """Whether the client gets just the text that came."""
    return not ops if not text else len(ops) == 1 and type(only := ops[0]) is Content and only.text == text
