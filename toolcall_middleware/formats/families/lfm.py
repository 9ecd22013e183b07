"""Liquid's LFM2: a Python list of calls between two tokens."""

from __future__ import annotations

from ..family import Family
from ..markup import Markup
from ..prompt.tool_results import between_tags
from ..syntax.openers import fork, json_calls, opener, pythonic_calls
from ..syntax.pythonic import Python

_CALLS = Python(open="<|tool_call_start|>[", close="]<|tool_call_end|>", echoed=True)

_OPENERS = (
    opener(
        _CALLS.marker,
        fork(
            (r"\[?[ \t\r\n]*\{", json_calls(close=_CALLS.closers)),
            (r"\[", _CALLS),
            (r"\d{0,8}[A-Za-z_][\w.]{0,200}\(", pythonic_calls(brackets=False, close=_CALLS.closers)),
            undecided=r"\[?[ \t\r\n]*|\d{0,8}[A-Za-z_][\w.]{0,200}|\d{1,8}",
        ),
    ),
)

# https://huggingface.co/LiquidAI/LFM2-1.2B ("Tool use")
LFM2 = Family(
    name="lfm2",
    about="a Python list of calls between `<|tool_call_start|>` and `<|tool_call_end|>`: LFM2",
    models={"lfm2": '[card] LFM2, "Tool use"'},
    calls=_CALLS,
    auto_openers=_OPENERS,
    markup=Markup(stops=("<|tool_response_start|>",)),
    prompt="""\
List of tools: <|tool_list_start|>[{tools}]<|tool_list_end|>

To call tools, answer with a Python list of calls between <|tool_call_start|> and <|tool_call_end|>, for example:
{example}""",
    between=", ",
    results=between_tags("<|tool_response_start|>", "<|tool_response_end|>", between=""),
    noun="tool",
    special_tokens=True,
)

FAMILIES = (LFM2,)
