"""How the calls of families begin that write them as JSON objects between markers.

Sources: the families' chat templates and the parsers of vLLM, SGLang and llama.cpp.
"""

from __future__ import annotations

import re
import string

from ..parsing.calls.harmony_messages import Thought
from ..parsing.calls.json_calls import JsonCalls
from ..parsing.calls.json_syntax import JsonCallSyntax
from ..parsing.text.grammar import Opener, Where, beginnings
from .opening import bare_call, fork, json_calls, markup, named, opener, pythonic

hermes = json_calls(close=("</tool_call>",))
HERMES = (opener("<tool_call>", hermes),)
# Tags around the answer itself: markup for these families only, since others may write them in their own text.
ERNIE45 = (*HERMES, markup("<response>"), markup("</response>"))
_PIPED = opener("<|tool_call|>", json_calls(close=("<|/tool_call|>",)))
GRANITE = (_PIPED, opener("<tool_call>", hermes))
GRANITE_20B = (opener("<function_call>", json_calls(close=("</function_call>",))),)
jamba = json_calls(close=("</tool_calls>",))
JAMBA = (opener("<tool_calls>", jamba),)
# A message of its own (3), or a token (3.1).
_gigachat = json_calls(close=("<|message_sep|>",))
GIGACHAT3 = (
    Opener(
        pattern=r"<\|message_sep\|>[ \t\r\n]{0,8}function call<\|role_sep\|>",
        partial=beginnings("<|message_sep|>", "function call<|role_sep|"),
        body=lambda sink, _: _gigachat(sink),
    ),
    opener("function call<|role_sep|>", _gigachat),
    opener("<|function_call|>", _gigachat),
    markup("<|message_sep|>"),
)
NEMOTRON = (
    opener("<TOOLCALL>", json_calls(close=("</TOOLCALL>",))),
    opener("<toolcall>", json_calls(close=("</toolcall>",))),  # Nemotron Mini
)
PHI4_MINI = (
    opener("functools[", json_calls(in_list=True)),
    _PIPED,  # the tokenizer's own marker, which prompts differ about
    opener("<|tool_calls|>", json_calls(close=("<|/tool_calls|>",))),
)
INTERNLM = (
    Opener(
        pattern=r"<\|action_start\|>[ \t\r\n]{0,32}<\|plugin\|>",
        partial=beginnings("<|action_start|>", "<|plugin|"),
        body=lambda sink, _: JsonCalls(sink, JsonCallSyntax(close=("<|action_end|>",))),
    ),
)
COHERE = (opener("<|START_ACTION|>", json_calls(close=("<|END_ACTION|>",))),)
# Command R+. Its fence belongs to the marker, for it stands behind a word.
COMMAND_R_MARKED = tuple(opener(f"Action:{gap}```json", json_calls(close=("```",))) for gap in (" ", "\n", ""))
COMMAND_R = (
    *COMMAND_R_MARKED,
    *(opener(f"Action:{gap}```\n", json_calls(close=("```",))) for gap in (" ", "\n", "")),
    Opener(  # without a fence
        pattern=r"Action:[ \t\r\n]{0,8}(?=\[[ \t\r\n]{0,32}\{)",
        partial=beginnings("Action:", "[", "{"),
        body=lambda sink, _: JsonCalls(sink, JsonCallSyntax()),
    ),
)
_INKLING_ENDS = ("<|end_message|>", "<|content_model_end_sampling|>")
_inkling = json_calls(close=_INKLING_ENDS)
_INKLING_JSON = "<|content_invoke_tool_json|>"
# A message begins with the tool's name, which stands in its JSON too. How messages begin and end is markup.
INKLING_MARKED = (
    opener(_INKLING_JSON, _inkling),
    Opener(
        pattern=rf"<\|message_model\|>[ ]?[\w.\-]{{0,64}}{re.escape(_INKLING_JSON)}",
        partial=rf"{beginnings('<|message_model|>')}(?:(?<=l\|>)[ ]?[\w.\-]{{0,64}}(?:{beginnings(_INKLING_JSON)})?)?",
        first="<",
        body=lambda sink, _: _inkling(sink),
    ),
    opener("<|content_thinking|>", lambda sink: Thought(sink, *_INKLING_ENDS)),
    *map(
        markup,
        (*_INKLING_ENDS, "<|message_model|>", "<|content_text|>", "<|content_invoke_tool_text|>",
         "<|content_tool_error|>"),
    ),
)  # fmt: skip
INKLING = (
    *INKLING_MARKED,
    Opener(  # the prompt holds the message's marker
        pattern=rf"[A-Za-z_][\w.\-]{{0,63}}{re.escape(_INKLING_JSON)}",
        partial=rf"[A-Za-z_][\w.\-]{{0,63}}(?:{beginnings(_INKLING_JSON)})?",
        first=string.ascii_letters + "_",
        body=lambda sink, _: _inkling(sink),
        where=Where.START,
    ),
)
APERTUS = (opener("<|tools_prefix|>", json_calls(keyed=True, close=("<|tools_suffix|>",))),)
# Functionary 3.1, and Llama 3.1 where a prompt asks for it.
FUNCTIONARY_V31 = (opener("<function=", named(name_ends=(">",), item_close=("</function>",))),)
LLAMA3 = (
    opener(
        "<|python_tag|>",
        fork(
            (r"[{\[`]", json_calls()),
            (r"[A-Za-z_][\w.]{0,200}\(", pythonic(brackets=False)),
            undecided=r"(?:[A-Za-z_][\w.]{0,200})?",
        ),
    ),
    bare_call('"name"', ":"),  # no marker: text may surround it
    bare_call('"type"', ":", '"function"'),
    *FUNCTIONARY_V31,
)
