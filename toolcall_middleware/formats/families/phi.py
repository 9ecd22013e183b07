"""Microsoft's Phi 4 mini: a JSON list behind the word `functools`."""

from __future__ import annotations

from .. import reading
from ..family import Family
from ..markup import Escape, Markup
from ..prompt.tool_results import json_each
from ..prompt.tools_json import function
from ..syntax.json import Json
from .granite import PIPED

_LIST = Json(open="functools[", between=", ", close="]")
_OPENERS = (
    *_LIST.openers,
    PIPED,  # the tokenizer's own marker, which prompts differ about
    *Json(open="<|tool_calls|>[", close="]<|/tool_calls|>").openers,
)

# https://huggingface.co/microsoft/Phi-4-mini-instruct (vLLM: examples/tool_chat_template_phi4_mini.jinja)
PHI4_MINI = Family(
    name="phi4_mini",
    about="a JSON list behind `functools`: Phi 4 mini",
    models={"phi4-mini": "vLLM: phi4_mini_json, examples/tool_chat_template_phi4_mini.jinja"},
    alike={"firefunction-v2": "[llama.cpp] llama-3-firefunction-v2"},
    calls=_LIST,
    auto_openers=_OPENERS,
    fallback=reading.BARE_JSON,
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

FAMILIES = (PHI4_MINI,)
