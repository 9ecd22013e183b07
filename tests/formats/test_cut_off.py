"""Answers that end in the middle of a call's last marker: what is left of it is no content."""

from __future__ import annotations

import pytest

from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolCall, ToolSet
from toolcall_middleware.parsing.events import CallStart, Reasoning, Text

TOOLS = ToolSet.of((Tool("weather", "The weather.", {"type": "object", "properties": {"city": {"type": "string"}}}),))
CALL = ToolCall("weather", '{"city": "Paris"}')


@pytest.mark.parametrize("cut", [True, False])
@pytest.mark.parametrize("name", registry.names())
def test_half_a_closing_marker_is_no_content(name: str, *, cut: bool) -> None:
    fmt = registry.get(name)
    text = fmt.render_calls([CALL])
    seen = 0
    for end in range(len(text)):
        parser = fmt.parser(TOOLS, ParserOptions())
        events = [*parser.feed(text[:end]), *parser.finish(cut=cut)]
        if not any(isinstance(event, CallStart) for event in events):
            continue
        seen += 1
        left = "".join(event.text for event in events if isinstance(event, Text | Reasoning))
        assert left.strip() == "", f"{text[:end]!r} leaves {left!r}"
    assert seen > 1
