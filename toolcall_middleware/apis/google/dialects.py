"""A schema as Google takes it, in one of its two forms, or the reason why it cannot.

`parameters` and `responseSchema` are a subset of OpenAPI 3.0's schemas, which every Gemini model and endpoint knows
(ai.google.dev/api/caching#Schema); an unknown keyword there is a 400. `parametersJsonSchema` and `responseJsonSchema`
take JSON Schema, of which a documented list of keywords counts. The subset comes first; the other is used for what only
it can say: maps, objects and values of any form, tuples, lists of numbers.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from ...errors import ToolCallError
from .schema import ANY, MISSING, Allowance, Node, SchemaReader, SchemaTooLargeError, both


@dataclass(frozen=True, slots=True)
class Dialect:
    """One of the two forms. `bounds` are the keywords that it has; formats are by type."""

    json_schema: bool
    bounds: frozenset[str]
    formats: Mapping[str, frozenset[str]]


_COMMON = frozenset({"minimum", "maximum", "minItems", "maxItems"})
_NUMBERS = {"number": frozenset({"float", "double"}), "integer": frozenset({"int32", "int64"})}
OPENAPI = Dialect(
    json_schema=False,
    bounds=_COMMON | {"minLength", "maxLength", "minProperties", "maxProperties"},
    formats={**_NUMBERS, "string": frozenset({"date-time"})},
)
JSON_SCHEMA = Dialect(
    json_schema=True,
    bounds=_COMMON,
    formats={**_NUMBERS, "string": frozenset({"date-time", "date", "time"})},
)

# Which types a keyword speaks of, where none is named.
_BOUNDS_OF = {
    "string": ("minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"),
    "array": ("minItems", "maxItems"),
    "object": ("minProperties", "maxProperties"),
}
_MAX_WORDS = 300


def parameters_of(schema: Any, tool: str, param: str, allowance: Allowance) -> dict[str, Any]:
    """The field of a function declaration that says its parameters: `parameters`, `parametersJsonSchema`, or none.

    Raises ToolCallError `tool_schema_incompatible`, whose `param` begins with the one that is given.
    """
    node = _read(schema, f"the tool {tool!r}", param, allowance, {"tool": tool})
    node = replace(node, types=node.types & {"object"}, null=False)
    if not node.properties and not node.required and node.any_of is None and node.extra is None:
        return {}  # an empty object is refused; without the field the function takes nothing
    written = _write(node, param, allowance, {"tool": tool}, f"the tool {tool!r}", function=True)
    return {"parametersJsonSchema" if written.dialect.json_schema else "parameters": written.value}


def response_schema_of(schema: Any, param: str, allowance: Allowance) -> dict[str, Any]:
    """The field of the generation config that says what an answer in JSON looks like."""
    node = _read(schema, "the response format", param, allowance, {})
    written = _write(replace(node, null=False), param, allowance, {}, "the response format")
    return {"responseJsonSchema" if written.dialect.json_schema else "responseSchema": written.value}


def _read(schema: Any, what: str, param: str, allowance: Allowance, extra: dict[str, Any]) -> Node:
    reader = SchemaReader(schema, allowance)
    try:
        node = reader.read()
    except SchemaTooLargeError:
        raise _refusal(what, {"size": ""}, param, extra) from None
    if reader.faults:
        raise _refusal(what, reader.faults, param, extra)
    return node


@dataclass(frozen=True, slots=True)
class _Written:
    dialect: Dialect
    value: dict[str, Any]


def _write(
    node: Node, param: str, allowance: Allowance, extra: dict[str, Any], what: str, *, function: bool = False
) -> _Written:
    faults: dict[str, str] = {}
    for dialect in (OPENAPI, JSON_SCHEMA):
        writer = _Writer(dialect, allowance)
        try:
            value = writer.write(node, "")
        except SchemaTooLargeError:
            raise _refusal(what, {"size": ""}, param, extra) from None
        faults = writer.faults
        if function and "anyOf" in value:
            # The parameters themselves must be an object.
            value = {"type": "object", **value}
            if not dialect.json_schema:
                faults.setdefault("anyOf at the top", "")
        if not faults:
            return _Written(dialect, value)
    raise _refusal(what, faults, param, extra)


def _refusal(what: str, faults: Mapping[str, str], param: str, extra: dict[str, Any]) -> ToolCallError:
    names = list(faults)
    message = f"Google's API cannot express the schema of {what}: it uses {', '.join(names)}. Leave that out."
    if "size" in faults:
        message = f"The schema of {what} is too large or too deep for Google's API once its $refs are put in place."
    return ToolCallError(
        "tool_schema_incompatible",
        message,
        param=param + next(iter(faults.values())),
        extra={"incompatible_features": names, **extra},
    )


class _Writer:
    """Writes one schema in one dialect. `faults`: what the dialect lacks, by name, with the path."""

    def __init__(self, dialect: Dialect, allowance: Allowance) -> None:
        self._dialect = dialect
        self._allowance = allowance
        self.faults: dict[str, str] = {}

    def write(self, node: Node, path: str, depth: int = 0) -> dict[str, Any]:
        """The schema. Raises SchemaTooLargeError."""
        self._allowance.take(depth, 1 + node.weight)
        if node.any_of is not None:
            return self._union(self._branches(node, path), node, path, depth)
        if node.is_never:
            return self._fault("schema that nothing fits", path)
        if not node.types:
            return self._texts({"type": self._name("null")}, node, [])
        types = _spoken_of(node) if node.types == ANY else node.types
        if not types:
            return self._anything(node, path)
        if len(types) > 1:
            each = [replace(node, types=frozenset({name}), enum=_of_type(node.enum, name)) for name in sorted(types)]
            return self._union(each, node, path, depth)
        return self._single(node, next(iter(types)), path, depth)

    def _fault(self, name: str, path: str) -> dict[str, Any]:
        self.faults.setdefault(name, path)
        return {}

    def _name(self, kind: str) -> str:
        return kind if self._dialect.json_schema else kind.upper()

    def _branches(self, node: Node, path: str) -> list[Node]:
        """The alternatives, each with what holds for all of them."""
        base = replace(node, any_of=None, null=True, title=None, default=MISSING)

        def fault(name: str) -> None:
            self.faults.setdefault(name, path)

        merged = [both(replace(branch, null=True), base, self._allowance, fault) for branch in node.any_of or ()]
        return _one_list([branch for branch in merged if branch.types and not branch.is_never])

    def _union(self, branches: list[Node], node: Node, path: str, depth: int) -> dict[str, Any]:
        if not branches:
            return self._fault("schema that nothing fits", path)
        if len(branches) == 1:
            only = branches[0]
            only = replace(only, null=node.null, default=node.default, title=node.title or only.title)
            return self.write(replace(only, description=node.description or only.description), path, depth + 1)
        # Beside `anyOf` some endpoints take nothing else: the description goes into each branch.
        nulls = node.null and not self._dialect.json_schema
        written = [
            self.write(
                replace(branch, null=nulls, description=branch.description or node.description),
                f"{path}.anyOf[{index}]",
                depth + 1,
            )
            for index, branch in enumerate(branches)
        ]
        if node.null and self._dialect.json_schema:
            written.append({"type": "null"})
        return {"anyOf": written}

    def _anything(self, node: Node, path: str) -> dict[str, Any]:
        if not self._dialect.json_schema:
            return self._fault("value of any type", path)
        return self._texts({}, node, [])

    # -- one type ------------------------------------------------------------------------------------------------

    def _single(self, node: Node, kind: str, path: str, depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {"type": self._name(kind)}
        if node.null:
            if self._dialect.json_schema:
                out["type"] = [kind, "null"]
            else:
                out["nullable"] = True
        words: list[str] = []
        bounds = _whole_bounds(node.bounds) if kind == "integer" else dict(node.bounds)
        if node.enum is not None:
            bounds = self._enum(node.enum, kind, bounds, out, words, path)
        if node.format is not None and "format" not in out:
            if node.format in self._dialect.formats.get(kind, ()):
                out["format"] = node.format
            else:
                words.append(f"format {node.format}")
        if node.pattern is not None and kind == "string":
            if self._dialect.json_schema:
                words.append(f"matching {node.pattern}")
            else:
                out["pattern"] = node.pattern
        self._put_bounds(bounds, "number" if kind == "integer" else kind, out, words)
        if kind == "array":
            self._array(node, out, path, depth)
        elif kind == "object":
            self._object(node, out, path, depth)
        return self._texts(out, node, words)

    def _enum(
        self, enum: list[Any], kind: str, bounds: dict[str, float], out: dict[str, Any], words: list[str], path: str
    ) -> dict[str, float]:
        if kind == "boolean":
            if len(set(enum)) == 1:
                words.append(f"always {json.dumps(enum[0])}")
        elif kind == "string":
            if "" in enum:
                # An empty string in the list is refused.
                words.append(f"one of {json.dumps(enum, ensure_ascii=False)}")
            else:
                out["enum"] = list(dict.fromkeys(enum))
                if not self._dialect.json_schema:
                    out["format"] = "enum"
        elif _is_range(enum):
            return {"minimum": min(enum), "maximum": max(enum)}
        elif self._dialect.json_schema:
            out["enum"] = enum
        else:
            self._fault("enum of numbers", f"{path}.enum")
        return bounds

    def _put_bounds(self, bounds: dict[str, float], kind: str, out: dict[str, Any], words: list[str]) -> None:
        for name in _BOUNDS_OF.get(kind, ()):
            if name not in bounds:
                continue
            value = bounds[name]
            if name in self._dialect.bounds:
                out[name] = value
            elif name.startswith("exclusive"):
                # The nearest that can be said, and the rest in words.
                edge = name.removeprefix("exclusive").lower()
                words.append(f"{'more' if edge == 'minimum' else 'less'} than {value}")
                nearest = max if edge == "minimum" else min
                out[edge] = nearest(value, bounds.get(edge, value))
            else:
                words.append(f"{name} {value}")

    def _array(self, node: Node, out: dict[str, Any], path: str, depth: int) -> None:
        if node.prefix is not None:
            if not self._dialect.json_schema:
                self._fault("prefixItems", f"{path}.prefixItems")
                return
            out["prefixItems"] = [
                self.write(part, f"{path}.prefixItems[{index}]", depth + 1) for index, part in enumerate(node.prefix)
            ]
        if node.items is not None and node.items.is_never:
            # Nothing but the tuple's own items, or no item at all.
            out["maxItems"] = len(node.prefix or ())
            if not self._dialect.json_schema:
                self._fault("array without items", f"{path}.items")
        elif node.items is not None:
            out["items"] = self.write(node.items, f"{path}.items", depth + 1)
        elif not self._dialect.json_schema:
            self._fault("array of any items", path)

    def _object(self, node: Node, out: dict[str, Any], path: str, depth: int) -> None:
        properties: dict[str, Any] = {}
        for name, value in node.properties.items():
            if value.is_never and name not in node.required:
                continue  # what may not be there is not offered
            properties[name] = self.write(value, f"{path}.properties.{name}", depth + 1)
        for name in node.required:
            if name not in properties:
                other = node.extra if isinstance(node.extra, Node) else Node()
                properties[name] = self.write(other, f"{path}.required", depth + 1)
        if properties or node.extra is False:
            out["properties"] = properties
        if node.required:
            out["required"] = list(node.required)
        if self._dialect.json_schema:
            if node.extra is not None:
                extra = node.extra
                out["additionalProperties"] = (
                    self.write(extra, f"{path}.additionalProperties", depth + 1) if isinstance(extra, Node) else extra
                )
        elif isinstance(node.extra, Node):
            self._fault("additionalProperties", f"{path}.additionalProperties")
        elif not properties:
            self._fault("object without properties", path)

    def _texts(self, out: dict[str, Any], node: Node, words: list[str]) -> dict[str, Any]:
        if node.title:
            out["title"] = node.title
        words = [*words, *node.words]
        if node.default is not MISSING:
            if not self._dialect.json_schema:
                out["default"] = node.default
            else:
                shown = json.dumps(node.default, ensure_ascii=False)
                words += [f"default {shown}"] if len(shown) <= _MAX_WORDS else []
        said = "; ".join(words)
        if said:
            said = f"({said[0].upper()}{said[1:]}.)"
        text = " ".join(filter(None, (node.description, said)))
        if text:
            out["description"] = text
        return out


def _spoken_of(node: Node) -> frozenset[str]:
    """The types that a schema without `type` is about, by its keywords."""
    types = {kind for kind, names in _BOUNDS_OF.items() if any(name in node.bounds for name in names)}
    if node.pattern is not None or node.format is not None:
        types.add("string")
    if node.items is not None or node.prefix is not None:
        types.add("array")
    if node.properties or node.required or node.extra is not None:
        types.add("object")
    return frozenset(types)


def _one_list(branches: list[Node]) -> list[Node]:
    """Alternatives that are single strings become one list, unless each is described."""
    plain = [
        branch
        for branch in branches
        if branch.enum is not None and branch.types == {"string"} and not (branch.description or branch.title)
    ]
    if len(plain) < 2:
        return branches
    merged = replace(plain[0], enum=[value for branch in plain for value in branch.enum or ()])
    return [merged, *(branch for branch in branches if all(branch is not one for one in plain))]


def _of_type(enum: list[Any] | None, kind: str) -> list[Any] | None:
    if enum is None:
        return None
    wanted = {"string": str, "boolean": bool}.get(kind, (int, float))
    return [value for value in enum if isinstance(value, wanted) and (kind == "boolean") is isinstance(value, bool)]


def _is_range(enum: list[Any]) -> bool:
    """Whether a list of numbers says the same as two bounds."""
    if len(set(enum)) == 1:
        return True
    whole = all(isinstance(value, int) for value in enum)
    return whole and max(enum) - min(enum) == len(set(enum)) - 1


def _whole_bounds(bounds: Mapping[str, float]) -> dict[str, float]:
    """Bounds of an integer, where exclusive ones can be said exactly."""
    out = {name: value for name, value in bounds.items() if not name.startswith("exclusive")}
    if "exclusiveMinimum" in bounds and math.isfinite(bounds["exclusiveMinimum"]):
        least = math.floor(bounds["exclusiveMinimum"]) + 1
        out["minimum"] = max(least, out.get("minimum", least))
    if "exclusiveMaximum" in bounds and math.isfinite(bounds["exclusiveMaximum"]):
        most = math.ceil(bounds["exclusiveMaximum"]) - 1
        out["maximum"] = min(most, out.get("maximum", most))
    return out
