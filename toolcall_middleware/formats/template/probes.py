"""The conversations for which a template is rendered. Each differs from another in one thing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ...model import Tool, ToolCall

# Words that no template holds. Each begins with another letter, so that two texts differ from its start on.
SYSTEM = "Wqsystem zone"
USER = "Vquser asks"
CONTENT = "Rqcontent said"
THOUGHT = "Tqthought had"
THOUGHT_FIELDS = ("reasoning_content", "reasoning", "thinking")
RESULT = "Kqresult one"
NAMES = ("zqlookup", "xqclock")
KEYS = ("gqcity", "hqdays")
VALUES = ("Mqparis", "Nqlate")
IDS = ("Qa1b2c3d4", "Pz9y8x7w6")  # nine letters and digits, as Mistral's templates demand

_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        KEYS[0]: {"type": "string", "description": "Yqfirst part"},
        KEYS[1]: {"type": "string", "description": "Yqsecond part"},
    },
    "required": [KEYS[0]],
}
TOOLS = tuple(Tool(name, f"Uq{name} helps", _SCHEMA) for name in NAMES)
SAMPLE = {KEYS[0]: VALUES[0], KEYS[1]: VALUES[1]}
OTHER = {KEYS[0]: "Lqother", KEYS[1]: "Dqnever"}

# Arguments that must be read back, and ones that may be lost where the template's text is ambiguous (Python's `None`,
# a string's own line breaks). Key, value.
PLAIN: tuple[dict[str, Any], ...] = (
    {"city": "Paris"},
    {"city": "Paris", "unit": "metric"},
    {"days": 7},
    {"tags": ["a", "b c"]},
    {"place": {"lat": 1, "names": ["x", "y"]}},
)
UNLIKELY: tuple[dict[str, Any], ...] = (
    {},
    {"flag": True, "other": False},
    {"ratio": -2.5},
    {"nothing": None},
    {"text": 'says "hi", it\'s \\ done'},
    {"text": "one\ntwo\n\nthree"},
    {"text": "<b>bold</b> & </b> {x} [y] 日本 🙂"},
    {"text": '{"name": "f"}'},
    {"text": "12"},
    {"text": ""},
    {"text": "  spaced  "},
    {"deep": {"a": [{"b": None, "c": [True, 1.5]}], "d e": {}}},
)


@dataclass(frozen=True, slots=True)
class Dialect:
    """How a template wants messages. Engines differ, so templates do."""

    as_text: bool = False
    """A call's arguments are a JSON text, as in OpenAI's API, not an object."""
    no_content: bool = False
    """A message with calls has null for its content, not an empty text."""
    named_ids: bool = False
    """It writes the ids of calls and not their names, which are in the ids (Kimi K2: `functions.f:0`)."""

    def calls(self, calls: Sequence[tuple[str, Mapping[str, Any]]], **more: Any) -> dict[str, Any]:
        """An assistant's message with calls, two at most."""
        entries = [
            {"id": self._id(name, number), "type": "function", "function": {"name": name, "arguments": arguments}}
            for number, (name, arguments) in enumerate((name, self._arguments(value)) for name, value in calls)
        ]
        return {"role": "assistant", "content": None if self.no_content else "", "tool_calls": entries, **more}

    def result(self) -> dict[str, Any]:
        """The result of the first call."""
        name = NAMES[0]
        return {"role": "tool", "tool_call_id": self._id(name, 0), "name": name, "content": RESULT}

    def _arguments(self, arguments: Mapping[str, Any]) -> Any:
        return written(arguments) if self.as_text else dict(arguments)

    def _id(self, name: str, number: int) -> str:
        return named_id(name, number) if self.named_ids else IDS[number]


DIALECTS = (
    Dialect(),
    Dialect(no_content=True),
    Dialect(as_text=True),
    Dialect(as_text=True, no_content=True),
    Dialect(named_ids=True),
)


def named_id(name: str, number: int) -> str:
    """A call's id as Kimi K2 reads it."""
    return f"functions.{name}:{number}"


def written(arguments: Mapping[str, Any]) -> str:
    """The arguments as templates write JSON."""
    return json.dumps(arguments, ensure_ascii=False)


def as_call(name: str, arguments: Mapping[str, Any]) -> ToolCall:
    """The call whose rendering a reader must give back."""
    return ToolCall(name, written(arguments))


def said(content: str, role: str = "user") -> dict[str, Any]:
    """A message."""
    return {"role": role, "content": content}


def context(
    messages: Sequence[Mapping[str, Any]], *, tools: Sequence[Tool] = TOOLS, answer: bool = False
) -> dict[str, Any]:
    """What a template is rendered with. answer: it ends where the assistant begins to write."""
    return {
        "messages": list(messages),
        "tools": [definition(tool) for tool in tools] or None,
        "documents": None,
        "add_generation_prompt": answer,
    }


def definition(tool: Tool) -> dict[str, Any]:
    """A tool as OpenAI's API has it."""
    function = {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
    return {"type": "function", "function": function}


FRONTS = [
    context(messages, tools=tools, answer=True)
    for messages in ([said(SYSTEM, "system"), said(USER)], [said(USER)])
    for tools in (TOOLS, ())
]
"""What precedes an answer: with and without a system message, with and without tools."""
