"""OpenAI's gpt-oss, the format `harmony`: messages with a channel and a recipient, as gpt-oss writes them.

    <|channel|>commentary to=functions.lookup <|constrain|>json<|message|>{"city": "Paris"}<|call|>

Backends that leave special tokens out give `commentary to=functions.lookup json{"city": "Paris"}`.

https://cookbook.openai.com/articles/openai-harmony: the tools stand in the developer message as TypeScript, calls go to
the commentary channel.
"""

from __future__ import annotations

import re

from ...parsing.calls.fork import read_nothing
from ...parsing.calls.harmony_messages import read_message, read_words
from ...parsing.cursor import Cursor, NotACall, Steps
from ...parsing.text.grammar import Opener, Where, beginnings
from .. import reading
from ..family import Family
from ..markup import Escape, Markup
from ..prompt.thoughts import Returned, Thoughts
from ..prompt.tools_typescript import declared
from ..syntax.named import Named


def _between(c: Cursor) -> Steps[None]:
    """After a token that ends a message, where another one's header follows: no text in an answer of messages."""
    if not c.sink.in_messages:
        raise NotACall
    yield from read_nothing(c)


# Of a message whose marker stands in the prompt, or is left out.
HEADS = (
    "to=", "commentary to=", "analysis to=", "assistant to=", "assistantcommentary to=", "assistantanalysis to=",
    "assistant<|channel|>",
)  # fmt: skip

_ENDS = ("<|end|>", "<|return|>", "<|call|>")
_HEADED = "|".join(map(beginnings, ("<|start|>", "<|channel|>")))
END = Opener(
    pattern=rf"(?:{'|'.join(map(re.escape, _ENDS))})[ \t\r\n]{{0,64}}(?:assistant)?(?=<\|(?:start|channel)\|>)",
    partial="|".join(
        rf"{begun}(?:(?<=>)[ \t\r\n]{{0,64}}(?:{_HEADED}|assistant(?:{_HEADED})|{beginnings('assistant')})?)?"
        for begun in map(beginnings, _ENDS)
    ),
    first="<",
    body=_between,
)

_ROLE, _CHANNELS = "assistant", ("analysis", "commentary", "final")
# How messages begin, and no name in a program goes on: `analysisWe`, but not `analysisResult`.
_PRONOUNS = ("I", "We", "The", "They", "This", "It", "You", "There", "Let", "Just", "So", "Now", "Okay", "Ok", "Here")
_SAID = {
    "analysis": (*_PRONOUNS, "User", "Need", "He", "She", "According", "Given", "What", "Must", "Should", "Simple",
                 "Easy", "Hmm", "Maybe", "Probably", "Possibly", "Likely", "Looks", "Our", "That", "Respond"),
    "commentary": (*_PRONOUNS, "First", "Next", "Sure", "Checking", "Looking", "Searching", "Calling", "Running"),
    "final": (*_PRONOUNS, "Hello", "Hi", "Hey", "Yes", "No", "Sure", "Sorry", "Great", "Thanks", "Based", "According",
              "Below", "Unfortunately"),
}  # fmt: skip
_MARKED = (r"\{[ \n]{0,32}\"", r"\*\*", "```")  # an answer in JSON or Markdown


# Messages without their tokens, at an answer's beginning.
WORDS = Opener(
    pattern="|".join(
        (
            rf"{_ROLE}(?:(?:analysis|commentary)(?! to=)|final)",  # else one of HEADS
            *(rf"{channel}(?=(?:{'|'.join(said)})[ ,.:;!'’\n])" for channel, said in _SAID.items()),
            rf"final(?={'|'.join(_MARKED)})",
        )
    ),
    partial="|".join(
        (
            *(beginnings(_ROLE + channel) for channel in _CHANNELS),
            *(beginnings(channel + word) for channel, said in _SAID.items() for word in said),
            r"final(?:\{[ \n]{0,32}|\*|`{1,2})",
        )
    ),
    first="acf",
    where=Where.START,
    consume=False,
    body=read_words,
)
# A call behind other text: of gpt-oss only, for where it may begin waits.
_CALL_WORDS = Opener(
    pattern=rf"{_ROLE}(?:commentary|analysis)? to=functions\.",
    partial="|".join(beginnings(f"{_ROLE}{channel} to=functions.") for channel in ("", "analysis", "commentary")),
    consume=False,
    body=lambda c: read_words(c, strict=True),
)

OPENERS = (
    END,
    Opener(marker="<|channel|>", body=read_message),
    Opener(marker="<|start|>assistant", body=read_message),
    *(Opener(marker=head, body=read_message, where=Where.START) for head in HEADS),
)

NAME = re.compile(r"[^\s<]{1,256}")
_CALLS = Named(
    call="<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}<|call|>",
    between="<|start|>assistant",  # a model makes one call and stops; further ones are messages of their own
    name=NAME,
)

PROMPT = """\
# Tools

## functions

namespace functions {

{tools}

} // namespace functions

Calls to these tools must go to the commentary channel: 'functions'. For example:
{example}

The result comes in the next message, between <tool_result> and </tool_result>. Never write a result yourself."""

HARMONY = Family(
    name="harmony",
    about="messages to `functions.*` in the commentary channel: gpt-oss (`auto` asks it for `json`)",
    auto_prompt="json",  # vLLM and SGLang parse harmony's tokens before anybody sees a text, whatever was asked
    models={"gpt-oss": "[vllm] openai; [sglang] gpt-oss"},
    alike={"llm-jp4": "[sglang] pull request 38222: gpt-oss"},
    calls=_CALLS,
    auto_openers=(END, WORDS),
    own_openers=(*OPENERS, _CALL_WORDS),  # `auto` reads Muse's messages, of which these are some
    fallback=reading.LISTED_JSON,
    markup=Markup(
        stops=("<|start|>user", "<|start|>functions."),
        ends=("<|return|>", "<|end|>"),
        escapes=(Escape("(?<=to)=", r"functions\."),),  # a recipient, where no token tells it
    ),
    # The analysis of turns behind the last final message. A space follows `analysis`, because the model's template
    # raises an error for content with `<|channel|>analysis<|message|>` in it.
    thoughts=Thoughts(
        returned=Returned.TURN,
        source="[llama.cpp] openai-gpt-oss-120b",
        before="<|channel|>analysis <|message|>",
        after="<|end|><|start|>assistant",
        text="<|channel|>final <|message|>",
    ),
    prompt=PROMPT,
    tool=declared,
    between="\n\n",
    answer="the call in the commentary channel",
    special_tokens=True,
)

FAMILIES = (HARMONY,)
