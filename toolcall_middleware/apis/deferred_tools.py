"""Tools that a client lists with `defer_loading`: they may be called, and the model is shown them once they are loaded.

A result loads a tool that it names. Its definition is written there, so that the prompt before it keeps its bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

from ..wire import openai

# All but the characters that the APIs admit in names, as blanks. To split bytes takes a third of what a pattern takes.
_WORDS = bytes(code if code < 128 and (chr(code).isalnum() or chr(code) in "_-") else 32 for code in range(256))


def named_in(content: str | list[dict[str, Any]], names: Collection[str]) -> list[str]:
    """Which of `names` the content of a chat message has as words."""
    if not names:
        return []
    texts = [content] if isinstance(content, str) else [part["text"] for part in content if part["type"] == "text"]
    words = {word for text in texts for word in text.encode("utf-8", "replace").translate(_WORDS).split()}
    return [name for name in names if name.encode() in words]


def definitions(functions: Iterable[dict[str, Any]]) -> str:
    """What the model reads where tools are loaded: a line of JSON each."""
    lines = [openai.one_line(openai.encode(function)).decode("utf-8", "replace") for function in functions]
    return "\n".join(["These tools can be called from now on:", *lines])
