"""Do the arguments of a finished call fit the tool's schema. Bounded in time, whatever schema and arguments are.

jsonschema says it; with the extra `fast`, jsonschema-rs is asked first, and its yes is enough (its regular
expressions run in linear time). Nothing is fetched: references were found to be local when the request was read.
Patterns run in the `regex` module, which can be told to give up.
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec

from ..model import ToolSet

# For one call, on the event loop. Time of this thread: where others keep it from running, no call is at fault.
_SECONDS = 0.02
_PATTERN_SECONDS = 0.01
_PATTERN_TRIES = 3
_MAX_VALUES = 20_000  # JSON values in one call's arguments
_MAX_QUICK = 1 << 22
_MAX_UNEVALUATED = 1 << 18
_MAX_FAULTS = 3
_MAX_TEXT = 300
_TOO_LONG = "(root): checking takes too long; the schema's patterns or the arguments are too large"


class _TookTooLongError(Exception):
    """The time for one check is used up."""


class ArgumentChecker:
    """Checks calls of one tool set. Made once for a tool list and kept; validators are compiled at first use."""

    def __init__(self, tools: ToolSet) -> None:
        self._tools = tools
        self._compiled: dict[str, tuple[Any, Any, int]] = {}
        self._deadline = 0.0

    def faults(self, name: str, arguments: str) -> list[str]:
        """What is wrong, as `path: message`, at most three; empty when the arguments fit or the tool is unknown.

        `arguments` is JSON text. A path is such as `items[0].city`, or `(root)`.
        """
        tool = self._tools.by_name.get(name)
        if tool is None:
            return []
        try:
            # Half an emoji has no bytes, and no schema asks for one.
            value = msgspec.json.decode(arguments.encode("utf-8", "replace"))
        except (msgspec.DecodeError, RecursionError) as error:
            return [f"(root): not JSON: {error}"]
        if not isinstance(value, dict):
            return ["(root): arguments must be an object"]
        values, depth = _measure(value)
        if values > _MAX_VALUES:
            return [_TOO_LONG]
        validator, quick, size = self._validators(name)
        if quick is not None and _is_quick(size, values, depth) and _quick_yes(quick, value):
            return []
        self._deadline = time.thread_time() + _SECONDS
        found: list[str] = []
        try:
            found += [
                f"{_path(fault.absolute_path)}: {_short(fault.message)}"
                for fault in itertools.islice(validator.iter_errors(value), _MAX_FAULTS)
            ]
        except (_TookTooLongError, RecursionError):
            found.append(_TOO_LONG)
        return found

    def _validators(self, name: str) -> tuple[Any, Any, int]:
        """jsonschema's, jsonschema-rs's if there is one, and how many values the schema has."""
        made = self._compiled.get(name)
        if made is None:
            schema = self._tools.by_name[name].parameters
            made = self._compiled[name] = (self._slow(schema), _quick(schema), _measure(schema)[0])
        return made

    def _slow(self, schema: dict[str, Any]) -> Any:
        import jsonschema
        import referencing
        import regex  # noqa: F401 - now, not within the time for a check

        base = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
        ours: dict[str, Callable[..., Any]] = {**_RULES, "enum": _Values().enum, "const": _Values().const}
        size = _measure(schema)[0]
        for keyword in ("unevaluatedItems", "unevaluatedProperties"):
            if keyword in base.VALIDATORS:
                ours[keyword] = functools.partial(_unevaluated, base.VALIDATORS[keyword], size)
        if _has(schema, "patternProperties"):
            ours["unevaluatedProperties"] = _unevaluated_beside_patterns
        rules = {keyword: self._timed(ours.get(keyword, rule)) for keyword, rule in dict(base.VALIDATORS).items()}
        cls: Any = jsonschema.validators.extend(base, rules)  # type: ignore[no-untyped-call]
        return cls(schema, registry=referencing.Registry())

    def _timed(self, rule: Callable[..., Any]) -> Callable[..., Any]:
        def check(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
            if time.thread_time() > self._deadline:
                raise _TookTooLongError
            yield from rule(validator, value, instance, schema) or ()

        return check


# Bytes of a tool list, which a checker holds several times over.
_MAX_KEPT = 256 * 1024


@functools.lru_cache(maxsize=64)
def _checker(_key: bytes, tools: _Identity) -> ArgumentChecker:
    return ArgumentChecker(tools.tools)


class _Identity:
    """A tool set as a key: the bytes it came from say what it is."""

    __slots__ = ("names", "tools")

    def __init__(self, tools: ToolSet) -> None:
        self.tools = tools
        self.names = tuple(tools.by_name)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Identity) and self.names == other.names

    def __hash__(self) -> int:
        return hash(self.names)


def checker_for(tools_raw: bytes, tools: ToolSet) -> ArgumentChecker:
    """The checker of a tool list, which is told apart by its bytes."""
    if len(tools_raw) > _MAX_KEPT:
        return ArgumentChecker(tools)
    return _checker(tools_raw, _Identity(tools))


def _quick(schema: dict[str, Any]) -> Any:
    """jsonschema-rs's validator, or None where it is not installed or does not take the schema."""
    try:
        import jsonschema_rs
    except ImportError:
        return None

    def nothing(uri: str) -> Any:
        raise ValueError(f"{uri} is not fetched")

    try:
        return jsonschema_rs.validator_for(schema, retriever=nothing, pattern_options=jsonschema_rs.RegexOptions())
    except (ValueError, RecursionError):
        return None


def _measure(value: Any) -> tuple[int, int]:
    """(how many values there are, how deep they are nested); counted no further than is of interest."""
    count = depth = 0
    level = [value]
    while level and count <= _MAX_VALUES:
        depth += 1
        inner: list[Any] = []
        for at in level:
            inner += at.values() if isinstance(at, dict) else at if isinstance(at, list) else ()
        count += len(inner)
        level = [item for item in inner if isinstance(item, (dict, list))]
    return count, depth


def _is_quick(schema: int, values: int, depth: int) -> bool:
    """Whether jsonschema-rs, which cannot be interrupted, is sure to be done in time.

    Its work grows with schema and value, and doubles with each level of them where alternatives refer to each other.
    """
    return schema * values * (1 << min(depth, 64)) < _MAX_QUICK


def _quick_yes(validator: Any, value: Any) -> bool:
    try:
        return bool(validator.is_valid(value))
    except (ValueError, OverflowError, RecursionError):
        return False


def _pattern(validator: Any, pattern: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    from jsonschema import ValidationError

    if validator.is_type(instance, "string") and not _matches(pattern, instance):
        yield ValidationError(f"{_short(repr(instance))} does not match {_short(repr(pattern))}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, schema in patterns.items():
        for name, value in instance.items():
            if _matches(pattern, name):
                yield from validator.descend(value, schema, path=name, schema_path=pattern)


def _additional_properties(validator: Any, rule: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """With our own matching: jsonschema runs the patterns of `patternProperties` here without a limit."""
    from jsonschema import ValidationError

    if not validator.is_type(instance, "object"):
        return
    known, patterns = schema.get("properties") or {}, schema.get("patternProperties") or {}
    others = [name for name in instance if name not in known and not any(_matches(text, name) for text in patterns)]
    if validator.is_type(rule, "object"):
        for name in others:
            yield from validator.descend(instance[name], rule, path=name)
    elif others and not rule:
        names = ", ".join(repr(name) for name in others[:_MAX_FAULTS])
        yield ValidationError(f"Additional properties are not allowed ({_short(names)} unexpected)")


class _Values:
    """`enum` and `const`, each of which is made comparable once: jsonschema compares each value with each."""

    def __init__(self) -> None:
        self._known: dict[int, frozenset[bytes]] = {}

    def _holds(self, values: Any, instance: Any) -> bool:
        known = self._known.get(id(values))
        if known is None:
            known = self._known[id(values)] = frozenset(map(_comparable, values))
        return _comparable(instance) in known

    def enum(self, _validator: Any, values: Any, instance: Any, _schema: Any) -> Iterator[Any]:
        from jsonschema import ValidationError

        if not self._holds(values, instance):
            yield ValidationError(f"{_short(repr(instance))} is not one of {_short(repr(values[: _MAX_FAULTS * 4]))}")

    def const(self, _validator: Any, value: Any, instance: Any, _schema: Any) -> Iterator[Any]:
        from jsonschema import ValidationError

        if _comparable(value) != _comparable(instance):
            yield ValidationError(f"{_short(repr(value))} was expected")


def _unevaluated(theirs: Callable[..., Any], size: int, validator: Any, rule: Any, instance: Any, schema: Any) -> Any:
    """jsonschema's, whose work grows with the schema and with the square of the value."""
    if isinstance(instance, (dict, list)) and len(instance) * max(size, len(instance)) > _MAX_UNEVALUATED:
        raise _TookTooLongError
    return theirs(validator, rule, instance, schema)


def _unevaluated_beside_patterns(validator: Any, _rule: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    """Jsonschema would run the patterns without a limit. Where jsonschema-rs has said yes, nobody asks here."""
    from jsonschema import ValidationError

    if validator.is_type(instance, "object"):
        yield ValidationError("unevaluatedProperties in a schema with patternProperties is not checked")


def _has(schema: Any, keyword: str) -> bool:
    """Whether a keyword stands anywhere in a schema."""
    level = [schema]
    while level:
        inner: list[Any] = []
        for at in level:
            if isinstance(at, dict):
                if keyword in at:
                    return True
                inner += at.values()
            elif isinstance(at, list):
                inner += at
        level = [item for item in inner if isinstance(item, (dict, list))]
    return False


def _unique_items(validator: Any, wanted: Any, instance: Any, _schema: Any) -> Iterator[Any]:
    """Linear; jsonschema compares each item with each other."""
    from jsonschema import ValidationError

    if wanted and validator.is_type(instance, "array"):
        seen = set(map(_comparable, instance))
        if len(seen) != len(instance):
            yield ValidationError(f"{_short(repr(instance))} has items that are not unique")


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


_RULES: dict[str, Callable[..., Any]] = {
    "additionalProperties": _additional_properties,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "uniqueItems": _unique_items,
}


@functools.lru_cache(maxsize=512)
def _compiled(pattern: str) -> Any:
    import regex

    try:
        return regex.compile(pattern)
    except (regex.error, OverflowError, RecursionError):
        return None


def _matches(pattern: str, text: str) -> bool:
    compiled = _compiled(pattern)
    if compiled is None:
        return True  # JavaScript's own syntax that cannot be run here is not held against the model
    begun = time.thread_time()
    for _ in range(_PATTERN_TRIES):
        try:
            return compiled.search(text, timeout=_PATTERN_SECONDS) is not None
        except TimeoutError:
            # `regex` goes by the clock on the wall.
            if time.thread_time() - begun > _PATTERN_SECONDS / 2:
                break
    raise _TookTooLongError


def _path(path: Any) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return _short(text.removeprefix(".")) or "(root)"


def _short(text: str) -> str:
    return text if len(text) <= _MAX_TEXT else text[:_MAX_TEXT] + "…"
