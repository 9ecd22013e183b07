"""Where a `$ref` leads: the one place that follows references. Never out of the document; nothing is fetched.

A reference is an address, which may be empty, and a fragment: a JSON pointer (RFC 6901, percent-encoded as in any URI)
or the plain name that `$anchor` gives. An address leads to the schema whose `$id` is exactly that text. Addresses are
not joined, and a pointer without one begins at the document's root.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, NamedTuple
from urllib.parse import unquote

import msgspec

from ..errors import shown
from ..lru_cache import LRUCache
from .walk import deeper, walk

_BYTES = 100
"""What one schema takes in an index, about."""
_MAX_INDEXED = 100_000
"""Schemas in the documents whose indexes are kept."""
_INDEX = re.compile(r"0|[1-9][0-9]{0,8}")


class Unresolved(LookupError):
    """A reference leads nowhere. The text says why."""


class OutOfDocument(Unresolved):
    """A reference leads out of the document."""


class Scope:
    """The document in which references are resolved."""

    __slots__ = ("_made", "root")

    def __init__(self, root: Any) -> None:
        self.root = root
        self._made: _Index | None = None

    def prepare(self) -> None:
        """Make the index now, if the document has a reference that may need it: in a large document it takes time."""
        if any(keyword in schema for schema, _, _ in walk(self.root, 0, deeper) for keyword in REFERENCES):
            self._index  # noqa: B018 - the property keeps it

    def resolve(self, reference: str) -> Any:
        """What `reference` leads to: a schema, if the document's author made no mistake. Raises Unresolved."""
        address, _, fragment = reference.partition("#")
        start = self.root if not address else self._index.addresses.get(address, _NOTHING)
        if start is _NOTHING:
            raise OutOfDocument(
                f"{shown(reference)} refers to another document: only references inside the schema are followed,"
                " nothing is fetched"
            )
        if not fragment:
            return start
        target = _at(start, fragment) if fragment.startswith("/") else self._index.names.get(fragment, _NOTHING)
        if target is _NOTHING:
            raise Unresolved(f"{shown(reference)} refers to nothing in the schema")
        return target

    def find(self, reference: Any) -> Any:
        """Like `resolve`; None for what is no reference or leads nowhere."""
        try:
            return self.resolve(reference) if isinstance(reference, str) else None
        except Unresolved:
            return None

    @property
    def _index(self) -> _Index:
        """Made when a reference asks for more than a pointer from the root, which few documents need."""
        found = self._made = self._made or _INDEXES.get(id(self.root))
        if found is None:
            found = self._made = _index(self.root)
            # A schema's texts are kept with it, and may be of any size: the cache does not take a large one.
            _INDEXES.put(id(self.root), found, size=max(found.size, len(msgspec.json.encode(self.root)) // _BYTES))
        return found


_NOTHING = object()


def _at(start: Any, fragment: str) -> Any:
    """The value at a JSON pointer; `_NOTHING` where there is none."""
    at = start
    for key in tokens_of(fragment):
        if isinstance(at, dict) and key in at:
            at = at[key]
        elif isinstance(at, list) and _INDEX.fullmatch(key) and int(key) < len(at):
            at = at[int(key)]
        else:
            return _NOTHING
    return at


class _Index(NamedTuple):
    """The addresses and names of a document; of two that are the same, the first counts."""

    root: Any
    addresses: dict[str, Any]
    names: dict[str, Any]
    size: int


_INDEXES: LRUCache[int, _Index] = LRUCache(max_size=_MAX_INDEXED)
"""By the identity of the root, which the index keeps: a tool list is read once and used by many requests."""


def _index(root: Any) -> _Index:
    addresses: dict[str, Any] = {}
    names: dict[str, Any] = {}
    count = 1
    for schema, _, _ in walk(root, 0, deeper):
        count += 1
        for keyword in ("$id", "id"):  # the second one is draft 4's
            if isinstance(address := schema.get(keyword), str):
                held = names if address.startswith("#") else addresses  # a name, before 2019
                held.setdefault(address.strip("#"), schema)
        for keyword in ("$anchor", "$dynamicAnchor"):
            if isinstance(name := schema.get(keyword), str):
                names.setdefault(name, schema)
    return _Index(root, addresses, names, count)


def tokens_of(pointer: str) -> list[str]:
    """The keys and indices of a JSON pointer in a fragment, with or without its `#`; none for the whole document."""
    return [token.replace("~1", "/").replace("~0", "~") for token in unquote(pointer).split("/")[1:]]


def pointer_to(tokens: Iterable[str]) -> str:
    """The `$ref` that leads from the root over these keys and indices."""
    escaped = (token.replace("~", "~0").replace("/", "~1").replace("%", "%25") for token in tokens)
    return "#/" + "/".join(escaped)


REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
"""The keywords that refer to another schema."""
