"""The scripted model's words, and what a client must make of them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


def tool(name: str, description: str, **properties: str) -> dict[str, Any]:
    """A tool as an OpenAI client offers it; each of its properties is a string with this description."""
    parameters = {
        "type": "object",
        "properties": {one: {"type": "string", "description": text} for one, text in properties.items()},
        "required": list(properties),
        "additionalProperties": False,
    }
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


WEATHER = tool("get_weather", "The current weather in a city.", city="The city's name")
CLOCK = tool("get_time", "The current local time in a city.", city="The city's name")
NOTE = tool("write_note", "Writes a note to a file.", path="Where to", text="The note")
TOOLS = (WEATHER, CLOCK, NOTE)

_ASK = ({"role": "user", "content": "What is the weather in Paris?"},)
_RESULT = "18 degrees, light rain until noon"


@dataclass(frozen=True, slots=True)
class Case:
    """One exchange. `texts` are what the model writes, one for each time that it is asked.

    calls, content: what the client has to get; without calls the model's text, to the byte. shown: words that the model
    must have been shown. api: the API that the client speaks; `messages` and `options` are a chat completion's, and
    asked in its words.
    """

    title: str
    format: str
    texts: tuple[str, ...]
    calls: tuple[tuple[str, dict[str, Any]], ...] = ()
    content: str | None = None
    messages: tuple[dict[str, Any], ...] = _ASK
    options: Mapping[str, Any] = field(default_factory=dict)
    shown: str = "get_weather"
    api: str = "chat"


_PARIS = ("get_weather", {"city": "Paris"})
_TOKYO = ("get_time", {"city": "Tokyo"})
_CALL = {"name": "get_weather", "arguments": '{"city": "Paris"}'}
_AFTER_RESULT = (
    *_ASK,
    {"role": "assistant", "content": None, "tool_calls": [{"id": "call_a1B2", "type": "function", "function": _CALL}]},
    {"role": "tool", "tool_call_id": "call_a1B2", "content": _RESULT},
)


def _block(*calls: tuple[str, dict[str, Any]]) -> str:
    """Calls in the format `json`, with `arguments` as a JSON string, as OpenAI writes them."""
    entries = [
        {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        for number, (name, arguments) in enumerate(calls, 1)
    ]
    return "```json\n" + json.dumps({"tool_calls": entries}, indent=1) + "\n```"


def _tag(name: str, arguments: dict[str, Any]) -> str:
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False) + "\n</tool_call>"


def _stays(title: str, fmt: str, text: str, **more: Any) -> Case:
    """An answer that is text and no call."""
    return Case(title, fmt, (text,), content=text, **more)


_APIS = {
    "chat": "hermes",
    "messages": "Messages, as Claude Code speaks it",
    "responses": "Responses, as Codex does",
}
_PROSE = "I'll look that up.\n\n"
_TRAILING_COMMA = '{"tool_calls": [{"name": "get_weather", "arguments": {"city": "Paris",},},]}'
_SINGLE_QUOTES = "```json\n{'tool_calls': [{'name': 'get_weather', 'arguments': {'city': 'Paris'}}]}\n```"
_MISSING_BRACES = '```json\n{"tool_calls": [{"name": "get_weather", "arguments": {"city": "Paris"'
_JSON_EXAMPLE = (
    "Your own program could ask for it like this:\n\n"
    '```python\nprint(\'{"tool_calls": [{"name": "get_weather", "arguments": {"city": "Paris"}}]}\')\n```\n\n'
    "Shall I do it for you?"
)
_HERMES_EXAMPLE = (
    "In this syntax a call looks like this:\n\n"
    '```xml\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>\n```\n\n'
    "Shall I make it?"
)
_STRANGER = '```json\n{"tool_calls": [{"name": "delete_everything", "arguments": {"sure": true}}]}\n```'
_NOTE = (
    "write_note",
    {"path": "notes/markup.md", "text": 'Close with </tool_call> or ```; a brace } and a "quote".\n→ done ✓'},
)
_ANSWER = "It is 18 °C in Paris, with light rain until noon."
_TWO_TAGS = _tag(*_PARIS) + "\n" + _tag(*_TOKYO).removesuffix("\n</tool_call>")

CASES: tuple[Case, ...] = (
    Case("A call", "json", (_block(_PARIS),), (_PARIS,)),
    _stays("Its result, and the final answer", "json", _ANSWER, messages=_AFTER_RESULT, shown=_RESULT),
    Case("Prose and a call", "json", (_PROSE + _block(_PARIS),), (_PARIS,), _PROSE),
    Case("Two calls at once", "json", (_block(_PARIS, _TOKYO),), (_PARIS, _TOKYO)),
    Case("Broken JSON: trailing commas, no fence", "json", (_TRAILING_COMMA,), (_PARIS,)),
    Case("Broken JSON: single quotes", "json", (_SINGLE_QUOTES,), (_PARIS,)),
    Case("Broken JSON: the last braces and the fence are missing", "json", (_MISSING_BRACES,), (_PARIS,)),
    _stays("An example in a code fence is not a call", "json", _JSON_EXAMPLE),
    _stays("A call of a tool that is not offered stays text", "json", _STRANGER),
    Case("tool_choice required: the model talks, is asked again, and calls", "json",
         ("It is probably sunny.", _block(_PARIS)), (_PARIS,), options={"tool_choice": "required"}),
    Case("hermes: two calls, the last tag is missing", "hermes", (_TWO_TAGS,), (_PARIS, _TOKYO)),
    Case("hermes: markup inside an argument is data", "hermes", (_tag(*_NOTE),), (_NOTE,)),
    _stays("hermes: an example in a code fence is not a call", "hermes", _HERMES_EXAMPLE),
    *(
        case
        for api, name in _APIS.items()
        for case in (
            Case(f"{name}: prose and a call", "hermes", (_PROSE + _tag(*_PARIS),), (_PARIS,), _PROSE, api=api),
            _stays(f"{name}: its result, and the final answer", "hermes", _ANSWER, api=api, messages=_AFTER_RESULT,
                   shown=_RESULT),
        )
    ),
)  # fmt: skip
