"""Ai2's Olmo 3: Python calls, one a line, within `<function_calls>`."""

from __future__ import annotations

from ..family import Family
from ..markup import Markup
from ..syntax.bare_invoke import invoke
from ..syntax.openers import fork, pythonic_calls, shared
from ..syntax.pythonic import JSON_WORDS, PythonicWriter, single

_olmo3 = pythonic_calls(brackets=False, close=("</function_calls>",))
_OPENERS = (
    shared(
        "<function_calls>",
        fork(
            (r"[^<\s]", _olmo3),
            ("<", invoke("function_calls")),
        ),
        "",
    ),
)

# https://huggingface.co/allenai/Olmo-3-7B-Instruct (vLLM: examples/tool_chat_template_olmo3.jinja)
OLMO3 = Family(
    name="olmo3",
    about="Python calls, one a line, within `<function_calls>`: Olmo 3",
    models={"olmo3": "[vllm] olmo3"},
    auto_openers=_OPENERS,
    markup=Markup(tags=("function_(?:call|result|response)",)),
    prompt="""\
You have access to the following functions. To call functions, respond with a pythonic function call wrapped in \
<function_calls></function_calls> XML tags.

For example, to call a function named 'get_weather' with parameters city='New York' and units='celsius', respond with:
<function_calls>
get_weather(city='New York', units='celsius')
</function_calls>

You can call multiple functions by putting each call on a new line within the tags:
<function_calls>
function1(param1='value1')
function2(param2='value2')
</function_calls>

Here are the available functions:
<functions>
{tools}
</functions>""",
    write=PythonicWriter(
        "<function_calls>\n",
        "\n</function_calls>",
        _OPENERS,
        between="\n",
        words=JSON_WORDS,
        quote=single,
    ),
    answer="the call within <function_calls></function_calls> tags",
)

FAMILIES = (OLMO3,)
