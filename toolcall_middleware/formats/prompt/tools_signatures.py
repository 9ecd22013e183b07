"""Tools as signatures, for a prompt that has little room.

get_weather(city: string, unit?: "celsius" | "fahrenheit"): Get the current weather in a city.
city: The city
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...model import Tool
from . import escaping

_MAX_DEPTH = 4
_NAMES = frozenset({"string", "number", "integer", "boolean", "null", "object"})


def signature(tool: Tool) -> str:
    """The tool with a line for each argument that is described; its JSON where a type does not fit in a line."""
    properties = tool.parameters.get("properties")
    required = tool.parameters.get("required")
    known = properties if isinstance(properties, Mapping) else {}
    needed = required if isinstance(required, list) else []
    shown = []
    for name, schema in known.items():
        kind = _type(schema, 0)
        if kind is None or not name.isidentifier():
            return escaping.as_data(escaping.dump(escaping.describe(tool)))
        shown.append(f"{name}{'' if name in needed else '?'}: {kind}")
    return "\n".join([f"{tool.name}({', '.join(shown)}): {_line(tool.description)}", *_notes(known)])


def _notes(properties: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in properties.items():
        if isinstance(schema, Mapping):
            said = schema.get("description")
            text = _line(said) if isinstance(said, str) else ""
            if "default" in schema:
                text = f"{text} (default: {escaping.as_data(escaping.dump(schema['default']))})".lstrip()
            if text:
                yield f"    {name}: {text}"


def _line(text: str) -> str:
    return " ".join(escaping.neutralise(text).split())


def _type(schema: Any, depth: int) -> str | None:
    """`string`, `"a" | "b"`, `number[]` and the like; None for what takes more than a word."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
        return None
    match schema:
        case {"enum": [*values]} if values:
            return " | ".join(escaping.as_data(escaping.dump(value)) for value in values)
        case {"const": value}:
            return escaping.as_data(escaping.dump(value))
        case {"anyOf": [*ways]} | {"oneOf": [*ways]} if ways:
            return _union(_type(way, depth + 1) for way in ways)
        case {"type": [*kinds]} if kinds:
            return _union(_type({**schema, "type": kind}, depth + 1) for kind in kinds)
        case {"type": "array"}:
            item = _type(schema.get("items"), depth + 1)
            return None if item is None else f"({item})[]" if " | " in item else f"{item}[]"
        case {"type": str(kind)} if kind in _NAMES and not schema.get("properties"):
            return kind
    return None


def _union(types: Iterator[str | None]) -> str | None:
    found = list(types)
    known = [kind for kind in found if kind is not None]
    return " | ".join(dict.fromkeys(known)) if len(known) == len(found) else None
