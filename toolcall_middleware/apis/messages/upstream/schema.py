"""Which JSON Schemas Anthropic's API takes: for a tool's input, and for constrained decoding."""

from __future__ import annotations

from typing import Any

from ....json_schema.pointer import Scope, tokens_of

_NOT_AT_THE_ROOT = ("anyOf", "oneOf", "allOf")
_MAX_DEPTH = 64

# https://platform.claude.com/docs/en/build-with-claude/structured-outputs (JSON Schema limitations)
_PLAIN = frozenset(
    {"type", "title", "description", "default", "examples", "enum", "const", "required", "$schema", "$id", "$comment"}
)
_DEFINITIONS = frozenset({"$defs", "definitions"})
_MAPS = frozenset({"properties"}) | _DEFINITIONS
_LISTS = frozenset({"anyOf", "allOf"})
_FORMATS = frozenset({"date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"})


def input_schema(parameters: Any) -> tuple[dict[str, Any], list[str]]:
    """(a tool's parameters as `input_schema`, what of them the API refuses)."""
    schema = dict(parameters) if isinstance(parameters, dict) else {}
    features = [name for name in _NOT_AT_THE_ROOT if name in schema]
    if schema.get("type", "object") != "object":
        features.append(f"type {schema['type']} at the root")
    return {"type": "object", **schema}, features


def can_be_constrained(schema: Any) -> bool:
    """Whether decoding can be constrained to `schema` as it is: no keyword would be refused, and none recurs."""
    return isinstance(schema, dict) and _Plain(Scope(schema)).holds(schema, 0)


class _Plain:
    """One look at one document; each definition is looked at once, where it is first used."""

    def __init__(self, scope: Scope) -> None:
        self._scope = scope
        self._open: set[int] = set()
        self._done: set[int] = set()

    def holds(self, schema: Any, depth: int) -> bool:
        if not isinstance(schema, dict) or depth > _MAX_DEPTH:
            return False
        if "properties" in schema or schema.get("type") == "object":
            if schema.get("additionalProperties") is not False:
                return False
        return all(self._keyword(name, value, depth) for name, value in schema.items())

    def _keyword(self, name: str, value: Any, depth: int) -> bool:
        if name == "enum":
            return isinstance(value, list) and not any(isinstance(item, dict | list) for item in value)
        if name in _PLAIN:
            return True
        if name == "additionalProperties":
            return value is False
        if name == "format":
            return isinstance(value, str) and value in _FORMATS
        if name == "minItems":
            return isinstance(value, int) and value in {0, 1}
        if name == "items":
            return self.holds(value, depth + 1)
        if name in _MAPS:
            inner = value.values() if isinstance(value, dict) else [None]
            # Definitions are looked at where they are used.
            return name != "properties" or all(self.holds(item, depth + 1) for item in inner)
        if name in _LISTS:
            return isinstance(value, list) and all(self.holds(item, depth + 1) for item in value)
        return name == "$ref" and self._reference(value, depth)

    def _reference(self, value: Any, depth: int) -> bool:
        target = self._scope.find(value)
        if target is None or not value.startswith("#/"):
            return False
        section, *names = tokens_of(value)
        if section not in _DEFINITIONS or len(names) != 1 or id(target) in self._open:
            return False
        key = id(target)
        if key not in self._done:
            self._open.add(key)
            if not self.holds(target, depth + 1):
                return False
            self._open.discard(key)
            self._done.add(key)
        return True
