"""Whether calls are right, by the rules of BFCL's check of syntax trees (eval_checker/ast_eval/ast_checker.py there).

As many calls as there are answers, in any order. A call is right when its name is the answer's, each required argument
is there, no argument is there that the answer does not have, and each value is one of those that are possible; an
argument may be left out when the empty string is among them. Strings are compared without case, blanks and ,./-_*^.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ....model import ToolCall
from ....wire import openai

_PYTHON: dict[str, type] = {
    "string": str, "integer": int, "float": float, "number": float, "boolean": bool, "array": list, "list": list,
    "tuple": list, "dict": dict, "object": dict, "any": str,
}  # fmt: skip
_NO_FLOAT = 10**308  # and larger integers have no float
_IGNORED = re.compile(r"[ ,./\-_*^]")


@dataclass(frozen=True, slots=True)
class Expected:
    """One possible answer: a function, and for each of its arguments the values that are right."""

    name: str
    arguments: Mapping[str, Sequence[Any]]


def fault_of(calls: Sequence[ToolCall], types: Mapping[str, Any], answers: Sequence[Expected]) -> str | None:
    """What is wrong with an answer's calls; None where they are right. types: BFCL's `parameters`, by function.

    No value of a question or of an answer is in what is said.
    """
    if len(calls) != len(answers):
        return f"{len(calls)} calls, not {len(answers)}"
    left = list(calls)
    for answer in answers:
        faults = [_fault(call, types[answer.name], answer) for call in left]
        if None not in faults:
            # That of the nearest: another function's says less.
            named = (fault for call, fault in zip(left, faults, strict=True) if call.name == answer.name)
            return next(named, faults[0])
        del left[faults.index(None)]
    return None


def _fault(call: ToolCall, parameters: Mapping[str, Any], answer: Expected) -> str | None:
    if call.name != answer.name:
        return "another function"
    given = openai.read_value(call.arguments.encode())
    if not isinstance(given, dict):
        return f"{call.name}: its arguments are no object"
    properties = parameters.get("properties", {})
    for name in parameters.get("required") or ():
        if name not in given:
            return f"{call.name}: no {name}"
    for name, value in given.items():
        if name not in properties or name not in answer.arguments:
            return f"{call.name}: an argument too many"
        if not _is_right(value, properties[name], answer.arguments[name]):
            return f"{call.name}: {name} is none of the possible values"
    left_out = (name for name, values in answer.arguments.items() if name not in given and "" not in values)
    missing = next(left_out, None)
    return None if missing is None else f"{call.name}: no {missing}"


def _is_right(value: Any, schema: Mapping[str, Any], possible: Sequence[Any]) -> bool:
    kind = schema.get("type")
    wanted = _PYTHON.get(str(kind), str)
    if wanted is float and type(value) is int and abs(value) < _NO_FLOAT:
        value = float(value)
    # Where a variable's name may stand for a value, the possible ones are of another type than the parameter.
    known = next((type(one) for one in possible if one != ""), None)
    if type(value) is not wanted:
        return type(value) is known and _plain(value, possible)
    if isinstance(value, list):
        items = schema.get("items")
        inner = _PYTHON.get(str(items.get("type")), str) if isinstance(items, dict) else None
        if inner is dict:
            return _lists_of_objects(value, possible)
        fitting = inner is None or any(_fit(value, inner, one) for one in possible)
        return fitting and _simple(value) in [_simple(one) for one in possible if isinstance(one, list)]
    if known not in {None, wanted}:
        return _plain(value, possible)
    if wanted is dict:
        return any(_object(value, one) for one in possible if isinstance(one, dict))
    if wanted is str:
        return _simple(value) in [_simple(one) for one in possible if isinstance(one, str)]
    return _plain(value, possible)


def _plain(value: Any, possible: Sequence[Any]) -> bool:
    """Equal to one of them. True is no 1."""
    return any(value == one and isinstance(value, bool) == isinstance(one, bool) for one in possible)


def _fit(items: list[Any], inner: type, possible: Any) -> bool:
    """Whether all items are of the type that is wanted, or of that which the possible list begins with."""
    if not isinstance(possible, list):
        return True
    kinds = {inner, next((type(one) for one in possible if one != ""), inner)}
    return all(type(item) in kinds for item in items)


def _simple(value: Any) -> Any:
    """A string, or the strings of a list, as they are compared; all else as it is."""
    if isinstance(value, str):
        return _IGNORED.sub("", value).lower().replace("'", '"')
    return [_simple(item) if isinstance(item, str) else item for item in value] if isinstance(value, list) else value


def _object(value: Any, possible: Mapping[str, Any]) -> bool:
    """Each key has a list of the values that are right, as the arguments of a call have."""
    if not isinstance(value, dict) or not set(value) <= set(possible):
        return False
    if any(name not in value and "" not in values for name, values in possible.items()):
        return False
    return all(_simple(item) in [_simple(one) for one in possible[name]] for name, item in value.items())


def _lists_of_objects(value: list[Any], possible: Sequence[Any]) -> bool:
    return any(
        len(value) == len(one) and all(_object(item, other) for item, other in zip(value, one, strict=True))
        for one in possible
        if isinstance(one, list) and all(isinstance(other, dict) for other in one)
    )
