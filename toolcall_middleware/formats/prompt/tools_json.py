"""Tools as JSON, spaced and indented as chat templates have them."""

from __future__ import annotations

from ...model import Tool
from .escaping import as_data, describe, dump_indented, dump_spaced


def definition(tool: Tool) -> str:
    """`{"name": …, "description": …, "parameters": …}`, spaced as chat templates do."""
    return as_data(dump_spaced(describe(tool)))


def function(tool: Tool) -> str:
    """The definition as OpenAI's API has it: `{"type": "function", "function": {…}}`."""
    return f'{{"type": "function", "function": {definition(tool)}}}'


def definition_indented(tool: Tool) -> str:
    """The definition over several lines, two spaces deep."""
    return as_data(dump_indented(describe(tool), indent=2))


def function_indented(tool: Tool) -> str:
    """The same as OpenAI's API has it, four spaces deep."""
    return as_data(dump_indented({"type": "function", "function": describe(tool)}, indent=4))
