"""What a declaration of a family's calls gives: reader, writer, markers, constraint and wording.

The shapes: `Json`, `Named` (a name, then JSON), `Slots` (tags), `Python`, `Gemma` and `Elements`.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import msgspec

from ...model import Tool, ToolCall, ToolSet
from ...parsing.calls.json_calls import JsonCallSyntax, read_json
from ...parsing.calls.literal_calls import PythonicSyntax, read_python
from ...parsing.cursor import Branch, Cursor, Make, Steps, read_fork, read_nothing
from ...parsing.events import CallArgs, CallEnd, CallStart, Text
from ...parsing.text.grammar import Opener, Where, beginnings
from .. import reading
from ..base import ParserOptions
from ..prompt.escaping import arguments_json, dump

WriteCalls = Callable[[Sequence[ToolCall]], str | None]
"""The calls of one turn in the family's syntax; None where it has no way to write them."""

TAG = re.compile(r"<[^<>]*>(?:\w+<[^<>]*>)?")  # `<|close|>call<|sep|>` is one
_NO_ID = re.compile(r"[^A-Za-z0-9]")
_HOLE = re.compile(r"\{(?:name|arguments|encoded|number|id)\}")
_ID_MEMBER = ', "id": "{id}"'


class CannotWrite(ValueError):
    """The syntax has no way to write a call."""


class Shape(ABC):
    """How a family writes calls. The attributes are those of the declarations."""

    open: str
    """Before all calls of a turn."""
    close: str
    """After them."""
    between: str | None = ""
    """Between two calls. None: a turn has one call at most."""
    first: int = 1
    """The first call's number."""

    @abstractmethod
    def __call__(self, c: Cursor, /) -> Steps[None]:
        """The reader, after the opening marker."""

    @abstractmethod
    def written(self, call: ToolCall, number: int, /) -> tuple[str, bool]:
        """One call, and whether it looks like what a reader may take for something else: such a call is read back.

        Raises ValueError where the syntax has no way to write it, and RecursionError.
        """

    def writer(self, *openers: Opener) -> WriteCalls:
        """Writes the calls of a turn. openers: those that read them back."""

        def write(calls: Sequence[ToolCall]) -> str | None:
            before, between, after = self.outer
            if between is None and len(calls) > 1:
                return None
            each: list[str] = []
            for number, call in enumerate(calls, start=self.first):
                try:
                    text, odd = self.written(call, number)
                    if odd and not comes_back(before + text + after, call, openers):
                        return None
                except (ValueError, RecursionError):
                    return None
                each.append(text)
            return before + (between or "").join(each) + after

        return write

    @property
    def outer(self) -> tuple[str, str | None, str]:
        """What is written before all calls of a turn, between two and after them."""
        return self.open, self.between, self.close

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
        return in_words(self.trigger, self.closers[-1])


def in_words(first: str, last: str) -> str:
    """That something is between two markers."""
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


# -- how calls begin ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class SharedOpener(Opener):
    """An opener whose marker another family has too: where both are known, what follows the marker tells them apart."""

    make: Make
    follow: str
    """Pattern of what follows the marker (white space aside) in this family; empty: all that no other family claims."""
    undecided: str
    """Pattern of a text that ends too early to decide whether `follow` matches."""


def opener(
    marker: str,
    make: Make,
    *,
    where: Where = Where.ANYWHERE,
    consume: bool = True,
    special: bool = False,
    as_last: tuple[Opener, ...] = (),
) -> Opener:
    """A marker after which `make` reads. consume: false where it is part of a call."""
    return Opener(marker=marker, body=make, where=where, consume=consume, special=special, as_last=as_last)


def shared(
    marker: str,
    make: Make,
    follow: str,
    *,
    close: str = "",
    undecided: str = "",
    where: Where = Where.ANYWHERE,
    consume: bool = True,
    as_last: tuple[Opener, ...] = (),
) -> SharedOpener:
    """A marker that other families have too. See SharedOpener.

    close: the marker after calls in JSON, which are read where no other family is known.
    """
    json = [(r"\{", json_calls(close=(close,)))] if close else []
    alone = fork(*json, ("", make), again=marker) if consume else make
    return SharedOpener(
        marker=marker,
        body=alone,
        where=where,
        consume=consume,
        make=make,
        follow=follow,
        undecided=undecided,
        as_last=as_last,
    )


def json_calls(**syntax: object) -> Make:
    """A reader of JSON call objects; `syntax` is JsonCallSyntax's."""
    made = JsonCallSyntax(**syntax)  # type: ignore[arg-type]
    return lambda c: read_json(c, made)


def pythonic_calls(**syntax: object) -> Make:
    """A reader of calls in Python; `syntax` is PythonicSyntax's."""
    made = PythonicSyntax(**syntax)  # type: ignore[arg-type]
    return lambda c: read_python(c, made)


def ignored(marker: str) -> Opener:
    """A marker that is neither part of a call nor text."""
    return Opener(marker=marker, body=read_nothing)


def bare_call(*parts: str) -> Opener:
    """An object that begins with `parts`, in either kind of quotes, where calls need no marker."""
    atoms = [re.escape(part).replace('"', "[\"']") for part in ("{", *parts)]
    return Opener(
        pattern=r"[ \t\r\n]{0,32}".join(atoms),
        partial=beginnings("{", *parts).replace('"', "[\"']"),
        consume=False,
        body=lambda c: read_json(c, JsonCallSyntax(bare=True)),
        not_behind=('":', "=", "(", "[", ",", ">"),  # a part of other data, or of a session
    )


def fork(*branches: tuple[str, Make], undecided: str = "", again: str = "") -> Make:
    """The reader of the first of `branches` that fits what follows; `undecided`: what may still become one of them.
    again: see `read_fork`.
    """
    compiled: tuple[Branch, ...] = tuple((re.compile(pattern), make) for pattern, make in branches)
    waits = re.compile(f"{undecided}|{beginnings(again)}" if again else undecided)
    return lambda c: read_fork(c, compiled, waits, again)


# -- reading back ------------------------------------------------------------------------------------------------------
# Readers tolerate what models get wrong: a correct text that looks like a mistake may be read as one.

MAX_READ_BACK = 1 << 16
"""Characters: longer calls are not tried (reading costs about a microsecond a character)."""

_RAW = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KINDS = {"{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null", '"': "string"}


@dataclass(frozen=True, slots=True)
class Rendered:
    """A turn as a template renders it, and the calls that it was rendered from."""

    text: str
    calls: tuple[ToolCall, ...]
    content: str = ""


def comes_back(text: str, call: ToolCall, openers: tuple[Opener, ...]) -> bool:
    """Whether a parser with `openers`, and a schema that types the arguments, reads exactly `call` from `text`.

    It also knows the JSON that every family reads.

    The call's arguments are a JSON object. False for a text over `MAX_READ_BACK`.
    """
    if len(text) > MAX_READ_BACK:
        return False
    return _read((*openers, *reading.ANY_JSON), [call], [text]) == ([_meant(call)], "", False)


def reads(openers: tuple[Opener, ...], turn: Rendered) -> bool:
    """Whether a parser with `openers` reads the turn's calls and content, given whole and character by character."""
    for pieces in ([turn.text], turn.text):
        calls, text, _ = _read(openers, turn.calls, pieces)
        if calls != list(map(_meant, turn.calls)) or text.strip() != turn.content.strip():
            return False
    return True


def _meant(call: ToolCall) -> tuple[str, object]:
    return call.name, msgspec.json.decode(call.arguments.strip() or "{}")


def _read(
    openers: tuple[Opener, ...], calls: Sequence[ToolCall], pieces: Iterable[str]
) -> tuple[list[tuple[str, object]], str, bool]:
    """The calls and the text that a parser reads from the pieces, and whether there is anything else.

    Its tools are those of `calls`: their schemas have the types of these arguments, for readers go by the schema.
    """
    types: dict[str, dict[str, dict[str, str]]] = {call.name: {} for call in calls}
    for call in calls:
        for key, raw in _RAW.decode(call.arguments.strip() or "{}").items():
            types[call.name][key] = {"type": _KINDS.get(chr(bytes(raw)[0]), "number")}
    tools = ToolSet.of([Tool(name, "", {"type": "object", "properties": known}) for name, known in types.items()])
    parser = reading.scanner(openers, tools, ParserOptions())
    found: list[tuple[str, object]] = []
    text = name = arguments = ""
    others = False
    for event in (*(event for piece in pieces for event in parser.feed(piece)), *parser.finish()):
        match event:
            case CallStart():
                name, arguments = event.name, ""
            case CallArgs():
                arguments += event.text
            case CallEnd(complete=True):
                found.append((name, msgspec.json.decode(arguments)))
            case Text():
                text += event.text
            case _:
                others = True
    return found, text, others
