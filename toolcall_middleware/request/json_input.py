"""Reading JSON of clients: every way in which it can be broken is one ToolCallError."""

from __future__ import annotations

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
