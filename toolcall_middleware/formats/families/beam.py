"""Reflection's Beam: messages as gpt-oss has them, in which a call's arguments are elements.

    <|start|>assistant to=lookup<|channel|>analysis <|constrain|>xml<|message|>
    <rfl:parameter name="city">Paris</rfl:parameter><|call|>

(on one line). The channel is the one of thoughts, and `<|end|>` may close a call too; `<|call|>` ends the turn and need
not be in the text. Source: the tests of the response-template parser in https://github.com/lightseekorg/smg, which read
this syntax. The model's own template is not published: that its name is Beam's, how it lays out tools and results, and
whether white space at a value's ends is its own (here it is) are not established; the words of the prompt are ours.
"""

from __future__ import annotations

import re

from ...parsing.text.grammar import Opener, Where, beginnings
from .. import reading
from ..family import Family
from ..markup import Markup
from ..prompt.tool_results import one_a_line
from ..syntax.slots import Slots, attribute, begun, heads, slot_calls
from .harmony import OPENERS

_START, _CHANNEL, _PARAMETER = "<|start|>assistant", "<|channel|>", "<rfl:parameter"
_SPACE = r"[ \t\r\n]{0,32}"
_CHANNELED = r"(?:<\|channel\|>[a-z]{1,16}[ ]?)?"
# The recipient stands before the channel, or behind it.
_HEADER = rf"{_CHANNELED}to=(?:functions\.)?%s[ ]?{_CHANNELED}(?:<\|constrain\|>[a-z]{{1,16}})?<\|message\|>"
_NAME = r"[^\s<>]{1,256}"
# Header so far, up to the first element's tag. It has few markers: text in which more stand is not held.
_BEGUN = (
    r"[^\n<]{0,280}(?:<\|(?:channel|constrain)\|>[^\n<]{0,280}){0,3}"
    rf"(?:<[|a-z]{{0,12}}|<\|message\|>{_SPACE}(?:{beginnings(_PARAMETER)})?)?"
)
_CALL_BEGUN = rf"{beginnings(_START)}(?:(?<=assistant){_BEGUN})?|{beginnings(_CHANNEL)}(?:(?<=channel\|>){_BEGUN})?"

_CALLS = slot_calls(
    call=re.compile(rf"(?:<\|start\|>assistant[ ]?)?{_HEADER % f'(?P<name>{_NAME})'}"),
    call_heads=(_START,),
    call_begun=re.compile(_CALL_BEGUN),
    slot=re.compile(attribute("rfl:parameter", "key")),
    slot_heads=heads("rfl:parameter"),
    slot_begun=re.compile(begun(*heads("rfl:parameter"))),
    value_close="</rfl:parameter>",
    call_close="<|call|>",
    call_ends=("<|end|>",),
    open_end=True,
    newlines=False,
)

# What distinguishes such a call from a message of gpt-oss: the first element, or the constraint `xml`.
_CALL = rf"{_HEADER % _NAME}(?:(?<=xml<\|message\|>)|{_SPACE}(?={_PARAMETER}))"
_OPENERS = (
    Opener(
        pattern=rf"(?=<)(?:<\|start\|>assistant[ ]?)?{_CALL}",
        partial=f"(?:{_CALL_BEGUN})",
        first="<",
        consume=False,
        body=_CALLS,
    ),
    Opener(  # the prompt holds the message's beginning
        pattern=rf"(?=t){_CALL}",
        partial=rf"t(?:o(?:={_BEGUN})?)?",
        first="t",
        where=Where.START,
        consume=False,
        body=_CALLS,
    ),
)

_WRITTEN = Slots(
    call="<|start|>assistant to={name}<|channel|>analysis <|constrain|>xml<|message|>{slots}<|call|>",
    slot=f'{_PARAMETER} name="{{key}}">{{value}}</rfl:parameter>',
    between="",
    mark="<rfl:",
)

BEAM = Family(
    name="beam",
    about='`<rfl:parameter name="x">` in messages to a tool: Beam',
    models={"beam": "Reflection's name of it; see above"},
    calls=_WRITTEN,
    auto_openers=_OPENERS,
    own_openers=OPENERS,
    fallback=reading.LISTED_JSON,
    markup=Markup(tags=("rfl:",)),
    prompt=one_a_line(
        "To call a tool, answer with a message to it in this form. Strings stand in it as they are, other values "
        "as JSON",
        may="You may call the tools",
    ),
    answer="the message to the tool",
    noun="tool",
    special_tokens=True,
)

FAMILIES = (BEAM,)
