"""Calls whose arguments stand on lines (`kv-lines`), or that have one argument, which is all that stands in them."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from ....model import ToolCall
from ....parsing.calls.line_calls import LineCalls, LineSyntax
from ....parsing.sink import Sink
from ....parsing.text.grammar import Opener
from ...syntax.openers import opener
from ...syntax.round_trip import comes_back
from ..json_syntax import Syntax, is_special

_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])


def of_lines(before: str, after: str, syntax: LineSyntax) -> Syntax:
    """The syntax of calls that begin with `before`, a name and `after`."""
    marker = before.strip()

    def make(sink: Sink) -> LineCalls:
        return LineCalls(sink, syntax)

    openers = (opener(marker, make, special=is_special(marker)),)
    kind = "a text" if syntax.key else f"lines of keys and values with {syntax.key_end!r} between them"
    return Syntax(f"{kind} behind {marker}", openers, _Writer(before, after, syntax, openers))


class _Writer:
    """Writes such calls; a turn with one that would not come back as it is has none."""

    def __init__(self, before: str, after: str, syntax: LineSyntax, openers: tuple[Opener, ...]) -> None:
        self._before, self._after, self._syntax, self._openers = before.lstrip(), after, syntax, openers

    def __call__(self, calls: Sequence[ToolCall]) -> str | None:
        done = []
        for call in calls:
            text = self._written(call)
            if text is None or not comes_back(text, call, self._openers):
                return None
            done.append(text)
        return "\n".join(done)

    def _written(self, call: ToolCall) -> str | None:
        syntax = self._syntax
        try:
            arguments = _OBJECT.decode(call.arguments.strip() or "{}")
        except msgspec.DecodeError:
            return None
        values = {key: _text(bytes(value)) for key, value in arguments.items()}
        if syntax.key:
            body = values[syntax.key] if values.keys() == {syntax.key} else None
        else:
            gap = "" if syntax.key_end.endswith(" ") else " "
            lines = (f"{key}{syntax.key_end}{gap}{value}{syntax.line_end}" for key, value in values.items())
            body = ("\n" if self._after[-1:] != "\n" and "\n" in syntax.line_end else "") + "".join(lines)
        return None if body is None else f"{self._before}{call.name}{self._after}{body}{syntax.close}"


def _text(raw: bytes) -> str:
    """A string as it is, anything else as JSON."""
    return msgspec.json.decode(raw, type=str) if raw[:1] == b'"' else raw.decode()
