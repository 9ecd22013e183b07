"""Bodies that are collected, replayed or decoded, all of it bounded, and a client that leaves before its answer."""

from __future__ import annotations

import asyncio
import re
import zlib
from collections.abc import Mapping
from types import TracebackType
from typing import Any, Self

from starlette.types import Message, Receive, Scope

from ...errors import ToolCallError
from ...wire.openai import read_object
from .headers import MEASURED, values_of, with_length, without
from .offload import CODED, LARGE, offloaded

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
    codings = [value.lower() for value in values_of(scope.get("headers", ()), _CODING)]
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
    if not values_of(scope.get("headers", ()), _CODING):
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
    said = [value for value in values_of(scope.get("headers", ()), b"content-length") if value.isdigit()]
    return any(len(value) > _DIGITS or int(value) > limit for value in said)


async def collect(
    receive: Receive, scope: Mapping[str, Any], *, limit: int | None, within: float | None
) -> tuple[bytes | None, list[Message]]:
    """(the body or None when the client went away, the messages as they came).

    Raises ToolCallError for more than `limit` bytes, and for a body that does not come in time (see Upload). Nothing is
    read of one that says in `scope` that it is too large. After the first thousand messages they are merged, because a
    body in pieces of one byte would take hundreds of times its size. A body that we wrote has no limit: the
    client's had one.
    """
    limit = None if MEASURED in scope else limit
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


class Leaving:
    """`async with`: what runs inside is cancelled when the client has gone. That is no error outside.

    The request has been received: the next message can only be that the client leaves. A task of its own receives, and
    none runs the request: its context and its cancellation are its caller's. What `receive` raises comes out.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._watcher: asyncio.Task[None] | None = None
        self._left = False
        self._over = False

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - this is a coroutine of a task
        self._task = task
        self._cancelling = task.cancelling()
        self._watcher = asyncio.create_task(self._watch())
        return self

    async def _watch(self) -> None:
        try:
            while (await self._receive())["type"] != "http.disconnect":  # noqa: ASYNC110 - it gives way, no more
                await asyncio.sleep(0)
        finally:
            # Also where the server's receive failed; not where the request was quicker.
            if not self._over:
                self._left = True
                self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> bool:
        self._over = True
        ours = self._left and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError
        # A cancelled task keeps its frames, and so this object: without this it would be a reference cycle.
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()
            # It may be receiving: whoever receives next must not meet it.
            await done_one(watcher)
            if not watcher.cancelled() and (fault := watcher.exception()) is not None:
                raise fault
        return ours


async def done_one(*futures: asyncio.Future[Any]) -> None:
    """Wait until one of `futures` is done, whatever became of it. As `asyncio.wait`, at a third of its cost."""
    waiter = futures[0].get_loop().create_future()

    def wake(_: asyncio.Future[Any]) -> None:
        if not waiter.done():
            waiter.set_result(None)

    for future in futures:
        future.add_done_callback(wake)
    try:
        await waiter
    finally:
        for future in futures:
            future.remove_done_callback(wake)


# By an escape of JSON, by an encoding of two bytes a letter, or percent-encoded.
_SIGNS = (b"\\u", b"\x00", b"%4", b"%6")
_CHARSETS = re.compile(rb"charset(?:\*\d{0,3}\*?)?\s*=\s*\"?([^\s;\",]*)", re.IGNORECASE)
# In these the letters of ASCII have the bytes that they have in UTF-8.
_PLAIN_CHARSETS = frozenset({"", "utf-8", "utf8", "us-ascii", "ascii", "iso-8859-1", "latin-1", "latin1"})
_BYTE_ORDER_MARKS = (b"\xfe\xff", b"\xff\xfe")


def hides_words(body: bytes) -> bool:
    """Whether `body` may hold a word without its letters.

    By searches for plain bytes: a pattern of alternatives takes twenty times as long, and nothing interrupts it.
    """
    return body.startswith(_BYTE_ORDER_MARKS) or any(sign in body for sign in _SIGNS)


def odd_charset(scope: Scope) -> str:
    """The charset that the content type names, if it may write ASCII letters with other bytes than UTF-8 does.

    Empty for UTF-8, its subsets, Latin-1, and where no charset is named.
    """
    kinds = b",".join(values_of(scope.get("headers", ()), b"content-type"))
    # RFC 2231 also has `charset*=`, and some servers read that.
    named = [found[1].decode("latin-1").lower() for found in _CHARSETS.finditer(kinds)]
    return next((name for name in named if name not in _PLAIN_CHARSETS), "")
