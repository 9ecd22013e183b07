"""Mistral: a JSON list behind `[TOOL_CALLS]`, or (since the tokenizer's version 11) the name, `[ARGS]` and JSON.

Which of the two a model writes depends on its tokenizer's version, and some write the other one.
Sources: the models' chat templates, and the parsers of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...model import ToolResult
from ...parsing.text.grammar import Opener, beginnings
from .. import reading
from ..family import Family
from ..markup import Escape, Markup
from ..prompt import escaping
from ..prompt.thoughts import between
from ..prompt.tool_results import as_json, said
from ..prompt.tools_json import function
from ..syntax.json import CALL, Json
from ..syntax.named import Named
from ..syntax.openers import fork
from ..syntax.shape import short_id

_THINK = ("[THINK]", "[/THINK]")
_MARKUP = Markup(
    reasoning=(_THINK,),
    stops=("[TOOL_RESULTS]", "[INST]"),
    escapes=(
        Escape(
            r"\[",
            r"/?(?:TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|AVAILABLE_TOOLS|ARGS|CALL_ID|INST|SYSTEM_PROMPT|THINK)\]",
        ),
    ),
)

_LIST = Json(open="[TOOL_CALLS] [", call=CALL[:-1] + ', "id": "{id}"}', between=", ", close="]")
_NAMED = Named(
    call="[TOOL_CALLS]{name}[ARGS]{arguments}",
    alone=True,
    call_id=("[CALL_ID]", "[ARGS]"),
    reopen=(_LIST.marker, *_MARKUP.stops, "</s>"),
)
_mistral = fork((r"[{\[]", _LIST), (r"[^\s{\[]", _NAMED))

OPENERS = (
    Opener(  # the marker may repeat
        pattern=r"\[TOOL_CALLS\](?:[ \t\r\n]{0,8}\[TOOL_CALLS\]){0,3}",
        partial=r"(?:\[TOOL_CALLS\][ \t\r\n]{0,8}){0,3}(?:" + beginnings("[TOOL_CALLS") + ")?",
        first="[",
        body=_mistral,
    ),
)


def _results_with_ids(results: Sequence[ToolResult]) -> str:
    """`[TOOL_RESULTS] {"content": …, "call_id": "…"}[/TOOL_RESULTS]` for each."""
    blocks = (
        f'[TOOL_RESULTS] {{"content": {as_json(result)}, "call_id": "{short_id(result.id)}"}}[/TOOL_RESULTS]'
        for result in results
    )
    return escaping.with_note(blocks, results)


# The list of tools and the calls are as https://huggingface.co/mistralai/Mistral-7B-Instruct-v0.3 has them; the words
# are those of vLLM's examples/tool_chat_template_mistral_parallel.jinja.
MISTRAL_OLD = Family(
    name="mistral_old",
    about="a JSON list behind `[TOOL_CALLS]`: Mistral 7B v0.3, Nemo, Small 3.1 and earlier",
    models={
        "ministral3b": "[mistral] v3: the 3B of 2024",
        "mistral7b-instruct-v0.3": "[vllm] mistral; [mistral] v3",
        "mistral-nemo": "[llama.cpp] Mistral Nemo; [mistral] v3",
        "mistral-small": "[mistral] v3 and, up to 3.1, v7",
        "mistral-large": "[mistral] v3 and v7",
        "mixtral8x22b-instruct": "[mistral] v3",
        "ministral": "[mistral] v3: the 8B of 2024",
        "pixtral": "[mistral] v3 and v7",
    },
    calls=_LIST,
    auto_openers=OPENERS,
    fallback=reading.BARE_JSON,
    markup=_MARKUP,
    thoughts=between(_THINK),
    prompt="""\
[AVAILABLE_TOOLS] [{tools}][/AVAILABLE_TOOLS]

If you call one or more tools, format them in a single JSON array of objects, where each object is a tool call, not as \
separate objects outside of an array or multiple arrays, and write [TOOL_CALLS] before it. For example:
{example}

If you call tools, do not attempt to interpret them or otherwise provide a response until you receive a tool call \
result that you can interpret for the user.""",
    tool=function,
    between=", ",
    results=_results_with_ids,
    noun="tool",
    special_tokens=True,
)


def _mistral_results(results: Sequence[ToolResult]) -> str:
    """`[TOOL_RESULTS]id[TOOL_CONTENT]…[/TOOL_RESULTS]` for each."""
    blocks = (f"[TOOL_RESULTS]{short_id(result.id)}[TOOL_CONTENT]{said(result)}[/TOOL_RESULTS]" for result in results)
    return escaping.with_note(blocks, results)


# https://github.com/mistralai/mistral-common (InstructTokenizerV11 and V13: tools, calls and results)
MISTRAL_V11 = Family(
    name="mistral_v11",
    about="`[TOOL_CALLS]`, the name, `[ARGS]` and JSON: Mistral Small 3.2, Magistral, Devstral, Ministral 3",
    models={
        "mistral-small3.2": "[mistral] v11",
        "mistral-small2506": "the same by its date",
        "mistral-small4": "[mistral] v15",
        "mistral-medium3": "[mistral] v13",
        "mistral-medium25": "the same by its date",
        "mistral-large3": "[mistral] v13",
        "mistral-large2512": "the same by its date",
        "ministral3": "[mistral] v13",
        "devstral": "[mistral] v11 and v13",
        "magistral": "[mistral] v11 and v13",
    },
    calls=_NAMED,
    auto_openers=OPENERS,
    markup=_MARKUP,
    thoughts=between(_THINK),
    prompt="""\
[AVAILABLE_TOOLS][{tools}][/AVAILABLE_TOOLS]

To call a tool, write [TOOL_CALLS], its name, [ARGS] and the arguments as a JSON object; several calls follow one \
another. For example:
{example}

The results come in the next message, between [TOOL_RESULTS] and [/TOOL_RESULTS]. Never write a result yourself.""",
    tool=function,
    between=", ",
    results=_mistral_results,
    answer=f"{_NAMED.marker} and the call",
    noun="tool",
    special_tokens=True,
)

FAMILIES = (MISTRAL_OLD, MISTRAL_V11)
