"""One text and one schema: the value has the same type in every notation."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.parsing.streams import calls_in, read
from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolSet
from toolcall_middleware.parsing.values.typing import Coercion

INTEGER = {"type": "integer"}
OR_NULL = {"type": ["integer", "null"]}
MODE = {"enum": ["edit", "create"]}
M3 = "]<]minimax[>["

CALLS = {
    "hermes": lambda text: f'<tool_call>\n{{"name": "f", "arguments": {{"x": {json.dumps(text)}}}}}\n</tool_call>',
    "qwen3_coder": lambda text: (
        f"<tool_call>\n<function=f>\n<parameter=x>\n{text}\n</parameter>\n</function>\n</tool_call>"
    ),
    "pythonic": lambda text: f"[f(x={json.dumps(text)})]",
    "gemma4": lambda text: f'<|tool_call>call:f{{x:<|"|>{text}<|"|>}}<tool_call|>',
    "minimax_m3": lambda text: (
        f'{M3}<tool_call>\n{M3}<invoke name="f">{M3}<x>{text}{M3}</x>{M3}</invoke>\n{M3}</tool_call>'
    ),
}

VALUES: list[tuple[str, dict[str, Any], Any]] = [
    ("none", OR_NULL, None),
    ("nil", OR_NULL, None),
    ("NULL", OR_NULL, None),
    ("", OR_NULL, None),
    ("", INTEGER, ""),
    ("+5", INTEGER, 5),
    ("007", INTEGER, 7),
    ("1_000", INTEGER, 1000),
    ("0x10", INTEGER, 16),
    ("2.0", INTEGER, 2.0),
    ("5 ", INTEGER, 5),
    (".5", {"type": "number"}, 0.5),
    ("yes", {"type": "boolean"}, "yes"),
    ("TRUE", {"type": "boolean"}, True),
    ("{'a': 1}", {"type": "object"}, {"a": 1}),
    ("{a: 1}", {"type": "object"}, {"a": 1}),
    ("{'a': True, }", {"type": "object"}, {"a": True}),
    ("{name} is late", {"type": "object"}, "{name} is late"),
    ("[1,2,]", {"type": "array"}, [1, 2]),
    ("[urgent] fix the login", {"type": "array"}, "[urgent] fix the login"),
    ("[see the list]", {"type": "array"}, "[see the list]"),
    ('"edit"', MODE, "edit"),
    ('"other"', MODE, '"other"'),
    ('"edit"', {"type": "string"}, '"edit"'),
    ("007", {"type": "string"}, "007"),
]


@pytest.mark.parametrize("name", CALLS)
@pytest.mark.parametrize(("text", "schema", "value"), VALUES)
def test_a_text_has_one_reading(name: str, text: str, schema: dict[str, Any], value: Any) -> None:
    parameters = {"type": "object", "properties": {"x": schema}}
    reader = registry.get(name).parser(ToolSet.of([Tool("f", parameters=parameters)]), ParserOptions())
    [call] = calls_in(read(reader, [CALLS[name](text)]))
    coercion = Coercion(parameters)
    found = json.loads(coercion.feed(call.arguments) + coercion.finish())["x"]
    assert (found, type(found)) == (value, type(value))
