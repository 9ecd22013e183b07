"""Baidu's ERNIE: calls as Hermes has them, answers between tags."""

from __future__ import annotations

from .. import reading
from ..family import Family
from ..markup import Markup
from ..prompt.tool_results import between_tags
from ..prompt.tools_json import function
from ..syntax.json import TOOL_CALL, TOOL_CALL_JSON
from ..syntax.openers import ignored

# The list and the outputs' tags are the template's; it does not say how to call.
# https://huggingface.co/baidu/ERNIE-4.5-21B-A3B-Thinking
ERNIE45 = Family(
    name="ernie45",
    about="JSON objects within `<tool_call>` tags: ERNIE 4.5",
    models={"ernie4.5": "[card] ERNIE-4.5-21B-A3B-Thinking: its parsers"},
    calls=TOOL_CALL,
    auto_openers=(TOOL_CALL_JSON,),
    own_openers=tuple(map(ignored, ("<response>", "</response>"))),
    fallback=reading.BARE_JSON,
    markup=Markup(stops=("<tool_output>",), ends=("<|end_of_sentence|>",)),
    prompt="""\
<tool_list>
[{tools}]
</tool_list>

To call a tool, answer with its name and arguments within <tool_call></tool_call> tags, for example:
{example}""",
    tool=function,
    between=", ",
    results=between_tags("<tool_output>\n", "\n</tool_output>"),
    noun="tool",
)

FAMILIES = (ERNIE45,)
