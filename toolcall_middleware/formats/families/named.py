"""Models that write a name and then JSON, between tokens."""

from __future__ import annotations

import re
from collections.abc import Callable

from ...parsing.cursor import read_thought
from ...parsing.text.reasoning import OpenedReasoning
from ..family import Family
from ..markup import Escape, Markup
from ..prompt.thoughts import Returned, Thoughts, between
from ..prompt.tool_results import RESULTS_FOLLOW, as_json, each, one_a_line, said
from ..prompt.tools import definition, function
from ..syntax.json import CALL, Json, Named
from ..syntax.shape import fork, ignored, opener, short_id
from ..syntax.slots import Slots

# -- Mistral -----------------------------------------------------------------------------------------------------------
# Mistral: a JSON list after `[TOOL_CALLS]`, or (since the tokenizer's version 11) the name, `[ARGS]` and JSON.
#
# Which of the two a model writes depends on its tokenizer's version, and some write the other one.

_MISTRAL_MARKUP = Markup(
    stops=("[TOOL_RESULTS]", "[INST]"),
    closers=("[/TOOL_CALLS]",),
    escapes=(
        Escape(
            r"\[",
            r"/?(?:TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|AVAILABLE_TOOLS|ARGS|CALL_ID|INST|SYSTEM_PROMPT|THINK)\]",
        ),
    ),
)

_LIST = Json(open="[TOOL_CALLS] [", call=CALL[:-1] + ', "id": "{id}"}', between=", ", close="]")
_NAMED = Named(
    call="[TOOL_CALLS]{name}[ARGS]{arguments}",
    alone=True,
    call_id=("[CALL_ID]", "[ARGS]"),
    reopen=(_LIST.marker, *_MISTRAL_MARKUP.stops, "</s>"),
)
_mistral = fork((r"[{\[]", _LIST), (r"[^\s{\[]", _NAMED))

MISTRAL_OPENERS = (opener(_LIST.marker, _mistral),)


# The list of tools and the calls are as https://huggingface.co/mistralai/Mistral-7B-Instruct-v0.3 has them; the words
# are those of vLLM's examples/tool_chat_template_mistral_parallel.jinja.
MISTRAL_OLD = Family(
    name="mistral_old",
    about="a JSON list after `[TOOL_CALLS]`: Mistral 7B v0.3, Nemo, Small 3.1 and earlier",
    models={
        "ministral3b": "[mistral] v3: the 3B of 2024",
        "mistral7b-instruct-v0.3": "[vllm] mistral; [mistral] v3",
        "mistral-nemo": "[llama.cpp] Mistral Nemo; [mistral] v3",
        "mistral-small": "[mistral] v3 and, up to 3.1, v7",
        "mistral-large": "[mistral] v3 and v7",
        "mixtral8x22b-instruct": "[mistral] v3",
        "ministral": "[mistral] v3: the 8B of 2024",
        "pixtral": "[mistral] v3 and v7",
    },
    calls=_LIST,
    auto_openers=MISTRAL_OPENERS,
    markup=_MISTRAL_MARKUP,
    thoughts=between("[THINK]", "[/THINK]"),
    prompt="""\
[AVAILABLE_TOOLS] [{tools}][/AVAILABLE_TOOLS]

If you call one or more tools, format them in a single JSON array of objects, where each object is a tool call, not as \
separate objects outside of an array or multiple arrays, and write [TOOL_CALLS] before it. For example:
{example}

If you call tools, do not attempt to interpret them or otherwise provide a response until you receive a tool call \
result that you can interpret for the user.""",
    tool=function,
    between=", ",
    results=each(
        lambda result: (
            f'[TOOL_RESULTS] {{"content": {as_json(result)}, "call_id": "{short_id(result.id)}"}}[/TOOL_RESULTS]'
        )
    ),
    noun="tool",
    special_tokens=True,
)


# https://github.com/mistralai/mistral-common (InstructTokenizerV11 and V13: tools, calls and results)
MISTRAL_V11 = Family(
    name="mistral_v11",
    about="`[TOOL_CALLS]`, the name, `[ARGS]` and JSON: Mistral Small 3.2, Magistral, Devstral, Ministral 3",
    models={
        "mistral-small3.2": "[mistral] v11",
        "mistral-small2506": "the same by its date",
        "mistral-small4": "[mistral] v15",
        "mistral-medium3": "[mistral] v13",
        "mistral-medium25": "the same by its date",
        "mistral-large3": "[mistral] v13",
        "mistral-large2512": "the same by its date",
        "ministral3": "[mistral] v13",
        "devstral": "[mistral] v11 and v13",
        "magistral": "[mistral] v11 and v13",
    },
    calls=_NAMED,
    auto_openers=MISTRAL_OPENERS,
    markup=_MISTRAL_MARKUP,
    thoughts=between("[THINK]", "[/THINK]"),
    prompt="""\
[AVAILABLE_TOOLS][{tools}][/AVAILABLE_TOOLS]

To call a tool, write [TOOL_CALLS], its name, [ARGS] and the arguments as a JSON object; several calls follow one \
another. For example:
{example}

The results come in the next message, between [TOOL_RESULTS] and [/TOOL_RESULTS]. Never write a result yourself.""",
    tool=function,
    between=", ",
    results=each(lambda result: f"[TOOL_RESULTS]{short_id(result.id)}[TOOL_CONTENT]{said(result)}[/TOOL_RESULTS]"),
    answer=f"{_NAMED.marker} and the call",
    noun="tool",
    special_tokens=True,
)


# -- Kimi --------------------------------------------------------------------------------------------------------------
# Moonshot's Kimi: `functions.f:0` and JSON between tokens (K2), or elements made of tokens (K3).

_KIMI_MARKUP = Markup(
    reasoning=(("◁think▷", "◁/think▷"),),
    stops=("<|open|>message",),
    ends=("<|end_of_msg|>",),
    closers=("<|close|>toolsmessage<|sep|>",),
    escapes=(Escape("◁", "/?think▷"),),
)

_KIMI_NAME = re.compile(r"(?:functions[._]?)?(?P<name>.+?)(?:[:_]?\d+)?", re.DOTALL)


def _kimi_name(written: str, offered: Callable[[str], bool]) -> tuple[str, str | None]:
    """`functions.f:0` is f; the whole is the call's id. Ids altered by clients come back too: `functions_f_0`."""
    head, colon, number = written.rpartition(":")
    name = (head if colon and number.isdigit() else written).removeprefix("functions.")
    if not offered(name):
        altered = _KIMI_NAME.fullmatch(written)
        for other in (name.rpartition(".")[2], altered.group("name") if altered else ""):
            if other and offered(other):
                return other, written
    return name, written


_K2 = Named(
    open="<|tool_calls_section_begin|>",
    call="<|tool_call_begin|>functions.{name}:{number}<|tool_call_argument_begin|>{arguments}<|tool_call_end|>",
    close="<|tool_calls_section_end|>",
    spellings=("<|tool_call_section_begin|>",),
    ends=("<|tool_call_section_end|>",),
    special=True,
    through=True,
    noise=True,
    identify=_kimi_name,
)

# The calls are as https://huggingface.co/moonshotai/Kimi-K2-Instruct/blob/main/docs/tool_call_guidance.md has them; the
# tools are there in a turn of their own.
KIMI_K2 = Family(
    name="kimi_k2",
    about="`functions.f:0` and JSON between `<|tool_call_…|>` markers: Kimi K2",
    models={"kimi-k2": "[vllm] kimi_k2"},
    calls=_K2,
    markup=_KIMI_MARKUP,
    # The turns after the last answer without calls: those of the current task.
    thoughts=Thoughts(
        returned=Returned.TURN,
        source="[llama.cpp] Kimi-K2-Thinking; [card] Kimi-K2.5",
        opened={"kimi-k2.[5-9]": "[card] Kimi-K2.5"},
    ),
    prompt="""\
# Tools

You can call the following tools:
[{tools}]

To call tools, answer with a section of calls, each with the tool's name, its number counted from 0 through the \
conversation, and the arguments as a JSON object, for example:
{example}

"""
    + RESULTS_FOLLOW,
    tool=function,
    between=", ",
    answer="the section of calls",
    noun="tool",
)

_KIMI_THINK, _THOUGHT = "<|open|>think<|sep|>", "<|close|>think<|sep|>"
_ANSWER = "<|open|>response<|sep|>"

_K3 = Slots(
    open="<|open|>tools<|sep|>",
    call='<|open|>call tool="{name}" index="{number}"<|sep|>{slots}<|close|>call<|sep|>',
    slot='<|open|>argument key="{key}" type="{type}"<|sep|>{value}<|close|>argument<|sep|>',
    close="<|close|>tools<|sep|>",
    between="",
    mark="<|open|>",
    # The tokens between it and the section's opening are sometimes missing.
    alias="<|open|>toolscall",
    # Arguments that were JSON when they were written into the history.
    noise=('<|open|>json type="object"<|sep|>', "<|open|>json<|sep|>", "<|close|>json<|sep|>"),
    entities=True,
    style="kimi_k3_xml",  # https://github.com/mlc-ai/xgrammar, python/xgrammar/builtin_structural_tag.py
)

# https://huggingface.co/moonshotai/Kimi-K3 (llama.cpp: models/templates/Kimi-K3.jinja): the tools are there in a
# message of their own; it does not say how to call.
KIMI_K3 = Family(
    name="kimi_k3",
    about='`<|open|>call tool="f"<|sep|>` and `<|open|>argument key="x"<|sep|>`: Kimi K3',
    models={"kimi-k3": "[vllm] kimi_k3"},
    calls=_K3,
    auto_openers=(
        opener(_K3.trigger, _K3),
        opener("<|open|>toolscall tool=", _K3, consume=False),
        opener("<|open|>call tool=", _K3, consume=False),  # without the section
        opener(_KIMI_THINK, lambda c: read_thought(c, _THOUGHT, _ANSWER)),
        *map(ignored, (_ANSWER, "<|close|>response<|sep|>", "<|close|>message<|sep|>")),
    ),
    markup=_KIMI_MARKUP,
    thoughts=Thoughts(
        returned=Returned.ALL,
        source="[llama.cpp] Kimi-K3",
        opened={"kimi-k3": "[llama.cpp] Kimi-K3"},
        before=_KIMI_THINK,
        after=_THOUGHT,
        tags=OpenedReasoning(_KIMI_THINK, _THOUGHT, channel=True),
    ),
    prompt="""\
# Tools
Here are the available tools, described in JSONSchema.

```json
[{tools}]
```

To call tools, answer in this form, one argument element for each argument, with its type; strings as they are, other \
values as JSON:
{example}

"""
    + RESULTS_FOLLOW,
    tool=function,
    between=",",
    answer="the tools section",
    noun="tool",
)


# -- Solar -------------------------------------------------------------------------------------------------------------
# Upstage's Solar Open: an id, a name and JSON between tokens; version 2 a token around each part of an argument.

# https://huggingface.co/upstage/Solar-Open-100B (llama.cpp: models/templates/upstage-Solar-Open-100B.jinja)
SOLAR_OPEN = Family(
    name="solar_open",
    about="an id, the name and JSON between `<|tool_call:…|>` markers: Solar Open",
    models={"solar-open": "[llama.cpp] upstage-Solar-Open-100B"},
    calls=Named(
        call="<|tool_call:begin|>{id}<|tool_call:name|>{name}<|tool_call:args|>{arguments}<|tool_call:end|>",
        separated=True,
    ),
    own_openers=(
        opener("<|think|>", lambda c: read_thought(c, "<|end|>")),
        # With its channel, as far as it is in the text: a turn's parts are messages.
        *map(
            ignored, ("<|end|><|begin|>assistant", "<|begin|>assistant", "<|content|>", "<|tool_calls|>", "<|calls|>")
        ),
    ),
    thoughts=between("<|think:start|>", "<|think:end|>"),
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
)

_ARGUMENTS = Slots(
    call="<|tool_call:start|>{name}\n{slots}<|tool_call:end|>",
    slot="<|tool_arg:start|>{key}<|tool_arg:value|>{value}<|tool_arg:end|>\n",
    mark="<|tool_",
)

# https://github.com/vllm-project/vllm (tests/tool_parsers/test_solar_open2_tool_parser.py); the words are ours.
SOLAR_OPEN2 = Family(
    name="solar_open2",
    about="the name, `<|tool_arg:start|>` and `<|tool_arg:value|>` within `<|tool_call:start|>`: Solar Open 2",
    models={"solar-open2": "[vllm] solar_open2"},
    calls=_ARGUMENTS,
    auto_openers=(opener(_ARGUMENTS.trigger, _ARGUMENTS, consume=False),),
    thoughts=between("<|think:start|>", "<|think:end|>"),
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
)


# -- PLaMo -------------------------------------------------------------------------------------------------------------
# Preferred Networks' PLaMo 3: a name and JSON, each between `<|plamo:begin_…:plamo|>` and `<|plamo:end_…:plamo|>`.
#
# Sources: vLLM's parser and its tests (vllm/parser/plamo3.py, tests/tool_parsers/test_plamo3_tool_parser.py) and
# SGLang's. The model's own layout of tools and results is not published: the words of the prompt and the form of the
# results are ours.


def _tag(name: str) -> str:
    return f"<|plamo:{name}:plamo|>"


PLAMO3 = Family(
    name="plamo3",
    about="the name and JSON between `<|plamo:begin_…:plamo|>` and `<|plamo:end_…:plamo|>`: PLaMo 3",
    models={"plamo3": "[vllm] plamo3"},
    calls=Named(
        open=_tag("begin_tool_requests"),
        call=_tag("begin_tool_request")
        + _tag("begin_tool_name")
        + "{name}"
        + _tag("end_tool_name")
        + _tag("begin_tool_arguments")
        + "<|plamo:constrain|>json<|plamo:msg|>"  # the hosted model is reported to leave out the constraint
        + "{arguments}"
        + _tag("end_tool_arguments")
        + _tag("end_tool_request"),
        close=_tag("end_tool_requests"),
        special=True,
        separated=True,
    ),
    markup=Markup(ends=("<|plamo:tag|>",)),
    thoughts=between(_tag("begin_think"), _tag("end_think")),
    prompt=one_a_line(
        "To call tools, answer in this form, with one request for each call", may="You may call the tools"
    ),
    answer="the tool requests",
    noun="tool",
)


# -- MiroThinker -------------------------------------------------------------------------------------------------------
# MiroMind's MiroThinker: a server, a tool's name and JSON, each in a tag, within `<use_mcp_tool>`.

_SERVER = "generic-extras"  # where its template puts tools that it knows nothing of

_MIROTHINKER_CALLS = Named(
    open="<use_mcp_tool>\n",
    call=f"<server_name>{_SERVER}</server_name>\n<tool_name>{{name}}</tool_name>\n"
    "<arguments>\n{arguments}\n</arguments>",
    between="\n",
    close="\n</use_mcp_tool>",
)

_READ = Slots(
    call="<tool_name>{name}</tool_name>\n<arguments>\n{slots}</arguments>",
    slot="",
    close=_MIROTHINKER_CALLS.closers[-1],
    opening=r"(?:<server_name>[^<]{0,256}</server_name>[ \t\r\n]{0,64})?"
    r"<tool_name>[ \t\r\n]{0,64}(?P<name>[^<\s](?:[^<\n]{0,254}[^<\s])?)[ \t\r\n]{0,64}</tool_name>"
    r"[ \t\r\n]{0,64}<arguments>",
    heads=("<server_name>", "<tool_name>"),
)

# llama.cpp: models/templates/MiroThinker-v1.jinja (the calls; the words are ours)
MIROTHINKER = Family(
    name="mirothinker",
    about="`<tool_name>` and JSON in `<arguments>` within `<use_mcp_tool>`: MiroThinker",
    models={"mirothinker": "[llama.cpp] MiroThinker-v1"},
    calls=_MIROTHINKER_CALLS,
    auto_openers=(opener(_MIROTHINKER_CALLS.marker, _READ),),
    prompt=f"""\
# Tools

Tools belong to servers. These are the tools, each as one line of JSON:

## Server name: {_SERVER}
{{tools}}

To use a tool, name its server and itself and give its arguments as one JSON object, in these tags, at the end of your \
answer:
{{example}}

"""
    + RESULTS_FOLLOW,
    answer=f"the call within {_MIROTHINKER_CALLS.marker}{_MIROTHINKER_CALLS.closers[-1]} tags",
    noun="tool",
)
