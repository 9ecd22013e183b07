"""Families that write calls as JSON objects between two tags.

    <tool_call>
    {"name": "lookup", "arguments": {"city": "Paris"}}
    </tool_call>

They differ in the tags, in whether the objects stand in a list, and in the prompt. The layouts, spaces in JSON
included, are those of the chat templates that each entry names: it is what the models have seen in training.
"""

from __future__ import annotations

from dataclasses import replace

from ..model import Tool
from . import json_openers, reading, tag_openers
from .family import Family, function
from .prompt import escaping
from .prompt.tool_results import json_list, tagged
from .syntax.json import each, listed

_TOOL_RESPONSE = tagged("<tool_response>\n", "\n</tool_response>")
_TAGS = "the call within <tool_call></tool_call> tags"

# The layout of Qwen's template, after Hermes 2 Pro's. https://huggingface.co/Qwen/Qwen2.5-7B-Instruct
HERMES = Family(
    name="hermes",
    about="JSON objects within `<tool_call>` tags: Hermes 2 Pro and 3, Qwen 2.5 and 3, and the many trained alike",
    openers=(*json_openers.HERMES, *reading.BARE_JSON),
    prompt="""\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>""",
    tool=function,
    write=each("<tool_call>\n", "\n</tool_call>"),
    results=_TOOL_RESPONSE,
    trigger="<tool_call>",
    answer=_TAGS,
)

# https://huggingface.co/RekaAI/reka-edge-2603 (llama.cpp: models/templates/Reka-Edge.jinja): calls as Hermes has them.
REKA = replace(HERMES, name="reka", about="as `hermes`: Reka Edge")

# https://huggingface.co/ibm-granite/granite-4.0-h-small
GRANITE4 = Family(
    name="granite4",
    about="JSON objects within `<tool_call>` tags: Granite 4",
    openers=(*json_openers.HERMES, *reading.BARE_JSON),
    prompt="""\
You have access to the following tools. You may call one or more tools to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

For each tool call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>. If a tool does not exist in the provided list of tools, notify the user that you do not have the \
ability to fulfill the request.""",
    tool=function,
    write=each("<tool_call>\n", "\n</tool_call>"),
    results=_TOOL_RESPONSE,
    trigger="<tool_call>",
    answer=_TAGS,
    noun="tool",
)

# The list and the outputs' tags are the template's; it does not say how to call.
# https://huggingface.co/baidu/ERNIE-4.5-21B-A3B-Thinking
ERNIE45 = Family(
    name="ernie45",
    about="JSON objects within `<tool_call>` tags: ERNIE 4.5",
    openers=(*json_openers.ERNIE45, *reading.BARE_JSON),
    prompt="""\
<tool_list>
[{tools}]
</tool_list>

To call a tool, answer with its name and arguments within <tool_call></tool_call> tags, for example:
{example}""",
    tool=function,
    between=", ",
    write=each("<tool_call>\n", "\n</tool_call>"),
    results=tagged("<tool_output>\n", "\n</tool_output>"),
    trigger="<tool_call>",
    answer=_TAGS,
    noun="tool",
)


def _longcat_tool(tool: Tool) -> str:
    described = escaping.describe(tool)
    schema = escaping.as_data(escaping.dump_indented(described["parameters"], indent=2))
    text = escaping.neutralise(tool.description)
    return f"#### Tool name: {tool.name}\n\nDescription: {text}\n\nInputSchema: \n{schema}"


# https://huggingface.co/meituan-longcat/LongCat-Flash-Chat (model card, "ToolCall")
LONGCAT = Family(
    name="longcat",
    about="JSON objects within `<longcat_tool_call>` tags: LongCat Flash",
    openers=(*tag_openers.LONGCAT, *reading.BARE_JSON),
    prompt="""\
## Tools
You have access to the following tools:\x20

### Tool namespace: function

{tools}

**Note**: For each function call, return a json object with function name and arguments within \
<longcat_tool_call></longcat_tool_call> XML tags as follows:
<longcat_tool_call>
{"name": <function-name>, "arguments": <args-dict>}
</longcat_tool_call>
When multiple functions need to be called simultaneously, each function call should be wrapped in its own \
<longcat_tool_call> tag and placed consecutively. For example:
<longcat_tool_call>
{"name": <function-name>, "arguments": <args-dict>}
</longcat_tool_call><longcat_tool_call>
{"name": <function-name>, "arguments": <args-dict>}
</longcat_tool_call>""",
    tool=_longcat_tool,
    between="\n\n",
    write=each("<longcat_tool_call>\n", "\n</longcat_tool_call>", between=""),
    trigger="<longcat_tool_call>",
    answer="the call within <longcat_tool_call></longcat_tool_call> tags",
    special_tokens=True,
)

# Its template lists the tools in a turn of their own; the calls and their list are as it writes them.
# https://huggingface.co/ai21labs/AI21-Jamba-1.5-Mini
JAMBA = Family(
    name="jamba",
    about="a JSON list within `<tool_calls>` tags: Jamba 1.5 and later",
    openers=(*json_openers.JAMBA, *reading.BARE_JSON),
    prompt="""\
You have access to the following tools:
[
    {tools}
]

To call tools, answer with a JSON list of calls within <tool_calls></tool_calls> tags, for example:
{example}

The results come in the next message, each between <tool_result> and </tool_result>. Never write a result yourself.""",
    between=",\n    ",
    write=listed("<tool_calls>[\n    ", "\n]</tool_calls>", between=",\n    "),
    trigger="<tool_calls>",
    answer="the list of calls within <tool_calls></tool_calls> tags",
    noun="tool",
    special_tokens=True,
)

# https://huggingface.co/tencent/Hunyuan-A13B-Instruct (vLLM: examples/tool_chat_template_hunyuan_a13b.jinja)
HUNYUAN = Family(
    name="hunyuan",
    about="a JSON list within `<tool_calls>` tags: Hunyuan A13B",
    openers=(*tag_openers.HUNYUAN, *reading.BARE_JSON),
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
    results=tagged("<tool_response>", "</tool_response>"),
    trigger="<tool_calls>",
    answer="the list of calls within <tool_calls></tool_calls> tags",
)

# https://huggingface.co/nvidia/NVIDIA-Nemotron-Nano-9B-v2 (llama.cpp: models/templates/NVIDIA-Nemotron-Nano-v2.jinja)
NEMOTRON = Family(
    name="nemotron",
    about="a JSON list within `<TOOLCALL>` tags: Nemotron Nano v2, Llama-Nemotron Super",
    openers=(*json_openers.NEMOTRON, *reading.BARE_JSON),
    prompt="""\
You can use the following tools to assist the user if required:
<AVAILABLE_TOOLS>[{tools}]</AVAILABLE_TOOLS>

If you decide to call any tool(s), use the following format:
<TOOLCALL>[{{"name": "tool_name1", "arguments": "tool_args1"}}, \
{{"name": "tool_name2", "arguments": "tool_args2"}}]</TOOLCALL>

The user will execute tool-calls and return responses from tool(s) in this format:
<TOOL_RESPONSE>[{{"tool_response1"}}, {{"tool_response2"}}]</TOOL_RESPONSE>

Based on the tool responses, you can call additional tools if needed, correct tool calls if any errors are found, or \
just respond to the user.""",
    between=", ",
    write=listed("<TOOLCALL>[", "]</TOOLCALL>"),
    results=json_list("<TOOL_RESPONSE>", "</TOOL_RESPONSE>"),
    trigger="<TOOLCALL>",
    answer="the list of calls within <TOOLCALL></TOOLCALL> tags",
    noun="tool",
)
