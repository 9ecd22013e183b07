"""Calls whose arguments are elements within elements, every tag behind one mark.

    ]<]minimax[>[<tool_call>
    ]<]minimax[>[<invoke name="lookup">]<]minimax[>[<city>Paris]<]minimax[>[</city>]<]minimax[>[</invoke>
    ]<]minimax[>[</tool_call>

Objects are elements, lists are elements named `item`, null has no way to be written: such a turn is written in JSON.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

import msgspec

from ...model import ToolCall
from ...parsing.text.grammar import Opener
from .round_trip import comes_back

_NAME = re.compile(r"[^\s<>{}\[\]\"'`]{1,256}")
_KEY = re.compile(r"[^<>\s=/]{1,256}")
_MAX_DEPTH = 24
_Value = dict[str, msgspec.Raw]
_object = msgspec.json.Decoder(_Value).decode
_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_string = msgspec.json.Decoder(str).decode


class NestedXmlWriter:
    """Writes the calls of one turn, or None. `openers` are those of the family's parser."""

    def __init__(self, mark: str, wrapper: str, openers: tuple[Opener, ...]) -> None:
        self.mark = mark
        self.opening = f"{mark}<{wrapper}>\n"
        self.closing = f"\n{mark}</{wrapper}>"
        self.openers = openers

    def __call__(self, calls: Sequence[ToolCall]) -> str | None:
        written = [self.call(call) for call in calls]
        found = [text for text in written if text is not None]
        return self.opening + "\n".join(found) + self.closing if len(found) == len(calls) else None

    def call(self, call: ToolCall) -> str | None:
        """One call; None where the syntax has no way to write it."""
        if not _NAME.fullmatch(call.name):
            return None
        try:
            arguments = self.elements(_object(call.arguments.strip() or "{}"), 0)
        except (ValueError, RecursionError):
            return None
        mark = self.mark
        written = f'{mark}<invoke name="{call.name}">{arguments}{mark}</invoke>'
        plain = arguments.count(mark) == 2 * arguments.count(f"{mark}</") and "item" not in arguments
        return written if plain or comes_back(f"{self.opening}{written}{self.closing}", call, self.openers) else None

    def elements(self, values: _Value, depth: int) -> str:
        """An object's members, each as an element. Raises ValueError as `element` does."""
        return "".join(self.element(key, bytes(raw), depth + 1) for key, raw in values.items())

    def element(self, name: str, raw: bytes, depth: int) -> str:
        """A JSON value as an element. Raises ValueError where the syntax has no way to write it."""
        if not _KEY.fullmatch(name) or depth > _MAX_DEPTH:
            raise ValueError(name)
        match raw[:1]:
            case b"{":
                inner = self.elements(_object(raw), depth)
            case b"[":
                inner = "".join(self.element("item", bytes(item), depth + 1) for item in _list(raw))
            case b'"':
                inner = _string(raw)
            case b"n":
                raise ValueError(name)
            case _:
                inner = raw.decode()
        return f"{self.mark}<{name}>{inner}{self.mark}</{name}>"
