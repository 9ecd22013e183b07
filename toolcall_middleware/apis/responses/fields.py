"""The fields of a Responses request: JSON in, checked values out. Each fault is one ToolCallError with its path."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from ...errors import kind, refusal, shown
from ...wire.json_input import decode_items

Raw = msgspec.Raw
Fields = Mapping[str, Raw]

_PAIR = re.compile(r"[\ud800-\udbff][\udc00-\udfff]")
_HALF = re.compile(r"[\ud800-\udfff]")
# Characters that are looked at in one step, which no other thread can interrupt.
_PIECE = 16 * 1024


def encode(value: Any, param: str) -> bytes:
    """JSON of what was read from the field `param`."""
    try:
        return msgspec.json.encode(value)
    except RecursionError:
        raise refusal(param, f"'{param}' is nested too deeply.") from None


def whole_text(text: str) -> str:
    """The text without lone surrogates, which have no bytes: two that fit are joined, others are U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join(_whole_pieces(text))
    return text


def _whole_pieces(text: str) -> Iterator[str]:
    at = 0
    while at < len(text):
        end = at + _PIECE
        if _PAIR.match(text, end - 1):
            end += 1
        yield _HALF.sub("\ufffd", _PAIR.sub(_joined, text[at:end]))
        at = end


def _joined(pair: re.Match[str]) -> str:
    return pair[0].encode("utf-16", "surrogatepass").decode("utf-16")


class Reader:
    """Reads single fields of a request. Every method gives None for a field that is absent or null."""

    def __init__(self, fields: Fields) -> None:
        self._fields = fields

    def given(self, name: str) -> Raw | None:
        """The value as it is spelled."""
        raw = self._fields.get(name)
        return None if raw is None or bytes(raw) == b"null" else raw

    def value(self, name: str) -> Any:
        """The value, decoded."""
        raw = self.given(name)
        return None if raw is None else decode_items(raw, name)

    def text(self, name: str) -> str | None:
        """A string."""
        value = self.value(name)
        if not isinstance(value, str | None):
            raise refusal(name, f"'{name}' must be a string, got {kind(value)}.")
        return value

    def flag(self, name: str) -> bool | None:
        """A boolean."""
        value = self.value(name)
        if not isinstance(value, bool | None):
            raise refusal(name, f"'{name}' must be a boolean, got {kind(value)}.")
        return value

    def object(self, name: str) -> dict[str, Any] | None:
        """An object."""
        value = self.value(name)
        if not isinstance(value, dict | None):
            raise refusal(name, f"'{name}' must be an object, got {kind(value)}.")
        return value

    def number(self, name: str, least: float, most: float) -> float | None:
        """A number in a range."""
        value = self.value(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise refusal(name, f"'{name}' must be a number, got {kind(value)}.")
        if not least <= value <= most:
            raise refusal(name, f"'{name}' must be from {least:g} to {most:g}, got {shown(value)}.")
        return value

    def count(self, name: str, least: int = 1) -> int | None:
        """An integer that is not smaller than `least`."""
        value = self.value(name)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise refusal(name, f"'{name}' must be an integer of at least {least}, got {shown(value)}.")
        return value

    def choice(self, name: str, *allowed: str) -> str | None:
        """One of some words."""
        value = self.value(name)
        if value is not None and value not in allowed:
            words = " or ".join(map(repr, allowed))
            raise refusal(name, f"'{name}' must be {words}, got {shown(value)}.")
        found: str | None = value
        return found

    def texts(self, name: str) -> list[str]:
        """An array of strings; empty where it is absent."""
        value = self.value(name)
        if value is None:
            return []
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise refusal(name, f"'{name}' must be an array of strings, got {kind(value)}.")
        return value
