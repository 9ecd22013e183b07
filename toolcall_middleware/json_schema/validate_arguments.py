"""Do the arguments of a finished call fit the tool's schema. Bounded in time, whatever schema and arguments are.

jsonschema decides, with the keywords that can be costly replaced by ours (`rules`). Nothing is fetched:
references were found to be local when the request was read. Why not a quicker library: docs/decisions.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import attrs
import msgspec

from ..lru_cache import LRUCache
from ..model import ToolSet
from .metaschema import dialect_of
from .rules import MAX_FAULTS, Deadline, NotChecked, Rules, TookTooLong, short

_MAX_VALUES = 20_000
"""JSON values in one call's arguments."""
_TOO_LONG = "(root): checking takes too long; the schema's patterns or the arguments are too large"
_NOT_CHECKED = "(root): cannot be checked: a reference of the schema leads nowhere"
UNCHECKED = frozenset({_TOO_LONG, _NOT_CHECKED})
"""What is said of arguments that could not be checked."""


class ArgumentChecker:
    """Checks calls of one tool set. Made once for a tool list and kept; validators are made at first use."""

    def __init__(self, tools: ToolSet) -> None:
        self._tools = tools
        self._made: dict[str, Any] = {}
        self._deadline = Deadline()

    def faults(self, name: str, arguments: str) -> list[str]:
        """What is wrong, as `path: message`, at most three; empty when the arguments fit or the tool is unknown.

        `arguments` is JSON text. A path is such as `items[0].city`, or `(root)`.
        """
        tool = self._tools.by_name.get(name)
        if tool is None:
            return []
        try:
            # A lone surrogate has no bytes, and no schema asks for one.
            value = msgspec.json.decode(arguments.encode("utf-8", "replace"))
        except (msgspec.DecodeError, RecursionError) as error:
            return [f"(root): not JSON: {error}"]
        if not isinstance(value, dict):
            return ["(root): arguments must be an object"]
        if _count(value) > _MAX_VALUES:
            return [_TOO_LONG]
        validator = self._validator(name)
        found: list[str] = []
        self._deadline.start()
        try:
            found += [
                f"{_path(fault.absolute_path)}: {short(fault.message)}"
                for fault in itertools.islice(validator.iter_errors(value), MAX_FAULTS)
            ]
        except (TookTooLong, RecursionError):
            found.append(_TOO_LONG)
        except NotChecked:
            found.append(_NOT_CHECKED)
        return found

    def _validator(self, name: str) -> Any:
        made = self._made.get(name)
        if made is None:
            made = self._made[name] = _validator(self._tools.by_name[name].parameters, self._deadline)
        return made


def _validator(schema: dict[str, Any], deadline: Deadline) -> Any:
    import jsonschema
    import referencing
    import regex  # noqa: F401 - now, not within the time for a check

    base = dialect_of(schema)
    rules = Rules(schema, deadline)
    ours = rules.all()
    known = {keyword: rules.timed(ours.get(keyword) or rule) for keyword, rule in dict(base.VALIDATORS).items()}
    made: Any = jsonschema.validators.extend(base, known)  # type: ignore[no-untyped-call]
    fields = [(field.name, field.alias) for field in attrs.fields(made) if field.init]

    def evolve(self: Any, **changes: Any) -> Any:
        """Jsonschema's own takes the class that an inner `$schema` names, whose keywords have no limit."""
        deadline.look()
        return made(**{alias: getattr(self, name) for name, alias in fields} | changes)

    made.evolve = evolve
    made.is_type = _is_type_of(base)
    return made(schema, registry=referencing.Registry())


_TYPES: dict[str, tuple[type, ...]] = {
    "array": (list,),
    "boolean": (bool,),
    "integer": (int,),
    "null": (type(None),),
    "number": (int, float),
    "object": (dict,),
    "string": (str,),
}


def _is_type_of(base: Any) -> Callable[[Any, Any, str], bool]:
    """The method `is_type` of the dialect `base`.

    Jsonschema's own asks a map that is written in Rust. Where Python's stack ends in there, that is no RecursionError
    but a panic, which is not caught: it would take the answer along.
    """
    has_whole_floats = base.TYPE_CHECKER.is_type(1.0, "integer")

    def is_type(_self: Any, instance: Any, name: str) -> bool:
        if isinstance(instance, bool):
            return name == "boolean"
        if isinstance(instance, float) and name == "integer":
            return has_whole_floats and instance.is_integer()
        return isinstance(instance, _TYPES[name])

    return is_type


_CHECKERS: LRUCache[tuple[bytes, tuple[int, ...]], ArgumentChecker] = LRUCache(max_size=1 << 21)
"""By bytes of the tool lists, which a checker holds several times over."""


def checker_for(tools_raw: bytes, tools: ToolSet) -> ArgumentChecker:
    """The checker of these tools, which are the same objects in all requests that offer them. tools_raw: their JSON."""
    key = tools_raw, tuple(map(id, tools.tools))
    found = _CHECKERS.get(key)
    if found is None:
        found = ArgumentChecker(tools)
        _CHECKERS.put(key, found, size=len(tools_raw))
    return found


def _count(value: Any) -> int:
    """How many JSON values there are, counted no further than is of interest."""
    count = 0
    stack = [value]
    while stack and count <= _MAX_VALUES:
        at = stack.pop()
        inner = at.values() if isinstance(at, dict) else at
        count += len(inner)
        stack.extend(item for item in inner if isinstance(item, (dict, list)))
    return count


def _path(path: Any) -> str:
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}"
    return short(text.removeprefix(".")) or "(root)"
