"""Salesforce's xLAM: a bare JSON list. Trained upon several bases, it also writes their markers."""

from __future__ import annotations

from collections.abc import Sequence

from ...json_schema import compact
from ...model import Tool, ToolChoice
from ...parsing.text.grammar import Opener, Where, beginnings
from ..base import Constraint
from ..family import Family, callable_tools
from ..prompt.tools_json import function_indented
from ..syntax.json import TOOL_CALL_JSON, Json
from .mistral import OPENERS as MISTRAL_OPENERS

_CALLS = Json(open="[", between=", ", close="]")
_LIST = Opener(
    pattern=r"\[[ \t\r\n]{0,32}\{[ \t\r\n]{0,32}[\"']name[\"'][ \t\r\n]{0,32}:",
    partial=beginnings("[", "{", '"name"', ":").replace('"', "[\"']"),
    where=Where.FENCE,
    consume=False,
    body=_CALLS,
    fences=frozenset({"json"}),
)


def _list_of_objects(tools: Sequence[Tool], choice: ToolChoice) -> Constraint | None:
    callable_now = callable_tools(tools, choice)
    if not choice.must_call or not callable_now:
        return None
    return Constraint("tool_calls", compact.call_list_schema(callable_now, parallel=choice.parallel))


# https://huggingface.co/Salesforce/Llama-xLAM-2-8b-fc-r (vLLM: examples/tool_chat_template_xlam_llama.jinja)
XLAM = Family(
    name="xlam",
    about="a bare JSON list: xLAM",
    fine_tunes={
        "xlam": "[vllm] xlam",
        "llama-xlam": "[vllm] xlam",
    },
    calls=_CALLS,
    own_openers=(
        *MISTRAL_OPENERS,
        TOOL_CALL_JSON,
        _LIST,  # besides the bare list that is the whole answer: a block behind text
    ),
    prompt="""\
You have access to a set of tools. When using tools, make calls in a single JSON array:\x20

[{"name": "tool_call_name", "arguments": {"arg1": "value1", "arg2": "value2"}}, ... (additional parallel tool calls as \
needed)]

If no tool is suitable, state that explicitly. If the user's input lacks required parameters, ask for clarification. \
Do not interpret or respond until tool results are returned. Once they are available, process them or make additional \
calls if needed. For tasks that don't require tools, such as casual conversation or general advice, respond directly \
in plain text. The available tools are:

{tools}""",
    tool=function_indented,
    between="\n\n",
    answer="the JSON array of calls",
    noun="tool",
    constrain=_list_of_objects,
)

FAMILIES = (XLAM,)
