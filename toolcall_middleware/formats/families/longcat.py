"""Meituan's LongCat: JSON objects, or since 2026 keys and values in tags, within its own `<longcat_tool_call>`."""

from __future__ import annotations

from ...model import Tool
from .. import reading
from ..family import Family
from ..markup import Markup
from ..prompt import escaping
from ..prompt.thoughts import between
from ..syntax.json import CALL, Json
from ..syntax.slots import Slots

_TAG = "longcat_tool_call"
_SLOTS = Slots(
    call=f"<{_TAG}>{{name}}{{slots}}</{_TAG}>",
    slot="<longcat_arg_key>{key}</longcat_arg_key><longcat_arg_value>{value}</longcat_arg_value>",
    between="",
    bare=True,
)

_JSON = Json(call=f"<{_TAG}>\n{CALL}\n</{_TAG}>", between="")
_OPENER = _SLOTS.opener((r"[{\[`\"']", _JSON))  # the tags: since the models of 2026
_THINK = ("<longcat_think>", "</longcat_think>")


def _longcat_tool(tool: Tool) -> str:
    described = escaping.describe(tool)
    schema = escaping.as_data(escaping.dump_indented(described["parameters"], indent=2))
    text = escaping.neutralise(tool.description)
    return f"#### Tool name: {tool.name}\n\nDescription: {text}\n\nInputSchema: \n{schema}"


# https://huggingface.co/meituan-longcat/LongCat-Flash-Chat (model card, "ToolCall")
LONGCAT = Family(
    name="longcat",
    about="JSON objects within `<longcat_tool_call>` tags: LongCat Flash",
    models={"longcat": "[vllm] longcat"},
    calls=_JSON,
    auto_openers=(_OPENER,),
    fallback=reading.BARE_JSON,
    markup=Markup(
        reasoning=(_THINK,),
        ends=("</longcat_s>",),
        tags=("longcat_",),
    ),
    thoughts=between(_THINK),
    prompt=f"""\
## Tools
You have access to the following tools:\x20

### Tool namespace: function

{{tools}}

**Note**: For each function call, return a json object with function name and arguments within \
<{_TAG}></{_TAG}> XML tags as follows:
<{_TAG}>
{{"name": <function-name>, "arguments": <args-dict>}}
</{_TAG}>
When multiple functions need to be called simultaneously, each function call should be wrapped in its own \
<{_TAG}> tag and placed consecutively. For example:
<{_TAG}>
{{"name": <function-name>, "arguments": <args-dict>}}
</{_TAG}><{_TAG}>
{{"name": <function-name>, "arguments": <args-dict>}}
</{_TAG}>""",
    tool=_longcat_tool,
    between="\n\n",
    special_tokens=True,
)

FAMILIES = (LONGCAT,)
