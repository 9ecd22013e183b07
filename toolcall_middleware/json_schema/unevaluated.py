"""`unevaluatedProperties` and `unevaluatedItems`: what no keyword beside or below them has spoken of.

jsonschema's own look through a schema again for each reference to it, and run patterns without a limit.
Source: https://json-schema.org/draft/2020-12/json-schema-core#section-11
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .pointer import REFERENCES
from .rules import Rules, names

_IN_PLACE = ("allOf", "anyOf", "oneOf")


def unevaluated_rules(rules: Rules) -> dict[str, Callable[..., Iterator[Any]]]:
    """By keyword, as `Rules.all`."""

    def properties(validator: Any, rule: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if validator.is_type(instance, "object"):
            look = _Look(rules, validator, instance)
            look.into(schema, outermost="unevaluatedProperties")
            yield from _left(validator, rule, instance, [name for name in instance if name not in look.seen])

    def items(validator: Any, rule: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if validator.is_type(instance, "array"):
            look = _Look(rules, validator, instance)
            look.into(schema, outermost="unevaluatedItems")
            yield from _left(validator, rule, instance, [n for n in range(len(instance)) if n not in look.seen])

    return {"unevaluatedProperties": properties, "unevaluatedItems": items}


def _left(validator: Any, rule: Any, instance: Any, places: list[Any]) -> Iterator[Any]:
    from jsonschema import ValidationError

    if validator.is_type(rule, "object"):
        for place in places:
            yield from validator.descend(instance[place], rule, path=place)
    elif places and not rule:
        what = "properties" if isinstance(instance, dict) else "items"
        yield ValidationError(f"Unevaluated {what} are not allowed ({names([*map(str, places[:8])])} unexpected)")


class _Look:
    """A look through a schema for what it has spoken of in one value. Each schema is looked at once.

    seen: names of properties, or indices of items.
    """

    def __init__(self, rules: Rules, validator: Any, instance: Any) -> None:
        self._rules = rules
        self._validator = validator
        self._instance = instance
        self._is_new_draft = "prefixItems" in validator.VALIDATORS
        self._known: set[int] = set()
        self.seen: set[Any] = set()

    def into(self, schema: Any, *, outermost: str) -> None:
        """Look through `schema`; `outermost` is the keyword that asks, which says nothing for itself."""
        stack = [(schema, outermost)]
        while stack:
            at, besides = stack.pop()
            if not isinstance(at, dict) or id(at) in self._known:
                continue
            self._known.add(id(at))
            if isinstance(self._instance, dict):
                self._own_properties(at, besides)
            else:
                self._own_items(at, besides)
            stack.extend((part, "") for part in self._parts(at))

    def _fits(self, schema: Any, instance: Any) -> bool:
        return next(self._validator.descend(instance, schema), None) is None

    def _parts(self, schema: dict[str, Any]) -> Iterator[Any]:
        """What speaks about the same value, where it holds."""
        for keyword in REFERENCES:
            if keyword in schema and keyword in self._validator.VALIDATORS:
                yield self._rules.target(schema, keyword)
        for keyword in _IN_PLACE:
            for part in schema.get(keyword, ()):
                if self._fits(part, self._instance):
                    yield part
        if "if" in schema:
            holds = self._fits(schema["if"], self._instance)
            if holds:
                yield schema["if"]
            yield schema.get("then" if holds else "else")
        if isinstance(self._instance, dict):
            for name, part in schema.get("dependentSchemas", {}).items():
                if name in self._instance:
                    yield part

    def _own_properties(self, schema: dict[str, Any], besides: str) -> None:
        asked_below = "unevaluatedProperties" in schema and besides != "unevaluatedProperties"
        if asked_below or "additionalProperties" in schema:
            self.seen.update(self._instance)
            return
        self.seen.update(name for name in schema.get("properties", ()) if name in self._instance)
        for pattern in schema.get("patternProperties", ()):
            self.seen.update(name for name in self._instance if self._rules.matches(pattern, name))

    def _own_items(self, schema: dict[str, Any], besides: str) -> None:
        asked_below = "unevaluatedItems" in schema and besides != "unevaluatedItems"
        items = schema.get("items")
        # Before `prefixItems`, `items` could list the first ones, and `additionalItems` spoke of the others.
        rest = items if self._is_new_draft or not isinstance(items, list) else schema.get("additionalItems")
        if asked_below or rest is not None:
            self.seen.update(range(len(self._instance)))
            return
        first = schema.get("prefixItems", ()) if self._is_new_draft else items or ()
        self.seen.update(range(min(len(first), len(self._instance))))
        if self._is_new_draft and "contains" in schema:
            self.seen.update(n for n, item in enumerate(self._instance) if self._fits(schema["contains"], item))
