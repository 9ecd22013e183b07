"""Dialects that no model was trained on: what models write that learned to call tools from prompts and examples.

`auto` reads them where the tool is offered and the form is unmistakable: each of them first on its line, outside of
code, or (JSON) as the whole answer or the last of it.
"""

from __future__ import annotations

import re

from ...parsing.calls.json_calls import JsonCallSyntax, read_json
from ...parsing.calls.literal_calls import PythonicSyntax, read_python
from ...parsing.calls.named_calls import read_react
from ...parsing.patterns import PYTHON_NAME
from ...parsing.text.grammar import Opener, Where
from .. import reading
from ..family import Family
from ..markup import Escape, Markup
from ..prompt.tool_results import one_a_line
from ..syntax.function_tags import FREE_TOOL_TAG, NAME, TOOL_TAG
from ..syntax.json import Json
from ..syntax.named import Named
from ..syntax.pythonic import Python
from ..syntax.slots import Slots

_WS = r"[ \t]{0,8}"
_LINE = r"\r?\n[ \t\r\n]{0,8}"
_JSON = (*reading.ANY_JSON, reading.LAST_LINE)


def _begun(*atoms: str) -> str:
    """A pattern for every beginning of these patterns, one behind the other."""
    pattern = ""
    for atom in reversed(atoms[1:]):
        pattern = f"(?:{atom}{pattern})?"
    return atoms[0] + pattern


# -- ReAct -----------------------------------------------------------------------------------------------------------

_NAME = r"[^\s<>{{}}\[\]\"'`,:]{{{0},128}}"
_WORD = "Action:"
_BREAK = (r"\r?", r"\n", r"[ \t\r\n]{0,8}")
_ACTION = rf"Action:{_WS}(?P<tool>{_NAME.format(1)}){_WS}{_LINE}Action Input:"
_REACT = Opener(
    pattern=_ACTION,
    partial=_begun(*_WORD, _WS, f"(?P<tool>{_NAME.format(1)})", _WS, *_BREAK, *"Action", "[ ]", *"Input"),
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

# Behind `Action:`, in a code block, as create_structured_chat_agent asks for it.
_BLOB = Opener(
    pattern=rf"Action:{_WS}{_LINE}`{{3}}(?:json)?{_WS}{_LINE}(?=\{{[ \t\r\n]{{0,32}}[\"']action)",
    partial=_begun(
        *_WORD,
        _WS,
        *_BREAK,
        *"```",
        "(?:j(?:s(?:on?)?)?)?",
        _WS,
        *_BREAK,
        r"\{",
        r"[ \t\r\n]{0,32}",
        "[\"']",
        *"action",
    ),
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
_PYTHON = PythonicSyntax(brackets=False, bare=True, wrapper="print", prefix=_API)
_CODE_NAME = PYTHON_NAME  # of a function
_CODE = Opener(
    pattern=rf"(?:print\()?(?:{re.escape(_API)})?(?P<tool>{_CODE_NAME}){_WS}\(",
    partial=rf"(?:print\()?(?:\d{{1,8}}|{_CODE_NAME}{_WS})?(?P<tool>)",
    first="0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_",
    where=Where.FENCE,
    consume=False,
    fences=frozenset({"tool_code"}),
    named=True,
    body=lambda c: read_python(c, _PYTHON),
)

# What Gemini's own prompts and many prompts for Gemma 3 ask for: https://www.philschmid.de/gemma-function-calling
TOOL_CODE = Family(
    name="tool_code",
    about="Python calls in a code block of `tool_code`: what Gemma 3 and Gemini's prompts ask for",
    calls=Python(open="```tool_code\n", between="\n", close="\n```"),
    auto_openers=(_CODE,),
    fallback=_JSON,
    markup=Markup(escapes=(Escape("```", r"tool_code\b"),)),
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
        names=rf"(?!(?:think|tool_call)\Z){NAME}",  # these tags are read as what they are elsewhere
        keys=NAME,
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

FAMILIES = (REACT, ACTION_JSON, FUNCTION_CALL, TOOL_CODE, TOOL_TAGS)
