"""Families that write calls as `invoke` tags with attributes.

    <minimax:tool_call>
    <invoke name="lookup">
    <parameter name="city">Paris</parameter>
    </invoke>
    </minimax:tool_call>

They differ in the tags' prefix, in what stands around all calls and in the prompt. What they cannot write:
tag_writing.py.
"""

from __future__ import annotations

from ..model import Tool
from . import openers, reading, tag_openers
from .family import Family, definition, function
from .prompt.tool_results import tagged
from .prompt.tools_typescript import declared
from .syntax.xml import Tags, TagWriter

_deepseek_v32 = (*tag_openers.DEEPSEEK_V32, *reading.ANY_JSON)
_kimi_k3 = (*tag_openers.KIMI_K3, *reading.ANY_JSON)
_minimax = (*tag_openers.MINIMAX, *reading.ANY_JSON)
_step3 = (*tag_openers.STEP3, *reading.ANY_JSON)
_gigachat35 = (*tag_openers.GIGACHAT35, *reading.ANY_JSON)
_dots = (*tag_openers.DOTS, *reading.ANY_JSON)
_muse_glimmer = (*openers.MUSE_GLIMMER, *reading.ANY_JSON)


def _json_tool(tool: Tool) -> str:
    return f"<tool>{definition(tool)}</tool>"


# https://huggingface.co/MiniMaxAI/MiniMax-M2 (llama.cpp: models/templates/unsloth-MiniMax-M2.jinja)
MINIMAX_M2 = Family(
    name="minimax_m2",
    about='`<invoke name="f">` and `<parameter name="x">` within `<minimax:tool_call>`: MiniMax M2',
    openers=_minimax,
    prompt="""\
# Tools
You may call one or more tools to assist with the user query.
Here are the tools available in JSONSchema format:

<tools>
{tools}
</tools>

When making tool calls, use XML format to invoke tools and pass parameters:

<minimax:tool_call>
<invoke name="tool-name-1">
<parameter name="param-key-1">param-value-1</parameter>
<parameter name="param-key-2">param-value-2</parameter>
...
</invoke>
</minimax:tool_call>""",
    tool=_json_tool,
    write=TagWriter(
        Tags(
            opening="<minimax:tool_call>\n",
            closing="\n</minimax:tool_call>",
            call='<invoke name="{name}">\n',
            call_end="</invoke>",
            parameter='<parameter name="{key}">',
            parameter_end="</parameter>",
            key=r"[^\"'>\n]{1,256}",
        ),
        _minimax,
    ),
    results=tagged("<response>", "</response>"),
    answer="the call within <minimax:tool_call></minimax:tool_call> tags",
    noun="tool",
)


# https://huggingface.co/stepfun-ai/step3
STEP3 = Family(
    name="step3",
    about='`<steptml:invoke name="f">` within `<｜tool_calls_begin｜>`: Step 3',
    openers=_step3,
    prompt="""\
# Tools
You may call one or more tools to assist with the user query. You are provided with tool schemas within \
<tools></tools> XML tags:
<tools>
{tools}
</tools>
When making tool calls, use XML format to invoke tools and pass parameters:
<｜tool_calls_begin｜>
<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="tool_name0">\
<steptml:parameter name="parameter_name0">[parameter value]</steptml:parameter>...</steptml:invoke><｜tool_call_end｜>
<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="tool_name1">\
<steptml:parameter name="parameter_name1">[parameter value]</steptml:parameter>...</steptml:invoke><｜tool_call_end｜>
<｜tool_calls_end｜>
Note:
* You can invoke one or more tools in parallel.
* Each tool call must be complete and self-contained.""",
    tool=function,
    write=TagWriter(
        Tags(
            opening="<｜tool_calls_begin｜>\n",
            closing="\n<｜tool_calls_end｜>",
            call='<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">',
            call_end="</steptml:invoke>",
            tail="<｜tool_call_end｜>",
            parameter='<steptml:parameter name="{key}">',
            parameter_end="</steptml:parameter>",
            gap="",
            key=r"[^\"'>\n]{1,256}",
            more=("<parameter",),
        ),
        _step3,
    ),
    answer="the calls between <｜tool_calls_begin｜> and <｜tool_calls_end｜>",
    noun="tool",
    special_tokens=True,
)

# https://huggingface.co/deepseek-ai/DeepSeek-V3.2 (encoding_dsv32.py; llama.cpp: models/templates/DeepSeek-V3.2.jinja)
DEEPSEEK_V32 = Family(
    name="deepseek_v32",
    about='`<｜DSML｜invoke name="f">` within `<｜DSML｜function_calls>`: DeepSeek V3.2 and V4',
    openers=_deepseek_v32,
    prompt="""\
## Tools

You have access to a set of tools you can use to answer the user's question.
You can invoke functions by writing a "<｜DSML｜function_calls>" block like the following as part of your reply to the \
user:
<｜DSML｜function_calls>
<｜DSML｜invoke name="$FUNCTION_NAME">
<｜DSML｜parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</｜DSML｜parameter>
...
</｜DSML｜invoke>
<｜DSML｜invoke name="$FUNCTION_NAME2">
...
</｜DSML｜invoke>
</｜DSML｜function_calls>

String and scalar parameters should be specified as is without any escaping or quotes, while lists and objects should \
use JSON format. The "string" attribute should be set to "true" for string type parameters and "false" for other types \
(numbers, booleans, arrays, objects).

Here are the functions available in JSONSchema format:
<functions>
{tools}
</functions>""",
    write=TagWriter(
        Tags(
            opening="<｜DSML｜function_calls>\n",
            closing="\n</｜DSML｜function_calls>",
            call='<｜DSML｜invoke name="{name}">\n',
            call_end="</｜DSML｜invoke>",
            parameter='<｜DSML｜parameter name="{key}" string="{kind}">',
            parameter_end="</｜DSML｜parameter>",
            key=r"[^\"'>\n]{1,256}",
            more=("<parameter",),
            exact=True,
        ),
        _deepseek_v32,
    ),
    results=tagged("<result>", "</result>", before="<function_results>\n", after="\n</function_results>"),
    answer="the <｜DSML｜function_calls> block",
    special_tokens=True,
)

# https://huggingface.co/moonshotai/Kimi-K3 (llama.cpp: models/templates/Kimi-K3.jinja): the tools stand there in a
# message of their own; it does not say how to call.
KIMI_K3 = Family(
    name="kimi_k3",
    about='`<|open|>call tool="f"<|sep|>` and `<|open|>argument key="x"<|sep|>`: Kimi K3',
    openers=_kimi_k3,
    prompt="""\
# Tools
Here are the available tools, described in JSONSchema.

```json
[{tools}]
```

To call tools, answer in this form, one argument element for each argument, with its type; strings as they are, other \
values as JSON:
{example}

The results come in the next message, each between <tool_result> and </tool_result>. Never write a result yourself.""",
    tool=function,
    between=",",
    write=TagWriter(
        Tags(
            opening="<|open|>tools<|sep|>",
            closing="<|close|>tools<|sep|>",
            between="",
            call='<|open|>call tool="{name}" index="{number}"<|sep|>',
            call_end="<|close|>call<|sep|>",
            parameter='<|open|>argument key="{key}" type="{type}"<|sep|>',
            parameter_end="<|close|>argument<|sep|>",
            gap="",
            key=r"[^\"&\n]{1,256}",
            more=("<|open|>",),
            exact=True,
        ),
        _kimi_k3,
    ),
    answer="the tools section",
    noun="tool",
    special_tokens=True,
)

# https://github.com/sgl-project/sglang (function_call/gigachat35_detector.py) and llama.cpp (models/templates/
# GigaChat3.5.jinja), where the tools stand as TypeScript: the words are ours.
GIGACHAT35 = Family(
    name="gigachat35",
    about='`<｜GCML｜invoke name="f">` within `<｜GCML｜tool_calls>`: GigaChat 3.5',
    openers=_gigachat35,
    prompt="""\
# Tools

namespace functions {

{tools}

} // namespace functions

To call functions, answer with a block in this form. The attribute string is "true" for strings, which stand there as \
they are, and "false" for all other values, which stand there as JSON:
{example}

The results come in the next message, each between <tool_result> and </tool_result>. Never write a result yourself.""",
    tool=declared,
    between="\n\n",
    write=TagWriter(
        Tags(
            opening="<｜GCML｜tool_calls>\n",
            closing="\n</｜GCML｜tool_calls>",
            call='<｜GCML｜invoke name="{name}">\n',
            call_end="</｜GCML｜invoke>",
            parameter='<｜GCML｜parameter name="{key}" string="{kind}">',
            parameter_end="</｜GCML｜parameter>",
            key=r"[^\"'>\n]{1,256}",
            more=("<parameter",),
            exact=True,
        ),
        _gigachat35,
    ),
    answer="the <｜GCML｜tool_calls> block",
    special_tokens=True,
)

# https://github.com/vllm-project/vllm (tests/tool_parsers/test_dots_tool_parser.py); the words are ours.
DOTS = Family(
    name="dots",
    about='`<invoke name="f">` and `<parameter name="x">` within `<dots_function_call>`: dots.llm',
    openers=_dots,
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
        _dots,
    ),
    answer="the call within <dots_function_call></dots_function_call> tags",
    special_tokens=True,
)

# https://github.com/vllm-project/vllm (tests/parser/engine/test_muse_glimmer.py). A turn is a sequence of messages with
# recipients, which the template writes; the words are ours.
MUSE_GLIMMER = Family(
    name="muse_glimmer",
    about='`<atem:invoke name="f">` within `<atem:function_calls>`, in messages to a tool: Muse Glimmer',
    openers=_muse_glimmer,
    prompt="""\
# Tools

You may call the functions below. Each line is one of them, as JSON.

<functions>
{tools}
</functions>

To call functions, answer with a block in this form. Strings stand in it as they are, other values as JSON:
{example}

The results come in the next message, each between <tool_result> and </tool_result>. Never write a result yourself.""",
    write=TagWriter(
        Tags(
            opening="<atem:function_calls>\n",
            closing="\n</atem:function_calls>",
            call='<atem:invoke name="{name}">\n',
            call_end="</atem:invoke>",
            parameter='<atem:parameter name="{key}">',
            parameter_end="</atem:parameter>",
            key=r"[^\"'>\n]{1,256}",
            more=("<parameter",),
        ),
        _muse_glimmer,
    ),
    answer="the <atem:function_calls> block",
    special_tokens=True,
)
