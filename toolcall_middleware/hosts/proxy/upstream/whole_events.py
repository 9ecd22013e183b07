"""An upstream's event stream on its way to the client, event by event: one that breaks off ends with a clear error.

Half an event before the error would reach the client's parser as garbage, and most clients stop at that: they never see
the error. So the unfinished event is held back. A client cannot use it before its blank line comes anyway.
"""

from __future__ import annotations

from ....errors import ToolCallError
from ....wire.openai import read_object
from ....wire.sse import DONE, EventReader
from ...http.headers import Headers

# An event that is longer passes as it comes.
_LONGEST = 1 << 20
# Enough to hold the last line of a stream and its end.
_TAIL = 32
# A line end and a blank line; the second covers two spellings.
_ENDS = (b"\n\n", b"\n\r\n", b"\r\r")


def is_event_stream(headers: Headers) -> bool:
    """Whether an answer with these headers is an event stream to which something can be added."""
    names = dict(headers)
    kind = names.get(b"content-type", b"").partition(b";")[0].strip().lower()
    return kind == b"text/event-stream" and b"content-encoding" not in names and b"content-length" not in names


class WholeEvents:
    """One event stream. No byte is changed or lost, unless it breaks off."""

    __slots__ = ("_held", "_tail")

    def __init__(self) -> None:
        self._held = bytearray()
        self._tail = b""  # of what has left

    def feed(self, part: bytes) -> bytes:
        """The next bytes; returns those up to the end of the last whole event."""
        held = self._held
        if not held and part.endswith((b"\n\n", b"\r\n\r\n")):  # nearly always
            self._leaves(part)
            return part
        begin = max(0, len(held) - 2)
        held += part
        found = [(held.rfind(mark, begin), len(mark)) for mark in _ENDS]
        end = max(at + length if at >= 0 else 0 for at, length in found)
        # Comments keep connections alive: they do not wait for a blank line.
        if len(held) - end > _LONGEST or (held.startswith(b":", end) and held.endswith(b"\n")):
            end = len(held)
        out = bytes(held[:end])
        del held[:end]
        self._leaves(out)
        return out

    @property
    def ends_half(self) -> bool:
        """Whether an end here is one in the middle of an event."""
        held = bytes(self._held)
        return bool(held.strip(b"\r\n")) and not self._is_done(held) and not _is_whole(held)

    def rest(self) -> bytes:
        """What is held of a stream that the upstream has ended by itself."""
        return bytes(self._held)

    def broken(self, fault: ToolCallError) -> bytes:
        """How a stream ends that broke off: what is held, if only its blank line is missing, and the error.

        No error where all was said, and only the connection's end was untidy.
        """
        # No blank line too many: to the OpenAI SDK one is an empty event, once the stream has given ids.
        out = b"" if not self._tail or self._tail.endswith((b"\n\n", b"\n\r\n", b"\r\r")) else b"\n\n"
        if self._is_done(self._tail):
            return out
        held = bytes(self._held).rstrip(b"\r\n")
        if self._is_done(held):
            return out + held + b"\n\n"
        if _is_whole(bytes(self._held)):
            out += held + b"\n\n"
        return out + fault.sse() + DONE

    def _leaves(self, out: bytes) -> None:
        self._tail = out if len(out) >= _TAIL else (self._tail + out)[-_TAIL:]

    @staticmethod
    def _is_done(data: bytes) -> bool:
        return data.rstrip(b"\r\n").endswith((b"data: [DONE]", b"data:[DONE]"))


def _is_whole(held: bytes) -> bool:
    """Whether an event that lacks its blank line says what it was to say: JSON to its end, or one line to its end."""
    reader = EventReader()
    reader.feed(held)
    data = next((event.data for event in reader.finish()), None)
    if data is None:
        return False
    if data.lstrip().startswith((b"{", b"[")):
        return read_object(data) is not None
    return held.endswith((b"\n", b"\r"))
