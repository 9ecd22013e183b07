"""ByteDance's Seed OSS: Qwen3-Coder's tags within its own `<seed:tool_call>`."""

from __future__ import annotations

from ..family import Family
from ..markup import Markup
from ..prompt.thoughts import between
from ..prompt.tools_json import function
from ..syntax.slots import Slots

_FUNCTIONS = Slots(
    call="<seed:tool_call>\n<function={name}>\n{slots}</function>\n</seed:tool_call>",
    slot="<parameter={key}>{value}</parameter>\n",
    name_in_slot=True,
    noise=("</function_invocation>",),
    style="qwen_xml",
)
_SEED_THINK = ("<seed:think>", "</seed:think>")
_THINK = "think_never_used_51bce0c785ca2f68081bfa7d91973934"  # Seed 1.6 and later

# https://huggingface.co/ByteDance-Seed/Seed-OSS-36B-Instruct: the variant of its template that lists tools as JSON.
SEED_OSS = Family(
    name="seed_oss",
    about="`<function=f>` and `<parameter=x>` within `<seed:tool_call>`: Seed OSS",
    models={"seed-oss": "[llama.cpp] ByteDance-Seed-OSS"},
    calls=_FUNCTIONS,
    markup=Markup(
        reasoning=(_SEED_THINK, (f"<{_THINK}>", f"</{_THINK}>")),
        ends=("<seed:eos>",),
        tags=("seed:", "think_never_used_"),
    ),
    thoughts=between(_SEED_THINK),
    prompt="""\
Tool List:
You are authorized to use the following tools (described in JSON Schema format). Before performing any task, you must \
decide how to call them based on the descriptions and parameters of these tools.
[{tools}]

工具调用请遵循如下格式:
<seed:tool_call>
<function=example_function_name>
<parameter=example_parameter_1>value_1</parameter>
<parameter=example_parameter_2>This is the value for the second parameter
that can span
multiple lines</parameter>
</function>
</seed:tool_call>""",
    tool=function,
    between=", ",
    noun="tool",
    special_tokens=True,
)

FAMILIES = (SEED_OSS,)
