"""A format made of parts: what a family's way of writing consists of, as data. The tables stand in the files named for
the ways of writing (marked_json, tagged, named, pythonic, gemma, harmony).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ..json_schema.compact import compact_schema
from ..model import Tool, ToolCall, ToolChoice, ToolResult, ToolSet
from ..parsing.text.grammar import Opener
from . import reading
from .base import Constraint, ParserOptions, StreamParser, Tag
from .prompt import escaping
from .prompt.tool_results import Write as WriteResults
from .prompt.tool_results import named

WriteCalls = Callable[[Sequence[ToolCall]], str | None]
"""The calls of one turn in the family's syntax; None where it has no way to write them."""

ONE = "Make at most one function call in an answer."


def definition(tool: Tool) -> str:
    """`{"name": …, "description": …, "parameters": …}`, spaced as chat templates do."""
    return escaping.as_data(escaping.dump_spaced(escaping.describe(tool)))


def function(tool: Tool) -> str:
    """The definition as OpenAI's API has it: `{"type": "function", "function": {…}}`."""
    return f'{{"type": "function", "function": {definition(tool)}}}'


# Arguments that no client sends: what stands around them is the call's syntax.
_ARGUMENTS = '{"arguments": "0b6ad9c1"}'


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Family:
    """One family. A turn that its syntax cannot write stands in the history as a block of the format `json`, which its
    parser reads too.

    about: one line for the list of formats. openers: how calls begin (openers.py).
    prompt: the tool block; `{tools}` stands for the tools, each written by `tool`, with `between` between them, and
    `{example}` for a call of the first one. one: what is added where only one call may be made.
    answer: what an answer that calls consists of, for `tool_choice`; noun: how this prompt names a tool.
    special_tokens: the markers are special tokens of the models' tokenizers, which backends leave out of the text
    unless told otherwise.
    trigger: how a call begins, where constrained decoding can be told to wait for it: the arguments stand verbatim
    behind the name. constrain: the JSON Schema of a whole answer, where the bare JSON of a call is one.
    """

    name: str
    about: str
    openers: tuple[Opener, ...]
    prompt: str
    write: WriteCalls
    answer: str
    tool: Callable[[Tool], str] = definition
    between: str = "\n"
    results: WriteResults = named
    noun: str = "function"
    one: str = f"\n\n{ONE}"
    special_tokens: bool = False
    trigger: str = ""
    constrain: Callable[[Sequence[Tool], ToolChoice], Constraint | None] | None = None

    def render_tools(self, tools: Sequence[Tool], *, parallel: bool) -> str:
        """The family's own layout; one sentence more where only one call may be made."""
        if not tools:
            return ""
        # Not str.format: the layouts are full of braces, and the tools' texts may hold the other placeholder.
        parts = {"tools": self.between.join(map(self.tool, tools)), "example": self._example(tools[0])}
        block = escaping.fill(self.prompt, parts)
        return block if parallel else block + self.one

    def _example(self, tool: Tool) -> str:
        if "{example}" not in self.prompt:
            return ""
        call = escaping.example(tool)
        return self.write([call]) or self.write([ToolCall(tool.name, "{}")]) or ""

    def render_choice(self, tools: Sequence[Tool], choice: ToolChoice) -> str:
        """One or two sentences."""
        return escaping.choice_text(tools, choice, noun=self.noun, answer=self.answer)

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """The calls of one turn in the family's own syntax."""
        if not calls:
            return ""
        written = self.write(calls)
        return escaping.fenced_calls(calls) if written is None else written

    def render_results(self, results: Sequence[ToolResult]) -> str:
        """The results of one turn, neutralised."""
        return self.results(results)

    def parser(self, tools: ToolSet | None, options: ParserOptions, /) -> StreamParser:
        """A new parser for one choice."""
        return reading.scanner(self.openers, tools, options)

    def constraint(self, tools: Sequence[Tool], choice: ToolChoice) -> Constraint | None:
        """The calls of the tools that may be called now, one by one, where the syntax allows it."""
        if self.constrain is not None:
            return self.constrain(tools, choice)
        tags = tuple(filter(None, map(self._tag, escaping.callable_tools(tools, choice)))) if self.trigger else ()
        return Constraint("tool_calls", tags=tags) if tags else None

    def _tag(self, tool: Tool) -> Tag | None:
        begin, arguments, end = (self.write([ToolCall(tool.name, _ARGUMENTS)]) or "").partition(_ARGUMENTS)
        return Tag(begin, compact_schema(tool.parameters), end, self.trigger) if arguments else None
