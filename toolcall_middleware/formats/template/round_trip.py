"""Whether what a template renders is read back: what decides if a derived family is used."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ...model import Tool, ToolCall, ToolSet
from ...parsing.events import CallArgs, CallEnd, CallStart, Event, Text
from ...parsing.text.grammar import Opener
from .. import reading
from ..base import ParserOptions

_RAW = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KINDS = {"{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null", '"': "string"}


@dataclass(frozen=True, slots=True)
class Rendered:
    """A turn as a template renders it, and the calls that it was rendered from."""

    text: str
    calls: tuple[ToolCall, ...]
    content: str = ""


def reads(openers: tuple[Opener, ...], turn: Rendered) -> bool:
    """Whether a parser with `openers` makes of the turn its calls and its content, whole and by the character."""
    tools = ToolSet.of([_tool(name, turn.calls) for name in dict.fromkeys(call.name for call in turn.calls)])
    wanted = [(call.name, msgspec.json.decode(call.arguments)) for call in turn.calls]
    for pieces in ([turn.text], list(turn.text)):
        parser = reading.scanner(openers, tools, ParserOptions())
        events = [event for piece in pieces for event in parser.feed(piece)]
        calls, text = _found([*events, *parser.finish()])
        if calls != wanted or text.strip() != turn.content.strip():
            return False
    return True


def _tool(name: str, calls: Sequence[ToolCall]) -> Tool:
    """A tool whose schema says the types of the arguments that it is called with."""
    types: dict[str, dict[str, str]] = {}
    for call in calls:
        if call.name == name:
            raw = _RAW.decode(call.arguments)
            types |= {key: {"type": _KINDS.get(chr(bytes(value)[0]), "number")} for key, value in raw.items()}
    return Tool(name, "", {"type": "object", "properties": types})


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
