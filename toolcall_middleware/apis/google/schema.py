"""A JSON Schema, read into a form without references, `allOf`, `const` and `oneOf`, of which Google's two are written.

The schema is a client's, so everything is bounded: how deep it nests and how many values it becomes when its
references are put in place. What no value of Google's can say is kept in `faults`, by the keyword's name and its path.
Narrowings that only lack a keyword (a `pattern`, say) are no faults: they are told the model in words by the writer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ...json_schema.pointer import OutOfDocument, Scope, Unresolved

MAX_VALUES = 40_000
"""What the schemas of one request may cost, at about 20 us each: one for each schema that is read, merged or written,
and one for each 128 characters of its texts. Those that agents send cost some hundreds."""
MAX_DEPTH = 64

ANY = frozenset({"string", "number", "boolean", "array", "object"})
_TYPES = ANY | {"integer"}
_AT_LEAST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
_AT_MOST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")
_IMPOSSIBLE = (
    "not", "if", "then", "else", "dependentSchemas", "dependentRequired", "dependencies", "contains",
    "$dynamicRef", "$recursiveRef",
)  # fmt: skip
# TypeBox and others write a map like this.
_MATCHES_ALL = frozenset({"", ".*", "^.*$", "^(.*)$", ".+", "^.+$"})
_MAX_WORDS = 300
_MAX_DEFAULT = 1000


class SchemaTooLargeError(Exception):
    """The schema nests too deep, or becomes too large when its references are put in place."""


class _Missing:
    """No default is given."""


MISSING = _Missing()


@dataclass(slots=True)
class Node:
    """A schema. `types` are those of values that are not null; all of them where nothing was said, none for `false`.

    `extra` is what other properties may be (None: nothing was said). `any_of`: besides all else, one of these must
    hold; their own `null` is always false. `words` are narrowings that have no keyword here.
    """

    types: frozenset[str] = ANY
    null: bool = True
    enum: list[Any] | None = None
    properties: dict[str, Node] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    extra: Node | bool | None = None
    items: Node | None = None
    prefix: tuple[Node, ...] | None = None
    bounds: Mapping[str, float] = field(default_factory=dict)
    pattern: str | None = None
    format: str | None = None
    title: str | None = None
    description: str | None = None
    default: Any = MISSING
    words: tuple[str, ...] = ()
    any_of: tuple[Node, ...] | None = None

    @property
    def weight(self) -> int:
        """What its own texts cost, without those of the schemas in it."""
        texts = sum(len(text) for text in (self.description, self.title, self.pattern, *self.words) if text)
        values = sum(len(value) if isinstance(value, str) else 8 for value in self.enum or ())
        return (texts + values + sum(map(len, self.properties)) + sum(map(len, self.required))) >> 7

    @property
    def is_never(self) -> bool:
        """Whether no value fits."""
        return (not self.types and not self.null) or self.enum == [] or self.any_of == ()


class Allowance:
    """What the schemas of a request may still cost."""

    __slots__ = ("_left",)

    def __init__(self, values: int = MAX_VALUES) -> None:
        self._left = values

    def take(self, depth: int = 0, cost: int = 1) -> None:
        """So much more, at this depth. Raises SchemaTooLargeError."""
        self._left -= cost
        if self._left < 0 or depth > MAX_DEPTH:
            raise SchemaTooLargeError


class SchemaReader:
    """Reads one document. `faults`: what cannot be expressed, by name, with the path where it first stands."""

    def __init__(self, root: Any, allowance: Allowance) -> None:
        self._root = root
        self._allowance = allowance
        self._scope = Scope.of(root)
        self._open: list[int] = []  # targets of references that are being put in place, by identity
        self.faults: dict[str, str] = {}

    def read(self) -> Node:
        """The whole document. Raises SchemaTooLargeError."""
        return self._read(self._root, "", 0)

    def _fault(self, name: str, path: str) -> Node:
        self.faults.setdefault(name, path)
        return Node()

    def _read(self, schema: Any, path: str, depth: int) -> Node:
        self._allowance.take(depth)
        if schema is True:
            return Node()
        if schema is False:
            return Node(types=frozenset(), null=False)
        if not isinstance(schema, dict):
            return self._fault("schema that is no object", path)
        for name in _IMPOSSIBLE:
            if name in schema:
                self._fault(name, f"{path}.{name}")
        outer = self._scope
        self._scope = outer.enter(schema)
        try:
            return self._object(schema, path, depth)
        finally:
            self._scope = outer

    def _object(self, schema: dict[str, Any], path: str, depth: int) -> Node:
        node = self._own(schema, path, depth)
        if "$ref" in schema:
            node = self._both(node, self._referred(schema["$ref"], path, depth), path, depth)
        for index, part in enumerate(_list(schema.get("allOf"))):
            node = self._both(node, self._read(part, f"{path}.allOf[{index}]", depth + 1), path, depth)
        for name in ("anyOf", "oneOf"):
            if _list(schema.get(name)):
                node = self._both(node, self._union(schema[name], f"{path}.{name}", depth), path, depth)
        return node

    # -- one schema's own keywords -------------------------------------------------------------------------------

    def _own(self, schema: dict[str, Any], path: str, depth: int) -> Node:
        types, null = self._types(schema, path)
        node = Node(types=types, null=null, words=tuple(_words(schema)))
        for name in ("pattern", "format", "title", "description"):
            if isinstance(schema.get(name), str):
                setattr(node, name, schema[name])
        default = schema.get("default", MISSING)
        if default in ([], {}) or (not isinstance(default, list | dict) and len(str(default)) <= _MAX_DEFAULT):
            node.default = default
        self._enum(schema, node, path)
        node.bounds = _bounds(schema)
        node.required = tuple(dict.fromkeys(name for name in _list(schema.get("required")) if isinstance(name, str)))
        properties = schema.get("properties")
        names = sum(map(len, properties)) if isinstance(properties, dict) else 0
        self._allowance.take(cost=node.weight + (names >> 7))
        if isinstance(properties, dict):
            node.properties = {
                name: self._read(value, f"{path}.properties.{name}", depth + 1) for name, value in properties.items()
            }
        self._others(schema, node, path, depth)
        self._items(schema, node, path, depth)
        return node

    def _types(self, schema: dict[str, Any], path: str) -> tuple[frozenset[str], bool]:
        given = schema.get("type")
        if given is None:
            return ANY, True
        names = set(given) if isinstance(given, list) and all(isinstance(name, str) for name in given) else {given}
        null = "null" in names or schema.get("nullable") is True  # OpenAPI's
        names.discard("null")
        if not names <= _TYPES:
            self._fault("type", f"{path}.type")
            return ANY, True
        if "number" in names:
            names.discard("integer")
        return frozenset(names), null

    def _enum(self, schema: dict[str, Any], node: Node, path: str) -> None:
        enum = schema.get("enum")
        if isinstance(enum, list):
            node.enum = list(enum)
        if "const" in schema:
            const = schema["const"]
            node.enum = [const] if node.enum is None or any(_same(const, value) for value in node.enum) else []
        if node.enum is None:
            return
        if any(isinstance(value, list | dict) for value in node.enum):
            self._fault("enum of arrays or objects", f"{path}.enum")
            node.enum = None
            return
        node.null = node.null and None in node.enum
        node.enum = [value for value in node.enum if value is not None and _has_type(value, node.types)]
        node.types = frozenset(_type_of(value) for value in node.enum)
        if "number" in node.types:
            node.types -= {"integer"}
        if not node.enum and node.null:
            node.enum = None

    def _others(self, schema: dict[str, Any], node: Node, path: str, depth: int) -> None:
        """Properties that are not named."""
        extra = schema.get("additionalProperties", schema.get("unevaluatedProperties"))
        if isinstance(extra, bool):
            node.extra = extra
        elif extra is not None:
            node.extra = self._read(extra, f"{path}.additionalProperties", depth + 1)
        patterns = schema.get("patternProperties")
        if not isinstance(patterns, dict) or not patterns:
            return
        if not set(patterns) <= _MATCHES_ALL or len(patterns) > 1:
            self._fault("patternProperties", f"{path}.patternProperties")
            return
        node.extra = self._read(next(iter(patterns.values())), f"{path}.patternProperties", depth + 1)

    def _items(self, schema: dict[str, Any], node: Node, path: str, depth: int) -> None:
        items, prefix = schema.get("items"), schema.get("prefixItems")
        if isinstance(items, list):  # draft 7's tuples
            items, prefix = schema.get("additionalItems"), items
        if items is not None and items is not True:
            node.items = self._read(items, f"{path}.items", depth + 1)
        if _list(prefix):
            node.prefix = tuple(
                self._read(part, f"{path}.prefixItems[{index}]", depth + 1) for index, part in enumerate(_list(prefix))
            )

    # -- references and combinations -----------------------------------------------------------------------------

    def _referred(self, reference: Any, path: str, depth: int) -> Node:
        if not isinstance(reference, str):
            return self._fault("$ref out of the document", f"{path}.$ref")
        try:
            target, scope = self._scope.resolve(reference)
        except OutOfDocument:
            return self._fault("$ref out of the document", f"{path}.$ref")
        except Unresolved:
            return self._fault("$ref without a target", f"{path}.$ref")
        if id(target) in self._open:
            return self._fault("recursive $ref", f"{path}.$ref")
        self._open.append(id(target))
        outer, self._scope = self._scope, scope
        try:
            return self._read(target, path, depth + 1)
        finally:
            self._scope = outer
            self._open.pop()

    def _union(self, branches: list[Any], path: str, depth: int) -> Node:
        read = [self._read(branch, f"{path}[{index}]", depth + 1) for index, branch in enumerate(branches)]
        null = any(branch.null for branch in read)
        kept = tuple(replace(branch, null=False) for branch in read if branch.types and not branch.is_never)
        if not kept:
            return Node(types=frozenset(), null=null)
        return Node(null=null, any_of=kept)

    def _both(self, first: Node, second: Node, path: str, depth: int) -> Node:
        return both(first, second, self._allowance, lambda name: self.faults.setdefault(name, path), depth)


def both(first: Node, second: Node, allowance: Allowance, fault: Callable[[str], object], depth: int = 0) -> Node:
    """The schema of what fits both. Texts are the first one's where it has any. Raises SchemaTooLargeError."""
    size = len(first.properties) + len(second.properties) + len(first.required) + len(second.required)
    size += len(first.enum or ()) + len(second.enum or ()) + len(first.words) + len(second.words)
    allowance.take(depth, 1 + (size >> 4))

    def inner(a: Node | None, b: Node | None) -> Node | None:
        return b if a is None else a if b is None else both(a, b, allowance, fault, depth + 1)

    properties = dict(first.properties)
    for name, value in second.properties.items():
        properties[name] = both(properties[name], value, allowance, fault, depth + 1) if name in properties else value
    if first.prefix and second.prefix:
        fault("allOf of tuples")
    enum = first.enum
    if second.enum is not None:
        others = {(isinstance(value, bool), value) for value in second.enum}
        enum = second.enum if enum is None else [one for one in enum if (isinstance(one, bool), one) in others]
    types = _common(first.types, second.types)
    if enum is not None:
        enum = [value for value in enum if _has_type(value, types)]
    words = first.words + tuple(word for word in second.words if word not in first.words)
    also = f"also matching {second.pattern}"
    if first.pattern and second.pattern and first.pattern != second.pattern and also not in words:
        words += (also,)
    any_of = second.any_of if first.any_of is None else first.any_of
    if first.any_of is not None and second.any_of is not None:
        pairs = [both(a, b, allowance, fault, depth + 1) for a in first.any_of for b in second.any_of]
        any_of = tuple(node for node in pairs if not node.is_never)
    return Node(
        types=types,
        null=first.null and second.null,
        enum=enum,
        properties=properties,
        required=tuple(dict.fromkeys(first.required + second.required)),
        extra=_both_extra(first, second, inner),
        items=inner(first.items, second.items),
        prefix=first.prefix or second.prefix,
        bounds=_tighter(first.bounds, second.bounds),
        pattern=first.pattern or second.pattern,
        format=first.format or second.format,
        title=first.title or second.title,
        description=first.description or second.description,
        default=second.default if isinstance(first.default, _Missing) else first.default,
        words=words,
        any_of=any_of,
    )


def _both_extra(
    first: Node, second: Node, inner: Callable[[Node | None, Node | None], Node | None]
) -> Node | bool | None:
    a, b = first.extra, second.extra
    if isinstance(a, Node) or isinstance(b, Node):
        return inner(a if isinstance(a, Node) else None, b if isinstance(b, Node) else None)
    if a is False and b is False:
        return False
    if False in {a, b}:
        # A closed object that another one extends: what people mean is both lists of properties.
        open_one = first if a is not False else second
        return None if open_one.properties else False
    return a if b is None else b


def _tighter(first: Mapping[str, float], second: Mapping[str, float]) -> dict[str, float]:
    bounds = dict(first)
    for name, value in second.items():
        if name in bounds:
            value = max(bounds[name], value) if name in _AT_LEAST else min(bounds[name], value)  # noqa: PLW2901
        bounds[name] = value
    return bounds


def _common(first: frozenset[str], second: frozenset[str]) -> frozenset[str]:
    types = first & second
    if ("integer" in first and "number" in second) or ("integer" in second and "number" in first):
        types |= {"integer"}
    return types


def _bounds(schema: dict[str, Any]) -> dict[str, float]:
    bounds: dict[str, float] = {}
    for name in _AT_LEAST + _AT_MOST:
        value = schema.get(name)
        if isinstance(value, int | float) and not isinstance(value, bool):
            bounds[name] = value
    for edge, name in (("minimum", "exclusiveMinimum"), ("maximum", "exclusiveMaximum")):
        if schema.get(name) is True and edge in bounds:  # draft 4's flag
            bounds[name] = bounds.pop(edge)
    return bounds


def _words(schema: dict[str, Any]) -> list[str]:
    """Narrowings that have a keyword in neither of Google's forms, for the description."""
    words: list[str] = []
    multiple = schema.get("multipleOf")
    if isinstance(multiple, int | float) and not isinstance(multiple, bool):
        words.append(f"a multiple of {multiple}")
    if schema.get("uniqueItems") is True:
        words.append("no item twice")
    names = schema.get("propertyNames")
    if isinstance(names, dict):
        if isinstance(names.get("enum"), list):
            words.append(f"only these keys: {', '.join(map(str, names['enum']))}"[:_MAX_WORDS])
        if isinstance(names.get("pattern"), str):
            words.append(f"keys matching {names['pattern']}"[:_MAX_WORDS])
    return words


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _type_of(value: Any) -> str:
    match value:
        case bool():
            return "boolean"
        case str():
            return "string"
        case float() if not value.is_integer():
            return "number"
    return "integer"


def _has_type(value: Any, types: frozenset[str]) -> bool:
    name = _type_of(value)
    return name in types or (name == "integer" and "number" in types)


def _same(first: Any, second: Any) -> bool:
    return isinstance(first, bool) is isinstance(second, bool) and bool(first == second)
