"""The drafts of JSON Schema that are read: which keywords hold schemas in each, and how a schema gets a name there.

Source: the specifications and metaschemas at https://json-schema.org/specification-links, and the library
`referencing`, which a test compares with.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


class Holds(enum.Flag):
    """How the value of a keyword holds schemas."""

    ONE = enum.auto()
    LIST = enum.auto()
    MAP = enum.auto()


# Keyword: how it holds schemas, the first and the last draft in which it does.
_NEWEST = 2020
_KEYWORDS: dict[str, tuple[Holds, int, int]] = {
    "$defs": (Holds.MAP, 2019, _NEWEST),
    "additionalItems": (Holds.ONE, 4, 2019),
    "additionalProperties": (Holds.ONE, 4, _NEWEST),
    "allOf": (Holds.LIST, 4, _NEWEST),
    "anyOf": (Holds.LIST, 4, _NEWEST),
    "contains": (Holds.ONE, 6, _NEWEST),
    "contentSchema": (Holds.ONE, 2019, _NEWEST),
    "definitions": (Holds.MAP, 4, _NEWEST),
    "dependencies": (Holds.MAP, 4, 7),
    "dependentSchemas": (Holds.MAP, 2019, _NEWEST),
    "else": (Holds.ONE, 7, _NEWEST),
    "if": (Holds.ONE, 7, _NEWEST),
    "items": (Holds.ONE | Holds.LIST, 4, _NEWEST),
    "not": (Holds.ONE, 4, _NEWEST),
    "oneOf": (Holds.LIST, 4, _NEWEST),
    "patternProperties": (Holds.MAP, 4, _NEWEST),
    "prefixItems": (Holds.LIST, 2020, _NEWEST),
    "properties": (Holds.MAP, 4, _NEWEST),
    "propertyNames": (Holds.ONE, 6, _NEWEST),
    "then": (Holds.ONE, 7, _NEWEST),
    "unevaluatedItems": (Holds.ONE, 2019, _NEWEST),
    "unevaluatedProperties": (Holds.ONE, 2019, _NEWEST),
}

ANY_DRAFT: Mapping[str, Holds] = {keyword: holds for keyword, (holds, _, _) in _KEYWORDS.items()}
"""How keywords hold schemas, in whatever draft; all others hold data."""

SAME_VALUE = frozenset({"allOf", "anyOf", "oneOf", "not", "if", "then", "else", "dependentSchemas", "dependencies"})
"""What these hold speaks about the same value as the schema around them: a reference back would never end."""


@dataclass(frozen=True, slots=True)
class Draft:
    """One edition of JSON Schema."""

    number: int
    """4, 6, 7, 2019 or 2020."""
    keywords: Mapping[str, Holds]
    """How its keywords hold schemas."""

    @property
    def identifier(self) -> str:
        """The keyword that gives a schema its address."""
        return "id" if self.number == 4 else "$id"

    @property
    def has_anchor_keywords(self) -> bool:
        """Whether a name is given by `$anchor`; before, by an address that is only a fragment."""
        return self.number >= 2019

    def address(self, schema: Mapping[str, Any]) -> str | None:
        """The address that `schema` gives itself, which may be relative; None where it has none."""
        found = schema.get(self.identifier)
        if not isinstance(found, str) or found.startswith("#"):
            return None
        if not self.has_anchor_keywords and "$ref" in schema:  # there, nothing beside a reference counts
            return None
        return found.rstrip("#")

    def names(self, schema: Mapping[str, Any]) -> list[str]:
        """The plain names by which `#name` refers to `schema`."""
        if self.has_anchor_keywords:
            keywords = ("$anchor", "$dynamicAnchor") if self.number == _NEWEST else ("$anchor",)
            return [name for keyword in keywords if isinstance(name := schema.get(keyword), str)]
        found = schema.get(self.identifier)
        return [found[1:]] if isinstance(found, str) and found.startswith("#") else []


def _draft(number: int) -> Draft:
    keywords = {keyword: holds for keyword, (holds, first, last) in _KEYWORDS.items() if first <= number <= last}
    if number == _NEWEST:
        keywords["items"] = Holds.ONE
    return Draft(number, keywords)


NEWEST = _draft(_NEWEST)
_DRAFTS = {
    "json-schema.org/draft/2020-12/schema": NEWEST,
    "json-schema.org/draft/2019-09/schema": _draft(2019),
    "json-schema.org/draft-07/schema": _draft(7),
    "json-schema.org/draft-06/schema": _draft(6),
    "json-schema.org/draft-04/schema": _draft(4),
}


def draft_of(root: Any) -> Draft:
    """The draft that `$schema` names; the newest where it names none that is known."""
    named = root.get("$schema") if isinstance(root, Mapping) else None
    if not isinstance(named, str):
        return NEWEST
    return _DRAFTS.get(named.rstrip("#").partition("://")[2], NEWEST)
