"""Tools as TypeScript declarations, the way harmony, Functionary and Apertus were trained to read them.

    // The weather at a place.
    type get_weather = (_: {
    // The city.
    city: string,
    unit?: "celsius" | "fahrenheit", // default: celsius
    }) => any;

A schema says more than such a type: what has no place in it (limits, patterns) is left out. Schemas are hostile:
nothing follows a reference out of the document, and depth and size are bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from ...json_schema.pointer import Scope
from ...model import Tool
from . import escaping

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
        for line in escaping.neutralise(text.strip()).splitlines():
            yield f"// {line}"


def _literal(value: Any) -> str:
    return escaping.as_data(escaping.dump_spaced(value))


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
