"""Tools as signatures.

    get_weather(city: string, unit?: "celsius" | "fahrenheit"): Get the current weather in a city.
        city: The city

They take fewer tokens than JSON, and small models follow them better (tests/bench/README.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...model import Tool
from . import escaping

_MAX_DEPTH = 4
_NAMES = frozenset({"string", "number", "integer", "boolean", "null", "object"})
_TYPES = frozenset({"type", "enum", "const", "anyOf", "oneOf", "items", "title"})
"""Keywords that a type expresses."""
_ROOT = frozenset({"type", "properties", "required", "additionalProperties", "$schema", "title"})


def signature(tool: Tool) -> str:
    """The tool's signature, with a line for each argument that needs more than its type. Its JSON where a signature
    cannot express it.
    """
    schema = tool.parameters
    properties, required = schema.get("properties"), schema.get("required")
    known = properties if isinstance(properties, Mapping) else {}
    needed = required if isinstance(required, list) else []
    shown = [f"{name}{'' if name in needed else '?'}: {_type(part, 0)}" for name, part in known.items()]
    simple = schema.keys() <= _ROOT and all(name.isidentifier() and _type(part, 0) for name, part in known.items())
    if not simple:
        return escaping.as_data(escaping.dump(escaping.describe(tool)))
    about = f": {_inside(tool.description)}" if tool.description else ""
    return "\n".join([f"{tool.name}({', '.join(shown)}){about}", *_notes(known)])


def form(tool: Tool) -> str:
    """A call of the tool. The value of each required argument is its name: `<city>`."""
    required = tool.parameters.get("required")
    names = required if isinstance(required, list) else []
    call = {"name": tool.name, "arguments": {name: f"<{name}>" for name in names if isinstance(name, str)}}
    return escaping.as_data(escaping.dump_spaced(call))


def _notes(properties: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in properties.items():
        said = schema.get("description")
        more = (
            f"{key}: {escaping.as_data(escaping.dump(value))}"
            for key, value in schema.items()
            if key not in _TYPES and key != "description"
        )
        parts = [_inside(said) if isinstance(said, str) else "", f"({rest})" if (rest := ", ".join(more)) else ""]
        if text := " ".join(filter(None, parts)):
            yield f"    {name}: {text}"


def _inside(text: str) -> str:
    """A description with its later lines indented, so that none looks like another tool."""
    return "\n        ".join(escaping.neutralise(text).strip().splitlines())


def _type(schema: Any, depth: int) -> str | None:
    """`string`, `"a" | "b"`, `number[]` and the like; None for a schema that no such type expresses."""
    if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or (depth and not schema.keys() <= _TYPES):
        return None
    match schema:
        case {"$ref": _} | {"properties": _} | {"allOf": _} | {"not": _}:
            return None
        case {"enum": [*values]} if values:
            return " | ".join(escaping.as_data(escaping.dump(value)) for value in values)
        case {"const": value}:
            return escaping.as_data(escaping.dump(value))
        case {"anyOf": [*ways]} | {"oneOf": [*ways]} if ways:
            return _union(_type(way, depth + 1) for way in ways)
        case {"type": [*kinds]} if kinds and "items" not in schema:
            return _union(kind if kind in _NAMES else None for kind in kinds)
        case {"type": "array", "items": items}:
            item = _type(items, depth + 1)
            return None if item is None else f"({item})[]" if " | " in item else f"{item}[]"
        case {"type": str(kind)} if kind in _NAMES:
            return kind
    return None


def _union(types: Iterator[str | None]) -> str | None:
    found = list(types)
    known = [kind for kind in found if kind is not None]
    return " | ".join(dict.fromkeys(known)) if len(known) == len(found) else None
