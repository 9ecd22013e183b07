"""Models that write a message to a tool: gpt-oss and the like."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from ...model import Tool, ToolCall
from ...parsing.calls.harmony_messages import read_message, read_words
from ...parsing.cursor import Cursor, Make, NotACall, Steps, read_nothing
from ...parsing.text.grammar import Opener, Where
from ..family import Family
from ..markup import Escape, Markup
from ..prompt import escaping
from ..prompt.thoughts import Returned, Thoughts
from ..prompt.tool_results import one_a_line
from ..prompt.tools import declared, definition
from ..syntax.json import Named
from ..syntax.shape import LISTED_JSON, opener
from ..syntax.slots import Slots

# -- gpt-oss -----------------------------------------------------------------------------------------------------------
# OpenAI's gpt-oss, the format `harmony`: messages with a channel and a recipient, as gpt-oss writes them.
#
#     <|channel|>commentary to=functions.lookup <|constrain|>json<|message|>{"city": "Paris"}<|call|>
#
# Backends that leave special tokens out give `commentary to=functions.lookup json{"city": "Paris"}`.
#
# https://cookbook.openai.com/articles/openai-harmony: the developer message has the tools as TypeScript; calls go to
# the commentary channel.


def _between(c: Cursor) -> Steps[None]:
    """After a token that ends a message, where another one's header follows: no text in an answer of messages."""
    if not c.sink.in_messages:
        raise NotACall
    yield from read_nothing(c)


# Beginnings of a message whose marker is in the prompt, or is left out.
_HEADS = (
    "to=", "commentary to=", "analysis to=", "assistant to=", "assistantcommentary to=", "assistantanalysis to=",
    "assistant<|channel|>",
)  # fmt: skip

_ENDS = ("<|end|>", "<|return|>", "<|call|>")
END = Opener(
    pattern=rf"(?:{'|'.join(map(re.escape, _ENDS))})[ \t\r\n]{{0,64}}(?:assistant)?(?=<\|(?:start|channel)\|>)",
    body=_between,
)

_ROLE, _CHANNELS = "assistant", ("analysis", "commentary", "final")
# Words that begin a message and do not continue a name in a program: `analysisWe`, but not `analysisResult`.
_PRONOUNS = ("I", "We", "The", "They", "This", "It", "You", "There", "Let", "Just", "So", "Now", "Okay", "Ok", "Here")
_SAID = {
    "analysis": (*_PRONOUNS, "User", "Need", "He", "She", "According", "Given", "What", "Must", "Should", "Simple",
                 "Easy", "Hmm", "Maybe", "Probably", "Possibly", "Likely", "Looks", "Our", "That", "Respond"),
    "commentary": (*_PRONOUNS, "First", "Next", "Sure", "Checking", "Looking", "Searching", "Calling", "Running"),
    "final": (*_PRONOUNS, "Hello", "Hi", "Hey", "Yes", "No", "Sure", "Sorry", "Great", "Thanks", "Based", "According",
              "Below", "Unfortunately"),
}  # fmt: skip
_HARMONY_MARKED = (r"\{[ \n]{0,32}\"", r"\*\*", "```")  # an answer in JSON or Markdown


# Messages without their tokens, at an answer's beginning.
WORDS = Opener(
    pattern="|".join(
        (
            rf"{_ROLE}(?:(?:analysis|commentary)(?! to=)|final)",  # else one of HEADS
            *(rf"{channel}(?=(?:{'|'.join(said)})[ ,.:;!'’\n])" for channel, said in _SAID.items()),
            rf"final(?={'|'.join(_HARMONY_MARKED)})",
        )
    ),
    where=Where.START,
    consume=False,
    body=read_words,
)
# A call after other text: for gpt-oss only, because text in which one may begin is held back.
_CALL_WORDS = Opener(
    pattern=rf"{_ROLE}(?:commentary|analysis)? to=functions\.",
    consume=False,
    body=lambda c: read_words(c, strict=True),
)

_HARMONY_OPENERS = (
    END,
    Opener(marker="<|channel|>", body=read_message),
    Opener(marker="<|start|>assistant", body=read_message),
    *(Opener(marker=head, body=read_message, where=Where.START) for head in _HEADS),
)

_RECIPIENT_NAME = re.compile(r"[^\s<]{1,256}")

_HARMONY_PROMPT = """\
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
    auto_prompt="json",  # vLLM and SGLang always parse harmony's tokens, so that no text holds them
    models={"gpt-oss": "[vllm] openai; [sglang] gpt-oss"},
    alike={"llm-jp4": "[sglang] pull request 38222: gpt-oss"},
    calls=Named(
        call="<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}<|call|>",
        between="<|start|>assistant",  # a model makes one call and stops; further ones are messages of their own
        name=_RECIPIENT_NAME,
    ),
    auto_openers=(END, WORDS),
    own_openers=(*_HARMONY_OPENERS, _CALL_WORDS),  # `auto` reads Muse's messages, of which these are some
    fallback=LISTED_JSON,
    markup=Markup(
        stops=("<|start|>user", "<|start|>functions."),
        ends=("<|return|>", "<|end|>"),
        escapes=(Escape("(?<=to)=", r"functions\."),),  # a recipient without its token
    ),
    # The analysis of turns after the last final message. A space follows `analysis`, because the model's template
    # raises an error for content with `<|channel|>analysis<|message|>` in it.
    thoughts=Thoughts(
        returned=Returned.TURN,
        source="[llama.cpp] openai-gpt-oss-120b",
        before="<|channel|>analysis <|message|>",
        after="<|end|><|start|>assistant",
        text="<|channel|>final <|message|>",
    ),
    prompt=_HARMONY_PROMPT,
    tool=declared,
    between="\n\n",
    answer="the call in the commentary channel",
)


# -- LLM-jp ------------------------------------------------------------------------------------------------------------
# LLM-jp 4.1, the format `llm-jp-harmony`: gpt-oss's messages, from a tokenizer that puts a space after every special
# token. Calls of one turn follow each other, all but the last closed by `<|end|>`.
#
#     <|start|> assistant to=functions.lookup<|channel|> commentary <|constrain|>  json<|message|> {"city": "Paris"}
#
# Sources: the models' chat template, which declares `chat_format=llm-jp-harmony-v1`, and the parsers of llama.cpp
# (common/parsers/llm-jp-harmony.cpp) and SGLang. `<|call|>` ends the turn and need not be in the text.

_SPACED = Opener(marker="<|start|> assistant", body=read_message)

# https://huggingface.co/llm-jp/llm-jp-4.1-8b-thinking (llama.cpp: models/templates/llm-jp-llm-jp-4.1-8b-thinking.jinja)
LLM_JP_HARMONY = Family(
    name="llm-jp-harmony",
    about="as `harmony`, with a space after every special token: LLM-jp 4.1",
    models={"llm-jp4.1": "[llama.cpp] llm-jp-harmony; [sglang] the same"},
    calls=Named(  # without the spaces, which the tokenizer's decoder adds
        call="<|start|>assistant to=functions.{name}<|channel|>commentary <|constrain|> json<|message|>{arguments}",
        between="<|end|>",
        close="<|call|>",
        name=_RECIPIENT_NAME,
    ),
    auto_openers=(_SPACED,),
    own_openers=_HARMONY_OPENERS,
    fallback=LISTED_JSON,
    markup=Markup(stops=("<|start|> user", "<|start|> functions.")),
    prompt=_HARMONY_PROMPT,
    tool=declared,
    between="\n\n",
    answer="the call in the commentary channel",
)


# -- Muse Glimmer ------------------------------------------------------------------------------------------------------
# Muse Glimmer: messages as gpt-oss has them, in which calls have tags of their own.

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
    stray="<|message|>",  # as after the name in the message's header
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
    auto_openers=(
        _INVOKE.opener(),
        opener(f"{_PREFIX}invoke name=", _INVOKE, consume=False),  # without the wrapper
        # gpt-oss's messages are some of its.
        Opener(marker="<|channel|>", body=_addressed()),
        *(
            Opener(marker=f"{end}<|start|>assistant", body=_addressed("<|start|>assistant"))
            for end in ("", "<|eom|>", "<|eot|>")
        ),
        *(Opener(marker=head, body=_addressed(), where=Where.START) for head in _HEADS),
        Opener(marker="<|message|>", body=read_nothing, where=Where.START),
        END,
    ),
    markup=Markup(stops=("<|start|>tool ",), ends=("<|eom|>", "<|eot|>"), tags=("atem:",)),
    prompt=one_a_line(
        "To call functions, answer with a block in this form. Strings stand in it as they are, other values as JSON",
        within="functions",
    ),
    answer=f"the {_INVOKE.trigger} block",
    special_tokens=True,
)


# -- Beam --------------------------------------------------------------------------------------------------------------
# Reflection's Beam: messages as gpt-oss has them, in which a call's arguments are elements.
#
#     <|start|>assistant to=lookup<|channel|>analysis <|constrain|>xml<|message|>
#     <rfl:parameter name="city">Paris</rfl:parameter><|call|>
#
# (on one line). The channel is the one of thoughts, and `<|end|>` may close a call too; `<|call|>` ends the turn and
# may be missing. Source: the tests of the response-template parser in https://github.com/lightseekorg/smg. The model's
# own template is not published: that its name is Beam's, how it lays out tools and results, and whether white space at
# a value's ends is its own (here it is) are not established; the words of the prompt are ours.

_START, _PARAMETER = "<|start|>assistant", "<rfl:parameter"
_SPACE = r"[ \t\r\n]{0,32}"
_CHANNELED = r"(?:<\|channel\|>[a-z]{1,16}[ ]?)?"
# The recipient is before the channel, or after it.
_HEADER = rf"{_CHANNELED}to=(?:functions\.)?%s[ ]?{_CHANNELED}(?:<\|constrain\|>[a-z]{{1,16}})?<\|message\|>"
_NAME = r"[^\s<>]{1,256}"

_BEAM_CALLS = Slots(
    call=f"{_START} to={{name}}<|channel|>analysis <|constrain|>xml<|message|>{{slots}}<|call|>",
    slot=f'{_PARAMETER} name="{{key}}">{{value}}</rfl:parameter>',
    between="",
    mark="<rfl:",
    opening=rf"(?:<\|start\|>assistant[ ]?)?{_HEADER % f'(?P<name>{_NAME})'}",
    heads=(_START,),
    ends=("<|end|>",),
    open_end=True,
)

# What distinguishes such a call from a message of gpt-oss: the first element, or the constraint `xml`.
_CALL = rf"{_HEADER % _NAME}(?:(?<=xml<\|message\|>)|{_SPACE}(?={_PARAMETER}))"

BEAM = Family(
    name="beam",
    about='`<rfl:parameter name="x">` in messages to a tool: Beam',
    models={"beam": "Reflection's name of it; see above"},
    calls=_BEAM_CALLS,
    auto_openers=(
        Opener(
            pattern=rf"(?=<)(?:<\|start\|>assistant[ ]?)?{_CALL}",
            consume=False,
            body=_BEAM_CALLS,
        ),
        Opener(  # the prompt holds the message's beginning
            pattern=rf"(?=t){_CALL}",
            where=Where.START,
            consume=False,
            body=_BEAM_CALLS,
        ),
    ),
    own_openers=_HARMONY_OPENERS,
    fallback=LISTED_JSON,
    markup=Markup(tags=("rfl:",)),
    prompt=one_a_line(
        "To call a tool, answer with a message to it in this form. Strings stand in it as they are, other values "
        "as JSON",
        may="You may call the tools",
    ),
    answer="the message to the tool",
    noun="tool",
)


# -- Functionary -------------------------------------------------------------------------------------------------------
# MeetKai's Functionary: `<function=f>` and JSON (3.1), or `>>>f`, a line break and JSON (3.2).


def _identify(written: str, offered: Callable[[str], bool]) -> tuple[str, str | None]:
    """The tool of a written name, after which Llama 3 may write `=` or `(` in place of the bracket."""
    return (written if offered(written) else written.rstrip("=("), None)


# Functionary 3.1, and Llama 3.1 where a prompt asks for it. (`auto`: Qwen3-Coder's reader knows it too.)
# Llama 3 forgets the bracket before the arguments.
_FUNCTION = Named(call="<function={name}>{arguments}</function>", alone=True, identify=_identify)
(FUNCTION,) = _FUNCTION.openers


def _introduced(tool: Tool) -> str:
    what = escaping.neutralise(" ".join(tool.description.split()))
    return f"Use the function '{tool.name}' to '{what}'\n{definition(tool)}"


# https://huggingface.co/meetkai/functionary-medium-v3.1 and https://www.llama.com/docs/model-cards-and-prompt-formats/llama3_1/
# (user-defined custom tool calling)
FUNCTIONARY_V31 = Family(
    name="functionary_v31",
    about="`<function=f>`, JSON and `</function>`: Functionary v3.1",
    fine_tunes={"functionary*v3.1": "[llama.cpp] Functionary v3.1"},
    calls=_FUNCTION,
    auto_openers=(),
    own_openers=(FUNCTION,),
    prompt="""\
You have access to the following functions:

{tools}


Think very carefully before calling functions.
If a you choose to call a function ONLY reply in the following format:
<{start_tag}={function_name}>{parameters}{end_tag}
where

start_tag => `<function`
parameters => a JSON dict with the function argument name as key and function argument value as value.
end_tag => `</function>`

Here is an example,
<function=example_function_name>{"example_name": "example_value"}</function>

Reminder:
- Function calls MUST follow the specified format, start with <function= and end with </function>
- Required parameters MUST be specified
- Put the entire function call reply on one line""",
    tool=_introduced,
    between="\n\n",
    answer="the call between <function= and </function>",
)

_ALL = Opener(marker=">>>all\n", body=read_nothing)
_RECIPIENT = r"[A-Za-z_][\w.\-]{0,63}"
# Python's prompt looks the same: only a plain name with an object after it is read.
_FUNCTIONARY_MESSAGES = Named(call=">>>{name}\n{arguments}", alone=True, name=re.compile(_RECIPIENT), objects=True)


def _write(calls: Sequence[ToolCall]) -> str | None:
    written = _FUNCTIONARY_MESSAGES.writer()(calls)
    # `>>>all` on a line of its own addresses the user. A string in JSON has no line break.
    return None if written is None else written.replace(">>>all\n{", ">>>all{")


# https://github.com/MeetKai/functionary (tests/prompt_test_v3.llama3.txt)
FUNCTIONARY_V32 = Family(
    name="functionary_v32",
    about="`>>>f`, a line break and JSON: Functionary v3.2",
    fine_tunes={"functionary*v3.2": "[llama.cpp] Functionary v3.2"},
    calls=_FUNCTIONARY_MESSAGES,
    write=_write,
    auto_openers=(
        _ALL,
        Opener(  # with its JSON: Python's own prompt looks the same
            pattern=rf">>>(?={_RECIPIENT}[ \t\r]{{0,4}}\n?[ \t]{{0,8}}\{{)",
            body=_FUNCTIONARY_MESSAGES,
        ),
    ),
    own_openers=(
        # The first `>>>` may be in the prompt.
        Opener(marker="all\n", body=read_nothing, where=Where.START),
        Opener(
            pattern=rf"{_RECIPIENT}\n[ \t]{{0,8}}\{{",
            body=_FUNCTIONARY_MESSAGES,
            where=Where.START,
            consume=False,
        ),
    ),
    markup=Markup(
        escapes=(
            Escape(r">>>(?<![^\n]>>>)", "[A-Za-z_]"),  # a recipient at the start of a line
            Escape(">>>", r"[\w.-]{1,64}\n\s{0,4}\{"),  # ... or after a call
        ),
    ),
    prompt="""\
You are capable of executing available function(s) if required.
Only execute function(s) when absolutely necessary.
Ask for the required input to:recipient==all
Use JSON for function arguments.
Respond in this format:
>>>${recipient}
${content}
Available functions:
// Supported function definitions that should be called when necessary.
namespace functions {

{tools}

} // namespace functions""",
    tool=declared,
    between="\n\n",
    answer=">>> and the call",
)
