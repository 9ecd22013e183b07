"""Preferred Networks' PLaMo 3: a name and JSON, each between `<|plamo:begin_…:plamo|>` and `<|plamo:end_…:plamo|>`.

Sources: vLLM's parser and its tests (vllm/parser/plamo3.py, tests/tool_parsers/test_plamo3_tool_parser.py) and
SGLang's. The model's own layout of tools and results is not published: the words of the prompt and the form of the
results are ours.
"""

from __future__ import annotations

from ..family import Family
from ..markup import Markup
from ..prompt.thoughts import between
from ..prompt.tool_results import one_a_line
from ..syntax.named import Named


def _tag(name: str) -> str:
    return f"<|plamo:{name}:plamo|>"


_THINK = (_tag("begin_think"), _tag("end_think"))
_CALLS = Named(
    open=_tag("begin_tool_requests"),
    call=_tag("begin_tool_request")
    + _tag("begin_tool_name")
    + "{name}"
    + _tag("end_tool_name")
    + _tag("begin_tool_arguments")
    + "<|plamo:constrain|>json<|plamo:msg|>"  # the hosted model is reported to leave out the constraint
    + "{arguments}"
    + _tag("end_tool_arguments")
    + _tag("end_tool_request"),
    close=_tag("end_tool_requests"),
    special=True,
    separated=True,
)

PLAMO3 = Family(
    name="plamo3",
    about="the name and JSON between `<|plamo:begin_…:plamo|>` and `<|plamo:end_…:plamo|>`: PLaMo 3",
    models={"plamo3": "[vllm] plamo3"},
    calls=_CALLS,
    markup=Markup(
        reasoning=(_THINK,),
        ends=("<|plamo:tag|>",),
    ),
    thoughts=between(_THINK),
    prompt=one_a_line(
        "To call tools, answer in this form, with one request for each call", may="You may call the tools"
    ),
    answer="the tool requests",
    noun="tool",
    special_tokens=True,  # the pieces of which the markers are made
)

FAMILIES = (PLAMO3,)
