"""Preferred Networks' PLaMo 3: a name and JSON, each between `<|plamo:begin_…:plamo|>` and `<|plamo:end_…:plamo|>`.

Sources: vLLM's parser and its tests (vllm/parser/plamo3.py, tests/tool_parsers/test_plamo3_tool_parser.py) and
SGLang's. The model's own layout of tools and results is not published: the words of the prompt and the form of the
results are ours.
"""

from __future__ import annotations

from ...model import ToolCall
from ..family import Family
from ..markup import Markup
from ..prompt.escaping import arguments_json
from ..prompt.thoughts import between
from ..prompt.tool_results import RESULTS_FOLLOW
from ..syntax.named import write_each
from ..syntax.openers import named_calls, opener


def _tag(name: str) -> str:
    return f"<|plamo:{name}:plamo|>"


_THINK = (_tag("begin_think"), _tag("end_think"))
_CALLS, _CALL = _tag("begin_tool_requests"), _tag("begin_tool_request")
_NAME, _NAME_END = _tag("begin_tool_name"), _tag("end_tool_name")
_ARGUMENTS, _ARGUMENTS_END = _tag("begin_tool_arguments"), _tag("end_tool_arguments")
_CALL_END, _CALLS_END = _tag("end_tool_request"), _tag("end_tool_requests")
_JSON, _BODY = "<|plamo:constrain|>json", "<|plamo:msg|>"

_calls = named_calls(
    item=(_CALL,),
    leading=_NAME,
    name_ends=(_NAME_END,),
    before=(_ARGUMENTS, _JSON, _BODY),  # the hosted model is reported to leave out the constraint
    item_close=(_ARGUMENTS_END, _CALL_END),
    close=(_CALLS_END,),
)

_OPENERS = (
    opener(_CALLS, _calls, special=True),
    opener(_CALL, _calls, consume=False, special=True),  # without the wrapper
)


def _write_call(_number: int, call: ToolCall) -> str:
    head = f"{_CALL}{_NAME}{call.name}{_NAME_END}{_ARGUMENTS}{_JSON}{_BODY}"
    return f"{head}{arguments_json(call.arguments)}{_ARGUMENTS_END}{_CALL_END}"


PLAMO3 = Family(
    name="plamo3",
    about="the name and JSON between `<|plamo:begin_…:plamo|>` and `<|plamo:end_…:plamo|>`: PLaMo 3",
    models={"plamo3": "[vllm] plamo3"},
    auto_openers=_OPENERS,
    markup=Markup(
        reasoning=(_THINK,),
        ends=("<|plamo:tag|>",),
        closers=(_tag("end_tool_requests"),),
    ),
    thoughts=between(_THINK),
    prompt="""\
# Tools

You may call the tools below. Each line is one of them, as JSON.

{tools}

To call tools, answer in this form, with one request for each call:
{example}

"""
    + RESULTS_FOLLOW,
    write=write_each(_write_call, opening=_CALLS, closing=_CALLS_END),
    trigger=_CALLS,
    answer="the tool requests",
    noun="tool",
    special_tokens=True,  # the pieces of which the markers are made
)

FAMILIES = (PLAMO3,)
