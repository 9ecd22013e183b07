"""A format of your own: calls as `<<call>> {"name": …, "arguments": …} <<end>>`.

A package makes it known by an entry point in its pyproject.toml, and the middleware takes it by that name:

    [project.entry-points."toolcall_middleware.formats"]
    guillemets = "custom_format:Guillemets"

    pip install . && TOOLCALL_FORMAT=guillemets toolcall-middleware serve --upstream http://127.0.0.1:8000/v1

Without a package, where Python finds this file: TOOLCALL_FORMAT=custom_format:Guillemets.
"""

from __future__ import annotations

from collections.abc import Sequence

from toolcall_middleware.formats import reading
from toolcall_middleware.formats.base import Constraint, ParserOptions, StreamParser
from toolcall_middleware.formats.prompt import escaping, tool_choice, tool_results
from toolcall_middleware.model import Tool, ToolCall, ToolChoice, ToolResult, ToolSet


class Guillemets:
    """JSON objects between two markers."""

    name = "guillemets"
    special_tokens = False  # true sends skip_special_tokens=false: the tokenizer's own markers must not be left out

    def render_tools(self, tools: Sequence[Tool], *, parallel: bool) -> str:
        """The prompt block: which tools there are and how to call one. The same tools must give the same text."""
        listed = "\n".join(escaping.as_data(escaping.dump(escaping.describe(tool))) for tool in tools)
        several = "" if parallel else " Make at most one call in an answer."
        example = self.render_calls([escaping.EXAMPLE])
        return f"You can call these tools:\n{listed}\n\nA call looks like this: {example}{several}" if tools else ""

    def render_choice(self, tools: Sequence[Tool], choice: ToolChoice) -> str:
        """What `tool_choice` adds."""
        return tool_choice.choice_text(tools, choice, noun="tool", answer="the call between <<call>> and <<end>>")

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """The model's own calls, for the history."""
        return "\n".join(f"<<call>> {escaping.call_json(call)} <<end>>" for call in calls)

    def render_results(self, of: Sequence[ToolResult]) -> str:
        """What the tools gave back, as text that cannot be mistaken for markup."""
        return tool_results.named(of)

    def parser(self, tools: ToolSet | None, options: ParserOptions, /) -> StreamParser:
        """A new parser. A syntax that is not JSON takes an opener with a reader of its own (see parsing/sink.py)."""
        openers = (reading.tagged_json("<<call>>", "<<end>>"), *reading.ANY_JSON)
        return reading.scanner(openers, tools, options)

    def constraint(self, _tools: Sequence[Tool], _choice: ToolChoice) -> Constraint | None:
        """No JSON Schema can say these markers: a call that must come is asked for as JSON, which is read too."""
        return None
