"""Which JSON types a tool's schema declares for a parameter.

By `type`, also as a list, `anyOf`, `oneOf`, `allOf`, `enum`, `const`, `nullable`, or a `$ref` inside the document.
Schemas are hostile: how deep and how far one is read is bounded, and what is beyond declares nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .pointer import Scope

ALL = frozenset({"string", "number", "boolean", "null", "object", "array"})
STRING = frozenset({"string"})
_MAX_DEPTH = 8
_MAX_SCHEMAS = 2048
"""Schemas that one reader reads, at about 1 us each."""


def types_of(schema: Any, scope: Scope) -> frozenset[str]:
    """The JSON types that `schema`, which is part of `scope`, allows; ALL where it does not say."""
    return TypeReader().types(schema, scope)


class TypeReader:
    """Reads the types of schemas of one document, each schema once a level however often it is referred to."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], frozenset[str]] = {}

    def types(self, schema: Any, scope: Scope, depth: int = 0) -> frozenset[str]:
        """See `types_of`. Schemas beyond the most that are read declare nothing."""
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return ALL
        key = id(schema), depth
        found = self._known.get(key)
        if found is None:
            if len(self._known) >= _MAX_SCHEMAS:
                return ALL
            self._known[key] = ALL  # counted, and of no use to itself: it is a level up
            found = self._known[key] = self._types(schema, scope, depth) or ALL
        return found

    def _types(self, schema: Mapping[str, Any], scope: Scope, depth: int) -> frozenset[str]:
        found = _own_types(schema)
        if "$ref" in schema:
            target = scope.find(schema["$ref"])
            if target is not None:
                found &= self.types(target, scope, depth + 1)
        for key in ("anyOf", "oneOf"):
            options = schema.get(key)
            if isinstance(options, list) and options:
                found &= frozenset().union(*(self.types(option, scope, depth + 1) for option in options[:64]))
        options = schema.get("allOf")
        if isinstance(options, list):
            for option in options[:64]:
                found &= self.types(option, scope, depth + 1)
        if schema.get("nullable") is True:  # OpenAPI's way to say it
            found |= {"null"}
        return found


def _own_types(schema: Mapping[str, Any]) -> frozenset[str]:
    """What a schema says itself, without the schemas in it."""
    kind = schema.get("type")
    if isinstance(kind, str):
        return _named(kind)
    if isinstance(kind, list):
        return frozenset().union(*(_named(item) for item in kind if isinstance(item, str)))
    if isinstance(schema.get("enum"), list):
        return frozenset(_type_of(value) for value in schema["enum"]) or ALL
    if "const" in schema:
        return frozenset({_type_of(schema["const"])})
    return frozenset({"object"}) if "properties" in schema else ALL


def _named(kind: str) -> frozenset[str]:
    if kind == "integer":
        return frozenset({"number"})
    return frozenset({kind}) & ALL or ALL


def _type_of(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case None:
            return "null"
        case int() | float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
    return "object"
