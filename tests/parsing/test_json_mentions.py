"""Calls in JSON after a marker: what must follow the marker, and the name, for it to be a call."""

from __future__ import annotations

from typing import Any

import pytest

from toolcall_middleware import read_calls
from toolcall_middleware.formats import markup, registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.formats.family import Family
from toolcall_middleware.formats.syntax.json import Json
from toolcall_middleware.model import Tool, ToolSet
from toolcall_middleware.parsing.events import CallArgs

TOOLS: list[dict[str, Any]] = [
    {"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {"command": {}}}}}
]
MARKERS = {
    family.name: family.calls.marker + ("[" if family.calls.marker.isalpha() else "")
    for family in markup.families()
    if isinstance(family, Family) and isinstance(family.calls, Json) and family.calls.marker
    if family.name != "json"  # its marker is the beginning of its JSON, which prose does not mention
}
ARGUMENTS = '{"command": "ls"}'


@pytest.mark.parametrize("family", MARKERS)
@pytest.mark.parametrize(
    "words",
    [
        " first, then JSON.",
        "\n\nis the marker.",
        '{"name": ...} and so on',
        '{"name": "bash", then the arguments follow.',
        '{"name": "bash"} is what it needs',
        '{"name": "bash", "arguments": ...} to call it.',
        '{"command": "ls"} is no call',
    ],
)
def test_a_mention_is_text(family: str, words: str) -> None:
    text = f"The parser wants {MARKERS[family]}{words}"
    for name in (family, "auto"):
        for pieces in (text, list(text)):
            answer = read_calls(pieces, TOOLS, format=name)
            assert (answer.text, answer.calls) == (text, [])


@pytest.mark.parametrize("family", MARKERS)
@pytest.mark.parametrize("after", ["", "\n", "\nDone.", " "])
def test_a_name_without_arguments_is_a_call_where_no_prose_follows_on_its_line(family: str, after: str) -> None:
    text = f'{MARKERS[family]}{{"name": "bash"}}{after}'
    for pieces in (text, list(text)):
        answer = read_calls(pieces, TOOLS, format=family)
        assert [(call.name, call.arguments) for call in answer.calls] == [("bash", "{}")]
        assert answer.text.strip() == after.strip()


def test_a_call_that_breaks_before_its_arguments_is_a_call_where_its_closing_marker_follows() -> None:
    text = '<tool_call>\n{"name": "bash", "arguments" {{\n</tool_call>'
    for pieces in (text, list(text)):
        answer = read_calls(pieces, TOOLS, format="hermes")
        assert [call.name for call in answer.calls] == ["bash"]
        assert answer.text == ""


@pytest.mark.parametrize("family", ["auto", "json", "hermes", "qwen3_coder", "llama3_json", "gemma4", "glm45"])
def test_a_call_as_agents_show_it_is_read(family: str) -> None:
    text = f"Well. [Calling tool: bash({ARGUMENTS})]"
    for pieces in (text, list(text)):
        answer = read_calls(pieces, TOOLS, format=family)
        assert [(call.name, call.arguments) for call in answer.calls] == [("bash", ARGUMENTS)]
        assert answer.text.strip() == "Well."


@pytest.mark.parametrize("shown", ["bash", "bash]", "nope({})]", "bash(ls)]", 'bash "x"]'])
def test_what_only_looks_like_it_is_text(shown: str) -> None:
    text = f"So [Calling tool: {shown} it says."
    for pieces in (text, list(text)):
        answer = read_calls(pieces, TOOLS, format="auto")
        assert (answer.text, answer.calls) == (text, [])


def test_a_member_that_is_too_long_to_be_held_is_no_argument() -> None:
    """Its end alone would be no JSON."""
    tools = ToolSet.of([Tool("f", "", {"type": "object", "properties": {"city": {"type": "string"}}})])
    parser = registry.get("hermes").parser(tools, ParserOptions())
    long = "x" * ((1 << 20) + 5000)
    text = f'<tool_call>{{"name": "f", "city": "{long}"}}</tool_call>'
    events = [event for i in range(0, len(text), 4096) for event in parser.feed(text[i : i + 4096])]
    events += parser.finish()
    assert "".join(event.text for event in events if isinstance(event, CallArgs)) == "{}"
