"""Shanghai AI Lab's InternLM: JSON objects between `<|action_start|><|plugin|>` and `<|action_end|>`."""

from __future__ import annotations

from ...parsing.calls.json_calls import JsonCalls, JsonCallSyntax
from ...parsing.text.grammar import Opener, beginnings
from .. import reading
from ..family import Family
from ..markup import Markup
from ..syntax.json import each, parameters

_OPENERS = (
    Opener(
        pattern=r"<\|action_start\|>[ \t\r\n]{0,32}<\|plugin\|>",
        partial=beginnings("<|action_start|>", "<|plugin|"),
        body=lambda sink, _: JsonCalls(sink, JsonCallSyntax(close=("<|action_end|>",))),
    ),
)

# The calls are as its template writes them; the tools stand there in a turn of their own.
# https://github.com/InternLM/InternLM/blob/main/chat/chat_format.md
INTERNLM = Family(
    name="internlm",
    about="JSON objects between `<|action_start|><|plugin|>` and `<|action_end|>`: InternLM 2 and 3, Intern-S1",
    models={
        "internlm2": "[vllm] internlm: 2 and 2.5",
        "internlm3": "[card] InternLM 3",
        "intern-s1": "[sglang] interns1",
    },
    auto_openers=_OPENERS,
    markup=Markup(closers=("<|action_end|>",)),
    fallback=reading.BARE_JSON,
    prompt="""\
You can call the following functions:
[{tools}]

To call a function, answer with its name and parameters in this form:
{example}

The result comes in the next message, between <tool_result> and </tool_result>. Never write a result yourself. When \
no function fits, answer in plain text.""",
    between=", ",
    write=each("<|action_start|><|plugin|>\n", "<|action_end|>", between="", entry=parameters),
    trigger="<|action_start|>",
    answer="the call between <|action_start|><|plugin|> and <|action_end|>",
    special_tokens=True,
)

FAMILIES = (INTERNLM,)
