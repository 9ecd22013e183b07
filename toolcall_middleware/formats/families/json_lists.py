"""Models that write JSON after a marker, most of them a list."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from ...json_schema import compact
from ...model import ToolResult
from ...parsing.cursor import read_thought
from ...parsing.text.grammar import Opener, Where
from ..base import Constraint
from ..family import Family
from ..markup import Escape, Markup
from ..prompt import escaping
from ..prompt.thoughts import between
from ..prompt.tool_results import RESULTS_FOLLOW, between_tags, json_each, json_list, said
from ..prompt.tools import declared, function, function_indented
from ..syntax.json import CALL, PARAMETERS, TOOL_CALL, TOOL_CALL_JSON, Json
from ..syntax.shape import ANY_JSON, ignored, opener
from .named import MISTRAL_OPENERS

# -- Granite -----------------------------------------------------------------------------------------------------------
# IBM's Granite: version 4 as Hermes, version 3 as a JSON list after a token, the 20B as an object after a tag.

_GRANITE_MARKUP = Markup(
    stops=("<|start_of_role|>", "<function_response>"),
    ends=("<|end_of_text|>",),
    tags=("function_(?:call|result|response)",),
)

_GRANITE_LIST = Json(open="<|tool_call|>[", between=", ", close="]", ends=("<|/tool_call|>",))
_PIPED = _GRANITE_LIST.shared("")

# https://huggingface.co/ibm-granite/granite-4.0-h-small
GRANITE4 = Family(
    name="granite4",
    about="JSON objects within `<tool_call>` tags: Granite 4",
    models={"granite4": "[vllm] granite4"},
    calls=TOOL_CALL,
    auto_openers=(TOOL_CALL_JSON,),
    markup=_GRANITE_MARKUP,
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
    results=between_tags("<tool_response>\n", "\n</tool_response>"),
    noun="tool",
)

# https://huggingface.co/ibm-granite/granite-3.1-8b-instruct, whose tools are in a turn of their own.
GRANITE = Family(
    name="granite",
    about="a JSON list after `<|tool_call|>`: Granite 3",
    models={"granite3": "[vllm] granite"},
    calls=_GRANITE_LIST,
    auto_openers=(_PIPED, TOOL_CALL_JSON),
    markup=_GRANITE_MARKUP,
    prompt="""\
You have access to the following tools. When a tool is required to answer the user's query, respond with <|tool_call|> \
followed by a JSON list of tools used. If a tool does not exist in the provided list of tools, notify the user that \
you do not have the ability to fulfill the request.

[{tools}]

A tool call looks like this:
{example}""",
    between=",\n",
    noun="tool",
)

# https://huggingface.co/ibm-granite/granite-20b-functioncalling
GRANITE_20B_FC = Family(
    name="granite_20b_fc",
    about="`<function_call>` and a JSON object, one a line: granite-20b-functioncalling",
    models={"granite20b-functioncalling": "[vllm] granite-20b-fc"},
    calls=Json(call=f"<function_call> {CALL}", ends=("</function_call>",)),
    markup=_GRANITE_MARKUP,
    prompt="""\
You are a helpful assistant with access to the following function calls. Your task is to produce a sequence of \
function calls necessary to generate response to the user utterance. Use the following function calls as required.
<|function_call_library|>
{tools}

A function call looks like this:
{example}

If none of the functions are relevant, or when the results say enough, answer in natural language.""",
    results=json_each("<function_response> ", ""),
    special_tokens=True,
)


# -- Phi ---------------------------------------------------------------------------------------------------------------
# Microsoft's Phi 4 mini: a JSON list after the word `functools`.

_PHI_LIST = Json(open="functools[", between=", ", close="]")

# https://huggingface.co/microsoft/Phi-4-mini-instruct (vLLM: examples/tool_chat_template_phi4_mini.jinja)
PHI4_MINI = Family(
    name="phi4_mini",
    about="a JSON list after `functools`: Phi 4 mini",
    models={"phi4-mini": "vLLM: phi4_mini_json, examples/tool_chat_template_phi4_mini.jinja"},
    alike={"firefunction-v2": "[llama.cpp] llama-3-firefunction-v2"},
    calls=_PHI_LIST,
    auto_openers=(
        *_PHI_LIST.openers,
        _PIPED,  # the tokenizer's own marker, which prompts differ about
        *Json(open="<|tool_calls|>[", close="]<|/tool_calls|>").openers,
    ),
    markup=Markup(escapes=(Escape("functools", r"\["),)),
    prompt="""\
In addition to plain text responses, you can choose to call one or more of the provided functions.

Use the following rule to decide when to call a function:
  * if the response can be generated from your internal knowledge (e.g., as in the case of queries like "What is the \
capital of Poland?"), do so
  * if you need external information that can be obtained by calling one or more of the provided functions, generate a \
function calls

If you decide to call functions:
  * prefix function calls with functools marker (no closing marker required)
  * all function calls should be generated in a single JSON list formatted as \
functools[{"name": [function name], "arguments": [function arguments as JSON]}, ...]
  * follow the provided JSON schema. Do not hallucinate arguments or values. Do not blindly copy values from the \
provided samples
  * respect the argument type formatting. E.g., if the type is number and format is float, write value 7 as 7.0
  * make sure you pick the right functions that match the user intent

{tools}""",
    tool=function,
    results=json_each('{"result": ', "}"),
)


# -- InternLM ----------------------------------------------------------------------------------------------------------
# Shanghai AI Lab's InternLM: JSON objects between `<|action_start|><|plugin|>` and `<|action_end|>`.

# The calls are as its template writes them; the tools are there in a turn of their own.
# https://github.com/InternLM/InternLM/blob/main/chat/chat_format.md
INTERNLM = Family(
    name="internlm",
    about="JSON objects between `<|action_start|><|plugin|>` and `<|action_end|>`: InternLM 2 and 3, Intern-S1",
    models={
        "internlm2": "[vllm] internlm: 2 and 2.5",
        "internlm3": "[card] InternLM 3",
        "intern-s1": "[sglang] interns1",
    },
    calls=Json(call=f"<|action_start|><|plugin|>\n{PARAMETERS}<|action_end|>", between=""),
    prompt="""\
You can call the following functions:
[{tools}]

To call a function, answer with its name and parameters in this form:
{example}

The result comes in the next message, between <tool_result> and </tool_result>. Never write a result yourself. When \
no function fits, answer in plain text.""",
    between=", ",
)


# -- Jamba -------------------------------------------------------------------------------------------------------------
# AI21's Jamba: a JSON list within `<tool_calls>`.

_JAMBA_LIST = Json(open="<tool_calls>[\n    ", between=",\n    ", close="\n]</tool_calls>")

# Its template lists the tools in a turn of their own; the calls and their list are as it writes them.
# https://huggingface.co/ai21labs/AI21-Jamba-1.5-Mini
JAMBA = Family(
    name="jamba",
    about="a JSON list within `<tool_calls>` tags: Jamba 1.5 and later",
    models={"jamba": "[vllm] jamba"},
    alike={"apriel": "[llama.cpp] Apriel 1.5: a JSON list within <tool_calls>"},
    calls=_JAMBA_LIST,
    auto_openers=(_JAMBA_LIST.shared(""),),
    prompt="""\
You have access to the following tools:
[
    {tools}
]

To call tools, answer with a JSON list of calls within <tool_calls></tool_calls> tags, for example:
{example}

"""
    + RESULTS_FOLLOW,
    between=",\n    ",
    noun="tool",
    special_tokens=True,
)


# -- Nemotron ----------------------------------------------------------------------------------------------------------
# NVIDIA's Nemotron: a JSON list within `<TOOLCALL>`.

_NEMOTRON_LIST = Json(open="<TOOLCALL>[", between=", ", close="]</TOOLCALL>")
_MINI = Json(open="<toolcall>[", close="]</toolcall>")  # Nemotron Mini

# https://huggingface.co/nvidia/NVIDIA-Nemotron-Nano-9B-v2 (llama.cpp: models/templates/NVIDIA-Nemotron-Nano-v2.jinja)
NEMOTRON = Family(
    name="nemotron",
    about="a JSON list within `<TOOLCALL>` tags: Nemotron Nano v2, Llama-Nemotron Super",
    fine_tunes={"nemotron": "[llama.cpp] NVIDIA-Nemotron-Nano-v2, Llama-3_3-Nemotron-Super-49B-v1_5"},
    calls=_NEMOTRON_LIST,
    auto_openers=(*_NEMOTRON_LIST.openers, *_MINI.openers),
    markup=Markup(
        stops=("<TOOL_RESPONSE>",),
        ends=("<SPECIAL_12>",),
        tags=("(?i:toolcall>)", r"(?:SPECIAL|extra_id)_\d{1,3}>"),
    ),
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
    results=json_list("<TOOL_RESPONSE>", "</TOOL_RESPONSE>"),
    noun="tool",
)


# -- xLAM --------------------------------------------------------------------------------------------------------------
# Salesforce's xLAM: a bare JSON list. Trained upon several bases, it also writes their markers.

_XLAM_CALLS = Json(open="[", between=", ", close="]")
_XLAM_LIST = Opener(
    pattern=r"\[[ \t\r\n]{0,32}\{[ \t\r\n]{0,32}[\"']name[\"'][ \t\r\n]{0,32}:",
    where=Where.FENCE,
    consume=False,
    body=_XLAM_CALLS,
    fences=frozenset({"json"}),
)

# https://huggingface.co/Salesforce/Llama-xLAM-2-8b-fc-r (vLLM: examples/tool_chat_template_xlam_llama.jinja)
XLAM = Family(
    name="xlam",
    about="a bare JSON list: xLAM",
    fine_tunes={
        "xlam": "[vllm] xlam",
        "llama-xlam": "[vllm] xlam",
    },
    calls=_XLAM_CALLS,
    own_openers=(
        *MISTRAL_OPENERS,
        TOOL_CALL_JSON,
        _XLAM_LIST,  # besides the bare list that is the whole answer: a block after text
    ),
    prompt="""\
You have access to a set of tools. When using tools, make calls in a single JSON array:\x20

[{"name": "tool_call_name", "arguments": {"arg1": "value1", "arg2": "value2"}}, ... (additional parallel tool calls as \
needed)]

If no tool is suitable, state that explicitly. If the user's input lacks required parameters, ask for clarification. \
Do not interpret or respond until tool results are returned. Once they are available, process them or make additional \
calls if needed. For tasks that don't require tools, such as casual conversation or general advice, respond directly \
in plain text. The available tools are:

{tools}""",
    tool=function_indented,
    between="\n\n",
    answer="the JSON array of calls",
    noun="tool",
    constrain=lambda tools, parallel: Constraint("tool_calls", compact.call_list_schema(tools, parallel=parallel)),
)


# -- Command -----------------------------------------------------------------------------------------------------------
# Cohere's Command: a JSON list between tokens (Command A and R7B), or after the word `Action:` (R and R+).

_COHERE_MARKUP = Markup(
    stops=("<|START_TOOL_RESULT|>",),
    ends=("<|END_OF_TURN_TOKEN|>",),
    noise=("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"),
    escapes=(Escape("Action:", r"\s{0,8}(?:```|\[\s{0,32}\{)"),),
)


def _numbered_results(results: Sequence[ToolResult]) -> str:
    if not results:
        return ""
    entries = ",\n".join(
        f"""\
    {{
        "tool_call_id": "{number}",
        "results": {{
            "0": {escaping.dump_spaced(said(result))}
        }},
        "is_error": {"true" if result.is_error else "null"}
    }}"""
        for number, result in enumerate(results)
    )
    return escaping.with_note(f"<|START_TOOL_RESULT|>[\n{entries}\n]<|END_TOOL_RESULT|>", results)


# https://huggingface.co/CohereLabs/c4ai-command-r7b-12-2024: its template for tools, shortened (it says at length when
# to think).
COHERE_COMMAND3 = Family(
    name="cohere_command3",
    about="a JSON list between `<|START_ACTION|>` and `<|END_ACTION|>`: Command R7B, Command A",
    models={
        "command-r7b": "[llama.cpp] Command R7B",
        "command-a": "[vllm] cohere_command3",
    },
    calls=Json(
        open="<|START_ACTION|>[\n    ",
        call='{"tool_call_id": "{number}", "tool_name": "{name}", "parameters": {arguments}}',
        between=",\n    ",
        close="\n]<|END_ACTION|>",
    ),
    markup=_COHERE_MARKUP,
    thoughts=between("<|START_THINKING|>", "<|END_THINKING|>"),
    prompt="""\
## Tool Use
1. Action: write <|START_ACTION|> followed by a list of JSON-formatted tool calls, with each one containing \
"tool_name" and "parameters" fields.
    When there are multiple tool calls which are completely independent of each other (i.e. they can be executed in \
parallel), you should list them out all together in one step. When you finish, close it out with <|END_ACTION|>. For \
example:
{example}
2. Observation: you will then receive results of those tool calls in JSON format in the very next turn, wrapped around \
by <|START_TOOL_RESULT|> and <|END_TOOL_RESULT|>. Carefully observe those results and think about what to do next. \
NEVER hallucinate results.

You can repeat these steps multiple times (could be 0 times too if no suitable tool calls are available or needed), \
until you decide it's time to finally respond to the user.

## Available Tools
Here is the list of tools that you have available to you.
You can ONLY use the tools listed here. When a tool is not listed below, it is NOT available and you should NEVER \
attempt to use it.
Each tool is represented as a JSON object with fields like "name", "description", "parameters" (per JSON Schema).

```json
[
    {tools}
]
```""",
    between=",\n    ",
    results=_numbered_results,
    noun="tool",
)

# Calls as Command A has them; answers are between other tags (llama.cpp: models/templates/Cohere2MoE.jinja).
COHERE_COMMAND4 = replace(
    COHERE_COMMAND3,
    name="cohere_command4",
    about="as `cohere_command3`: North Mini Code",
    models={"north-mini-code": "[llama.cpp] Cohere2MoE"},
)

# The fence is part of the marker, because it follows a word.
_COHERE_LIST = Json(
    open="Action: ```json\n[\n    ",
    call='{"tool_name": "{name}", "parameters": {arguments}}',
    between=",\n    ",
    close="\n]\n```",
)

_UNFENCED = Json(call=f"Action: {CALL}")

# https://huggingface.co/CohereForAI/c4ai-command-r-plus (its template for tool use); the words are ours.
COMMAND_R = Family(
    name="command_r",
    about="`Action:` and a JSON list in a code block, with `tool_name` and `parameters`: Command R and R+",
    models={"command-r": "[card] Command R and R+"},
    calls=_COHERE_LIST,
    auto_openers=tuple(opener(f"Action:{gap}```json", _COHERE_LIST) for gap in (" ", "\n", "")),
    own_openers=(
        *(opener(f"Action:{gap}```\n", _COHERE_LIST) for gap in (" ", "\n", "")),
        Opener(  # without a fence
            pattern=r"Action:[ \t\r\n]{0,8}(?=\[[ \t\r\n]{0,32}\{)",
            body=_UNFENCED,
        ),
    ),
    fallback=ANY_JSON,
    markup=_COHERE_MARKUP,
    thoughts=between("<|START_THINKING|>", "<|END_THINKING|>"),
    prompt="""\
## Available Tools
Here is a list of tools that you have available to you, each as one line of JSON:

{tools}

To use tools, write 'Action:' followed by a JSON list of the actions to take, in this form:
{example}

"""
    + RESULTS_FOLLOW,
    answer="'Action:' and the JSON list",
    noun="tool",
)


# -- Apertus -----------------------------------------------------------------------------------------------------------
# Swiss AI's Apertus: a JSON list between two tokens, in which the names are keys.

# https://huggingface.co/swiss-ai/Apertus-8B-Instruct-2509 (vLLM: examples/tool_chat_template_apertus.jinja), which does
# not say how to call.
APERTUS = Family(
    name="apertus",
    about="a JSON list between `<|tools_prefix|>` and `<|tools_suffix|>`, names as keys: Apertus",
    models={"apertus": "[vllm] apertus"},
    calls=Json(open="<|tools_prefix|>[", call='{"{name}": {arguments}}', between=", ", close="]<|tools_suffix|>"),
    markup=Markup(ends=("<|assistant_end|>",)),
    thoughts=between("<|inner_prefix|>", "<|inner_suffix|>"),
    prompt="""\
Tool Capabilities:
{tools}

To call tools, answer in this form, each tool's name being a key:
{example}

"""
    + RESULTS_FOLLOW,
    tool=declared,
    noun="tool",
)


# -- Inkling -----------------------------------------------------------------------------------------------------------
# Thinking Machines' Inkling: messages with a kind; a call's name is before its JSON and in it.

_INKLING_CALLS = Json(
    call='<|content_invoke_tool_json|>{"name": "{name}", "args": {arguments}}<|end_message|>',
    between="<|message_model|>",
    ends=("<|content_model_end_sampling|>",),
)
_CALL, _ENDS = _INKLING_CALLS.marker, _INKLING_CALLS.closers

# https://github.com/vllm-project/vllm (tests/parser/engine/test_inkling.py); the tools are there as JSON in a message
# of their own, and the words are ours.
INKLING = Family(
    name="inkling",
    about="a JSON object with `args` after `<|content_invoke_tool_json|>`: Inkling",
    models={"inkling": "[vllm] inkling"},
    calls=_INKLING_CALLS,
    # A message begins with the tool's name, which is in its JSON too. How messages begin and end is markup.
    auto_openers=(
        opener(_CALL, _INKLING_CALLS),
        Opener(pattern=rf"<\|message_model\|>[ ]?[\w.\-]{{0,64}}{re.escape(_CALL)}", body=_INKLING_CALLS),
        opener("<|content_thinking|>", lambda c: read_thought(c, *_ENDS)),
        *map(
            ignored,
            (*_ENDS, "<|message_model|>", "<|content_text|>", "<|content_invoke_tool_text|>", "<|content_tool_error|>"),
        ),
    ),
    own_openers=(
        Opener(  # the prompt holds the message's marker
            pattern=rf"[A-Za-z_][\w.\-]{{0,63}}{re.escape(_CALL)}",
            body=_INKLING_CALLS,
            where=Where.START,
        ),
    ),
    markup=Markup(stops=("<|message_user|>", "<|message_tool|>")),
    prompt="""\
# Tools

You may call the tools below:
[{tools}]

To call a tool, answer with its name and its arguments in this form:
{example}

"""
    + RESULTS_FOLLOW,
    between=", ",
    answer=f"{_CALL} and the JSON object",
    noun="tool",
)
