"""AI21's Jamba: a JSON list within `<tool_calls>`."""

from __future__ import annotations

from .. import reading
from ..family import Family
from ..prompt.tool_results import RESULTS_FOLLOW
from ..syntax.json import Json

LIST = Json(open="<tool_calls>[\n    ", between=",\n    ", close="\n]</tool_calls>")

# Its template lists the tools in a turn of their own; the calls and their list are as it writes them.
# https://huggingface.co/ai21labs/AI21-Jamba-1.5-Mini
JAMBA = Family(
    name="jamba",
    about="a JSON list within `<tool_calls>` tags: Jamba 1.5 and later",
    models={"jamba": "[vllm] jamba"},
    alike={"apriel": "[llama.cpp] Apriel 1.5: a JSON list within <tool_calls>"},
    calls=LIST,
    auto_openers=(LIST.shared(""),),
    fallback=reading.BARE_JSON,
    prompt="""\
You have access to the following tools:
[
    {tools}
]

To call tools, answer with a JSON list of calls within <tool_calls></tool_calls> tags, for example:
{example}

"""
    + RESULTS_FOLLOW,
    between=",\n    ",
    noun="tool",
    special_tokens=True,
)

FAMILIES = (JAMBA,)
