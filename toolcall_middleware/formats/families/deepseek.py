"""DeepSeek: a name and JSON between markers (V3, R1, V3.1), or `invoke` tags (V3.2, V4, V4.1).

Sources: the models' chat templates and encoders, and the parsers of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

from dataclasses import replace

from ...parsing.text.grammar import Opener, beginnings
from ..family import Family
from ..markup import Markup
from ..prompt.thoughts import Returned, Thoughts
from ..prompt.tool_results import between_tags
from ..prompt.tools_json import function
from ..syntax.bare_invoke import BARE_INVOKE
from ..syntax.named import Named
from ..syntax.openers import opener, shared
from ..syntax.slots import Slots

# What V4 and V4.1 write around calls besides, and the mark of each tag in it: they double the bars, and take the tag of
# one version for that of the other; some gateways make plain bars of them.
_OTHERS = {
    "|DSML|tool_calls": "|DSML|",
    "|DSML|function_calls": "|DSML|",
    "||DSML||tool_calls": "||DSML||",
    "｜｜DSML｜｜tool_calls": "｜｜DSML｜｜",
    "｜｜DSML｜｜ calls": "｜｜DSML｜｜ ",
    "｜DSML｜calls": "｜DSML｜",
    "｜DSML｜ tool_calls": "｜DSML｜ ",
}


def _dsml(wrapper: str, mark: str, style: str = "") -> Slots:
    """Calls whose values are written as they are."""
    return Slots(
        open=f"<{wrapper}>\n",
        call=f'<{mark}invoke name="{{name}}">\n{{slots}}</{mark}invoke>',
        slot=f'<{mark}parameter name="{{key}}" string="{{kind}}">{{value}}</{mark}parameter>\n',
        close=f"\n</{wrapper}>",
        prefix=mark,
        style=style,
    )


# https://github.com/mlc-ai/xgrammar, python/xgrammar/builtin_structural_tag.py: deepseek_v3_2, _v4 and _v4_1
DSML = _dsml("｜DSML｜function_calls", "｜DSML｜", "deepseek_xml")
_DSML_V4 = _dsml("｜DSML｜tool_calls", "｜DSML｜", "deepseek_xml")
_DSML_V41 = _dsml("｜DSML｜ calls", "｜DSML｜ ", "deepseek_v4_1_xml")  # with a space in every tag
_READ_OTHERS = {wrapper: _dsml(wrapper, mark) for wrapper, mark in _OTHERS.items()}
# A call whose name is an element: V4 mixes it with the closing tags of its own.
_ELEMENTS = Slots(
    open="<function>\n",
    call="<name>{name}</name>\n{slots}</｜DSML｜invoke>",
    slot='<parameter name="{key}" string="{kind}">{value}</｜DSML｜parameter>\n',
    close="\n</｜DSML｜tool_calls>",
    prefix="｜DSML｜",
)

_MARKUP = Markup(
    stops=("<｜tool▁outputs▁begin｜>", "<｜tool▁output▁begin｜>", "<｜User｜>", "<｜System｜>", "<function_results>"),
    ends=("<｜end▁of▁sentence｜>",),
    # Under a long context V4 leaves out what opens them.
    closers=tuple(closer for calls in _READ_OTHERS.values() for closer in calls.closers),
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

_OPENERS = (
    *_V3.openers,
    shared(  # Step 3's marker is one of those spellings
        "<｜tool_calls_begin｜>",
        _V3,
        r"(?:function)?<｜tool▁",
        undecided=rf"(?:{beginnings('<｜tool')}|{beginnings('function<｜tool')})?",
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
    auto_openers=_OPENERS,
    markup=_MARKUP,
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
    prompt="""\
# Tools

You may call one or more functions to assist with the user query.

You are provided with function signatures within <tools></tools> XML tags:
<tools>
{tools}
</tools>

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
    special_tokens=True,
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
    auto_openers=_OPENERS,
    markup=_MARKUP,
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
    special_tokens=True,
)

_DSML_OPENERS = (
    opener(DSML.trigger, DSML, special=True),
    opener(_DSML_V4.trigger, _DSML_V4, special=True),
    opener(_DSML_V41.trigger, _DSML_V41, special=True),
    opener("<｜DSML｜toolcalls>", _DSML_V4, special=True),  # a slip of V4 Flash
    # Without the wrapper around the calls.
    opener("<｜DSML｜invoke name=", DSML, consume=False, special=True),
    opener("<｜DSML｜ invoke name=", _DSML_V41, consume=False, special=True),
    *(opener(f"<{wrapper}>", read) for wrapper, read in _READ_OTHERS.items()),
    *(
        opener(f"<{mark}invoke name=", _READ_OTHERS[wrapper], consume=False)
        for mark, wrapper in {mark: wrapper for wrapper, mark in _OTHERS.items()}.items()
        if not mark.startswith("｜DSML")
    ),
    Opener(
        pattern=r"<function>[ \t\r\n]{0,8}(?=<name>)",
        partial=f"(?:{beginnings('<function>', '<name>')})",
        body=_ELEMENTS,
    ),
    *BARE_INVOKE,
)

# https://huggingface.co/deepseek-ai/DeepSeek-V3.2 (encoding_dsv32.py; llama.cpp: models/templates/DeepSeek-V3.2.jinja)
DEEPSEEK_V32 = Family(
    name="deepseek_v32",
    about='`<｜DSML｜invoke name="f">` within `<｜DSML｜function_calls>`: DeepSeek V3.2',
    models={"deepseek-v3.2": "[sglang] deepseekv32"},
    calls=DSML,
    auto_openers=_DSML_OPENERS,
    markup=_MARKUP,
    thoughts=Thoughts(
        returned=Returned.TURN,
        source="[card] DeepSeek-V3.2, encoding_dsv32.py; [llama.cpp] DeepSeek-V3.2",
    ),
    prompt="""\
## Tools

You have access to a set of tools you can use to answer the user's question.
You can invoke functions by writing a "<｜DSML｜function_calls>" block like the following as part of your reply to the \
user:
<｜DSML｜function_calls>
<｜DSML｜invoke name="$FUNCTION_NAME">
<｜DSML｜parameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</｜DSML｜parameter>
...
</｜DSML｜invoke>
<｜DSML｜invoke name="$FUNCTION_NAME2">
...
</｜DSML｜invoke>
</｜DSML｜function_calls>

String and scalar parameters should be specified as is without any escaping or quotes, while lists and objects should \
use JSON format. The "string" attribute should be set to "true" for string type parameters and "false" for other types \
(numbers, booleans, arrays, objects).

Here are the functions available in JSONSchema format:
<functions>
{tools}
</functions>""",
    results=between_tags("<result>", "</result>", before="<function_results>\n", after="\n</function_results>"),
    answer=f"the {DSML.trigger} block",
    special_tokens=True,
)

# The layout of V4's and V4.1's encoders; only the tags' names differ.
_V4_PROMPT = """\
## Tools

You have access to a set of tools to help answer the user's question. You can invoke tools by writing a "<%(calls)s>" \
block like the following:

<%(calls)s>
<%(tag)sinvoke name="$TOOL_NAME">
<%(tag)sparameter name="$PARAMETER_NAME" string="true|false">$PARAMETER_VALUE</%(tag)sparameter>
...
</%(tag)sinvoke>
<%(tag)sinvoke name="$TOOL_NAME2">
...
</%(tag)sinvoke>
</%(calls)s>

String parameters should be specified as is and set `string="true"`. For all other types (numbers, booleans, arrays, \
objects), pass the value in JSON format and set `string="false"`.

If thinking_mode is enabled (triggered by <think>), you MUST output your complete reasoning inside <think>...</think> \
BEFORE any tool calls or final response.

Otherwise, output directly after </think> with tool calls or final response.

### Available Tool Schemas

{tools}

You MUST strictly follow the above defined tool name and parameter schemas to invoke tool calls."""

_V4_RESULTS = between_tags("<tool_result>", "</tool_result>", between="\n\n")

_V4_THOUGHTS = Thoughts(
    returned=Returned.ALL,
    source="[llama.cpp] deepseek-ai-DeepSeek-V4: where there are tools",
)

# https://huggingface.co/deepseek-ai/DeepSeek-V4-Flash (encoding/README.md)
DEEPSEEK_V4 = Family(
    name="deepseek_v4",
    about='`<｜DSML｜invoke name="f">` within `<｜DSML｜tool_calls>`: DeepSeek V4',
    models={"deepseek-v4": "[sglang] deepseekv4"},
    calls=_DSML_V4,
    auto_openers=_DSML_OPENERS,
    markup=_MARKUP,
    thoughts=_V4_THOUGHTS,
    prompt=_V4_PROMPT % {"calls": "｜DSML｜tool_calls", "tag": "｜DSML｜"},
    results=_V4_RESULTS,
    answer=f"the {_DSML_V4.trigger} block",
    noun="tool",
    special_tokens=True,
)

# https://huggingface.co/deepseek-ai/DeepSeek-V4.1-Flash (encoding/README.md; vLLM:
# tests/parser/engine/test_deepseek_v41.py)
DEEPSEEK_V41 = Family(
    name="deepseek_v41",
    about="as `deepseek_v4`, with a space in every tag, within `<｜DSML｜ calls>`: DeepSeek V4.1",
    models={
        "deepseek-v4.1": "[sglang] deepseekv41",
        "deepseek-flash": "the vendor's own API calls V4.1 Flash so",
    },
    calls=_DSML_V41,
    auto_openers=_DSML_OPENERS,
    markup=_MARKUP,
    thoughts=_V4_THOUGHTS,
    prompt=_V4_PROMPT % {"calls": "｜DSML｜ calls", "tag": "｜DSML｜ "},
    results=_V4_RESULTS,
    answer=f"the {_DSML_V41.trigger} block",
    noun="tool",
    special_tokens=True,
)

FAMILIES = (DEEPSEEK_V3, DEEPSEEK_V31, DEEPSEEK_V32, DEEPSEEK_V4, DEEPSEEK_V41)
