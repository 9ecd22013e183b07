"""LLM-jp 4.1, the format `llm-jp-harmony`: gpt-oss's messages, as a tokenizer gives them that puts a space behind every
special token. Calls of one turn follow each other, all but the last closed by `<|end|>`.

    <|start|> assistant to=functions.lookup<|channel|> commentary <|constrain|>  json<|message|> {"city": "Paris"}

Sources: the models' chat template, which declares `chat_format=llm-jp-harmony-v1`, and the parsers of llama.cpp
(common/parsers/llm-jp-harmony.cpp) and SGLang. `<|call|>` ends the turn and need not be in the text.
"""

from __future__ import annotations

from ...parsing.calls.harmony_messages import read_message
from ...parsing.text.grammar import Opener
from .. import reading
from ..family import Family
from ..markup import Markup
from ..prompt.tools_typescript import declared
from ..syntax.named import Named
from .harmony import NAME, OPENERS, PROMPT

_SPACED = Opener(marker="<|start|> assistant", body=read_message)
_CALLS = Named(  # without the spaces, which the tokenizer's decoder adds
    call="<|start|>assistant to=functions.{name}<|channel|>commentary <|constrain|> json<|message|>{arguments}",
    between="<|end|>",
    close="<|call|>",
    name=NAME,
)

# https://huggingface.co/llm-jp/llm-jp-4.1-8b-thinking (llama.cpp: models/templates/llm-jp-llm-jp-4.1-8b-thinking.jinja)
LLM_JP_HARMONY = Family(
    name="llm-jp-harmony",
    about="as `harmony`, with a space behind every special token: LLM-jp 4.1",
    models={"llm-jp4.1": "[llama.cpp] llm-jp-harmony; [sglang] the same"},
    calls=_CALLS,
    auto_openers=(_SPACED,),
    own_openers=OPENERS,
    fallback=reading.LISTED_JSON,
    markup=Markup(stops=("<|start|> user", "<|start|> functions.")),
    prompt=PROMPT,
    tool=declared,
    between="\n\n",
    answer="the call in the commentary channel",
    special_tokens=True,
)

FAMILIES = (LLM_JP_HARMONY,)
