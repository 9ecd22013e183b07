"""Ai2's Olmo 3: Python calls, one a line, within `<function_calls>`."""

from __future__ import annotations

from ..family import Family
from ..markup import Markup
from ..syntax.bare_invoke import invoke
from ..syntax.openers import fork, shared
from ..syntax.pythonic import Python, single

_CALLS = Python(open="<function_calls>\n", between="\n", close="\n</function_calls>", json_words=True, quote=single)
_OPENERS = (
    shared(
        _CALLS.marker,
        fork(
            (r"[^<\s]", _CALLS),
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
    calls=_CALLS,
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
)

FAMILIES = (OLMO3,)
