"""Z.ai's GLM: the name, then keys and values, each in a tag, within `<tool_call>`.

Sources: the models' chat templates, and the parsers of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

import string

from ...parsing.text.grammar import Opener, Where, beginnings
from ..family import Family
from ..markup import Escape, Markup
from ..prompt.thoughts import Returned, Thoughts
from ..prompt.tool_results import between_tags
from ..prompt.tools_json import function
from ..syntax.function_tags import TOOL_TAG
from ..syntax.openers import shared
from ..syntax.slots import Slots

_MARKUP = Markup(
    stops=("<tool_response>", "<|user|>", "<|observation|>"),
    ends=("<|role_end|>",),  # Ling 3
    closers=("</role>",),  # Ling
    tags=("arg_(?:key|value)[>:]",),
    escapes=(Escape(r"\[", r"gMASK\]"),),
)

LINES = Slots(
    call="<tool_call>{name}[<tool_sep>]\n{slots}</tool_call>",
    slot="<arg_key>{key}</arg_key>\n<arg_value>{value}</arg_value>\n",
    between="\n",
    bare=True,
    style="glm_xml",  # the style leaves no line break between a key and its value: the tags say the same
)
_LINE = Slots(
    call="<tool_call>{name}{slots}</tool_call>",
    slot="<arg_key>{key}</arg_key><arg_value>{value}</arg_value>",
    between="",
    bare=True,
    style="glm_xml",  # https://github.com/mlc-ai/xgrammar, python/xgrammar/builtin_structural_tag.py: glm_4_7
)
TOOL_CALL = shared(LINES.trigger, LINES, r"\w", close=LINES.closers[0])
_NAME, _WS = r"[A-Za-z0-9_][\w.\-]{0,127}", r"[ \t\r\n]{0,8}"
_LOST = Opener(  # the marker is lost
    pattern=rf"(?P<tool>{_NAME}){_WS}{LINES.parts.slot_head}",
    partial=rf"(?P<tool>{_NAME})(?:{_WS}(?:{beginnings(LINES.parts.slot_head)})?)?",
    first=string.ascii_letters + string.digits + "_",
    where=Where.START,
    named=True,
    consume=False,
    body=LINES,
)
_OPENERS = (TOOL_CALL, _LOST, TOOL_TAG)

_PROMPT = """\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

For each function call, output the function name and arguments within the following XML format:
"""

# https://huggingface.co/zai-org/GLM-4.6 (llama.cpp: models/templates/GLM-4.6.jinja)
GLM45 = Family(
    name="glm45",
    about="the name, `<arg_key>` and `<arg_value>` within `<tool_call>`: GLM 4.5 and 4.6",
    models={"glm4.[56]": "[vllm] glm45"},
    alike={
        "laguna": "[vllm] poolside_v1: GLM's tags",
        "ling3": "[vllm] ling3: GLM's tags",
        "ling-flash3": "the same",
    },
    calls=LINES,
    auto_openers=_OPENERS,
    markup=_MARKUP,
    thoughts=Thoughts(returned=Returned.TURN, source="[llama.cpp] GLM-4.6"),
    prompt=_PROMPT
    + """\
<tool_call>{function-name}
<arg_key>{arg-key-1}</arg_key>
<arg_value>{arg-value-1}</arg_value>
<arg_key>{arg-key-2}</arg_key>
<arg_value>{arg-value-2}</arg_value>
...
</tool_call>""",
    tool=function,
    results=between_tags("<tool_response>\n", "\n</tool_response>"),
    special_tokens=True,
)

# https://huggingface.co/zai-org/GLM-4.7
GLM47 = Family(
    name="glm47",
    about="as `glm45`, on one line: GLM 4.7 and 5",
    models={
        "glm4.7": "[vllm] glm47",
        "glm5": "[sglang] glm47",
    },
    alike={"spark2.5": "[llama.cpp] Spark2.5"},
    calls=_LINE,
    auto_openers=_OPENERS,
    markup=_MARKUP,
    thoughts=Thoughts(
        returned=Returned.TURN,
        source="[llama.cpp] GLM-4.7-Flash; [card] GLM-5",
        other={"glm5.[3-9]": (Returned.ALL, "[card] GLM-5.3: clear_thinking is false by default")},
        opened={"glm4.7": "[llama.cpp] GLM-4.7-Flash", "glm5": "[card] GLM-5"},
    ),
    prompt=_PROMPT
    + """\
<tool_call>{function-name}<arg_key>{arg-key-1}</arg_key><arg_value>{arg-value-1}</arg_value>\
<arg_key>{arg-key-2}</arg_key><arg_value>{arg-value-2}</arg_value>...</tool_call>""",
    tool=function,
    results=between_tags("<tool_response>", "</tool_response>", between=""),
    special_tokens=True,
)

FAMILIES = (GLM45, GLM47)
