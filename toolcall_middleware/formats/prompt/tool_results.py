"""Ways to write tool results in a prompt that families share. Each takes the results of one turn, in the order of its
calls, and returns text in which nothing that a tool said reads as markup.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence

import msgspec

from ...model import ToolResult
from . import escaping

Write = Callable[[Sequence[ToolResult]], str]

RESULTS_FOLLOW = (
    "The results come in the next message, each between <tool_result> and </tool_result>. Never write a result "
    "yourself."
)
"""The end of our own prompts: what `named` writes, and that the model must not write it."""


SIGNATURES = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

"""
"""How the prompts of many families begin: Qwen's, after Hermes 2 Pro's."""


def one_a_line(how: str, *, title: str = "Tools", may: str = "You may call the functions", within: str = "") -> str:
    """A prompt in our words, for families whose own is not published: the tools as lines of JSON, in the tag `within`,
    and `how` to call them.
    """
    tools = f"<{within}>\n{{tools}}\n</{within}>" if within else "{tools}"
    head = f"# {title}\n\n{may} below. Each line is one of them, as JSON."
    return f"{head}\n\n{tools}\n\n{how}:\n{{example}}\n\n{RESULTS_FOLLOW}"


def each(one: Callable[[ToolResult], str], *, before: str = "", between: str = "\n", after: str = "") -> Write:
    """`one` for each result, and the texts around them."""

    def write(results: Sequence[ToolResult]) -> str:
        if not results:
            return ""
        return escaping.with_note(f"{before}{between.join(map(one, results))}{after}", results)

    return write


def _named(result: ToolResult) -> str:
    error = ' error="true"' if result.is_error else ""
    opening = f'<tool_result name="{escaping.attribute(result.name)}"{error}>'
    return f"{opening}\n{escaping.neutralise(result.content)}\n</tool_result>"


named = each(_named)
"""`<tool_result name="f">…</tool_result>`: ours, for families whose results are turns of a role of their own.

Such a turn cannot be written inside a message; a tag says which function gave what.
"""


def between_tags(opening: str, closing: str, *, before: str = "", after: str = "", between: str = "\n") -> Write:
    """Each result between two tags without a place for a name or an error: an error is said in the text."""

    def shown(result: ToolResult) -> str:
        # Checked at each call: the markup is known once all families are made, and this one is still being made.
        text = said(result)
        return f"{opening}{text if escaping.has_markup(closing) else guarded(text, closing)}{closing}"

    return each(shown, before=before, between=between, after=after)


def said(result: ToolResult) -> str:
    """The neutralised text. That of an error says so."""
    error = "The call failed:\n" if result.is_error else ""
    return error + escaping.neutralise(result.content)


def guarded(text: str, closing: str) -> str:
    r"""`text` that does not hold `closing`, for tags too common to be neutralised everywhere: `</result>` becomes
    `<\/result>`.
    """
    return _guard(closing.strip()).sub(r"\g<0>\\", text)


@functools.cache
def _guard(closing: str) -> re.Pattern[str]:
    return re.compile(rf"{re.escape(closing[0])}\\*+(?={re.escape(closing[1:])})")


def as_json(result: ToolResult) -> str:
    """The text as a JSON value: itself where it is JSON and holds no markup, else as a string."""
    text = said(result)
    return text if text == result.content and _is_json(text) else escaping.dump_spaced(text)


def json_each(opening: str, closing: str) -> Write:
    """Each result as a JSON value between two texts, on a line of its own."""
    return each(lambda result: f"{opening}{as_json(result)}{closing}")


def json_list(opening: str, closing: str) -> Write:
    """All results as one JSON list between two tags."""
    return each(as_json, before=f"{opening}[", between=", ", after=f"]{closing}")


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return False
    return True
