"""Reads BFCL's files of JSON lines: a question and its functions a line, the possible answers in another file.

Read are the categories of one turn in Python's and JSON's types: simple, multiple, parallel, live, (ir)relevance.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from ....model import ToolCall
from ...command import UsageError
from ..questions import Judgement, Question, QuestionSet
from .judge import Expected, fault_of

_TOKENS = 512
"""For one answer: parallel questions want up to eight calls."""
_MOST_LINE = 1 << 20
_MOST_DEPTH = 32
# What BFCL calls the types of parameters, as JSON Schema does. Others are Java's and JavaScript's.
_TYPES = {
    "dict": "object", "object": "object", "float": "number", "number": "number", "integer": "integer",
    "string": "string", "boolean": "boolean", "array": "array", "tuple": "array", "list": "array", "any": "string",
}  # fmt: skip
_KEPT = ("description", "enum", "default", "format", "minimum", "maximum", "pattern")


def read_questions(path: Path, answers: Path | None, limit: int) -> QuestionSet:
    """The first `limit` questions of the file. answers: the file of possible answers; without one it is looked for
    where BFCL keeps it, in the folder `possible_answer` beside the questions.

    Raises UsageError that names the file and the line.
    """
    lines = list(_lines(path, limit))
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
    return QuestionSet(f"BFCL, {path.name}", found, choices=("auto",), constrained=False)


def _lines(path: Path, limit: int | None) -> Iterator[tuple[int, dict[str, Any]]]:
    """(number, value) of the lines of a file, each an object with an `id`."""
    read = 0
    try:
        with path.open("rb") as file:
            number = 0
            while line := file.readline(_MOST_LINE + 1):
                number += 1
                if len(line) > _MOST_LINE:
                    raise UsageError(f"{path}, line {number}: it is longer than {_MOST_LINE >> 20} MiB.")
                if not line.strip():
                    continue
                value = msgspec.json.decode(line)
                if not isinstance(value, dict) or not isinstance(value.get("id"), str):
                    raise UsageError(
                        f"{path}, line {number}: it is no object with an id; BFCL's files have one a line."
                    )
                yield number, value
                read += 1
                if read == limit:
                    return
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UsageError(f"{path}, line {number}: {error}") from None


def _wants(name: str) -> bool | None:
    """Whether any call is right (True) or none is (False), by the question's id; None: it has possible answers."""
    if "irrelevance" in name:
        return False
    return True if "relevance" in name else None


def _answers(path: Path, wanted: set[str]) -> dict[str, Any]:
    if not path.is_file():
        raise UsageError(f"{path}: there are no possible answers; give them by --bfcl-answers FILE.")
    return {line["id"]: line.get("ground_truth") for _, line in _lines(path, None) if line["id"] in wanted}


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
    answers = []
    for answer in ground_truth:
        for function, arguments in answer.items():
            if not all(isinstance(values, list) for values in arguments.values()):
                raise ValueError("the possible values of an argument are no list")
            answers.append(Expected(offered_name(function), dict(arguments)))
    if not {answer.name for answer in answers} <= offered:
        raise ValueError("a possible answer is of a function that is not offered")
    return answers


def offered_name(name: str) -> str:
    """The name under which a function is offered: OpenAI's API takes no dots, and BFCL replaces them as well."""
    return name.replace(".", "_")


def _judge(calls: Sequence[ToolCall], *, types: Mapping[str, Any], answers: Sequence[Expected]) -> Judgement:
    fault = fault_of(calls, types, answers)
    return Judgement(fault, fault is None)


def _any_or_none(calls: Sequence[ToolCall], *, wants: bool) -> Judgement:
    if bool(calls) is wants:
        return Judgement(None, right=True)
    return Judgement("no call" if wants else "a call, where no function fits", right=False)


def _schema(parameters: Mapping[str, Any], depth: int = 0) -> dict[str, Any]:
    """BFCL's description of parameters as JSON Schema."""
    if depth > _MOST_DEPTH:
        raise ValueError("its parameters are nested too deep")
    kind = parameters.get("type")
    if kind is not None and kind not in _TYPES:
        raise ValueError(f"the type {kind!r} is none of JSON's or Python's")
    made: dict[str, Any] = {} if kind is None else {"type": _TYPES[kind]}
    made |= {name: parameters[name] for name in _KEPT if name in parameters}
    if "properties" in parameters:
        made["properties"] = {name: _schema(one, depth + 1) for name, one in parameters["properties"].items()}
        made["required"] = list(parameters.get("required") or ())
    if "items" in parameters:
        made["items"] = _schema(parameters["items"], depth + 1)
    return made
