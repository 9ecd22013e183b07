"""Reading JSON of clients: every way in which it can be broken is one ToolCallError."""

from __future__ import annotations

import json
import re
from typing import Any

import msgspec

from ..errors import ToolCallError

DECODE_ERRORS = (msgspec.MsgspecError, ValueError, RecursionError)
"""What msgspec raises for bytes that it cannot read: invalid UTF-8 and deep nesting are Python's own errors."""

_FIELDS = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAWS = msgspec.json.Decoder(list[msgspec.Raw])
LARGE = 128 * 1024
"""Bytes that are decoded at once: a millisecond or two."""
_AT_ONCE = 4096
_spaced = json.JSONEncoder(ensure_ascii=False).encode
# A pair of surrogates, a lone one, any other escape. JavaScript clients that cut a text inside an emoji send lone ones.
_ESCAPE = re.compile(
    rb"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)", re.DOTALL
)


def without_lone_surrogates(data: bytes, mark: bytes = rb"\ufffd") -> bytes:
    """The JSON `data` with `mark` for each escape of a lone surrogate; `data` itself where there is none."""
    if b"\\ud" not in data and b"\\uD" not in data:
        return data
    # Not by one substitution: it would put millions of pieces together in one step, which no thread can interrupt.
    made = bytearray()
    between: list[bytes] = []
    at = 0
    for found in _ESCAPE.finditer(data):
        if found.start(1) < 0:
            continue
        between.append(data[at : found.start()])
        at = found.end()
        if len(between) == _AT_ONCE:
            made += mark.join([*between, b""])
            between.clear()
    if not at:
        return data
    made += mark.join([*between, data[at:]])
    return bytes(made)


def read_fields(body: bytes) -> dict[str, msgspec.Raw]:
    """The fields of the JSON object `body`, their values as they are spelled; a lone surrogate becomes U+FFFD.

    Raises ToolCallError `invalid_json` for anything else.
    """
    try:
        str(body, "utf-8")  # msgspec does not look inside the strings of raw values
        return _FIELDS.decode(body)
    except DECODE_ERRORS as error:
        whole = without_lone_surrogates(body)
        if whole != body:
            return read_fields(whole)
        if isinstance(error, msgspec.ValidationError):
            raise ToolCallError("invalid_json", "The request body must be a JSON object.") from None
        raise not_json(error) from None


class Members(list[tuple[str, Any]]):
    """A JSON object as (name, value) of each member, several of one name among them."""


def read_members(body: bytes) -> Any:
    """The JSON value `body`, each object in it as its `Members`. Raises ValueError or RecursionError."""
    return json.loads(body, object_pairs_hook=_members)


def _members(pairs: list[tuple[str, Any]]) -> Members:
    # A function, not the class: where Python code runs for each object, other threads get their turns in between.
    return Members(pairs)


def decode(raw: bytes | msgspec.Raw, param: str | None) -> Any:
    """The JSON value in `raw`. Raises ToolCallError `invalid_json`."""
    try:
        return msgspec.json.decode(raw)
    except DECODE_ERRORS as error:
        raise not_json(error, param) from None


def decode_items(raw: bytes | msgspec.Raw, param: str | None) -> Any:
    """As `decode`; a large array is decoded item by item, and other threads get their turns in between."""
    if len(bytes(raw)) > LARGE:
        try:
            return [msgspec.json.decode(each) for each in _RAWS.decode(raw)]
        except DECODE_ERRORS:
            pass  # said below, of the whole
    return decode(raw, param)


def written_arguments(value: Any, param: str) -> str:
    """Arguments that a client sent as a value, as models and chat templates write them: with a space after each comma
    and colon, and without escapes that JSON does not need. Raises ToolCallError.
    """
    try:
        return _spaced(value)
    except RecursionError as error:
        raise not_json(error, param) from None


def not_json(error: Exception, param: str | None = None) -> ToolCallError:
    """The error for bytes that msgspec refused with `error`."""
    reason = "it is nested too deeply" if isinstance(error, RecursionError) else str(error).removesuffix(".")
    what = "The request body" if param is None else f"'{param}'"
    return ToolCallError("invalid_json", f"{what} cannot be read as JSON: {reason}.", param=param)
