"""Reading JSON of clients: every way in which it can be broken is one ToolCallError."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import msgspec

from ..errors import ToolCallError, kind, refusal, shown

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


# -- freeing what a large request held ---------------------------------------------------------------------------------
# A million objects that are freed at once are half a second in which no thread runs.


_MOST_SEEN = 4096
_LARGE = 1024
_STEP = 256


def let_go(*values: Any) -> None:
    """Empty the large lists in these JSON values, which are not used any more, in steps between which others run.

    Looked for where there are few: of a large list of large lists it is the outer one that is emptied.
    """
    waiting: list[Any] = [value for value in values if isinstance(value, dict | list)]
    large: list[list[Any]] = []
    seen = 0
    while waiting and seen < _MOST_SEEN:
        seen += 1
        value = waiting.pop()
        if isinstance(value, dict):
            waiting += [inner for inner in value.values() if isinstance(inner, dict | list)]
        elif len(value) < _LARGE:
            waiting += [inner for inner in value if isinstance(inner, dict | list)]
        else:
            large.append(value)
    waiting.clear()
    for items in large:
        while items:
            del items[-_STEP:]


# -- the members of an object that a client sent, read one by one ------------------------------------------------------
# Values that only pass keep their bytes. An error names the member by its path and in the words of the client's API.


Raw = msgspec.Raw
Fields = Mapping[str, Raw]
Wording = Mapping[str, str]

OPENAI: Wording = {
    "index": "[{}]",
    "missing": "'{name}' must be a string that is not empty, got {shown}.",
    "string": "'{name}' must be a string, got {got}.",
    "filled": "'{name}' must be a string that is not empty, got {shown}.",
    "boolean": "'{name}' must be a boolean, got {got}.",
    "object": "'{name}' must be an object, got {got}.",
    "objects": "'{name}' must be an array of objects, got {got}.",
    "item": "An item of this list must be an object, got {got}.",
    "strings": "'{name}' must be an array of strings, got {got}.",
    "number": "'{name}' must be a number, got {got}.",
    "bounds": "'{name}' must be {bounds}, got {shown}.",
}
ANTHROPIC: Wording = {
    "index": ".{}",
    "missing": "Field required",
    "string": "Input should be a valid string",
    "filled": "String should have at least 1 character",
    "boolean": "Input should be a valid boolean",
    "object": "Input should be a valid object",
    "objects": "Input should be a valid list of objects",
    "blocks": "Input should be a valid string or a list of blocks",
    "strings": "Input should be a valid list of strings",
    "number": "Input should be a valid number",
    "bounds": "Input should be {bounds}",
}
_text = msgspec.json.Decoder(str | None)
_object = msgspec.json.Decoder(dict[str, Raw])
_objects = msgspec.json.Decoder(list[dict[str, Raw]])
_raws = msgspec.json.Decoder(list[Raw])


class Reader:
    """Reads one object. path: that of the object, empty for the request itself.

    A member that is null is read as one that is absent. Strings are checked when they are asked for.
    """

    __slots__ = ("_wording", "fields", "path")

    def __init__(self, fields: Fields, wording: Wording, path: str = "") -> None:
        self.fields = fields
        self.path = path
        self._wording = wording

    def where(self, name: str) -> str:
        """The path of a member."""
        return f"{self.path}.{name}" if self.path else name

    def error(self, name: str, message: str, code: str = "invalid_request") -> ToolCallError:
        """The error for a member."""
        return refusal(self.where(name), message, code)

    def given(self, name: str) -> Raw | None:
        """The value as it is spelled."""
        raw = self.fields.get(name)
        return None if raw is None or bytes(raw) == b"null" else raw

    def begins(self, name: str, character: bytes) -> bool:
        """Whether the value's JSON begins so: with a quote it is a string, with a brace an object."""
        return bytes(self.fields.get(name, b"")).startswith(character)

    def value(self, name: str) -> Any:
        """Any value; None where it is absent."""
        raw = self.given(name)
        return None if raw is None else decode_items(raw, self.where(name))

    def text(self, name: str) -> str | None:
        """A string."""
        raw = self.fields.get(name)
        try:
            return None if raw is None else _text.decode(raw)
        except DECODE_ERRORS:
            raise self._wrong(name, "string", self.value(name)) from None

    def required(self, name: str) -> str:
        """A string that has to be there; it may be empty."""
        value = self.text(name)
        if value is None:
            raise self._wrong(name, "string" if name in self.fields else "missing", None)
        return value

    def filled(self, name: str) -> str:
        """A string that has to be there and must not be empty."""
        value = self.required(name)
        if not value:
            raise self._wrong(name, "filled", value)
        return value

    def flag(self, name: str) -> bool | None:
        """A boolean."""
        value = self.value(name)
        if not isinstance(value, bool | None):
            raise self._wrong(name, "boolean", value)
        return value

    def object(self, name: str) -> dict[str, Any] | None:
        """An object, decoded."""
        value = self.value(name)
        if not isinstance(value, dict | None):
            raise self._wrong(name, "object", value)
        return value

    def inner(self, name: str) -> Reader | None:
        """An object, to be read in turn."""
        raw = self.given(name)
        if raw is None:
            return None
        try:
            return Reader(_object.decode(raw), self._wording, self.where(name))
        except DECODE_ERRORS:
            raise self._wrong(name, "object", decode(raw, self.where(name))) from None

    def items(self, name: str, wanted: str = "objects") -> list[Reader]:
        """A list of objects, to be read in turn; empty where it is absent. wanted: the error's key in the wording."""
        raw = self.given(name)
        if raw is None:
            return []
        try:
            # One by one where they are large: other threads get their turns in between.
            large = len(bytes(raw)) > LARGE
            found = [_object.decode(each) for each in _raws.decode(raw)] if large else _objects.decode(raw)
        except DECODE_ERRORS:
            raise self._no_list(name, wanted, self.value(name)) from None
        wording, where = self._wording, self.where(name)
        before, _, after = wording["index"].partition("{}")
        return [Reader(fields, wording, f"{where}{before}{place}{after}") for place, fields in enumerate(found)]

    def _no_list(self, name: str, wanted: str, value: Any) -> ToolCallError:
        """The error for what is no list of objects; OpenAI's API names the item that is none."""
        if not isinstance(value, list) or "item" not in self._wording:
            return self._wrong(name, wanted, value)
        place = next(place for place, item in enumerate(value) if not isinstance(item, dict))
        where = self.where(name) + self._wording["index"].format(place)
        return refusal(where, self._wording["item"].format(got=kind(value[place])))

    def number(self, name: str, least: float, most: float | None = None) -> float | None:
        """A number within bounds."""
        value = self.value(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self._wrong(name, "number", value)
        if value < least or (most is not None and value > most):
            bounds = f"at least {least:g}" if most is None else f"from {least:g} to {most:g}"
            raise self._wrong(name, "bounds", value, bounds)
        number: float = value
        return number

    def count(self, name: str, least: int = 1) -> int | None:
        """An integer that is not smaller than `least`."""
        value = self.value(name)
        if value is None:
            return None
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            bounds = "a positive integer" if least == 1 else f"an integer of at least {least}"
            raise self._wrong(name, "bounds", value, bounds)
        return value

    def choice(self, name: str, *allowed: str) -> str | None:
        """One of some words."""
        value = self.value(name)
        if value not in (None, *allowed):
            raise self._wrong(name, "bounds", value, " or ".join(map(repr, allowed)))
        found: str | None = value
        return found

    def texts(self, name: str) -> list[str]:
        """An array of strings; empty where it is absent."""
        value = self.value(name)
        if value is not None and not (isinstance(value, list) and all(isinstance(item, str) for item in value)):
            raise self._wrong(name, "strings", value)
        return value or []

    def _wrong(self, name: str, key: str, value: Any, bounds: str = "") -> ToolCallError:
        text = self._wording[key].format(name=name, got=kind(value), shown=shown(value), bounds=bounds)
        return self.error(name, text)
