"""LLM360's K2 Horizon: GLM's tags with `ifm|` in each, types perhaps among them; or JSON there."""

from __future__ import annotations

import re

from ...parsing.text.grammar import Opener, beginnings
from ..family import Family
from ..markup import Markup
from ..prompt.tool_results import one_a_line
from ..syntax.openers import json_calls, opener
from ..syntax.slots import Slots

_SLOTS = Slots(
    open="<ifm|tool_calls>",
    call="<ifm|tool_call>{name}{slots}</ifm|tool_call>",
    slot="<ifm|arg_key>{key}</ifm|arg_key>[<ifm|arg_type>{kind}</ifm|arg_type>]<ifm|arg_value>{value}</ifm|arg_value>",
    close="</ifm|tool_calls>",
)

_CALL, _CALLS = _SLOTS.parts.head, _SLOTS.trigger
_json = json_calls(close=(f"</{_CALL[1:]}</{_CALLS[1:]}", f"</{_CALL[1:]}\n</{_CALLS[1:]}", f"</{_CALL[1:]}"))

_OPENERS = (
    Opener(
        pattern=rf"(?:{re.escape(_CALLS)}[ \t\r\n]{{0,8}})?{re.escape(_CALL)}(?=[ \t\r\n]{{0,8}}[{{\[])",
        partial=rf"(?:{re.escape(_CALLS)}[ \t\r\n]{{0,8}})?(?:{beginnings(_CALL)}(?:(?<=call>)[ \t\r\n]{{0,8}})?)?",
        first="<",
        body=_json,
    ),
    opener(_CALLS, _SLOTS),
    opener(_CALL, _SLOTS, consume=False),  # without the wrapper
)

# https://github.com/vllm-project/vllm (tests/tool_parsers/test_k2_horizon_tool_parser.py); the words are ours.
K2_HORIZON = Family(
    name="k2_horizon",
    about="as `glm47`, with `ifm|` in each tag, within `<ifm|tool_calls>`; or JSON there: K2 Horizon",
    models={"k2-horizon": "[sglang] k2_horizon"},
    calls=_SLOTS,
    auto_openers=_OPENERS,
    markup=Markup(tags=(r"ifm\|",)),
    prompt=one_a_line(
        "To call tools, answer in this form. Strings stand in it as they are, other values as JSON",
        may="You may call the tools",
        within="tools",
    ),
    answer=f"the calls between {_CALLS} and {_SLOTS.closers[0]}",
    noun="tool",
    special_tokens=True,
)

FAMILIES = (K2_HORIZON,)
