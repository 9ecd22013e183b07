"""MeetKai's Functionary: `<function=f>` and JSON (3.1), or `>>>f`, a line break and JSON (3.2).

Sources: the models' chat templates, and the parsers of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence

from ...model import Tool, ToolCall
from ...parsing.calls.fork import read_nothing
from ...parsing.calls.named_calls import NamedSyntax, read_named
from ...parsing.text.grammar import Opener, Where
from ..family import Family
from ..markup import Escape, Markup
from ..prompt import escaping
from ..prompt.tools_json import definition
from ..prompt.tools_typescript import declared
from ..syntax.named import Named


def _identify(written: str, offered: Callable[[str], bool]) -> tuple[str, str | None]:
    """The tool of a written name, behind which Llama 3 may write `=` or `(` in place of the bracket."""
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
_MESSAGES = Named(call=">>>{name}\n{arguments}", alone=True, name=re.compile(_RECIPIENT), objects=True)


def _write(calls: Sequence[ToolCall]) -> str | None:
    written = _MESSAGES.writer()(calls)
    # `>>>all` on a line of its own addresses the user. A string in JSON has no line break.
    return None if written is None else written.replace(">>>all\n{", ">>>all{")


_MARKED = (
    _ALL,
    Opener(  # with its JSON: Python's own prompt looks the same
        pattern=rf">>>(?={_RECIPIENT}[ \t\r]{{0,4}}\n?[ \t]{{0,8}}\{{)",
        partial=rf">(?:>(?:>(?:{_RECIPIENT}[ \t\r]{{0,4}}(?:\n?[ \t]{{0,8}})?)?)?)?",
        body=_MESSAGES,
    ),
)

_BEGUN = (
    # The first `>>>` may stand in the prompt.
    Opener(marker="all\n", body=read_nothing, where=Where.START),
    Opener(
        pattern=rf"{_RECIPIENT}\n[ \t]{{0,8}}\{{",
        partial=rf"{_RECIPIENT}(?:\n[ \t]{{0,8}})?",
        first=string.ascii_letters + "_",
        body=lambda c: read_named(c, NamedSyntax(name_ends=("\n",))),
        where=Where.START,
        consume=False,
    ),
)


# https://github.com/MeetKai/functionary (tests/prompt_test_v3.llama3.txt)
FUNCTIONARY_V32 = Family(
    name="functionary_v32",
    about="`>>>f`, a line break and JSON: Functionary v3.2",
    fine_tunes={"functionary*v3.2": "[llama.cpp] Functionary v3.2"},
    calls=_MESSAGES,
    write=_write,
    auto_openers=_MARKED,
    own_openers=_BEGUN,
    markup=Markup(
        escapes=(
            Escape(r">>>(?<![^\n]>>>)", "[A-Za-z_]"),  # a recipient at the start of a line
            Escape(">>>", r"[\w.-]{1,64}\n\s{0,4}\{"),  # ... or behind a call
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

FAMILIES = (FUNCTIONARY_V31, FUNCTIONARY_V32)
