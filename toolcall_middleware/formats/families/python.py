"""Models that write Python's notation, or their own: Llama, LFM2, Olmo, Gemma."""

from __future__ import annotations

from ...json_schema import compact
from ...parsing.cursor import Cursor, NotACall, Steps, read_thought
from ...parsing.text.grammar import Where
from ..base import Constraint
from ..family import Family
from ..markup import Escape, Markup
from ..prompt.tool_results import between_tags, json_each
from ..prompt.tools import definition_indented, function_indented
from ..syntax.json import PARAMETERS, Json
from ..syntax.literals import Gemma, Python, bare_calls, single
from ..syntax.shape import (
    BARE_OBJECT,
    LAST_PYTHON,
    LISTED_JSON,
    bare_call,
    fork,
    json_calls,
    opener,
    pythonic_calls,
    shared,
)
from ..syntax.slots import invoke
from .messages import FUNCTION

# -- Llama -------------------------------------------------------------------------------------------------------------
# Meta's Llama: a bare JSON object (3.1 to 3.3), or Python (3.2's small ones, and 4).

_LLAMA_MARKUP = Markup(
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
    ),
)

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
    markup=_LLAMA_MARKUP,
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
    # One call: several, with `; ` between them, are no JSON.
    constrain=lambda tools, _: Constraint("tool_call", compact.call_schema(tools, arguments="parameters")),
)

_LIST = shared(
    "[",
    Python(),
    r"\[[ \t\r\n]*\d{0,8}[A-Za-z_]",
    where=Where.START,
    consume=False,
    as_last=(LAST_PYTHON,),
)
_JSON = (*LISTED_JSON, BARE_OBJECT)
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
    markup=_LLAMA_MARKUP,
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

# Under the JSON template of Llama 3.1, which engines offer for it, JSON is between the tokens.
_PYTHON_START = opener(
    "<|python_start|>",
    fork(
        (r"\[?[ \t\r\n]*\{", json_calls(close=("<|python_end|>",))),
        (r"", pythonic_calls(close=("<|python_end|>",))),
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
    own_openers=(LAST_PYTHON,),  # it explains itself before the list
    fallback=_JSON,
    markup=_LLAMA_MARKUP,
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


# -- LFM2 --------------------------------------------------------------------------------------------------------------
# Liquid's LFM2: a Python list of calls between two tokens.

_CALLS = Python(open="<|tool_call_start|>[", close="]<|tool_call_end|>", echoed=True)

# https://huggingface.co/LiquidAI/LFM2-1.2B ("Tool use")
LFM2 = Family(
    name="lfm2",
    about="a Python list of calls between `<|tool_call_start|>` and `<|tool_call_end|>`: LFM2",
    models={"lfm2": '[card] LFM2, "Tool use"'},
    calls=_CALLS,
    auto_openers=(
        opener(
            _CALLS.marker,
            fork(
                (r"\[?[ \t\r\n]*\{", json_calls(close=_CALLS.closers)),
                (r"\[", _CALLS),
                (r"\d{0,8}[A-Za-z_][\w.]{0,200}\(", pythonic_calls(brackets=False, close=_CALLS.closers)),
            ),
        ),
    ),
    markup=Markup(stops=("<|tool_response_start|>",)),
    prompt="""\
List of tools: <|tool_list_start|>[{tools}]<|tool_list_end|>

To call tools, answer with a Python list of calls between <|tool_call_start|> and <|tool_call_end|>, for example:
{example}""",
    between=", ",
    results=between_tags("<|tool_response_start|>", "<|tool_response_end|>", between=""),
    noun="tool",
)


# -- Olmo --------------------------------------------------------------------------------------------------------------
# Ai2's Olmo 3: Python calls, one a line, within `<function_calls>`.

_OLMO_CALLS = Python(
    open="<function_calls>\n", between="\n", close="\n</function_calls>", json_words=True, quote=single
)

# https://huggingface.co/allenai/Olmo-3-7B-Instruct (vLLM: examples/tool_chat_template_olmo3.jinja)
OLMO3 = Family(
    name="olmo3",
    about="Python calls, one a line, within `<function_calls>`: Olmo 3",
    models={"olmo3": "[vllm] olmo3"},
    calls=_OLMO_CALLS,
    auto_openers=(
        shared(
            _OLMO_CALLS.marker,
            fork(
                (r"[^<\s]", _OLMO_CALLS),
                ("<", invoke("function_calls")),
            ),
            "",
        ),
    ),
    markup=Markup(tags=("function_(?:call|result|response)",)),
    prompt="""\
You have access to the following functions. To call functions, respond with a pythonic function call wrapped in \
<function_calls></function_calls> XML tags.

For example, to call a function named 'get_weather' with parameters city='New York' and units='celsius', respond with:
<function_calls>
get_weather(city='New York', units='celsius')
</function_calls>

You can call multiple functions by putting each call on a new line within the tags:
<function_calls>
function1(param1='value1')
function2(param2='value2')
</function_calls>

Here are the available functions:
<functions>
{tools}
</functions>""",
)


# -- Gemma -------------------------------------------------------------------------------------------------------------
# Google's Gemma: a notation of its own, with strings between two equal markers.

_THOUGHT_END = "<channel|>"
_GEMMA_MARKUP = Markup(
    stops=("<start_of_turn>", "<start_function_response>", "<|tool_response>", "<|turn>"),
    ends=("<end_of_turn>", "<turn|>", "<eos>"),
    closers=(_THOUGHT_END,),
    tags=(
        r"[a-z_]{1,32}\|>",  # <tool_call|>, <channel|>: Gemma 4's closing shape
        r"(?:start|end)_(?:function_\w+|of_turn)>",
        "escape>",
    ),
)

_function = Gemma(mark="<escape>", open="<start_function_call>", close="<end_function_call>")

# https://ai.google.dev/gemma/docs/functiongemma/formatting-and-best-practices
FUNCTIONGEMMA = Family(
    name="functiongemma",
    about="`call:f{x:…}` between `<start_function_call>` and `<end_function_call>`: FunctionGemma",
    fine_tunes={"functiongemma": "[vllm] functiongemma"},
    calls=_function,
    own_openers=bare_calls(_function),
    markup=_GEMMA_MARKUP,
    # The first words are the template's. As there, no space follows them.
    prompt="You are a model that can do function calling with the following functions{tools}",
    tool=lambda tool: f"<start_function_declaration>{_function.declaration(tool)}<end_function_declaration>",
    between="",
    results=_function.responses("<start_function_response>", "<end_function_response>"),
    answer="the function call",
    special_tokens=True,
)

_gemma4 = Gemma(mark='<|"|>', open="<|tool_call>", close="<tool_call|>", inner='"')
_GEMMA4_BARE = bare_calls(_gemma4)
_CALL_BEGINS = (_gemma4.open, "call:")


def _unlabelled(c: Cursor) -> Steps[None]:
    """Read a channel's marker without its label: a thought where a line break follows. Before a call, before the
    thought's end, and at the end after a call it is markup without meaning; elsewhere it is text.
    """
    j = yield from c.decided((*_CALL_BEGINS, _THOUGHT_END))
    if c.s.startswith(_CALL_BEGINS, j) or (j == len(c.s) and c.sink.calls):
        c.i = j
    elif j < len(c.s) and c.s[c.i] == "\n" and not c.s.startswith(_THOUGHT_END, j):
        yield from read_thought(c, _THOUGHT_END)
        return
    elif not c.take((_THOUGHT_END,), j):
        raise NotACall
    c.sink.accept()


# https://huggingface.co/google/gemma-4-31B-it (llama.cpp: models/templates/gemma4.jinja); it does not say how to call.
# No structural tag: xgrammar has no style for this notation, and JSON in its place is not what the models write.
GEMMA4 = Family(
    name="gemma4",
    about="`call:f{x:…}` between `<|tool_call>` and `<tool_call|>`: Gemma 4",
    models={"gemma4": "[llama.cpp] gemma4"},
    calls=_gemma4,
    auto_openers=(
        *_gemma4.openers,
        # A slip in the marker, with which the arguments are often JSON in parentheses.
        shared("<|tool_call|>", _gemma4, "call:"),
        _GEMMA4_BARE[0],
        opener("<|channel>thought", lambda c: read_thought(c, _THOUGHT_END)),
        opener("<|channel>", _unlabelled),
    ),
    own_openers=_GEMMA4_BARE,
    markup=_GEMMA_MARKUP,
    prompt="""\
{tools}

To call a tool, answer in this form:
{example}""",
    tool=lambda tool: f"<|tool>{_gemma4.declaration(tool)}<tool|>",
    between="",
    results=_gemma4.responses("<|tool_response>", "<tool_response|>"),
    answer="the tool call",
    noun="tool",
)
