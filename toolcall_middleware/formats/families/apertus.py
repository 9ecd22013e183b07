"""Swiss AI's Apertus: a JSON list between two tokens, in which the names are keys."""

from __future__ import annotations

from .. import reading
from ..family import Family
from ..markup import Markup
from ..prompt.thoughts import between
from ..prompt.tool_results import RESULTS_FOLLOW
from ..prompt.tools_typescript import declared
from ..syntax.json import Json

# https://huggingface.co/swiss-ai/Apertus-8B-Instruct-2509 (vLLM: examples/tool_chat_template_apertus.jinja), which does
# not say how to call.
_THINK = ("<|inner_prefix|>", "<|inner_suffix|>")
APERTUS = Family(
    name="apertus",
    about="a JSON list between `<|tools_prefix|>` and `<|tools_suffix|>`, names as keys: Apertus",
    models={"apertus": "[vllm] apertus"},
    calls=Json(open="<|tools_prefix|>[", call='{"{name}": {arguments}}', between=", ", close="]<|tools_suffix|>"),
    fallback=reading.BARE_JSON,
    markup=Markup(reasoning=(_THINK,), ends=("<|assistant_end|>",)),
    thoughts=between(_THINK),
    prompt="""\
Tool Capabilities:
{tools}

To call tools, answer in this form, each tool's name being a key:
{example}

"""
    + RESULTS_FOLLOW,
    tool=declared,
    noun="tool",
    special_tokens=True,
)

FAMILIES = (APERTUS,)
