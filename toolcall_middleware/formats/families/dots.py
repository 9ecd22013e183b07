"""rednote's dots.llm: `invoke` tags, or JSON, within `<dots_function_call>`."""

from __future__ import annotations

from ..family import Family
from ..prompt.tool_results import one_a_line
from ..syntax.openers import json_calls
from ..syntax.slots import Slots

_INVOKE = Slots(
    open="<dots_function_call>\n",
    call='<invoke name="{name}">\n{slots}</invoke>',
    slot='<parameter name="{key}">{value}</parameter>\n',
    close="\n</dots_function_call>",
    style="minimax_xml",
)
_OPENERS = (_INVOKE.opener((r"[{\[`]", json_calls(close=_INVOKE.closers))),)

# https://github.com/vllm-project/vllm (tests/tool_parsers/test_dots_tool_parser.py); the words are ours.
DOTS = Family(
    name="dots",
    about='`<invoke name="f">` and `<parameter name="x">` within `<dots_function_call>`: dots.llm',
    models={"dots.llm": "[sglang] dots"},
    calls=_INVOKE,
    auto_openers=_OPENERS,
    prompt=one_a_line("To call functions, answer with a block in this form", within="functions"),
    special_tokens=True,
)

FAMILIES = (DOTS,)
