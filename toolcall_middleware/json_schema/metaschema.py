"""What JSON Schema's own schemas (the metaschemas) say about one keyword.

They are jsonschema's copies, but its `check_schema` is not for strangers' schemas: it recurses, costs 0.2 ms a
property, compares the items of some lists pairwise and prints what it refuses at every level. So each value is first
reduced to a small sample of its kind (`minLength: 7` to `1`, a long list of names to `["x"]`): there are only some
hundreds of samples, and their verdicts are remembered.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from typing import Any
from urllib.parse import urljoin

_LISTS_OF_SCHEMAS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems", "items"})
_ANCHORS = frozenset({"$anchor", "$dynamicAnchor"})
_ANCHOR = re.compile(r"[A-Za-z_][-A-Za-z0-9._]*")


_CLASSES = {
    "json-schema.org/draft/2020-12/schema": "Draft202012Validator",
    "json-schema.org/draft/2019-09/schema": "Draft201909Validator",
    "json-schema.org/draft-07/schema": "Draft7Validator",
    "json-schema.org/draft-06/schema": "Draft6Validator",
    "json-schema.org/draft-04/schema": "Draft4Validator",
}


def dialect_of(schema: dict[str, Any]) -> Any:
    """The validator class of jsonschema for `$schema`; an unknown one is read as the newest draft, never fetched."""
    import jsonschema

    named = schema.get("$schema")
    address = named.rstrip("#").partition("://")[2] if isinstance(named, str) else ""
    return getattr(jsonschema, _CLASSES.get(address, "Draft202012Validator"))


def keyword_fault(dialect: Any, keyword: str, value: Any) -> str | None:
    """What the metaschema has against `keyword` with this value, or None. Schemas inside `value` are not looked at."""
    if keyword not in keywords_of(dialect):
        return None
    for sample in sorted(_samples(keyword, value)):
        reason = _sample_fault(dialect, keyword, sample)
        if reason is not None:
            return (_complaint(dialect, keyword, value) if _is_short(value) else None) or reason
    return None


def _is_short(value: Any) -> bool:
    """Whether the complaint may be about the client's own value instead of the sample."""
    if isinstance(value, list):
        return len(value) <= 16 and all(not isinstance(item, list) and _is_short(item) for item in value)
    return isinstance(value, int | float) or (isinstance(value, str) and len(value) <= 64)


@lru_cache(maxsize=8192)
def _sample_fault(dialect: Any, keyword: str, sample: str) -> str | None:
    return _complaint(dialect, keyword, json.loads(sample))


def _complaint(dialect: Any, keyword: str, value: Any) -> str | None:
    needed = dialect.META_SCHEMA.get("dependencies", {}).get(keyword, [])  # draft 4: exclusiveMinimum wants a minimum
    companions = dict.fromkeys([needed] if isinstance(needed, str) else needed, 0)
    error = next(dialect(dialect.META_SCHEMA).iter_errors({**companions, keyword: value}), None)
    return None if error is None else str(error.message)


def _address(dialect: Any) -> str:
    return str(dialect.META_SCHEMA.get("$id") or dialect.META_SCHEMA.get("id"))


@lru_cache(maxsize=16)
def keywords_of(dialect: Any) -> frozenset[str]:
    """The keywords that the metaschema says something about. The values of others are data."""
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]

    vocabularies = [urljoin(_address(dialect), part["$ref"]) for part in dialect.META_SCHEMA.get("allOf", ())]
    parts = [dialect.META_SCHEMA, *(REGISTRY.contents(address) for address in vocabularies)]
    return frozenset(keyword for part in parts for keyword in part.get("properties", ()))


def _samples(keyword: str, value: Any) -> set[str]:
    """Small JSON texts that the metaschema judges as it would judge `value`."""
    match value:
        case None | bool():
            return {json.dumps(value)}
        case int() | float():
            return {_number(value)}
        case str():
            return {_string(keyword, value)}
        case list():
            return {_array(keyword, value)}
        case dict() if keyword == "dependentRequired":
            return {_held(_array("required", v) if isinstance(v, list) else "0") for v in value.values()}
        case dict() if keyword == "dependencies":  # what is no list is a schema, and visited as such
            return {_held(_array("required", v)) for v in value.values() if isinstance(v, list)}
    return {"{}"}


def _held(sample: str) -> str:
    return '{"k": ' + sample + "}"


def _number(value: float) -> str:
    sign = (value > 0) - (value < 0)
    if isinstance(value, int):
        return str(sign)
    return str(float(sign) if value.is_integer() else sign / 2)


def _string(keyword: str, value: str) -> str:
    if keyword == "type":
        return json.dumps(value[:32])
    if keyword == "$id":
        return '"#x"' if "#" in value[:-1] else '"x"'
    if keyword in _ANCHORS:
        return '"x"' if _ANCHOR.fullmatch(value) else '" "'
    return '"x"'


def _array(keyword: str, value: list[Any]) -> str:
    if not value:
        return "[]"
    strings = all(isinstance(item, str) for item in value)
    if keyword == "type":
        short = strings and len(value) <= 16
        return json.dumps(sorted(item[:32] for item in value)) if short else "[0]"
    if keyword == "required":
        return "[0]" if not strings else '["x"]' if len(set(value)) == len(value) else '["x", "x"]'
    return "[{}]" if keyword in _LISTS_OF_SCHEMAS else "[0]"
