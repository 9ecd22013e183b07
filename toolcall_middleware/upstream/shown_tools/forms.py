"""The forms in which tools are shown within a budget of tokens.

In this order: all of it; schemas without what a prompt does not need; descriptions shortened at the end of a sentence;
the last tools by name and one line each, in the description of `find_tools`. The form depends on the tools and the
budget alone, so that the front of the prompt keeps its bytes from turn to turn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ...json_schema.compact import shortest_schema
from ...json_schema.walk import changed
from ...lru_cache import LRUCache
from ...model import Tool

FIND_TOOLS = "find_tools"
LIMITS = (600, 300, 150, 80)
"""Characters of a description, in the order in which they are tried."""
_LONGEST_LINE = 80  # characters of a deferred tool's description
_SENTENCE_END = re.compile(r"[.!?。！？](?=\s|$)|\n")
_SEARCH = (
    "Get the definitions of more tools. Call this before one of the tools below, with what you want to do or with the "
    "tool's name. The tools:\n"
)
_QUERY = {
    "type": "object",
    "properties": {"query": {"type": "string", "description": "What the tool is to do, or its name."}},
    "required": ["query"],
}
Measure = Callable[[Sequence[Tool]], int]
"""How many tokens tools take in the prompt."""


@dataclass(frozen=True, slots=True)
class ShownTools:
    """What the model is shown of a request's tools."""

    front: tuple[Tool, ...]
    """The tools in the front of the prompt, in the form in which they are shown."""
    form: str = "full"
    """`full`, `compact`, `short` or `deferred`."""
    deferred: Mapping[str, Tool] = field(default_factory=dict)
    """The tools that `find_tools` finds, by name, with descriptions of the first of `LIMITS`."""


def compact(tools: Iterable[Tool]) -> list[Tool]:
    """The tools with schemas that hold what a prompt needs."""
    return [replace(tool, parameters=shortest_schema(tool.parameters)) for tool in tools]


def shortened(tools: Iterable[Tool], limit: int) -> list[Tool]:
    """The same with descriptions of at most `limit` characters, of parameters too."""

    def shorter(node: dict[str, Any]) -> dict[str, Any]:
        text = node.get("description")
        return {**node, "description": first_sentences(text, limit)} if isinstance(text, str) else dict(node)

    return [
        replace(
            tool, description=first_sentences(tool.description, limit), parameters=changed(tool.parameters, shorter)
        )
        for tool in compact(tools)
    ]


def first_sentences(text: str, limit: int) -> str:
    """The first sentences of `text`, at most `limit` characters; where the first is longer, its first words."""
    if len(text) <= limit:
        return text
    ends = [match.end() for match in _SENTENCE_END.finditer(text, 0, limit)]
    if ends and (kept := text[: ends[-1]].rstrip()):
        return kept
    return f"{text[: limit - 1].rpartition(' ')[0] or text[: limit - 1]}…"


def shown_tools(
    tools: Sequence[Tool], budget: int, measure: Measure, in_full: Measure, key: Any, *, may_defer: bool
) -> ShownTools:
    """What is shown of `tools` within `budget` tokens. in_full: measures those that are shown in full. key: tells the
    tools and the measures from others.
    """
    key = key, budget, may_defer
    shown = _SHOWN.get(key)
    if shown is None:
        fits = in_full([tool for tool in tools if not tool.loaded]) <= budget
        shown = ShownTools(tuple(tools)) if fits else _within(tools, budget, measure, may_defer=may_defer)
        _SHOWN.put(key, shown, size=len(tools))
    return shown


_SHOWN: LRUCache[Any, ShownTools] = LRUCache(max_entries=64, max_size=1 << 13)
"""By the tools they are made of; their size is the number of these."""


def _within(tools: Sequence[Tool], budget: int, measure: Measure, *, may_defer: bool) -> ShownTools:
    counted = [tool for tool in tools if not tool.loaded]
    if measure(compact(counted)) <= budget:
        return ShownTools(tuple(compact(tools)), "compact")
    for limit in LIMITS:
        if measure(shortened(counted, limit)) <= budget:
            return ShownTools(tuple(shortened(tools, limit)), "short")
    shortest = shortened(tools, LIMITS[-1])
    if not may_defer:
        return ShownTools(tuple(shortest), "short")
    return _deferring(tools, shortest, budget, measure)


def _deferring(tools: Sequence[Tool], shortest: Sequence[Tool], budget: int, measure: Measure) -> ShownTools:
    """The first tools that fit are shown, the others deferred: agents send their own tools before those of servers."""
    left = budget - measure([find_tools(tools)])
    nothing, no_line = measure([]), measure([find_tools([])])
    front: list[Tool] = []
    deferred: dict[str, Tool] = {}
    for tool, short, longer in zip(tools, shortest, shortened(tools, LIMITS[0]), strict=True):
        line = measure([find_tools([tool])]) - no_line
        cost = measure([short]) - nothing - line
        if tool.loaded or (cost <= left and not deferred):
            front.append(short)
            left -= 0 if tool.loaded else cost
        else:
            deferred[tool.name] = longer
    return ShownTools((*front, find_tools(deferred.values())), "deferred", deferred)


def find_tools(tools: Iterable[Tool]) -> Tool:
    """The function that finds these tools."""
    lines = (f"- {tool.name}: {first_sentences(tool.description, _LONGEST_LINE)}" for tool in tools)
    return Tool(FIND_TOOLS, _SEARCH + "\n".join(line.replace("\n", " ") for line in lines), _QUERY)
