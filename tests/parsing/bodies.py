"""How the tests of the readers of calls drive one: a scanner with nothing but this reader's openers."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pytest
from hypothesis import strategies as st

from toolcall_middleware.parsing.cursor import Make
from toolcall_middleware.parsing.events import CallArgs, CallEnd, CallStart, Event
from toolcall_middleware.parsing.sink import ReaderOptions
from toolcall_middleware.parsing.text.grammar import Grammar, Opener
from toolcall_middleware.parsing.text.scanner import Scanner

from .meter import work
from .streams import Call, calls_in, cut_at, read, text_in

Tools = Mapping[str, Mapping[str, Any]]

# Text that is no markup of any reader, but the beginnings of much.
ORDINARY = [" ", "\n", "\r\n", "x", "f", "g", "a", "s", "n", "5", "-1.5", "null", "true", "None", "'", '"', "\\", "\\n",
            ",", ":", "=", "{", "}", "[", "]", "(", ")", "<", ">", "</", "&", "`", "```", "é", "🎉", "\x00", " " * 70,
            '{"a": 1}', "[1, 'x']", "<b>", "<|"]  # fmt: skip


def opener(marker: str, make: Make, *, consume: bool = True) -> Opener:
    return Opener(marker=marker, body=make, consume=consume)


def scanner(
    openers: Sequence[Opener], tools: Tools | None = None, *, ends: Sequence[str] = (), **options: Any
) -> Scanner:
    """`tools`: the names that are offered, and their schemas; any name is offered without. ends: of turns."""
    offered = bool if tools is None else tools.__contains__
    return Scanner(Grammar(tuple(openers), ends=tuple(ends)), offered, (tools or {}).get, ReaderOptions(**options))


class Reader:
    """One reader: its openers, and the tools of its tests."""

    def __init__(self, openers: Sequence[Opener], tools: Tools | None = None, *, ends: Sequence[str] = ()) -> None:
        self.openers = openers
        self.tools = tools
        self.ends = ends

    def fresh(self, tools: Tools | None = None, **options: Any) -> Scanner:
        return scanner(self.openers, self.tools if tools is None else tools, ends=self.ends, **options)

    def events(
        self, pieces: Iterable[str], *, cut: bool = False, tools: Tools | None = None, **opts: Any
    ) -> list[Event]:
        return read(self.fresh(tools, **opts), pieces, cut=cut)

    def calls(self, text: str, **options: Any) -> list[tuple[str, Any]]:
        """(name, decoded arguments) of each call; the same whole and in single characters, or it fails."""
        whole = self.events([text], **options)
        assert self.events(text, **options) == whole
        return [(call.name, json.loads(call.arguments)) for call in calls_in(whole)]

    def call(self, text: str, **options: Any) -> Call:
        """The one call."""
        whole = self.events([text], **options)
        assert self.events(text, **options) == whole
        (call,) = calls_in(whole)
        return call

    def text(self, text: str, **options: Any) -> str:
        """What leaves as text."""
        whole = self.events([text], **options)
        assert self.events(text, **options) == whole
        return text_in(whole)

    def check_any(self, text: str, rng: random.Random, *, cut: bool) -> None:
        """However the text is cut, the same comes out; a complete call's arguments are JSON."""
        whole = self.events([text], cut=cut)
        for call in calls_in(whole):
            call.arguments.encode()
            if call.complete:
                json.loads(call.arguments)
        for pieces in (list(text), cut_at(text, sorted(rng.randint(0, len(text)) for _ in range(rng.randint(1, 6))))):
            assert self.events(pieces, cut=cut) == whole, pieces

    def check_refused(self, text: str) -> None:
        """Where no name is offered, everything comes out, to the byte."""
        assert self.text(text, tools={"nobody": {}}) == text

    def check_linear(self, before: str, unit: str, monkeypatch: pytest.MonkeyPatch, *, step: int, size: int) -> None:
        """The work for a text of `size` times `unit` after `before`, in pieces of `step` (0: whole), is at most linear."""
        small, large = (
            work(self.fresh, before + unit * (length // len(unit)), step, monkeypatch) for length in (size, 2 * size)
        )
        assert large <= 2.2 * small

    def check_cut(self, text: str, begin: int, end: int) -> None:
        """The call in `text` that is cut anywhere in `text[begin:end]` is a prefix of the whole call's arguments."""
        whole = self.call(text).arguments
        for at in range(begin, end):
            cut = self.call(text[:at], cut=True)
            assert not cut.complete
            assert whole.startswith(cut.arguments), at

    def delay(self, before: str, value: str, after: str) -> int:
        """How many characters of a value are held at most while it arrives one by one (the value needs no escapes)."""
        reader = self.fresh()
        out = "".join(_arguments(reader.feed(before)))
        start = len(out)
        worst = 0
        for count, char in enumerate(value, 1):
            out += "".join(_arguments(reader.feed(char)))
            worst = max(worst, count - (len(out) - start))
        out += "".join(_arguments(reader.feed(after) + reader.finish()))
        assert value in out
        return worst


def _arguments(events: Iterable[Event]) -> list[str]:
    assert not [event for event in events if isinstance(event, CallEnd) and not event.complete]
    return [event.text for event in events if isinstance(event, CallArgs)]


def started(events: Iterable[Event]) -> list[str]:
    return [event.name for event in events if isinstance(event, CallStart)]


def hostile(*markup: str) -> st.SearchStrategy[str]:
    """Texts of a family's markup in any order, with ordinary text between."""
    pieces = st.sampled_from(markup) | st.sampled_from(markup) | st.sampled_from(ORDINARY)
    return st.lists(pieces, max_size=25).map("".join)
