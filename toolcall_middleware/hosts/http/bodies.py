"""Bodies that are collected, replayed or decoded, all of it bounded, and a client that leaves before its answer.

Large bodies are read in threads (`offloaded`): the event loop serves other requests meanwhile. asyncio's own threads
are not used: they also look up addresses, which must not wait for a body of 30 MiB. Huge bodies have separate threads,
so that ordinary large requests do not wait for them either. There are few of each, because every thread that computes
delays the event loop by some milliseconds, the interpreter's switch interval.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import re
import threading
import zlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar, TypeVarTuple

from starlette.types import Message, Receive, Scope

from ...errors import ToolCallError
from ...wire.openai import read_object
from .head import MEASURED, scope_for_body, values_of, without

LARGE = 32 * 1024
"""Bytes that may be read in the event loop: some milliseconds, also where each of them is a surprise."""
CODED = 4 * 1024
"""The same for bytes in a content coding, which may become a thousand times as many."""
_HUGE = 2 << 20
_WORTH = 8
_NEVER = 1 << 30
_LONGEST = 60.0  # seconds without full collections, for one request

_large = ThreadPoolExecutor(4, "toolcall-large")
_huge = ThreadPoolExecutor(2, "toolcall-huge")

_Result = TypeVar("_Result")
_Given = TypeVarTuple("_Given")


class Held:
    """Input buffered inside a reader: its next piece, however small, may have it read all of it.

    Output for a piece makes room for `_WORTH` times as much: a comment that keeps a connection alive is no answer
    to what is held, and an answer that says less than the upstream did (no logprobs, say) is.
    """

    __slots__ = ("size",)

    def __init__(self) -> None:
        self.size = 0

    def note(self, given: int, out: int) -> None:
        """So many bytes were fed, and so many came of it."""
        self.size = max(0, self.size + given - _WORTH * out)

    async def read(self, feed: Callable[[bytes], bytes], data: bytes) -> bytes:
        """What `feed(data)` gives, in a thread where it may be much."""
        out = await offloaded(self.size + len(data), feed, data)
        self.note(len(data), len(out))
        return out


class _FullCollections:
    """Python's full garbage collections. As a context: they wait while huge work is done.

    One goes through all objects that there are, in one step, and hundreds of thousands of messages bring about one
    after the other, up to a second each. The collections of young objects go on. (Python 3.14 collects in small steps.)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = 0
        self._thresholds = gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            self._waiting += 1
            if self._waiting == 1:
                self._thresholds = gc.get_threshold()
                gc.set_threshold(*self._thresholds[:2], _NEVER)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._waiting -= 1
            if not self._waiting:
                gc.set_threshold(*self._thresholds)


_no_full_collections = _FullCollections()


@contextlib.contextmanager
def while_huge(size: int) -> Iterator[None]:
    """While a request of `size` bytes is answered: where that is huge, full collections wait.

    What was read of it stays until its answer's end, and one collection would go through all of that. Not longer than
    a minute: a stream may take hours.
    """
    with contextlib.ExitStack() as waiting:
        if size > _HUGE:
            waiting.callback(asyncio.get_running_loop().call_later(_LONGEST, waiting.close).cancel)
            waiting.enter_context(_no_full_collections)
        yield


def _without_full_collections(work: Callable[[], _Result]) -> _Result:
    with _no_full_collections:
        return work()


def do_later(size: int, work: Callable[[], object]) -> None:
    """Do `work` later in a thread, where `size` is huge. It is not waited for, and raises nothing."""
    if size > _HUGE:
        _huge.submit(work)


async def offloaded(size: int, work: Callable[[*_Given], _Result], *given: *_Given) -> _Result:
    """What `work(*given)` gives. Done at once where it reads at most LARGE bytes, else in a thread.

    Where the caller is cancelled, it goes on once the thread is through: nothing else may use meanwhile what the work
    uses. Raises what `work` raises.
    """
    if size <= LARGE:
        return work(*given)
    run = partial(contextvars.copy_context().run, work, *given)
    running = _large.submit(run) if size <= _HUGE else _huge.submit(_without_full_collections, run)
    try:
        return await asyncio.shield(asyncio.wrap_future(running))
    except asyncio.CancelledError:
        while not running.cancel() and not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([asyncio.wrap_future(running)])
        raise


_FRAME = 2
# Bytes that a decompressor gets at once: it copies the bytes after the end of its stream.
_FIRST, _MOST = 512, 64 * 1024
_CODINGS = frozenset({"gzip", "x-gzip", "deflate"})


class Decoder:
    """Undoes a content coding, at most one byte more than `limit`. A million streams of a few bytes, one after another,
    take time in proportion.

    `gzip` may come in several members (RFC 1952, 2.2), and many send `deflate` without zlib's frame.
    """

    def __init__(self, coding: str, limit: int | None) -> None:
        self._is_deflate = coding == "deflate"
        self._limit = limit
        self._size = 0
        self._decoder = zlib.decompressobj(zlib.MAX_WBITS | 32)
        self._head = b""
        self._has_rest = False

    @property
    def is_over(self) -> bool:
        """Whether there is more than the limit."""
        return self._limit is not None and self._size > self._limit

    @property
    def is_complete(self) -> bool:
        """Whether the input ended where its coding does."""
        return self._decoder.eof and not self._has_rest

    def feed(self, data: bytes) -> bytes:
        """Decoded bytes. Raises zlib.error."""
        if self._is_deflate and len(self._head) < _FRAME:
            # Two bytes tell which it is (RFC 1950, 2.2).
            data = self._head + data
            self._head = data[:_FRAME]
            if len(data) < _FRAME:
                return b""
            framed = data[0] & 15 == 8 and int.from_bytes(data[:_FRAME]) % 31 == 0
            self._decoder = zlib.decompressobj(zlib.MAX_WBITS if framed else -zlib.MAX_WBITS)
        out: list[bytes] = []
        rest = memoryview(data)
        step = _FIRST
        while rest and not self.is_over:
            if self._decoder.eof:
                self._has_rest = self._is_deflate
                if self._has_rest:
                    break
                self._decoder, step = zlib.decompressobj(zlib.MAX_WBITS | 16), _FIRST
            piece = rest[:step]
            # One byte more than may be, and no flush: a bomb must not go off before it is recognised.
            most = 0 if self._limit is None else self._limit - self._size + 1
            part = self._decoder.decompress(piece, most)
            out.append(part)
            self._size += len(part)
            rest = rest[len(piece) - len(self._decoder.unused_data) :]
            step = min(4 * step, _MOST)
        return b"".join(out)


class Inflate:
    """Undoes the content coding of an answer that came in spite of `accept-encoding: identity`. Bounded."""

    def __init__(self, coding: str, limit: int | None) -> None:
        if coding not in _CODINGS:
            raise ToolCallError(
                "upstream_error", f"The backend answered with content-encoding {coding!r} although identity was asked."
            )
        self._coding = coding
        self._limit = limit
        self._decoder = Decoder(coding, limit)

    def feed(self, data: bytes) -> bytes:
        """Decoded bytes. Raises ToolCallError for garbage and for more than the limit."""
        try:
            out = self._decoder.feed(data)
        except zlib.error as error:
            message = f"The backend's {self._coding} body cannot be read: {error}"
            raise ToolCallError("upstream_error", message) from None
        if self._decoder.is_over:
            raise ToolCallError("upstream_error", f"The backend's answer exceeds max_response_bytes ({self._limit}).")
        return out


class Given:
    """An ASGI `receive`: `body` once, then what `receive` says, which is that the client has gone."""

    __slots__ = ("_body", "_receive")

    def __init__(self, body: bytes, receive: Receive) -> None:
        self._body: bytes | None = body
        self._receive = receive

    async def __call__(self) -> Message:
        body, self._body = self._body, None
        if body is None:
            return await self._receive()
        return {"type": "http.request", "body": body, "more_body": False}


# Bytes a second. Any line is quicker; a pause at its begin or in its middle is what the timeout is for.
_LEAST = 1024
_CODING = b"content-encoding"
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


def in_the_clear(body: bytes, scope: Scope, limit: int | None) -> tuple[bytes, Scope]:
    """A body, and the scope for it, without a content coding, which could hide tools.

    A body that is a JSON object undecoded has none, whatever its headers say (`utf-8`, to some clients). Raises
    ToolCallError for a coding that cannot be undone, and for more than `limit` bytes.
    """
    codings = [value.lower() for value in values_of(scope.get("headers", ()), _CODING)]
    codings = [coding for coding in codings if coding not in {b"", b"identity"}]
    if not codings:
        return body, scope
    if read_object(body) is None:
        body = _decoded(body, codings, limit)
    scope = scope_for_body(scope, len(body))
    return body, {**scope, "headers": without(scope["headers"], {_CODING})}


async def cleared(body: bytes, scope: Scope, limit: int | None) -> tuple[bytes, Scope]:
    """As `in_the_clear`; what takes long is done in a thread."""
    if not values_of(scope.get("headers", ()), _CODING):
        return body, scope
    # The size after it is not known.
    size = LARGE + 1 if len(body) > CODED else 0
    return await offloaded(max(size, len(body)), in_the_clear, body, scope, limit)


def _decoded(body: bytes, codings: list[bytes], limit: int | None) -> bytes:
    coding = codings[0].decode("latin-1")
    if len(codings) > 1 or coding not in _CODINGS:
        text = "The request's content-encoding cannot be read here: send gzip, deflate or none."
        raise ToolCallError("invalid_request", text, status=415)
    decoder = Decoder(coding, limit)
    plain, fault = b"", "it is cut off, or bytes follow it"
    try:
        plain = decoder.feed(body)
    except zlib.error as error:
        fault = str(error)
    if decoder.is_over:
        raise _too_large(limit)
    if not decoder.is_complete:
        raise ToolCallError("invalid_json", f"The request's body is not what its content-encoding says: {fault}.")
    return plain


def declares_more(scope: Mapping[str, Any], limit: int | None) -> bool:
    """Whether a request says beforehand that its body is larger than `limit`."""
    if limit is None:
        return False
    said = [value for value in values_of(scope.get("headers", ()), b"content-length") if value.isdigit()]
    return any(len(value) > _DIGITS or int(value) > limit for value in said)


async def collect(receive: Receive, scope: Scope, *, limit: int | None, within: float | None) -> bytes | None:
    """The body; None when the client went away.

    Raises ToolCallError for more than `limit` bytes, and for a body that does not come in time (see Upload). Nothing is
    read of one that says in `scope` that it is too large. A body that we wrote has no limit: the client's had one.
    """
    limit = None if MEASURED in scope else limit
    if declares_more(scope, limit):
        raise _too_large(limit)
    upload = Upload(within)
    body = bytearray()
    while True:
        message = await upload.next_piece(receive)
        if message["type"] != "http.request":
            return None
        part, more = message.get("body", b""), message.get("more_body", False)
        if limit is not None and len(body) + len(part) > limit:
            raise _too_large(limit)
        if not more:
            return b"".join((body, part)) if body else bytes(part)  # nearly always in one piece, which is not copied
        body += part


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
            await asyncio.wait([watcher])
            if not watcher.cancelled() and (fault := watcher.exception()) is not None:
                raise fault
        return ours


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
