"""Families that write a call's name outside of the JSON.

    [TOOL_CALLS]lookup[ARGS]{"city": "Paris"}

They differ in the markers around name and arguments. Arguments stand there verbatim. A name that holds white space,
quotes or brackets cannot be written so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ..model import Tool, ToolCall, ToolResult
from . import json_openers, openers, reading, tag_openers
from .family import Family, WriteCalls, definition, function
from .prompt import escaping
from .prompt.escaping import arguments_json
from .prompt.tool_results import said, tagged
from .prompt.tools_typescript import declared
from .syntax.json import short_id

_NAME = re.compile(r"[^\s<>{}\[\]\"'`|,;]{1,256}")
One = Callable[[int, ToolCall], str | None]
"""Writes one call, given its number in the turn; None where it has no way to."""


def _written(one: One, *, opening: str = "", closing: str = "", between: str = "") -> WriteCalls:
    def write(calls: Sequence[ToolCall]) -> str | None:
        written = [one(number, call) for number, call in enumerate(calls) if _NAME.fullmatch(call.name)]
        found = [text for text in written if text is not None]
        return opening + between.join(found) + closing if len(found) == len(calls) else None

    return write


def _mistral_results(results: Sequence[ToolResult]) -> str:
    """`[TOOL_RESULTS]id[TOOL_CONTENT]…[/TOOL_RESULTS]` for each."""
    blocks = (f"[TOOL_RESULTS]{short_id(result.id)}[TOOL_CONTENT]{said(result)}[/TOOL_RESULTS]" for result in results)
    return escaping.with_note(blocks, results)


# https://github.com/mistralai/mistral-common (InstructTokenizerV11 and V13: tools, calls and results)
MISTRAL_V11 = Family(
    name="mistral_v11",
    about="`[TOOL_CALLS]`, the name, `[ARGS]` and JSON: Mistral Small 3.2, Magistral, Devstral, Ministral 3",
    openers=(*openers.MISTRAL, *reading.ANY_JSON),
    prompt="""\
[AVAILABLE_TOOLS][{tools}][/AVAILABLE_TOOLS]

To call a tool, write [TOOL_CALLS], its name, [ARGS] and the arguments as a JSON object; several calls follow one \
another. For example:
{example}

The results come in the next message, between [TOOL_RESULTS] and [/TOOL_RESULTS]. Never write a result yourself.""",
    tool=function,
    between=", ",
    write=_written(lambda _, call: f"[TOOL_CALLS]{call.name}[ARGS]{arguments_json(call.arguments)}"),
    results=_mistral_results,
    trigger="[TOOL_CALLS]",
    answer="[TOOL_CALLS] and the call",
    noun="tool",
    special_tokens=True,
)

_DEEPSEEK = ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>")
_DEEPSEEK_CALLS = "the calls between <｜tool▁calls▁begin｜> and <｜tool▁calls▁end｜>"


def _deepseek_v3(_number: int, call: ToolCall) -> str:
    arguments = arguments_json(call.arguments)
    return f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>{call.name}\n```json\n{arguments}\n```<｜tool▁call▁end｜>"


# https://huggingface.co/deepseek-ai/DeepSeek-V3-0324 (vLLM: examples/tool_chat_template_deepseekv3.jinja)
DEEPSEEK_V3 = Family(
    name="deepseek_v3",
    about="`<｜tool▁call▁begin｜>`, the name and a JSON block: DeepSeek V3 and R1",
    openers=(*openers.DEEPSEEK, *reading.ANY_JSON),
    prompt="""\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

For function call returns, you should first print <｜tool▁calls▁begin｜>

For each function call, you should return object like:
<｜tool▁call▁begin｜>function<｜tool▁sep｜><function_name>
```json
<function_arguments_in_json_format>
```<｜tool▁call▁end｜>

At the end of function call returns, you should print <｜tool▁calls▁end｜><｜end▁of▁sentence｜>""",
    tool=function,
    write=_written(_deepseek_v3, opening=_DEEPSEEK[0], closing=_DEEPSEEK[1], between="\n"),
    results=tagged(
        "<｜tool▁output▁begin｜>",
        "<｜tool▁output▁end｜>",
        before="<｜tool▁outputs▁begin｜>",
        after="<｜tool▁outputs▁end｜>",
    ),
    trigger="<｜tool▁calls▁begin｜>",
    answer=_DEEPSEEK_CALLS,
    special_tokens=True,
)


def _deepseek_v31(_number: int, call: ToolCall) -> str:
    return f"<｜tool▁call▁begin｜>{call.name}<｜tool▁sep｜>{arguments_json(call.arguments)}<｜tool▁call▁end｜>"


# https://huggingface.co/deepseek-ai/DeepSeek-V3.1 (vLLM: examples/tool_chat_template_deepseekv31.jinja)
DEEPSEEK_V31 = Family(
    name="deepseek_v31",
    about="`<｜tool▁call▁begin｜>`, the name and bare JSON: DeepSeek V3.1",
    openers=(*openers.DEEPSEEK, *reading.ANY_JSON),
    prompt="""\
## Tools
You have access to the following tools:
{tools}

IMPORTANT: ALWAYS adhere to this exact format for tool use:
<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>tool_call_name<｜tool▁sep｜>tool_call_arguments<｜tool▁call▁end｜>\
{additional_tool_calls}<｜tool▁calls▁end｜>

Where:

- `tool_call_name` must be an exact match to one of the available tools
- `tool_call_arguments` must be valid JSON that strictly follows the tool's Parameters Schema
- For multiple tool calls, chain them directly without separators or spaces""",
    tool=function,
    write=_written(_deepseek_v31, opening=_DEEPSEEK[0], closing=_DEEPSEEK[1]),
    results=tagged("<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>", between=""),
    trigger="<｜tool▁calls▁begin｜>",
    answer=_DEEPSEEK_CALLS,
    noun="tool",
    special_tokens=True,
)


def _kimi(number: int, call: ToolCall) -> str:
    arguments = arguments_json(call.arguments)
    head = f"<|tool_call_begin|>functions.{call.name}:{number}<|tool_call_argument_begin|>"
    return f"{head}{arguments}<|tool_call_end|>"


# The calls are as https://huggingface.co/moonshotai/Kimi-K2-Instruct/blob/main/docs/tool_call_guidance.md has them; the
# tools stand there in a turn of their own.
KIMI_K2 = Family(
    name="kimi_k2",
    about="`functions.f:0` and JSON between `<|tool_call_…|>` markers: Kimi K2",
    openers=(*openers.KIMI_K2, *reading.ANY_JSON),
    prompt="""\
# Tools

You can call the following tools:
[{tools}]

To call tools, answer with a section of calls, each with the tool's name, its number counted from 0, and the arguments \
as a JSON object, for example:
{example}

The results come in the next message, each between <tool_result> and </tool_result>. Never write a result yourself.""",
    tool=function,
    between=", ",
    write=_written(_kimi, opening="<|tool_calls_section_begin|>", closing="<|tool_calls_section_end|>"),
    trigger="<|tool_calls_section_begin|>",
    answer="the section of calls",
    noun="tool",
    special_tokens=True,
)


def _solar(_number: int, call: ToolCall) -> str:
    head = f"<|tool_call:begin|>{short_id(call.id)}<|tool_call:name|>{call.name}"
    return f"{head}<|tool_call:args|>{arguments_json(call.arguments)}<|tool_call:end|>"


# https://huggingface.co/upstage/Solar-Open-100B (llama.cpp: models/templates/upstage-Solar-Open-100B.jinja)
SOLAR_OPEN = Family(
    name="solar_open",
    about="an id, the name and JSON between `<|tool_call:…|>` markers: Solar Open",
    openers=(*openers.SOLAR_OPEN, *reading.ANY_JSON),
    prompt="""\
## Tools

You may invoke one or more tools to assist with the user's query. Available tools, in JSON Schema format:
{tools}

For each tool call, return a JSON object with the following structure, enclosed within <|tool_call:begin|> and \
<|tool_call:end|> tags:
<|tool_call:begin|><tool-call-id><|tool_call:name|><tool-name><|tool_call:args|><args-json-object><|tool_call:end|>
- The <tool-call-id> must be a randomly generated string of lowercase letters (a-z) and/or digits (0-9)

For example:
{example}

The results come in the next message, each between <tool_result> and </tool_result>. Never write a result yourself.""",
    tool=lambda tool: f"<|tool:begin|>{definition(tool)}<|tool:end|>",
    write=_written(_solar),
    trigger="<|tool_call:begin|>",
    answer="the tool calls",
    noun="tool",
    special_tokens=True,
)


def _introduced(tool: Tool) -> str:
    what = escaping.neutralise(" ".join(tool.description.split()))
    return f"Use the function '{tool.name}' to '{what}'\n{definition(tool)}"


# https://huggingface.co/meetkai/functionary-medium-v3.1 and https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1/
# (user-defined custom tool calling)
FUNCTIONARY_V31 = Family(
    name="functionary_v31",
    about="`<function=f>`, JSON and `</function>`: Functionary v3.1",
    openers=(*json_openers.FUNCTIONARY_V31, *reading.ANY_JSON),
    prompt="""\
You have access to the following functions:

{tools}


Think very carefully before calling functions.
If a you choose to call a function ONLY reply in the following format:
<{start_tag}={function_name}>{parameters}{end_tag}
where

start_tag => `<function`
parameters => a JSON dict with the function argument name as key and function argument value as value.
end_tag => `</function>`

Here is an example,
<function=example_function_name>{"example_name": "example_value"}</function>

Reminder:
- Function calls MUST follow the specified format, start with <function= and end with </function>
- Required parameters MUST be specified
- Put the entire function call reply on one line""",
    tool=_introduced,
    between="\n\n",
    write=_written(lambda _, call: f"<function={call.name}>{arguments_json(call.arguments)}</function>"),
    trigger="<function=",
    answer="the call between <function= and </function>",
)


_RECIPIENT = re.compile(r"[A-Za-z_][\w.\-]{0,63}")


def _functionary_v32(_number: int, call: ToolCall) -> str | None:
    # Python's prompt looks the same: only a plain name with an object behind it is read.
    arguments = arguments_json(call.arguments)
    if not _RECIPIENT.fullmatch(call.name) or not arguments.startswith("{"):
        return None
    # `>>>all` on a line of its own addresses the user.
    return f">>>{call.name}{'' if call.name == 'all' else chr(10)}{arguments}"


# https://github.com/MeetKai/functionary (tests/prompt_test_v3.llama3.txt)
FUNCTIONARY_V32 = Family(
    name="functionary_v32",
    about="`>>>f`, a line break and JSON: Functionary v3.2",
    openers=(*openers.FUNCTIONARY_V32, *reading.ANY_JSON),
    prompt="""\
You are capable of executing available function(s) if required.
Only execute function(s) when absolutely necessary.
Ask for the required input to:recipient==all
Use JSON for function arguments.
Respond in this format:
>>>${recipient}
${content}
Available functions:
// Supported function definitions that should be called when necessary.
namespace functions {

{tools}

} // namespace functions""",
    tool=declared,
    between="\n\n",
    write=_written(_functionary_v32),
    trigger=">>>",
    answer=">>> and the call",
)

_SERVER = "generic-extras"  # where its template puts tools that it knows nothing of


def _mirothinker(_number: int, call: ToolCall) -> str:
    head = f"<server_name>{_SERVER}</server_name>\n<tool_name>{call.name}</tool_name>"
    return f"{head}\n<arguments>\n{arguments_json(call.arguments)}\n</arguments>"


# llama.cpp: models/templates/MiroThinker-v1.jinja (the calls; the words are ours)
MIROTHINKER = Family(
    name="mirothinker",
    about="`<tool_name>` and JSON in `<arguments>` within `<use_mcp_tool>`: MiroThinker",
    openers=(*tag_openers.MIROTHINKER, *reading.ANY_JSON),
    prompt=f"""\
# Tools

Tools belong to servers. These are the tools, each as one line of JSON:

## Server name: {_SERVER}
{{tools}}

To use a tool, name its server and itself and give its arguments as one JSON object, in these tags, at the end of your \
answer:
{{example}}

The results come in the next message, each between <tool_result> and </tool_result>. Never write a result yourself.""",
    write=_written(_mirothinker, opening="<use_mcp_tool>\n", closing="\n</use_mcp_tool>", between="\n"),
    trigger="<use_mcp_tool>",
    answer="the call within <use_mcp_tool></use_mcp_tool> tags",
    noun="tool",
)
