"""The scripted model's words, and what a client must make of them."""

from __future__ import annotations

import json
from typing import Any

from .scripted import Case, Expected


def tool(name: str, description: str, properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    """A tool as an OpenAI client offers it."""
    parameters = {"type": "object", "properties": properties, "required": required, "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


WEATHER = tool(
    "get_weather",
    "The current weather in a city.",
    {"city": {"type": "string", "description": "The city's name"}},
    ["city"],
)
CLOCK = tool("get_time", "The current local time in a city.", {"city": {"type": "string"}}, ["city"])
NOTE = tool(
    "write_note",
    "Writes a note to a file.",
    {"path": {"type": "string"}, "text": {"type": "string"}},
    ["path", "text"],
)
TOOLS = (WEATHER, CLOCK, NOTE)

_PARIS = ("get_weather", {"city": "Paris"})
_TOKYO = ("get_time", {"city": "Tokyo"})
_ASK = ({"role": "user", "content": "What is the weather in Paris?"},)
_RESULT = "18 degrees, light rain until noon"
_AFTER_RESULT = (
    *_ASK,
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {
                "id": "call_a1B2c3D4e5F6g7H8i9J0k1L2",
                "type": "function",
                "function": {"name": "get_weather", "arguments": '{"city": "Paris"}'},
            }
        ],
    },
    {"role": "tool", "tool_call_id": "call_a1B2c3D4e5F6g7H8i9J0k1L2", "content": _RESULT},
)


def _block(*calls: tuple[str, dict[str, Any]]) -> str:
    """Calls in the format `json`, with `arguments` as a JSON string, as OpenAI writes them."""
    entries = [
        {
            "id": f"call_{position}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for position, (name, arguments) in enumerate(calls, 1)
    ]
    return "```json\n" + json.dumps({"tool_calls": entries}, indent=1) + "\n```"


def _tag(name: str, arguments: dict[str, Any]) -> str:
    return "<tool_call>\n" + json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False) + "\n</tool_call>"


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
_NOTE_TEXT = 'Close with </tool_call> or ```; a brace } and a "quote" are only text.\n→ done ✓'
_NOTE = ("write_note", {"path": "notes/markup.md", "text": _NOTE_TEXT})
_ANSWER = "It is 18 °C in Paris, with light rain until noon."


def _case(title: str, fmt: str, text: str | tuple[str, ...], expected: Expected, **more: Any) -> Case:
    texts = (text,) if isinstance(text, str) else text
    return Case(title, fmt, texts, expected, tools=TOOLS, messages=more.pop("messages", _ASK), **more)


CASES: tuple[Case, ...] = (
    _case("A call", "json", _block(_PARIS), Expected((_PARIS,)), prompt_holds=("get_weather",)),
    _case(
        "Its result, and the final answer",
        "json",
        _ANSWER,
        Expected(content=_ANSWER, exact=True, finish_reason="stop"),
        messages=_AFTER_RESULT,
        prompt_holds=(_RESULT,),
    ),
    _case(
        "Prose and a call",
        "json",
        "I'll look that up for you.\n\n" + _block(_PARIS),
        Expected((_PARIS,), content="I'll look that up for you."),
    ),
    _case("Two calls at once", "json", _block(_PARIS, _TOKYO), Expected((_PARIS, _TOKYO))),
    _case("Broken JSON: trailing commas, no fence", "json", _TRAILING_COMMA, Expected((_PARIS,))),
    _case("Broken JSON: single quotes", "json", _SINGLE_QUOTES, Expected((_PARIS,))),
    _case("Broken JSON: the last braces and the fence are missing", "json", _MISSING_BRACES, Expected((_PARIS,))),
    _case(
        "An example in a code fence is not a call",
        "json",
        _JSON_EXAMPLE,
        Expected(content=_JSON_EXAMPLE, exact=True, finish_reason="stop"),
    ),
    _case(
        "A call of a tool that nobody offered stays text",
        "json",
        _STRANGER,
        Expected(content=_STRANGER, exact=True, finish_reason="stop"),
    ),
    _case(
        "tool_choice required: the model talks, is asked again, and calls",
        "json",
        ("It is probably sunny.", _block(_PARIS)),
        Expected((_PARIS,)),
        options={"tool_choice": "required"},
    ),
    _case("hermes: prose and a call", "hermes", "Let me see. " + _tag(*_PARIS),
          Expected((_PARIS,), content="Let me see.")),
    _case(
        "hermes: its result, and the final answer",
        "hermes",
        _ANSWER,
        Expected(content=_ANSWER, exact=True, finish_reason="stop"),
        messages=_AFTER_RESULT,
        prompt_holds=(_RESULT,),
    ),
    _case("hermes: two calls, the last tag is missing", "hermes",
          _tag(*_PARIS) + "\n" + _tag(*_TOKYO).removesuffix("\n</tool_call>"), Expected((_PARIS, _TOKYO))),
    _case("hermes: markup inside an argument is data", "hermes", _tag(*_NOTE), Expected((_NOTE,))),
    _case(
        "hermes: an example in a code fence is not a call",
        "hermes",
        _HERMES_EXAMPLE,
        Expected(content=_HERMES_EXAMPLE, exact=True, finish_reason="stop"),
    ),
    *(
        case
        for api, name in (("messages", "Messages, as Claude Code speaks it"), ("responses", "Responses, as Codex does"))
        for case in (
            _case(f"{name}: prose and a call", "hermes", "Let me see. " + _tag(*_PARIS),
                  Expected((_PARIS,), content="Let me see."), api=api, prompt_holds=("get_weather",)),
            _case(f"{name}: its result, and the final answer", "hermes", _ANSWER,
                  Expected(content=_ANSWER, exact=True, finish_reason="stop"), api=api, messages=_AFTER_RESULT,
                  prompt_holds=(_RESULT,)),
        )
    ),
)  # fmt: skip
