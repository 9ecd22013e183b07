"""What random exchanges have found, each as the text that showed it."""

from __future__ import annotations

import pytest

from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolSet
from toolcall_middleware.parsing.events import CallArgs, CallStart, Event, Text

TOOLS = ToolSet.of([Tool("f")])


def test_half_a_surrogate_pair_in_markup_is_text() -> None:
    parser = registry.get("auto").parser(TOOLS, ParserOptions())
    text = '```json\n{"tool_cal\ud800ls": [{"name": "f", "arguments": {}}]}\n```'
    events = [*parser.feed(text), *parser.finish()]
    assert "".join(event.text for event in events if isinstance(event, Text)) == text


def test_half_a_surrogate_pair_in_a_name_is_no_error() -> None:
    parser = registry.get("hermes").parser(TOOLS, ParserOptions())
    text = '<tool_call>{"na\ud800me": "f", "name": "f", "arguments": "{\\"x\\": \\"\ud800\\"}"}</tool_call>'
    events = [*parser.feed(text), *parser.finish()]
    assert [event.name for event in events if isinstance(event, CallStart)] == ["f"]


@pytest.mark.parametrize(
    "text", ['<|tools_prefix|>[{"": {"x": 1}}]<|tools_suffix|>', '<tool_call>{"name": ""}</tool_call>']
)
def test_a_call_without_a_name_is_not_forwarded(text: str) -> None:
    parser = registry.get("auto").parser(TOOLS, ParserOptions(unknown_tool="forward"))
    events = [*parser.feed(text), *parser.finish()]
    assert not [event for event in events if isinstance(event, CallStart)]
    assert "".join(event.text for event in events if isinstance(event, Text)) == text


@pytest.mark.parametrize(
    "text",
    [
        # A key that does not end is given up after so many characters, and what is behind them is text again.
        '<tool_calls>[{"name": "f"\'' + "a key <b> " * 100 + "]</tool_calls>",
        '<minimax:tool_call><invokename="f"><parametername="x">1</parameter></invoke></minimax:tool_call>',
    ],
)
def test_it_is_read_the_same_in_one_piece(text: str) -> None:
    for fmt in ("auto", "jamba", "minimax_m2"):
        parser = registry.get(fmt).parser(TOOLS, ParserOptions())
        whole = [*parser.feed(text), *parser.finish()]
        parser = registry.get(fmt).parser(TOOLS, ParserOptions())
        cut = [event for char in text for event in parser.feed(char)] + parser.finish()
        assert said(cut) == said(whole)


def said(events: list[Event]) -> tuple[str, str, int]:
    text = "".join(event.text for event in events if isinstance(event, Text))
    arguments = "".join(event.text for event in events if isinstance(event, CallArgs))
    return text, arguments, sum(isinstance(event, CallStart) for event in events)
