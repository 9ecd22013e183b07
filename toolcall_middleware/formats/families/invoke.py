"""DeepSeek, MiniMax and others that write `<invoke name="f">`."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from ...model import Tool
from ...parsing.text.grammar import Opener
from ...parsing.text.reasoning import OpenedReasoning
from ..family import Family
from ..markup import Escape, Markup
from ..prompt.thoughts import Returned, Thoughts
from ..prompt.tool_results import RESULTS_FOLLOW, SIGNATURES, between_tags, guarded, one_a_line
from ..prompt.tools import declared, definition, function
from ..syntax.json import CALL, Json, Named
from ..syntax.literals import Elements
from ..syntax.shape import fork, ignored, json_calls, opener, shared
from ..syntax.slots import BARE_INVOKE, TOOL_TAG, Slots, invoke

# -- DeepSeek ----------------------------------------------------------------------------------------------------------
# DeepSeek: a name and JSON between markers (V3, R1, V3.1), or `invoke` tags (V3.2, V4, V4.1).
#
# Sources: the models' chat templates and encoders, and the parsers of vLLM, SGLang and llama.cpp.

_MARK_OF = re.compile("[｜|]+[A-Z]+[｜|]+ ?")


def _dsml(wrapper: str, style: str = "") -> Slots:
    """Calls with the wrapper's mark in each tag, and attributes that say which values are strings."""
    mark = _MARK_OF.findall(wrapper)[0]
    return Slots(
        open=f"<{wrapper}>\n",
        call=f'<{mark}invoke name="{{name}}">\n{{slots}}</{mark}invoke>',
        slot=f'<{mark}parameter name="{{key}}" string="{{kind}}">{{value}}</{mark}parameter>\n',
        close=f"\n</{wrapper}>",
        prefix=mark,
        style=style,
    )


# https://github.com/mlc-ai/xgrammar, python/xgrammar/builtin_structural_tag.py: deepseek_v3_2, _v4 and _v4_1
DSML = _dsml("｜DSML｜function_calls", "deepseek_xml")
_DSML_V4 = _dsml("｜DSML｜tool_calls", "deepseek_xml")
_DSML_V41 = _dsml("｜DSML｜ calls", "deepseek_v4_1_xml")  # with a space in every tag
_MORE = {"...": ""}
_SHOWN = {"$PARAMETER_NAME": "$PARAMETER_VALUE", **_MORE}
# Other wrappers that V4 and V4.1 write around calls: the models double the bars and confuse the tags of the two
# versions; some gateways replace the bars with plain ones.
_OTHERS = (
    _dsml("|DSML|tool_calls"),
    _dsml("|DSML|function_calls"),
    _dsml("||DSML||tool_calls"),
    _dsml("｜｜DSML｜｜tool_calls"),
    _dsml("｜｜DSML｜｜ calls"),
    _dsml("｜DSML｜calls"),
    _dsml("｜DSML｜ tool_calls"),
)
# A call whose name is an element: V4 mixes it with the closing tags of its own.
_DEEPSEEK_ELEMENTS = Slots(
    open="<function>\n",
    call="<name>{name}</name>\n{slots}</｜DSML｜invoke>",
    slot='<parameter name="{key}" string="{kind}">{value}</｜DSML｜parameter>\n',
    close="\n</｜DSML｜tool_calls>",
    prefix="｜DSML｜",
)

_DEEPSEEK_MARKUP = Markup(
    stops=("<｜tool▁outputs▁begin｜>", "<｜tool▁output▁begin｜>", "<｜User｜>", "<｜System｜>", "<function_results>"),
    ends=("<｜end▁of▁sentence｜>",),
    # Under a long context V4 leaves out what opens them.
    closers=tuple(closer for calls in _OTHERS for closer in calls.closers),
    tags=("｜", r"\|\|DSML"),
)

_V3 = Named(
    open="<｜tool▁calls▁begin｜>",
    call="<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{arguments}\n```<｜tool▁call▁end｜>",
    between="\n",
    close="<｜tool▁calls▁end｜>",
    # Small and distilled models' spellings of it, as llama.cpp knows them.
    spellings=("<｜tool calls begin｜>", "<｜tool\\_calls\\_begin｜>", "<｜tool▁calls｜>"),
    special=True,
    separated=True,
    item_missing=True,
)
_V31 = replace(_V3, call="<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>", between="")


def _plain_bars(gap: str) -> Named:
    """The same calls in ASCII, as some gateways write the tokens."""

    def plain(text: str) -> str:
        return text.replace("｜", "|").replace("▁", gap)

    return replace(_V3, open=plain(_V3.open), call=plain(_V3.call), close=plain(_V3.close), spellings=())


_DEEPSEEK_OPENERS = (
    *_V3.openers,
    *(opener(plain.marker, plain) for plain in map(_plain_bars, ("▁", "_"))),
    shared(  # Step 3's marker is one of those spellings
        "<｜tool_calls_begin｜>",
        _V3,
        r"(?:function)?<｜tool▁",
    ),
)

# https://huggingface.co/deepseek-ai/DeepSeek-V3-0324 (vLLM: examples/tool_chat_template_deepseekv3.jinja)
DEEPSEEK_V3 = Family(
    name="deepseek_v3",
    about="`<｜tool▁call▁begin｜>`, the name and a JSON block: DeepSeek V3 and R1",
    models={
        "deepseek-v3": "[vllm] deepseek_v3",
        "deepseek-r1": "[vllm] deepseek_v3: R1-0528",
    },
    calls=_V3,
    auto_openers=_DEEPSEEK_OPENERS,
    markup=_DEEPSEEK_MARKUP,
    # R1's template cuts the reasoning out of earlier turns.
    thoughts=Thoughts(
        opened={
            "deepseek-r1": "[card] DeepSeek-R1; [sglang] separate_reasoning",
            "deepseek-r1-distill": "[llama.cpp] deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
        },
        unopened={
            "deepseek-r1-0528": "[sglang] separate_reasoning: writes both tags itself",
            "deepseek-r1:": "ollama.com/library/deepseek-r1: tells the thought apart itself, and most are R1-0528",
        },
    ),
    prompt=SIGNATURES
    + """\
For function call returns, you should first print <｜tool▁calls▁begin｜>

For each function call, you should return object like:
<｜tool▁call▁begin｜>function<｜tool▁sep｜><function_name>
```json
<function_arguments_in_json_format>
```<｜tool▁call▁end｜>

At the end of function call returns, you should print <｜tool▁calls▁end｜><｜end▁of▁sentence｜>""",
    tool=function,
    results=between_tags(
        "<｜tool▁output▁begin｜>",
        "<｜tool▁output▁end｜>",
        before="<｜tool▁outputs▁begin｜>",
        after="<｜tool▁outputs▁end｜>",
    ),
)

# https://huggingface.co/deepseek-ai/DeepSeek-V3.1 (vLLM: examples/tool_chat_template_deepseekv31.jinja)
DEEPSEEK_V31 = Family(
    name="deepseek_v31",
    about="`<｜tool▁call▁begin｜>`, the name and bare JSON: DeepSeek V3.1",
    models={
        "deepseek-v3.2-exp": "[sglang] deepseekv31",
        "deepseek-v3.1": "[vllm] deepseek_v31",
    },
    calls=_V31,
    auto_openers=_DEEPSEEK_OPENERS,
    markup=_DEEPSEEK_MARKUP,
    prompt="""\
## Tools
You have access to the following tools:
{tools}

IMPORTANT: ALWAYS adhere to this exact format for tool use:
<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>tool_call_name<｜tool▁sep｜>tool_call_arguments<｜tool▁call▁end｜>\
{additional_tool_calls}<｜tool▁calls▁end｜>

Where:

- `tool_call_name` must be an exact match to one of the available tools
- `tool_call_arguments` must be valid JSON that strictly follows the tool's Parameters Schema
- For multiple tool calls, chain them directly without separators or spaces""",
    tool=function,
    results=between_tags("<｜tool▁output▁begin｜>", "<｜tool▁output▁end｜>", between=""),
    noun="tool",
)

_DSML_OPENERS = (
    opener(DSML.trigger, DSML, special=True),
    opener(_DSML_V4.trigger, _DSML_V4, special=True),
    opener(_DSML_V41.trigger, _DSML_V41, special=True),
    opener("<｜DSML｜toolcalls>", _DSML_V4, special=True),  # a slip of V4 Flash
    # Without the wrapper around the calls.
    DSML.unwrapped(special=True),
    _DSML_V41.unwrapped(special=True),
    *(read.opener() for read in _OTHERS),
    *(read.unwrapped() for mark, read in {read.prefix: read for read in _OTHERS}.items() if mark[:2] != "｜D"),
    Opener(pattern=r"<function>[ \t\r\n]{0,8}(?=<name>)", body=_DEEPSEEK_ELEMENTS),
    *BARE_INVOKE,
)

# https://huggingface.co/deepseek-ai/DeepSeek-V3.2 (encoding_dsv32.py; llama.cpp: models/templates/DeepSeek-V3.2.jinja)
DEEPSEEK_V32 = Family(
    name="deepseek_v32",
    about='`<｜DSML｜invoke name="f">` within `<｜DSML｜function_calls>`: DeepSeek V3.2',
    models={"deepseek-v3.2": "[sglang] deepseekv32"},
    calls=DSML,
    auto_openers=_DSML_OPENERS,
    markup=_DEEPSEEK_MARKUP,
    thoughts=Thoughts(
        returned=Returned.TURN,
        source="[card] DeepSeek-V3.2, encoding_dsv32.py; [llama.cpp] DeepSeek-V3.2",
    ),
    prompt=f"""\
## Tools

You have access to a set of tools you can use to answer the user's question.
You can invoke functions by writing a "{DSML.marker}" block like the following as part of your reply to the user:
{DSML.shown(("$FUNCTION_NAME", _SHOWN), ("$FUNCTION_NAME2", _MORE))}

String and scalar parameters should be specified as is without any escaping or quotes, while lists and objects should \
use JSON format. The "string" attribute should be set to "true" for string type parameters and "false" for other types \
(numbers, booleans, arrays, objects).

Here are the functions available in JSONSchema format:
<functions>
{{tools}}
</functions>""",
    results=between_tags("<result>", "</result>", before="<function_results>\n", after="\n</function_results>"),
    answer=f"the {DSML.trigger} block",
)

# The layout of V4's and V4.1's encoders; only the tags' names differ.
_V4_PROMPT = """\
## Tools

You have access to a set of tools to help answer the user's question. You can invoke tools by writing a "%s" \
block like the following:

%s

String parameters should be specified as is and set `string="true"`. For all other types (numbers, booleans, arrays, \
objects), pass the value in JSON format and set `string="false"`.

If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning inside <think>...</think> \
BEFORE any tool calls or final response.

Otherwise, output directly after </think> with tool calls or final response.

### Available Tool Schemas

{tools}

You MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls."""


def _v4(calls: Slots, **names: Any) -> Family:
    return Family(
        **names,
        calls=calls,
        auto_openers=_DSML_OPENERS,
        markup=_DEEPSEEK_MARKUP,
        thoughts=Thoughts(
            returned=Returned.ALL,
            source="[llama.cpp] deepseek-ai-DeepSeek-V4: where there are tools",
        ),
        prompt=_V4_PROMPT % (calls.marker, calls.shown(("$TOOL_NAME", _SHOWN), ("$TOOL_NAME2", _MORE))),
        results=between_tags("<tool_result>", "</tool_result>", between="\n\n"),
        answer=f"the {calls.trigger} block",
        noun="tool",
    )


# https://huggingface.co/deepseek-ai/DeepSeek-V4-Flash (encoding/README.md)
DEEPSEEK_V4 = _v4(
    _DSML_V4,
    name="deepseek_v4",
    about='`<｜DSML｜invoke name="f">` within `<｜DSML｜tool_calls>`: DeepSeek V4',
    models={"deepseek-v4": "[sglang] deepseekv4"},
)

# https://huggingface.co/deepseek-ai/DeepSeek-V4.1-Flash (encoding/README.md; vLLM:
# tests/parser/engine/test_deepseek_v41.py)
DEEPSEEK_V41 = _v4(
    _DSML_V41,
    name="deepseek_v41",
    about="as `deepseek_v4`, with a space in every tag, within `<｜DSML｜ calls>`: DeepSeek V4.1",
    models={
        "deepseek-v4.1": "[sglang] deepseekv41",
        "deepseek-flash": "the vendor's own API calls V4.1 Flash so",
    },
)


# -- GigaChat ----------------------------------------------------------------------------------------------------------
# Sber's GigaChat: a JSON object after a message's head or a token (3), or DeepSeek's tags by another name (3.5).

# A message of its own (3), or a token (3.1).
_END = "<|message_sep|>"
_JSON = Json(call=f"<|function_call|>{CALL}", between=f"{_END}\n\n", ends=(_END,))

_SEPARATOR = ignored(_END)

# https://huggingface.co/ai-sage/GigaChat3-10B-A1.8B and GigaChat3.1-10B-A1.8B (llama.cpp has both templates). Their
# template lists the tools as TypeScript; it does not say how to call.
GIGACHAT3 = Family(
    name="gigachat3",
    about="a JSON object after `<|function_call|>`: GigaChat 3",
    models={"gigachat3": "[vllm] gigachat3"},
    calls=_JSON,
    auto_openers=(
        Opener(pattern=rf"{re.escape(_END)}[ \t\r\n]{{0,8}}function call<\|role_sep\|>", body=_JSON),
        opener("function call<|role_sep|>", _JSON),
        *_JSON.openers,
        _SEPARATOR,
    ),
    prompt="""\
You have access to these functions:

{tools}

To call a function, answer with its name and its arguments in this form:
{example}

The result comes in the next message, between <tool_result> and </tool_result>. Never write a result yourself.""",
    tool=declared,
    between="\n\n",
)

_GIGA_INVOKE = _dsml("｜GCML｜tool_calls")

# https://github.com/sgl-project/sglang (function_call/gigachat35_detector.py) and llama.cpp (models/templates/
# GigaChat3.5.jinja), where the tools are TypeScript: the words are ours.
GIGACHAT35 = Family(
    name="gigachat35",
    about='`<｜GCML｜invoke name="f">` within `<｜GCML｜tool_calls>`: GigaChat 3.5',
    models={"gigachat3.5": "[sglang] gigachat35"},
    calls=_GIGA_INVOKE,
    auto_openers=(_GIGA_INVOKE.opener(), _GIGA_INVOKE.unwrapped(), _SEPARATOR),
    prompt="""\
# Tools

namespace functions {

{tools}

} // namespace functions

To call functions, answer with a block in this form. The attribute string is "true" for strings, which stand there as \
they are, and "false" for all other values, which stand there as JSON:
{example}

"""
    + RESULTS_FOLLOW,
    tool=declared,
    between="\n\n",
    answer=f"the {_GIGA_INVOKE.trigger} block",
)


# -- MiniMax -----------------------------------------------------------------------------------------------------------
# MiniMax: `invoke` tags (M2), or an element for each argument, every tag after a mark (M3).

_MINIMAX_INVOKE = invoke("minimax:tool_call")

_MINIMAX_MARKUP = Markup(
    stops=("]~b]",),
    ends=("[e~[", "]<]minimax[>[</tool_call>"),  # M3 ends plain answers with it, too
    tags=("minimax:", r"\]minimax\[>", r"invoke\s+name\s*=", r"parameter\s+name\s*=", "/(?:invoke|parameter)>"),
    escapes=(Escape(r"\[", r"e~\["), Escape(r"\]", r"(?:~!?b[\[\]]|![a-z]~\[)")),
)


def _json_tool(tool: Tool) -> str:
    return f"<tool>{guarded(definition(tool), '</tool>')}</tool>"


_MARK = "]<]minimax[>["
_MINIMAX_ELEMENTS = Elements(mark=_MARK, wrapper="tool_call", style="minimax_m3_xml")  # of the same module
_calls = fork(
    (r"\{|\[", json_calls(close=_MINIMAX_INVOKE.closers)),
    (re.escape(_MARK), _MINIMAX_ELEMENTS),  # M3 writes the marker of M2 before its own
    ("", _MINIMAX_INVOKE),
)
_M2_CALLS = opener(_MINIMAX_INVOKE.trigger, _calls)

# https://huggingface.co/MiniMaxAI/MiniMax-M2 (llama.cpp: models/templates/unsloth-MiniMax-M2.jinja)
MINIMAX_M2 = Family(
    name="minimax_m2",
    about='`<invoke name="f">` and `<parameter name="x">` within `<minimax:tool_call>`: MiniMax M2',
    models={"minimax-m2": "[card] MiniMax-M2.5, docs/tool_calling_guide.md: the same syntax as M2"},
    calls=_MINIMAX_INVOKE,
    auto_openers=(_M2_CALLS, *BARE_INVOKE, TOOL_TAG),
    markup=_MINIMAX_MARKUP,
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

"""
    + _MINIMAX_INVOKE.shown(("tool-name-1", {f"param-key-{n}": f"param-value-{n}" for n in (1, 2)} | _MORE)),
    tool=_json_tool,
    results=between_tags("<response>", "</response>"),
    noun="tool",
)

# https://huggingface.co/MiniMaxAI/MiniMax-M3 (llama.cpp: models/templates/MiniMax-M3.jinja)
MINIMAX_M3 = Family(
    name="minimax_m3",
    about='`<invoke name="f">` and an element for each argument, all after `]<]minimax[>[`: MiniMax M3',
    models={"minimax-m3": "[vllm] minimax_m3"},
    calls=_MINIMAX_ELEMENTS,
    auto_openers=(
        _M2_CALLS,
        *_MINIMAX_ELEMENTS.openers,
        # Without the wrapper around the calls.
        opener(f"{_MARK}<invoke name=", _MINIMAX_ELEMENTS, consume=False),
        *BARE_INVOKE,
    ),
    markup=_MINIMAX_MARKUP,
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


# -- dots.llm ----------------------------------------------------------------------------------------------------------
# rednote's dots.llm: `invoke` tags, or JSON, within `<dots_function_call>`.

_DOTS_INVOKE = invoke("dots_function_call")

# https://github.com/vllm-project/vllm (tests/tool_parsers/test_dots_tool_parser.py); the words are ours.
DOTS = Family(
    name="dots",
    about='`<invoke name="f">` and `<parameter name="x">` within `<dots_function_call>`: dots.llm',
    models={"dots.llm": "[sglang] dots"},
    calls=_DOTS_INVOKE,
    auto_openers=(_DOTS_INVOKE.opener((r"[{\[`]", json_calls(close=_DOTS_INVOKE.closers))),),
    prompt=one_a_line("To call functions, answer with a block in this form", within="functions"),
    special_tokens=True,
)
