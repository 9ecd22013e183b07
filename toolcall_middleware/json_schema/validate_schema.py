"""Is a tool's `parameters` a JSON Schema of an object, and one that can be checked safely.

Linear in the schema, whatever its author wrote: nothing recurses, nothing is fetched, no pattern is run.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

from ..request.json_input import shown
from .metaschema import MAX_ADDRESS, dialect_of, identifier_of, keyword_fault, keywords_of
from .pattern import pattern_fault

MAX_VALUES = 20_000
"""JSON values in the schemas of one request, at about 3 us each. Real tool lists of 100 kB hold about 3,000."""
MAX_NESTING = 128
"""Levels of JSON in one schema. What is admitted can be walked recursively by whoever comes after."""
MAX_PATTERN = 4096
"""Characters of one regular expression."""
MAX_PATTERNS = 16_384
"""Characters of all different regular expressions of one request: they are compiled, at about 3 us a character."""

# Which keywords hold schemas, in whatever draft.
_ONE = frozenset(
    {
        "additionalItems",
        "additionalProperties",
        "contains",
        "contentSchema",
        "else",
        "if",
        "items",
        "not",
        "propertyNames",
        "then",
        "unevaluatedItems",
        "unevaluatedProperties",
    }
)
_LIST = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_MAP = frozenset({"$defs", "definitions", "dependentSchemas", "patternProperties", "properties", "dependencies"})
_IN_PLACE = frozenset(
    {
        "allOf",
        "anyOf",
        "oneOf",
        "not",
        "if",
        "then",
        "else",
        "dependentSchemas",
        "dependencies",
    }
)
"""These apply to the same value as the schema around them, so a reference back to it would never end."""
_MORE_REFERENCES = frozenset({"$dynamicRef", "$recursiveRef"})
_ANCHORS = frozenset({"$anchor", "$dynamicAnchor"})

_OF_OBJECTS = frozenset(
    {
        "properties",
        "required",
        "additionalProperties",
        "patternProperties",
        "propertyNames",
        "minProperties",
        "maxProperties",
        "unevaluatedProperties",
        "dependentRequired",
        "dependentSchemas",
        "dependencies",
        "$ref",
        "$dynamicRef",
        "anyOf",
        "oneOf",
        "allOf",
    }
)
_OF_OTHERS = frozenset(
    {
        "items",
        "prefixItems",
        "additionalItems",
        "contains",
        "minItems",
        "maxItems",
        "uniqueItems",
        "minLength",
        "maxLength",
        "pattern",
        "format",
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "enum",
        "const",
    }
)


class SchemaFault(ValueError):
    """What is wrong with a schema. `where` is the path inside it."""

    def __init__(self, reason: str, where: tuple[str | int, ...] = ()) -> None:
        super().__init__(f"In context={where!r}, {reason}" if where else reason)


class SchemaChecker:
    """Checks the schemas of one request, which share one budget of values and of pattern characters."""

    def __init__(self) -> None:
        self._values = MAX_VALUES
        self._characters = MAX_PATTERNS
        self._patterns: set[str] = set()

    def check(self, schema: dict[str, Any]) -> int:
        """Raise SchemaFault unless `schema` describes an object. Returns its levels.

        The root is level 1 and a schema inside `properties`, `items`, `$defs` and the like one more; `anyOf` and others
        that speak about the same value add none. References are not followed for this.
        """
        self._measure(schema)
        _check_root(schema)
        return _Walk(schema, self).run()

    def _measure(self, schema: dict[str, Any]) -> None:
        stack: list[tuple[Any, int]] = [(schema, 1)]
        while stack:
            value, depth = stack.pop()
            self._values -= len(value) + 1
            if self._values < 0:
                raise SchemaFault(f"cannot be checked: the request's schemas hold more than {MAX_VALUES} values")
            if depth > MAX_NESTING:
                raise SchemaFault(f"cannot be checked: it is nested deeper than {MAX_NESTING} levels")
            children = value.values() if isinstance(value, dict) else value
            stack.extend((child, depth + 1) for child in children if isinstance(child, (dict, list)))

    def check_pattern(self, pattern: str) -> str | None:
        """Why `pattern` is no regular expression, or None. It is compiled, never run."""
        if pattern in self._patterns:
            return None
        if len(pattern) > MAX_PATTERN:
            return f"cannot be checked: a pattern of {len(pattern)} characters, more than {MAX_PATTERN}"
        self._characters -= len(pattern)
        if self._characters < 0:
            return f"cannot be checked: the request's patterns have more than {MAX_PATTERNS} characters"
        self._patterns.add(pattern)
        return pattern_fault(pattern)


_Path = tuple["_Path", str | int] | None
"""A path as a chain from its end, so that a step costs the same at any depth."""


class _Walk:
    """One pass over every place of a schema where a schema stands, then over what its references lead to."""

    def __init__(self, root: dict[str, Any], checker: SchemaChecker) -> None:
        self._checker = checker
        self._dialect = dialect_of(root)
        self._keywords = keywords_of(self._dialect)
        self._identifier = identifier_of(self._dialect)
        self._resources: dict[str, Any] = {"": root}
        self._anchors: dict[tuple[str, str], Any] = {}
        self._references: list[tuple[dict[str, Any], str, str, _Path, int]] = []
        self._edges: dict[int, list[int]] = {}
        self._seen: set[int] = set()
        self._work: list[tuple[Any, str, _Path, int]] = [(root, "", None, 1)]

    def run(self) -> int:
        levels = 0
        referenced = False
        while self._work or self._references:
            while self._work:
                node, base, path, level = self._work.pop()
                levels = max(levels, level)
                self._visit(node, base, path, level)
            # Identifiers and anchors are all known only now.
            references, self._references = self._references, []
            for node, reference, base, path, level in references:
                referenced = True
                target, target_base = self._resolve(reference, base, path)
                self._edges.setdefault(id(node), []).append(id(target))
                self._work.append((target, target_base, path, level))
        if referenced:
            self._refuse_circles()
        return levels

    def _visit(self, node: Any, base: str, path: _Path, level: int) -> None:
        if isinstance(node, bool):
            return
        if not isinstance(node, dict):
            raise SchemaFault(f"{shown(node)} is not of type 'object', 'boolean'", _steps(path))
        if id(node) in self._seen:
            return
        self._seen.add(id(node))
        base = self._name(node, base, path)
        if "$ref" in node:
            self._refer(node, "$ref", base, path, level)
        for keyword, value in node.items():
            if keyword not in self._keywords:
                continue
            self._check_keyword(keyword, value, path)
            if keyword in _MORE_REFERENCES:
                self._refer(node, keyword, base, path, level)
            below = level if keyword in _IN_PLACE else level + 1
            for child, step in _children(keyword, value):
                where: _Path = (path, keyword) if step is None else ((path, keyword), step)
                if keyword in _IN_PLACE:
                    self._edges.setdefault(id(node), []).append(id(child))
                self._work.append((child, base, where, below))

    def _refer(self, node: dict[str, Any], keyword: str, base: str, path: _Path, level: int) -> None:
        where = (path, keyword)
        if not isinstance(node[keyword], str):
            raise SchemaFault(f"{shown(node[keyword])} is not of type 'string'", _steps(where))
        self._references.append((node, node[keyword], base, where, level))

    def _name(self, node: dict[str, Any], base: str, path: _Path) -> str:
        """Register the identifier and anchors of `node`; returns the base of references inside it."""
        name = node.get(self._identifier)
        if isinstance(name, str) and name.startswith("#"):
            self._anchors[base, name[1:]] = node
        elif isinstance(name, str):
            base = _join(base, name, (path, self._identifier))[0]
            self._resources.setdefault(base, node)
        for keyword in _ANCHORS:
            if isinstance(node.get(keyword), str):
                self._anchors[base, node[keyword]] = node
        return base

    def _check_keyword(self, keyword: str, value: Any, path: _Path) -> None:
        where = (path, keyword)
        reason = keyword_fault(self._dialect, keyword, value)
        if reason is not None:
            raise SchemaFault(reason, _steps(where))
        patterns = [value] if keyword == "pattern" else value if keyword == "patternProperties" else ()
        for pattern in patterns:
            reason = self._checker.check_pattern(pattern)
            if reason is not None:
                raise SchemaFault(reason, _steps(where))

    def _resolve(self, reference: str, base: str, path: _Path) -> tuple[Any, str]:
        uri, fragment = (base, reference[1:]) if reference.startswith("#") else _join(base, reference, path)
        if uri not in self._resources:
            raise SchemaFault(
                f"{shown(reference)} refers to another document: only references inside the schema are followed,"
                " nothing is fetched",
                _steps(path),
            )
        fragment = unquote(fragment)
        target = self._resources[uri]
        if fragment.startswith("/"):
            target = _point(target, fragment)
        elif fragment:
            target = self._anchors.get((uri, fragment))
        if not isinstance(target, dict | bool):
            raise SchemaFault(f"{shown(reference)} refers to nothing in the schema", _steps(path))
        return target, uri

    def _refuse_circles(self) -> None:
        """A schema that, for one and the same value, refers back to itself can never be checked."""
        done: set[int] = set()
        for start in self._edges:
            stack = [(start, iter(self._edges[start]))] if start not in done else []
            open_nodes = {start}
            while stack:
                node, targets = stack[-1]
                target = next(targets, None)
                if target is None:
                    stack.pop()
                    open_nodes.discard(node)
                    done.add(node)
                elif target in open_nodes:
                    raise SchemaFault("cannot be checked: a reference leads back to itself")
                elif target not in done and target in self._edges:
                    open_nodes.add(target)
                    stack.append((target, iter(self._edges[target])))


def _check_root(schema: dict[str, Any]) -> None:
    kind = schema.get("type")
    if "type" not in schema:
        if not _OF_OTHERS.isdisjoint(schema) and _OF_OBJECTS.isdisjoint(schema):
            raise SchemaFault("schema must be a JSON Schema of 'type: \"object\"', and has no 'type'")
    elif kind != "object" and not (isinstance(kind, list) and "object" in kind):
        raise SchemaFault(f"schema must be a JSON Schema of 'type: \"object\"', got 'type: {shown(kind)}'")


def _children(keyword: str, value: Any) -> list[tuple[Any, str | int | None]]:
    if isinstance(value, dict):
        if keyword in _ONE:
            return [(value, None)]
        if keyword in _MAP:
            lists = keyword == "dependencies"
            return [(child, name) for name, child in value.items() if not (lists and isinstance(child, list))]
    elif isinstance(value, list) and keyword in _LIST:
        return [(child, index) for index, child in enumerate(value)]
    return []


def _point(document: Any, pointer: str) -> Any:
    """What a JSON pointer (RFC 6901) leads to, or None."""
    for part in pointer[1:].split("/"):
        key = part.replace("~1", "/").replace("~0", "~")
        if isinstance(document, dict):
            document = document.get(key)
        elif isinstance(document, list) and key.isdecimal() and key.isascii() and len(key) <= len(str(len(document))):
            document = document[int(key)] if int(key) < len(document) else None
        else:
            return None
    return document


def _join(base: str, reference: str, path: _Path) -> tuple[str, str]:
    if len(base) + len(reference) > MAX_ADDRESS:
        raise SchemaFault(f"cannot be checked: an address of more than {MAX_ADDRESS} characters", _steps(path))
    try:
        uri, fragment = urldefrag(urljoin(base, reference))
        urlsplit(uri)  # who checks values by this schema will do that
    except ValueError:
        raise SchemaFault(f"{shown(reference)} is no address", _steps(path)) from None
    return uri, fragment


def _steps(path: _Path) -> tuple[str | int, ...]:
    steps: list[str | int] = []
    while path is not None:
        path, step = path
        steps.append(step[:64] if isinstance(step, str) else step)
    return tuple(reversed(steps))
