"""LLM-jp 4.1, the format `llm-jp-harmony`: gpt-oss's messages, as a tokenizer gives them that puts a space behind every
special token. Calls of one turn follow each other, all but the last closed by `<|end|>`.

    <|start|> assistant to=functions.lookup<|channel|> commentary <|constrain|>  json<|message|> {"city": "Paris"}

Sources: the models' chat template, which declares `chat_format=llm-jp-harmony-v1`, and the parsers of llama.cpp
(common/parsers/llm-jp-harmony.cpp) and SGLang. `<|call|>` ends the turn and need not be in the text.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...model import ToolCall
from ...parsing.text.grammar import Opener
from .. import reading
from ..family import Family
from ..markup import Markup
from ..prompt.escaping import arguments_json
from ..prompt.tools_typescript import declared
from .harmony import NAME, OPENERS, PROMPT, message

_SPACED = Opener(marker="<|start|> assistant", body=message)


def _write(calls: Sequence[ToolCall]) -> str | None:
    if not all(NAME.fullmatch(call.name) for call in calls):
        return None
    # Without the spaces, which the tokenizer's decoder adds.
    written = "<|end|>".join(
        f"<|start|>assistant to=functions.{call.name}<|channel|>commentary <|constrain|> json<|message|>"
        f"{arguments_json(call.arguments)}"
        for call in calls
    )
    return f"{written}<|call|>"


# https://huggingface.co/llm-jp/llm-jp-4.1-8b-thinking (llama.cpp: models/templates/llm-jp-llm-jp-4.1-8b-thinking.jinja)
LLM_JP_HARMONY = Family(
    name="llm-jp-harmony",
    about="as `harmony`, with a space behind every special token: LLM-jp 4.1",
    models={"llm-jp4.1": "[llama.cpp] llm-jp-harmony; [sglang] the same"},
    auto_openers=(_SPACED,),
    own_openers=OPENERS,
    fallback=reading.LISTED_JSON,
    markup=Markup(stops=("<|start|> user", "<|start|> functions.")),
    prompt=PROMPT,
    tool=declared,
    between="\n\n",
    write=_write,
    trigger="<|start|>assistant to=",
    answer="the call in the commentary channel",
    special_tokens=True,
)

FAMILIES = (LLM_JP_HARMONY,)
