"""MiniMax: `invoke` tags (M2), or an element for each argument, every tag behind a mark (M3).

Sources: the models' chat templates, and the parsers of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

import re

from ...model import Tool
from ...parsing.text.grammar import beginnings
from ...parsing.text.reasoning import OpenedReasoning
from ..family import Family
from ..markup import Escape, Markup
from ..prompt.thoughts import Returned, Thoughts
from ..prompt.tool_results import between_tags, guarded
from ..prompt.tools_json import definition
from ..syntax.bare_invoke import BARE_INVOKE
from ..syntax.function_tags import TOOL_TAG
from ..syntax.nested_xml import Elements
from ..syntax.openers import fork, json_calls, opener
from ..syntax.slots import Slots

INVOKE = Slots(
    open="<minimax:tool_call>\n",
    call='<invoke name="{name}">\n{slots}</invoke>',
    slot='<parameter name="{key}">{value}</parameter>\n',
    close="\n</minimax:tool_call>",
    style="minimax_xml",  # https://github.com/mlc-ai/xgrammar, python/xgrammar/builtin_structural_tag.py: minimax
)

_MARKUP = Markup(
    reasoning=(("<mm:think>", "</mm:think>"),),
    stops=("]~b]",),
    ends=("[e~[", "]<]minimax[>[</tool_call>"),  # M3 ends plain answers with it, too
    tags=("minimax:", r"\]minimax\[>", r"invoke\s+name\s*=", r"parameter\s+name\s*=", "/(?:invoke|parameter)>"),
    escapes=(Escape(r"\[", r"e~\["), Escape(r"\]", r"(?:~!?b[\[\]]|![a-z]~\[)")),
)


def _json_tool(tool: Tool) -> str:
    return f"<tool>{guarded(definition(tool), '</tool>')}</tool>"


_MARK = "]<]minimax[>["
_ELEMENTS = Elements(mark=_MARK, wrapper="tool_call", style="minimax_m3_xml")  # of the same module
_NESTED = fork(("", _ELEMENTS), again=_ELEMENTS.marker)
_calls = fork(
    (r"\{|\[", json_calls(close=INVOKE.closers)),
    (re.escape(_MARK), _NESTED),  # M3 writes the marker of M2 before its own
    ("", INVOKE),
    undecided=f"(?:{beginnings(_MARK)})?",
)
_M2_CALLS = opener(INVOKE.trigger, _calls)
_OPENERS = (_M2_CALLS, *BARE_INVOKE, TOOL_TAG)

# https://huggingface.co/MiniMaxAI/MiniMax-M2 (llama.cpp: models/templates/unsloth-MiniMax-M2.jinja)
MINIMAX_M2 = Family(
    name="minimax_m2",
    about='`<invoke name="f">` and `<parameter name="x">` within `<minimax:tool_call>`: MiniMax M2',
    models={"minimax-m2": "[card] MiniMax-M2.5, docs/tool_calling_guide.md: the same syntax as M2"},
    calls=INVOKE,
    auto_openers=_OPENERS,
    markup=_MARKUP,
    thoughts=Thoughts(
        returned=Returned.TURN,
        source="[llama.cpp] MiniMax-M2",
        opened={"minimax-m2": "[llama.cpp] MiniMax-M2"},
        before="<think>\n",
        after="\n</think>\n\n",
    ),
    prompt="""\
# Tools
You may call one or more tools to assist with the user query.
Here are the tools available in JSONSchema format:

<tools>
{tools}
</tools>

When making tool calls, use XML format to invoke tools and pass parameters:

<minimax:tool_call>
<invoke name="tool-name-1">
<parameter name="param-key-1">param-value-1</parameter>
<parameter name="param-key-2">param-value-2</parameter>
...
</invoke>
</minimax:tool_call>""",
    tool=_json_tool,
    results=between_tags("<response>", "</response>"),
    noun="tool",
)

_M3_OPENERS = (
    _M2_CALLS,
    *_ELEMENTS.openers,
    # Without the wrapper around the calls.
    opener(f"{_MARK}<invoke name=", _ELEMENTS, consume=False),
    *BARE_INVOKE,
)

# https://huggingface.co/MiniMaxAI/MiniMax-M3 (llama.cpp: models/templates/MiniMax-M3.jinja)
MINIMAX_M3 = Family(
    name="minimax_m3",
    about='`<invoke name="f">` and an element for each argument, all behind `]<]minimax[>[`: MiniMax M3',
    models={"minimax-m3": "[vllm] minimax_m3"},
    calls=_ELEMENTS,
    auto_openers=_M3_OPENERS,
    markup=_MARKUP,
    thoughts=Thoughts(
        returned=Returned.ALL,
        source="[llama.cpp] MiniMax-M3",
        before="<mm:think>",
        after="</mm:think>",
        tags=OpenedReasoning("<mm:think>", "</mm:think>"),
    ),
    prompt=f"""\
# Tools
You may call one or more tools to assist with the user query.
Here are the tools available in JSONSchema format:

<tools>
{{tools}}
</tools>

To call tools, wrap all invocations in a single {_MARK}<tool_call>{_MARK}</tool_call> block. Parameter values \
containing nested objects or arrays are recursively expanded into XML elements. Example:

{_MARK}<tool_call>
{_MARK}<invoke name="tool-name-1">{_MARK}<param-1>value-1{_MARK}</param-1>{_MARK}<param-2>{_MARK}<item>\
{_MARK}<key-a>val-a{_MARK}</key-a>{_MARK}<key-b>val-b{_MARK}</key-b>{_MARK}</item>{_MARK}</param-2>{_MARK}</invoke>
{_MARK}<invoke name="tool-name-2">{_MARK}<param-1>value-1{_MARK}</param-1>{_MARK}</invoke>
{_MARK}</tool_call>""",
    tool=_json_tool,
    results=between_tags("<response>", "</response>"),
    answer="the tool call block",
    noun="tool",
    special_tokens=True,
)

FAMILIES = (MINIMAX_M2, MINIMAX_M3)
