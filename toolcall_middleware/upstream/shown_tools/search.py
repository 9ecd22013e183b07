"""Definitions of deferred tools: which a query finds, which a conversation mentions, and where they follow in it."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from ...formats.prompt.escaping import as_data, describe, dump
from ...model import Tool
from ...request.messages import calls_of

_MOST_FOUND = 5
_LONGEST_QUERY = 400  # characters
_MOST_WORDS = 32
_WORD = re.compile(r"\w+")
_NAME = re.compile(r"[^\s\"'`{}<>(),;]+")
Message = dict[str, Any]


def found(query: str, deferred: Mapping[str, Tool]) -> list[Tool]:
    """The deferred tools that fit a query best: those that it names, else those that share most of its words."""
    query = query[:_LONGEST_QUERY]
    if named := [deferred[name] for name in dict.fromkeys(_NAME.findall(query)) if name in deferred]:
        return named[:_MOST_FOUND]
    spelled = _WORD.findall(query.lower().replace("_", " "))
    words = {word.rstrip("s") or word for word in spelled[:_MOST_WORDS]}
    scores = {name: _score(tool, words) for name, tool in deferred.items()}
    best = sorted((name for name in scores if scores[name]), key=lambda name: -scores[name])
    return [deferred[name] for name in best[:_MOST_FOUND]]


def _score(tool: Tool, words: Collection[str]) -> int:
    """A word in the name counts three times, one in the description or a parameter's name once."""
    name = tool.name.lower()
    properties = tool.parameters.get("properties")
    about = " ".join([tool.description.lower(), *(properties if isinstance(properties, dict) else ())])
    return sum(3 * (word in name) + (word in about) for word in words if len(word) > 1)


def definitions(tools: Iterable[Tool]) -> str:
    """The definitions as text for the conversation, a line of JSON each."""
    return "\n".join(as_data(dump(describe(tool))) for tool in tools)


def mentions(
    messages: Sequence[Message], deferred: Mapping[str, Tool], wanted: Collection[str] = ()
) -> dict[int, list[Tool]]:
    """The deferred tools that the conversation calls or the user names, each once: by the index of the message that
    their definitions precede. It depends on nothing that comes later, so the prompt's beginning keeps its bytes.

    wanted: those that `tool_choice` names; their definitions come last.
    """
    left = dict(deferred)
    places: dict[int, list[Tool]] = {}
    pending: list[Tool] = []
    for at, message in enumerate(messages):
        role = message["role"]
        if pending and role != "tool":
            places[at], pending = pending, []
        names: Iterable[str] = ()
        if role == "assistant":
            names = [call["function"]["name"] for call in calls_of(message)]
        elif role == "user":
            names = _NAME.findall(_text(message.get("content")))
        pending += [tool for name in names if (tool := left.pop(name.rstrip(".:!?"), None)) is not None]
    pending += [left[name] for name in deferred if name in wanted and name in left]
    if pending:
        places[len(messages)] = pending
    return places


def with_definitions(messages: Sequence[dict[str, Any]], places: Mapping[int, Sequence[Tool]]) -> list[dict[str, Any]]:
    """The messages with the definitions at their places, each a message of the user's."""
    out: list[dict[str, Any]] = []
    for at in range(len(messages) + 1):
        if at in places:
            out.append({"role": "user", "content": announced(places[at])})
        out += messages[at : at + 1]
    return out


def announced(tools: Iterable[Tool]) -> str:
    """The definitions, with a word of what they are."""
    return f"These tools can be called too:\n{definitions(tools)}"


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "\n".join(str(part.get("text") or "") for part in content if isinstance(part, dict))
    return content if isinstance(content, str) else ""
