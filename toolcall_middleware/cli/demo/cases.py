"""What a client asks in the demo, the words of the scripted model, and the checks of the answers.

Of the real model the form of its answers is checked, never the wits of 135 million parameters.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..faces.answers import Received
from ..faces.requests import tool
from .local import MODEL


def _tool(name: str, description: str, **properties: str) -> dict[str, Any]:
    """A tool whose properties are strings, each with this description."""
    given = {one: {"type": "string", "description": text} for one, text in properties.items()}
    return tool(name, description, [*given], **given)


WEATHER = _tool("get_weather", "The current weather in a city.", city="The city's name")
CLOCK = _tool("get_time", "The current local time in a city.", city="The city's name")
NOTE = _tool("write_note", "Writes a note to a file.", path="Where to", text="The note")
TOOLS = (WEATHER, CLOCK, NOTE)

_ASK = ({"role": "user", "content": "What is the weather in Paris?"},)
_RESULT = "18 degrees, light rain until noon"


@dataclass(frozen=True, slots=True)
class Case:
    """One exchange. `texts` are what the scripted model writes, one for each time that it is asked.

    calls, content: what the client has to get; calls are (name, decoded arguments) each, None means any valid call (of
    `name`, where given). shown: words that the model must have been shown. api: the API that the client speaks;
    `messages`, `tools` and `options` are a chat completion's, and asked in its words.
    """

    title: str
    format: str = "auto"
    texts: tuple[str, ...] = ()
    calls: Sequence[tuple[str, Any]] | None = ()
    content: str | None = None
    name: str | None = None
    messages: Sequence[dict[str, Any]] = _ASK
    tools: Sequence[dict[str, Any]] = TOOLS
    options: Mapping[str, Any] = field(default_factory=dict)
    shown: str = "get_weather"
    api: str = "chat"

    @property
    def body(self) -> dict[str, Any]:
        """The request as a chat completion."""
        return {"model": "scripted", "messages": list(self.messages), "tools": list(self.tools), **self.options}

    def rows(self, alone: str) -> list[tuple[str, str]]:
        """What the page says of the request. alone: what the backend answers to it without the middleware."""
        functions = [tool["function"] for tool in self.tools]
        offered = [f"{one['name']}({', '.join(one['parameters']['properties'])})" for one in functions]
        asked = str(self.messages[-1]["content"])
        return [("the user asks", asked), ("the tools", ", ".join(offered)), ("the backend alone", alone)]


def _means(title: str, fmt: str, *texts: str, **more: Any) -> Case:
    """An answer of the scripted model."""
    return Case(title, fmt, texts, **more)


def _stays(title: str, fmt: str, text: str, **more: Any) -> Case:
    """An answer that is text and no call."""
    return _means(title, fmt, text, content=text, **more)


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
    _means("A call", "json", _block(_PARIS), calls=[_PARIS]),
    _stays("Its result, and the final answer", "json", _ANSWER, messages=_AFTER_RESULT, shown=_RESULT),
    _means("Prose and a call", "json", _PROSE + _block(_PARIS), calls=[_PARIS], content=_PROSE),
    _means("Two calls at once", "json", _block(_PARIS, _TOKYO), calls=[_PARIS, _TOKYO]),
    _means("Broken JSON: trailing commas, no fence", "json", _TRAILING_COMMA, calls=[_PARIS]),
    _means("Broken JSON: single quotes", "json", _SINGLE_QUOTES, calls=[_PARIS]),
    _means("Broken JSON: the last braces and the fence are missing", "json", _MISSING_BRACES, calls=[_PARIS]),
    _stays("An example in a code fence is not a call", "json", _JSON_EXAMPLE),
    _stays("A call of a tool that is not offered stays text", "json", _STRANGER),
    _means("tool_choice required: the model talks, is asked again, and calls", "json",
           "It is probably sunny.", _block(_PARIS), calls=[_PARIS], options={"tool_choice": "required"}),
    _means("hermes: two calls, the last tag is missing", "hermes", _TWO_TAGS, calls=[_PARIS, _TOKYO]),
    _means("hermes: markup inside an argument is data", "hermes", _tag(*_NOTE), calls=[_NOTE]),
    _stays("hermes: an example in a code fence is not a call", "hermes", _HERMES_EXAMPLE),
    *(
        case
        for api, name in _APIS.items()
        for case in (
            _means(f"{name}: prose and a call", "hermes", _PROSE + _tag(*_PARIS), calls=[_PARIS], content=_PROSE,
                   api=api),
            _stays(f"{name}: its result, and the final answer", "hermes", _ANSWER, api=api, messages=_AFTER_RESULT,
                   shown=_RESULT),
        )
    ),
)  # fmt: skip


# The conversation with the real model.

_TWO = (WEATHER, CLOCK)
_FIXED = {"model": MODEL, "temperature": 0, "seed": 1, "max_tokens": 160, "parallel_tool_calls": False}
_SYSTEM = {"role": "system", "content": "You are a helpful assistant. Answer in one short sentence."}
_MADRID = [_SYSTEM, {"role": "user", "content": "How is the weather in Madrid?"}]
_TIME = [_SYSTEM, {"role": "user", "content": "What time is it in Tokyo?"}]
_NAMED = {"type": "function", "function": {"name": "get_time"}}
_RESULTS = {
    "get_weather": '{"temperature": "18 degrees", "sky": "light rain"}',
    "get_time": '{"time": "09:41"}',
}
_REAL: dict[str, Any] = {"calls": None, "tools": _TWO}
REQUIRED = Case("tool_choice required", messages=_MADRID, options={**_FIXED, "tool_choice": "required"}, **_REAL)
NAMED = Case(
    "tool_choice get_time", name="get_time", messages=_TIME, options={**_FIXED, "tool_choice": _NAMED}, **_REAL
)


def final(answer: Received) -> Case:
    """The results of the calls in an answer to REQUIRED go back."""
    calls = [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in answer.calls
    ]
    history: list[dict[str, Any]] = [*_MADRID, {"role": "assistant", "content": answer.content, "tool_calls": calls}]
    history += [{"role": "tool", "tool_call_id": call.id, "content": _RESULTS.get(call.name)} for call in answer.calls]
    options = {**_FIXED, "tool_choice": "none", "max_tokens": 60}
    return Case("its result goes back, the final answer", messages=history, tools=_TWO, options=options)
