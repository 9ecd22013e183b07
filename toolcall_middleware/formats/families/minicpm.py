"""OpenBMB's MiniCPM: tags whose names are attributes, and XML's own entities and sections in them."""

from __future__ import annotations

from ...parsing.text.grammar import beginnings
from ..family import Family
from ..markup import Markup
from ..prompt.tools_json import function
from ..syntax.openers import fork, opener, xml_calls
from ..syntax.xml import Tags, TagWriter
from ..syntax.xml_tags import ATTRIBUTE, attribute, begun, function_calls, heads, xml_syntax

_CALL, _BEGUN = attribute("function", "name"), begun(*heads("function"))
SYNTAX = xml_syntax(
    call=_CALL,
    call_heads=heads("function"),
    call_part=_BEGUN,
    parameter=attribute("param", "key"),
    parameter_heads=heads("param"),
    parameter_part=begun(*heads("param")),
    value_close="</param>",
    call_close="</function>",
    noise=("<arguments>", "</arguments>"),
    xml=True,
)

_WS = r"[ \t\r\n]{0,64}"
# Other models write such tags around `<parameter name="x">`, as in Qwen3-Coder's calls, and no entities in the values.
_calls = fork(
    (rf"{_CALL.pattern}{_WS}<parameter[ =]", xml_calls(function_calls("tool_call").read)),
    ("", xml_calls(SYNTAX)),
    undecided=rf"{_BEGUN.pattern}(?:>{_WS}(?:{beginnings('<parameter')})?)?",
)
OPENERS = tuple(opener(f"<function{space}name=", _calls, consume=False) for space in (" ", "", "Ġ"))

# https://github.com/OpenBMB/MiniCPM#with-tool-calling (the calls; the words are ours)
MINICPM5 = Family(
    name="minicpm5",
    about='`<function name="f">` and `<param name="x">`: MiniCPM 5',
    models={"minicpm5": "[sglang] minicpm5"},
    auto_openers=OPENERS,
    markup=Markup(tags=(r"function[\sĠ]*name\s*=",)),
    prompt="""\
# Tools

You can call the following functions:
<tools>
{tools}
</tools>

To call a function, answer in this form, one <param> for each argument, values as they are, lists and objects as JSON:
{example}

The result comes in the next message, between <tool_result> and </tool_result>. Never write a result yourself.""",
    tool=function,
    write=TagWriter(
        Tags(
            call='<function name="{name}">',
            call_end="</function>",
            parameter='<param name="{key}">',
            parameter_end="</param>",
            gap="",
            key=ATTRIBUTE,
            xml=True,
        ),
        OPENERS,
    ),
    answer="the call",
)

FAMILIES = (MINICPM5,)
