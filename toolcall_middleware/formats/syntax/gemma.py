"""Calls written in Gemma's own notation: `<|tool_call>call:lookup{city:<|"|>Paris<|"|>,days:2}<tool_call|>`.

Strings stand between two equal markers, without escapes; one that holds the marker stands there as in JSON. What looks
odd is read back, and a turn with a call that does not come back is written in JSON. FunctionGemma has other markers.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from ...model import Tool, ToolCall, ToolResult
from ...parsing.calls.literal_calls import GemmaSyntax, read_gemma
from ...parsing.cursor import Cursor, Make, Steps
from ...parsing.text.grammar import Opener, Where
from ..prompt import escaping
from ..prompt.tool_results import said
from .round_trip import comes_back
from .shape import Shape, WriteCalls

_NAME = re.compile(r"[^\s{}<>\[\]\"'`,:]{1,256}")
_KEY = re.compile(r"[A-Za-z_][\w\-.]{0,255}")
_MAX_DEPTH = 64
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_LIST = msgspec.json.Decoder(list[msgspec.Raw])


class _CannotWrite(ValueError):
    """The notation has no way to write it."""


@dataclass(frozen=True, kw_only=True)
class Gemma(Shape):
    """How a family writes calls, definitions and results with one kind of marks."""

    mark: str
    """What strings stand between."""
    open: str
    """Before each call."""
    close: str
    """After it."""
    inner: str = ""
    """What the mark means within a string."""

    @property
    def marker(self) -> str:
        """What opens a call."""
        return self.open

    @property
    def closers(self) -> tuple[str, ...]:
        """What closes a call."""
        return (self.close,)

    @functools.cached_property
    def syntax(self) -> GemmaSyntax:
        """What the reader needs."""
        return GemmaSyntax(self.close, self.mark, inner=self.inner)

    def __call__(self, c: Cursor, /) -> Steps[None]:
        """The reader, after the opening marker."""
        return read_gemma(c, self.syntax)

    def writer(self, *openers: Opener) -> WriteCalls:
        """Writes the calls of a turn. openers: those that read them back."""

        def write(calls: Sequence[ToolCall]) -> str | None:
            try:
                return "".join(self.call(call, openers) for call in calls)
            except (_CannotWrite, msgspec.DecodeError, RecursionError):
                return None

        return write

    def call(self, call: ToolCall, openers: tuple[Opener, ...]) -> str:
        """One call."""
        if not _NAME.fullmatch(call.name):
            raise _CannotWrite
        arguments = self.value(call.arguments.encode().strip() or b"{}", must_be=b"{")
        text = f"{self.open}call:{call.name}{arguments}{self.close}"
        if '"' in arguments.replace(self.mark, "") or f"{self.mark}:" in arguments:  # other strings, or odd keys
            if not comes_back(text, call, openers):
                raise _CannotWrite
        return text

    def value(self, raw: bytes, *, must_be: bytes = b"", depth: int = 0) -> str:
        """A JSON value in the notation. Numbers stay as they are spelled."""
        first = raw[:1]
        if (must_be and first != must_be) or depth > _MAX_DEPTH:
            raise _CannotWrite
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
        """Any value for a prompt; what cannot be written in the notation (too deep) stands as JSON in a string."""
        if isinstance(value, str):
            return f"{self.mark}{escaping.neutralise(value)}{self.mark}"
        if isinstance(value, list):
            return f"[{','.join(map(self.shown, value))}]" if len(value) < 1000 else self.shown(escaping.dump(value))
        if isinstance(value, Mapping):
            return self.shown(escaping.dump(value))
        return escaping.dump(value)

    def response(self, result: ToolResult) -> str:
        """`response:f{value:…}`."""
        name = result.name if _NAME.fullmatch(result.name) else "unknown"
        return f"response:{name}{{value:{self.mark}{said(result)}{self.mark}}}"


def responses(calls: Gemma, opening: str, closing: str) -> Callable[[Sequence[ToolResult]], str]:
    """Writes the results of a turn, each between two markers."""

    def write(results: Sequence[ToolResult]) -> str:
        if not results:
            return ""
        blocks = "".join(f"{opening}{calls.response(result)}{closing}" for result in results)
        return escaping.with_note([blocks], results)

    return write


_BARE_NAME = r"[A-Za-z_][\w.\-]{0,63}"


def bare_calls(make: Make) -> tuple[Opener, Opener]:
    """Calls without a marker, which a backend may have dropped or the model forgotten: one that begins the answer, and
    one that begins a line, of an offered tool.
    """
    at_start = Opener(
        pattern=rf"call:(?:{_BARE_NAME}:)?{_BARE_NAME}\{{",
        partial=rf"c(?:a(?:l(?:l(?::(?:{_BARE_NAME}(?::(?:{_BARE_NAME})?)?)?)?)?)?)?",
        body=make,
        where=Where.START,
        consume=False,
    )
    on_line = Opener(
        pattern=rf"call:(?P<tool>{_BARE_NAME})\{{",
        partial=rf"c(?:a(?:l(?:l(?::(?P<tool>(?:{_BARE_NAME})?))?)?)?)?",
        body=make,
        where=Where.LINE,
        named=True,
        consume=False,
    )
    return at_start, on_line
