"""Formats that no model was trained on: `json`, ours, and what models write that learned to call tools from prompts."""

from __future__ import annotations

import re
from dataclasses import replace

from ...json_schema.compact import calls_schema
from ...parsing.calls.json_calls import JsonCallSyntax, read_json
from ...parsing.calls.named_calls import read_react
from ...parsing.patterns import PYTHON_NAME
from ...parsing.text.grammar import Opener, Where
from ..base import Constraint
from ..family import FENCED, Family
from ..markup import Escape, Markup
from ..prompt.tool_results import one_a_line
from ..prompt.tools import form, signature
from ..syntax.json import Json, Named
from ..syntax.literals import Python
from ..syntax.shape import (
    ANY_JSON,
    BARE_JSON,
    BARE_OBJECT,
    LAST_LINE,
    LAST_LINE_LIST,
    LAST_LIST,
    LISTED_JSON,
    fork,
    json_calls,
    opener,
    pythonic_calls,
    shared,
)
from ..syntax.slots import FREE_TOOL_TAG, TOOL, TOOL_TAG, Slots

# -- json ------------------------------------------------------------------------------------------------------------
# A block marked as `json` that holds `{"tool_calls": [{"name": "lookup", "arguments": {"city": "Paris"}}]}`. Ours, for
# models that know no tool syntax of their own: small models follow a fenced JSON block far better than tags that they
# were not trained on.

_TOOLS = """\
# Tools

You can call the tools below. %s

{tools}

To call a tool, answer with a JSON code block in exactly this form (this example shows the form only; take the real \
values from the conversation):

{example}

{several} The result comes in the next message, between <tool_result> and </tool_result>. Never write a result yourself.
When no tool fits, or when you already know the answer, answer in plain text without a "tool_calls" block."""

_SAMPLED = "Each tool has its name, its arguments with their types, what it does, and a sample call."
_SIGNATURES = (
    "Each entry is one tool: its name, its arguments with their types (one with ? may be left out), and what it does."
)

_LIST = shared(
    "[",
    json_calls(bare=True),
    r"\[[ \t\r\n]*\{",
    where=Where.START,
    consume=False,
    as_last=(LAST_LIST,),
)
# LM Studio's own protocol for models that know none, where LM Studio does not read it itself.
# https://lmstudio.ai/docs/developer/openai-compat/tools
_REQUEST = opener("[TOOL_REQUEST]", json_calls(close=("[END_TOOL_REQUEST]",)))

# A third fewer tokens for the tools, and fewer right calls (tests/bench/README.md).
BRIEF = Family(
    name="json",
    about="A fenced JSON block that holds `tool_calls`.",
    # Models that were trained on no syntax, named for a family that was.
    fine_tunes={
        "deepseek-r1:[1378]": "Ollama's tags: all but 671b are distillates",
        "deepseek-r1-0528-qwen": "one, too",
        "deepseek-r1-distill": '[card] templates without tools; [llama.cpp] "reluctant to call any tools"',
    },
    calls=FENCED,
    # In `auto`, Python's calls begin with the bracket of a bare list.
    auto_openers=(
        *LISTED_JSON,
        BARE_OBJECT,
        _LIST,
        _REQUEST,
        LAST_LINE,
        LAST_LINE_LIST,
    ),
    own_openers=BARE_JSON,
    fallback=(),
    # The rest of its markup is common to all families: markup.COMMON.
    markup=Markup(escapes=(Escape(r"\[", r"(?:END_)?TOOL_REQUEST\]"),)),
    prompt=_TOOLS % _SIGNATURES,
    tool=signature,
    several='To call several tools at once, put several entries into the "tool_calls" list of one block.',
    one='Call at most one tool in an answer: the "tool_calls" list has one entry.',
    answer='a "tool_calls" block',
    noun="tool",
    constrain=lambda tools, parallel: Constraint("tool_calls", calls_schema(tools, parallel=parallel)),
)
# Of the forms that were measured small models follow this one best (tests/bench/README.md).
JSON = replace(
    BRIEF,
    prompt=_TOOLS % _SAMPLED,
    tool=lambda tool: f"## {tool.name}\n{signature(tool)}\n{form(tool)}",
    between="\n\n",
    brief=BRIEF,
)
# For requests that offer nothing: history as `json` writes it, and nothing is read from the answer but its reasoning.
PLAIN = replace(JSON, name="plain", auto_openers=(), own_openers=())

# -- dialects ---------------------------------------------------------------------------------------------------------
# Dialects that no model was trained on: what models write that learned to call tools from prompts and examples.
#
# `auto` reads them where the tool is offered and the form is unmistakable: each of them first on its line, outside of
# code, or (JSON) as the whole answer or the last of it.

_WS = r"[ \t]{0,8}"
_LINE = r"\r?\n[ \t\r\n]{0,8}"
_JSON = (*ANY_JSON, LAST_LINE)


# -- ReAct -----------------------------------------------------------------------------------------------------------

_REACT = Opener(
    pattern=rf"Action:{_WS}(?P<tool>[^\s<>{{}}\[\]\"'`,:]{{1,128}}){_WS}{_LINE}Action Input:",
    where=Where.LINE,
    named=True,
    body=read_react,
)

# https://arxiv.org/abs/2210.03629, as https://reference.langchain.com/python/langchain-classic/agents/react/agent asks
# for it. An input that is no JSON object stays text.
REACT = Family(
    name="react",
    about="lines of `Action:` and `Action Input:` with JSON: what ReAct prompts ask for",
    calls=Named(call="Action: {name}\nAction Input: {arguments}", between="\n", objects=True),
    auto_openers=(_REACT,),
    fallback=_JSON,
    markup=Markup(escapes=(Escape("Action", rf":{_WS}[^\s:]{{1,128}}{_WS}{_LINE}Action Input:"),)),
    prompt=one_a_line(
        "To use a tool, answer with these two lines; the input is a JSON object", may="You can use the tools"
    ),
    answer="the lines Action: and Action Input:",
    noun="tool",
)

# -- JSON ------------------------------------------------------------------------------------------------------------

# After `Action:`, in a code block, as create_structured_chat_agent asks for it.
_BLOB = Opener(
    pattern=rf"Action:{_WS}{_LINE}`{{3}}(?:json)?{_WS}{_LINE}(?=\{{[ \t\r\n]{{0,32}}[\"']action)",
    where=Where.LINE,
    body=lambda c: read_json(c, JsonCallSyntax(bare=True, close=("```",))),
)

# https://reference.langchain.com/python/langchain-classic (create_json_chat_agent, create_structured_chat_agent)
ACTION_JSON = Family(
    name="action_json",
    about='`{"action": …, "action_input": …}`: what LangChain\'s JSON agents ask for',
    calls=Json(call='{"action": "{name}", "action_input": {arguments}}'),
    auto_openers=(_BLOB,),
    fallback=_JSON,
    prompt=one_a_line("To use a tool, answer with nothing but a JSON object in this form", may="You can use the tools"),
    answer="the JSON object with action and action_input",
    noun="tool",
)

# https://platform.openai.com/docs/api-reference/chat (`function_call`, which `tool_calls` has replaced)
FUNCTION_CALL = Family(
    name="function_call",
    about='`{"function_call": {"name": …, "arguments": …}}`: OpenAI\'s older messages, written as text',
    calls=Json(call='{"function_call": {"name": "{name}", "arguments": {encoded}}}'),
    fallback=_JSON,
    prompt=one_a_line(
        "To call a function, answer with nothing but a JSON object in this form; the arguments are JSON in a string",
        title="Functions",
        may="You can call the functions",
    ),
    answer="the JSON object with function_call",
)

# -- code ------------------------------------------------------------------------------------------------------------

_API = "default_api."
_PYTHON = {"bare": True, "wrapper": "print", "prefix": _API}
_FIRST_CALL = rf"(?:print\()?(?:{re.escape(_API)})?(?P<tool>{PYTHON_NAME}){_WS}\("
_CODE = Opener(
    pattern=_FIRST_CALL,
    where=Where.FENCE,
    consume=False,
    fences=frozenset({"tool_code"}),
    named=True,
    body=pythonic_calls(brackets=False, **_PYTHON),
)
_END = ("</tool_code>",)
_CODE_TAG = Opener(
    pattern=r"<tool_code>(?=[ \t\r\n]{0,256}[^ \t\r\n<])",  # a tag after it is a parameter of a tool with this name
    body=fork(
        (r"\{", json_calls(close=_END)),
        (r"\[", pythonic_calls(close=_END, **_PYTHON)),
        (_FIRST_CALL, pythonic_calls(brackets=False, close=_END, **_PYTHON)),
    ),
)

# What Gemini's own prompts and many prompts for Gemma 3 ask for: https://www.philschmid.de/gemma-function-calling
TOOL_CODE = Family(
    name="tool_code",
    about="Python calls in a code block or tags of `tool_code`: what Gemma 3 and Gemini's prompts ask for",
    calls=Python(open="```tool_code\n", between="\n", close="\n```"),
    auto_openers=(_CODE, _CODE_TAG),
    fallback=_JSON,
    markup=Markup(tags=("tool_code>",), escapes=(Escape("```", r"tool_code\b"),)),
    prompt=one_a_line(
        "To call functions, answer with a code block in this form, one call a line",
        title="Functions",
        may="You can call the functions",
    ),
    answer="the tool_code block",
)

# -- tags ------------------------------------------------------------------------------------------------------------

# https://docs.roocode.com/basic-usage/how-tools-work, and https://github.com/cline/cline, which Roo Code comes from
TOOL_TAGS = Family(
    name="tool_tags",
    about="a tag with the tool's name, in it one for each parameter: Cline's and Roo Code's own form",
    calls=Slots(
        call="<{name}>\n{slots}</{name}>",
        slot="<{key}>{value}</{key}>\n",
        names=rf"(?!(?:think|tool_call)\Z){TOOL}",  # these tags are read as what they are elsewhere
        keys=TOOL,
    ),
    auto_openers=(TOOL_TAG,),
    own_openers=(FREE_TOOL_TAG,),
    fallback=_JSON,
    prompt=one_a_line(
        "To use a tool, answer with its name as a tag on a line of its own, and in it a tag for each parameter, values "
        "as they are, lists and objects as JSON",
        may="You can use the tools",
    ),
    answer="the tool's tag",
    noun="tool",
)
