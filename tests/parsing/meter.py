"""Counts work instead of time: characters copied or searched, by text that counts and patterns that count."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, SupportsIndex

import pytest

from toolcall_middleware import parsing
from toolcall_middleware.parsing.patterns import half_of
from toolcall_middleware.parsing.text import scanner
from toolcall_middleware.parsing.text.grammar import Grammar, compile_grammar

from .streams import Reader

# Every module that reads a model's text. `patterns` makes patterns, once.
PARSING = [
    module.name
    for module in pkgutil.walk_packages(parsing.__path__, f"{parsing.__name__}.")
    if not module.ispkg and not module.name.endswith(".patterns")
]


class Meter:
    """One measurement. `cost` is in characters touched, and one a call."""

    def __init__(self) -> None:
        self.cost = 0

    def text(self, value: str) -> str:
        """`value` as a string whose slices, sums and searches are counted; what is cut from it counts too."""
        counted = _Counted(value)
        counted.meter = self
        return counted

    def watch(self, patch: pytest.MonkeyPatch, *modules: str) -> None:
        """Count what the module-wide patterns of these modules go through."""
        for module in modules:
            loaded = importlib.import_module(module)
            for name, value in vars(loaded).copy().items():
                if isinstance(value, re.Pattern):
                    patch.setattr(loaded, name, CountedPattern(value, self))
                elif value is half_of:
                    patch.setattr(loaded, name, self._half_of)

    def _half_of(self, whole: Any) -> Any:
        return CountedPattern(half_of(re.compile(whole.pattern)), self)

    def watch_all(self, patch: pytest.MonkeyPatch) -> None:
        """Count what all readers and the patterns of their grammars go through."""

        def counted(grammar: Grammar) -> Any:
            compiled = compile_grammar(grammar)
            names = ("first", "first_at_start")
            patterns: dict[str, Any] = {name: CountedPattern(getattr(compiled, name), self) for name in names}
            for name in ("anywhere", "at_start", "on_line", "fenced"):
                markers = getattr(compiled, name)
                whole = {char: CountedPattern(one, self) for char, one in markers.whole.items()}
                partial = {
                    char: tuple((CountedPattern(one, self), named) for one, named in some)
                    for char, some in markers.partial.items()
                }
                patterns[name] = replace(markers, whole=whole, partial=partial)
            return replace(compiled, **patterns)

        self.watch(patch, *PARSING)
        patch.setattr(scanner, "compile_grammar", counted)
        patch.setattr(scanner, "_MAX_SPAN", 100)  # a constant that hides growth in small texts


class CountedPattern:
    """A pattern whose matches and searches are counted."""

    def __init__(self, pattern: re.Pattern[str], meter: Meter) -> None:
        self.pattern = pattern.pattern
        self._pattern = pattern
        self._meter = meter

    def match(self, text: str, pos: int = 0, endpos: int = 2**62) -> re.Match[str] | None:
        found = self._pattern.match(text, pos, endpos)
        self._meter.cost += 1 + (found.end() - pos if found is not None else 0)
        return found

    def fullmatch(self, text: str, pos: int = 0) -> re.Match[str] | None:
        self._meter.cost += 1 + len(text) - pos
        return self._pattern.fullmatch(text, pos)

    def sub(self, made: Callable[[re.Match[str]], str] | str, text: str) -> str:
        self._meter.cost += 1 + len(text)
        return self._pattern.sub(made, text)

    def findall(self, text: str) -> list[str]:
        self._meter.cost += 1 + len(text)
        return self._pattern.findall(text)

    def search(self, text: str, pos: int = 0, endpos: int = 2**62) -> re.Match[str] | None:
        found = self._pattern.search(text, pos, endpos)
        self._meter.cost += 1 + (found.end() if found is not None else min(len(text), endpos)) - pos
        return found


def work(make: Callable[[], Reader], text: str, step: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """What it costs a reader to read a text in pieces of `step` characters; 0: whole."""
    meter = Meter()
    with monkeypatch.context() as patch:
        meter.watch_all(patch)
        reader = make()
        for at in range(0, len(text), step or len(text)):
            reader.feed(meter.text(text[at : at + (step or len(text))]))
        reader.finish()
    return meter.cost


class _Counted(str):
    __slots__ = ("meter",)
    meter: Meter

    def _new(self, value: str) -> str:
        self.meter.cost += 1 + len(value)
        return self.meter.text(value)

    def __getitem__(self, key: SupportsIndex | slice) -> str:
        if isinstance(key, slice):
            return self._new(super().__getitem__(key))
        self.meter.cost += 1
        return super().__getitem__(key)

    def __add__(self, other: str) -> str:
        return self._new(str.__add__(self, other))

    def __radd__(self, other: str) -> str:
        return self._new(str.__add__(other, self))

    def strip(self, chars: str | None = None, /) -> str:
        self.meter.cost += len(self)
        return self._new(super().strip(chars))

    def isprintable(self) -> bool:
        self.meter.cost += len(self)
        return super().isprintable()

    def __contains__(self, part: str) -> bool:  # type: ignore[override]
        self.meter.cost += 1 + len(self)
        return super().__contains__(part)

    def isspace(self) -> bool:
        self.meter.cost += len(self) - len(self.lstrip()) + 1
        return super().isspace()

    def find(self, sub: str, start: Any = 0, end: Any = None, /) -> int:
        at = super().find(sub, start, end)
        stop = len(self) if end is None else min(end, len(self))
        self.meter.cost += 1 + max(0, (at if at >= 0 else stop) - (start or 0))
        return at

    def __hash__(self) -> int:
        return super().__hash__()

    def __eq__(self, other: object) -> bool:
        return super().__eq__(other)
