"""The text that a call of a custom tool means. A model is shown such a tool as a function of one string, `input`."""

from __future__ import annotations

import json
from typing import Any


def free_text(arguments: str) -> str:
    """The input in a call's arguments: `input`, the only text under another name, or a text by itself.

    What is none of these is the text.
    """
    try:
        value: Any = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    match value:
        case str():
            return value
        case {"input": str(text)}:
            return text
        case dict() if not value:
            return ""
        case dict() if len(value) == 1 and isinstance(text := next(iter(value.values())), str):
            return text
    return arguments
