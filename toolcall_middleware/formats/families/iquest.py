"""IQuest's Q1: GLM's tags within `<iquest_tool_call>`, and nothing between them.

Sources: SGLang's parser and its tests (function_call/iquest_q1_detector.py). How the template lays out tools and
results is not established from a source: the words of the prompt and the form of the results are ours.
"""

from __future__ import annotations

from ..family import Family
from ..markup import Markup
from ..prompt.tool_results import one_a_line
from ..syntax.slots import Slots

_CALLS = Slots(
    call="<iquest_tool_call>{name}{slots}</iquest_tool_call>",
    slot="<arg_key>{key}</arg_key><arg_value>{value}</arg_value>",
    between="",
    bare=True,
    exact=True,
    style="glm_xml",
)

# https://huggingface.co/IQuestLab/IQuest-Q1
IQUEST_Q1 = Family(
    name="iquest_q1",
    about="as `glm47`, within `<iquest_tool_call>`: IQuest Q1",
    models={"iquest-q1": "[sglang] iquest_q1"},
    calls=_CALLS,
    markup=Markup(ends=("<|iquest_end|>",), tags=("iquest_",)),
    prompt=one_a_line(
        "To call functions, answer in this form, without anything between the tags. Strings stand in it as they are, "
        "other values as JSON",
        within="tools",
    ),
    special_tokens=True,
)

FAMILIES = (IQUEST_Q1,)
