"""Whether a call that was written comes back as it was. Readers are built for what models get wrong: a text that is
right, but looks like a mistake, may be read as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ...model import Tool, ToolCall, ToolSet
from ...parsing.events import CallArgs, CallEnd, CallStart, Event, Text
from ...parsing.text.grammar import Opener
from .. import reading
from ..base import ParserOptions

MAX_READ_BACK = 1 << 16
"""Characters: longer calls are not tried (reading costs about a microsecond a character)."""

_RAW = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KINDS = {"{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null", '"': "string"}


def comes_back(text: str, call: ToolCall, openers: tuple[Opener, ...]) -> bool:
    """Whether a parser that knows `openers`, and a schema that types the arguments, makes of `text` exactly `call`.

    It also knows the JSON that every family reads.

    The call's arguments are a JSON object. A long text is said not to come back.
    """
    if len(text) > MAX_READ_BACK:
        return False
    parser = reading.scanner((*openers, *reading.ANY_JSON), ToolSet.of([tool_of([call])]), ParserOptions())
    events = [*parser.feed(text), *parser.finish()]
    return _one_call(events) == (call.name, msgspec.json.decode(call.arguments.strip() or "{}"))


def tool_of(calls: Sequence[ToolCall]) -> Tool:
    """A tool that `calls` are calls of: its schema has the types of their arguments, for readers go by the schema."""
    types: dict[str, dict[str, str]] = {}
    for call in calls:
        for key, raw in _RAW.decode(call.arguments.strip() or "{}").items():
            types[key] = {"type": _KINDS.get(chr(bytes(raw)[0]), "number")}
    return Tool(calls[0].name, "", {"type": "object", "properties": types})


def _one_call(events: Sequence[Event]) -> tuple[str, object] | None:
    """The name and the arguments of the call that is all there is; None where there is anything else."""
    match events:
        case [CallStart(name), *pieces, CallEnd(complete=True)]:
            texts = [piece.text for piece in pieces if isinstance(piece, CallArgs)]
            return (name, msgspec.json.decode("".join(texts))) if len(texts) == len(pieces) else None
    return None


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
