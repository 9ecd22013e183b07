"""The wordings that are compared: a block that presents the tools, and a sentence that asks for a call."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from toolcall_middleware.formats.prompt.tools_typescript import declared
from toolcall_middleware.model import Tool

Function = Mapping[str, Any]
Show = Callable[[Sequence[Function]], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Wording:
    """How tools are put into words."""

    name: str
    tools: Show
    """Lists the tools."""
    listed: str
    """What each entry of the list consists of."""
    example: Show
    """Shows a call."""
    sentence: str
    """Asks for a call where one must come."""
    before: bool = True
    """The sentence precedes the user's text."""

    def messages(self, functions: Sequence[Function], question: str, *, required: bool) -> list[dict[str, str]]:
        """What the model is sent."""
        parts = [question]
        if required:
            parts.insert(0 if self.before else 1, self.sentence)
        return [
            {"role": "system", "content": self.block(functions)},
            {"role": "user", "content": "\n\n".join(parts)},
        ]

    def block(self, functions: Sequence[Function]) -> str:
        """The text that precedes the conversation."""
        return (
            f"# Tools\n\nYou can call the tools below. {self.listed}\n\n{self.tools(functions)}\n\n"
            "To call a tool, answer with a JSON code block in exactly this form (this example shows the form only; "
            f"take the real values from the conversation):\n\n{self.example(functions)}\n\n"
            'To call several tools at once, put several entries into the "tool_calls" list of one block. '
            "The result comes in the next message, between <tool_result> and </tool_result>. Never write a result "
            "yourself.\nWhen no tool fits, or when you already know the answer, answer in plain text without a "
            '"tool_calls" block.'
        )


def _fenced(call: Mapping[str, Any]) -> str:
    return f'```json\n{{"tool_calls": [{json.dumps(call)}]}}\n```'


def _schema(function: Function) -> str:
    return json.dumps(function, separators=(",", ":"))


def _type(schema: Any) -> str:
    match schema:
        case {"enum": list(values)}:
            return " | ".join(map(json.dumps, values))
        case {"type": "array"}:
            return f"{_type(schema.get('items'))}[]"
        case {"type": str(kind)}:
            return kind
    return "any"


def _properties(function: Function) -> Mapping[str, Any]:
    found: Mapping[str, Any] = (function.get("parameters") or {}).get("properties") or {}
    return found


def _signature(function: Function) -> str:
    required = (function.get("parameters") or {}).get("required") or ()
    shown = (f"{key}{'' if key in required else '?'}: {_type(part)}" for key, part in _properties(function).items())
    return f"{function['name']}({', '.join(shown)}): {function.get('description', '')}"


def _declared(function: Function) -> str:
    """TypeScript, with descriptions as comments."""
    return declared(Tool(function["name"], function.get("description", ""), function.get("parameters") or {}))


def _commented(function: Function) -> str:
    """A signature, and a line for each described argument."""
    lines = [
        f"    {key}: {part['description']}"
        for key, part in _properties(function).items()
        if isinstance(part, Mapping) and part.get("description")
    ]
    return "\n".join([_signature(function), *lines])


def _value(key: str, schema: Any) -> Any:
    match schema:
        case {"enum": [first, *_]}:
            return first
        case {"type": "integer" | "number"}:
            return 1
        case {"type": "boolean"}:
            return True
        case {"type": "array"}:
            return []
        case {"type": "object"}:
            return {}
    return "Paris" if key == "city" else "hello"


def _call(function: Function) -> dict[str, Any]:
    required = (function.get("parameters") or {}).get("required") or ()
    return {
        "name": function["name"],
        "arguments": {key: _value(key, part) for key, part in _properties(function).items() if key in required},
    }


def _each(*shown: Callable[[Function], str]) -> Show:
    return lambda functions: "\n".join(one(function) for function in functions for one in shown)


def _sample(function: Function) -> str:
    return f"Example: {json.dumps(_call(function))}"


def _form(function: Function) -> str:
    """The form of a call, with the arguments' names for values."""
    call = _call(function)
    return json.dumps({**call, "arguments": {key: f"<{key}>" for key in call["arguments"]}})


def _headed(function: Function) -> str:
    return f"## {function['name']}\n{_commented(function)}\n{_form(function)}"


def _first_call(functions: Sequence[Function]) -> str:
    return _fenced(_call(functions[0]))


def _placeholders(_functions: Sequence[Function]) -> str:
    return _fenced({"name": "TOOL_NAME", "arguments": {"ARGUMENT": "VALUE"}})


_SCHEMAS = "Each line is one tool: its name, what it does, and the JSON Schema of its arguments."
_SIGNED = "Each line is one tool: its name, its arguments with their types, and what it does."
_SAMPLED = "Each tool has its name, its arguments with their types, what it does, and a sample call."
_TYPED = "Each tool is a TypeScript type: its name, its arguments, and comments that say what they mean."
_NOW = 'Now call at least one tool: answer with only the JSON code block that holds "tool_calls".'
_ONLY = '(Answer with only the JSON code block that holds "tool_calls", and call the one tool that fits.)'
_BLOCK = '(Call the one tool that fits, with a "tool_calls" block.)'
_SHORT = "(Call the one tool that fits.)"

WORDINGS = (
    # 0.3
    Wording(name="first tool", tools=_each(_schema), listed=_SCHEMAS, example=_first_call, sentence=_NOW, before=False),
    Wording(
        name="placeholders", tools=_each(_schema), listed=_SCHEMAS, example=_placeholders, sentence=_NOW, before=False
    ),
    Wording(name="only, before", tools=_each(_schema), listed=_SCHEMAS, example=_placeholders, sentence=_ONLY),
    Wording(name="short, before", tools=_each(_schema), listed=_SCHEMAS, example=_placeholders, sentence=_SHORT),
    Wording(name="block, before", tools=_each(_schema), listed=_SCHEMAS, example=_placeholders, sentence=_BLOCK),
    Wording(name="signatures", tools=_each(_signature), listed=_SIGNED, example=_placeholders, sentence=_BLOCK),
    Wording(
        name="signatures, calls",
        tools=_each(_signature, _sample),
        listed=_SAMPLED,
        example=_placeholders,
        sentence=_BLOCK,
    ),
    Wording(
        name="schemas, calls", tools=_each(_schema, _sample), listed=_SAMPLED, example=_placeholders, sentence=_BLOCK
    ),
    Wording(name="types", tools=_each(_declared), listed=_TYPED, example=_placeholders, sentence=_BLOCK),
    Wording(
        name="types, calls", tools=_each(_declared, _sample), listed=_TYPED, example=_placeholders, sentence=_BLOCK
    ),
    Wording(name="comments", tools=_each(_commented), listed=_SIGNED, example=_placeholders, sentence=_BLOCK),
    # what the product writes
    Wording(
        name="headings, comments, forms",
        tools=lambda functions: "\n\n".join(map(_headed, functions)),
        listed=_SAMPLED,
        example=_placeholders,
        sentence=_BLOCK,
    ),
    Wording(
        name="comments, forms",
        tools=_each(_commented, _form),
        listed=_SAMPLED,
        example=_placeholders,
        sentence=_BLOCK,
    ),
    Wording(
        name="comments, calls, short",
        tools=_each(_commented, _sample),
        listed=_SAMPLED,
        example=_placeholders,
        sentence=_SHORT,
    ),
    Wording(
        name="comments, calls, last",
        tools=_each(_commented, _sample),
        listed=_SAMPLED,
        example=_placeholders,
        sentence=_BLOCK,
        before=False,
    ),
    Wording(
        name="comments, calls",
        tools=_each(_commented, _sample),
        listed=_SAMPLED,
        example=_placeholders,
        sentence=_BLOCK,
    ),
)
