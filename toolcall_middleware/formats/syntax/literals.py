"""Calls whose arguments are written value by value, in a notation that is not JSON.

`Python`: `[lookup(city="Paris", days=2), clock()]`. Strings are written with escapes, numbers as they are spelled,
other values as Python has them (Olmo: as JSON has them). What is no identifier can be neither a name nor an argument's.
A reader that tolerates unescaped quotes may misread correct ones, so no key of a dict holds quotes.

`Gemma`: `<|tool_call>call:lookup{city:<|"|>Paris<|"|>,days:2}<tool_call|>`. Strings are between two equal marks,
without escapes; one that holds the mark is written as in JSON. FunctionGemma has other marks.

`Elements`, every tag after one mark; objects are elements, lists are elements named `item`, null cannot be written:

    ]<]minimax[>[<tool_call>
    ]<]minimax[>[<invoke name="lookup">]<]minimax[>[<city>Paris]<]minimax[>[</city>]<]minimax[>[</invoke>
    ]<]minimax[>[</tool_call>

A call that a reader may misread is read back. A turn with a call that cannot be written, or is not read back exactly,
is written in JSON.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from ...model import Tool, ToolCall, ToolResult
from ...parsing.calls.literal_calls import PythonicSyntax, read_gemma, read_python
from ...parsing.calls.nested_calls import read_nested
from ...parsing.cursor import Cursor, Make, Steps
from ...parsing.patterns import PYTHON_NAME
from ...parsing.text.grammar import Opener, Where
from ...parsing.values.literal_reader import Notation
from ..prompt import escaping
from ..prompt.tool_results import Write, each, said
from .shape import CannotWrite, Shape, in_words

_PYTHON_NAME = re.compile(PYTHON_NAME)
_IDENTIFIER = re.compile(r"[A-Za-z_]\w{0,255}")
_DICT_KEY = re.compile(r"[^\"'\\]{0,200}")
_PYTHON_WORDS: dict[bool | None, str] = {True: "True", False: "False", None: "None"}
_JSON_WORDS: dict[bool | None, str] = {True: "true", False: "false", None: "null"}


class _Number(str):
    """A number as it is spelled."""

    __slots__ = ()


def _refuse(word: str) -> Any:
    raise ValueError(f"{word} is no JSON")


_decode = json.JSONDecoder(parse_int=_Number, parse_float=_Number, parse_constant=_refuse).decode


def double(text: str) -> str:
    """`text` between double quotes."""
    return json.dumps(text, ensure_ascii=False)


def single(text: str) -> str:
    """`text` between single quotes."""
    return "'" + double(text)[1:-1].replace('\\"', '"').replace("'", "\\'") + "'"


@dataclass(frozen=True, kw_only=True)
class Python(Shape):
    """How a family writes calls."""

    open: str = "["  # its bracket opens a list
    close: str = "]"
    between: str = ", "
    json_words: bool = False
    """Values that are words are JSON's (`true`), not Python's (`True`)."""
    quote: Callable[[str], str] = double
    """Writes a string."""
    echoed: bool = False
    """See `PythonicSyntax`."""

    @property
    def marker(self) -> str:
        """What opens the calls, without the list's bracket."""
        return self.open.strip().removesuffix("[").rstrip()

    @property
    def closers(self) -> tuple[str, ...]:
        """The closing marker, without the list's bracket."""
        return tuple(filter(None, (self.close.strip().removeprefix("]").lstrip(),)))

    @functools.cached_property
    def syntax(self) -> PythonicSyntax:
        """What the reader needs."""
        brackets = self.open.rstrip().endswith("[")
        return PythonicSyntax(brackets=brackets, bare=not self.marker, close=self.closers, echoed=self.echoed)

    def __call__(self, c: Cursor, /) -> Steps[None]:
        """The reader, after the opening marker."""
        return read_python(c, self.syntax)

    @property
    def answer(self) -> str:
        """What an answer that calls consists of, in words."""
        if not self.marker:
            return "the function call in that format"
        what = "list of calls" if self.syntax.brackets else "call"
        return f"the {what} {in_words(self.trigger, self.closers[-1])}"

    def written(self, call: ToolCall, _: int, /) -> tuple[str, bool]:
        """One call. A list or a dict in it may be read as something else."""
        arguments = _decode(call.arguments.strip() or "{}")
        if not _PYTHON_NAME.fullmatch(call.name) or not isinstance(arguments, dict):
            raise CannotWrite
        if not all(map(_IDENTIFIER.fullmatch, arguments)):
            raise CannotWrite
        text = f"{call.name}({', '.join(f'{key}={self.value(value)}' for key, value in arguments.items())})"
        text.encode()  # half a surrogate pair, which JSON can escape and Python text cannot hold
        return text, any(isinstance(value, list | dict) for value in arguments.values())

    def value(self, value: Any, quote: Callable[[str], str] | None = None) -> str:
        """A JSON value as Python. Raises ValueError where it cannot be."""
        match value:
            case _Number():
                return str(value)
            case str():
                return (quote or self.quote)(value)
            case bool() | None:
                return (_JSON_WORDS if self.json_words else _PYTHON_WORDS)[value]
            case list():
                return f"[{', '.join(self.value(item, double) for item in value)}]"
        if not all(map(_DICT_KEY.fullmatch, value)):
            raise CannotWrite  # a key that looks like more than one string
        return f"{{{', '.join(f'{double(key)}: {self.value(item, double)}' for key, item in value.items())}}}"


# -- Gemma -------------------------------------------------------------------------------------------------------------

_WORD = re.compile(r"[^\s{}<>\[\]\"'`,:]{1,256}")
_KEY = re.compile(r"[A-Za-z_][\w\-.]{0,255}")
_MAX_DEPTH = 64
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST = msgspec.json.Decoder(list[msgspec.Raw])


@dataclass(frozen=True, kw_only=True)
class Gemma(Shape):
    """How a family writes calls, definitions and results with one kind of marks."""

    mark: str
    """The mark on each side of a string."""
    open: str
    """Before each call."""
    close: str
    """After it."""
    inner: str = ""
    """What the mark means within a string."""

    @property
    def outer(self) -> tuple[str, str | None, str]:
        """What is written before all calls of a turn, between two and after them."""
        return self.open, self.close + self.open, self.close

    @property
    def marker(self) -> str:
        """What opens a call."""
        return self.open

    @property
    def closers(self) -> tuple[str, ...]:
        """What closes a call."""
        return (self.close,)

    @functools.cached_property
    def syntax(self) -> Notation:
        """What the reader needs. Inside lists and objects the models fall back to JSON's and Python's quotes."""
        quotes = (self.mark, '"', "'")
        return Notation(quotes=quotes, verbatim=frozenset(quotes[:1]), inner=self.inner, ends=self.closers)

    def __call__(self, c: Cursor, /) -> Steps[None]:
        """The reader, after the opening marker."""
        return read_gemma(c, self.syntax)

    def written(self, call: ToolCall, _: int, /) -> tuple[str, bool]:
        """One call. A string or a key that is written otherwise than others may be read as something else."""
        if not _WORD.fullmatch(call.name):
            raise CannotWrite
        arguments = self.value(call.arguments.encode().strip() or b"{}", must_be=b"{")
        odd = '"' in arguments.replace(self.mark, "") or f"{self.mark}:" in arguments
        return f"call:{call.name}{arguments}", odd

    def value(self, raw: bytes, *, must_be: bytes = b"", depth: int = 0) -> str:
        """A JSON value in the notation. Numbers stay as they are spelled."""
        first = raw[:1]
        if (must_be and first != must_be) or depth > _MAX_DEPTH:
            raise CannotWrite
        if first == b'"':
            return self.string(msgspec.json.decode(raw, type=str))
        if first == b"[":
            return f"[{','.join(self.value(bytes(item), depth=depth + 1) for item in _LIST.decode(raw))}]"
        if first == b"{":
            items = ((self.key(key), bytes(item)) for key, item in _OBJECT.decode(raw).items())
            return f"{{{','.join(f'{key}:{self.value(item, depth=depth + 1)}' for key, item in items)}}}"
        return raw.decode()

    def key(self, key: str) -> str:
        return key if _KEY.fullmatch(key) else self.string(key)

    def string(self, text: str) -> str:
        return escaping.dump_spaced(text) if self.mark in text else f"{self.mark}{text}{self.mark}"

    # -- the prompt ----------------------------------------------------------------------------------------------

    def declaration(self, tool: Tool) -> str:
        """`declaration:f{description:…,parameters:{…}}`. Its texts are neutralised: they have no escapes either."""
        described = escaping.describe(tool)
        parts = [f"description:{self.shown(described['description'])}"] if "description" in described else []
        parts.append(f"parameters:{self.schema(described['parameters'], 0)}")
        return f"declaration:{tool.name}{{{','.join(parts)}}}"

    def schema(self, schema: Any, depth: int) -> str:
        """A JSON Schema as the templates write it: sorted keys, types in capitals."""
        if not isinstance(schema, Mapping) or depth > _MAX_DEPTH:
            return self.shown(schema)
        entries = []
        for key in sorted(schema):
            value = schema[key]
            if key == "type":
                value = [str(one).upper() for one in value] if isinstance(value, list) else str(value).upper()
                written = self.shown(value)
            elif key in {"properties", "$defs", "definitions"} and isinstance(value, Mapping):
                inner = (f"{self.shown_key(name)}:{self.schema(part, depth + 2)}" for name, part in value.items())
                written = f"{{{','.join(inner)}}}"
            elif key in {"anyOf", "oneOf", "allOf", "prefixItems"} and isinstance(value, list):
                written = f"[{','.join(self.schema(part, depth + 2) for part in value)}]"
            elif isinstance(value, Mapping):
                written = self.schema(value, depth + 1)
            else:
                written = self.shown(value)
            entries.append(f"{self.shown_key(key)}:{written}")
        return f"{{{','.join(entries)}}}"

    def shown_key(self, key: str) -> str:
        return key if _KEY.fullmatch(key) and not escaping.has_markup(key) else self.shown(key)

    def shown(self, value: Any) -> str:
        """Any value for a prompt. One that cannot be written in the notation (too deep) becomes a string of JSON."""
        if isinstance(value, str):
            return f"{self.mark}{escaping.neutralise(value)}{self.mark}"
        if isinstance(value, list):
            return f"[{','.join(map(self.shown, value))}]" if len(value) < 1000 else self.shown(escaping.dump(value))
        if isinstance(value, Mapping):
            return self.shown(escaping.dump(value))
        return escaping.dump(value)

    def responses(self, opening: str, closing: str) -> Write:
        """Writes the results of a turn, each as `response:f{value:…}` between two markers."""

        def response(result: ToolResult) -> str:
            name = result.name if _WORD.fullmatch(result.name) else "unknown"
            return f"{opening}response:{name}{{value:{self.mark}{said(result)}{self.mark}}}{closing}"

        return each(response, between="")


_BARE_NAME = r"[A-Za-z_][\w.\-]{0,63}"


def bare_calls(make: Make) -> tuple[Opener, Opener]:
    """Calls without a marker, which a backend may have dropped or the model forgotten: one that begins the answer, and
    one that begins a line, of an offered tool.
    """
    at_start = Opener(
        pattern=rf"call:(?:{_BARE_NAME}:)?{_BARE_NAME}\{{",
        body=make,
        where=Where.START,
        consume=False,
    )
    on_line = Opener(
        pattern=rf"call:(?P<tool>{_BARE_NAME})\{{",
        body=make,
        where=Where.LINE,
        named=True,
        consume=False,
    )
    return at_start, on_line


# -- elements ----------------------------------------------------------------------------------------------------------

_ELEMENT_NAME = re.compile(r"[^\s<>{}\[\]\"'`]{1,256}")
_ELEMENT_KEY = re.compile(r"[^<>\s=/]{1,256}")
_MAX_NESTED = 24


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
    def structural_tag(self) -> tuple[str, str, str] | None:
        """What precedes a call's elements, what follows them, and their style."""
        if not self.style:
            return None
        before, _, after = self.outer
        return f'{before}{self.mark}<invoke name="{{name}}">', f"{self.mark}</invoke>{after}", self.style

    def __call__(self, c: Cursor, /) -> Steps[None]:
        """The reader, after the opening marker."""
        return read_nested(c, self.mark, self.wrapper)

    @property
    def outer(self) -> tuple[str, str | None, str]:
        """What is written before all calls of a turn, between two and after them."""
        return f"{self.marker}\n", "\n", f"\n{self.mark}</{self.wrapper}>"

    def written(self, call: ToolCall, _: int, /) -> tuple[str, bool]:
        """One call. What holds the mark or looks like a list may be read as something else."""
        if not _ELEMENT_NAME.fullmatch(call.name):
            raise CannotWrite
        arguments, mark = self.elements(_OBJECT.decode(call.arguments.strip() or "{}"), 0), self.mark
        plain = arguments.count(mark) == 2 * arguments.count(f"{mark}</") and "item" not in arguments
        return f'{mark}<invoke name="{call.name}">{arguments}{mark}</invoke>', not plain

    def elements(self, values: dict[str, msgspec.Raw], depth: int) -> str:
        """An object's members, each as an element. Raises ValueError as `element` does."""
        return "".join(self.element(key, bytes(raw), depth + 1) for key, raw in values.items())

    def element(self, name: str, raw: bytes, depth: int) -> str:
        """A JSON value as an element. Raises ValueError where the syntax has no way to write it."""
        if not _ELEMENT_KEY.fullmatch(name) or depth > _MAX_NESTED:
            raise CannotWrite
        match raw[:1]:
            case b"{":
                inner = self.elements(_OBJECT.decode(raw), depth)
            case b"[":
                inner = "".join(self.element("item", bytes(item), depth + 1) for item in _LIST.decode(raw))
            case b'"':
                inner = msgspec.json.decode(raw, type=str)
            case b"n":
                raise CannotWrite
            case _:
                inner = raw.decode()
        return f"{self.mark}<{name}>{inner}{self.mark}</{name}>"
