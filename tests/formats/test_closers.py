"""The tag that ends a call, behind one that was begun without any: no content there, and text anywhere else."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolSet
from toolcall_middleware.parsing.events import Event

from ..parsing.streams import calls_in, one_cut, read, shown_in

TOOLS = ToolSet.of([Tool("f")])
CALL = '{"name": "f", "arguments": {"x": 1}}'


def parts(format_name: str, text: str) -> tuple[str, int]:
    """(what is left as text, how many calls there are); the same however the text is cut."""

    def events(pieces: Iterable[str]) -> list[Event]:
        return read(registry.get(format_name).parser(TOOLS, ParserOptions()), pieces)

    whole = events([text])
    assert events(text) == whole
    for pieces in one_cut(text):
        assert events(pieces) == whole
    return shown_in(whole), len(calls_in(whole))


@pytest.mark.parametrize("name", ["auto", "json", "hermes", "llama3_json", "qwen3_coder"])
@pytest.mark.parametrize(
    ("text", "left", "calls"),
    [
        (f"{CALL}\n</tool_call>", "", 1),
        (f"{CALL}</tool_calls>\n", "", 1),
        (f"{CALL}\n</tool_call>\nDone.", "\nDone.", 1),
        (f"```json\n{CALL}\n```\n</tool_call>", "", 1),
        (f"{CALL}\n</tool_ca", "", 1),
    ],
)
def test_directly_behind_a_call_it_is_markup(name: str, text: str, left: str, calls: int) -> None:
    assert parts(name, text) == (left, calls)


@pytest.mark.parametrize("name", ["auto", "hermes"])
@pytest.mark.parametrize(
    ("text", "calls"),
    [
        (f"{CALL}\n</tool_call>\n<tool_call>{CALL}</tool_call>", 2),
        (f"<tool_call>{CALL}</tool_call></tool_call>", 1),
        (f"<tool_call>{CALL}</tool_call>\n</tool_calls>", 1),
    ],
)
def test_so_it_is_behind_one_with_both_tags(name: str, text: str, calls: int) -> None:
    assert parts(name, text) == ("", calls)


@pytest.mark.parametrize("name", ["auto", "json"])
@pytest.mark.parametrize(
    ("text", "calls"),
    [
        ("</tool_call>", 0),
        ("It ends with </tool_call>.", 0),
        ('{"name": "unknown", "arguments": {}}\n</tool_call>', 0),
        ('{"x": 1}\n</tool_call>', 0),
        ("```xml\n</tool_call>\n```", 0),
    ],
)
def test_elsewhere_it_is_text(name: str, text: str, calls: int) -> None:
    assert parts(name, text) == (text, calls)


def test_behind_a_call_and_text_it_is_text() -> None:
    assert parts("auto", f"{CALL}\nIt ends with </tool_call>.") == ("\nIt ends with </tool_call>.", 1)
