"""rednote's dots.llm: `invoke` tags, or JSON, within `<dots_function_call>`."""

from __future__ import annotations

from ..family import Family
from ..markup import Markup
from ..prompt.tool_results import RESULTS_FOLLOW
from ..syntax.openers import fork, json_calls, opener
from ..syntax.slots import Slots

_INVOKE = Slots(
    open="<dots_function_call>\n",
    call='<invoke name="{name}">\n{slots}</invoke>',
    slot='<parameter name="{key}">{value}</parameter>\n',
    close="\n</dots_function_call>",
)
_OPENERS = (
    opener(
        "<dots_function_call>",
        fork(
            (r"[{\[`]", json_calls(close=("</dots_function_call>",))),
            (r"<", _INVOKE),
        ),
    ),
)

# https://github.com/vllm-project/vllm (tests/tool_parsers/test_dots_tool_parser.py); the words are ours.
DOTS = Family(
    name="dots",
    about='`<invoke name="f">` and `<parameter name="x">` within `<dots_function_call>`: dots.llm',
    models={"dots.llm": "[sglang] dots"},
    auto_openers=_OPENERS,
    markup=Markup(closers=("</dots_function_call>",), tags=("dots_function_call>",)),
    prompt="""\
# Tools

You may call the functions below. Each line is one of them, as JSON.

<functions>
{tools}
</functions>

To call functions, answer with a block in this form:
{example}

"""
    + RESULTS_FOLLOW,
    write=_INVOKE.writer(*_OPENERS),
    answer="the call within <dots_function_call></dots_function_call> tags",
    # MiniMax M2's elements.
    trigger="<dots_function_call>",
    xml_tag=('<dots_function_call>\n<invoke name="{name}">\n', "</invoke>\n</dots_function_call>", "minimax_xml"),
    special_tokens=True,
)

FAMILIES = (DOTS,)
