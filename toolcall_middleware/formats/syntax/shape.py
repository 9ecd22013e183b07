"""What a declaration of a family's calls gives: reader, writer, markers, constraint and wording; and what all formats
read: JSON calls without a marker, and the scanner with the markup of every family.

The shapes: `Json`, `Named` (a name, then JSON), `Slots` (tags), `Python`, `Gemma` and `Elements`.
"""

from __future__ import annotations

import functools
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import msgspec

from ...model import Tool, ToolCall, ToolSet
from ...parsing.calls.json_calls import JsonCallSyntax, read_json
from ...parsing.calls.literal_calls import PythonicSyntax, read_python
from ...parsing.calls.named_calls import NamedLayout, NamedTags, read_named
from ...parsing.cursor import Branch, Cursor, Make, Steps, read_fork, read_last_line, read_nothing
from ...parsing.events import CallArgs, CallEnd, CallStart, Text
from ...parsing.patterns import PYTHON_NAME, begun
from ...parsing.text.grammar import Grammar, Opener, Where
from ...parsing.text.scanner import Scanner
from ...tool_names import meant_by
from .. import markup
from ..base import ParserOptions, StreamParser
from ..prompt.escaping import arguments_json, dump

WriteCalls = Callable[[Sequence[ToolCall]], str | None]
"""The calls of one turn in the family's syntax; None where it has no way to write them."""

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
    def fallback(self) -> tuple[Opener, ...]:
        """Calls in JSON without a marker that are read too."""
        return ANY_JSON

    @property
    def special_tokens(self) -> bool:
        """Whether the opening marker has the shape of a special token."""
        return self.trigger.startswith(("<|", "<｜"))

    @property
    def answer(self) -> str:
        """What an answer that calls consists of, in words."""
        return f"the call {in_words(self.trigger, self.closers[-1])}"


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
    where: Where = Where.ANYWHERE,
    consume: bool = True,
    as_last: tuple[Opener, ...] = (),
) -> SharedOpener:
    """A marker that other families have too. See SharedOpener.

    close: the marker after calls in JSON, which are read where no other family is known.
    """
    json = [(r"\{", json_calls(close=(close,)))] if close else []
    alone = fork(*json, ("", make)) if consume else make
    return SharedOpener(
        marker=marker,
        body=alone,
        where=where,
        consume=consume,
        make=make,
        follow=follow,
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
        consume=False,
        body=lambda c: read_json(c, JsonCallSyntax(bare=True)),
        not_after=('":', "=", "(", "[", ",", ">"),  # a part of other data, or of a session
    )


def fork(*branches: tuple[str, Make]) -> Make:
    """The reader of the first of `branches` that fits what follows."""
    compiled: tuple[Branch, ...] = tuple((re.compile(pattern), make) for pattern, make in branches)
    undecided = re.compile("|".join(begun(pattern) for pattern, _ in branches))
    return lambda c: read_fork(c, compiled, undecided)


# -- calls without a marker --------------------------------------------------------------------------------------------
# JSON, alone, in a list or in an assistant's message, which every format reads.

_BARE = JsonCallSyntax(bare=True, wrappers=frozenset({"tool_calls", "function_call"}))
_ALONE = replace(_BARE, no_other_keys=True)
_MESSAGE = replace(_BARE, message=True)
_WRAPPED = JsonCallSyntax(bare=True, wrapper_only=True, message=True)

_WS = r"[ \t\r\n]{0,32}"
_KEY = "|".join(sorted({*_BARE.names, *_BARE.arguments, *_BARE.ids, "type", "function_call"}))
_OBJECT = rf"\{{{_WS}\"(?:{_KEY})\"[ \t]{{0,32}}:"


def _last_lines(make: Make, pattern: str) -> Opener:
    """Calls that follow other text, with nothing else on their lines and nothing after them."""
    return Opener(
        pattern=pattern,
        where=Where.LINE,
        consume=False,
        body=lambda c: read_last_line(c, make, (*markup.gathered().ends, *markup.gathered().closers)),
    )


def _alone(c: Cursor) -> Steps[None]:
    return read_json(c, _ALONE)


def _bare(c: Cursor) -> Steps[None]:
    return read_json(c, _BARE)


LAST_LINE = _last_lines(_alone, _OBJECT)
"""A call in JSON."""
LAST_LIST = _last_lines(_alone, rf"\[{_WS}{_OBJECT}")
"""A list of them."""
LAST_LINE_LIST = _last_lines(_alone, rf"\[[ \t]{{0,32}}{_OBJECT}")
"""A list of them, the first on the bracket's own line: what a program prints over many lines is data."""
LAST_PYTHON = _last_lines(pythonic_calls(bare=True), rf"\[{_WS}{PYTHON_NAME}[ \t]{{0,32}}\(")
"""Python's list of calls."""

# A call that is the whole answer, without any marker: what small models write under every prompt.
BARE_OBJECT = opener("{", _bare, where=Where.START, consume=False, as_last=(LAST_LINE,))
_BARE_LIST = opener("[", _bare, where=Where.START, consume=False, as_last=(LAST_LIST,))
# `[TOOL_CALL] {"tool": "f", "args": {…}} [/TOOL_CALL]`: models that lost their own syntax (quantized MiniMax M2).
_LABELLED_JSON = opener("[TOOL_CALL]", json_calls(close=("[/TOOL_CALL]",)))
# `[Calling tool: f({…})]`: how some agents show calls in the conversation, which models repeat.
_SHOWN = NamedTags(
    call="[Calling tool: {name}{arguments})]", alone=True, identify=lambda name, _: (name.removesuffix("("), None)
)
_SHOWN_CALL = opener("[Calling tool:", lambda c: read_named(c, NamedLayout(_SHOWN)))
BARE_JSON: tuple[Opener, ...] = (BARE_OBJECT, _BARE_LIST, _LABELLED_JSON, _SHOWN_CALL)


def _list_opener(*beginning: tuple[str, ...], fences: Iterable[str] = ()) -> Opener:
    """Calls in a list under its key. beginning: the ways in which the object may begin, up to the key's colon."""
    return Opener(
        pattern="|".join(_WS.join(map(re.escape, parts)) for parts in beginning).replace('"', "[\"']"),
        consume=False,
        body=lambda c: read_json(c, _MESSAGE if c.at_start else _WRAPPED),
        fences=frozenset(fences),
        not_after=('":', "=", "(", "["),  # a message within a JSON document, or code
    )


# `{"tool_calls":`, alone, between text, or first in a block marked as JSON.
_WRAPPED_JSON = _list_opener(("{", '"tool_calls"', ":"), fences=("json", "tool_call", "tool_calls"))

# The same as an assistant's message that says nothing. In a block, that is an example of one.
_BY_ASSISTANT = ('"role"', ":", '"assistant"', ",")
_NOTHING_SAID = (('"content"', ":", "null", ","), ('"content"', ":", '""', ","))
_BEFORE_LIST = (_BY_ASSISTANT, *_NOTHING_SAID, *((*_BY_ASSISTANT, *content) for content in _NOTHING_SAID))
_MESSAGE_JSON = _list_opener(*(("{", *before, '"tool_calls"', ":") for before in _BEFORE_LIST))
LISTED_JSON: tuple[Opener, ...] = (_WRAPPED_JSON, _MESSAGE_JSON)

# What every format reads besides its own syntax: the block for calls that its syntax cannot write, and a
# call in JSON that is the whole answer.
ANY_JSON: tuple[Opener, ...] = (*LISTED_JSON, *BARE_JSON)


# -- the scanner -------------------------------------------------------------------------------------------------------


def scanner(openers: tuple[Opener, ...], tools: ToolSet | None, options: ParserOptions) -> StreamParser:
    """A parser that recognises `openers` and every family's markup. Without `tools` any name can be called."""
    if options.in_thought or options.parse_reasoning:
        openers = _with_last_lines(openers)
    known = markup.gathered()
    by_name: Mapping[str, Tool] = {} if tools is None else tools.by_name
    meant = functools.partial(_offered_name, by_name) if tools is not None and options.repair_names else None

    def offered(name: str) -> bool:
        return (name if meant is None else meant(name)) in by_name

    def schema(name: str) -> Mapping[str, Any] | None:
        tool = by_name.get(name if meant is None else meant(name))
        return None if tool is None else tool.parameters

    return Scanner(
        Grammar(openers, known.reasoning, known.stops, known.noise, known.ends, known.closers),
        bool if tools is None else offered,
        schema,
        options,
        meant=meant,
        names=by_name,
    )


@functools.lru_cache(maxsize=128)
def _with_last_lines(openers: tuple[Opener, ...]) -> tuple[Opener, ...]:
    """`openers`, followed by their `as_last` openers, which count only in thoughts."""
    last = dict.fromkeys(opener for first in openers for opener in first.as_last)
    return (*openers, *(replace(opener, in_thought=True) for opener in last if opener not in openers))


def _offered_name(names: Mapping[str, Tool], written: str) -> str:
    return written if written in names else meant_by(written, names) or written


# -- reading back ------------------------------------------------------------------------------------------------------
# Readers tolerate what models get wrong: a correct text that looks like a mistake may be read as one.

MAX_READ_BACK = 1 << 16
"""Characters: longer calls are not tried (reading costs about a microsecond a character)."""

_RAW = msgspec.json.Decoder(dict[str, msgspec.Raw])
_KINDS = {"{": "object", "[": "array", "t": "boolean", "f": "boolean", "n": "null", '"': "string"}


def type_of(raw: bytes) -> str:
    """JSON's name of a value's type."""
    return _KINDS.get(chr(raw[0]), "number")


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
    return _read((*openers, *ANY_JSON), [call], [text]) == ([_meant(call)], "", False)


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
            types[call.name][key] = {"type": type_of(bytes(raw))}
    tools = ToolSet.of([Tool(name, "", {"type": "object", "properties": known}) for name, known in types.items()])
    parser = scanner(openers, tools, ParserOptions())
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
