"""The values that all rooms share: tools, the choice among them, calls and their results. Frozen."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Any

LOADED_FIELD = "toolcall_loaded"
"""Set on a chat completion's tool by a face that has written its definition into the conversation (`Tool.loaded`)."""

DEFERRED_FIELD = "toolcall_deferred"
"""The field of a chat completion for tools that may be called and that the model is not shown: a list as in `tools`."""


@dataclass(frozen=True, slots=True)
class Tool:
    """One function that the client offers.

    `parameters` is the client's JSON Schema, decoded (`{"type": "object", "properties": {}}` where it gave none).
    """

    name: str
    description: str = ""
    parameters: dict[str, Any] = field(default_factory=lambda: {"type": "object", "properties": {}})
    strict: bool = False
    loaded: bool = False
    """Whether a search loaded its definition into the conversation. The beginning of the prompt omits it, so that it
    keeps its bytes."""


class ChoiceMode(enum.Enum):
    """What `tool_choice` asks for."""

    NONE = "none"
    AUTO = "auto"
    REQUIRED = "required"
    NAMED = "named"


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """`tool_choice`, resolved against the tools.

    `name` is set for NAMED only. `allowed` is the set of names that may be called (`allowed_tools`), None for all.
    `parallel` is false when at most one call may be made (`parallel_tool_calls: false`, or a named tool).
    """

    mode: ChoiceMode = ChoiceMode.AUTO
    name: str | None = None
    allowed: frozenset[str] | None = None
    parallel: bool = True

    @property
    def must_call(self) -> bool:
        """Whether an answer without a call breaks the promise."""
        return self.mode is ChoiceMode.REQUIRED or self.mode is ChoiceMode.NAMED

    def allows(self, name: str) -> bool:
        """Whether the model may call the tool of this name, which is one of those that are offered."""
        if self.mode is ChoiceMode.NONE:
            return False
        if self.mode is ChoiceMode.NAMED:
            return name == self.name
        return self.allowed is None or name in self.allowed


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A finished call of the history, or one that a parser read. `arguments` is JSON text, verbatim.

    `number` counts the calls of the history from 0.
    """

    name: str
    arguments: str
    id: str | None = None
    number: int | None = None


@dataclass(frozen=True, slots=True)
class ToolResult:
    """What the client's tool gave back. `content` is text; `name` is that of the call it answers."""

    name: str
    content: str
    id: str | None = None
    is_error: bool = False


@dataclass(frozen=True, slots=True)
class ToolSet:
    """The tools of a request in their order; shared between requests that send the same bytes."""

    tools: tuple[Tool, ...] = ()
    by_name: dict[str, Tool] = field(default_factory=dict)

    @classmethod
    def of(cls, tools: list[Tool] | tuple[Tool, ...]) -> ToolSet:
        """A set of `tools`, whose names are unique."""
        return cls(tuple(tools), {tool.name: tool for tool in tools})

    def __len__(self) -> int:
        return len(self.tools)

    def only(self, names: frozenset[str]) -> ToolSet:
        """The tools whose name is in `names`, in the same order."""
        return ToolSet.of([tool for tool in self.tools if tool.name in names])
