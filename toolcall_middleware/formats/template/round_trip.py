"""Whether what a template renders is read back: what decides if a derived family is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ...model import ToolCall, ToolSet
from ...parsing.events import CallArgs, CallEnd, CallStart, Event, Text
from ...parsing.text.grammar import Opener
from .. import reading
from ..base import ParserOptions
from ..syntax.round_trip import tool_of


@dataclass(frozen=True, slots=True)
class Rendered:
    """A turn as a template renders it, and the calls that it was rendered from."""

    text: str
    calls: tuple[ToolCall, ...]
    content: str = ""


def reads(openers: tuple[Opener, ...], turn: Rendered) -> bool:
    """Whether a parser with `openers` makes of the turn its calls and its content, whole and by the character."""
    names = dict.fromkeys(call.name for call in turn.calls)
    tools = ToolSet.of([tool_of([call for call in turn.calls if call.name == name]) for name in names])
    wanted = [(call.name, msgspec.json.decode(call.arguments)) for call in turn.calls]
    for pieces in ([turn.text], list(turn.text)):
        parser = reading.scanner(openers, tools, ParserOptions())
        events = [event for piece in pieces for event in parser.feed(piece)]
        calls, text = _found([*events, *parser.finish()])
        if calls != wanted or text.strip() != turn.content.strip():
            return False
    return True


def _found(events: Sequence[Event]) -> tuple[list[tuple[str, object]], str]:
    calls: list[tuple[str, object]] = []
    text = name = arguments = ""
    for event in events:
        match event:
            case CallStart():
                name, arguments = event.name, ""
            case CallArgs():
                arguments += event.text
            case CallEnd(complete=True):
                calls.append((name, msgspec.json.decode(arguments)))
            case Text():
                text += event.text
            case _:
                pass
    return calls, text
