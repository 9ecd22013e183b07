"""What a declaration of a family's calls gives: reader, writer, markers, constraint and wording.

The shapes: `Json`, `Named` (a name, then JSON), `Slots` (tags), `Python`, `Gemma` and `Elements`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

from ...model import ToolCall
from ...parsing.cursor import Cursor, Make, Steps
from ...parsing.text.grammar import Opener
from ..prompt.escaping import arguments_json, dump
from .openers import opener

WriteCalls = Callable[[Sequence[ToolCall]], str | None]
"""The calls of one turn in the family's syntax; None where it has no way to write them."""

TAG = re.compile(r"<[^<>]*>(?:\w+<[^<>]*>)?")  # `<|close|>call<|sep|>` is one
_NO_ID = re.compile(r"[^A-Za-z0-9]")
_HOLE = re.compile(r"\{(?:name|arguments|encoded|number|id)\}")
_ID_MEMBER = ', "id": "{id}"'


class Shape(ABC):
    """How a family writes calls. The attributes are those of the declarations."""

    open: str
    close: str

    @abstractmethod
    def __call__(self, c: Cursor, /) -> Steps[None]:
        """The reader, after the opening marker."""

    @abstractmethod
    def writer(self, *openers: Opener) -> WriteCalls:
        """Writes the calls of a turn. openers: those that read them back."""

    @property
    @abstractmethod
    def marker(self) -> str:
        """What opens the calls; empty: nothing."""

    @property
    def trigger(self) -> str:
        """The first text that shows that a call begins."""
        return self.marker

    @property
    def constrained_from(self) -> str:
        """The text after which constrained decoding may begin; empty where it cannot write these calls."""
        return ""

    @property
    def structural_tag(self) -> tuple[str, str, str] | None:
        """What precedes a call's arguments, what follows them, and xgrammar's name for how they are written; None where
        they are JSON.
        """
        return None

    @property
    def closers(self) -> tuple[str, ...]:
        """Markers that are no content after a call."""
        return ()

    @property
    def openers(self) -> tuple[Opener, ...]:
        """How the calls begin."""
        return (opener(self.marker, self),)

    @property
    def answer(self) -> str:
        """What an answer that calls consists of, in words."""
        return f"the call {self.around}"

    @property
    def around(self) -> str:
        """The first and the last marker, in words."""
        first, last = self.trigger, self.closers[-1]
        return f"within {first}{last} tags" if last == f"</{first[1:]}" else f"between {first} and {last}"


def filled(layout: str, call: ToolCall, number: int, *, quoted: bool) -> str:
    """A call in a layout. Holes: `{name}`, `{arguments}`, `{encoded}` (the arguments as a JSON string), `{number}`, and
    `{id}`. quoted: the name is part of JSON. A member of JSON that is the id is left out where a call has none.
    """
    if call.id is None:
        layout = layout.replace(_ID_MEMBER, "")
    parts = {
        "{name}": dump(call.name)[1:-1] if quoted else call.name,
        "{arguments}": arguments_json(call.arguments),
        "{encoded}": dump(call.arguments),
        "{number}": str(number),
        "{id}": short_id(call.id),
    }
    return _HOLE.sub(lambda found: parts[found[0]], layout)


def short_id(call_id: str | None) -> str:
    """A call's id as Mistral's templates want it: nine letters or digits, the same for a call and its result."""
    return _NO_ID.sub("", call_id or "")[-9:].rjust(9, "0")


__all__ = ["TAG", "Make", "Shape", "WriteCalls", "filled", "short_id"]
