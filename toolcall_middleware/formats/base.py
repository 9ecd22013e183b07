"""What a format is. Formats hold no state: one object serves all requests.

A format that is not built in is any object with this shape, registered by an entry point
`toolcall_middleware.formats` or named by the operator as `package.module:FAMILY`. One that has a `markup` (markup.py)
tells all readers of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from ..model import Tool, ToolCall, ToolChoice, ToolResult, ToolSet
from ..parsing.events import Event
from ..parsing.sink import ReaderOptions


class StreamParser(Protocol):
    """Reads one choice of one answer. Never reused.

    `feed` takes the next piece of the model's text, cut anywhere, and returns what it says so far.
    `finish` is called once, at the end of the text; `cut` says that the model did not end it by itself (`length`, a
    lost connection): an open call then stays open. Neither raises on model output.
    """

    def feed(self, text: str, /) -> list[Event]: ...
    def finish(self, *, cut: bool = False) -> list[Event]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ParserOptions(ReaderOptions):
    """The options of a reader, and of a format."""

    repair_names: bool = False
    """Whether a name that means exactly one offered tool is that tool's (tool_names.py)."""


@dataclass(frozen=True, slots=True)
class Tag:
    """A call of one tool in the format's syntax."""

    begin: str
    """The text before the arguments."""
    schema: dict[str, Any]
    """The arguments' JSON Schema."""
    end: str
    """The text after the arguments."""
    trigger: str
    """The beginning of `begin` that shows that a call has begun."""
    style: str = ""
    """How the arguments are written, where that is not JSON: xgrammar's name for it, such as `qwen_xml`."""


@dataclass(frozen=True, slots=True)
class Constraint:
    """What a backend's constrained decoding is asked to keep to."""

    name: str
    schema: dict[str, Any] = field(default_factory=dict)
    """A JSON Schema of the whole answer, where it is JSON."""
    tags: tuple[Tag, ...] = ()
    """The calls one by one, where free text and several calls stay possible around them."""


class ToolFormat(Protocol):
    """One way of writing tools, calls and results as text.

    `parser(tools=None)` accepts any tool name (for reading captured text offline).

    Four more members are optional. `special_tokens: bool`: the markers are special tokens of the model's tokenizer,
    which a backend omits unless asked for them. `needs_user: bool`: the model's chat template refuses a conversation
    without a user's words. `brief: ToolFormat`: the format whose `render_tools` writes the tools where they take too
    many tokens (`tools_budget`). `for_model(model: str) -> ToolFormat`: the
    object to use for requests to this model; it must be the same for models that get the same prompt.
    """

    @property
    def name(self) -> str:
        """The name that the setting `format` takes."""
        ...

    def render_tools(self, tools: Sequence[Tool], *, parallel: bool) -> str:
        """The prompt block that presents the tools and the way to call them. Depends on nothing else."""
        ...

    def render_choice(self, tools: Sequence[Tool], choice: ToolChoice) -> str:
        """What `tool_choice` adds to the end of the prompt; empty for `auto`."""
        ...

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """The calls of one assistant turn in the format's own syntax."""
        ...

    def render_results(self, results: Sequence[ToolResult]) -> str:
        """The results of one turn. Text in them cannot be read as markup."""
        ...

    def parser(self, tools: ToolSet | None, options: ParserOptions, /) -> StreamParser:
        """A new parser for one choice."""
        ...

    def constraint(self, tools: Sequence[Tool], choice: ToolChoice, /) -> Constraint | None:
        """What constrained decoding may be asked for, or None where the format cannot say."""
        ...
