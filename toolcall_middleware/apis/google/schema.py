"""A client's JSON Schema as `parametersJsonSchema` and `responseJsonSchema` take it, or the reason why they cannot.

Google documents the keywords that count there (ai.google.dev/api/generate-content, `responseJsonSchema`). References
are replaced by their targets, `allOf` is merged, `const` becomes `enum`, and a narrowing that has no keyword there (a
`pattern`, say) is added to the description in words. What cannot be expressed is a `tool_schema_incompatible`.

The schema is hostile input: its depth, and what it costs after references are replaced, are bounded.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeGuard

from ...errors import ToolCallError
from ...json_schema.pointer import OutOfDocument, Scope, Unresolved

MAX_VALUES = 40_000
"""What the schemas of one request may cost, at about 20 us each: one for each schema that is read or merged, and one
for each 128 characters of its texts. Those that agents send cost some hundreds."""
MAX_DEPTH = 64

Schema = dict[str, Any]
"""A schema in Google's keywords. `NEVER` is one that no value fits."""
NEVER: Schema = {"not": {}}

_IMPOSSIBLE = (
    "not", "if", "then", "else", "dependentSchemas", "dependentRequired", "dependencies", "contains",
    "$dynamicRef", "$recursiveRef",
)  # fmt: skip
# Which types a keyword is about, where the schema names none.
_ABOUT = {
    "string": ("pattern", "format", "minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    "array": ("items", "prefixItems", "minItems", "maxItems", "uniqueItems"),
    "object": (
        "properties", "required", "additionalProperties", "unevaluatedProperties", "patternProperties",
        "minProperties", "maxProperties", "propertyNames",
    ),
}  # fmt: skip
_TYPES = frozenset({"string", "number", "integer", "boolean", "array", "object", "null"})
_FORMATS = {
    "number": frozenset({"float", "double"}),
    "integer": frozenset({"int32", "int64"}),
    "string": frozenset({"date-time", "date", "time"}),
}
# TypeBox and others write a map like this.
_MATCHES_ALL = frozenset({"", ".*", "^.*$", "^(.*)$", ".+", "^.+$"})
_MAX_WORDS = 300


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
        written = writer.write()
    except SchemaTooLargeError:
        message = f"The schema of {what} is too large or too deep for Google's API once its $refs are replaced."
        features, path = ["size"], ""
    else:
        if not writer.faults:
            return written
        features, path = list(writer.faults), next(iter(writer.faults.values()))
        message = f"Google's API cannot express the schema of {what}: it uses {', '.join(features)}. Leave that out."
    raise ToolCallError(
        "tool_schema_incompatible", message, param=param + path, extra={"incompatible_features": features, **extra}
    )


class SchemaTooLargeError(Exception):
    """The schema nests too deep, or becomes too large when its references are replaced."""


class Allowance:
    """What the schemas of a request may still cost."""

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
        self._root = root
        self._allowance = allowance
        self._scope = Scope.of(root)
        self._open: list[int] = []  # the targets of the references that are being replaced, by identity
        self.faults: dict[str, str] = {}

    def write(self) -> Schema:
        """The whole document. Raises SchemaTooLargeError."""
        return self._usable(self._schema(self._root, "", 0), "")

    def _fault(self, name: str, path: str) -> Schema:
        self.faults.setdefault(name, path)
        return {}

    def _usable(self, schema: Schema, path: str) -> Schema:
        """A schema for its place: no value of type null alone, and every required property has a schema."""
        if schema is NEVER:
            return self._fault("schema that nothing fits", path)
        for name in schema.get("required", ()):
            properties = schema.setdefault("properties", {})
            other = schema.get("additionalProperties")
            properties.setdefault(name, other if isinstance(other, dict) else {})
            if properties[name] is NEVER:
                self._fault("schema that nothing fits", f"{path}.properties.{name}")
        if properties := schema.get("properties"):
            # A property that no value fits must be absent: it is not offered.
            schema["properties"] = {
                name: self._usable(value, f"{path}.properties.{name}")
                for name, value in properties.items()
                if value is not NEVER
            }
        for name in ("items", "additionalProperties"):
            if isinstance(schema.get(name), dict):
                schema[name] = self._usable(schema[name], f"{path}.{name}")
        for name in ("anyOf", "prefixItems"):
            if name in schema:
                schema[name] = [self._usable(one, f"{path}.{name}[{i}]") for i, one in enumerate(schema[name])]
        return schema

    def _schema(self, schema: Any, path: str, depth: int) -> Schema:
        self._allowance.take(depth)
        if schema is True:
            return {}
        if schema is False:
            return NEVER
        if not isinstance(schema, dict):
            return self._fault("schema that is no object", path)
        for name in _IMPOSSIBLE:
            if name in schema:
                self._fault(name, f"{path}.{name}")
        outer = self._scope
        self._scope = outer.enter(schema)
        try:
            written = self._own(schema, path, depth)
            if "$ref" in schema:
                written = self._both(written, self._referred(schema["$ref"], path, depth), depth)
            for index, part in enumerate(_list(schema.get("allOf"))):
                written = self._both(written, self._schema(part, f"{path}.allOf[{index}]", depth + 1), depth)
            for name in ("anyOf", "oneOf"):
                if branches := _list(schema.get(name)):
                    read = [self._schema(one, f"{path}.{name}[{i}]", depth + 1) for i, one in enumerate(branches)]
                    written = self._both(_union(read), written, depth)
        finally:
            self._scope = outer
        return written

    def _referred(self, reference: Any, path: str, depth: int) -> Schema:
        try:
            target, scope = self._scope.resolve(reference) if isinstance(reference, str) else (None, None)
        except OutOfDocument:
            scope = None
        except Unresolved:
            return self._fault("$ref without a target", f"{path}.$ref")
        if scope is None:
            return self._fault("$ref out of the document", f"{path}.$ref")
        if id(target) in self._open:
            return self._fault("recursive $ref", f"{path}.$ref")
        self._open.append(id(target))
        outer, self._scope = self._scope, scope
        try:
            return self._schema(target, path, depth + 1)
        finally:
            self._scope = outer
            self._open.pop()

    # -- a schema's own keywords ---------------------------------------------------------------------------------

    def _own(self, schema: Schema, path: str, depth: int) -> Schema:
        """The schema without its references and combinations."""
        kinds = self._kinds(schema, path)
        texts = {name: schema[name] for name in ("title", "description") if _is_text(schema.get(name))}
        self._allowance.take(cost=sum(len(text) for text in texts.values()) >> 7)
        words = _words(schema)
        if "enum" in schema or "const" in schema:
            branches = self._values(schema, kinds, path, words)
        elif kinds is None:
            branches = [{}]
        else:
            branches = [self._kind(schema, kind, path, depth) for kind in sorted(kinds, key=_order)]
        if said := "; ".join(words):
            said = f"({said[0].upper()}{said[1:]}.)"
            texts["description"] = f"{texts['description']} {said}" if "description" in texts else said
        return _titled(_union(branches), texts)

    def _kinds(self, schema: Schema, path: str) -> set[str] | None:
        """The names of its types; None for a schema that says nothing of them."""
        given = schema.get("type")
        if given is None:
            about = {kind for kind, names in _ABOUT.items() if not schema.keys().isdisjoint(names)}
            return about | {"null"} if about else None
        names = given if isinstance(given, list) else [given]
        if not all(isinstance(name, str) and name in _TYPES for name in names):
            self._fault("type", f"{path}.type")
            return None
        kinds = set(names) | ({"null"} if schema.get("nullable") is True else set())  # OpenAPI's
        return kinds - {"integer"} if "number" in kinds else kinds

    def _values(self, schema: Schema, kinds: set[str] | None, path: str, words: list[str]) -> list[Schema]:
        """A branch for each type that the listed values have."""
        values = schema["enum"] if isinstance(schema.get("enum"), list) else [schema.get("const")]
        if "const" in schema:
            values = [value for value in values if _same(value, schema["const"])]
        if any(isinstance(value, list | dict) for value in values):
            self._fault("enum of arrays or objects", f"{path}.enum")
            return [{}]
        self._allowance.take(cost=sum(len(value) if isinstance(value, str) else 8 for value in values) >> 7)
        branches: dict[str, Schema] = {}
        for value in values:
            kind = _kind_of(value)
            if kinds is not None and kind not in kinds and not (kind == "integer" and "number" in kinds):
                continue
            branches.setdefault(kind, {"type": kind, "enum": []})["enum"].append(value)
        for branch in branches.values():
            branch["enum"] = list(dict.fromkeys(branch["enum"]))
        if "boolean" in branches and len(only := branches["boolean"].pop("enum")) == 1:
            words.append(f"always {json.dumps(only[0])}")
        if "" in branches.get("string", {}).get("enum", ()):  # Google refuses an empty string in the list
            words.append(f"one of {json.dumps(branches['string'].pop('enum'), ensure_ascii=False)}")
        branches.get("null", {}).pop("enum", None)
        return list(branches.values())

    def _kind(self, schema: Schema, kind: str, path: str, depth: int) -> Schema:
        """What the schema says of values of one type."""
        written: Schema = {"type": kind}
        if schema.get("format") in _FORMATS.get(kind, ()):
            written["format"] = schema["format"]
        if kind in {"number", "integer"}:
            written |= _bounds(schema, whole=kind == "integer")
        elif kind == "array":
            written |= {name: schema[name] for name in ("minItems", "maxItems") if _is_number(schema.get(name))}
            self._items(schema, written, path, depth)
        elif kind == "object":
            self._properties(schema, written, path, depth)
        return written

    def _items(self, schema: Schema, written: Schema, path: str, depth: int) -> None:
        items: Any = schema.get("items")
        prefix = _list(schema.get("prefixItems"))
        if isinstance(items, list):  # draft 7's tuples
            items, prefix = schema.get("additionalItems"), items
        if prefix:
            written["prefixItems"] = [
                self._schema(part, f"{path}.prefixItems[{index}]", depth + 1) for index, part in enumerate(prefix)
            ]
        if items is None:
            return
        written["items"] = self._schema(items, f"{path}.items", depth + 1)
        if written["items"] is NEVER:  # nothing but the tuple's own items, or no item at all
            del written["items"]
            written["maxItems"] = len(prefix)

    def _properties(self, schema: Schema, written: Schema, path: str, depth: int) -> None:
        properties = schema.get("properties")
        if isinstance(properties, dict):
            self._allowance.take(cost=sum(map(len, properties)) >> 7)
            written["properties"] = {
                name: self._schema(value, f"{path}.properties.{name}", depth + 1) for name, value in properties.items()
            }
        required = [name for name in _list(schema.get("required")) if isinstance(name, str)]
        if required:
            self._allowance.take(cost=sum(map(len, required)) >> 7)
            written["required"] = list(dict.fromkeys(required))
        others = schema.get("additionalProperties", schema.get("unevaluatedProperties"))
        patterns = schema.get("patternProperties")
        if isinstance(patterns, dict) and patterns:
            if not set(patterns) <= _MATCHES_ALL or len(patterns) > 1:
                self._fault("patternProperties", f"{path}.patternProperties")
            others = next(iter(patterns.values()))
        if isinstance(others, bool):
            written["additionalProperties"] = others
        elif others is not None:
            written["additionalProperties"] = self._schema(others, f"{path}.additionalProperties", depth + 1)

    # -- combinations --------------------------------------------------------------------------------------------

    def _both(self, first: Schema, second: Schema, depth: int) -> Schema:
        """The schema of what fits both. Texts are the first one's where it has any."""
        if first is NEVER or second is NEVER:
            return NEVER
        sizes = (len(one.get(name, ())) for one in (first, second) for name in ("properties", "required", "enum"))
        self._allowance.take(depth, 1 + (sum(sizes) >> 4))
        if "anyOf" in first or "anyOf" in second:
            return _union(self._both(a, b, depth + 1) for a in _branches(first) for b in _branches(second))
        merged = {**second, **first}
        for name in first.keys() & second.keys():
            merge: Callable[[Any, Any], Any] | None = _MERGED.get(name)
            if merge is not None:
                merged[name] = merge(first[name], second[name])
            elif name in {"items", "properties"}:
                merged[name] = self._both_of(name, first[name], second[name], depth)
            elif name == "prefixItems":
                a, b = first[name], second[name]
                longer = a if len(a) > len(b) else b
                merged[name] = [self._both(one, other, depth + 1) for one, other in zip(a, b, strict=False)]
                merged[name] += longer[len(merged[name]) :]
        if "additionalProperties" in merged:
            merged["additionalProperties"] = self._others(first, second, depth)
            if merged["additionalProperties"] is None:
                del merged["additionalProperties"]
        if "type" in merged and not merged["type"]:
            return NEVER
        if "enum" in merged:
            merged["enum"] = [value for value in merged["enum"] if _fits(value, merged)]
            if not merged["enum"]:
                return NEVER
        return merged

    def _both_of(self, name: str, first: Schema, second: Schema, depth: int) -> Schema:
        if name == "items":
            return self._both(first, second, depth + 1)
        shared = {key: self._both(first[key], second[key], depth + 1) for key in first.keys() & second.keys()}
        return {**first, **second, **shared}

    def _others(self, first: Schema, second: Schema, depth: int) -> Schema | bool | None:
        """What other properties may be."""
        a, b = first.get("additionalProperties"), second.get("additionalProperties")
        if isinstance(a, dict) and isinstance(b, dict):
            return self._both(a, b, depth + 1)
        if isinstance(a, dict) or isinstance(b, dict):
            return a if isinstance(a, dict) else b
        if (a is False) is not (b is False) and (first if b is False else second).get("properties"):
            # A closed object that another one extends: what people mean is both lists of properties.
            return None
        return False not in {a, b}


def _order(kind: str) -> tuple[bool, str]:
    return kind == "null", kind


def _in_both(first: list[Any], second: list[Any]) -> list[Any]:
    others = set(second)
    return [value for value in first if value in others]


def _common(first: Any, second: Any) -> Any:
    """The types that both name: a name, a list of names, or nothing."""
    a, b = ({one} if isinstance(one, str) else set(one) for one in (first, second))
    both = a & b
    if ("integer" in a and "number" in b) or ("integer" in b and "number" in a):
        both |= {"integer"}
    names = sorted(both, key=_order)
    return names if len(names) != 1 else names[0]


_MERGED: Mapping[str, Callable[[Any, Any], Any]] = {
    "type": _common,
    "enum": _in_both,
    "required": lambda first, second: list(dict.fromkeys([*first, *second])),
    "minimum": max,
    "minItems": max,
    "maximum": min,
    "maxItems": min,
}


def _branches(schema: Schema) -> list[Schema]:
    """The alternatives; a schema without any is its own one."""
    found: list[Schema] = schema.get("anyOf", [schema])
    return found


def _union(schemas: Iterable[Schema]) -> Schema:
    """One of several schemas."""
    branches = [branch for schema in schemas if schema is not NEVER for branch in _branches(schema)]
    null = {"type": "null"} in branches
    branches = [branch for branch in branches if branch != {"type": "null"}]
    # Single strings become one list, unless one is described.
    listed = [branch for branch in branches if branch.keys() == {"type", "enum"} and branch["type"] == "string"]
    if len(listed) > 1:
        values = list(dict.fromkeys(value for branch in listed for value in branch["enum"]))
        branches = [{"type": "string", "enum": values}, *(branch for branch in branches if branch not in listed)]
    if len(branches) == 1 and null and "type" in branches[0] and "enum" not in branches[0]:
        kinds = branches[0]["type"]
        kinds = [kinds] if isinstance(kinds, str) else kinds
        return {**branches[0], "type": [*(kind for kind in kinds if kind != "null"), "null"]}
    if null:
        branches.append({"type": "null"})
    if not branches:
        return NEVER
    return branches[0] if len(branches) == 1 else {"anyOf": branches}


def _titled(schema: Schema, texts: dict[str, str]) -> Schema:
    """The schema with these texts. Beside `anyOf` some endpoints take nothing else: they go into each branch."""
    if schema is NEVER or not texts:
        return schema
    if "anyOf" in schema:
        return {"anyOf": [{**texts, **branch} for branch in schema["anyOf"]]}
    return {**schema, **texts}


def _bounds(schema: Schema, *, whole: bool) -> dict[str, float]:
    """`minimum` and `maximum`. An exclusive bound of an integer is the next one, else the nearest that can be said."""
    bounds: dict[str, float] = {}
    for edge, exclusive, tighter in (("minimum", "exclusiveMinimum", max), ("maximum", "exclusiveMaximum", min)):
        found = [schema[edge]] if _is_number(schema.get(edge)) else []
        outside: Any = schema.get(exclusive)
        if outside is True and found:  # draft 4's flag
            outside = found.pop()
        if _is_number(outside):
            if whole and -math.inf < outside < math.inf:
                outside = math.floor(outside) + 1 if edge == "minimum" else math.ceil(outside) - 1
            found.append(outside)
        if found:
            bounds[edge] = tighter(found)
    return bounds


def _words(schema: Schema) -> list[str]:
    """What the schema says and Google has no keyword for."""
    words: list[str] = []
    kinds = schema.get("type")
    if _is_text(schema.get("format")) and not any(schema["format"] in formats for formats in _FORMATS.values()):
        words.append(f"format {schema['format']}"[:_MAX_WORDS])
    if _is_text(schema.get("pattern")):
        words.append(f"matching {schema['pattern']}"[:_MAX_WORDS])
    sizes = ("minLength", "maxLength", "minProperties", "maxProperties")
    words += [f"{name} {schema[name]}" for name in sizes if _is_number(schema.get(name))]
    for name, word in (("exclusiveMinimum", "more"), ("exclusiveMaximum", "less")):
        if _is_number(schema.get(name)) and kinds != "integer":
            words.append(f"{word} than {schema[name]}")
    if _is_number(schema.get("multipleOf")):
        words.append(f"a multiple of {schema['multipleOf']}")
    if schema.get("uniqueItems") is True:
        words.append("no item twice")
    names = schema.get("propertyNames")
    if isinstance(names, dict):
        if isinstance(names.get("enum"), list):
            words.append(f"only these keys: {', '.join(map(str, names['enum']))}"[:_MAX_WORDS])
        if _is_text(names.get("pattern")):
            words.append(f"keys matching {names['pattern']}"[:_MAX_WORDS])
    default = schema.get("default")
    if "default" in schema and (default in ([], {}) or not isinstance(default, list | dict)):
        shown = json.dumps(default, ensure_ascii=False)
        words += [f"default {shown}"] if len(shown) <= _MAX_WORDS else []
    return words


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value)


def _is_number(value: Any) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _kind_of(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case str():
            return "string"
        case float() if not value.is_integer():
            return "number"
    return "integer"


def _fits(value: Any, schema: Schema) -> bool:
    """Whether a listed value has one of the schema's types and is within its bounds."""
    kinds = schema.get("type", _kind_of(value))
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    kind = _kind_of(value)
    if kind not in kinds and not (kind == "integer" and "number" in kinds):
        return False
    return not _is_number(value) or schema.get("minimum", value) <= value <= schema.get("maximum", value)


def _same(first: Any, second: Any) -> bool:
    return isinstance(first, bool) is isinstance(second, bool) and bool(first == second)
