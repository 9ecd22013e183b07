"""A custom tool's grammar as the `pattern` of the string that holds the tool's text.

The whole text has to fit a grammar, a pattern of JSON Schema is searched for: so it has anchors. A grammar that cannot
be written as one stays a description.

Engines put what a pattern matches into a JSON string as it is, without escapes (xgrammar 0.2, llama.cpp):
`plain_regex.json_safe` says whether there is nothing to escape.
"""

from __future__ import annotations

from typing import Any

from ...model import Tool
from ..pattern import pattern_fault
from ..validate_schema import MAX_PATTERN
from .lark import lark_regex
from .plain_regex import plain_regex


def text_pattern(definition: str, syntax: str) -> str | None:
    """The grammar as a pattern of JSON Schema for the whole text; None where it is none, or that is not certain.

    syntax: `regex` or `lark`. Linear. The pattern is one that can be checked within the bounds of all patterns.
    """
    if len(definition) > MAX_PATTERN:
        return None
    plain = lark_regex(definition) if syntax == "lark" else _without_anchors(definition)
    made = f"^({plain})$"
    return made if plain and len(made) <= MAX_PATTERN and pattern_fault(made)[0] is None else None


def _without_anchors(definition: str) -> str | None:
    inner = definition[definition.startswith("^") :]
    if inner.endswith("$") and (len(inner) - len(inner[:-1].rstrip("\\"))) % 2:
        inner = inner[:-1]
    if inner != definition and "|" in inner:
        return None  # an anchor may belong to one branch alone
    return plain_regex(inner)


def with_grammar(tool: Tool) -> dict[str, Any]:
    """The tool's parameters with its grammar as `pattern` of the text; its own where it has none."""
    if tool.grammar:
        match tool.parameters:
            case {"properties": {"input": dict(text), **more}}:
                return {**tool.parameters, "properties": {**more, "input": {**text, "pattern": tool.grammar}}}
    return tool.parameters
