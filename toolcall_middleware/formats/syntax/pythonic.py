"""Calls written as Python: `[lookup(city="Paris", days=2), clock()]`.

Strings are written with escapes, numbers as they are spelled, other values as Python has them (Olmo: as JSON has them).
What is no identifier can be neither a name nor an argument's; and since a reader that forgives unescaped quotes may
take a right one for one, no key of a dict holds quotes, and lists and dicts are read back. A turn with a call that
cannot be written, or does not come back, is written in JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from typing import Any

from ...model import ToolCall
from ...parsing.patterns import PYTHON_NAME
from ...parsing.text.grammar import Opener
from .round_trip import comes_back

_NAME = re.compile(PYTHON_NAME)
_KEY = re.compile(r"[A-Za-z_]\w{0,255}")
_DICT_KEY = re.compile(r"[^\"'\\]{0,200}")
PYTHON_WORDS = {True: "True", False: "False", None: "None"}
JSON_WORDS = {True: "true", False: "false", None: "null"}


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


class PythonicWriter:
    """Writes the calls of one turn, or None. `openers` are those of the family's parser."""

    def __init__(
        self,
        opening: str,
        closing: str,
        openers: tuple[Opener, ...],
        *,
        between: str = ", ",
        words: dict[bool | None, str] = PYTHON_WORDS,
        quote: Callable[[str], str] = double,
    ) -> None:
        self.opening = opening
        self.closing = closing
        self.openers = openers
        self.between = between
        self.words = words
        self.quote = quote

    def __call__(self, calls: Sequence[ToolCall]) -> str | None:
        written = [self.call(call) for call in calls]
        found = [text for text in written if text is not None]
        return self.opening + self.between.join(found) + self.closing if len(found) == len(calls) else None

    def call(self, call: ToolCall) -> str | None:
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
        return text if comes_back(f"{self.opening}{text}{self.closing}", call, self.openers) else None

    def value(self, value: Any, quote: Callable[[str], str] | None = None) -> str:
        """A JSON value as Python. Raises ValueError where it cannot be."""
        match value:
            case _Number():
                return str(value)
            case str():
                return (quote or self.quote)(value)
            case bool() | None:
                return self.words[value]
            case list():
                return f"[{', '.join(self.value(item, double) for item in value)}]"
        if not all(map(_DICT_KEY.fullmatch, value)):
            raise ValueError("a key of a dict that looks like more than one string")
        return f"{{{', '.join(f'{double(key)}: {self.value(item, double)}' for key, item in value.items())}}}"
