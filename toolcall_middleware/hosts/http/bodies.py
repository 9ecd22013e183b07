"""Bodies that are handed on again or decoded. All of it bounded."""

from __future__ import annotations

import zlib

from starlette.types import Message, Receive

from ...errors import ToolCallError

_FRAME = 2
# Bytes that a decompressor gets at once: it copies the bytes after the end of its stream.
_FIRST, _MOST = 512, 64 * 1024


def decompressed(decoder: zlib._Decompress, data: memoryview, most: int) -> tuple[bytes, int]:
    """(what `decoder` makes of `data`, how many bytes of `data` that took: up to the end of its stream).

    most: bytes after which it stops, 0 for no bound. Raises zlib.error. A million streams of a few bytes, one after
    another, take time in proportion.
    """
    out: list[bytes] = []
    at, size, step = 0, 0, _FIRST
    while at < len(data) and not decoder.eof and (not most or size < most):
        piece = data[at : at + step]
        part = decoder.decompress(piece, most - size if most else 0)
        out.append(part)
        size += len(part)
        at += len(piece) - len(decoder.unused_data)
        step = min(4 * step, _MOST)
    return b"".join(out), at


class Inflate:
    """Undoes a content coding that came in spite of `accept-encoding: identity`. Bounded."""

    def __init__(self, coding: str, limit: int | None) -> None:
        if coding not in {"gzip", "x-gzip", "deflate"}:
            raise ToolCallError(
                "upstream_error", f"The backend answered with content-encoding {coding!r} although identity was asked."
            )
        self._coding = coding
        self._limit = limit
        self._size = 0
        self._decoder = zlib.decompressobj(zlib.MAX_WBITS | 32 if coding != "deflate" else zlib.MAX_WBITS)
        self._head = b""

    def feed(self, data: bytes) -> bytes:
        """Decoded bytes. Raises ToolCallError for garbage and for more than the limit.

        `gzip` may come in several members (RFC 1952, 2.2), and many send `deflate` without zlib's frame.
        """
        if self._coding == "deflate" and len(self._head) < _FRAME:
            # Two bytes tell which it is (RFC 1950, 2.2).
            data = self._head + data
            self._head = data[:_FRAME]
            if len(data) < _FRAME:
                return b""
            framed = data[0] & 15 == 8 and int.from_bytes(data[:_FRAME]) % 31 == 0
            self._decoder = zlib.decompressobj(zlib.MAX_WBITS if framed else -zlib.MAX_WBITS)
        out: list[bytes] = []
        rest = memoryview(data)
        try:
            while rest:
                if self._decoder.eof:
                    if self._coding == "deflate":
                        break  # bytes after the stream are ignored
                    self._decoder = zlib.decompressobj(zlib.MAX_WBITS | 16)
                part, taken = self._some(rest)
                out.append(part)
                rest = rest[taken:]
        except zlib.error as error:
            message = f"The backend's {self._coding} body cannot be read: {error}"
            raise ToolCallError("upstream_error", message) from None
        return b"".join(out)

    def _some(self, data: memoryview) -> tuple[bytes, int]:
        # One byte more than may be, and no flush: a bomb must not go off before it is recognised.
        most = 0 if self._limit is None else self._limit - self._size + 1
        out, taken = decompressed(self._decoder, data, most)
        self._size += len(out)
        if self._limit is not None and self._size > self._limit:
            raise ToolCallError("upstream_error", f"The backend's answer exceeds max_response_bytes ({self._limit}).")
        return out, taken


class Replay:
    """An ASGI `receive`: the messages that were taken, then the client's own."""

    __slots__ = ("_left", "_receive")

    def __init__(self, messages: list[Message], receive: Receive) -> None:
        self._left = messages[::-1]  # the next one comes last
        self._receive = receive

    async def __call__(self) -> Message:
        return self._left.pop() if self._left else await self._receive()

    def at_hand(self) -> Message | None:
        """The next message that need not be waited for."""
        return self._left.pop() if self._left else None


def request_message(body: bytes, *, more: bool = False) -> Message:
    """A piece of a request's body; `more`: others follow."""
    return {"type": "http.request", "body": body, "more_body": more}


def giving(body: bytes, receive: Receive) -> Receive:
    """`body` once, then what `receive` says: that the client has gone."""
    return Replay([request_message(body)], receive)
