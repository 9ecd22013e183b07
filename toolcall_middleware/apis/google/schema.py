"""A client's JSON Schema as `parametersJsonSchema` and `responseJsonSchema` take it, or the reason why they cannot.

Google documents the keywords that count there (ai.google.dev/api/generate-content, `responseJsonSchema`) and ignores
others. They are sent as they came. References are replaced by their targets, `allOf` is merged, and `const` becomes
`enum`; limits that have no keyword there (a `pattern`, say) are added to the description. A schema that loses more than
a limit is a `tool_schema_incompatible`.

The schema is hostile input: its depth, and what it costs after references are replaced, are bounded.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from ...errors import refusal
from ...json_schema.pointer import OutOfDocument, Scope, Unresolved

MAX_VALUES = 40_000
"""The maximum cost of the schemas of one request, in units of about 20 us: one for each schema that is read or merged
and for each 128 characters of its texts. The schemas that agents send cost some hundreds."""
MAX_DEPTH = 64

Schema = dict[str, Any]
"""A schema in Google's keywords."""

_IMPOSSIBLE = (
    "not", "if", "then", "else", "dependentSchemas", "dependentRequired", "dependencies", "contains",
    "$dynamicRef", "$recursiveRef",
)  # fmt: skip
_TIGHTER: dict[str, Callable[..., Any]] = {"minItems": max, "maxItems": min, "minimum": max, "maximum": min}
_NUMBERS = tuple(_TIGHTER)
_FORMATS = frozenset({"float", "double", "int32", "int64", "date-time", "date", "time"})
_DESCRIBED = (
    "format", "pattern", "minLength", "maxLength", "minProperties", "maxProperties", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "uniqueItems", "default",
)  # fmt: skip
_MAX_DESCRIBED = 300
# TypeBox and others write a map like this.
_MATCHES_ALL = frozenset({"", ".*", "^.*$", "^(.*)$", ".+", "^.+$"})
_TYPES = {str: "string", bool: "boolean", int: "integer", float: "number", type(None): "null"}
_NAMES_OF_TYPES = frozenset({*_TYPES.values(), "array", "object"})
_LISTED = frozenset({"string", "integer", "number"})


def parameters_of(schema: Any, tool: str, param: str, allowance: Allowance) -> dict[str, Any]:
    """The field of a function declaration that describes its parameters, or none for a tool without any.

    Raises ToolCallError `tool_schema_incompatible`, whose `param` begins with the given one.
    """
    written = _write(schema, f"the tool {tool!r}", param, allowance, {"tool": tool})
    if not (written.get("properties") or written.keys() & {"required", "anyOf", "additionalProperties"}):
        return {}  # Google refuses an empty object; a function without the field takes nothing
    return {"parametersJsonSchema": {**written, "type": "object"}}


def response_schema_of(schema: Any, param: str, allowance: Allowance) -> dict[str, Any]:
    """The field of the generation config that describes an answer in JSON. Raises as `parameters_of` does."""
    return {"responseJsonSchema": _write(schema, "the response format", param, allowance, {})}


def _write(schema: Any, what: str, param: str, allowance: Allowance, extra: dict[str, Any]) -> Schema:
    writer = _Writer(schema, allowance)
    try:
        written = writer.schema(schema, "", 0)
    except SchemaTooLargeError:
        message = f"The schema of {what} is too large or too deep for Google's API once its $refs are replaced."
        features, path = ["size"], ""
    else:
        if not writer.faults:
            return written
        features, path = list(writer.faults), next(iter(writer.faults.values()))
        message = f"Google's API cannot express the schema of {what}: it uses {', '.join(features)}. Leave that out."
    raise refusal(param + path, message, "tool_schema_incompatible", incompatible_features=features, **extra)


class SchemaTooLargeError(Exception):
    """The schema nests too deep, or becomes too large when its references are replaced."""


class Allowance:
    """The remaining allowance for the cost of a request's schemas."""

    __slots__ = ("_left",)

    def __init__(self, values: int = MAX_VALUES) -> None:
        self._left = values

    def take(self, depth: int = 0, cost: int = 1) -> None:
        """Subtracts `cost`. Raises SchemaTooLargeError when nothing is left, or at too great a depth."""
        self._left -= cost
        if self._left < 0 or depth > MAX_DEPTH:
            raise SchemaTooLargeError


class _Writer:
    """Writes one document. `faults`: what cannot be expressed, by name, with the path of its first occurrence."""

    def __init__(self, root: Any, allowance: Allowance) -> None:
        self._allowance = allowance
        self._scope = Scope(root)
        self._open: list[int] = []  # the targets of the references that are being replaced, by identity
        self.faults: dict[str, str] = {}

    def schema(self, schema: Any, path: str, depth: int) -> Schema:
        """A schema of the document. Raises SchemaTooLargeError."""
        self._allowance.take(depth)
        if schema is True:
            return {}
        if not isinstance(schema, dict):
            return self._fault("schema that nothing fits" if schema is False else "schema that is no object", path)
        for name in _IMPOSSIBLE:
            if name in schema:
                self._fault(name, f"{path}.{name}")
        written = self._own(schema, path, depth)
        if "$ref" in schema:
            written = self._both(written, self._target(schema["$ref"], path, depth))
        for index, part in enumerate(_list(schema.get("allOf"))):
            written = self._both(written, self.schema(part, f"{path}.allOf[{index}]", depth + 1))
        for name in written.get("required", ()):  # Google wants a schema for each
            written.setdefault("properties", {}).setdefault(name, {})
        return written

    def _fault(self, name: str, path: str) -> Schema:
        self.faults.setdefault(name, path)
        return {}

    def _target(self, reference: Any, path: str, depth: int) -> Schema:
        try:
            target = self._scope.resolve(reference if isinstance(reference, str) else "?")
        except OutOfDocument:
            return self._fault("$ref out of the document", f"{path}.$ref")
        except Unresolved:
            return self._fault("$ref without a target", f"{path}.$ref")
        if id(target) in self._open:
            return self._fault("recursive $ref", f"{path}.$ref")
        self._open.append(id(target))
        try:
            return self.schema(target, path, depth + 1)
        finally:
            self._open.pop()

    def _both(self, first: Schema, second: Schema) -> Schema:
        """A schema that allows all that fits both, or more: of a keyword that both have, the first one's is used."""
        sizes = sum(len(one.get(name, ())) for one in (first, second) for name in ("properties", "required"))
        self._allowance.take(cost=1 + (sizes >> 4))
        merged = {**second, **first}
        for name, tighter in _TIGHTER.items():
            if name in first and name in second:
                merged[name] = tighter(first[name], second[name])
        if "required" in first and "required" in second:
            merged["required"] = list(dict.fromkeys([*first["required"], *second["required"]]))
        if "properties" in first and "properties" in second:
            own, other = first["properties"], second["properties"]
            shared = {name: self._both(own[name], other[name]) for name in own.keys() & other.keys()}
            merged["properties"] = {**own, **other, **shared}
        closed = first.get("additionalProperties") is False and second.get("additionalProperties") is not False
        if closed and second.get("properties"):
            # A closed object that another one extends: authors mean the properties of both.
            del merged["additionalProperties"]
        return merged

    # -- a schema's own keywords ---------------------------------------------------------------------------------

    def _own(self, schema: Schema, path: str, depth: int) -> Schema:
        """The schema without its references and `allOf`."""
        written = {name: schema[name] for name in _NUMBERS if type(schema.get(name)) in {int, float}}
        self._type(schema, written, path)
        self._items(schema, written, path, depth)
        self._properties(schema, written, path, depth)
        for name in ("anyOf", "oneOf"):
            branches = [one for one in _list(schema.get(name)) if one is not False]
            if branches and "anyOf" in written:
                self._fault("oneOf beside anyOf", f"{path}.oneOf")
            elif branches:
                written["anyOf"] = [
                    self.schema(one, f"{path}.{name}[{i}]", depth + 1) for i, one in enumerate(branches)
                ]
        only: list[Any] = []
        if "enum" in schema or "const" in schema:
            only = self._values(schema, written, path)
        self._describe(schema, written, only)
        return written

    def _type(self, schema: Schema, written: Schema, path: str) -> None:
        given = schema.get("type")
        if given is None:
            return
        names = given if isinstance(given, list) else [given]
        if not names or not all(isinstance(name, str) and name in _NAMES_OF_TYPES for name in names):
            self._fault("type", f"{path}.type")
            return
        if schema.get("nullable") is True and "null" not in names:  # OpenAPI's
            names = [*names, "null"]
        written["type"] = names if len(names) > 1 else names[0]

    def _values(self, schema: Schema, written: Schema, path: str) -> list[Any]:
        """`enum` and `const`, which count only beside the type of the values: a branch for each type.

        Return the values where no keyword can say all of them.
        """
        values = [schema["const"]] if "const" in schema else _list(schema["enum"])
        if any(type(value) not in _TYPES for value in values):
            self._fault("enum of arrays or objects", f"{path}.enum")
            return []
        self._allowance.take(cost=sum(len(value) if isinstance(value, str) else 8 for value in values) >> 7)
        given = written.pop("type", None)
        allowed = given if isinstance(given, list) else [given]
        listed: dict[str, list[Any]] = {}
        for value in values:
            kind = "integer" if isinstance(value, float) and value.is_integer() else _TYPES[type(value)]
            if given is None or kind in allowed or (kind in _LISTED - {"string"} and "number" in allowed):
                listed.setdefault(kind, []).append(value)
        branches: list[Schema] = []
        has_undeclared = False
        for kind, own in listed.items():
            # Google lists strings that are not empty, and numbers.
            named = kind in _LISTED and "" not in own
            has_undeclared |= not named and (kind == "string" or (kind == "boolean" and len(set(own)) == 1))
            branches.append({"type": kind, **({"enum": list(dict.fromkeys(own))} if named else {})})
        if not branches:
            self._fault("schema that nothing fits", path)
        written |= branches[0] if len(branches) == 1 else {"anyOf": branches}
        return [value for own in listed.values() for value in own] if has_undeclared else []

    def _items(self, schema: Schema, written: Schema, path: str, depth: int) -> None:
        items: Any = schema.get("items")
        prefix = _list(schema.get("prefixItems"))
        if isinstance(items, list):  # draft 7's tuples
            items, prefix = schema.get("additionalItems"), items
        if prefix:
            written["prefixItems"] = [
                self.schema(part, f"{path}.prefixItems[{index}]", depth + 1) for index, part in enumerate(prefix)
            ]
        if items is False:  # nothing but the tuple's own items, or no item at all
            written["maxItems"] = len(prefix)
        elif items is not None:
            written["items"] = self.schema(items, f"{path}.items", depth + 1)

    def _properties(self, schema: Schema, written: Schema, path: str, depth: int) -> None:
        properties, required = schema.get("properties"), _list(schema.get("required"))
        required = [name for name in dict.fromkeys(required) if isinstance(name, str)]
        if isinstance(properties, dict):
            self._allowance.take(cost=sum(map(len, properties)) >> 7)
            # A property whose schema is false must be absent, so it is left out.
            written["properties"] = {
                name: self.schema(value, f"{path}.properties.{name}", depth + 1)
                for name, value in properties.items()
                if value is not False or name in required
            }
        if required:
            self._allowance.take(cost=sum(map(len, required)) >> 7)
            written["required"] = required
        others = schema.get("additionalProperties", schema.get("unevaluatedProperties"))
        patterns = schema.get("patternProperties")
        if isinstance(patterns, dict) and patterns:
            if not set(patterns) <= _MATCHES_ALL or len(patterns) > 1:
                self._fault("patternProperties", f"{path}.patternProperties")
            others = next(iter(patterns.values()))
        if isinstance(others, bool):
            written["additionalProperties"] = others
        elif others is not None:
            written["additionalProperties"] = self.schema(others, f"{path}.additionalProperties", depth + 1)

    def _describe(self, schema: Schema, written: Schema, only: list[Any]) -> None:
        """`format`, `title` and `description`, with the limits and the values (`only`) that no keyword can say."""
        if isinstance(schema.get("format"), str) and schema["format"] in _FORMATS:
            written["format"] = schema["format"]
        limits = {name: schema[name] for name in _DESCRIBED if name not in written and name in schema}
        notes = [f"{name}: {_spelled(value)}" for name, value in limits.items() if _is_short(value)]
        if only:
            notes.append(f"only {', '.join(map(_spelled, only))}")
        title, text = (str(schema.get(name) or "") for name in ("title", "description"))
        if notes:
            text = f"{text} ({', '.join(notes)})".lstrip()
        self._allowance.take(cost=len(title) + len(text) >> 7)
        written |= {name: said for name, said in (("title", title), ("description", text)) if said}


def _spelled(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _is_short(value: Any) -> bool:
    return isinstance(value, int | float) or (isinstance(value, str) and len(value) <= _MAX_DESCRIBED)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
