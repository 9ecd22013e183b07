"""Calls whose arguments are elements within elements, every tag behind one mark.

    ]<]minimax[>[<tool_call>
    ]<]minimax[>[<invoke name="lookup">]<]minimax[>[<city>Paris]<]minimax[>[</city>]<]minimax[>[</invoke>
    ]<]minimax[>[</tool_call>

Objects are elements, lists are elements named `item`, null has no way to be written: such a turn is written in JSON.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from ...model import ToolCall
from ...parsing.calls.nested_calls import read_nested
from ...parsing.cursor import Cursor, Steps
from ...parsing.text.grammar import Opener
from .round_trip import comes_back
from .shape import Shape, WriteCalls

_NAME = re.compile(r"[^\s<>{}\[\]\"'`]{1,256}")
_KEY = re.compile(r"[^<>\s=/]{1,256}")
_MAX_DEPTH = 24
_Value = dict[str, msgspec.Raw]
_object = msgspec.json.Decoder(_Value).decode
_list = msgspec.json.Decoder(list[msgspec.Raw]).decode
_string = msgspec.json.Decoder(str).decode


@dataclass(frozen=True, kw_only=True)
class Elements(Shape):
    """How a family writes calls."""

    mark: str
    """Before each tag."""
    wrapper: str
    """The name of the tag around all calls."""
    style: str = ""
    """xgrammar's name for it."""

    @property
    def marker(self) -> str:
        """What opens the calls."""
        return f"{self.mark}<{self.wrapper}>"

    @property
    def constrained_from(self) -> str:
        """The same, where there is a style."""
        return self.marker if self.style else ""

    @property
    def structural_tag(self) -> tuple[str, str, str] | None:
        """What precedes a call's elements, what follows them, and their style."""
        if not self.style:
            return None
        begin = f'{self.marker}\n{self.mark}<invoke name="{{name}}">'
        return begin, f"{self.mark}</invoke>\n{self.mark}</{self.wrapper}>", self.style

    def __call__(self, c: Cursor, /) -> Steps[None]:
        """The reader, after the opening marker."""
        return read_nested(c, self.mark, self.wrapper)

    def writer(self, *openers: Opener) -> WriteCalls:
        """Writes the calls of a turn. openers: those that read them back."""

        def write(calls: Sequence[ToolCall]) -> str | None:
            written = [self.call(call, openers) for call in calls]
            found = [text for text in written if text is not None]
            return self._wrapped("\n".join(found)) if len(found) == len(calls) else None

        return write

    def _wrapped(self, calls: str) -> str:
        return f"{self.marker}\n{calls}\n{self.mark}</{self.wrapper}>"

    def call(self, call: ToolCall, openers: tuple[Opener, ...]) -> str | None:
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
        return written if plain or comes_back(self._wrapped(written), call, openers) else None

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
