"""Server-sent events, as far as chat-completion streams use them (WHATWG HTML, 9.2.6).

Bytes in, cut anywhere; events out, each with its own bytes, so that what is not changed can be forwarded as it came:
the `raw` bytes of all events, joined, are the stream.
"""

from __future__ import annotations

import re

import msgspec

# A line end and a blank line. What ends in a CR may go on with an LF: that one begins the next event, where it is an
# empty line and says nothing. So no reader waits for it, and streams with lone CRs are as quick as others.
_EVENT_END = re.compile(rb"(?:\r\n|\n|\r(?!\n))(?:\r\n|\n|\r)")
_LINE_END = re.compile(rb"\r\n|\n|\r")
_LF, _CR = b"\n\r"  # as numbers, which are found in half the time
_BOM = b"\xef\xbb\xbf"

DONE = b"data: [DONE]\n\n"


class ServerEvent(msgspec.Struct, frozen=True, gc=False):
    """One event: `raw` is all its bytes with the blank line, `data` its data lines (None: it has none).

    They are joined by a space, where SSE has a newline: it is JSON, which may leave again, and then in one line.
    """

    raw: bytes
    data: bytes | None
    name: str = ""


def is_one_line(data: bytes) -> bool:
    """Whether `data` is one event of one line, `data: …` and a blank line: what nearly every engine sends."""
    return (
        data.find(_LF) == len(data) - 2 and data.endswith(b"\n") and data.find(_CR) < 0 and data.startswith(b"data: ")
    )


def _end_of_lines(buffer: bytearray, begin: int) -> int:
    """The end of the first event from `begin` on; -1 where there is none."""
    found = _EVENT_END.search(buffer, begin)
    return -1 if found is None else found.end()


def _end_of_lf_lines(buffer: bytearray, begin: int) -> int:
    """The same, in a tenth of the time, where all lines end in LF."""
    found = buffer.find(b"\n\n", begin)
    return -1 if found < 0 else found + 2


class TooLargeError(Exception):
    """An event is longer than the limit."""


class EventReader:
    """Splits a byte stream into events. One per response. `limit`: bytes that an unfinished event may take.

    `buffer`: the bytes of the unfinished event.
    """

    __slots__ = ("_begun", "_limit", "_searched", "buffer")

    def __init__(self, limit: int | None = None) -> None:
        self.buffer = bytearray()
        self._limit = limit
        self._searched = 0
        self._begun = False

    def feed(self, data: bytes) -> list[ServerEvent]:
        """The events that are complete with `data`.

        Raises TooLargeError when an unfinished one exceeds the limit and none is complete.
        """
        buffer = self.buffer
        if not buffer and is_one_line(data):  # nearly always
            return [self._event(data)]
        if not buffer and data.find(_CR) < 0:
            if data.find(b"\n\n") == len(data) - 2 >= 0:  # one event, of an API that names its events
                return [self._event(data)]
            *whole, rest = data.split(b"\n\n")
            return self._kept(rest, [self._event(raw + b"\n\n") for raw in whole])
        buffer += data
        events: list[ServerEvent] = []
        begin = 0
        # The last line end may have come without the blank line's.
        searched = max(0, self._searched - 1)
        ends = _end_of_lines if buffer.find(_CR, searched) >= 0 else _end_of_lf_lines
        end = ends(buffer, searched)
        while end >= 0:
            events.append(self._event(bytes(buffer[begin:end])))
            begin = end
            end = ends(buffer, begin)
        del buffer[:begin]
        return self._kept(b"", events)

    def _kept(self, rest: bytes, events: list[ServerEvent]) -> list[ServerEvent]:
        """Keep the unfinished event, and return those before it."""
        self.buffer += rest
        self._searched = len(self.buffer)
        if self._limit is not None and self._searched > self._limit and not events:
            raise TooLargeError
        return events

    def rest(self) -> bytes:
        """The bytes of the unfinished event; they are no longer held."""
        raw = bytes(self.buffer)
        self.buffer.clear()
        self._searched = 0
        return raw

    def finish(self) -> list[ServerEvent]:
        """What the stream ended in the middle of: an event without its blank line counts (browsers drop it)."""
        raw = self.rest()
        return [self._event(raw)] if raw else []

    def _event(self, raw: bytes) -> ServerEvent:
        if is_one_line(raw):
            self._begun = True
            return ServerEvent(raw, raw[6:-2])
        # Not by a pattern: one search of a huge event would be half a second in which no thread runs.
        lines = (raw.replace(b"\r\n", b"\n").replace(b"\r", b"\n") if b"\r" in raw else raw).split(b"\n")
        if not self._begun:
            self._begun = True
            lines[0] = lines[0].removeprefix(_BOM)
        data: list[bytes] = []
        name = ""
        for line in lines:
            if line.startswith(b"data:"):
                data.append(line[6:] if line.startswith(b"data: ") else line[5:])
            elif line == b"data":
                data.append(b"")
            elif line.startswith(b"event:"):
                name = line[6:].strip().decode("utf-8", "replace")
            elif line.startswith(b"error:"):  # llama.cpp's server has written its errors so
                data.append(line[6:].strip())
                name = "error"
        return ServerEvent(raw, b" ".join(data) if data else None, name)


class LineEnds:
    """Gives the events of a stream line ends of one kind."""

    __slots__ = ("_after_cr",)

    def __init__(self) -> None:
        self._after_cr = False  # the last event ended in one

    def of_one_kind(self, event: ServerEvent) -> ServerEvent:
        """The event with LF alone; without any bytes where only the LF of the last one's CR was left of it.

        The reader does not wait for that: a client that got half a blank line would.
        """
        after_cr, self._after_cr = self._after_cr, event.raw.endswith(b"\r")
        if not after_cr and b"\r" not in event.raw:
            return event
        raw = event.raw[1:] if after_cr and event.raw.startswith(b"\n") else event.raw
        return ServerEvent(_LINE_END.sub(b"\n", raw), event.data, event.name)
