"""A client's JSON, read piece by piece: values that only pass keep their bytes, faults name the client's own field.

A path is written as Anthropic's API writes it: `messages.0.content.1.tool_use_id`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ....errors import refusal
from ....wire import openai
from ....wire.openai import Fields

_MOST_SHOWN = 100


def has(fields: Fields, name: str) -> bool:
    """Whether a field is there and not null."""
    return not openai.is_null(fields.get(name))


def is_text(raw: msgspec.Raw | None) -> bool:
    """Whether the JSON is a string."""
    return raw is not None and bytes(raw).startswith(b'"')


def is_object(raw: msgspec.Raw | None) -> bool:
    """Whether the JSON is an object."""
    return raw is not None and bytes(raw).startswith(b"{")


def string(fields: Fields, name: str, path: str) -> str:
    """A string that has to be there; it may be empty."""
    if name not in fields:
        raise refusal(f"{path}.{name}" if path else name, "Field required")
    text = openai.read_text(fields[name])
    if text is None:
        raise refusal(f"{path}.{name}" if path else name, "Input should be a valid string")
    return text


def filled_string(fields: Fields, name: str, path: str) -> str:
    """A string that has to be there and must not be empty."""
    text = string(fields, name, path)
    if not text:
        raise refusal(f"{path}.{name}" if path else name, "String should have at least 1 character")
    return text


def optional_string(fields: Fields, name: str, path: str) -> str:
    """A string that may be missing or null: then it is empty."""
    return string(fields, name, path) if has(fields, name) else ""


def items(fields: Fields, name: str, path: str) -> list[Fields]:
    """A list of objects; an absent or null one is empty."""
    if not has(fields, name):
        return []
    found = openai.read_objects(fields[name])
    if found is None:
        raise refusal(f"{path}.{name}" if path else name, "Input should be a valid list of objects")
    return found


def inner(fields: Fields, name: str, path: str) -> Fields | None:
    """An object; None where it is absent or null."""
    if not has(fields, name):
        return None
    found = openai.read_object(fields[name])
    if found is None:
        raise refusal(f"{path}.{name}" if path else name, "Input should be a valid object")
    return found


def boolean(fields: Fields, name: str, path: str) -> bool:
    """True or false; false where it is absent or null."""
    if not has(fields, name):
        return False
    match bytes(fields[name]):
        case b"true":
            return True
        case b"false":
            return False
    raise refusal(f"{path}.{name}" if path else name, "Input should be a valid boolean")


def value(fields: Fields, name: str) -> Any:
    """Any JSON value; None where it is absent."""
    return openai.read_value(fields.get(name))


def shown(text: str) -> str:
    """A client's text in a message of ours, of a length that can be read."""
    return repr(text if len(text) <= _MOST_SHOWN else f"{text[:_MOST_SHOWN]}…")
