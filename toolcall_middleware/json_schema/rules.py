"""Our own checks of those keywords that jsonschema checks in a way that a client can make costly.

jsonschema runs patterns with `re`, which has no time limit, compares each item of a list with each other, and
follows references through a registry of its own. Its `unevaluatedProperties` and `unevaluatedItems` look through a
schema again for each reference to it. It gives each of these functions (validator, the keyword's value, instance,
schema) and takes its errors.

Source of the last two: https://json-schema.org/draft/2020-12/json-schema-core#section-11
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

import msgspec

from .pattern import matcher
from .pointer import REFERENCES, Scope

_SECONDS = 0.02
"""For one check, on the event loop, in time of this thread: where others keep it from running, no call is at fault."""
_PATTERN_SECONDS = 0.01
_PATTERN_TRIES = 3
_MAX_SEARCHED = 1 << 15
"""Characters that a pattern is run on. `regex` looks at its clock between two searches through the rest of a text, that
take about 1 us a character (`[a-z]{2,}[0-9]` on letters): a text of 5 MB held the thread for 4.7 s."""
MAX_FAULTS = 3
_MAX_TEXT = 300


class TookTooLong(Exception):
    """The time for one check is used up."""


class NotChecked(Exception):
    """A reference leads nowhere: the schema is not one that was admitted."""


class Deadline:
    """When a check has to be over."""

    def __init__(self) -> None:
        self._end = 0.0

    def start(self) -> None:
        """A check begins."""
        self._end = time.thread_time() + _SECONDS

    def look(self) -> None:
        """Raises TookTooLong."""
        if time.thread_time() > self._end:
            raise TookTooLong


def short(text: str) -> str:
    """As much of `text` as a message may hold."""
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"


def shown(value: Any) -> str:
    """`value` for a message; no more of it is written than is shown."""
    if isinstance(value, str):
        return short(repr(value[: _MAX_TEXT + 1]))
    if isinstance(value, (list, dict)) and len(value) > 64:
        return f"an {'array' if isinstance(value, list) else 'object'} of {len(value)}"
    return short(repr(value))


Rule = Callable[[Any, Any, Any, Any], Iterator[Any]]


class Rules:
    """Our keywords for one schema. `timed` puts the limit around any keyword."""

    def __init__(self, root: dict[str, Any], deadline: Deadline) -> None:
        self._deadline = deadline
        self._scope = Scope(root)
        self._scope.prepare()  # now, not within the time for a check
        self._targets: dict[tuple[int, str], Any] = {}
        self._values: dict[int, frozenset[bytes]] = {}
        """Of `enum`, by identity: made comparable once."""

    def all(self) -> dict[str, Rule]:
        """By keyword."""
        return {
            "$ref": self._reference("$ref"),
            "$dynamicRef": self._reference("$dynamicRef"),
            "$recursiveRef": self._reference("$recursiveRef"),
            "additionalItems": _additional_items,
            "additionalProperties": self._additional_properties,
            "const": self._const,
            "enum": self._enum,
            "multipleOf": self._multiple_of,
            "pattern": self._pattern,
            "patternProperties": self._pattern_properties,
            "unevaluatedItems": self._unevaluated("unevaluatedItems", "items", "array"),
            "unevaluatedProperties": self._unevaluated("unevaluatedProperties", "properties", "object"),
            "uniqueItems": self._unique_items,
        }

    def timed(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        """`rule`, which first looks at the time."""

        def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
            self._deadline.look()
            yield from rule(validator, value, instance, schema) or ()

        return check

    def target(self, schema: Any, keyword: str) -> Any:
        """Where the reference of `schema` leads. Raises NotChecked.

        A dynamic reference is read like any other: what it adds concerns several resources that extend each other.
        """
        key = id(schema), keyword
        if key not in self._targets:
            self._targets[key] = self._scope.find(schema[keyword])
        if self._targets[key] is None:
            raise NotChecked
        return self._targets[key]

    def matches(self, pattern: str, text: str) -> bool:
        """Whether `pattern` is found in `text`. Raises TookTooLong."""
        self._deadline.look()
        compiled = matcher(pattern)
        if compiled is None:
            return True  # JavaScript's own syntax that cannot be run here is not held against the model
        if len(text) > _MAX_SEARCHED:
            raise TookTooLong
        begun = time.thread_time()
        for _ in range(_PATTERN_TRIES):
            try:
                return compiled.search(text, timeout=_PATTERN_SECONDS) is not None
            except TimeoutError:
                # `regex` goes by the clock on the wall.
                if time.thread_time() - begun > _PATTERN_SECONDS / 2:
                    break
        raise TookTooLong

    def _reference(self, keyword: str) -> Rule:
        def check(validator: Any, _reference: Any, instance: Any, schema: Any) -> Iterator[Any]:
            yield from validator.descend(instance, self.target(schema, keyword))

        return check

    def _pattern(self, validator: Any, pattern: Any, instance: Any, _schema: Any) -> Iterator[Any]:
        if validator.is_type(instance, "string") and not self.matches(pattern, instance):
            yield _fault(f"{shown(instance)} does not match {shown(pattern)}")

    def _pattern_properties(self, validator: Any, patterns: Any, instance: Any, _schema: Any) -> Iterator[Any]:
        if not validator.is_type(instance, "object"):
            return
        for pattern, schema in patterns.items():
            for name, value in instance.items():
                if self.matches(pattern, name):
                    yield from validator.descend(value, schema, path=name, schema_path=pattern)

    def _additional_properties(self, validator: Any, rule: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if not validator.is_type(instance, "object"):
            return
        known, patterns = schema.get("properties") or {}, schema.get("patternProperties") or {}
        others = [
            name for name in instance if name not in known and not any(self.matches(text, name) for text in patterns)
        ]
        if validator.is_type(rule, "object"):
            for name in others:
                yield from validator.descend(instance[name], rule, path=name)
        elif others and not rule:
            yield _fault(f"Additional properties are not allowed ({names(others)} unexpected)")

    def _enum(self, _validator: Any, values: Any, instance: Any, _schema: Any) -> Iterator[Any]:
        known = self._values.get(id(values))
        if known is None:
            known = self._values[id(values)] = frozenset(map(_comparable, values))
        if _comparable(instance) not in known:
            yield _fault(f"{shown(instance)} is not one of {short(', '.join(map(shown, values[: MAX_FAULTS * 4])))}")

    def _const(self, _validator: Any, value: Any, instance: Any, _schema: Any) -> Iterator[Any]:
        if _comparable(value) != _comparable(instance):
            yield _fault(f"{shown(value)} was expected")

    def _multiple_of(self, validator: Any, factor: Any, instance: Any, _schema: Any) -> Iterator[Any]:
        if validator.is_type(instance, "number") and not _is_multiple(instance, factor):
            yield _fault(f"{shown(instance)} is not a multiple of {shown(factor)}")

    def _unique_items(self, validator: Any, wanted: Any, instance: Any, _schema: Any) -> Iterator[Any]:
        if wanted and validator.is_type(instance, "array"):
            if len(set(map(_comparable, instance))) != len(instance):
                yield _fault(f"{shown(instance)} has items that are not unique")

    def _unevaluated(self, keyword: str, what: str, kind: str) -> Rule:
        def check(validator: Any, rule: Any, instance: Any, schema: Any) -> Iterator[Any]:
            if not validator.is_type(instance, kind):
                return
            look = _Look(self, validator, instance)
            look.into(schema, outermost=keyword)
            places = range(len(instance)) if kind == "array" else instance
            others: list[Any] = [place for place in places if place not in look.seen]
            if validator.is_type(rule, "object"):
                for place in others:
                    yield from validator.descend(instance[place], rule, path=place)
            elif others and not rule:
                shown_ones = names([*map(str, others[:8])])
                yield _fault(f"Unevaluated {what} are not allowed ({shown_ones} unexpected)")

        return check


def _additional_items(validator: Any, rule: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """What `items` does not list; jsonschema's raises TypeError where `items` is a boolean."""
    first = schema.get("items")
    if not validator.is_type(instance, "array") or not isinstance(first, list):
        return
    if validator.is_type(rule, "object"):
        for index, item in enumerate(instance[len(first) :], len(first)):
            yield from validator.descend(item, rule, path=index)
    elif not rule and len(instance) > len(first):
        yield _fault(f"{shown(instance)} has more than {len(first)} items")


def names(unexpected: list[str]) -> str:
    """Some names for a message."""
    return short(", ".join(map(shown, itertools.islice(unexpected, MAX_FAULTS))))


def _fault(message: str) -> Any:
    from jsonschema import ValidationError

    return ValidationError(message)


def _is_multiple(value: float, factor: float) -> bool:
    """By the decimal numbers that were written, not by their nearest fractions of two: 0.3 is a multiple of 0.1."""
    if isinstance(value, int) and isinstance(factor, int):
        return value % factor == 0
    try:
        quotient = value / factor
    except OverflowError:  # an integer that no float holds
        return Fraction(value) % Fraction(str(factor)) == 0
    return abs(quotient) >= 2**53 or abs(quotient - round(quotient)) <= abs(quotient) * 1e-15


def _comparable(value: Any) -> bytes:
    return msgspec.json.encode(_canonical(value), order="sorted")


def _canonical(value: Any) -> Any:
    """JSON numbers are equal by value: 1 is 1.0, and not true."""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**63:
        return int(value)
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    if isinstance(value, dict):
        return {name: _canonical(item) for name, item in value.items()}
    return value


_IN_PLACE = ("allOf", "anyOf", "oneOf")


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
