"""Questions of BFCL: reads its files of JSON lines, and judges calls by the rules of its check of syntax trees.

A question and its functions are a line, its possible answers a line of another file. Read are the categories of one
turn in Python's and JSON's types: simple, multiple, parallel, live, (ir)relevance.

The rules (eval_checker/ast_eval/ast_checker.py there): as many calls as there are answers, in any order. A call is
right when its name is the answer's, each required argument is there, no argument is there that the answer does not
have, and each value is one of those that are possible; an argument may be left out when the empty string is among them.
Strings are compared without case, blanks and ,./-_*^.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ...model import ToolCall
from ...wire import openai
from ..command import UsageError, read_file
from .trials import Judgement, Question, QuestionSet

_TOKENS = 512
"""For one answer: parallel questions want up to eight calls."""
_MOST_DEPTH = 32
# BFCL's types of parameters, as JSON Schema and as Python have them. Others are Java's and JavaScript's.
_TYPES: dict[str, tuple[str, type]] = {
    "dict": ("object", dict), "object": ("object", dict), "float": ("number", float), "number": ("number", float),
    "integer": ("integer", int), "string": ("string", str), "boolean": ("boolean", bool), "array": ("array", list),
    "tuple": ("array", list), "list": ("array", list), "any": ("string", str),
}  # fmt: skip
_KEPT = ("description", "enum", "default", "format", "minimum", "maximum", "pattern")
_NO_FLOAT = 10**308  # and larger integers have no float
_IGNORED = re.compile(r"[ ,./\-_*^]")

Expected = tuple[str, Mapping[str, Sequence[Any]]]
"""One possible answer: a function, and for each of its arguments the values that are right."""


def read_questions(path: Path, answers: Path | None, limit: int) -> QuestionSet:
    """The first `limit` questions of the file. answers: the file of possible answers; without one it is looked for
    where BFCL keeps it, in the folder `possible_answer` beside the questions.

    Raises UsageError that names the file and the line.
    """
    lines = list(itertools.islice(_lines(path), limit))
    if not lines:
        raise UsageError(f"{path}: it holds no question.")
    needed = {line["id"] for _, line in lines if _wants(line["id"]) is None}
    expected = _answers(answers or path.parent / "possible_answer" / path.name, needed) if needed else {}
    found = []
    for number, line in lines:
        try:
            found.append(_question(line, expected))
        except (KeyError, TypeError, ValueError, IndexError, AttributeError) as error:
            why = f"it has no {error}" if isinstance(error, KeyError) else str(error)
            raise UsageError(f"{path}, line {number}: {line['id']} cannot be asked: {why}.") from None
    return QuestionSet(f"BFCL, {path.name}", found, choices=("auto",))


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number, value) of the lines of a file, each an object with an `id`."""
    for number, line in enumerate(read_file(str(path)).split(b"\n"), 1):
        if not line.strip():
            continue
        try:
            value = msgspec.json.decode(line)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise UsageError(f"{path}, line {number}: {error}") from None
        if not isinstance(value, dict) or not isinstance(value.get("id"), str):
            raise UsageError(f"{path}, line {number}: it is no object with an id; BFCL's files have one a line.")
        yield number, value


def _wants(name: str) -> bool | None:
    """Whether any call is right (True) or none is (False), by the question's id; None: it has possible answers."""
    if "irrelevance" in name:
        return False
    return True if "relevance" in name else None


def _answers(path: Path, wanted: set[str]) -> dict[str, Any]:
    if not path.is_file():
        raise UsageError(f"{path}: there are no possible answers; give them by --bfcl-answers FILE.")
    return {line["id"]: line.get("ground_truth") for _, line in _lines(path) if line["id"] in wanted}


def _question(line: Mapping[str, Any], expected: Mapping[str, Any]) -> Question:
    """Raises KeyError, TypeError, ValueError, IndexError or AttributeError for what is not read."""
    name = line["id"]
    functions = line["function"]
    if not isinstance(functions, list):
        functions = [functions]  # earlier versions have one function by itself
    turns = line["question"]
    if len(turns) != 1:
        raise ValueError(f"{len(turns)} turns")
    messages = [{"role": str(one["role"]), "content": str(one["content"])} for one in turns[0]]
    schemas = {offered_name(one["name"]): _schema(one["parameters"]) for one in functions}
    tools = [
        {
            "type": "function",
            "function": {
                "name": offered_name(one["name"]),
                "description": str(one.get("description", "")),
                "parameters": schemas[offered_name(one["name"])],
            },
        }
        for one in functions
    ]
    wants = _wants(name)
    judge: Callable[[Sequence[ToolCall]], Judgement]
    if wants is not None:
        judge = partial(_any_or_none, wants=wants)
    else:
        answers = _expected(expected.get(name), set(schemas))
        types = {offered_name(one["name"]): one["parameters"] for one in functions}
        judge = partial(_judge, types=types, answers=answers)
    return Question(name, messages, tools, judge, _TOKENS)


def _expected(ground_truth: Any, offered: set[str]) -> list[Expected]:
    """The possible answers of one question; each is of a function that it offers."""
    if not ground_truth:
        raise ValueError("it has no possible answers")
    answers: list[Expected] = []
    for answer in ground_truth:
        for function, arguments in answer.items():
            if not all(isinstance(values, list) for values in arguments.values()):
                raise ValueError("the possible values of an argument are no list")
            answers.append((offered_name(function), dict(arguments)))
    if not {name for name, _ in answers} <= offered:
        raise ValueError("a possible answer is of a function that is not offered")
    return answers


def offered_name(name: str) -> str:
    """The name under which a function is offered: OpenAI's API takes no dots, and BFCL replaces them as well."""
    return name.replace(".", "_")


def _judge(calls: Sequence[ToolCall], *, types: Mapping[str, Any], answers: Sequence[Expected]) -> Judgement:
    """Whether an answer's calls are right. types: BFCL's `parameters`, by function.

    The fault quotes no value of a question or of an answer.
    """
    if len(calls) != len(answers):
        return f"{len(calls)} calls, not {len(answers)}", False
    left = list(calls)
    for name, arguments in answers:
        faults = [_fault(call, types[name], name, arguments) for call in left]
        if None not in faults:
            # That of the nearest: another function's says less.
            named = (fault for call, fault in zip(left, faults, strict=True) if call.name == name)
            return next(named, faults[0]), False
        del left[faults.index(None)]
    return None, True


def _any_or_none(calls: Sequence[ToolCall], *, wants: bool) -> Judgement:
    if bool(calls) is wants:
        return None, True
    return "no call" if wants else "a call, where no function fits", False


def _schema(parameters: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """BFCL's description of parameters as JSON Schema."""
    if depth > _MOST_DEPTH:
        raise ValueError("its parameters are nested too deep")
    kind = parameters.get("type")
    if kind is not None and kind not in _TYPES:
        raise ValueError(f"the type {kind!r} is none of JSON's or Python's")
    made: dict[str, Any] = {} if kind is None else {"type": _TYPES[kind][0]}
    made |= {name: parameters[name] for name in _KEPT if name in parameters}
    if "properties" in parameters:
        made["properties"] = {name: _schema(one, depth + 1) for name, one in parameters["properties"].items()}
        made["required"] = list(parameters.get("required") or ())
    if "items" in parameters:
        made["items"] = _schema(parameters["items"], depth + 1)
    return made


def _fault(
    call: ToolCall, parameters: Mapping[str, Any], name: str, possible: Mapping[str, Sequence[Any]]
) -> str | None:
    if call.name != name:
        return "another function"
    given = openai.read_value(call.arguments.encode())
    if not isinstance(given, dict):
        return f"{name}: its arguments are no object"
    properties = parameters.get("properties", {})
    for required in parameters.get("required") or ():
        if required not in given:
            return f"{name}: no {required}"
    for key, value in given.items():
        if key not in properties or key not in possible:
            return f"{name}: an argument too many"
        if not _is_right(value, properties[key], possible[key]):
            return f"{name}: {key} is not one of the possible values"
    missing = next((key for key, values in possible.items() if key not in given and "" not in values), None)
    return None if missing is None else f"{name}: no {missing}"


def _python(kind: Any) -> type:
    return _TYPES.get(str(kind), ("", str))[1]


def _is_right(value: Any, schema: Mapping[str, Any], possible: Sequence[Any]) -> bool:
    wanted = _python(schema.get("type"))
    if wanted is float and type(value) is int and abs(value) < _NO_FLOAT:
        value = float(value)
    # Where a variable's name is accepted for a value, the possible values have another type than the parameter.
    known = next((type(one) for one in possible if one != ""), None)
    if type(value) is not wanted:
        return type(value) is known and _is_one_of(value, possible)
    if isinstance(value, list):
        items = schema.get("items")
        inner = _python(items.get("type")) if isinstance(items, dict) else None
        if inner is dict:
            return any(_objects(value, one) for one in possible)
        fitting = inner is None or any(_fit(value, inner, one) for one in possible)
        return fitting and _is_one_of(_simple(value), map(_simple, possible))
    if known not in {None, wanted}:
        return _is_one_of(value, possible)
    if wanted is dict:
        return any(_object(value, one) for one in possible)
    return _is_one_of(_simple(value), map(_simple, possible))


def _is_one_of(value: Any, possible: Iterable[Any]) -> bool:
    """Whether a value equals one of them. True is not 1."""
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


def _object(value: Any, possible: Any) -> bool:
    """Each key has a list of the values that are right, as the arguments of a call have, or one value."""
    if not isinstance(possible, dict) or not isinstance(value, dict) or not set(value) <= set(possible):
        return False
    lists = {name: [*map(_simple, one)] if isinstance(one, list) else [_simple(one)] for name, one in possible.items()}
    return all(_simple(value[name]) in lists[name] if name in value else "" in lists[name] for name in possible)


def _objects(value: list[Any], possible: Any) -> bool:
    return isinstance(possible, list) and len(value) == len(possible) and all(map(_object, value, possible))
