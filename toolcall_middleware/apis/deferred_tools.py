"""Tools that a client lists with `defer_loading`: they may be called, and the model is shown them once they are loaded.

A result loads a tool that it names. Its definition is written there, so that the prompt before it keeps its bytes.
"""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import Any

from ..wire import openai

_WORD = re.compile(r"[\w-]+", re.ASCII)  # the characters that the APIs admit in names


def named_in(content: str | list[dict[str, Any]], names: Container[str]) -> list[str]:
    """Which of `names` the content of a chat message has as words, in their order."""
    texts = [content] if isinstance(content, str) else [part["text"] for part in content if part["type"] == "text"]
    words = dict.fromkeys(found[0] for text in texts for found in _WORD.finditer(text))
    return [word for word in words if word in names]


def definitions(functions: Iterable[dict[str, Any]]) -> str:
    """What the model reads where tools are loaded: a line of JSON each."""
    lines = [openai.one_line(openai.encode(function)).decode("utf-8", "replace") for function in functions]
    return "\n".join(["These tools can be called from now on:", *lines])
