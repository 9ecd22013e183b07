"""A request's body on its way in: how large it may be, and how long a client may take for it.

Who sends a byte a minute would hold memory and a place for hours.
"""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Mapping
from typing import Any

from starlette.types import Message, Receive, Scope

from ...errors import ToolCallError
from ...wire.openai import read_object
from .bodies import Replay, decompressed, request_message
from .headers import with_length, without
from .offload import CODED, LARGE, offloaded

# Bytes a second. Any line is quicker; a pause at its begin or in its middle is what the timeout is for.
_LEAST = 1024
_CODING = b"content-encoding"
_MAX_MESSAGES = 1024
_DIGITS = 18  # of a length


class Upload:
    """The arrival of one body. `timeout`: the seconds for each piece, and those that may be waited for all of them
    beyond what 1 KiB a second takes. Only time in which the client is waited for counts.
    """

    __slots__ = ("_left", "_timeout")

    def __init__(self, timeout: float | None) -> None:
        self._timeout = timeout
        self._left = timeout or 0.0

    async def next_piece(self, receive: Receive) -> Message:
        """The client's next message. Raises ToolCallError where it does not come in time."""
        if isinstance(receive, Replay) and (message := receive.at_hand()) is not None:
            return message
        if self._timeout is None:
            return await receive()
        time = asyncio.get_running_loop().time
        begin = time()
        waiting = asyncio.timeout_at(begin + min(self._timeout, self._left))
        try:
            async with waiting:
                message = await receive()
        except TimeoutError:
            if not waiting.expired():
                raise
            text = f"The request's body did not come in time; upload_timeout is {self._timeout:g} s."
            # The rest of it is not waited for.
            raise ToolCallError("request_timeout", text, headers={"connection": "close"}) from None
        # Never more than at the beginning: a quick one would else buy hours of silence.
        self._left = min(self._timeout, self._left + len(message.get("body", b"")) / _LEAST - (time() - begin))
        return message


def in_the_clear(
    body: bytes, messages: list[Message], scope: Scope, limit: int | None
) -> tuple[bytes, list[Message], Scope]:
    """What `collect` gave, and the scope for it, without a content coding, which could hide tools.

    A body that is a JSON object undecoded has none, whatever its headers say (`utf-8`, to some clients). Raises
    ToolCallError for a coding that cannot be undone, and for more than `limit` bytes.
    """
    codings = [value.strip().lower() for name, value in scope.get("headers", ()) if name.lower() == _CODING]
    codings = [coding for coding in codings if coding not in {b"", b"identity"}]
    if not codings:
        return body, messages, scope
    if read_object(body) is None:
        body = _decoded(body, codings, limit)
    headers = without(with_length(scope, len(body)), {_CODING})
    return body, [request_message(body)], {**scope, "headers": headers}


async def cleared(
    body: bytes, messages: list[Message], scope: Scope, limit: int | None
) -> tuple[bytes, list[Message], Scope]:
    """As `in_the_clear`; what takes long is done in a thread."""
    if not any(name.lower() == _CODING for name, _ in scope.get("headers", ())):
        return body, messages, scope
    # The size after it is not known.
    size = LARGE + 1 if len(body) > CODED else 0
    return await offloaded(max(size, len(body)), in_the_clear, body, messages, scope, limit)


def _decoded(body: bytes, codings: list[bytes], limit: int | None) -> bytes:
    if len(codings) > 1 or codings[0] not in {b"gzip", b"x-gzip", b"deflate"}:
        text = "The request's content-encoding cannot be read here: send gzip, deflate or none."
        raise ToolCallError("invalid_request", text, status=415)
    try:
        plain = _inflated(body, codings[0], limit)
    except zlib.error as error:
        raise ToolCallError(
            "invalid_json", f"The request's body is not what its content-encoding says: {error}."
        ) from None
    if limit is not None and len(plain) > limit:
        raise _too_large(limit)
    return plain


def _inflated(body: bytes, coding: bytes, limit: int | None) -> bytes:
    """At most one byte more than `limit`. Raises zlib.error."""
    rest = memoryview(body)
    if coding == b"deflate":
        try:
            return _member(rest, zlib.MAX_WBITS, limit)[0]
        except zlib.error:
            return _member(rest, -zlib.MAX_WBITS, limit)[0]  # as many send it, without zlib's frame
    part, rest = _member(rest, zlib.MAX_WBITS | 32, limit)
    parts = [part]
    left = None if limit is None else limit - len(part)
    while rest and (left is None or left >= 0):  # gzip may come in several members
        part, rest = _member(rest, zlib.MAX_WBITS | 32, left)
        if part:
            parts.append(part)
        left = None if left is None else left - len(part)
    return b"".join(parts)


def _member(body: memoryview, bits: int, limit: int | None) -> tuple[bytes, memoryview]:
    """(what one compressed stream holds, the bytes after it)."""
    decoder = zlib.decompressobj(bits)
    part, taken = decompressed(decoder, body, 0 if limit is None else limit + 1)
    rest = body[taken:]
    if limit is not None and len(part) > limit:
        return part, rest[:0]
    if not decoder.eof or (rest and bits != zlib.MAX_WBITS | 32):
        raise zlib.error("it is cut off, or bytes follow it")
    return part, rest


def declares_more(scope: Mapping[str, Any], limit: int | None) -> bool:
    """Whether a request says beforehand that its body is larger than `limit`."""
    if limit is None:
        return False
    said = [value for name, value in scope.get("headers", ()) if name.lower() == b"content-length" and value.isdigit()]
    return any(len(value) > _DIGITS or int(value) > limit for value in said)


async def collect(
    receive: Receive, scope: Mapping[str, Any], *, limit: int | None, within: float | None
) -> tuple[bytes | None, list[Message]]:
    """(the body or None when the client went away, the messages as they came).

    Raises ToolCallError for more than `limit` bytes, and for a body that does not come in time (see Upload). Nothing is
    read of one that says in `scope` that it is too large. After the first thousand messages they are merged, because a
    body in pieces of one byte would take hundreds of times its size.
    """
    if declares_more(scope, limit):
        raise _too_large(limit)
    upload = Upload(within)
    messages: list[Message] = []
    parts: list[bytes] = []
    tail = bytearray()
    size = 0
    while True:
        message = await upload.next_piece(receive)
        if message["type"] != "http.request":
            rest: list[Message] = [request_message(bytes(tail), more=True)] if tail else []
            return None, [*messages, *rest, message]
        part = message.get("body", b"")
        size += len(part)
        if limit is not None and size > limit:
            raise _too_large(limit)
        more = message.get("more_body", False)
        if len(messages) < _MAX_MESSAGES:
            messages.append(message)
            parts.append(part)
        else:
            tail += part
        if not more:
            if len(messages) == _MAX_MESSAGES and messages[-1].get("more_body", False):
                messages.append(request_message(bytes(tail)))
            if tail:
                parts.append(bytes(tail))
            return b"".join(parts), messages


def _too_large(limit: int | None) -> ToolCallError:
    return ToolCallError("request_too_large", f"The request body exceeds max_request_bytes ({limit}).")
