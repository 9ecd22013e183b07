"""Is a tool's `parameters` a JSON Schema of an object, and one that can be checked safely.

Linear in the schema, whatever its author wrote: nothing recurses, nothing is fetched, no pattern is run.
"""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

from ..errors import shown
from .metaschema import dialect_of, keyword_fault, keywords_of
from .pattern import pattern_fault
from .pointer import Scope, Unresolved
from .walk import ANY_DRAFT, SAME_VALUE, Holds, Path, held, steps, written

MAX_VALUES = 20_000
"""JSON values in the schemas of one request, at about 3 us each. Real tool lists of 100 kB hold about 3,000."""
MAX_NESTING = 128
"""Levels of JSON in one schema. What is admitted can be walked recursively by whoever comes after."""
MAX_PATTERN = 4096
"""Characters of one regular expression."""
MAX_PATTERNS = 16_384
"""Characters of all different regular expressions of one request: they are compiled, at about 3 us a character."""
MAX_PIECES = 20_000
"""Pieces of all of them once their counted repeats are compiled, see `pattern.MAX_UNROLLED`."""

MAX_ADDRESS = 2048
"""Characters of one `$id`."""
_ADDRESSES = frozenset({"$id", "id"})
_MORE_REFERENCES = frozenset({"$dynamicRef", "$recursiveRef"})

_OF_OBJECTS = frozenset({
    "properties", "required", "additionalProperties", "patternProperties", "propertyNames", "minProperties",
    "maxProperties", "unevaluatedProperties", "dependentRequired", "dependentSchemas", "dependencies", "$ref",
    "$dynamicRef", "anyOf", "oneOf", "allOf",
})  # fmt: skip
_OF_OTHERS = frozenset({
    "items", "prefixItems", "additionalItems", "contains", "minItems", "maxItems", "uniqueItems", "minLength",
    "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "enum", "const",
})  # fmt: skip


class SchemaFault(ValueError):
    """What is wrong with a schema. `where` is the path inside it, as a client writes it: `.properties.a.type`."""

    def __init__(self, reason: str, where: tuple[str | int, ...] = ()) -> None:
        super().__init__(f"In context={where!r}, {reason}" if where else reason)
        self.where = written(where)


class SchemaChecker:
    """Checks the schemas of one request, which share one budget of values and of pattern characters."""

    def __init__(self) -> None:
        self._values = MAX_VALUES
        self._characters = MAX_PATTERNS
        self._pieces = MAX_PIECES
        self._patterns: set[str] = set()

    def check(self, schema: dict[str, Any]) -> int:
        """Raise SchemaFault unless `schema` describes an object. Returns its levels.

        The root is level 1 and a schema inside `properties`, `items`, `$defs` and the like one more; `anyOf` and others
        that speak about the same value add none. References are not followed for this.
        """
        self._measure(schema)
        _check_draft(schema)
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
        reason, pieces = pattern_fault(pattern)
        self._pieces -= pieces
        if reason is None and self._pieces < 0:
            return f"cannot be checked: counted repeats in the request's patterns make more than {MAX_PIECES} pieces"
        return reason


class _Walk:
    """One pass over every place in a schema that holds a schema, then over what its references lead to."""

    def __init__(self, root: dict[str, Any], checker: SchemaChecker) -> None:
        self._checker = checker
        self._dialect = dialect_of(root)
        self._keywords = {keyword: ANY_DRAFT.get(keyword, Holds(0)) for keyword in keywords_of(self._dialect)}
        self._scope = Scope(root)
        self._references: list[tuple[dict[str, Any], str, Path, int]] = []
        self._edges: dict[int, list[int]] = {}
        self._seen: dict[int, Path] = {}
        self._work: list[tuple[Any, Path, int]] = [(root, None, 1)]

    def run(self) -> int:
        levels = 0
        while self._work or self._references:
            while self._work:
                node, path, level = self._work.pop()
                levels = max(levels, level)
                self._visit(node, path, level)
            # Before, a broken schema would be said to have broken references.
            references, self._references = self._references, []
            for node, reference, path, level in references:
                target = self._target(reference, path)
                self._edges.setdefault(id(node), []).append(id(target))
                self._work.append((target, path, level))
        self._refuse_reference_cycles()
        return levels

    def _visit(self, node: Any, path: Path, level: int) -> None:
        if isinstance(node, bool):
            return
        if not isinstance(node, dict):
            raise SchemaFault(f"{shown(node)} is not of type 'object', 'boolean'", _steps(path))
        if id(node) in self._seen:
            return
        self._seen[id(node)] = path
        if "$ref" in node:
            self._refer(node, "$ref", path, level)
        for keyword, value in node.items():
            if keyword not in self._keywords:
                continue
            self._check_keyword(keyword, value, path)
            if keyword in _MORE_REFERENCES:
                self._refer(node, keyword, path, level)
            below = level if keyword in SAME_VALUE else level + 1
            for child in held(keyword, value, self._keywords[keyword]):
                if keyword in SAME_VALUE:
                    self._edges.setdefault(id(node), []).append(id(child.schema))
                self._work.append((child.schema, child.below(path), below))

    def _refer(self, node: dict[str, Any], keyword: str, path: Path, level: int) -> None:
        where = (path, keyword)
        if not isinstance(node[keyword], str):
            raise SchemaFault(f"{shown(node[keyword])} is not of type 'string'", _steps(where))
        self._references.append((node, node[keyword], where, level))

    def _check_keyword(self, keyword: str, value: Any, path: Path) -> None:
        where = (path, keyword)
        reason = keyword_fault(self._dialect, keyword, value)
        if reason is None and keyword in _ADDRESSES:
            reason = _address_fault(value)
        if reason is not None:
            raise SchemaFault(reason, _steps(where))
        patterns = [value] if keyword == "pattern" else value if keyword == "patternProperties" else ()
        for pattern in patterns:
            reason = self._checker.check_pattern(pattern)
            if reason is not None:
                raise SchemaFault(reason, _steps(where))

    def _target(self, reference: str, path: Path) -> Any:
        try:
            target = self._scope.resolve(reference)
        except Unresolved as fault:
            raise SchemaFault(str(fault), _steps(path)) from None
        if not isinstance(target, dict | bool):
            raise SchemaFault(f"{shown(reference)} refers to nothing in the schema", _steps(path))
        return target

    def _refuse_reference_cycles(self) -> None:
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
                    raise SchemaFault(
                        "cannot be checked: a reference leads back to itself", _steps(self._seen.get(node))
                    )
                elif target not in done and target in self._edges:
                    open_nodes.add(target)
                    stack.append((target, iter(self._edges[target])))


def _address_fault(address: str) -> str | None:
    """What is wrong with the address of a schema: jsonschema joins it to others when it checks values."""
    try:
        urlsplit(address)
    except ValueError:
        return f"{shown(address)} is no address"
    too_long = len(address) > MAX_ADDRESS
    return f"cannot be checked: an address of more than {MAX_ADDRESS} characters" if too_long else None


def _check_draft(schema: dict[str, Any]) -> None:
    named = schema.get("$schema")
    if isinstance(named, str) and named.rstrip("#").endswith("json-schema.org/draft-03/schema"):
        raise SchemaFault("draft 3 of JSON Schema is not read: write the schema for draft 4 or later", ("$schema",))


def _check_root(schema: dict[str, Any]) -> None:
    kind = schema.get("type")
    if "type" not in schema:
        if not _OF_OTHERS.isdisjoint(schema) and _OF_OBJECTS.isdisjoint(schema):
            raise SchemaFault("schema must be a JSON Schema of 'type: \"object\"', and has no 'type'")
    elif kind != "object" and not (isinstance(kind, list) and "object" in kind):
        fault = SchemaFault(f"schema must be a JSON Schema of 'type: \"object\"', got 'type: {shown(kind)}'")
        fault.where = ".type"
        raise fault


def _steps(path: Path) -> tuple[str | int, ...]:
    """The path inside the schema, each of its names as short as a message needs it."""
    return tuple(step[:64] if isinstance(step, str) else step for step in steps(path))
