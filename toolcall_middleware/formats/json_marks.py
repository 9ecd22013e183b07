"""Families that write calls as JSON behind a word or a special token, or behind nothing at all.

    [TOOL_CALLS] [{"name": "lookup", "arguments": {"city": "Paris"}, "id": "a1b2c3d4e"}]

They differ in the marker, in the keys of a call and in the prompt. The layouts are those of the chat templates that
each entry names.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ..json_schema import compact
from ..model import Tool, ToolChoice, ToolResult
from . import json_openers, openers, reading
from .base import Constraint
from .family import Family, function
from .prompt import escaping
from .prompt.tool_results import as_json, json_each, said
from .prompt.tools_typescript import declared
from .syntax.json import each, keyed, listed, named_tool, numbered, parameters, short_id, unmarked, with_args, with_id

# https://huggingface.co/ibm-granite/granite-3.1-8b-instruct, whose tools stand in a turn of their own.
GRANITE = Family(
    name="granite",
    about="a JSON list behind `<|tool_call|>`: Granite 3",
    openers=(*json_openers.GRANITE, *reading.BARE_JSON),
    prompt="""\
You have access to the following tools. When a tool is required to answer the user's query, respond with <|tool_call|> \
followed by a JSON list of tools used. If a tool does not exist in the provided list of tools, notify the user that \
you do not have the ability to fulfill the request.

[{tools}]

A tool call looks like this:
{example}""",
    between=",\n",
    write=listed("<|tool_call|>[", "]"),
    trigger="<|tool_call|>",
    answer="<|tool_call|> and the JSON list",
    noun="tool",
    special_tokens=True,
)

# https://huggingface.co/ibm-granite/granite-20b-functioncalling
GRANITE_20B_FC = Family(
    name="granite_20b_fc",
    about="`<function_call>` and a JSON object, one a line: granite-20b-functioncalling",
    openers=(*json_openers.GRANITE_20B, *reading.BARE_JSON),
    prompt="""\
You are a helpful assistant with access to the following function calls. Your task is to produce a sequence of \
function calls necessary to generate response to the user utterance. Use the following function calls as required.
<|function_call_library|>
{tools}

A function call looks like this:
{example}

If none of the functions are relevant, or when the results say enough, answer in natural language.""",
    write=each("<function_call> ", ""),
    results=json_each("<function_response> ", ""),
    trigger="<function_call>",
    answer="<function_call> and the JSON object",
    special_tokens=True,
)

# https://huggingface.co/microsoft/Phi-4-mini-instruct (vLLM: examples/tool_chat_template_phi4_mini.jinja)
PHI4_MINI = Family(
    name="phi4_mini",
    about="a JSON list behind `functools`: Phi 4 mini",
    openers=(*json_openers.PHI4_MINI, *reading.BARE_JSON),
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
    write=listed("functools[", "]"),
    results=json_each('{"result": ', "}"),
    trigger="functools",
    answer="functools and the JSON list",
)


# The calls are as its template writes them; the tools stand there in a turn of their own.
# https://github.com/InternLM/InternLM/blob/main/chat/chat_format.md
INTERNLM = Family(
    name="internlm",
    about="JSON objects between `<|action_start|><|plugin|>` and `<|action_end|>`: InternLM 2 and 3",
    openers=(*json_openers.INTERNLM, *reading.BARE_JSON),
    prompt="""\
You can call the following functions:
[{tools}]

To call a function, answer with its name and parameters in this form:
{example}

The result comes in the next message, between <tool_result> and </tool_result>. Never write a result yourself. When \
no function fits, answer in plain text.""",
    between=", ",
    write=each("<|action_start|><|plugin|>\n", "<|action_end|>", between="", entry=parameters),
    trigger="<|action_start|>",
    answer="the call between <|action_start|><|plugin|> and <|action_end|>",
    special_tokens=True,
)


def _mistral_results(results: Sequence[ToolResult]) -> str:
    """`[TOOL_RESULTS] {"content": …, "call_id": "…"}[/TOOL_RESULTS]` for each."""
    blocks = (
        f'[TOOL_RESULTS] {{"content": {as_json(result)}, "call_id": "{short_id(result.id)}"}}[/TOOL_RESULTS]'
        for result in results
    )
    return escaping.with_note(blocks, results)


# The list of tools and the calls are as https://huggingface.co/mistralai/Mistral-7B-Instruct-v0.3 has them; the words
# are those of vLLM's examples/tool_chat_template_mistral_parallel.jinja.
MISTRAL_OLD = Family(
    name="mistral_old",
    about="a JSON list behind `[TOOL_CALLS]`: Mistral 7B v0.3, Nemo, Small 3.1 and earlier",
    openers=(*openers.MISTRAL, *reading.BARE_JSON),
    prompt="""\
[AVAILABLE_TOOLS] [{tools}][/AVAILABLE_TOOLS]

If you call one or more tools, format them in a single JSON array of objects, where each object is a tool call, not as \
separate objects outside of an array or multiple arrays, and write [TOOL_CALLS] before it. For example:
{example}

If you call tools, do not attempt to interpret them or otherwise provide a response until you receive a tool call \
result that you can interpret for the user.""",
    tool=function,
    between=", ",
    write=listed("[TOOL_CALLS] [", "]", entry=with_id),
    results=_mistral_results,
    trigger="[TOOL_CALLS]",
    answer="[TOOL_CALLS] and the JSON list",
    noun="tool",
    special_tokens=True,
)


def _cohere_results(results: Sequence[ToolResult]) -> str:
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
    return escaping.with_note([f"<|START_TOOL_RESULT|>[\n{entries}\n]<|END_TOOL_RESULT|>"], results)


# https://huggingface.co/CohereLabs/c4ai-command-r7b-12-2024: its template for tools, shortened (it says at length when
# to think).
COHERE_COMMAND3 = Family(
    name="cohere_command3",
    about="a JSON list between `<|START_ACTION|>` and `<|END_ACTION|>`: Command R7B, Command A",
    openers=(*json_openers.COHERE, *reading.BARE_JSON),
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
    write=listed("<|START_ACTION|>[\n    ", "\n]<|END_ACTION|>", between=",\n    ", entry=numbered),
    results=_cohere_results,
    trigger="<|START_ACTION|>",
    answer="the list of calls between <|START_ACTION|> and <|END_ACTION|>",
    noun="tool",
    special_tokens=True,
)

# Calls as Command A has them; answers stand between other tags (llama.cpp: models/templates/Cohere2MoE.jinja).
COHERE_COMMAND4 = replace(COHERE_COMMAND3, name="cohere_command4", about="as `cohere_command3`: North Mini Code")

# https://huggingface.co/ai-sage/GigaChat3-10B-A1.8B and GigaChat3.1-10B-A1.8B (llama.cpp has both templates). Their
# template lists the tools as TypeScript; it does not say how to call.
GIGACHAT3 = Family(
    name="gigachat3",
    about="a JSON object behind `<|function_call|>`: GigaChat 3",
    openers=(*json_openers.GIGACHAT3, *reading.BARE_JSON),
    prompt="""\
You have access to these functions:

{tools}

To call a function, answer with its name and its arguments in this form:
{example}

The result comes in the next message, between <tool_result> and </tool_result>. Never write a result yourself.""",
    tool=declared,
    between="\n\n",
    write=each("<|function_call|>", "", between="<|message_sep|>\n\n"),
    trigger="<|function_call|>",
    answer="<|function_call|> and the JSON object",
    special_tokens=True,
)

# https://huggingface.co/swiss-ai/Apertus-8B-Instruct-2509 (vLLM: examples/tool_chat_template_apertus.jinja), which does
# not say how to call.
APERTUS = Family(
    name="apertus",
    about="a JSON list between `<|tools_prefix|>` and `<|tools_suffix|>`, names as keys: Apertus",
    openers=(*json_openers.APERTUS, *reading.BARE_JSON),
    prompt="""\
Tool Capabilities:
{tools}

To call tools, answer in this form, each tool's name being a key:
{example}

The results come in the next message, each between <tool_result> and </tool_result>. Never write a result yourself.""",
    tool=declared,
    write=listed("<|tools_prefix|>[", "]<|tools_suffix|>", entry=keyed),
    trigger="<|tools_prefix|>",
    answer="the list of calls between <|tools_prefix|> and <|tools_suffix|>",
    noun="tool",
    special_tokens=True,
)


# https://huggingface.co/CohereForAI/c4ai-command-r-plus (its template for tool use); the words are ours.
COMMAND_R = Family(
    name="command_r",
    about="`Action:` and a JSON list in a code block, with `tool_name` and `parameters`: Command R and R+",
    openers=(*json_openers.COMMAND_R, *reading.ANY_JSON),
    prompt="""\
## Available Tools
Here is a list of tools that you have available to you, each as one line of JSON:

{tools}

To use tools, write 'Action:' followed by a JSON list of the actions to take, in this form:
{example}

The results come in the next message, each between <tool_result> and </tool_result>. Never write a result yourself.""",
    write=listed("Action: ```json\n[\n    ", "\n]\n```", between=",\n    ", entry=named_tool),
    trigger="Action: ```json",
    answer="'Action:' and the JSON list",
    noun="tool",
)

# https://github.com/vllm-project/vllm (tests/parser/engine/test_inkling.py); the tools stand there as JSON in a message
# of their own, and the words are ours.
INKLING = Family(
    name="inkling",
    about="a JSON object with `args` behind `<|content_invoke_tool_json|>`: Inkling",
    openers=(*json_openers.INKLING, *reading.BARE_JSON),
    prompt="""\
# Tools

You may call the tools below:
[{tools}]

To call a tool, answer with its name and its arguments in this form:
{example}

The results come in the next message, each between <tool_result> and </tool_result>. Never write a result yourself.""",
    between=", ",
    write=each("<|content_invoke_tool_json|>", "<|end_message|>", between="<|message_model|>", entry=with_args),
    trigger="<|content_invoke_tool_json|>",
    answer="<|content_invoke_tool_json|> and the JSON object",
    noun="tool",
    special_tokens=True,
)


def _indented(tool: Tool) -> str:
    whole = {"type": "function", "function": escaping.describe(tool)}
    return escaping.as_data(escaping.dump_indented(whole, indent=4))


def _one_object(tools: Sequence[Tool], choice: ToolChoice) -> Constraint | None:
    """One call: several, with `; ` between them, are no JSON."""
    callable_now = escaping.callable_tools(tools, choice)
    if not choice.must_call or not callable_now:
        return None
    return Constraint("tool_call", compact.call_schema(callable_now, arguments="parameters"))


def _list_of_objects(tools: Sequence[Tool], choice: ToolChoice) -> Constraint | None:
    callable_now = escaping.callable_tools(tools, choice)
    if not choice.must_call or not callable_now:
        return None
    return Constraint("tool_calls", compact.call_list_schema(callable_now, parallel=choice.parallel))


# https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1/
# (vLLM: examples/tool_chat_template_llama3.1_json.jinja)
LLAMA3_JSON = Family(
    name="llama3_json",
    about="a bare JSON object with `parameters`: Llama 3.1, 3.2 and 3.3",
    openers=(*json_openers.LLAMA3, *reading.ANY_JSON),
    prompt="""\
You have access to the following functions. To call a function, please respond with JSON for a function call.
Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}. Do not use \
variables.

{tools}

Only reply with a function call if the function exists in the list above. If it doesn't exist, just reply directly in \
natural language. When you receive a function's output, use it to format an answer to the original question.""",
    tool=_indented,
    between="\n\n",
    write=unmarked(each("", "", between="; ", entry=parameters)),
    results=json_each('{"output": ', "}"),
    answer="the JSON of the function call",
    constrain=_one_object,
)

# https://huggingface.co/Salesforce/Llama-xLAM-2-8b-fc-r (vLLM: examples/tool_chat_template_xlam_llama.jinja)
XLAM = Family(
    name="xlam",
    about="a bare JSON list: xLAM",
    openers=(*openers.XLAM, *reading.ANY_JSON),
    prompt="""\
You have access to a set of tools. When using tools, make calls in a single JSON array:\x20

[{"name": "tool_call_name", "arguments": {"arg1": "value1", "arg2": "value2"}}, ... (additional parallel tool calls as \
needed)]

If no tool is suitable, state that explicitly. If the user's input lacks required parameters, ask for clarification. \
Do not interpret or respond until tool results are returned. Once they are available, process them or make additional \
calls if needed. For tasks that don't require tools, such as casual conversation or general advice, respond directly \
in plain text. The available tools are:

{tools}""",
    tool=_indented,
    between="\n\n",
    write=unmarked(listed("[", "]")),
    answer="the JSON array of calls",
    noun="tool",
    constrain=_list_of_objects,
)
