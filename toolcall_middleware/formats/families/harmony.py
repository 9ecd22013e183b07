"""OpenAI's gpt-oss, the format `harmony`: messages with a channel and a recipient, as gpt-oss writes them.

    <|channel|>commentary to=functions.lookup <|constrain|>json<|message|>{"city": "Paris"}<|call|>

https://cookbook.openai.com/articles/openai-harmony: the tools stand in the developer message as TypeScript, calls go to
the commentary channel.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from ...model import ToolCall
from ...parsing.calls.harmony_messages import HarmonyMessage
from ...parsing.sink import Body, Sink
from ...parsing.text.grammar import Context, Opener, Where
from .. import reading
from ..family import Family
from ..markup import Markup
from ..prompt.escaping import arguments_json
from ..prompt.thoughts import Returned, Thoughts
from ..prompt.tools_typescript import declared


def _harmony(sink: Sink, context: Context) -> Body:
    return HarmonyMessage(sink, context.opening)


HEADS = ("to=", "commentary to=")  # of a message whose marker stands in the prompt

_OPENERS = (
    Opener(marker="<|channel|>", body=_harmony),
    Opener(marker="<|start|>assistant", body=_harmony),
    *(Opener(marker=head, body=_harmony, where=Where.START) for head in HEADS),
)

_NAME = re.compile(r"[^\s<]{1,256}")


def _write(calls: Sequence[ToolCall]) -> str | None:
    if not all(_NAME.fullmatch(call.name) for call in calls):
        return None
    # A model makes one call and stops; further ones are messages of their own.
    return "<|start|>assistant".join(
        f"<|channel|>commentary to=functions.{call.name} <|constrain|>json<|message|>{arguments_json(call.arguments)}"
        "<|call|>"
        for call in calls
    )


HARMONY = Family(
    name="harmony",
    about="messages to `functions.*` in the commentary channel: gpt-oss",
    models={"gpt-oss": "[vllm] openai; [sglang] gpt-oss"},
    own_openers=_OPENERS,  # `auto` reads Muse's messages, of which these are some
    fallback=(reading.WRAPPED_JSON,),
    markup=Markup(stops=("<|start|>user", "<|start|>functions."), ends=("<|return|>", "<|end|>")),
    # The analysis of turns behind the last final message. Behind its channel stands a space: the template refuses
    # content in which there is none.
    thoughts=Thoughts(
        returned=Returned.TURN,
        source="[llama.cpp] openai-gpt-oss-120b",
        before="<|channel|>analysis <|message|>",
        after="<|end|><|start|>assistant",
    ),
    prompt="""\
# Tools

## functions

namespace functions {

{tools}

} // namespace functions

Calls to these tools must go to the commentary channel: 'functions'. For example:
{example}

The result comes in the next message, between <tool_result> and </tool_result>. Never write a result yourself.""",
    tool=declared,
    between="\n\n",
    write=_write,
    trigger="<|channel|>commentary to=",
    answer="the call in the commentary channel",
    special_tokens=True,
)

FAMILIES = (HARMONY,)
