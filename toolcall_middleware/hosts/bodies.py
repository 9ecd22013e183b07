"""Bodies of requests and answers: collected, handed on again, decoded. All of it bounded."""

from __future__ import annotations

import zlib
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any

from ..errors import ToolCallError

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]

_MAX_MESSAGES = 1024
_DIGITS = 18  # of a length; nobody has more to send


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

    def feed(self, data: bytes) -> bytes:
        """Decoded bytes. Raises ToolCallError for garbage and for more than the limit."""
        try:
            # One byte more than may be, and no flush: a bomb must not go off before it is recognised.
            out = self._decoder.decompress(data, 0 if self._limit is None else self._limit - self._size + 1)
        except zlib.error as error:
            message = f"The backend's {self._coding} body cannot be read: {error}"
            raise ToolCallError("upstream_error", message) from None
        self._size += len(out)
        if self._limit is not None and self._size > self._limit:
            raise ToolCallError("upstream_error", f"The backend's answer exceeds max_response_bytes ({self._limit}).")
        return out


def declares_more(scope: Mapping[str, Any], limit: int | None) -> bool:
    """Whether a request says beforehand that its body is larger than `limit`."""
    if limit is None:
        return False
    said = [value for name, value in scope.get("headers", ()) if name.lower() == b"content-length" and value.isdigit()]
    return any(len(value) > _DIGITS or int(value) > limit for value in said)


async def collect(
    receive: Receive, limit: int | None, scope: Mapping[str, Any]
) -> tuple[bytes | None, list[Message], bool]:
    """(the body or None when the client went away, the messages as they came, whether it is too large).

    Nothing is read of a body that says in `scope` that it is too large. After the first thousand messages they are
    merged, because a body in pieces of one byte would take hundreds of times its size.
    """
    if declares_more(scope, limit):
        return None, [], True
    messages: list[Message] = []
    parts: list[bytes] = []
    tail = bytearray()
    size = 0
    while True:
        message = await receive()
        if message["type"] != "http.request":
            rest: list[Message] = [_request(tail, more=True)] if tail else []
            return None, [*messages, *rest, message], False
        part = message.get("body", b"")
        size += len(part)
        if limit is not None and size > limit:
            return None, [], True
        more = message.get("more_body", False)
        if len(messages) < _MAX_MESSAGES:
            messages.append(message)
            parts.append(part)
        else:
            tail += part
        if not more:
            if len(messages) == _MAX_MESSAGES and messages[-1].get("more_body", False):
                messages.append(_request(tail, more=False))
            return b"".join([*parts, tail]), messages, False


def _request(body: bytearray, *, more: bool) -> Message:
    return {"type": "http.request", "body": bytes(body), "more_body": more}


def replay(messages: list[Message], receive: Receive) -> Receive:
    """The messages that were taken, then the client's own."""
    queue = deque(messages)

    async def next_message() -> Message:
        return queue.popleft() if queue else await receive()

    return next_message
