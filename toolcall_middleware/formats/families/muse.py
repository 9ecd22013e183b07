"""Muse Glimmer: messages as gpt-oss has them, in which calls have tags of their own."""

from __future__ import annotations

from collections.abc import Callable

from ...parsing.calls.fork import Nothing
from ...parsing.calls.harmony_messages import HarmonyMessage
from ...parsing.sink import Body, Sink
from ...parsing.text.grammar import Context, Opener, Where
from .. import reading
from ..family import Family
from ..markup import Markup
from ..syntax.openers import opener, xml_calls
from ..syntax.xml import Tags, TagWriter
from ..syntax.xml_tags import invoke_tags
from .harmony import HEADS

_MARKUP = Markup(
    stops=("<|start|>tool ",),
    ends=("<|eom|>", "<|eot|>"),
    tags=("atem:",),
)

_PREFIX = "<atem:"


def _addressed(opening: str = "") -> Callable[[Sink, Context], Body]:
    return lambda sink, context: HarmonyMessage(sink, opening or context.opening, tags=_PREFIX)


_tags = xml_calls(invoke_tags("</atem:function_calls>", "atem:", noise=("</atem:invoke>",)))

_CALLS = (
    opener(f"{_PREFIX}function_calls>", _tags),
    opener(f"{_PREFIX}invoke name=", _tags, consume=False),  # without the wrapper
)

_MESSAGES = (
    Opener(marker="<|channel|>", body=_addressed()),
    *(
        Opener(marker=f"{end}<|start|>assistant", body=_addressed("<|start|>assistant"))
        for end in ("", "<|eom|>", "<|eot|>")
    ),
    *(Opener(marker=head, body=_addressed(), where=Where.START) for head in HEADS),
    Opener(marker="<|message|>", body=lambda sink, _: Nothing(sink), where=Where.START),
)

# https://github.com/vllm-project/vllm (tests/parser/engine/test_muse_glimmer.py). A turn is a sequence of messages with
# recipients, which the template writes; the words are ours.
MUSE_GLIMMER = Family(
    name="muse_glimmer",
    about='`<atem:invoke name="f">` within `<atem:function_calls>`, in messages to a tool: Muse Glimmer',
    models={
        "muse-glimmer": "[sglang] muse",
    },
    marked=(*_CALLS, *_MESSAGES),
    markup=_MARKUP,
    prompt="""\
# Tools

You may call the functions below. Each line is one of them, as JSON.

<functions>
{tools}
</functions>

To call functions, answer with a block in this form. Strings stand in it as they are, other values as JSON:
{example}

The results come in the next message, each between <tool_result> and </tool_result>. Never write a result yourself.""",
    write=TagWriter(
        Tags(
            opening="<atem:function_calls>\n",
            closing="\n</atem:function_calls>",
            call='<atem:invoke name="{name}">\n',
            call_end="</atem:invoke>",
            parameter='<atem:parameter name="{key}">',
            parameter_end="</atem:parameter>",
            key=r"[^\"'>\n]{1,256}",
            more=("<parameter",),
        ),
        (*_CALLS, *_MESSAGES, *reading.ANY_JSON),
    ),
    answer="the <atem:function_calls> block",
    special_tokens=True,
)

FAMILIES = (MUSE_GLIMMER,)
