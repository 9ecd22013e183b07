"""NVIDIA's Nemotron: a JSON list within `<TOOLCALL>`."""

from __future__ import annotations

from .. import reading
from ..family import Family
from ..markup import Markup
from ..prompt.tool_results import json_list
from ..syntax.json import Json

_LIST = Json(open="<TOOLCALL>[", between=", ", close="]</TOOLCALL>")
_MINI = Json(open="<toolcall>[", close="]</toolcall>")  # Nemotron Mini

# https://huggingface.co/nvidia/NVIDIA-Nemotron-Nano-9B-v2 (llama.cpp: models/templates/NVIDIA-Nemotron-Nano-v2.jinja)
NEMOTRON = Family(
    name="nemotron",
    about="a JSON list within `<TOOLCALL>` tags: Nemotron Nano v2, Llama-Nemotron Super",
    fine_tunes={"nemotron": "[llama.cpp] NVIDIA-Nemotron-Nano-v2, Llama-3_3-Nemotron-Super-49B-v1_5"},
    calls=_LIST,
    auto_openers=(*_LIST.openers, *_MINI.openers),
    fallback=reading.BARE_JSON,
    markup=Markup(
        stops=("<TOOL_RESPONSE>",),
        ends=("<SPECIAL_12>",),
        tags=("(?i:toolcall>)", r"(?:SPECIAL|extra_id)_\d{1,3}>"),
    ),
    prompt="""\
You can use the following tools to assist the user if required:
<AVAILABLE_TOOLS>[{tools}]</AVAILABLE_TOOLS>

If you decide to call any tool(s), use the following format:
<TOOLCALL>[{{"name": "tool_name1", "arguments": "tool_args1"}}, \
{{"name": "tool_name2", "arguments": "tool_args2"}}]</TOOLCALL>

The user will execute tool-calls and return responses from tool(s) in this format:
<TOOL_RESPONSE>[{{"tool_response1"}}, {{"tool_response2"}}]</TOOL_RESPONSE>

Based on the tool responses, you can call additional tools if needed, correct tool calls if any errors are found, or \
just respond to the user.""",
    between=", ",
    results=json_list("<TOOL_RESPONSE>", "</TOOL_RESPONSE>"),
    noun="tool",
)

FAMILIES = (NEMOTRON,)
