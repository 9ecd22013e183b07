"""rednote's dots.llm: `invoke` tags, or JSON, within `<dots_function_call>`."""

from __future__ import annotations

from .. import reading
from ..family import Family
from ..markup import Markup
from ..syntax.openers import fork, json_calls, opener, xml_calls
from ..syntax.xml import Tags, TagWriter
from ..syntax.xml_tags import invoke_tags

_MARKUP = Markup(
    tags=("dots_function_call>",),
)

_OPENERS = (
    opener(
        "<dots_function_call>",
        fork(
            (r"[{\[`]", json_calls(close=("</dots_function_call>",))),
            (r"<", xml_calls(invoke_tags("</dots_function_call>"))),
        ),
    ),
)

# https://github.com/vllm-project/vllm (tests/tool_parsers/test_dots_tool_parser.py); the words are ours.
DOTS = Family(
    name="dots",
    about='`<invoke name="f">` and `<parameter name="x">` within `<dots_function_call>`: dots.llm',
    models={
        "dots.llm": "[sglang] dots",
    },
    marked=_OPENERS,
    markup=_MARKUP,
    prompt="""\
# Tools

You may call the functions below. Each line is one of them, as JSON.

<functions>
{tools}
</functions>

To call functions, answer with a block in this form:
{example}

The results come in the next message, each between <tool_result> and </tool_result>. Never write a result yourself.""",
    write=TagWriter(
        Tags(
            opening="<dots_function_call>\n",
            closing="\n</dots_function_call>",
            call='<invoke name="{name}">\n',
            call_end="</invoke>",
            parameter='<parameter name="{key}">',
            parameter_end="</parameter>",
            key=r"[^\"'>\n]{1,256}",
        ),
        (*_OPENERS, *reading.ANY_JSON),
    ),
    answer="the call within <dots_function_call></dots_function_call> tags",
    special_tokens=True,
)

FAMILIES = (DOTS,)
