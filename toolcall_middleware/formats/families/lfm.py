"""Liquid's LFM2: a Python list of calls between two tokens."""

from __future__ import annotations

from ..family import Family
from ..markup import Markup
from ..prompt.tool_results import between_tags
from ..syntax.openers import fork, json_calls, opener, pythonic_calls
from ..syntax.pythonic import PythonicWriter

_lfm2 = pythonic_calls(close=("<|tool_call_end|>",), echoed=True)

_OPENERS = (
    opener(
        "<|tool_call_start|>",
        fork(
            (r"\[?[ \t\r\n]*\{", json_calls(close=("<|tool_call_end|>",))),
            (r"\[", _lfm2),
            (r"\d{0,8}[A-Za-z_][\w.]{0,200}\(", pythonic_calls(brackets=False, close=("<|tool_call_end|>",))),
            undecided=r"\[?[ \t\r\n]*|\d{0,8}[A-Za-z_][\w.]{0,200}|\d{1,8}",
        ),
    ),
)

# https://huggingface.co/LiquidAI/LFM2-1.2B ("Tool use")
LFM2 = Family(
    name="lfm2",
    about="a Python list of calls between `<|tool_call_start|>` and `<|tool_call_end|>`: LFM2",
    models={"lfm2": '[card] LFM2, "Tool use"'},
    auto_openers=_OPENERS,
    markup=Markup(stops=("<|tool_response_start|>",), closers=("<|tool_call_end|>",)),
    prompt="""\
List of tools: <|tool_list_start|>[{tools}]<|tool_list_end|>

To call tools, answer with a Python list of calls between <|tool_call_start|> and <|tool_call_end|>, for example:
{example}""",
    between=", ",
    write=PythonicWriter("<|tool_call_start|>[", "]<|tool_call_end|>", _OPENERS),
    results=between_tags("<|tool_response_start|>", "<|tool_response_end|>", between=""),
    answer="the list of calls between <|tool_call_start|> and <|tool_call_end|>",
    noun="tool",
    special_tokens=True,
)

FAMILIES = (LFM2,)
