"""The format `auto`: reads whatever the model writes, and writes as the model's family does where its name tells."""

from __future__ import annotations

import functools
from collections.abc import Sequence

from ..model import Tool, ToolCall, ToolChoice, ToolResult, ToolSet
from ..parsing.text.grammar import Opener
from . import models, openers, reading, registry
from .base import Constraint, ParserOptions, StreamParser, ToolFormat


class Auto:
    """One scanner for the markers of every family; the prompt is another format's.

    prompt: the format that writes, `json` if none is given. Its markers are read too where the common scanner leaves
    them out because they could be ordinary text of other models.
    """

    name = "auto"
    about = "reads every family; writes the prompt as the model's own family does, else as `json`"

    def __init__(self, prompt: ToolFormat | None = None) -> None:
        self.prompt: ToolFormat = registry.get("json") if prompt is None else prompt
        own: tuple[Opener, ...] = () if prompt is None else getattr(prompt, "openers", ())
        known = {(opener.marker, opener.pattern) for opener in openers.AUTO}
        more = (opener for opener in own if (opener.marker, opener.pattern) not in known)
        self.openers = (*openers.AUTO, *more)

    @property
    def prompt_name(self) -> str:
        """The name of the format that writes."""
        return self.prompt.name

    @property
    def special_tokens(self) -> bool:
        """Whether the markers that the prompt asks for are special tokens."""
        return bool(getattr(self.prompt, "special_tokens", False))

    def for_model(self, model: str) -> ToolFormat:
        """This format with the prompt of the model's family. The same object for all models of a family."""
        name = models.family(model)
        return self if name is None or name == self.prompt_name else _writing(name)

    def render_tools(self, tools: Sequence[Tool], *, parallel: bool) -> str:
        """As the prompt's format does."""
        return self.prompt.render_tools(tools, parallel=parallel)

    def render_choice(self, tools: Sequence[Tool], choice: ToolChoice) -> str:
        """As the prompt's format does."""
        return self.prompt.render_choice(tools, choice)

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """As the prompt's format does."""
        return self.prompt.render_calls(calls)

    def render_results(self, results: Sequence[ToolResult]) -> str:
        """As the prompt's format does."""
        return self.prompt.render_results(results)

    def parser(self, tools: ToolSet | None, options: ParserOptions, /) -> StreamParser:
        """A new parser for one choice."""
        return reading.scanner(self.openers, tools, options)

    def constraint(self, tools: Sequence[Tool], choice: ToolChoice) -> Constraint | None:
        """As the prompt's format does."""
        return self.prompt.constraint(tools, choice)


@functools.cache
def _writing(name: str) -> Auto:
    return Auto(registry.get(name))
