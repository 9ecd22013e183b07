"""Where a `$ref` leads: the one place that follows references. Never out of the document; nothing is fetched.

A reference is an address, which may be empty or relative, and a fragment: a JSON pointer (RFC 6901, percent-encoded as
in any URI) or the plain name that `$anchor` gives. Addresses are those that schemas of the document give themselves by
`$id`. A schema with an address is a resource: references inside it are relative to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple
from urllib.parse import unquote, urldefrag, urljoin, urlsplit

import msgspec

from ..errors import shown
from ..lru_cache import LRUCache
from .drafts import Draft, Holds, draft_of
from .walk import Child, children, walk

MAX_ADDRESS = 2048
"""Characters of an address in a schema."""
_BYTES = 100
"""What one schema takes in an index, about."""
_MAX_INDEXED = 100_000
"""Schemas in the documents whose indexes are kept."""
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


class Unresolved(LookupError):
    """A reference leads nowhere. The text says why."""


class OutOfDocument(Unresolved):
    """A reference leads out of the document, or is no address at all."""


class Target(NamedTuple):
    """What a reference leads to: a schema, if the document's author made no mistake, and its scope."""

    schema: Any
    scope: Scope


class Scope:
    """The resource inside which references are resolved.

    Who walks down a document begins with `Scope.of(root)` and asks `enter` for the scope of each schema below; a
    `Target` has its own. Cycles are the walker's affair: a scope follows one reference at a time.
    """

    __slots__ = ("_document", "base", "resource")

    def __init__(self, document: _Document, base: str, resource: Any) -> None:
        self._document = document
        self.base = base
        """The address of `resource`; empty where the document has none."""
        self.resource = resource
        """The nearest schema around that has an address, or the document's root."""

    @classmethod
    def of(cls, root: Any) -> Scope:
        """The scope of a document's root."""
        document = _Document(root)
        return cls(document, document.address(root, "") or "", root)

    @property
    def draft(self) -> Draft:
        """The document's."""
        return self._document.draft

    def enter(self, schema: Any) -> Scope:
        """The scope of `schema`, which stands in this one. An address that is none is passed over."""
        if schema is self.resource:
            return self
        address = self._document.address(schema, self.base)
        return self if address is None else Scope(self._document, address, schema)

    def resolve(self, reference: str) -> Target:
        """What `reference`, standing in this scope, leads to. Raises Unresolved."""
        if reference.startswith("#"):
            address, fragment = self.base, reference[1:]
        else:
            address, fragment = join(self.base, reference)
        if address == self.base:
            resource = self.resource
        elif address in self._document.index.resources:
            resource = self._document.index.resources[address]
        else:
            raise OutOfDocument(
                f"{shown(reference)} refers to another document: only references inside the schema are followed,"
                " nothing is fetched"
            )
        scope = Scope(self._document, address, resource)
        if not fragment:
            return Target(resource, scope)
        target = scope._at(fragment) if fragment.startswith("/") else scope._named(fragment)
        if target is None:
            raise Unresolved(f"{shown(reference)} refers to nothing in the schema")
        return target

    def find(self, reference: Any) -> Target | None:
        """Like `resolve`; None for what is no reference or leads nowhere."""
        try:
            return self.resolve(reference) if isinstance(reference, str) else None
        except Unresolved:
            return None

    def _named(self, name: str) -> Target | None:
        found = self._document.index.names.get((self.base, name))
        return None if found is None else Target(found, self)

    def _at(self, fragment: str) -> Target | None:
        """What stands at a JSON pointer in `resource`."""
        at, scope = self.resource, self
        keywords = self._document.draft.keywords
        # What the next key leads to: ONE from a schema to one of its keywords, another kind from there to a schema.
        # Empty behind a keyword that holds none, where an address has no meaning.
        expected = Holds.ONE
        for key in tokens_of(fragment):
            if isinstance(at, dict):
                if key not in at:
                    return None
                at = at[key]
                if expected is Holds.ONE:
                    holds = keywords.get(key, Holds(0))
                    expected = holds & (Holds.LIST if isinstance(at, list) else Holds.MAP | Holds.ONE)
                    if expected is not Holds.ONE:
                        continue
                elif expected is Holds.MAP:
                    expected = Holds.ONE
            elif isinstance(at, list) and _INDEX.fullmatch(key) and int(key) < len(at):
                at = at[int(key)]
                if expected is Holds.LIST:
                    expected = Holds.ONE
            else:
                return None
            if expected is Holds.ONE:
                scope = scope.enter(at)
        return Target(at, scope)


class _Index(NamedTuple):
    """The addresses and names of a document; of two that are the same, the first counts."""

    resources: dict[str, Any]
    names: dict[tuple[str, str], Any]
    size: int


class _Document:
    """A schema with all that stands in it. Shared by its scopes; must not change."""

    __slots__ = ("draft", "root")

    def __init__(self, root: Any) -> None:
        self.root = root
        self.draft = draft_of(root)

    def address(self, schema: Any, base: str) -> str | None:
        """The whole address that `schema` gives itself where `base` is the one around it."""
        found = self.draft.address(schema) if isinstance(schema, Mapping) else None
        try:
            return None if found is None else join(base, found)[0]
        except OutOfDocument:
            return None

    @property
    def index(self) -> _Index:
        """Made when a reference asks for more than a place in its own resource, which few documents need."""
        found = _INDEXES.get(id(self.root))
        if found is None:
            found = self, _index(self)
            # A schema's texts are kept with it, and may be of any size.
            size = max(found[1].size, len(msgspec.json.encode(self.root)) // _BYTES)
            _INDEXES.put(id(self.root), found, size=size)
        return found[1]


_INDEXES: LRUCache[int, tuple[_Document, _Index]] = LRUCache(max_size=_MAX_INDEXED)
"""By the identity of the root, which the document keeps: a tool list is read once and used by many requests."""


def _index(document: _Document) -> _Index:
    draft = document.draft
    root = Scope.of(document.root)
    index = _Index({"": document.root}, {}, 1)
    count = 1
    for schema, _, scope in walk(document.root, root, enter, draft.keywords):
        count += 1
        if scope.resource is schema:
            index.resources.setdefault(scope.base, schema)
        for name in draft.names(schema):
            index.names.setdefault((scope.base, name), schema)
    return index._replace(size=count)


def enter(scope: Scope, child: Child) -> Scope:
    """The scope of a child of a schema whose scope is `scope`; a state for `walk`."""
    return scope.enter(child.schema)


def join(base: str, reference: str) -> tuple[str, str]:
    """(the address, the fragment) of `reference` where `base` is the address around it. Raises OutOfDocument."""
    if len(base) + len(reference) > MAX_ADDRESS:
        raise OutOfDocument(f"cannot be checked: an address of more than {MAX_ADDRESS} characters")
    try:
        address, fragment = urldefrag(urljoin(base, reference))
        urlsplit(address)  # who checks values by this schema will do that
    except ValueError:
        raise OutOfDocument(f"{shown(reference)} is no address") from None
    return address, fragment


def tokens_of(pointer: str) -> list[str]:
    """The keys and indices of a JSON pointer in a fragment, with or without its `#`; none for the whole document."""
    return [token.replace("~1", "/").replace("~0", "~") for token in unquote(pointer).split("/")[1:]]


def pointer_to(tokens: Iterable[str]) -> str:
    """The `$ref` that leads from the root over these keys and indices."""
    escaped = (token.replace("~", "~0").replace("/", "~1").replace("%", "%25") for token in tokens)
    return "#/" + "/".join(escaped)


REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
"""The keywords that refer to another schema."""


def targets_of(root: Any) -> dict[tuple[int, str], Any]:
    """Where every reference of a document leads that a check of values can meet, by its schema's identity and keyword.

    A dynamic reference is read like any other: what it adds concerns several resources that extend each other.
    """
    scope = Scope.of(root)
    found: dict[tuple[int, str], Any] = {}
    stack: list[tuple[Any, Scope]] = [(root, scope)]
    seen: set[int] = set()
    while stack:
        schema, scope = stack.pop()
        if not isinstance(schema, dict) or id(schema) in seen:
            continue
        seen.add(id(schema))
        for keyword in REFERENCES:
            target = scope.find(schema.get(keyword))
            if target is not None:
                found[id(schema), keyword] = target.schema
                stack.append((target.schema, target.scope))
        stack.extend((child.schema, scope.enter(child.schema)) for child in children(schema))
    return found
