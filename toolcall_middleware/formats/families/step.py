"""StepFun's Step: version 3 writes `invoke` tags within DeepSeek-like markers, version 3.5 writes as Qwen3-Coder.

Sources: the models' chat templates, and the parsers of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

from ..family import Family
from ..markup import Markup
from ..prompt.thoughts import Returned, Thoughts
from ..prompt.tool_results import between_tags
from ..prompt.tools_json import function
from ..syntax.function_tags import FUNCTIONS
from ..syntax.openers import shared
from ..syntax.slots import Slots
from .qwen import FUNCTION_OPENERS, FUNCTION_PROMPT, FUNCTION_TRIGGER

_MARKUP = Markup(tags=("steptml:",))

STEPS = Slots(
    open="<｜tool_calls_begin｜>\n",
    call='<｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="{name}">{slots}</steptml:invoke>'
    "<｜tool_call_end｜>",
    slot='<steptml:parameter name="{key}">{value}</steptml:parameter>',
    close="\n<｜tool_calls_end｜>",
    prefix="steptml:",
    noise=("<｜tool_call_begin｜>", "<｜tool_call_end｜>", "function<｜tool_sep｜>", "<｜tool_sep｜>"),
)

_OPENERS = (shared(STEPS.trigger, STEPS, ""),)

# https://huggingface.co/stepfun-ai/step3
STEP3 = Family(
    name="step3",
    about='`<steptml:invoke name="f">` within `<｜tool_calls_begin｜>`: Step 3',
    models={"step3": "[sglang] step3"},
    calls=STEPS,
    auto_openers=_OPENERS,
    markup=_MARKUP,
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
    answer=f"the calls between {STEPS.trigger} and {STEPS.closers[0]}",
    noun="tool",
    special_tokens=True,
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
    auto_openers=FUNCTION_OPENERS,
    markup=_MARKUP,
    thoughts=Thoughts(
        returned=Returned.TURN,
        source="[llama.cpp] StepFun3.5-Flash",
        opened={"step3.[5-9]": "[llama.cpp] StepFun3.5-Flash"},
        before="<think>\n",
        after="\n</think>\n",
    ),
    prompt=FUNCTION_PROMPT % (" in JSONSchema format", ""),
    tool=function,
    results=between_tags("<tool_response>", "</tool_response>", between=""),
    trigger=FUNCTION_TRIGGER,
)

FAMILIES = (STEP3, STEP3P5)
