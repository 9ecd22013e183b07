"""Plausible arguments for an example call, made from a tool's schema. Small models copy the words of an example, so its
values come from the schema where it says any, and are neutral real values otherwise, never placeholders.
"""

from __future__ import annotations

import math
import re
from typing import Any

import msgspec

from .pointer import Scope

_MAX_DEPTH = 6
_MAX_VALUES = 24
_MAX_BYTES = 160  # of one value that the schema gives

_BY_FORMAT = {
    "date": "2025-03-14",
    "date-time": "2025-03-14T09:30:00Z",
    "time": "09:30:00Z",
    "duration": "PT1H",
    "email": "anna@example.com",
    "idn-email": "anna@example.com",
    "hostname": "example.com",
    "ipv4": "192.0.2.1",
    "ipv6": "2001:db8::1",
    "uri": "https://example.com/",
    "uri-reference": "/index.html",
    "url": "https://example.com/",
    "uuid": "123e4567-e89b-12d3-a456-426614174000",
    "regex": "^a+$",
    "json-pointer": "/0",
}

# The first of these that is a word of the property's name decides.
_BY_NAME = (
    ("url", "https://example.com/"),
    ("uri", "https://example.com/"),
    ("email", "anna@example.com"),
    ("timezone", "Europe/Paris"),
    ("datetime", "2025-03-14T09:30:00Z"),
    ("date", "2025-03-14"),
    ("time", "09:30"),
    ("city", "Paris"),
    ("location", "Paris"),
    ("place", "Paris"),
    ("country", "France"),
    ("address", "10 Rue de Rivoli, Paris"),
    ("language", "en"),
    ("currency", "EUR"),
    ("directory", "src"),
    ("folder", "src"),
    ("filename", "README.md"),
    ("path", "README.md"),
    ("file", "README.md"),
    ("command", "ls"),
    ("cmd", "ls"),
    ("regex", "^import"),
    ("pattern", "^import"),
    ("sql", "SELECT 1"),
    ("code", "print(1)"),
    ("expression", "2 + 2"),
    ("query", "weather in Paris"),
    ("queries", "weather in Paris"),
    ("search", "weather in Paris"),
    ("question", "Which file is meant?"),
    ("id", "42"),
    ("name", "Anna"),
    ("user", "anna"),
)
_TEXT = "hello"
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")


def sample_arguments(schema: Any) -> dict[str, Any]:
    """An object that fits `schema` as well as can be told without a solver; required properties only."""
    value = _Sampler().value(schema, Scope.of(schema), "", 0)
    return value if isinstance(value, dict) else {}


class _Sampler:
    """One walk over one schema, bounded in depth and in the number of values."""

    def __init__(self) -> None:
        self.left = _MAX_VALUES

    def value(self, schema: Any, scope: Scope, name: str, depth: int) -> Any:
        self.left -= 1
        if not isinstance(schema, dict):
            return _TEXT
        scope = scope.enter(schema)
        if depth >= _MAX_DEPTH:
            return self._of_type(schema, scope, name, depth)
        given = _given(schema)
        if given:
            return given[0]
        if "$ref" in schema:
            schema, scope = scope.find(schema["$ref"]) or (None, scope)
            return self.value(schema, scope, name, depth + 1)
        for key in ("anyOf", "oneOf"):
            options = schema.get(key)
            if isinstance(options, list) and options and "properties" not in schema:
                return self.value(_first_real(options), scope, name, depth + 1)
        parts = schema.get("allOf")
        if isinstance(parts, list) and parts:
            return self._of_all(schema, scope, name, depth)
        return self._of_type(schema, scope, name, depth)

    def _of_all(self, schema: dict[str, Any], scope: Scope, name: str, depth: int) -> Any:
        values: list[Any] = []
        if len(schema) > 1 and self.left > 0:  # what stands beside `allOf` is one part more
            self.left -= 1
            values.append(self._of_type(schema, scope, name, depth + 1))
        values += [self.value(part, scope, name, depth + 1) for part in schema["allOf"] if part and self.left > 0]
        objects = [value for value in values if isinstance(value, dict)]
        if objects:
            return {key: value for part in objects for key, value in part.items()}
        return values[-1] if values else _TEXT

    def _of_type(self, schema: dict[str, Any], scope: Scope, name: str, depth: int) -> Any:
        match _type_of(schema):
            case "object":
                return self._object(schema, scope, depth)
            case "array":
                return self._array(schema, scope, name, depth)
            case "integer" | "number" as kind:
                return _number(schema, whole=kind == "integer")
            case "boolean":
                return True
            case "null":
                return None
            case _:
                return _string(schema, name)

    def _object(self, schema: dict[str, Any], scope: Scope, depth: int) -> dict[str, Any]:
        required = schema.get("required")
        properties = schema.get("properties")
        known = properties if isinstance(properties, dict) else {}
        out: dict[str, Any] = {}
        for key in required if isinstance(required, list) else []:
            if self.left <= 0 or depth >= _MAX_DEPTH:
                break
            if isinstance(key, str):
                out[key] = self.value(known.get(key, {}), scope, key, depth + 1)
        return out

    def _array(self, schema: dict[str, Any], scope: Scope, name: str, depth: int) -> list[Any]:
        first = schema.get("prefixItems")
        fixed = first if isinstance(first, list) else []
        least = _count(schema.get("minItems"), 0)
        most = _count(schema.get("maxItems"), _MAX_VALUES)
        # One item shows the form; a recursive schema ends with an empty list.
        wanted = min(max(least, len(fixed), 1 if depth < _MAX_DEPTH // 2 else 0), most)
        out: list[Any] = []
        while len(out) < wanted and self.left > 0 and depth < _MAX_DEPTH:
            item = fixed[len(out)] if len(out) < len(fixed) else schema.get("items", {})
            out.append(self.value(item, scope, name, depth + 1))
        return out


def _given(schema: dict[str, Any]) -> list[Any]:
    """The values that the schema itself offers, best first. Long ones are no example."""
    values = [schema["const"]] if "const" in schema else []
    for key in ("examples", "example", "default", "enum"):
        value = schema.get(key)
        if key in {"examples", "enum"}:
            values += value[:3] if isinstance(value, list) else []
        elif value not in (None, "", [], {}):
            values.append(value)
    return [value for value in values if value is not None and len(msgspec.json.encode(value)) <= _MAX_BYTES]


def _first_real(options: list[Any]) -> Any:
    return next((o for o in options if isinstance(o, dict) and o.get("type") != "null"), options[0])


def _type_of(schema: dict[str, Any]) -> Any:
    kind = schema.get("type")
    if isinstance(kind, list):
        kind = next((one for one in kind if one != "null"), "null")
    if kind is None:
        if "properties" in schema or "required" in schema:
            return "object"
        if "items" in schema or "prefixItems" in schema:
            return "array"
        if "minimum" in schema or "maximum" in schema:
            return "number"
    return kind


def _count(value: Any, otherwise: int) -> int:
    return int(value) if isinstance(value, int | float) and 0 <= value <= _MAX_VALUES else otherwise


def _bound(schema: dict[str, Any], key: str) -> float | int | None:
    value = schema.get(key)
    if isinstance(value, bool) or not isinstance(value, int | float) or not -_LARGE < value < _LARGE:
        return None
    return value


_LARGE = 10**15  # limits beyond are no limits in practice, and arithmetic stays exact below


def _number(schema: dict[str, Any], *, whole: bool) -> float | int:
    """1 where the limits allow it, else the nearest simple number that they do."""
    factor = _bound(schema, "multipleOf")
    step: float | int = factor if factor is not None and factor >= 1 / _LARGE else (1 if whole else 0.5)
    value: float | int = step if factor else 1
    low, above = _bound(schema, "minimum"), _bound(schema, "exclusiveMinimum")
    high, below = _bound(schema, "maximum"), _bound(schema, "exclusiveMaximum")
    if low is not None and value < low:
        value = math.ceil(low / step) * step
    if above is not None and value <= above:
        value = (math.floor(above / step) + 1) * step
    if high is not None and value > high:
        value = math.floor(high / step) * step
    if below is not None and value >= below:
        value = (math.ceil(below / step) - 1) * step
    return int(value) if whole else value


def _string(schema: dict[str, Any], name: str) -> str:
    text = _by_format(schema) or _by_name(name) or _TEXT
    least, most = _count(schema.get("minLength"), 0), _count(schema.get("maxLength"), len(text))
    return (text * (least // len(text) + 1))[:least] if len(text) < least else text[:most]


def _by_format(schema: dict[str, Any]) -> str | None:
    name = schema.get("format")
    return _BY_FORMAT.get(name) if isinstance(name, str) else None


def _by_name(name: str) -> str | None:
    words = {word.lower() for word in _WORD.findall(name)}
    words |= {word.removesuffix("s") for word in words}
    return next((value for word, value in _BY_NAME if word in words), None)
