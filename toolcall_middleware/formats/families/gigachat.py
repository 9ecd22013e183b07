"""Sber's GigaChat: a JSON object behind a message's head or a token (3), or DeepSeek's tags by another name (3.5).

Sources: the models' chat templates, and the parsers of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

import re

from ...parsing.text.grammar import Opener, beginnings
from .. import reading
from ..family import Family
from ..prompt.tool_results import RESULTS_FOLLOW
from ..prompt.tools_typescript import declared
from ..syntax.json import CALL, Json
from ..syntax.openers import ignored, opener
from ..syntax.slots import Slots

# A message of its own (3), or a token (3.1).
_END = "<|message_sep|>"
_JSON = Json(call=f"<|function_call|>{CALL}", between=f"{_END}\n\n", ends=(_END,))

_SEPARATOR = ignored(_END)
_OPENERS = (
    Opener(
        pattern=rf"{re.escape(_END)}[ \t\r\n]{{0,8}}function call<\|role_sep\|>",
        partial=beginnings(_END, "function call<|role_sep|"),
        body=_JSON,
    ),
    opener("function call<|role_sep|>", _JSON),
    *_JSON.openers,
    _SEPARATOR,
)

# https://huggingface.co/ai-sage/GigaChat3-10B-A1.8B and GigaChat3.1-10B-A1.8B (llama.cpp has both templates). Their
# template lists the tools as TypeScript; it does not say how to call.
GIGACHAT3 = Family(
    name="gigachat3",
    about="a JSON object behind `<|function_call|>`: GigaChat 3",
    models={"gigachat3": "[vllm] gigachat3"},
    calls=_JSON,
    auto_openers=_OPENERS,
    fallback=reading.BARE_JSON,
    prompt="""\
You have access to these functions:

{tools}

To call a function, answer with its name and its arguments in this form:
{example}

The result comes in the next message, between <tool_result> and </tool_result>. Never write a result yourself.""",
    tool=declared,
    between="\n\n",
    special_tokens=True,
)

_INVOKE = Slots(
    open="<｜GCML｜tool_calls>\n",
    call='<｜GCML｜invoke name="{name}">\n{slots}</｜GCML｜invoke>',
    slot='<｜GCML｜parameter name="{key}" string="{kind}">{value}</｜GCML｜parameter>\n',
    close="\n</｜GCML｜tool_calls>",
    prefix="｜GCML｜",
)
_GCML_OPENERS = (
    _INVOKE.opener(),
    opener("<｜GCML｜invoke name=", _INVOKE, consume=False),
    _SEPARATOR,
)

# https://github.com/sgl-project/sglang (function_call/gigachat35_detector.py) and llama.cpp (models/templates/
# GigaChat3.5.jinja), where the tools stand as TypeScript: the words are ours.
GIGACHAT35 = Family(
    name="gigachat35",
    about='`<｜GCML｜invoke name="f">` within `<｜GCML｜tool_calls>`: GigaChat 3.5',
    models={"gigachat3.5": "[sglang] gigachat35"},
    calls=_INVOKE,
    auto_openers=_GCML_OPENERS,
    prompt="""\
# Tools

namespace functions {

{tools}

} // namespace functions

To call functions, answer with a block in this form. The attribute string is "true" for strings, which stand there as \
they are, and "false" for all other values, which stand there as JSON:
{example}

"""
    + RESULTS_FOLLOW,
    tool=declared,
    between="\n\n",
    answer=f"the {_INVOKE.trigger} block",
    special_tokens=True,
)

FAMILIES = (GIGACHAT3, GIGACHAT35)
