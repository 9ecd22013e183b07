"""Thinking Machines' Inkling: messages with a kind; a call's name stands before its JSON and in it."""

from __future__ import annotations

import re
import string

from ...parsing.calls.fork import read_thought
from ...parsing.text.grammar import Opener, Where, beginnings
from .. import reading
from ..family import Family
from ..markup import Markup
from ..prompt.tool_results import RESULTS_FOLLOW
from ..syntax.json import Json
from ..syntax.openers import ignored, opener

_CALLS = Json(
    call='<|content_invoke_tool_json|>{"name": "{name}", "args": {arguments}}<|end_message|>',
    between="<|message_model|>",
    ends=("<|content_model_end_sampling|>",),
)
_CALL, _ENDS = _CALLS.marker, _CALLS.closers

# A message begins with the tool's name, which stands in its JSON too. How messages begin and end is markup.
_MARKED = (
    opener(_CALL, _CALLS),
    Opener(
        pattern=rf"<\|message_model\|>[ ]?[\w.\-]{{0,64}}{re.escape(_CALL)}",
        partial=rf"{beginnings('<|message_model|>')}(?:(?<=l\|>)[ ]?[\w.\-]{{0,64}}(?:{beginnings(_CALL)})?)?",
        first="<",
        body=_CALLS,
    ),
    opener("<|content_thinking|>", lambda c: read_thought(c, *_ENDS)),
    *map(
        ignored,
        (*_ENDS, "<|message_model|>", "<|content_text|>", "<|content_invoke_tool_text|>", "<|content_tool_error|>"),
    ),
)

_BEGUN = (
    Opener(  # the prompt holds the message's marker
        pattern=rf"[A-Za-z_][\w.\-]{{0,63}}{re.escape(_CALL)}",
        partial=rf"[A-Za-z_][\w.\-]{{0,63}}(?:{beginnings(_CALL)})?",
        first=string.ascii_letters + "_",
        body=_CALLS,
        where=Where.START,
    ),
)

# https://github.com/vllm-project/vllm (tests/parser/engine/test_inkling.py); the tools stand there as JSON in a message
# of their own, and the words are ours.
INKLING = Family(
    name="inkling",
    about="a JSON object with `args` behind `<|content_invoke_tool_json|>`: Inkling",
    models={"inkling": "[vllm] inkling"},
    calls=_CALLS,
    auto_openers=_MARKED,
    own_openers=_BEGUN,
    fallback=reading.BARE_JSON,
    markup=Markup(stops=("<|message_user|>", "<|message_tool|>")),
    prompt="""\
# Tools

You may call the tools below:
[{tools}]

To call a tool, answer with its name and its arguments in this form:
{example}

"""
    + RESULTS_FOLLOW,
    between=", ",
    answer=f"{_CALL} and the JSON object",
    noun="tool",
    special_tokens=True,
)

FAMILIES = (INKLING,)
