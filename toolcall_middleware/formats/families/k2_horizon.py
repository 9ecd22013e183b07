"""LLM360's K2 Horizon: GLM's tags with `ifm|` in each, types perhaps among them; or JSON there."""

from __future__ import annotations

import re

from ...parsing.text.grammar import Opener, beginnings
from ..family import Family
from ..markup import Markup
from ..prompt.tool_results import RESULTS_FOLLOW
from ..syntax.openers import json_calls, opener, xml_calls
from ..syntax.xml import Tags, TagWriter
from ..syntax.xml_tags import xml_syntax

_KIND = r"(?:<ifm\|arg_type>(?P<kind>\w{1,12})</ifm\|arg_type>[ \t\r\n]{0,64})?"
_SYNTAX = xml_syntax(
    call=re.compile(
        r"<ifm\|tool_call>[ \t\r\n]{0,64}(?P<name>[^\s<>{}\[\]\"'`]{1,256})[ \t\r\n]{0,64}"
        r"(?=<ifm\|arg_key>|</ifm\|tool_call>|\{)"
    ),
    call_heads=("<ifm|tool_call>",),
    call_part=re.compile(
        r"<ifm\|tool_call>[ \t\r\n]{0,64}(?:[^\s<>{}\[\]\"'`]{1,256}[ \t\r\n]{0,64}(?:<[/a-z_|]{0,20})?)?"
    ),
    parameter=re.compile(
        rf"<ifm\|arg_key>(?P<key>[^<]{{1,256}})</ifm\|arg_key>[ \t\r\n]{{0,64}}{_KIND}<ifm\|arg_value>"
    ),
    parameter_heads=("<ifm|arg_key>",),
    parameter_part=re.compile(
        r"<ifm\|arg_key>[^<]{0,256}(?:</?[a-z_|]{0,16}|</ifm\|arg_key>[ \t\r\n]{0,64}"
        r"(?:<ifm\|arg_type>\w{0,12}(?:</ifm\|arg_type>[ \t\r\n]{0,64})?)?(?:</?[a-z_|]{0,16})?)?"
    ),
    value_close="</ifm|arg_value>",
    call_close="</ifm|tool_call>",
    close="</ifm|tool_calls>",
)

_CALL, _CALLS = "<ifm|tool_call>", "<ifm|tool_calls>"
_tags = xml_calls(_SYNTAX)
_json = json_calls(close=(f"</{_CALL[1:]}</{_CALLS[1:]}", f"</{_CALL[1:]}\n</{_CALLS[1:]}", f"</{_CALL[1:]}"))

_OPENERS = (
    Opener(
        pattern=rf"(?:{re.escape(_CALLS)}[ \t\r\n]{{0,8}})?{re.escape(_CALL)}(?=[ \t\r\n]{{0,8}}[{{\[])",
        partial=rf"(?:{re.escape(_CALLS)}[ \t\r\n]{{0,8}})?(?:{beginnings(_CALL)}(?:(?<=call>)[ \t\r\n]{{0,8}})?)?",
        first="<",
        body=lambda sink, _: _json(sink),
    ),
    opener(_CALLS, _tags),
    opener(_CALL, _tags, consume=False),  # without the wrapper
)

# https://github.com/vllm-project/vllm (tests/tool_parsers/test_k2_horizon_tool_parser.py); the words are ours.
K2_HORIZON = Family(
    name="k2_horizon",
    about="as `glm47`, with `ifm|` in each tag, within `<ifm|tool_calls>`; or JSON there: K2 Horizon",
    models={"k2-horizon": "[sglang] k2_horizon"},
    auto_openers=_OPENERS,
    markup=Markup(closers=("</ifm|tool_calls>",), tags=(r"ifm\|",)),
    prompt="""\
# Tools

You may call the tools below. Each line is one of them, as JSON.

<tools>
{tools}
</tools>

To call tools, answer in this form. Strings stand in it as they are, other values as JSON:
{example}

"""
    + RESULTS_FOLLOW,
    write=TagWriter(
        Tags(
            opening="<ifm|tool_calls>",
            closing="</ifm|tool_calls>",
            call="<ifm|tool_call>{name}",
            call_end="</ifm|tool_call>",
            parameter="<ifm|arg_key>{key}</ifm|arg_key><ifm|arg_value>",
            parameter_end="</ifm|arg_value>",
            gap="",
            key=r"[^<]{1,256}",
        ),
        _OPENERS,
    ),
    answer="the calls between <ifm|tool_calls> and </ifm|tool_calls>",
    noun="tool",
    special_tokens=True,
)

FAMILIES = (K2_HORIZON,)
