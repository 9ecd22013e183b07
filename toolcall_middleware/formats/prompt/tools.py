"""How a prompt shows a tool: as JSON, as a signature, as a TypeScript declaration.

A schema is hostile: nothing follows a reference out of the document, and depth and size are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...json_schema.pointer import Scope
from ...model import Tool
from .escaping import as_data, describe, dump, dump_indented, dump_spaced, neutralise

# -- JSON --------------------------------------------------------------------------------------------------------------
# Spaced and indented as chat templates have it.


def definition(tool: Tool) -> str:
    """`{"name": …, "description": …, "parameters": …}`, spaced as chat templates do."""
    return as_data(dump_spaced(describe(tool)))


def function(tool: Tool) -> str:
    """The definition as OpenAI's API has it: `{"type": "function", "function": {…}}`."""
    return f'{{"type": "function", "function": {definition(tool)}}}'


def definition_indented(tool: Tool) -> str:
    """The definition over several lines, two spaces deep."""
    return as_data(dump_indented(describe(tool), indent=2))


def function_indented(tool: Tool) -> str:
    """The same as OpenAI's API has it, four spaces deep."""
    return as_data(dump_indented({"type": "function", "function": describe(tool)}, indent=4))


# -- signatures --------------------------------------------------------------------------------------------------------
#
#     get_weather(city: string, unit?: "celsius" | "fahrenheit"): Get the current weather in a city.
#         city: The city
#
# They take fewer tokens than JSON, and small models follow them better (tests/bench/README.md).

_MAX_NESTED = 4
_TYPE_NAMES = frozenset({"string", "number", "integer", "boolean", "null", "object"})
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
        return as_data(dump(describe(tool)))
    about = f": {_inside(tool.description)}" if tool.description else ""
    return "\n".join([f"{tool.name}({', '.join(shown)}){about}", *_notes(known)])


def form(tool: Tool) -> str:
    """A call of the tool. The value of each required argument is its name: `<city>`."""
    required = tool.parameters.get("required")
    names = required if isinstance(required, list) else []
    call = {"name": tool.name, "arguments": {name: f"<{name}>" for name in names if isinstance(name, str)}}
    return as_data(dump_spaced(call))


def _notes(properties: Mapping[str, Any]) -> Iterator[str]:
    for name, schema in properties.items():
        said = schema.get("description")
        more = (
            f"{key}: {as_data(dump(value))}"
            for key, value in schema.items()
            if key not in _TYPES and key != "description"
        )
        parts = [_inside(said) if isinstance(said, str) else "", f"({rest})" if (rest := ", ".join(more)) else ""]
        if text := " ".join(filter(None, parts)):
            yield f"    {name}: {text}"


def _inside(text: str) -> str:
    """A description with its later lines indented, so that none looks like another tool."""
    return "\n        ".join(neutralise(text).strip().splitlines())


def _type(schema: Any, depth: int) -> str | None:
    """`string`, `"a" | "b"`, `number[]` and the like; None for a schema that no such type expresses."""
    if not isinstance(schema, Mapping) or depth > _MAX_NESTED or (depth and not schema.keys() <= _TYPES):
        return None
    match schema:
        case {"$ref": _} | {"properties": _} | {"allOf": _} | {"not": _}:
            return None
        case {"enum": [*values]} if values:
            return " | ".join(as_data(dump(value)) for value in values)
        case {"const": value}:
            return as_data(dump(value))
        case {"anyOf": [*ways]} | {"oneOf": [*ways]} if ways:
            return _union(_type(way, depth + 1) for way in ways)
        case {"type": [*kinds]} if kinds and "items" not in schema:
            return _union(kind if kind in _TYPE_NAMES else None for kind in kinds)
        case {"type": "array", "items": items}:
            item = _type(items, depth + 1)
            return None if item is None else f"({item})[]" if " | " in item else f"{item}[]"
        case {"type": str(kind)} if kind in _TYPE_NAMES:
            return kind
    return None


def _union(types: Iterator[str | None]) -> str | None:
    found = list(types)
    known = [kind for kind in found if kind is not None]
    return " | ".join(dict.fromkeys(known)) if len(known) == len(found) else None


# -- TypeScript --------------------------------------------------------------------------------------------------------
# The declarations that harmony, Functionary and Apertus were trained to read. What has no place in such a type (limits,
# patterns) is left out.
#
#     // The weather at a place.
#     type get_weather = (_: {
#     // The city.
#     city: string,
#     unit?: "celsius" | "fahrenheit", // default: celsius
#     }) => any;

_MAX_DEPTH = 6
_MAX_NODES = 2000  # of one tool's schema, references followed
_IDENTIFIER = re.compile(r"[A-Za-z_$][A-Za-z0-9_$]{0,127}")
_NAMES = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}


def declared(tool: Tool) -> str:
    """The tool's declaration. One that takes no arguments is `type f = () => any;`."""
    lines = list(_comment(tool.description))
    properties = tool.parameters.get("properties")
    if not isinstance(properties, Mapping) or not properties:
        return "\n".join([*lines, f"type {tool.name} = () => any;"])
    body = _Writer().members(tool.parameters, Scope(tool.parameters), 0)
    return "\n".join([*lines, f"type {tool.name} = (_: {{", *body, "}) => any;"])


def _comment(text: Any) -> Iterable[str]:
    if isinstance(text, str) and text.strip():
        for line in neutralise(text.strip()).splitlines():
            yield f"// {line}"


def _literal(value: Any) -> str:
    return as_data(dump_spaced(value))


class _Writer:
    """One walk over one schema."""

    def __init__(self) -> None:
        self.left = _MAX_NODES

    def members(self, schema: Mapping[str, Any], scope: Scope, depth: int) -> list[str]:
        """The lines between an object's braces: a comment and a member for each property."""
        properties = schema.get("properties")
        required = schema.get("required")
        names = required if isinstance(required, list) else []
        lines: list[str] = []
        for name, part in properties.items() if isinstance(properties, Mapping) else ():
            if self.left <= 0:
                lines.append("// …")
                break
            key = name if _IDENTIFIER.fullmatch(name) else _literal(name)
            mark = "" if name in names else "?"
            own = part if isinstance(part, Mapping) else {}
            lines += _comment(own.get("description"))
            default = f" // default: {_literal(own['default'])}" if "default" in own else ""
            lines.append(f"{key}{mark}: {self.type(part, scope, depth + 1)},{default}")
        return lines

    def type(self, schema: Any, scope: Scope, depth: int) -> str:
        """`string`, `"a" | "b"`, `number[]`, `{…}` and the like; `any` where the schema does not say."""
        self.left -= 1
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH or self.left <= 0:
            return "any"
        if "$ref" in schema:
            return self.type(scope.find(schema["$ref"]), scope, depth + 1)
        values = schema.get("enum")
        if isinstance(values, list) and values:
            return " | ".join(map(_literal, values))
        if "const" in schema:
            return _literal(schema["const"])
        for key in ("anyOf", "oneOf"):
            options = schema.get(key)
            if isinstance(options, list) and options:
                return self._union(self.type(option, scope, depth + 1) for option in options)
        kind = schema.get("type")
        if isinstance(kind, list):
            return self._union(self._one_of_several(one, schema, scope, depth + 1) for one in kind)
        return self._or_null(kind, schema, scope, depth)

    def _one_of_several(self, kind: Any, schema: Mapping[str, Any], scope: Scope, depth: int) -> str:
        self.left -= 1
        return "any" if depth > _MAX_DEPTH or self.left <= 0 else self._or_null(kind, schema, scope, depth)

    def _or_null(self, kind: Any, schema: Mapping[str, Any], scope: Scope, depth: int) -> str:
        found = self._of(kind, schema, scope, depth)
        return f"{found} | null" if schema.get("nullable") is True else found

    def _of(self, kind: Any, schema: Mapping[str, Any], scope: Scope, depth: int) -> str:
        if kind == "array" or "items" in schema:
            item = self.type(schema.get("items"), scope, depth + 1)
            return f"({item})[]" if " | " in item else f"{item}[]"
        if isinstance(schema.get("properties"), Mapping) and schema["properties"]:
            return "\n".join(["{", *self.members(schema, scope, depth), "}"])
        if kind == "object":
            return "object"
        return _NAMES.get(kind, "any") if isinstance(kind, str) else "any"

    @staticmethod
    def _union(types: Iterable[str]) -> str:
        return " | ".join(dict.fromkeys(types)) or "any"
