"""Which JSON Schemas Anthropic's API takes: for a tool's input, and for constrained decoding."""

from __future__ import annotations

from typing import Any

_NOT_AT_THE_ROOT = ("anyOf", "oneOf", "allOf")
_MAX_DEPTH = 64

# https://platform.claude.com/docs/en/build-with-claude/structured-outputs (JSON Schema limitations)
_PLAIN = frozenset(
    {"type", "title", "description", "default", "examples", "enum", "const", "required", "$schema", "$id", "$comment"}
)
_MAPS = frozenset({"properties", "$defs", "definitions"})
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
    return isinstance(schema, dict) and _is_plain(schema, schema, (), 0)


def _is_plain(schema: Any, root: dict[str, Any], through: tuple[str, ...], depth: int) -> bool:
    if not isinstance(schema, dict) or depth > _MAX_DEPTH:
        return False
    if "properties" in schema or schema.get("type") == "object":
        if schema.get("additionalProperties") is not False:
            return False
    return all(_keyword(name, value, root, through, depth) for name, value in schema.items())


def _keyword(name: str, value: Any, root: dict[str, Any], through: tuple[str, ...], depth: int) -> bool:
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
        return _is_plain(value, root, through, depth + 1)
    if name in _MAPS:
        inner = value.values() if isinstance(value, dict) else [None]
        # Definitions are looked at where they are used.
        return name != "properties" or all(_is_plain(item, root, through, depth + 1) for item in inner)
    if name in _LISTS:
        return isinstance(value, list) and all(_is_plain(item, root, through, depth + 1) for item in value)
    if name == "$ref":
        return _reference(value, root, through, depth)
    return False


def _reference(value: Any, root: dict[str, Any], through: tuple[str, ...], depth: int) -> bool:
    if not isinstance(value, str) or value in through:
        return False
    section, _, name = value.removeprefix("#/").partition("/")
    if not value.startswith("#/") or section not in {"$defs", "definitions"}:
        return False
    defined = root.get(section)
    target = defined.get(name) if isinstance(defined, dict) else None
    return _is_plain(target, root, (*through, value), depth + 1)
