"""Cohere's Command: a JSON list between tokens (Command A and R7B), or behind the word `Action:` (R and R+).

Sources: the models' chat templates, and the parsers of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ...model import ToolResult
from ...parsing.text.grammar import Opener, beginnings
from .. import reading
from ..family import Family
from ..markup import Escape, Markup
from ..prompt import escaping
from ..prompt.thoughts import between
from ..prompt.tool_results import RESULTS_FOLLOW, said
from ..syntax.json import CALL, Json
from ..syntax.openers import opener

_THINK = ("<|START_THINKING|>", "<|END_THINKING|>")
_MARKUP = Markup(
    reasoning=(_THINK,),
    stops=("<|START_TOOL_RESULT|>",),
    ends=("<|END_OF_TURN_TOKEN|>",),
    noise=("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"),
    escapes=(Escape("Action:", r"\s{0,8}(?:```|\[\s{0,32}\{)"),),
)


def _numbered_results(results: Sequence[ToolResult]) -> str:
    if not results:
        return ""
    entries = ",\n".join(
        f"""\
    {{
        "tool_call_id": "{number}",
        "results": {{
            "0": {escaping.dump_spaced(said(result))}
        }},
        "is_error": {"true" if result.is_error else "null"}
    }}"""
        for number, result in enumerate(results)
    )
    return escaping.with_note([f"<|START_TOOL_RESULT|>[\n{entries}\n]<|END_TOOL_RESULT|>"], results)


# https://huggingface.co/CohereLabs/c4ai-command-r7b-12-2024: its template for tools, shortened (it says at length when
# to think).
COHERE_COMMAND3 = Family(
    name="cohere_command3",
    about="a JSON list between `<|START_ACTION|>` and `<|END_ACTION|>`: Command R7B, Command A",
    models={
        "command-r7b": "[llama.cpp] Command R7B",
        "command-a": "[vllm] cohere_command3",
    },
    calls=Json(
        open="<|START_ACTION|>[\n    ",
        call='{"tool_call_id": "{number}", "tool_name": "{name}", "parameters": {arguments}}',
        between=",\n    ",
        close="\n]<|END_ACTION|>",
    ),
    fallback=reading.BARE_JSON,
    markup=_MARKUP,
    thoughts=between(_THINK),
    prompt="""\
## Tool Use
1. Action: write <|START_ACTION|> followed by a list of JSON-formatted tool calls, with each one containing \
"tool_name" and "parameters" fields.
    When there are multiple tool calls which are completely independent of each other (i.e. they can be executed in \
parallel), you should list them out all together in one step. When you finish, close it out with <|END_ACTION|>. For \
example:
{example}
2. Observation: you will then receive results of those tool calls in JSON format in the very next turn, wrapped around \
by <|START_TOOL_RESULT|> and <|END_TOOL_RESULT|>. Carefully observe those results and think about what to do next. \
NEVER hallucinate results.

You can repeat these steps multiple times (could be 0 times too if no suitable tool calls are available or needed), \
until you decide it's time to finally respond to the user.

## Available Tools
Here is the list of tools that you have available to you.
You can ONLY use the tools listed here. When a tool is not listed below, it is NOT available and you should NEVER \
attempt to use it.
Each tool is represented as a JSON object with fields like "name", "description", "parameters" (per JSON Schema).

```json
[
    {tools}
]
```""",
    between=",\n    ",
    results=_numbered_results,
    noun="tool",
    special_tokens=True,
)

# Calls as Command A has them; answers stand between other tags (llama.cpp: models/templates/Cohere2MoE.jinja).
COHERE_COMMAND4 = replace(
    COHERE_COMMAND3,
    name="cohere_command4",
    about="as `cohere_command3`: North Mini Code",
    models={"north-mini-code": "[llama.cpp] Cohere2MoE"},
)

# The fence belongs to the marker, for it stands behind a word.
_LIST = Json(
    open="Action: ```json\n[\n    ",
    call='{"tool_name": "{name}", "parameters": {arguments}}',
    between=",\n    ",
    close="\n]\n```",
)
_ACTIONS = tuple(opener(f"Action:{gap}```json", _LIST) for gap in (" ", "\n", ""))

_UNFENCED = Json(call=f"Action: {CALL}")
_UNFENCED_ACTIONS = (
    *(opener(f"Action:{gap}```\n", _LIST) for gap in (" ", "\n", "")),
    Opener(  # without a fence
        pattern=r"Action:[ \t\r\n]{0,8}(?=\[[ \t\r\n]{0,32}\{)",
        partial=beginnings("Action:", "[", "{"),
        body=_UNFENCED,
    ),
)

# https://huggingface.co/CohereForAI/c4ai-command-r-plus (its template for tool use); the words are ours.
COMMAND_R = Family(
    name="command_r",
    about="`Action:` and a JSON list in a code block, with `tool_name` and `parameters`: Command R and R+",
    models={"command-r": "[card] Command R and R+"},
    calls=_LIST,
    auto_openers=_ACTIONS,
    own_openers=_UNFENCED_ACTIONS,
    markup=_MARKUP,
    thoughts=between(_THINK),
    prompt="""\
## Available Tools
Here is a list of tools that you have available to you, each as one line of JSON:

{tools}

To use tools, write 'Action:' followed by a JSON list of the actions to take, in this form:
{example}

"""
    + RESULTS_FOLLOW,
    answer="'Action:' and the JSON list",
    noun="tool",
)

FAMILIES = (COHERE_COMMAND3, COHERE_COMMAND4, COMMAND_R)
