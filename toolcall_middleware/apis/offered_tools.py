"""The tools of a client's request, as the functions that the model is offered.

Tools with `defer_loading` may be called, and are shown to the model once they are loaded. A result that names such a
tool loads it. Its definition is written at that place, so that the prompt before it keeps its bytes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import Any

from ..model import DEFERRED_FIELD, LOADED_FIELD
from ..wire import openai

# Maps characters that the APIs do not allow in names to blanks. Splitting bytes takes a third of a pattern's time.
_WORDS = bytes(code if code < 128 and (chr(code).isalnum() or chr(code) in "_-") else 32 for code in range(256))


Schema = dict[str, Any]


def field_schema(description: str, kind: str = "string", **more: Any) -> Schema:
    """The schema of a parameter. more: its other keywords."""
    return {"type": kind, **more, "description": description}


def object_schema(properties: Schema, *required: str, **more: Any) -> Schema:
    """The schema of a function's parameters."""
    return {"type": "object", "properties": properties, "required": list(required), **more}


@dataclass(slots=True)
class Tool:
    """A tool that the client runs. name: the model's name for it. path: of the tool in the request.

    function: `description`, `parameters`, `strict`. written: the conversation holds its definition.
    """

    name: str
    path: str
    function: dict[str, Any]
    deferred: bool = False
    written: bool = False

    @property
    def definition(self) -> dict[str, Any]:
        """The function with its name."""
        return {"name": self.name, **self.function}

    @property
    def entry(self) -> dict[str, Any]:
        """The tool as a chat completion has it."""
        written = {LOADED_FIELD: True} if self.written else {}
        return {"type": "function", "function": self.definition, **written}


class OfferedTools:
    """The tools of one request.

    shown: those that the model is shown, loaded ones after the others. waiting: by name, those that the conversation
    has not loaded so far. dropped: names of tools that only a provider's servers can run.
    """

    def __init__(self) -> None:
        self.shown: list[Tool] = []
        self.waiting: dict[str, Tool] = {}
        self.dropped: list[str] = []

    @property
    def offered(self) -> list[Tool]:
        """The tools for the model."""
        return self.shown

    @property
    def fields(self) -> dict[str, Any]:
        """The tools as fields of a chat completion."""
        made: dict[str, Any] = {"tools": [tool.entry for tool in self.offered]}
        if self.waiting:
            made[DEFERRED_FIELD] = [tool.entry for tool in self.waiting.values()]
        return made if made["tools"] else {}

    @property
    def paths(self) -> dict[str, list[str]]:
        """The client's path of each tool in `fields`."""
        return {
            "tools": [tool.path for tool in self.offered],
            DEFERRED_FIELD: [tool.path for tool in self.waiting.values()],
        }

    def load(self, name: str) -> Tool | None:
        """Offer a tool from here on. Return the tool if it was not offered until now."""
        tool = self.waiting.pop(name, None)
        if tool is not None:
            self.shown.append(tool)
        return tool


def named_in(content: str | list[dict[str, Any]], names: Collection[str]) -> list[str]:
    """The `names` that occur as words in the content of a chat message."""
    if not names:
        return []
    texts = [content] if isinstance(content, str) else [part["text"] for part in content if part["type"] == "text"]
    words = {word for text in texts for word in text.encode("utf-8", "replace").translate(_WORDS).split()}
    return [name for name in names if name.encode() in words]


def write_definitions(tools: Iterable[Tool | None]) -> str:
    """The text that defines these tools at the place where the conversation loads them. Marks them as written."""
    written = [tool for tool in tools if tool is not None]
    for tool in written:
        tool.written = True
    return definitions(tool.definition for tool in written)


def definitions(functions: Iterable[dict[str, Any]]) -> str:
    """The text that defines loaded tools: a line of JSON each."""
    lines = [openai.one_line(openai.encode(function)).decode("utf-8", "replace") for function in functions]
    return "\n".join(["These tools can be called from now on:", *lines])
