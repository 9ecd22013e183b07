"""The format `json`: ours, for models that know no tool syntax of their own.

    ```json
    {"tool_calls": [{"name": "lookup", "arguments": {"city": "Paris"}}]}
    ```

Small models follow a fenced JSON block far better than tags that they were not trained on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ...json_schema.compact import calls_schema
from ...model import Tool, ToolCall, ToolChoice, ToolResult, ToolSet
from ...parsing.text.grammar import Where
from .. import reading
from ..base import Constraint
from ..family import callable_tools, choice_text
from ..markup import Escape, Markup
from ..prompt import escaping
from ..prompt.tool_results import named
from ..prompt.tools_signatures import form, signature
from ..syntax.openers import json_calls, opener, shared

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ..base import ParserOptions, StreamParser, ToolFormat

_TOOLS = """\
# Tools

You can call the tools below. {listed}

{tools}

To call a tool, answer with a JSON code block in exactly this form (this example shows the form only; take the real \
values from the conversation):

{example}

{several} The result comes in the next message, between <tool_result> and </tool_result>. Never write a result yourself.
When no tool fits, or when you already know the answer, answer in plain text without a "tool_calls" block."""

_SAMPLED = "Each tool has its name, its arguments with their types, what it does, and a sample call."
_SIGNATURES = (
    "Each entry is one tool: its name, its arguments with their types (one with ? may be left out), and what it does."
)
_SEVERAL = 'To call several tools at once, put several entries into the "tool_calls" list of one block.'
_ONE = 'Call at most one tool in an answer: the "tool_calls" list has one entry.'


_LIST = shared(
    "[",
    json_calls(bare=True),
    r"\[[ \t\r\n]*\{",
    undecided=r"\[[ \t\r\n]*",
    where=Where.START,
    consume=False,
    as_last=(reading.LAST_LIST,),
)
# LM Studio's own protocol for models that know none, where LM Studio does not read it itself.
# https://lmstudio.ai/docs/developer/openai-compat/tools
_REQUEST = opener("[TOOL_REQUEST]", json_calls(close=("[END_TOOL_REQUEST]",)))
_OTHERS = (_REQUEST, reading.LAST_LINE, reading.LAST_LINE_LIST)


class FencedJson:
    """A fenced JSON block that holds `tool_calls`."""

    name = "json"
    openers = (*reading.ANY_JSON, *_OTHERS)
    auto_openers = (*reading.LISTED_JSON, reading.BARE_OBJECT, _LIST, *_OTHERS)
    """What of it `auto` reads: there, Python's calls begin with the same bracket."""
    markup = Markup(escapes=(Escape(r"\[", r"(?:END_)?TOOL_REQUEST\]"),))
    """The rest of its own is everybody's: markup.COMMON."""
    models: Mapping[str, str] = {}
    fine_tunes: Mapping[str, str] = {
        "deepseek-r1:[1378]": "Ollama's tags: all but 671b are distillates",
        "deepseek-r1-0528-qwen": "one, too",
        "deepseek-r1-distill": '[card] templates without tools; [llama.cpp] "reluctant to call any tools"',
    }
    """Models that were trained on no syntax, named for a family that was."""
    alike: Mapping[str, str] = {}

    def render_tools(self, tools: Sequence[Tool], *, parallel: bool) -> str:
        """For each tool a heading, its signature and the form of its call; then the rules.

        Of the forms that were measured small models follow this one best (tests/bench/README.md).
        """
        listed = "\n\n".join(f"## {tool.name}\n{signature(tool)}\n{form(tool)}" for tool in tools)
        return self._block(listed, _SAMPLED, parallel=parallel)

    @property
    def brief(self) -> ToolFormat:
        """The format that writes the tools where they take too many tokens."""
        return _BRIEF

    def _block(self, tools: str, listed: str, *, parallel: bool) -> str:
        if not tools:
            return ""
        return _TOOLS.format(
            tools=tools,
            listed=listed,
            example=self.render_calls([escaping.EXAMPLE]),
            several=_SEVERAL if parallel else _ONE,
        )

    def render_choice(self, tools: Sequence[Tool], choice: ToolChoice) -> str:
        """One or two sentences."""
        answer = 'a "tool_calls" block'
        return choice_text(tools, choice, noun="tool", answer=answer)

    def render_calls(self, calls: Sequence[ToolCall]) -> str:
        """All calls in one block; arguments verbatim."""
        return escaping.fenced_calls(calls) if calls else ""

    def render_results(self, results: Sequence[ToolResult]) -> str:
        """`<tool_result name="f">`, the neutralised text and `</tool_result>`, for each result."""
        return named(results)

    def parser(self, tools: ToolSet | None, options: ParserOptions, /) -> StreamParser:
        """A new parser for one choice."""
        return reading.scanner(self.openers, tools, options)

    def constraint(self, tools: Sequence[Tool], choice: ToolChoice) -> Constraint | None:
        """The JSON that a required or named call must be; None where text is an answer too."""
        callable_now = callable_tools(tools, choice)
        if not choice.must_call or not callable_now:
            return None
        return Constraint("tool_calls", calls_schema(callable_now, parallel=choice.parallel))


class BriefJson(FencedJson):
    """The same with signatures alone: a third fewer tokens, and fewer right calls (tests/bench/README.md)."""

    def render_tools(self, tools: Sequence[Tool], *, parallel: bool) -> str:
        """A signature for each tool, the form of a call, and the rules."""
        return self._block("\n".join(map(signature, tools)), _SIGNATURES, parallel=parallel)


_BRIEF = BriefJson()
FAMILIES = (FencedJson(),)
