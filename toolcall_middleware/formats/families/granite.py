"""IBM's Granite: version 4 as Hermes, version 3 as a JSON list behind a token, the 20B as an object behind a tag.

Sources: the models' chat templates, and the parsers of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

from .. import reading
from ..family import Family
from ..markup import Markup
from ..prompt.tool_results import between_tags, json_each
from ..prompt.tools_json import function
from ..syntax.json import CALL, TOOL_CALL, TOOL_CALL_JSON, Json

_MARKUP = Markup(
    stops=("<|start_of_role|>", "<function_response>"),
    ends=("<|end_of_text|>",),
    tags=("function_(?:call|result|response)",),
)

_LIST = Json(open="<|tool_call|>[", between=", ", close="]", ends=("<|/tool_call|>",))
PIPED = _LIST.shared("")

# https://huggingface.co/ibm-granite/granite-4.0-h-small
GRANITE4 = Family(
    name="granite4",
    about="JSON objects within `<tool_call>` tags: Granite 4",
    models={"granite4": "[vllm] granite4"},
    calls=TOOL_CALL,
    auto_openers=(TOOL_CALL_JSON,),
    fallback=reading.BARE_JSON,
    markup=_MARKUP,
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

# https://huggingface.co/ibm-granite/granite-3.1-8b-instruct, whose tools stand in a turn of their own.
GRANITE = Family(
    name="granite",
    about="a JSON list behind `<|tool_call|>`: Granite 3",
    models={"granite3": "[vllm] granite"},
    calls=_LIST,
    auto_openers=(PIPED, TOOL_CALL_JSON),
    fallback=reading.BARE_JSON,
    markup=_MARKUP,
    prompt="""\
You have access to the following tools. When a tool is required to answer the user's query, respond with <|tool_call|> \
followed by a JSON list of tools used. If a tool does not exist in the provided list of tools, notify the user that \
you do not have the ability to fulfill the request.

[{tools}]

A tool call looks like this:
{example}""",
    between=",\n",
    noun="tool",
    special_tokens=True,
)

# https://huggingface.co/ibm-granite/granite-20b-functioncalling
GRANITE_20B_FC = Family(
    name="granite_20b_fc",
    about="`<function_call>` and a JSON object, one a line: granite-20b-functioncalling",
    models={"granite20b-functioncalling": "[vllm] granite-20b-fc"},
    calls=Json(call=f"<function_call> {CALL}", ends=("</function_call>",)),
    fallback=reading.BARE_JSON,
    markup=_MARKUP,
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

FAMILIES = (GRANITE4, GRANITE, GRANITE_20B_FC)
