"""The schemas inside a schema: the one walk over them. Iterative and linear, whoever wrote the schema."""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from typing import Any, NamedTuple, TypeVar


class Holds(enum.Flag):
    """How the value of a keyword holds schemas."""

    ONE = enum.auto()
    LIST = enum.auto()
    MAP = enum.auto()


ANY_DRAFT: Mapping[str, Holds] = {
    "$defs": Holds.MAP,
    "additionalItems": Holds.ONE,
    "additionalProperties": Holds.ONE,
    "allOf": Holds.LIST,
    "anyOf": Holds.LIST,
    "contains": Holds.ONE,
    "contentSchema": Holds.ONE,
    "definitions": Holds.MAP,
    "dependencies": Holds.MAP,
    "dependentSchemas": Holds.MAP,
    "else": Holds.ONE,
    "if": Holds.ONE,
    "items": Holds.ONE | Holds.LIST,
    "not": Holds.ONE,
    "oneOf": Holds.LIST,
    "patternProperties": Holds.MAP,
    "prefixItems": Holds.LIST,
    "properties": Holds.MAP,
    "propertyNames": Holds.ONE,
    "then": Holds.ONE,
    "unevaluatedItems": Holds.ONE,
    "unevaluatedProperties": Holds.ONE,
}
"""How keywords hold schemas, in whatever draft; all others hold data.

Source: the specifications and metaschemas at https://json-schema.org/specification-links.
"""
SAME_VALUE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"})
"""What these hold speaks about the same value as the schema around them: a reference back would never end."""

S = TypeVar("S")
MAX_DEPTH = 64
"""Levels down to which a schema is looked at; a list of schemas is a level of its own."""

Path = tuple["Path", str | int] | None
"""A path as a chain from its end, so that a step costs the same at any depth."""


class Child(NamedTuple):
    """A schema directly in another: under `keyword`, and there under `step` where that holds several."""

    keyword: str
    step: str | int | None
    schema: Any

    def below(self, path: Path) -> Path:
        """Its path, where `path` is that of the schema around it."""
        return (path, self.keyword) if self.step is None else ((path, self.keyword), self.step)


def steps(path: Path) -> tuple[str | int, ...]:
    """The keys and indices of `path`, from the document's root on."""
    found: list[str | int] = []
    while path is not None:
        path, step = path
        found.append(step)
    return tuple(reversed(found))


def dotted(path: Path) -> str:
    """`path` as a client writes it, such as `.properties.a.anyOf[0]`; empty for the root."""
    return written(steps(path))


def written(path: Iterable[str | int]) -> str:
    """The same for a path that is no chain."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


def children(schema: Mapping[str, Any]) -> Iterator[Child]:
    """The values in `schema` whose keywords hold schemas, in its own order. It need not be a schema."""
    for keyword, value in schema.items():
        if keyword in ANY_DRAFT:
            yield from held(keyword, value, ANY_DRAFT[keyword])


def held(keyword: str, value: Any, holds: Holds) -> Iterator[Child]:
    """The schemas in the `value` of one keyword."""
    if isinstance(value, list):
        if Holds.LIST in holds:
            for index, child in enumerate(value):
                yield Child(keyword, index, child)
    elif isinstance(value, dict):
        if Holds.MAP in holds:
            for name, child in value.items():
                if keyword != "dependencies" or not isinstance(child, list):  # a list there is one of names
                    yield Child(keyword, name, child)
        elif Holds.ONE in holds:
            yield Child(keyword, None, value)


def walk(root: Any, state: S, below: Callable[[S, Child], S]) -> Iterator[tuple[dict[str, Any], Path, S]]:
    """(schema, its path, its state) of every schema in the document `root` that is an object, in the document's order.

    The state is the walker's own (a depth, say): `state` at the root, `below(state, child)` for each child.
    """
    stack: list[tuple[Any, Path, S]] = [(root, None, state)]
    while stack:
        schema, path, state = stack.pop()
        if isinstance(schema, dict):
            yield schema, path, state
            inner = [(child.schema, child.below(path), below(state, child)) for child in children(schema)]
            stack.extend(reversed(inner))


def deeper(depth: int, child: Child) -> int:
    """The depth of `child` in a schema of depth `depth`, counted as `MAX_DEPTH` is; a state for `walk`."""
    return depth + (2 if isinstance(child.step, int) else 1)


def changed(root: Any, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Any:
    """A copy of `root` in which `change` made a new object of every schema, from the outside in.

    Data inside is shared with `root`, as are schemas below `MAX_DEPTH`.
    """
    holder: dict[str | int, Any] = {"": root}
    work: list[tuple[Any, str | int, int]] = [(holder, "", 0)]
    while work:
        container, key, depth = work.pop()
        schema = container[key]
        if depth >= MAX_DEPTH or not isinstance(schema, dict):
            continue
        container[key] = new = change(schema)
        for keyword, value in list(new.items()):
            inner = list(held(keyword, value, ANY_DRAFT[keyword])) if keyword in ANY_DRAFT else []
            if inner and inner[0].step is not None:
                new[keyword] = copy(value)
            for child in inner:
                at = (new, keyword) if child.step is None else (new[keyword], child.step)
                work.append((*at, deeper(depth, child)))
    return holder[""]
