"""Qwen, and Hermes, whose syntax Qwen 2.5 and 3 have.

    <tool_call>
    {"name": "lookup", "arguments": {"city": "Paris"}}
    </tool_call>

Qwen3-Coder and Qwen 3.5 write tags instead:

    <tool_call>
    <function=lookup>
    <parameter=city>
    Paris
    </parameter>
    </function>
    </tool_call>

Sources: the models' chat templates, and the parsers of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

from .. import reading
from ..family import Family
from ..markup import Markup
from ..prompt.thoughts import Returned, Thoughts
from ..prompt.tool_results import between_tags
from ..prompt.tools_json import function
from ..syntax.bare_invoke import NO_INVOKE
from ..syntax.function_tags import FUNCTIONS, TOOL_TAG
from ..syntax.json import TOOL_CALL, TOOL_CALL_JSON
from ..syntax.openers import json_calls, opener, shared
from . import minicpm

MARKUP = Markup(
    stops=("<tool_response>", "<|im_start|>"),
    ends=("<|im_end|>", "<|endoftext|>"),
    closers=("</function_invocation>",),
    tags=("function=", "parameter=", "/(?:function|parameter)>"),
)

_TOOL_RESPONSE = between_tags("<tool_response>\n", "\n</tool_response>")
# The prompt lists the tools within <tools>, and Qwen 2.5 Coder writes its calls in that tag, too. `bare` tells a call
# from a tool's definition, which the model may repeat there.
_OPENERS = (TOOL_CALL_JSON, opener("<tools>", json_calls(bare=True, close=("</tools>",))))

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
    auto_openers=_OPENERS,
    fallback=reading.BARE_JSON,
    markup=MARKUP,
    # [llama.cpp] Qwen-Qwen3-0.6B: reasoning behind the last user message that holds no tool results
    thoughts=Thoughts(
        returned=Returned.TURN,
        source="[llama.cpp] Qwen-Qwen3-0.6B",
        opened={"qwq": "[llama.cpp] Qwen-QwQ-32B", "qwen3-*thinking": "[card] Qwen3-30B-A3B-Thinking-2507"},
        before="<think>\n",
        after="\n</think>\n\n",
    ),
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
    results=_TOOL_RESPONSE,
    needs_user=True,
)

FUNCTION_OPENERS = (
    shared("<tool_call>", FUNCTIONS, NO_INVOKE, close="</tool_call>"),
    # The opening <tool_call> is often missing. (JSON there, Functionary's and Llama 3.1's, the reader knows too.)
    opener("<function=", FUNCTIONS, consume=False),
    opener("<parameter=", FUNCTIONS, consume=False),  # which holds the name, and the parameters follow
    *minicpm.OPENERS,  # names as attributes
    TOOL_TAG,
)

# https://github.com/mlc-ai/xgrammar, python/xgrammar/builtin_structural_tag.py: qwen_3_coder
FUNCTION_TRIGGER = "<tool_call>\n<function="

FUNCTION_PROMPT = """\
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
    auto_openers=FUNCTION_OPENERS,
    markup=MARKUP,
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
    prompt=FUNCTION_PROMPT % ("", _QWEN_MORE),
    tool=function,
    results=_TOOL_RESPONSE,
    trigger=FUNCTION_TRIGGER,
    # https://huggingface.co/Qwen/Qwen3.5-4B, chat_template.jinja: "No user query found in messages."
    needs_user=True,
)

FAMILIES = (HERMES, QWEN3_CODER)
