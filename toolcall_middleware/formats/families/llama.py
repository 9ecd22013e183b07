"""Meta's Llama: a bare JSON object (3.1 to 3.3), or Python (3.2's small ones, and 4).

Sources: the models' chat templates, and the parsers of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...json_schema import compact
from ...model import Tool, ToolChoice
from ...parsing.text.grammar import Where
from .. import reading
from ..base import Constraint
from ..family import Family, callable_tools
from ..markup import Escape, Markup
from ..prompt.tool_results import json_each
from ..prompt.tools_json import definition_indented, function_indented
from ..syntax.json import PARAMETERS, Json
from ..syntax.openers import bare_call, fork, json_calls, opener, pythonic_calls, shared
from ..syntax.pythonic import Python
from .functionary import FUNCTION

_MARKUP = Markup(
    stops=("<|start_header_id|>", "<|header_start|>"),
    ends=("<|eot_id|>", "<|eom_id|>", "<|eot|>"),
    tags=("SYS>>",),
    # A result that is a list of calls in Python, and would be one when the model repeats it.
    escapes=(
        Escape(
            r"(?<![^\n])\[", r"[ \t\r\n]{0,32}\d{0,8}[A-Za-z_][\w.]{0,64}[ ]?\((?:\)|[A-Za-z_]\w{0,64}[ ]?=(?!=)|[\"'])"
        ),
    ),
)

_PYTHON_TAG = opener(
    "<|python_tag|>",
    fork(
        (r"[{\[`]", json_calls()),
        (r"\d{0,8}[A-Za-z_][\w.]{0,200}\(", pythonic_calls(brackets=False)),
        undecided=r"\d{0,8}(?:[A-Za-z_][\w.]{0,200})?",
    ),
)


def _one_object(tools: Sequence[Tool], choice: ToolChoice) -> Constraint | None:
    """One call: several, with `; ` between them, are no JSON."""
    callable_now = callable_tools(tools, choice)
    if not choice.must_call or not callable_now:
        return None
    return Constraint("tool_call", compact.call_schema(callable_now, arguments="parameters"))


# https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1/
# (vLLM: examples/tool_chat_template_llama3.1_json.jinja)
LLAMA3_JSON = Family(
    name="llama3_json",
    about="a bare JSON object with `parameters`: Llama 3.1, 3.2 and 3.3",
    models={
        "llama3[.-][123]": "[vllm] llama3_json; [sglang] llama3",
        "llama-v3p[123]": "the same by Fireworks' names",
    },
    fine_tunes={"llama3.1-nemotron70b": "[card] Llama 3.1's template"},
    calls=Json(call=PARAMETERS, between="; "),
    auto_openers=(_PYTHON_TAG,),
    own_openers=(
        bare_call('"name"', ":"),  # no marker: text may surround it
        bare_call('"type"', ":", '"function"'),
        FUNCTION,  # where a prompt asks for it
    ),
    markup=_MARKUP,
    prompt="""\
You have access to the following functions. To call a function, please respond with JSON for a function call.
Respond in the format {"name": function name, "parameters": dictionary of argument name and its value}. Do not use \
variables.

{tools}

Only reply with a function call if the function exists in the list above. If it doesn't exist, just reply directly in \
natural language. When you receive a function's output, use it to format an answer to the original question.""",
    tool=function_indented,
    between="\n\n",
    results=json_each('{"output": ', "}"),
    answer="the JSON of the function call",
    constrain=_one_object,
)

_LIST = shared(
    "[",
    Python(),
    r"\[[ \t\r\n]*\d{0,8}[A-Za-z_]",
    undecided=r"\[[ \t\r\n]*\d{0,8}",
    where=Where.START,
    consume=False,
    as_last=(reading.LAST_PYTHON,),
)
_JSON = (*reading.LISTED_JSON, reading.BARE_OBJECT)
_FORM = "[func_name1(params_name1=params_value1, params_name2=params_value2...), func_name2(params)]"


# https://ai.google.dev/gemma/docs/capabilities/function-calling, near to what Llama 3.2 was shown
# (https://github.com/meta-llama/llama-models/blob/main/models/llama3_2/text_prompt_format.md)
PYTHONIC = Family(
    name="pythonic",
    about="a bare Python list of calls: Llama 3.2 1B and 3B, ToolACE, Gemma 3",
    fine_tunes={"toolace": "[vllm] pythonic"},
    alike={"gemma3": "ai.google.dev/gemma/docs/capabilities/function-calling"},
    calls=Python(),
    auto_openers=(_LIST,),
    fallback=_JSON,
    markup=_MARKUP,
    prompt=f"""\
You have access to functions. If you decide to invoke any of the function(s), you MUST put it in the format of
{_FORM}

You SHOULD NOT include any other text in the response if you call a function.

[
{{tools}}
]""",
    tool=definition_indented,
    between=",\n",
)

# Under the JSON template of Llama 3.1, which engines offer for it, JSON stands between the tokens.
_PYTHON_START = opener(
    "<|python_start|>",
    fork(
        (r"\[?[ \t\r\n]*\{", json_calls(close=("<|python_end|>",))),
        (r"", pythonic_calls(close=("<|python_end|>",))),
        undecided=r"\[?[ \t\r\n]*",
    ),
)

# https://www.llama.com/docs/model-cards-and-prompt-formats/llama4/
# (vLLM: examples/tool_chat_template_llama4_pythonic.jinja)
LLAMA4_PYTHONIC = Family(
    name="llama4_pythonic",
    about="a Python list of calls, perhaps between `<|python_start|>` and `<|python_end|>`: Llama 4",
    models={"llama4": "[vllm] llama4_pythonic"},
    calls=Python(),
    auto_openers=(_PYTHON_START, _LIST),
    own_openers=(reading.LAST_PYTHON,),  # it explains itself before the list
    fallback=_JSON,
    markup=_MARKUP,
    prompt="""\
You can answer general questions using your internal knowledge OR invoke functions when necessary. Follow these strict \
guidelines:

1. FUNCTION CALLS:
- ONLY use functions that are EXPLICITLY listed in the function list below
- If ALL required parameters are present AND the query EXACTLY matches a listed function's purpose: output ONLY the \
function call(s)
- Use exact format: [func_name1(param1=value1, param2=value2), func_name2(...)]
Examples:
CORRECT: [get_weather(location="Vancouver"), calculate_route(start="Boston", end="New York")] <- Only if get_weather \
and calculate_route are in function list
INCORRECT: get_weather(location="New York")
INCORRECT: Let me check the weather: [get_weather(location="New York")]

2. RESPONSE RULES:
- For pure function requests matching a listed function: ONLY output the function call(s)
- For knowledge questions: ONLY output text
- For missing parameters: ONLY request the specific missing parameters
- NEVER combine text and function calls in the same response

3. TOOL RESPONSE HANDLING:
- When receiving tool responses: provide concise, natural language responses
- Don't repeat tool response verbatim

Here is a list of functions in JSON format that you can invoke:
[
{tools}
]""",
    tool=definition_indented,
    between=",\n",
    special_tokens=True,
)

FAMILIES = (LLAMA3_JSON, PYTHONIC, LLAMA4_PYTHONIC)
