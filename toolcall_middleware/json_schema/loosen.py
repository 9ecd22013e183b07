"""Schemas that ask for less: without the keywords that a grammar compiler does not know.

A schema without one of its constraints admits more, never less: what a model writes for it is checked afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable
from typing import Any

from .walk import changed, children

_PLAIN_WORDS = frozenset({
    "contains", "const", "default", "dependencies", "deprecated", "else", "enum", "examples", "format", "if", "items",
    "not", "pattern", "then",
})  # fmt: skip
"""Keywords that are words of English or of other fields: a message names them only where it quotes them."""
_LOOSE = frozenset({
    "additionalItems", "allOf", "contentEncoding", "contentMediaType", "contentSchema", "default", "dependencies",
    "dependentRequired", "dependentSchemas", "deprecated", "else", "examples", "exclusiveMaximum", "exclusiveMinimum",
    "format", "if", "contains", "maxContains", "maxItems", "maxLength", "maxProperties", "maximum", "minContains",
    "minItems", "minLength", "minProperties", "minimum", "multipleOf", "not", "pattern", "patternProperties",
    "prefixItems", "propertyNames", "readOnly", "then", "unevaluatedItems", "unevaluatedProperties", "uniqueItems",
    "writeOnly", "$comment", "$schema", "title",
})  # fmt: skip
"""What a schema can lose and admit no less. `additionalItems` goes together with `prefixItems`."""
BOOLEANS = "true"
"""Stands among keywords for schemas that are `true` or `false`, which llama.cpp's converter does not know."""


def named_keywords(message: str, schemas: Iterable[Any]) -> frozenset[str]:
    """The keywords of `schemas` that `message`, a backend's error in lower case, names and that can be left out."""
    found: set[str] = set()
    for keyword in _used(schemas):
        name = re.escape(keyword.lower())
        quoted = keyword in _PLAIN_WORDS or keyword.startswith("$") or keyword.islower()
        pattern = rf"[\"'`]{name}\\?[\"'`]" if quoted else rf"(?<![a-z_]){name}(?![a-z_])"
        if keyword == BOOLEANS:
            pattern = r"schema\W+(?:true|false)\b"
        if re.search(pattern, message):
            found.add(keyword)
    return frozenset(found)


def loose_keywords(schemas: Iterable[Any]) -> frozenset[str]:
    """All keywords of `schemas` that can be left out."""
    return frozenset(_used(schemas))


def without(schema: Any, keywords: Collection[str]) -> Any:
    """A copy of `schema` in which no schema has these keywords; `true` among them makes `{}` of boolean schemas.

    What is nested deeper than `walk.MAX_DEPTH` stays as it is.
    """

    def change(node: dict[str, Any]) -> dict[str, Any]:
        kept = {key: value for key, value in node.items() if key not in keywords}
        return _without_booleans(kept) if BOOLEANS in keywords else kept

    return changed(schema, change)


def _without_booleans(node: dict[str, Any]) -> dict[str, Any]:
    out = dict(node)
    for child in list(_boolean_children(node)):
        keyword, name = child
        out[keyword] = {**out[keyword], name: {}} if name is not None else {}
    return out


def _boolean_children(node: dict[str, Any]) -> Iterable[tuple[str, str | None]]:
    for keyword in ("properties", "patternProperties", "$defs", "definitions"):
        held = node.get(keyword)
        if isinstance(held, dict):
            yield from ((keyword, name) for name, child in held.items() if isinstance(child, bool))
    if isinstance(node.get("items"), bool):
        yield "items", None


def _used(schemas: Iterable[Any]) -> set[str]:
    used: set[str] = set()
    stack = list(schemas)
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            used |= node.keys() & _LOOSE
            if any(True for _ in _boolean_children(node)):
                used.add(BOOLEANS)
            stack += [child.schema for child in children(node)]
    return used
