"""Muse Glimmer: messages as gpt-oss has them, in which calls have tags of their own."""

from __future__ import annotations

from ...parsing.calls.fork import read_nothing
from ...parsing.calls.harmony_messages import read_message
from ...parsing.cursor import Make
from ...parsing.text.grammar import Opener, Where
from ..family import Family
from ..markup import Markup
from ..prompt.tool_results import one_a_line
from ..syntax.openers import opener
from ..syntax.slots import Slots
from .harmony import END, HEADS

_PREFIX = "<atem:"


def _addressed(opening: str = "") -> Make:
    return lambda c: read_message(c, opening, tags=_PREFIX)


_INVOKE = Slots(
    open="<atem:function_calls>\n",
    call='<atem:invoke name="{name}">\n{slots}</atem:invoke>',
    slot='<atem:parameter name="{key}">{value}</atem:parameter>\n',
    close="\n</atem:function_calls>",
    prefix="atem:",
    noise=("</atem:invoke>",),
    stray="<|message|>",  # as behind the name in the message's header
)

_CALLS = (
    _INVOKE.opener(),
    opener(f"{_PREFIX}invoke name=", _INVOKE, consume=False),  # without the wrapper
)

_MESSAGES = (
    Opener(marker="<|channel|>", body=_addressed()),
    *(
        Opener(marker=f"{end}<|start|>assistant", body=_addressed("<|start|>assistant"))
        for end in ("", "<|eom|>", "<|eot|>")
    ),
    *(Opener(marker=head, body=_addressed(), where=Where.START) for head in HEADS),
    Opener(marker="<|message|>", body=read_nothing, where=Where.START),
)

# https://github.com/vllm-project/vllm (tests/parser/engine/test_muse_glimmer.py). A turn is a sequence of messages with
# recipients, which the template writes; the words are ours.
MUSE_GLIMMER = Family(
    name="muse_glimmer",
    about='`<atem:invoke name="f">` within `<atem:function_calls>`, in messages to a tool: Muse Glimmer',
    models={
        "muse-glimmer": "[sglang] muse",
        "muse-spark": "of which Glimmer is a distillate; its own template is not published",
    },
    calls=_INVOKE,
    auto_openers=(*_CALLS, *_MESSAGES, END),  # gpt-oss's messages are some of its
    markup=Markup(stops=("<|start|>tool ",), ends=("<|eom|>", "<|eot|>"), tags=("atem:",)),
    prompt=one_a_line(
        "To call functions, answer with a block in this form. Strings stand in it as they are, other values as JSON",
        within="functions",
    ),
    answer=f"the {_INVOKE.trigger} block",
    special_tokens=True,
)

FAMILIES = (MUSE_GLIMMER,)
