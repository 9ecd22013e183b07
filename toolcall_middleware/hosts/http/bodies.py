"""Bodies that are handed on again or decoded. All of it bounded."""

from __future__ import annotations

import zlib
from collections import deque

from starlette.types import Message, Receive

from ...errors import ToolCallError

__all__ = ["Inflate", "Message", "Receive", "Replay", "giving", "replay", "request_message"]

_FRAME = 2


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
        self._begun = False
        self._head = b""

    def feed(self, data: bytes) -> bytes:
        """Decoded bytes. Raises ToolCallError for garbage and for more than the limit.

        `gzip` may come in several members (RFC 1952, 2.2), and many send `deflate` without zlib's frame.
        """
        out: list[bytes] = []
        try:
            while data:
                out.append(self._some(data))
                rest = self._decoder.unused_data if self._decoder.eof else b""
                if not rest or self._coding == "deflate":
                    break
                data = rest
                self._decoder = zlib.decompressobj(zlib.MAX_WBITS | 16)
        except zlib.error as error:
            message = f"The backend's {self._coding} body cannot be read: {error}"
            raise ToolCallError("upstream_error", message) from None
        return b"".join(out)

    def _some(self, data: bytes) -> bytes:
        # One byte more than may be, and no flush: a bomb must not go off before it is recognised.
        most = 0 if self._limit is None else self._limit - self._size + 1
        if self._coding == "deflate" and not self._begun:
            # Two bytes tell which it is (RFC 1950, 2.2).
            self._head += data
            if len(self._head) < _FRAME:
                return b""
            data, framed = self._head, self._head[0] & 15 == 8 and int.from_bytes(self._head[:2]) % 31 == 0
            self._decoder = zlib.decompressobj(zlib.MAX_WBITS if framed else -zlib.MAX_WBITS)
        out = self._decoder.decompress(data, most)
        self._begun = True
        self._size += len(out)
        if self._limit is not None and self._size > self._limit:
            raise ToolCallError("upstream_error", f"The backend's answer exceeds max_response_bytes ({self._limit}).")
        return out


class Replay:
    """An ASGI `receive`: the messages that were taken, then the client's own."""

    __slots__ = ("_queue", "_receive")

    def __init__(self, messages: list[Message], receive: Receive) -> None:
        self._queue = deque(messages)
        self._receive = receive

    async def __call__(self) -> Message:
        return self._queue.popleft() if self._queue else await self._receive()

    def at_hand(self) -> Message | None:
        """The next message where nobody has to be waited for."""
        return self._queue.popleft() if self._queue else None


def replay(messages: list[Message], receive: Receive) -> Receive:
    """The messages that were taken, then the client's own."""
    return Replay(messages, receive)


def request_message(body: bytes, *, more: bool = False) -> Message:
    """A piece of a request's body; `more`: others follow."""
    return {"type": "http.request", "body": body, "more_body": more}


def giving(body: bytes, receive: Receive) -> Receive:
    """`body` once, then what `receive` says: that the client has gone."""
    return replay([request_message(body)], receive)
