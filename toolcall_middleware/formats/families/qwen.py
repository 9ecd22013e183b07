"""Qwen, Hermes and the models that write as they do: JSON in a tag, or a tag for the call and one for each argument."""

from __future__ import annotations

from dataclasses import replace

from ...model import Tool
from ..family import Family
from ..markup import Markup
from ..prompt import escaping
from ..prompt.thoughts import NO_THOUGHTS, Returned, Thoughts, between
from ..prompt.tool_results import SIGNATURES, between_tags
from ..prompt.tools import function
from ..syntax.json import CALL, TOOL_CALL, TOOL_CALL_JSON, Json
from ..syntax.shape import fork, ignored, json_calls, opener, shared
from ..syntax.slots import FUNCTIONS, NO_INVOKE, TOOL_TAG, Slots

# -- MiniCPM -----------------------------------------------------------------------------------------------------------
# OpenBMB's MiniCPM: tags whose names are attributes, and XML's own entities and sections in them.

_MINICPM_SLOTS = Slots(
    call='<function name="{name}">{slots}</function>',
    slot='<param name="{key}">{value}</param>',
    noise=("<arguments>", "</arguments>"),
    xml=True,
)
# Models mix these and Qwen's: `<function name="f">` around `<parameter=x>`, without entities in the values.
_WS = r"[ \t\r\n]{0,64}"
_calls = fork((rf"{_MINICPM_SLOTS.layout().call.pattern}{_WS}<parameter[ =]", FUNCTIONS), ("", _MINICPM_SLOTS))
_MINICPM_OPENERS = tuple(opener(f"<function{space}name=", _calls, consume=False) for space in (" ", "", "Ġ"))

# https://github.com/OpenBMB/MiniCPM#with-tool-calling (the calls; the words are ours)
MINICPM5 = Family(
    name="minicpm5",
    about='`<function name="f">` and `<param name="x">`: MiniCPM 5',
    models={"minicpm5": "[sglang] minicpm5"},
    calls=_MINICPM_SLOTS,
    auto_openers=_MINICPM_OPENERS,
    markup=Markup(tags=(r"function[\sĠ]*name\s*=",)),
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
    answer="the call",
)


# -- Qwen and Hermes ---------------------------------------------------------------------------------------------------
# Qwen 2.5 and 3 have the syntax of Hermes: `<tool_call>`, and in it JSON. Qwen3-Coder and Qwen 3.5 write tags there,
# each on a line of its own: `<function=lookup>`, `<parameter=city>`, `Paris`, `</parameter>`, `</function>`.

_QWEN_MARKUP = Markup(
    stops=("<tool_response>", "<|im_start|>"),
    ends=("<|im_end|>", "<|endoftext|>"),
    closers=("</function_invocation>",),
    tags=("function=", "parameter=", "/(?:function|parameter)>"),
)

_TOOL_RESPONSE = between_tags("<tool_response>\n", "\n</tool_response>")

# The layout of Qwen's template, after Hermes 2 Pro's. https://huggingface.co/Qwen/Qwen2.5-7B-Instruct
HERMES = Family(
    name="hermes",
    about="JSON objects within `<tool_call>` tags: Hermes 2 Pro and 3, Qwen 2.5 and 3, and the many trained alike",
    models={
        "qwen3": "[sglang] qwen: all but Qwen3-Coder, Next and VL included",
        "qwen2[.-]5": "[vllm] hermes",
        "qwq": "[vllm] hermes",
    },
    fine_tunes={
        "hermes2-pro": "[vllm] hermes: all since Hermes 2 Pro",
        "hermes2-theta": "[vllm] hermes",
        "hermes[34]": "[vllm] hermes",
    },
    alike={
        "exaone4": "[card] EXAONE 4.0: hermes",
        "trinity": "[sglang] trinity",
        "bielik": "[llama.cpp] Bielik-11B-v3.0-Instruct",
        "smollm3": "[card] SmolLM3: hermes",
        "nanbeige": "[card] the chat template of Nanbeige4.1-3B",
    },
    calls=TOOL_CALL,
    # The prompt lists the tools within <tools>, and Qwen 2.5 Coder writes its calls in that tag, too. `bare` tells a
    # call from a tool's definition, which the model may repeat there.
    auto_openers=(TOOL_CALL_JSON, opener("<tools>", json_calls(bare=True, close=("</tools>",)))),
    markup=_QWEN_MARKUP,
    # [llama.cpp] Qwen-Qwen3-0.6B: reasoning after the last user message that holds no tool results
    thoughts=Thoughts(
        returned=Returned.TURN,
        source="[llama.cpp] Qwen-Qwen3-0.6B",
        opened={"qwq": "[llama.cpp] Qwen-QwQ-32B", "qwen3-*thinking": "[card] Qwen3-30B-A3B-Thinking-2507"},
        before="<think>\n",
        after="\n</think>\n\n",
    ),
    prompt=SIGNATURES
    + """\
For each function call, return a json object with function name and arguments within <tool_call></tool_call> XML tags:
<tool_call>
{"name": <function-name>, "arguments": <args-json-object>}
</tool_call>""",
    tool=function,
    results=_TOOL_RESPONSE,
    needs_user=True,
)

_FUNCTION_OPENERS = (
    shared("<tool_call>", FUNCTIONS, NO_INVOKE, close="</tool_call>"),
    # The opening <tool_call> is often missing. (JSON there, Functionary's and Llama 3.1's, the reader knows too.)
    opener("<function=", FUNCTIONS, consume=False),
    opener("<parameter=", FUNCTIONS, consume=False),  # which holds the name, and the parameters follow
    *_MINICPM_OPENERS,  # names as attributes
    TOOL_TAG,
)

# https://github.com/mlc-ai/xgrammar, python/xgrammar/builtin_structural_tag.py: qwen_3_coder
_FUNCTION_TRIGGER = "<tool_call>\n<function="

_SHOWN = (
    "example_function_name",
    {
        "example_parameter_1": "value_1",
        "example_parameter_2": "This is the value for the second parameter\nthat can span\nmultiple lines",
    },
)
_FUNCTION_PROMPT = """\
# Tools

You have access to the following functions%s:

<tools>
{tools}
</tools>

If you choose to call a function ONLY reply in the following format with NO suffix:

%s

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

# The words are those of https://huggingface.co/Qwen/Qwen3-Coder-30B-A3B-Instruct. The tools are JSON, as in
# Qwen 3.5's template: Qwen3-Coder's tags around descriptions have no way to escape one.
QWEN3_CODER = Family(
    name="qwen3_coder",
    about="`<function=f>` and `<parameter=x>` within `<tool_call>`: Qwen3-Coder, Qwen 3.5 and 3.6, Nemotron 3",
    models={
        "qwen3-coder": "[vllm] qwen3_xml; [sglang] qwen3_coder",
        "qwen3.[5-9]": "[recipes] Qwen 3.5: qwen3_coder",
    },
    fine_tunes={"nemotron3": "[recipes] Nemotron 3 Nano and Super: qwen3_coder"},
    alike={
        "mimo": "[sglang] mimo",
        "intern-s2": "[sglang] docs_new/cookbook, Intern-S2-Preview: qwen3_coder",
    },
    calls=FUNCTIONS,
    auto_openers=_FUNCTION_OPENERS,
    markup=_QWEN_MARKUP,
    thoughts=Thoughts(
        returned=Returned.TURN,
        source="[llama.cpp] Qwen3.5-4B",
        opened={
            # All but the smallest, 0.8B and 2B
            "qwen3.[5-9][-:][13-9]": "[llama.cpp] Qwen3.5-4B",
            "qwen3.[5-9][-:]2[0-9]": "the same",
            "nemotron3": "[llama.cpp] NVIDIA-Nemotron-3-Nano-30B-A3B-BF16",
        },
        before="<think>\n",
        after="\n</think>\n\n",
    ),
    prompt=_FUNCTION_PROMPT % ("", FUNCTIONS.shown(_SHOWN), _QWEN_MORE),
    tool=function,
    results=_TOOL_RESPONSE,
    trigger=_FUNCTION_TRIGGER,
    # https://huggingface.co/Qwen/Qwen3.5-4B, chat_template.jinja: "No user query found in messages."
    needs_user=True,
)


# -- Reka --------------------------------------------------------------------------------------------------------------
# Reka Edge: calls as Hermes has them.

# https://huggingface.co/RekaAI/reka-edge-2603 (llama.cpp: models/templates/Reka-Edge.jinja)
REKA = replace(
    HERMES,
    name="reka",
    about="as `hermes`: Reka Edge",
    models={"reka-edge": "[llama.cpp] Reka-Edge"},
    fine_tunes={},
    alike={},
    thoughts=NO_THOUGHTS,
)


# -- Step --------------------------------------------------------------------------------------------------------------
# StepFun's Step: version 3 writes `invoke` tags within DeepSeek-like markers, version 3.5 writes as Qwen3-Coder.

_MARKUP = Markup(tags=("steptml:",))

_STEPS = Slots(
    open="<｜tool_calls_begin｜>\n",
    call='<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">{slots}</steptml:invoke>'
    "<｜tool_call_end｜>",
    slot='<steptml:parameter name="{key}">{value}</steptml:parameter>',
    close="\n<｜tool_calls_end｜>",
    prefix="steptml:",
    noise=("<｜tool_call_begin｜>", "<｜tool_call_end｜>", "function<｜tool_sep｜>", "<｜tool_sep｜>"),
)

_TWO_CALLS = [(f"tool_name{n}", {f"parameter_name{n}": "[parameter value]", "...": ""}) for n in range(2)]

# https://huggingface.co/stepfun-ai/step3
STEP3 = Family(
    name="step3",
    about='`<steptml:invoke name="f">` within `<｜tool_calls_begin｜>`: Step 3',
    models={"step3": "[sglang] step3"},
    calls=_STEPS,
    auto_openers=(shared(_STEPS.trigger, _STEPS, ""),),
    markup=_MARKUP,
    prompt=f"""\
# Tools
You may call one or more tools to assist with the user query. You are provided with tool schemas within \
<tools></tools> XML tags:
<tools>
{{tools}}
</tools>
When making tool calls, use XML format to invoke tools and pass parameters:
{_STEPS.shown(*_TWO_CALLS)}
Note:
* You can invoke one or more tools in parallel.
* Each tool call must be complete and self-contained.""",
    tool=function,
    answer=f"the calls between {_STEPS.trigger} and {_STEPS.closers[0]}",
    noun="tool",
)

# https://huggingface.co/stepfun-ai/Step-3.5-Flash (llama.cpp: models/templates/StepFun3.7-Flash.jinja)
STEP3P5 = Family(
    name="step3p5",
    about="as `qwen3_coder`: Step 3.5 and 5",
    models={
        "step3.[5-9]": "[llama.cpp] StepFun3.7-Flash",
        "step5": "no template is published yet; the engines' code for it is made of Step 3.5's",
    },
    calls=FUNCTIONS,
    auto_openers=_FUNCTION_OPENERS,
    markup=_MARKUP,
    thoughts=Thoughts(
        returned=Returned.TURN,
        source="[llama.cpp] StepFun3.5-Flash",
        opened={"step3.[5-9]": "[llama.cpp] StepFun3.5-Flash"},
        before="<think>\n",
        after="\n</think>\n",
    ),
    prompt=_FUNCTION_PROMPT % (" in JSONSchema format", FUNCTIONS.shown(_SHOWN), ""),
    tool=function,
    results=between_tags("<tool_response>", "</tool_response>", between=""),
    trigger=_FUNCTION_TRIGGER,
)


# -- Seed OSS ----------------------------------------------------------------------------------------------------------
# ByteDance's Seed OSS: Qwen3-Coder's tags within its own `<seed:tool_call>`.

_FUNCTIONS = Slots(
    call="<seed:tool_call>\n<function={name}>\n{slots}</function>\n</seed:tool_call>",
    slot="<parameter={key}>{value}</parameter>\n",
    name_in_slot=True,
    noise=("</function_invocation>",),
    style="qwen_xml",
)
_NEVER_USED = "think_never_used_51bce0c785ca2f68081bfa7d91973934"  # Seed 1.6 and later

# https://huggingface.co/ByteDance-Seed/Seed-OSS-36B-Instruct: the variant of its template that lists tools as JSON.
SEED_OSS = Family(
    name="seed_oss",
    about="`<function=f>` and `<parameter=x>` within `<seed:tool_call>`: Seed OSS",
    models={"seed-oss": "[llama.cpp] ByteDance-Seed-OSS"},
    calls=_FUNCTIONS,
    markup=Markup(
        reasoning=((f"<{_NEVER_USED}>", f"</{_NEVER_USED}>"),),
        ends=("<seed:eos>",),
        tags=("seed:", "think_never_used_"),
    ),
    thoughts=between("<seed:think>", "</seed:think>"),
    prompt="""\
Tool List:
You are authorized to use the following tools (described in JSON Schema format). Before performing any task, you must \
decide how to call them based on the descriptions and parameters of these tools.
[{tools}]

工具调用请遵循如下格式:
"""
    + _FUNCTIONS.shown(_SHOWN),
    tool=function,
    between=", ",
    noun="tool",
    special_tokens=True,
)


# -- LongCat -----------------------------------------------------------------------------------------------------------
# Meituan's LongCat: JSON objects, or since 2026 keys and values in tags, within its own `<longcat_tool_call>`.

_TAG = "longcat_tool_call"
_SLOTS = Slots(
    call=f"<{_TAG}>{{name}}{{slots}}</{_TAG}>",
    slot="<longcat_arg_key>{key}</longcat_arg_key><longcat_arg_value>{value}</longcat_arg_value>",
    between="",
    bare=True,
)

_JSON = Json(call=f"<{_TAG}>\n{CALL}\n</{_TAG}>", between="")
_ONE = _JSON.call.replace('"{name}"', "<function-name>").replace("{arguments}", "<args-dict>")


def _longcat_tool(tool: Tool) -> str:
    described = escaping.describe(tool)
    schema = escaping.as_data(escaping.dump_indented(described["parameters"], indent=2))
    text = escaping.neutralise(tool.description)
    return f"#### Tool name: {tool.name}\n\nDescription: {text}\n\nInputSchema: \n{schema}"


# https://huggingface.co/meituan-longcat/LongCat-Flash-Chat (model card, "ToolCall")
LONGCAT = Family(
    name="longcat",
    about="JSON objects within `<longcat_tool_call>` tags: LongCat Flash",
    models={"longcat": "[vllm] longcat"},
    calls=_JSON,
    # the tags: since the models of 2026
    auto_openers=(_SLOTS.opener((r"[{\[`\"']", _JSON)),),
    markup=Markup(
        ends=("</longcat_s>",),
        tags=("longcat_",),
    ),
    thoughts=between("<longcat_think>", "</longcat_think>"),
    prompt=f"""\
## Tools
You have access to the following tools:\x20

### Tool namespace: function

{{tools}}

**Note**: For each function call, return a json object with function name and arguments within \
<{_TAG}></{_TAG}> XML tags as follows:
{_ONE}
When multiple functions need to be called simultaneously, each function call should be wrapped in its own \
<{_TAG}> tag and placed consecutively. For example:
{_ONE * 2}""",
    tool=_longcat_tool,
    between="\n\n",
    special_tokens=True,
)


# -- ERNIE -------------------------------------------------------------------------------------------------------------
# Baidu's ERNIE: calls as Hermes has them, answers between tags.

# The list and the outputs' tags are the template's; it does not say how to call.
# https://huggingface.co/baidu/ERNIE-4.5-21B-A3B-Thinking
ERNIE45 = Family(
    name="ernie45",
    about="JSON objects within `<tool_call>` tags: ERNIE 4.5",
    models={"ernie4.5": "[card] ERNIE-4.5-21B-A3B-Thinking: its parsers"},
    calls=TOOL_CALL,
    auto_openers=(TOOL_CALL_JSON,),
    own_openers=tuple(map(ignored, ("<response>", "</response>"))),
    markup=Markup(stops=("<tool_output>",), ends=("<|end_of_sentence|>",)),
    prompt="""\
<tool_list>
[{tools}]
</tool_list>

To call a tool, answer with its name and arguments within <tool_call></tool_call> tags, for example:
{example}""",
    tool=function,
    between=", ",
    results=between_tags("<tool_output>\n", "\n</tool_output>"),
    noun="tool",
)
