"""How many golden answers each streaming parser reads right: ours, and vLLM's and SGLang's own of the same family.

An answer is a line of tests/formats/golden that ends by itself and says exactly which calls and which text are in it.
Reasoning is left out: engines read it elsewhere. All parsers get the same pieces: four characters, the family's markers
whole, as a tokenizer cuts them. Where a case offers no tools, one tool is offered for each expected call, with the
types of its arguments.

A case is right when exactly the expected calls come out, with their names and arguments equal as JSON. Text beside
calls is not compared. Our parsers are developed with these cases, so their own column says little; the others' says
which of these answers their users lose. Many of the cases are damaged, as models write them: a marker doubled or left
out, JSON with a fault, two calls in one block.

An engine's parser counts for a family if it reads at least one of the family's answers with a call here. Some need more
of their engine than these benchmarks load.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.formats.goldens import Case, formats, load

from . import material
from .published import readers
from .readers import Reader, Tools, ours

_SHAPE = re.compile(r"<[^<>\s\"=]{1,40}>|\[/?[A-Z_]+\]")
"""What a family's markers look like."""


@dataclass(slots=True)
class Score:
    """What became of the cases of one family."""

    cases: int = 0
    right: Counter[str] = field(default_factory=Counter)
    """By the parser: `ours`, `auto`, an engine's name."""


def score(limit: int | None = None) -> dict[str, Score]:
    """By format, the families that at least one engine at hand reads."""
    scores = {}
    for name in formats():
        published = [reader for reader in readers() if reader.syntax == name]
        some = [case for case in load(name) if _usable(case)][:limit]
        found = Score(len(some))
        markers = tuple({mark for case in some for mark in _SHAPE.findall(case.text)})
        for key, reader in (("ours", ours(name, name)), ("auto", ours("auto", name)), *_named(published)):
            right = [case for case in some if is_right(reader, case, markers)]
            if any(case.expected_tool_calls for case in right):
                found.right[key] = len(right)
        scores[name] = found
    return scores


def _named(published: list[Reader]) -> Iterator[tuple[str, Reader]]:
    for reader in published:
        yield reader.name.partition(" ")[0], reader


def _usable(case: Case) -> bool:
    return (
        case.expected_tool_calls is not None
        and not (case.ends_cut or case.options or case.reasoning_in_text or case.expected_reasoning)
        and case.expected_stop is None
        and (case.args_check, case.content_check) == ("exact", "exact")
        and all(call.get("name") and call.get("arguments") is not None for call in case.expected_tool_calls)
    )


def is_right(reader: Reader, case: Case, markers: tuple[str, ...]) -> bool:
    """Whether `reader` gives what the case expects. A parser that raises has not."""
    expected = case.expected_tool_calls or []
    try:
        answer = reader.merge(reader.begin(material.cut(case.text, 4, markers), _tools(case))())
        calls = [(name, json.loads(text or "{}")) for name, text in answer.calls]
    except Exception:  # noqa: BLE001 - other people's code, and arguments that are no JSON
        return False
    wanted = [(call["name"], call["arguments"]) for call in expected]
    return calls == wanted


def _tools(case: Case) -> Tools:
    if case.tools is not None:
        return [tool if "function" in tool else {"type": "function", "function": tool} for tool in case.tools]
    tools = {}
    for call in case.expected_tool_calls or ():
        properties = {key: _schema(value) for key, value in call["arguments"].items()}
        parameters = {"type": "object", "properties": properties}
        tools[call["name"]] = {"type": "function", "function": {"name": call["name"], "parameters": parameters}}
    return list(tools.values())


def _schema(value: Any) -> dict[str, Any]:
    match value:
        case bool():
            return {"type": "boolean"}
        case int():
            return {"type": "integer"}
        case float():
            return {"type": "number"}
        case str():
            return {"type": "string"}
        case list():
            return {"type": "array"}
        case dict():
            return {"type": "object"}
        case _:
            return {}
