"""Moonshot's Kimi: `functions.f:0` and JSON between tokens (K2), or elements made of tokens (K3).

Sources: the models' chat templates, and the parsers of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from ...parsing.calls.fork import read_thought
from ...parsing.text.reasoning import OpenedReasoning
from ..family import Family
from ..markup import Escape, Markup
from ..prompt.thoughts import Returned, Thoughts
from ..prompt.tool_results import RESULTS_FOLLOW
from ..prompt.tools_json import function
from ..syntax.named import Named
from ..syntax.openers import ignored, opener
from ..syntax.slots import Slots

K3_THOUGHT = ("<|open|>think<|sep|>", "<|close|>think<|sep|>")

_MARKUP = Markup(
    reasoning=(("◁think▷", "◁/think▷"), K3_THOUGHT),
    stops=("<|open|>message",),
    ends=("<|end_of_msg|>",),
    closers=("<|close|>toolsmessage<|sep|>",),
    escapes=(Escape("◁", "/?think▷"),),
)

_KIMI_NAME = re.compile(r"(?:functions[._]?)?(?P<name>.+?)(?:[:_]?\d+)?", re.DOTALL)


def _kimi_name(written: str, offered: Callable[[str], bool]) -> tuple[str, str | None]:
    """`functions.f:0` is f; the whole is the call's id. Ids altered by clients come back too: `functions_f_0`."""
    head, colon, number = written.rpartition(":")
    name = (head if colon and number.isdigit() else written).removeprefix("functions.")
    if not offered(name):
        altered = _KIMI_NAME.fullmatch(written)
        for other in (name.rpartition(".")[2], altered.group("name") if altered else ""):
            if other and offered(other):
                return other, written
    return name, written


_K2 = Named(
    open="<|tool_calls_section_begin|>",
    call="<|tool_call_begin|>functions.{name}:{number}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>",
    close="<|tool_calls_section_end|>",
    spellings=("<|tool_call_section_begin|>",),
    ends=("<|tool_call_section_end|>",),
    special=True,
    through=True,
    noise=True,
    identify=_kimi_name,
)

# The calls are as https://huggingface.co/moonshotai/Kimi-K2-Instruct/blob/main/docs/tool_call_guidance.md has them; the
# tools stand there in a turn of their own.
KIMI_K2 = Family(
    name="kimi_k2",
    about="`functions.f:0` and JSON between `<|tool_call_…|>` markers: Kimi K2",
    models={"kimi-k2": "[vllm] kimi_k2"},
    calls=_K2,
    markup=_MARKUP,
    # The turns behind the last answer without calls: those of the task at hand.
    thoughts=Thoughts(
        returned=Returned.TURN,
        source="[llama.cpp] Kimi-K2-Thinking; [card] Kimi-K2.5",
        opened={"kimi-k2.[5-9]": "[card] Kimi-K2.5"},
    ),
    prompt="""\
# Tools

You can call the following tools:
[{tools}]

To call tools, answer with a section of calls, each with the tool's name, its number counted from 0 through the \
conversation, and the arguments as a JSON object, for example:
{example}

"""
    + RESULTS_FOLLOW,
    tool=function,
    between=", ",
    answer="the section of calls",
    noun="tool",
    special_tokens=True,
)

_THINK, _THOUGHT = K3_THOUGHT
_ANSWER = "<|open|>response<|sep|>"

_K3 = Slots(
    open="<|open|>tools<|sep|>",
    call='<|open|>call tool="{name}" index="{number}"<|sep|>{slots}<|close|>call<|sep|>',
    slot='<|open|>argument key="{key}" type="{type}"<|sep|>{value}<|close|>argument<|sep|>',
    close="<|close|>tools<|sep|>",
    between="",
    mark="<|open|>",
    # The tokens between it and the section's opening are sometimes missing.
    alias="<|open|>toolscall",
    # Arguments that were JSON when they were written into the history.
    noise=('<|open|>json type="object"<|sep|>', "<|open|>json<|sep|>", "<|close|>json<|sep|>"),
    entities=True,
    style="kimi_k3_xml",  # https://github.com/mlc-ai/xgrammar, python/xgrammar/builtin_structural_tag.py
)

_K3_OPENERS = (
    opener(_K3.trigger, _K3),
    opener("<|open|>toolscall tool=", _K3, consume=False),
    opener("<|open|>call tool=", _K3, consume=False),  # without the section
    opener(_THINK, lambda c: read_thought(c, _THOUGHT, _ANSWER)),
    *map(ignored, (_ANSWER, "<|close|>response<|sep|>", "<|close|>message<|sep|>")),
)

# https://huggingface.co/moonshotai/Kimi-K3 (llama.cpp: models/templates/Kimi-K3.jinja): the tools stand there in a
# message of their own; it does not say how to call.
KIMI_K3 = Family(
    name="kimi_k3",
    about='`<|open|>call tool="f"<|sep|>` and `<|open|>argument key="x"<|sep|>`: Kimi K3',
    models={"kimi-k3": "[vllm] kimi_k3"},
    calls=_K3,
    auto_openers=_K3_OPENERS,
    markup=_MARKUP,
    thoughts=Thoughts(
        returned=Returned.ALL,
        source="[llama.cpp] Kimi-K3",
        opened={"kimi-k3": "[llama.cpp] Kimi-K3"},
        before=_THINK,
        after=_THOUGHT,
        tags=OpenedReasoning(_THINK, _THOUGHT, channel=True),
    ),
    prompt="""\
# Tools
Here are the available tools, described in JSONSchema.

```json
[{tools}]
```

To call tools, answer in this form, one argument element for each argument, with its type; strings as they are, other \
values as JSON:
{example}

"""
    + RESULTS_FOLLOW,
    tool=function,
    between=",",
    answer="the tools section",
    noun="tool",
    special_tokens=True,
)

FAMILIES = (KIMI_K2, KIMI_K3)
