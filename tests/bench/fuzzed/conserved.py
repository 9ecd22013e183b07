"""What a parser says of a text, at random cuts and whole: the same, and the text is all there.

What it gives as text, as reasoning, and as the calls as they were written, stands in the model's text in this order.
What is between them is white space, the end of what is around calls, or a channel's header.
"""

from __future__ import annotations

import re

from toolcall_middleware.formats import registry
from toolcall_middleware.formats.base import ParserOptions
from toolcall_middleware.model import Tool, ToolSet
from toolcall_middleware.parsing.events import CallArgs, CallEnd, CallStart, Event, Reasoning, Stop, Text

from .dice import Dice, pick, pieces
from .texts import FORMATS, TOOLS, text_of
from .told import told

OFFERED = ToolSet.of([Tool(tool["function"]["name"], parameters=tool["function"]["parameters"]) for tool in TOOLS])
# A list's end, a fence's, closing tags, and what ends a turn; harmony's headers.
_AROUND = re.compile(
    r"(?:[\s\]})`]|</[^<>]*>?|<[|｜][^<>|｜]*(?:end|END|suffix|sep|im_end|call|return)[^<>|｜]*(?:[|｜]>?)?|<\|?"
    r"|<\|close\|>\w*(?:<\|sep\|>)?|<\]minimax\[>\[|<\|(?:message_model|content_\w+)\|>"
    r"|<\|eo[mt]\|>|(?:<\|start\|>assistant)?[ ]?to=[^\s<]*<\|message\|>"
    r"|(?:<\|start\|?>?(?:assistant)?)?(?:<\|chan[^<>]*(?:>[^<]*)?)?(?:<\|constrain\|>json)?(?:<\|message\|>)?)*"
)
# What the text may break off in: a marker, a channel's header, the next call of a list up to its name.
_LONE = re.compile(
    r"[\s\]})`]*(?:[<\[]\S*|(?:<\|start\|>assistant)?<\|channel\|>[^<]*(?:<\|c\S*)?|,?\s*\{?\s*(?:\"\w*\"?)?:?\s*\"?\w*)\s*"
)


def one(dice: Dice) -> str:
    """See the module."""
    name = "auto" if dice.below(2) else pick(dice, FORMATS)
    text = text_of(dice, name)[0]
    options = ParserOptions(
        keep_raw=True,
        unknown_tool=pick(dice, ("text", "text", "forward")),
        parse_reasoning=bool(dice.below(2)),
    )
    end_cut = dice.below(3) == 2
    sent = pieces(dice, text)
    with told(text=text, format=name, options=options, sent=sent, cut=end_cut):
        parser = registry.get(name).parser(OFFERED, options)
        whole = [*parser.feed(text), *parser.finish(cut=end_cut)]
        parser = registry.get(name).parser(OFFERED, options)
        cut = [event for piece in sent for event in parser.feed(piece)]
        cut += parser.finish(cut=end_cut)
        if "\ud800" not in text:  # half a surrogate pair may leave as itself or as an escape
            assert merged(cut) == merged(whole), (merged(cut), merged(whole))
        all_there(text, whole)
    return "calls" if any(isinstance(event, CallStart) for event in whole) else "text"


def merged(events: list[Event]) -> list[Event]:
    """The events, neighbours of one kind joined."""
    out: list[Event] = []
    for event in events:
        last = out[-1] if out else None
        match event, last:
            case (Text(text), Text(before)):
                out[-1] = Text(before + text)
            case (CallArgs(text), CallArgs(before)):
                out[-1] = CallArgs(before + text)
            case (Reasoning(text, markup, channel), Reasoning(before, last_markup, last_channel)) if (
                markup,
                channel,
            ) == (last_markup, last_channel):
                out[-1] = Reasoning(before + text, markup, channel)
            case _:
                out.append(event)
    return out


def all_there(text: str, events: list[Event]) -> None:
    """See the module."""
    at = 0
    for event in merged(events):  # two short pieces of text might stand earlier, too
        match event:
            case Stop():
                return
            case Text(part) | Reasoning(part) | CallEnd(raw=part):
                found = text.find(part, at)
                assert found >= 0, f"not in the text, or not here: {part!r}; {events}"
                assert _AROUND.fullmatch(text, at, found), f"lost: {text[at:found]!r}; {events}"
                at = found + len(part)
            case _:
                pass
    rest = text[at:]
    assert _AROUND.fullmatch(rest) or _LONE.fullmatch(rest), f"lost: {rest!r}; {events}"
