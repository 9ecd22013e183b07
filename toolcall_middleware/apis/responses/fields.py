"""What leaves as JSON, and text that has bytes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import msgspec

from ...errors import refusal

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
