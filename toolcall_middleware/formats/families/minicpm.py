"""OpenBMB's MiniCPM: tags whose names are attributes, and XML's own entities and sections in them."""

from __future__ import annotations

from ...parsing.text.grammar import beginnings
from ..family import Family
from ..markup import Markup
from ..prompt.tools_json import function
from ..syntax.function_tags import FUNCTIONS
from ..syntax.openers import fork, opener
from ..syntax.slots import Slots

SLOTS = Slots(
    call='<function name="{name}">{slots}</function>',
    slot='<param name="{key}">{value}</param>',
    noise=("<arguments>", "</arguments>"),
    xml=True,
)
# Models mix these and Qwen's: `<function name="f">` around `<parameter=x>`, without entities in the values.
_WS = r"[ \t\r\n]{0,64}"
_CALL, _, _BEGUN = SLOTS.parts.call_patterns()
_calls = fork(
    (rf"{_CALL}{_WS}<parameter[ =]", FUNCTIONS),
    ("", SLOTS),
    undecided=rf"{_BEGUN}(?:>{_WS}(?:{beginnings('<parameter')})?)?",
)
OPENERS = tuple(opener(f"<function{space}name=", _calls, consume=False) for space in (" ", "", "Ġ"))

# https://github.com/OpenBMB/MiniCPM#with-tool-calling (the calls; the words are ours)
MINICPM5 = Family(
    name="minicpm5",
    about='`<function name="f">` and `<param name="x">`: MiniCPM 5',
    models={"minicpm5": "[sglang] minicpm5"},
    calls=SLOTS,
    auto_openers=OPENERS,
    markup=Markup(tags=(r"function[\sĠ]*name\s*=",)),
    prompt="""\
# Tools

You can call the following functions:
<tools>
{tools}
</tools>

To call a function, answer in this form, one <param> for each argument, values as they are, lists and objects as JSON:
{example}

The result comes in the next message, between <tool_result> and </tool_result>. Never write a result yourself.""",
    tool=function,
    answer="the call",
)

FAMILIES = (MINICPM5,)
