"""Reading JSON of clients: every way in which it can be broken is one ToolCallError."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from ..errors import ToolCallError

DECODE_ERRORS = (msgspec.MsgspecError, ValueError, RecursionError)
"""What msgspec raises for bytes that it cannot read: invalid UTF-8 and deep nesting are Python's own errors."""


def decode(raw: bytes | msgspec.Raw, param: str | None) -> Any:
    """The JSON value in `raw`. Raises ToolCallError `invalid_json`."""
    try:
        return msgspec.json.decode(raw)
    except DECODE_ERRORS as error:
        raise not_json(error, param) from None


def not_json(error: Exception, param: str | None = None) -> ToolCallError:
    """The error for bytes that msgspec refused with `error`."""
    reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).removesuffix(".")
    what = "The request body" if param is None else f"'{param}'"
    return ToolCallError("invalid_json", f"{what} cannot be read as JSON: {reason}.", param=param)


def kind(value: Any) -> str:
    """What JSON calls the type of `value`."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case int() | float():
            return "a number"
        case list():
            return "an array"
    return "an object"


def shown(value: Any) -> str:
    """`value` for an error message: short, on one line, and never more than a hint of what the client sent."""
    if isinstance(value, str):
        return repr(value if len(value) <= 80 else value[:77] + "...")
    if value is None or isinstance(value, int | float):
        return json.dumps(value)[:40]
    return kind(value)
