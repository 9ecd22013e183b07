"""Upstage's Solar Open: an id, a name and JSON between tokens; version 2 a token around each part of an argument.

Sources: the models' chat templates, and the parsers of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

from ...parsing.calls.fork import read_thought
from ..family import Family
from ..markup import Markup
from ..prompt.thoughts import between
from ..prompt.tool_results import RESULTS_FOLLOW
from ..prompt.tools_json import definition
from ..syntax.named import Named
from ..syntax.openers import ignored, opener
from ..syntax.slots import Slots

_THINK = ("<|think:start|>", "<|think:end|>")
_MARKUP = Markup(reasoning=(_THINK,))

_CALLS = Named(
    call="<|tool_call:begin|>{id}<|tool_call:name|>{name}<|tool_call:args|>{arguments}<|tool_call:end|>",
    separated=True,
)

_ALONE = (
    opener("<|think|>", lambda c: read_thought(c, "<|end|>")),
    # With its channel, as far as it is in the text: a turn's parts are messages.
    *map(ignored, ("<|end|><|begin|>assistant", "<|begin|>assistant", "<|content|>", "<|tool_calls|>", "<|calls|>")),
)


# https://huggingface.co/upstage/Solar-Open-100B (llama.cpp: models/templates/upstage-Solar-Open-100B.jinja)
SOLAR_OPEN = Family(
    name="solar_open",
    about="an id, the name and JSON between `<|tool_call:…|>` markers: Solar Open",
    models={"solar-open": "[llama.cpp] upstage-Solar-Open-100B"},
    calls=_CALLS,
    own_openers=_ALONE,
    markup=_MARKUP,
    thoughts=between(_THINK),
    prompt="""\
## Tools

You may invoke one or more tools to assist with the user's query. Available tools, in JSON Schema format:
{tools}

For each tool call, return a JSON object with the following structure, enclosed within <|tool_call:begin|> and \
<|tool_call:end|> tags:
<|tool_call:begin|><tool-call-id><|tool_call:name|><tool-name><|tool_call:args|><args-json-object><|tool_call:end|>
- The <tool-call-id> must be a randomly generated string of lowercase letters (a-z) and/or digits (0-9)

For example:
{example}

"""
    + RESULTS_FOLLOW,
    tool=lambda tool: f"<|tool:begin|>{definition(tool)}<|tool:end|>",
    answer="the tool calls",
    noun="tool",
    special_tokens=True,
)

_ARGUMENTS = Slots(
    call="<|tool_call:start|>{name}\n{slots}<|tool_call:end|>",
    slot="<|tool_arg:start|>{key}<|tool_arg:value|>{value}<|tool_arg:end|>\n",
    mark="<|tool_",
)

_OPENERS = (opener(_ARGUMENTS.trigger, _ARGUMENTS, consume=False),)

# https://github.com/vllm-project/vllm (tests/tool_parsers/test_solar_open2_tool_parser.py); the words are ours.
SOLAR_OPEN2 = Family(
    name="solar_open2",
    about="the name, `<|tool_arg:start|>` and `<|tool_arg:value|>` within `<|tool_call:start|>`: Solar Open 2",
    models={"solar-open2": "[vllm] solar_open2"},
    calls=_ARGUMENTS,
    auto_openers=_OPENERS,
    markup=_MARKUP,
    thoughts=between(_THINK),
    prompt="""\
## Tools

You may invoke one or more tools to assist with the user's query. Available tools, in JSON Schema format:
{tools}

To invoke tools, answer in this form, with each argument on a line of its own:
{example}

"""
    + RESULTS_FOLLOW,
    answer="the tool calls",
    noun="tool",
    special_tokens=True,
)

FAMILIES = (SOLAR_OPEN, SOLAR_OPEN2)
