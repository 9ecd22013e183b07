"""Tencent's Hunyuan: a JSON list (A13B), or GLM's tags with a wrapper and a separator (3), within `<tool_calls>`.

Sources: the models' chat templates, and the parsers of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

import re

from .. import reading
from ..family import Family
from ..markup import Markup
from ..prompt.tool_results import between_tags
from ..prompt.tools_json import function
from ..syntax.json import listed
from ..syntax.openers import fork, ignored, opener, shared, xml_calls
from ..syntax.xml import Tags, TagWriter
from ..syntax.xml_tags import XmlSyntax, xml_syntax
from .glm import TOOL_CALL
from .jamba import LIST

_MARKUP = Markup(
    reasoning=(("<think:opensource>", "</think:opensource>"),),
    stops=("<tool_responses:opensource>", "<tool_responses>"),
)


def _hy_v3(kind: str) -> XmlSyntax:
    """As GLM's, a separator behind the name, a wrapper around all calls; each tag's name with `kind` behind it."""
    ws, name = r"[ \t\r\n]{0,64}", r"[^\s<>{}\[\]\"'`]{1,256}"
    key, end = f"<arg_key{kind}>", f"</tool_call{kind}>"
    return xml_syntax(
        call=re.compile(rf"<tool_call{kind}>{ws}(?P<name>{name}){ws}(?:<tool_sep{kind}>|(?={key}|{end}))"),
        call_heads=(f"<tool_call{kind}>",),
        call_part=re.compile(rf"<tool_call{kind}>{ws}(?:{name}{ws}(?:<[/a-z_:]{{0,32}})?)?"),
        parameter=re.compile(rf"(?:{key}{ws}){{1,4}}(?P<key>[^<]{{1,256}})</arg_key{kind}>"),
        parameter_heads=(key,),
        parameter_part=re.compile(rf"(?:{key}{ws}){{1,4}}[^<]{{0,256}}(?:</?[a-z_:]{{0,32}})?"),
        key_close=f"</arg_key{kind}>",
        value_open=f"<arg_value{kind}>",
        value_close=f"</arg_value{kind}>",
        call_close=end,
        close=f"</tool_calls{kind}>",
    )


_tags = xml_calls(_hy_v3(""))
_OPEN = opener("<tool_calls:opensource>", xml_calls(_hy_v3(":opensource")))  # the tokens of the published models
_OPENERS = (
    _OPEN,
    shared("<tool_calls>", _tags, "<"),
    TOOL_CALL,  # without the wrapper
)

# https://huggingface.co/tencent/Hy3-preview (llama.cpp: models/templates/tencent-Hy3.jinja)
HY_V3 = Family(
    name="hy_v3",
    about="as `glm45`, with `<tool_sep>` behind the name, within `<tool_calls>`: Hunyuan 3",
    models={"hy3": "[vllm] hy_v3"},
    auto_openers=_OPENERS,
    markup=_MARKUP,
    prompt="""\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

For function call returns, you should first print <tool_calls:opensource>
For each function call, you should return object like:
<tool_call:opensource>{function-name}<tool_sep:opensource>
<arg_key:opensource>{arg-key-1}</arg_key:opensource>
<arg_value:opensource>{arg-value-1}</arg_value:opensource>
<arg_key:opensource>{arg-key-2}</arg_key:opensource>
<arg_value:opensource>{arg-value-2}</arg_value:opensource>
...
</tool_call:opensource>
At the end of function call returns, you should print </tool_calls:opensource>""",
    tool=function,
    write=TagWriter(
        Tags(
            opening="<tool_calls:opensource>\n",
            closing="\n</tool_calls:opensource>",
            call="<tool_call:opensource>{name}<tool_sep:opensource>\n",
            call_end="</tool_call:opensource>",
            parameter="<arg_key:opensource>{key}</arg_key:opensource>\n<arg_value:opensource>",
            parameter_end="</arg_value:opensource>",
            key=r"[^<]{1,256}",
        ),
        _OPENERS,
    ),
    results=between_tags(
        "<tool_response:opensource>\n",
        "\n</tool_response:opensource>",
        before="<tool_responses:opensource>\n",
        after="\n</tool_responses:opensource>",
    ),
    answer="the calls between <tool_calls:opensource> and </tool_calls:opensource>",
    special_tokens=True,
)

# https://huggingface.co/tencent/Hunyuan-A13B-Instruct (vLLM: examples/tool_chat_template_hunyuan_a13b.jinja)
HUNYUAN = Family(
    name="hunyuan",
    about="a JSON list within `<tool_calls>` tags: Hunyuan A13B",
    models={"hunyuan": "[vllm] hunyuan_a13b"},
    own_openers=(
        opener("<tool_calls>", fork((r"<", _tags), (r"", LIST))),  # one name stands for both in the engines
        _OPEN,
        TOOL_CALL,
        ignored("<answer>"),
        ignored("</answer>"),
    ),
    fallback=reading.BARE_JSON,
    markup=_MARKUP,
    prompt="""\
你是一位函数组合专家。你会得到一个问题和一组可能的函数。根据问题，你需要进行一个或多个函数/工具调用以实现目的。
如果没有一个函数可以使用，请直接使用自然语言回复用户。
如果给定的问题缺少函数所需的参数，请使用自然语言进行提问，向用户询问必要信息。
如果调用结果已经足够回答用户问题，请对历史结果进行总结，使用自然语言回复用户。
你应该只在工具调用部分返回函数调用。如果你决定调用任何函数，你必须将其格式化为<tool_calls>[{"name": "func_name1", \
"arguments": {"argument1": "value1", "argument2": "value2"}},...]</tool_calls>。你不应该在回复中包含任何其他文本。\
以下是你可以调用的函数列表，格式为JSON。

[{tools}]""",
    tool=function,
    between=", ",
    write=listed("<tool_calls>[", "]</tool_calls>"),
    results=between_tags("<tool_response>", "</tool_response>"),
    trigger="<tool_calls>",
    answer="the list of calls within <tool_calls></tool_calls> tags",
)

FAMILIES = (HUNYUAN, HY_V3)
