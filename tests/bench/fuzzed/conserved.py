"""What a parser says of a text, at random cuts and whole: the same, and the text is all there.

What it gives as text, as reasoning, and as the calls as they were written, stands in the model's text in this order.
What is between them is white space, the end of what is around calls, or a channel's header.
"""

from __future__ import annotations

import json
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
    r"(?:[\s,\]})`]|</[^<>]*>?|<[|｜][^<>|｜]*(?:end|END|suffix|sep|im_end|call|return)[^<>|｜]*(?:[|｜]>?)?|<[|｜]?"
    r"|<\|close\|>\w*(?:<\|sep\|>)?|<\]minimax\[>\[|<\|(?:message_model|content_\w+)\|>"
    r"|<\|plamo:\w+:plamo\|>|<｜tool_call_begin｜>\w*|<\|eo[mt]\|>|(?:<\|start\|>assistant)?[ ]?to=[^\s<]*<\|message\|>"
    r"|(?:<\|start\|?>?(?:assistant[\w ?-]*)?)?(?:<\|chan[^<>]*(?:>[^<]*)?)?"
    r"(?:<\|constrain\|>[\w ?-]*)?(?:<\|message\|>)?)*"
)
# Golden texts hold all kinds of tags besides, and harmony's headers without their tokens.
AROUND_GOLDENS = re.compile(
    rf"(?:{_AROUND.pattern}|<[^<>\n]{{0,64}}>|<?[|｜][^<>|｜\n]{{0,64}}(?:[|｜]>?)?|\[/?\w{{1,32}}\]?"
    r"|<\|(?:open|close)\|>\w*|assistant|analysis|commentary|final|(?:>>>\w*|all)\n"
    r"|[ ]?to=[\w.]*|[ ]?to=[^\n]{0,64}?<\|message\|>)*"
)
# A call whose name is whole. Half a call at the end of the text, up to its name, is markup of the call before.
_NAMED = re.compile(r"[{,]\s*\"name\"\s*:\s*\"[^\"]*\"")
_MOST_WAYS = 10_000
# What the text may break off in: a marker, a channel's header, the next call of a list up to its name.
_LONE = re.compile(
    r"[\s\]})`]*(?:<\|call\|>)?(?:(?:```\w*\s*)?[<\[]\S*(?:[ ]\w+>)?|"
    r"(?:<\|start\|>assistant)?<\|channel\|>[^<]*(?:<\|c\S*)?|"
    r"<\|start\|>assistant[ ]?to=[^\s<]*(?:<[^\n]{0,64})?|,?\s*\{?\s*(?:\"\w*\"?:?\s*(?:\"[^\"]{0,64}\"?)?,?\s*)*)\s*"
)


def one(dice: Dice) -> str:
    """See the module."""
    name = "auto" if dice.below(2) else pick(dice, FORMATS)
    return checked(dice, name, text_of(dice, name)[0])


def checked(
    dice: Dice, name: str, text: str, offered: ToolSet | None = OFFERED, around: re.Pattern[str] = _AROUND
) -> str:
    """What the reader of the format `name` makes of `text`: `calls` or `text`. Raises where a rule is broken.

    around: what may be between the parts that are emitted.
    """
    options = ParserOptions(
        keep_raw=True,
        keep_arguments=bool(dice.below(2)),
        unknown_tool=pick(dice, ("text", "text", "forward")),
        parse_reasoning=bool(dice.below(2)),
    )
    end_cut = dice.below(3) == 2
    sent = pieces(dice, text)
    with told(text=text, format=name, options=options, sent=sent, cut=end_cut):
        parser = registry.get(name).parser(offered, options)
        whole = [*parser.feed(text), *parser.finish(cut=end_cut)]
        parser = registry.get(name).parser(offered, options)
        cut = [event for piece in sent for event in parser.feed(piece)]
        cut += parser.finish(cut=end_cut)
        if "\ud800" not in text:  # half a surrogate pair may leave as itself or as an escape
            assert merged(cut) == merged(whole), (merged(cut), merged(whole))
        all_there(text, whole, around)
        for event in whole:
            if isinstance(event, CallEnd):
                assert event.written in event.raw
                if options.keep_arguments:
                    assert len(_NAMED.findall(event.raw.replace(event.written, "", 1))) <= 1, "another call is lost"
        for arguments in complete_calls(whole):
            json.loads(arguments)
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


def complete_calls(events: list[Event]) -> list[str]:
    """The arguments of the calls that are said to be complete."""
    found: list[str] = []
    begun: list[str] = []
    for event in events:
        match event:
            case CallStart():
                begun = []
            case CallArgs(text):
                begun.append(text)
            case CallEnd(complete=True):
                found.append("".join(begun))
            case _:
                pass
    return found


def all_there(text: str, events: list[Event], around: re.Pattern[str] = _AROUND) -> None:
    """See the module."""
    parts: list[str] = []
    stopped = behind_call = False
    for event in events:
        match event:
            case Stop():
                stopped = True
                break
            case Text(part) | Reasoning(part) | CallEnd(raw=part):
                # Between the white space behind a call and other text a closing tag may have stood that closes nothing.
                parts.append(part.lstrip() if behind_call else part)
                behind_call = isinstance(event, CallEnd)
            case _:
                pass
    lost = _lost(text, parts, around, stopped=stopped)
    assert not lost, f"{lost}; {events}"


def _lost(text: str, parts: list[str], around: re.Pattern[str], *, stopped: bool) -> str:
    """What is not there, where the parts stand as early as they can; or later, where they then are."""
    ways: list[tuple[int, int]] = [(0, 0)]  # so many parts found, up to here
    first = ""
    for _ in range(_MOST_WAYS):
        if not ways:
            break
        number, at = ways.pop()
        if number == len(parts):
            rest = text[at:]
            if stopped or around.fullmatch(rest) or _LONE.fullmatch(rest):
                return ""
            first = first or f"lost: {rest!r}"
            continue
        part = parts[number]
        found = text.find(part, at)
        later: list[tuple[int, int]] = []
        while found >= 0 and around.fullmatch(text, at, found):
            later.append((number + 1, found + len(part)))
            found = text.find(part, found + 1)
        if not later:
            first = first or f"not in the text, or not here: {part!r} behind {text[:at]!r}"
        ways += reversed(later)
    return first or "too many ways"
