"""Families that write calls as tags with a name behind `=`, in an attribute, or before its arguments.

    <tool_call>
    <function=lookup>
    <parameter=city>
    Paris
    </parameter>
    </function>
    </tool_call>

They differ in the tags, in line breaks and in the prompt. What they cannot write: tag_writing.py.
"""

from __future__ import annotations

from . import reading, tag_openers
from .family import Family, function
from .prompt.tool_results import tagged
from .syntax.xml import Tags, TagWriter

_glm = (*tag_openers.GLM, *reading.ANY_JSON)
_minicpm5 = (*tag_openers.MINICPM5, *reading.ANY_JSON)
_hy_v3 = (*tag_openers.HY_V3, *reading.ANY_JSON)
_solar_open2 = (*tag_openers.SOLAR_OPEN2, *reading.ANY_JSON)
_k2_horizon = (*tag_openers.K2_HORIZON, *reading.ANY_JSON)
_qwen3_coder = (*tag_openers.QWEN3_CODER, *reading.ANY_JSON)
_seed_oss = (*tag_openers.SEED_OSS, *reading.ANY_JSON)

_KEY = r"(?![\"'])[^>\n]{1,256}"  # quotes around it are markup
_FUNCTION = Tags(
    call="<tool_call>\n<function={name}>\n",
    call_end="</function>",
    tail="\n</tool_call>",
    parameter="<parameter={key}>",
    parameter_end="</parameter>",
    lines=True,
    key=_KEY,
)
_TOOL_RESPONSE = tagged("<tool_response>\n", "\n</tool_response>")
_TOOL_CALL = "the call within <tool_call></tool_call> tags"

_QWEN_PROMPT = """\
# Tools

You have access to the following functions%s:

<tools>
{tools}
</tools>

If you choose to call a function ONLY reply in the following format with NO suffix:

<tool_call>
<function=example_function_name>
<parameter=example_parameter_1>
value_1
</parameter>
<parameter=example_parameter_2>
This is the value for the second parameter
that can span
multiple lines
</parameter>
</function>
</tool_call>

<IMPORTANT>
Reminder:
- Function calls MUST follow the specified format: an inner <function=...></function> block must be nested within \
<tool_call></tool_call> XML tags
- Required parameters MUST be specified
%s</IMPORTANT>"""

_QWEN_MORE = """\
- You may provide optional reasoning for your function call in natural language BEFORE the function call, but NOT after
- If there is no function call available, answer the question like normal with your current knowledge and do not tell \
the user about function calls
"""

# The words are those of https://huggingface.co/Qwen/Qwen3-Coder-30B-A3B-Instruct; the tools stand there as JSON, as in
# Qwen 3.5's template: Qwen3-Coder's tags around descriptions have no way to escape one.
QWEN3_CODER = Family(
    name="qwen3_coder",
    about="`<function=f>` and `<parameter=x>` within `<tool_call>`: Qwen3-Coder, Qwen 3.5 and 3.6, Nemotron 3",
    openers=_qwen3_coder,
    prompt=_QWEN_PROMPT % ("", _QWEN_MORE),
    tool=function,
    write=TagWriter(_FUNCTION, _qwen3_coder),
    results=_TOOL_RESPONSE,
    answer=_TOOL_CALL,
)

# https://huggingface.co/stepfun-ai/Step-3.5-Flash (llama.cpp: models/templates/StepFun3.7-Flash.jinja)
STEP3P5 = Family(
    name="step3p5",
    about="as `qwen3_coder`: Step 3.5",
    openers=_qwen3_coder,
    prompt=_QWEN_PROMPT % (" in JSONSchema format", ""),
    tool=function,
    write=TagWriter(_FUNCTION, _qwen3_coder),
    results=tagged("<tool_response>", "</tool_response>", between=""),
    answer=_TOOL_CALL,
)

# https://huggingface.co/ByteDance-Seed/Seed-OSS-36B-Instruct: the variant of its template that lists tools as JSON.
SEED_OSS = Family(
    name="seed_oss",
    about="`<function=f>` and `<parameter=x>` within `<seed:tool_call>`: Seed OSS",
    openers=_seed_oss,
    prompt="""\
Tool List:
You are authorized to use the following tools (described in JSON Schema format). Before performing any task, you must \
decide how to call them based on the descriptions and parameters of these tools.
[{tools}]

工具调用请遵循如下格式:
<seed:tool_call>
<function=example_function_name>
<parameter=example_parameter_1>value_1</parameter>
<parameter=example_parameter_2>This is the value for the second parameter
that can span
multiple lines</parameter>
</function>
</seed:tool_call>""",
    tool=function,
    between=", ",
    write=TagWriter(
        Tags(
            call="<seed:tool_call>\n<function={name}>\n",
            call_end="</function>",
            tail="\n</seed:tool_call>",
            parameter="<parameter={key}>",
            parameter_end="</parameter>",
            key=_KEY,
        ),
        _seed_oss,
    ),
    answer="the call within <seed:tool_call></seed:tool_call> tags",
    noun="tool",
    special_tokens=True,
)

# https://github.com/OpenBMB/MiniCPM#with-tool-calling (the calls; the words are ours)
MINICPM5 = Family(
    name="minicpm5",
    about='`<function name="f">` and `<param name="x">`: MiniCPM 5',
    openers=_minicpm5,
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
            key=r"[^\"'>\n]{1,256}",
            xml=True,
        ),
        _minicpm5,
    ),
    answer="the call",
)

_GLM_PROMPT = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

For each function call, output the function name and arguments within the following XML format:
"""

# https://huggingface.co/zai-org/GLM-4.6 (llama.cpp: models/templates/GLM-4.6.jinja)
GLM45 = Family(
    name="glm45",
    about="the name, `<arg_key>` and `<arg_value>` within `<tool_call>`: GLM 4.5 and 4.6",
    openers=_glm,
    prompt=_GLM_PROMPT
    + """\
<tool_call>{function-name}
<arg_key>{arg-key-1}</arg_key>
<arg_value>{arg-value-1}</arg_value>
<arg_key>{arg-key-2}</arg_key>
<arg_value>{arg-value-2}</arg_value>
...
</tool_call>""",
    tool=function,
    write=TagWriter(
        Tags(
            call="<tool_call>{name}\n",
            call_end="</tool_call>",
            parameter="<arg_key>{key}</arg_key>\n<arg_value>",
            parameter_end="</arg_value>",
            key=r"[^<]{1,256}",
        ),
        _glm,
    ),
    results=_TOOL_RESPONSE,
    answer=_TOOL_CALL,
    special_tokens=True,
)

# https://huggingface.co/zai-org/GLM-4.7
GLM47 = Family(
    name="glm47",
    about="as `glm45`, on one line: GLM 4.7 and 5",
    openers=_glm,
    prompt=_GLM_PROMPT
    + """\
<tool_call>{function-name}<arg_key>{arg-key-1}</arg_key><arg_value>{arg-value-1}</arg_value>\
<arg_key>{arg-key-2}</arg_key><arg_value>{arg-value-2}</arg_value>...</tool_call>""",
    tool=function,
    write=TagWriter(
        Tags(
            between="",
            call="<tool_call>{name}",
            call_end="</tool_call>",
            parameter="<arg_key>{key}</arg_key><arg_value>",
            parameter_end="</arg_value>",
            gap="",
            key=r"[^<]{1,256}",
        ),
        _glm,
    ),
    results=tagged("<tool_response>", "</tool_response>", between=""),
    answer=_TOOL_CALL,
    special_tokens=True,
)

# https://huggingface.co/tencent/Hy3-preview (llama.cpp: models/templates/tencent-Hy3.jinja)
HY_V3 = Family(
    name="hy_v3",
    about="as `glm45`, with `<tool_sep>` behind the name, within `<tool_calls>`: Hunyuan 3",
    openers=_hy_v3,
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
        _hy_v3,
    ),
    results=tagged(
        "<tool_response:opensource>\n",
        "\n</tool_response:opensource>",
        before="<tool_responses:opensource>\n",
        after="\n</tool_responses:opensource>",
    ),
    answer="the calls between <tool_calls:opensource> and </tool_calls:opensource>",
    special_tokens=True,
)

# https://github.com/vllm-project/vllm (tests/tool_parsers/test_solar_open2_tool_parser.py); the words are ours.
SOLAR_OPEN2 = Family(
    name="solar_open2",
    about="the name, `<|tool_arg:start|>` and `<|tool_arg:value|>` within `<|tool_call:start|>`: Solar Open 2",
    openers=_solar_open2,
    prompt="""\
## Tools

You may invoke one or more tools to assist with the user's query. Available tools, in JSON Schema format:
{tools}

To invoke tools, answer in this form, with each argument on a line of its own:
{example}

The results come in the next message, each between <tool_result> and </tool_result>. Never write a result yourself.""",
    write=TagWriter(
        Tags(
            call="<|tool_call:start|>{name}\n",
            call_end="<|tool_call:end|>",
            parameter="<|tool_arg:start|>{key}<|tool_arg:value|>",
            parameter_end="<|tool_arg:end|>",
            key=r"[^<\n]{1,256}",
            more=("<|tool_",),
            exact=True,
        ),
        _solar_open2,
    ),
    answer="the tool calls",
    noun="tool",
    special_tokens=True,
)

# https://github.com/vllm-project/vllm (tests/tool_parsers/test_k2_horizon_tool_parser.py); the words are ours.
K2_HORIZON = Family(
    name="k2_horizon",
    about="as `glm47`, with `ifm|` in each tag, within `<ifm|tool_calls>`; or JSON there: K2 Horizon",
    openers=_k2_horizon,
    prompt="""\
# Tools

You may call the tools below. Each line is one of them, as JSON.

<tools>
{tools}
</tools>

To call tools, answer in this form. Strings stand in it as they are, other values as JSON:
{example}

The results come in the next message, each between <tool_result> and </tool_result>. Never write a result yourself.""",
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
        _k2_horizon,
    ),
    answer="the calls between <ifm|tool_calls> and </ifm|tool_calls>",
    noun="tool",
    special_tokens=True,
)
