"""Swiss AI's Apertus: a JSON list between two tokens, in which the names are keys."""

from __future__ import annotations

from .. import reading
from ..family import Family
from ..markup import Markup
from ..prompt.thoughts import between
from ..prompt.tool_results import RESULTS_FOLLOW
from ..prompt.tools_typescript import declared
from ..syntax.json import keyed, listed
from ..syntax.openers import json_calls, opener

# https://huggingface.co/swiss-ai/Apertus-8B-Instruct-2509 (vLLM: examples/tool_chat_template_apertus.jinja), which does
# not say how to call.
_THINK = ("<|inner_prefix|>", "<|inner_suffix|>")
APERTUS = Family(
    name="apertus",
    about="a JSON list between `<|tools_prefix|>` and `<|tools_suffix|>`, names as keys: Apertus",
    models={"apertus": "[vllm] apertus"},
    auto_openers=(opener("<|tools_prefix|>", json_calls(keyed=True, close=("<|tools_suffix|>",))),),
    fallback=reading.BARE_JSON,
    markup=Markup(
        reasoning=(_THINK,),
        ends=("<|assistant_end|>",),
        closers=("<|tools_suffix|>",),
    ),
    thoughts=between(_THINK),
    prompt="""\
Tool Capabilities:
{tools}

To call tools, answer in this form, each tool's name being a key:
{example}

"""
    + RESULTS_FOLLOW,
    tool=declared,
    write=listed("<|tools_prefix|>[", "]<|tools_suffix|>", entry=keyed),
    trigger="<|tools_prefix|>",
    answer="the list of calls between <|tools_prefix|> and <|tools_suffix|>",
    noun="tool",
    special_tokens=True,
)

FAMILIES = (APERTUS,)
