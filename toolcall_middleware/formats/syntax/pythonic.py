"""Calls written as Python: `[lookup(city="Paris", days=2), clock()]`.

Strings are written with escapes, numbers as they are spelled, other values as Python has them (Olmo: as JSON has them).
What is no identifier can be neither a name nor an argument's; and since a reader that forgives unescaped quotes may
take a right one for one, no key of a dict holds quotes, and lists and dicts are read back. A turn with a call that
cannot be written, or does not come back, is written in JSON.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ...model import ToolCall
from ...parsing.calls.literal_calls import PythonicSyntax, read_python
from ...parsing.cursor import Cursor, Steps
from ...parsing.patterns import PYTHON_NAME
from ...parsing.text.grammar import Opener
from .round_trip import comes_back
from .shape import Shape, WriteCalls

_NAME = re.compile(PYTHON_NAME)
_KEY = re.compile(r"[A-Za-z_]\w{0,255}")
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

    open: str = "["
    """Before all calls of a turn; its bracket opens a list."""
    close: str = "]"
    """After them."""
    between: str = ", "
    """Between two calls."""
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

    def writer(self, *openers: Opener) -> WriteCalls:
        """Writes the calls of a turn. openers: those that read them back."""

        def write(calls: Sequence[ToolCall]) -> str | None:
            written = [self.written(call, openers) for call in calls]
            found = [text for text in written if text is not None]
            return self.open + self.between.join(found) + self.close if len(found) == len(calls) else None

        return write

    @property
    def answer(self) -> str:
        """What an answer that calls consists of, in words."""
        what = "list of calls" if self.syntax.brackets else "call"
        return f"the {what} {self.around}" if self.marker else "the function call in that format"

    def written(self, call: ToolCall, openers: tuple[Opener, ...]) -> str | None:
        """One call; None where Python has no way to write it."""
        if not _NAME.fullmatch(call.name):
            return None
        try:
            arguments = _decode(call.arguments.strip() or "{}")
            if not isinstance(arguments, dict) or not all(map(_KEY.fullmatch, arguments)):
                return None
            values = [f"{key}={self.value(value)}" for key, value in arguments.items()]
            text = f"{call.name}({', '.join(values)})"
            text.encode()  # half a surrogate pair, which JSON can escape and Python text cannot hold
        except (ValueError, RecursionError):
            return None
        if not any(isinstance(value, list | dict) for value in arguments.values()):
            return text
        return text if comes_back(f"{self.open}{text}{self.close}", call, openers) else None

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
            raise ValueError("a key of a dict that looks like more than one string")
        return f"{{{', '.join(f'{double(key)}: {self.value(item, double)}' for key, item in value.items())}}}"
