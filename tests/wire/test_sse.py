"""The reader of event streams: any cut gives the same events, and no byte is lost."""

from __future__ import annotations

import asyncio
import itertools
import random
import re
import time
from collections.abc import Iterable

import pytest

from tests.helpers.loop_watch import standstill
from toolcall_middleware.wire.sse import DONE, EventReader, ServerEvent, TooLargeError

Said = list[tuple[str, bytes]]

PLAIN = b'data: {"a": 1}\n\ndata: {"b": 2}\n\ndata: [DONE]\n\n'
STREAMS = {
    "lf": PLAIN,
    "crlf": PLAIN.replace(b"\n", b"\r\n"),
    "cr": PLAIN.replace(b"\n", b"\r"),
    "mixed": b"data: a\r\n\ndata: b\n\r\ndata: c\r\r\ndata: d\r\n\rdata: e\n\n",
    "comments": b": ping\n\n:\n\ndata: a\n: inside\n\n: ping\r\n\r\ndata: b\n\n",
    "names": b"event: message\nid: 7\nretry: 3\ndata: a\n\nevent:error\ndata: b\n\n",
    "several lines": b"data: a\ndata: b\ndata:\ndata\ndata: c\n\n",
    "no space": b"data:a\n\ndata:  b\n\ndata:\tc\n\n",
    "bom": b"\xef\xbb\xbfdata: a\n\ndata: b\n\n",
    "bom and comment": b"\xef\xbb\xbf: x\n\ndata: \xef\xbb\xbfb\n\n",
    "unicode line ends": "data: a\u2028b\u2029c\x85d\x0be\x0cf\n\ndata: ü\N{GRINNING FACE}\n\n".encode(),
    "blank lines": b"\n\n\ndata: a\n\n\n\r\n\r\n\rdata: b\n\n\n",
    "no last blank line": b"data: a\n\ndata: b\n",
    "no last line end": b"data: a\n\ndata: b",
    "no last line end, crlf": b"data: a\r\n\r\ndata: b\r",
    "not only data": b"data : a\n\nfoo\n\ndatum: x\n\ndata: b\nfoo: c\n\n",
    "nothing": b"",
}
SAID: dict[str, Said] = {
    "mixed": [("", b"a"), ("", b"b"), ("", b"c"), ("", b"d"), ("", b"e")],
    "comments": [("", b"a"), ("", b"b")],
    "names": [("message", b"a"), ("error", b"b")],
    "several lines": [("", b"a b   c")],  # JSON, to which this is the same
    "no space": [("", b"a"), ("", b" b"), ("", b"\tc")],
    "bom": [("", b"a"), ("", b"b")],
    "bom and comment": [("", b"\xef\xbb\xbfb")],
    "unicode line ends": [
        ("", "a\u2028b\u2029c\x85d\x0be\x0cf".encode()),
        ("", "ü\N{GRINNING FACE}".encode()),
    ],
    "not only data": [("", b"b")],
    "nothing": [],
}


def read(pieces: Iterable[bytes], limit: int | None = None) -> list[ServerEvent]:
    reader = EventReader(limit)
    return [event for piece in pieces for event in reader.feed(piece)] + reader.finish()


def said(events: Iterable[ServerEvent]) -> Said:
    return [(event.name, event.data) for event in events if event.data is not None]


@pytest.mark.parametrize("name", STREAMS)
def test_every_cut_gives_the_same_events_and_keeps_every_byte(name: str) -> None:
    stream = STREAMS[name]
    due = said(read([stream]))
    if name in SAID:
        assert due == SAID[name]
    rng = random.Random(name)
    cuts = [[a] for a in range(len(stream) + 1)]
    cuts += [[a, b] for a in range(len(stream) + 1) for b in range(a, len(stream) + 1)]
    cuts += [sorted(rng.choices(range(len(stream) + 1), k=6)) for _ in range(50)]
    cuts += [list(range(len(stream) + 1))]
    for places in cuts:
        ends = [0, *places, len(stream)]
        pieces = [stream[a:b] for a, b in itertools.pairwise(ends)]
        events = read(pieces)
        assert said(events) == due, pieces
        assert b"".join(event.raw for event in events) == stream, pieces


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_line_ends_say_nothing(end: bytes) -> None:
    stream = PLAIN.replace(b"\n", end)
    assert said(read([stream])) == [("", b'{"a": 1}'), ("", b'{"b": 2}'), ("", b"[DONE]")]


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_an_event_is_told_with_the_last_byte_that_it_needs(end: bytes) -> None:
    reader = EventReader()
    assert reader.feed(b"data: a" + end) == []
    assert [event.data for event in reader.feed(end[:1])] == [b"a"]


def test_what_most_engines_send_comes_back_as_the_very_same_bytes() -> None:
    message = b'data: {"x": "\xc3\xbc"}\n\n'
    (event,) = EventReader().feed(message)
    assert event.raw is message
    assert event.data == b'{"x": "\xc3\xbc"}'
    assert said(EventReader().feed(DONE)) == [("", b"[DONE]")]


def test_the_rest_is_what_no_event_has_taken() -> None:
    reader = EventReader()
    reader.feed(b"data: a\n\ndata: b\nda")
    assert reader.rest() == b"data: b\nda"
    assert reader.finish() == []


def test_an_unfinished_event_is_bounded() -> None:
    reader = EventReader(100)
    assert said(reader.feed(b"data: " + b"x" * 200 + b"\n\n" + b"y" * 90)) == [("", b"x" * 200)]
    # The complete events of a piece come first.
    assert len(reader.feed(b"\n\n" + b"z" * 101)) == 1
    with pytest.raises(TooLargeError):
        reader.feed(b"z")


def test_large_events_are_read_in_linear_time() -> None:
    def seconds(size: int, piece: int) -> float:
        stream = b"data: " + b"x" * size + b"\r\n\r\ndata: y\r\n\r\n"
        pieces = [stream[at : at + piece] for at in range(0, len(stream), piece)]
        begin = time.process_time()
        events = read(pieces)
        elapsed = time.process_time() - begin
        assert [len(event.data or b"") for event in events] == [size, 1]
        return elapsed

    assert seconds(2_000_000, 1 << 16) < 1
    # Quadratic work would make it sixteen times as long.
    small = min(seconds(250_000, 64) for _ in range(3))
    large = min(seconds(1_000_000, 64) for _ in range(3))
    assert large < 9 * small + 0.02


def test_many_events_in_one_piece_are_read_in_linear_time() -> None:
    begin = time.process_time()
    events = read([b"data: x\n\n" * 100_000])
    assert len(events) == 100_000
    assert time.process_time() - begin < 2


@pytest.mark.parametrize(
    "event",
    [
        b"event: ping\ndata: {}\n\n",
        b"event: ping\nid: 1\ndata: {}\n\n",
        b"event: ping\ndata: a\ndata: b\n\n",
        b"event: ping\ndata: a\n\ndata: b\n\n",
        b"event: ping\ndata: a\r\ndata: b\n\n",
        b"event: ping\n\n",
        b"event: a\nevent: ping\ndata: \n\n",
    ],
)
def test_an_event_with_a_name_that_comes_at_once_is_read_as_in_pieces(event: bytes) -> None:
    pieces = [event[place : place + 1] for place in range(len(event))]
    assert read([event, event]) == read(pieces + pieces)


@pytest.mark.parametrize(
    "together",
    [
        b"data: a\n\ndata: b\n\n",
        b"data: a\n\ndata: b\n\n\n",
        b"data: a\n\n\ndata: b\n\n",
        b"data: a\ndata: b\n\ndata: c\n\n",
        b"data: a\n\n: ping\n\ndata: b\n\n",
        b"data: a\n\nevent: x\ndata: b\n\n",
        b"data: a\n\ndata: \n\ndata: b\n\n",
        b"data: a\n\ndata:b\n\n",
        b"data: a\n\ndata: b\r\n\n",
    ],
)
def test_events_that_come_in_one_read_are_those_that_come_byte_by_byte(together: bytes) -> None:
    assert read([together]) == read([bytes([byte]) for byte in together])
    assert b"".join(event.raw for event in read([together])) == together


@pytest.mark.slow
@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_a_huge_event_does_not_hold_the_interpreter(end: bytes) -> None:
    """Against one search of a pattern for line ends in the same run."""
    line = b"data: " + b"x" * (24 << 20) + end + end
    pieces = [line[at : at + 65_536] for at in range(0, len(line), 65_536)]

    def read() -> None:
        reader = EventReader()
        events = [event for piece in pieces for event in reader.feed(piece)]
        assert [len(event.data or b"") for event in events] == [24 << 20]

    def held() -> bool:
        begin = time.monotonic()
        assert len(re.split(rb"\r\n|\n|\r", line)) == 3
        searched = time.monotonic() - begin
        longest, _ = asyncio.run(standstill(asyncio.to_thread(read)))
        return longest > searched / 2 + 0.05

    assert not all(held() for _ in range(3))  # what runs beside it may hold it once
