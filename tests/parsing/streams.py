"""How the tests of all readers cut a text into pieces, and what they compare: merged events."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from toolcall_middleware.parsing.events import CallArgs, CallEnd, CallStart, Event, Malformed, Reasoning, Stop, Text


class Reader(Protocol):
    """What is tested: a `StreamParser`."""

    def feed(self, text: str, /) -> list[Event]: ...
    def finish(self, *, cut: bool = False) -> list[Event]: ...


@dataclass(frozen=True, slots=True)
class Call:
    """A call as a client would put it together."""

    name: str
    arguments: str
    id: str | None = None
    complete: bool = True
    repaired: bool = False


def read(reader: Reader, pieces: Iterable[str], *, cut: bool = False) -> list[Event]:
    """All that a fresh reader says of a text in these pieces, merged."""
    events: list[Event] = []
    for piece in pieces:
        events += reader.feed(piece)
    events += reader.finish(cut=cut)
    return merged(events)


def merged(events: Iterable[Event]) -> list[Event]:
    """Neighbouring pieces of one kind made one: what must not depend on how the text was cut."""
    out: list[Event] = []
    for event in events:
        last = out[-1] if out else None
        match last, event:
            case Text(before), Text(text):
                out[-1] = Text(before + text)
            case CallArgs(before), CallArgs(text):
                out[-1] = CallArgs(before + text)
            case Reasoning(before), Reasoning(text) if (last.markup, last.channel) == (event.markup, event.channel):
                out[-1] = Reasoning(before + text, event.markup, event.channel)
            case _:
                out.append(event)
    return out


def calls_in(events: Iterable[Event]) -> list[Call]:
    """The calls; asserts that starts, pieces and ends stand in their order."""
    calls: list[Call] = []
    start: CallStart | None = None
    pieces: list[str] = []
    for event in events:
        match event:
            case CallStart():
                assert start is None, "a call began inside another"
                start, pieces = event, []
            case CallArgs(text):
                assert start is not None, "arguments without a call"
                assert text, "an empty piece of arguments"
                pieces.append(text)
            case CallEnd():
                assert start is not None, "an end without a call"
                calls.append(Call(start.name, "".join(pieces), start.id, event.complete, event.repaired))
                start = None
            case Text() | Reasoning() | Malformed() | Stop():
                assert start is None, f"{event} inside a call"
    assert start is None, "a call has no end"
    return calls


def text_in(events: Iterable[Event]) -> str:
    """The text outside of calls and reasoning."""
    return "".join(event.text for event in events if isinstance(event, Text))


def shown_in(events: Iterable[Event]) -> str:
    """The text outside of calls, reasoning and its tags included: what the model wrote."""
    return "".join(event.text for event in events if isinstance(event, (Text, Reasoning)))


def thought_in(events: Iterable[Event]) -> str:
    """What stands between the tags of reasoning."""
    return "".join(event.text for event in events if isinstance(event, Reasoning) and not event.markup)


def alike(make: Callable[[], Reader], text: str, *, cut: bool = False) -> list[Event]:
    """What a fresh reader says of a text; the same in one piece, in characters, cut once anywhere and at random."""
    whole = read(make(), [text], cut=cut)
    for pieces in (list(text), *one_cut(text), *random_cuts(text, 5)):
        assert read(make(), pieces, cut=cut) == whole, pieces
    return whole


def cut_at(text: str, cuts: Sequence[int]) -> list[str]:
    """`text` in pieces that end at `cuts` (ascending)."""
    return [text[a:b] for a, b in zip([0, *cuts], [*cuts, len(text)], strict=True)]


def one_cut(text: str) -> Iterator[list[str]]:
    """Every way to cut once."""
    for at in range(1, len(text)):
        yield [text[:at], text[at:]]


def two_cuts(text: str, most: int, seed: int = 0) -> Iterator[list[str]]:
    """Every way to cut twice, or `most` of them at random where there are more."""
    places = range(1, len(text))
    if len(places) * (len(places) - 1) // 2 <= most:
        for pair in itertools.combinations(places, 2):
            yield cut_at(text, pair)
        return
    rng = random.Random(f"{seed}{text}")
    for _ in range(most):
        yield cut_at(text, sorted(rng.sample(places, 2)))


def random_cuts(text: str, times: int, seed: int = 0) -> Iterator[list[str]]:
    """Seeded random pieces: now few and long, now many and short."""
    rng = random.Random(f"{seed}{text}".encode(errors="surrogatepass"))
    for _ in range(times):
        count = rng.randint(0, max(1, len(text) // rng.choice((2, 4, 16))))
        cuts = sorted(rng.randint(0, len(text)) for _ in range(count))
        yield cut_at(text, cuts)
