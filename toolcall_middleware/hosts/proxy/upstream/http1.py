"""A small HTTP/1.1 client for one origin: httptools' parser on asyncio's transports, and connections kept for later."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import select
import socket
import ssl
from collections import deque
from collections.abc import Callable, Iterable
from functools import partial
from itertools import zip_longest
from typing import TypeVar, cast

import httptools

from ...http.client_library import httpx
from .client import Question, Reply

# Bytes of heads, chunk sizes and trailers in a row; as many as httpcore takes.
_MOST_FRAMING = 100 * 1024
_SWITCHING = 101
_BODILESS = frozenset({204, 304})


class HttpAnswer:
    """The answer to one request. `to_head`: the request was a HEAD, no body follows.

    `begun`: status and headers are known. `complete`: the body has ended, too. `clean`: the connection may serve
    another request, as far as this answer tells. `chunked`: the body comes in chunks. `held`: bytes of the body that
    were not taken yet. `interim`: how many answers of status 1xx came before.
    """

    __slots__ = (
        "_framing", "_last", "_parser", "_parts", "_received", "_to_head", "_until_close",
        "begun", "chunked", "clean", "complete", "headers", "held", "interim", "status",
    )  # fmt: skip

    def __init__(self, *, to_head: bool = False) -> None:
        parser = httptools.HttpResponseParser(self)
        # As h11 reads them: chunks win over a length, and a line may end in LF alone.
        parser.set_dangerous_leniencies(
            lenient_chunked_length=True, lenient_optional_cr_before_lf=True, lenient_spaces_after_chunk_size=True
        )
        self._parser: httptools.HttpResponseParser | None = parser
        self._to_head = to_head
        self._framing = 0
        self.chunked = False
        self._last = b""  # of the body, in the bytes at hand
        self._received: list[tuple[bytes, bytes]] = []
        self._parts: list[bytes] = []
        self._until_close = False
        self.status = 0
        self.headers: list[tuple[bytes, bytes]] = []
        self.begun = False
        self.complete = False
        self.clean = False
        self.held = 0
        self.interim = 0

    def feed(self, data: bytes | memoryview) -> None:
        """The next bytes of the connection. Raises httpx.RemoteProtocolError where they are no HTTP.

        What came before the fault is kept. Bytes after the answer raise nothing: they make it unclean.
        """
        parser = self._parser
        assert parser is not None  # noqa: S101 - it is open
        if self.complete:
            self.clean = False
            return
        self._framing += len(data)
        self._last = b""
        try:
            parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self.clean = False
        except httptools.HttpParserError as error:  # also where on_headers_complete raises
            self.clean = False
            if not self.complete:
                raise httpx.RemoteProtocolError("no valid HTTP") from error
        if self.complete:
            self.clean = self.clean and self._ends(data)
        if self._framing > _MOST_FRAMING and not self.complete:
            self.clean = False
            raise httpx.RemoteProtocolError("a head or a trailer is too long")

    def _ends(self, data: bytes | memoryview) -> bool:
        """Whether the answer, which is complete, ends where `data` does. The parser skips empty lines after one."""
        if self.chunked or not self._last:
            return data[-6:] != b"\r\n\r\n\r\n"
        return data[-len(self._last) :] == self._last

    def end(self, error: Exception | None) -> httpx.TransportError | None:
        """The connection is at its end, by `error` or properly. What is wrong with the answer then, if anything."""
        self.clean = False
        if self.complete:
            return None
        if error is None and self._until_close:
            self.complete = True
            return None
        fault: httpx.TransportError
        if error is not None:
            fault = httpx.ReadError(str(error))
        elif self.begun:
            fault = httpx.RemoteProtocolError("The connection was closed within the body.")
        else:
            fault = httpx.RemoteProtocolError("The server disconnected without an answer.")
        fault.__cause__ = error
        return fault

    def take(self) -> bytes:
        """All of the body that has come and was not taken."""
        parts = self._parts
        data = parts[0] if len(parts) == 1 else b"".join(parts)
        parts.clear()
        self.held = 0
        return data

    def close(self) -> None:
        """Nothing more is fed. The parser and its answer hold each other, which only a collector would find out."""
        self._parser = None

    # -- what the parser calls ---------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        """A status line begins."""
        if self.complete:
            self.clean = False

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header, or a trailer, which is dropped."""
        if not self.begun:
            self._received.append((name, value.strip(b" \t")))

    def on_headers_complete(self) -> None:
        """The head has ended. Raises _WrongError where the body's end could be read in two ways."""
        if self.begun:
            return
        parser = self._parser
        assert parser is not None  # noqa: S101 - it is at work
        status = parser.get_status_code()
        received, self._received = self._received, []
        if 100 <= status < 200 and status != _SWITCHING:
            self.interim += 1
            return
        version = parser.get_http_version()
        codings = [value.lower() for name, value in received if name.lower() == b"transfer-encoding"]
        lengths = any(name.lower() == b"content-length" for name, _ in received)
        if version not in {"1.0", "1.1"} or codings not in ([], [b"chunked"]):
            raise _WrongError
        self.status, self.headers, self.begun = status, received, True
        self.clean = version == "1.1" and parser.should_keep_alive() and not (codings and lengths)
        if status == _SWITCHING:
            self.clean, self.complete = False, True
        elif self._to_head or status in _BODILESS:
            self.complete = True
        else:
            self.chunked = bool(codings)
            self._until_close = not codings and not lengths

    def on_body(self, data: bytes) -> None:
        """A piece of the body."""
        if self.complete:
            self.clean = False
            return
        self._framing = 0
        self._last = data
        self._parts.append(data)
        self.held += len(data)

    def on_chunk_header(self) -> None:
        """The size of a chunk."""
        if self.complete:
            self.clean = False

    def on_message_complete(self) -> None:
        """The end of an answer; those of status 1xx are not the answer."""
        if self.begun:
            self.complete = True


class _WrongError(Exception):
    """A head that is HTTP by its form alone."""


# Bytes of a body that wait here for a client who reads slowly; then the upstream has to wait.
_MOST_HELD = 64 * 1024
_FIRST_REFUSAL = 400


class Connection(asyncio.BufferedProtocol):
    """Made by the pool, which gives `buffer`: all its connections read into it, each for a moment.

    `lost`: nothing can be sent or read any more. `sent`: the whole request has left. `streamed`: its last answer came
    in chunks.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, buffer: memoryview) -> None:
        self._loop = loop
        self._buffer = buffer
        self._transport: asyncio.Transport
        self.answer: HttpAnswer | None = None
        self._fault: httpx.TransportError | None = None
        self._waiter: asyncio.Future[None] | None = None
        self._write_paused = False
        self._read_paused = False
        self._seconds: float | None = None
        self._deadline: float | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.lost = False
        self.sent = False
        self.streamed = False

    # -- what asyncio calls ------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's is no subclass

    def get_buffer(self, _sizehint: int) -> memoryview:
        """Where to read into."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Bytes have come. An upstream that sends some without a request is not asked again."""
        answer = self.answer
        if answer is None:
            self.abort()
            return
        if self._fault is not None:
            return
        try:
            answer.feed(self._buffer[:nbytes])
        except httpx.TransportError as error:
            self._fault = error
        if answer.held >= _MOST_HELD and not self._read_paused:
            self._read_paused = True
            self._transport.pause_reading()
        self._wake()

    def eof_received(self) -> bool:
        """The upstream has ended its side; ours ends with it."""
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """It is closed."""
        self.lost = True
        if self.answer is not None and self._fault is None:
            self._fault = self.answer.end(exc)
        self._stop_timer()
        self._wake()

    def pause_writing(self) -> None:
        """The upstream takes less than there is."""
        self._write_paused = True

    def resume_writing(self) -> None:
        """It has taken most."""
        self._write_paused = False
        self._wake()

    # -- asking ------------------------------------------------------------------------------------------------------

    @property
    def usable(self) -> bool:
        """Whether an idle connection can be asked: nothing has come on it, not even its end."""
        return not self.lost and not self._transport.is_closing() and not self._has_input()

    def begin(self, answer: HttpAnswer, seconds: float | None) -> None:
        """From now on bytes that come are of `answer`. seconds: how long to wait for its head, and for each piece."""
        self.answer = answer
        self._seconds = seconds
        self._fault = None
        self.sent = False

    async def send(self, data: bytes, seconds: float | None) -> None:
        """Send a request. Raises httpx.WriteTimeout where it is not taken.

        A connection that breaks meanwhile raises nothing: an answer may have come before. So with a refusal, and with
        an answer that is whole.
        """
        self._transport.write(data)
        if self._write_paused:
            await self._taken(seconds)
        self.sent = not self._write_paused and not self._transport.is_closing()
        if self.answer is not None and self.answer.begun:
            # Who answers what it has not read may never read it, and the next request would have to wait for that.
            self.answer.clean = False

    async def _taken(self, seconds: float | None) -> None:
        """Wait until most of what was written is taken, or nothing more need be; each `seconds` some has to be."""
        while self._write_paused and not self.lost and not self._fault and not self._is_answered():
            left = self._transport.get_write_buffer_size()
            try:
                async with asyncio.timeout(seconds):
                    await self._wait(None)
            except TimeoutError:
                if self._transport.get_write_buffer_size() >= left:
                    raise httpx.WriteTimeout("nothing was taken") from None

    def _is_answered(self) -> bool:
        """Whether the rest of the request need not be sent: it is refused, or its answer is whole."""
        answer = self.answer
        return answer is not None and (answer.complete or answer.status >= _FIRST_REFUSAL)

    # -- reading -----------------------------------------------------------------------------------------------------

    async def head(self) -> None:
        """Wait for the head of the answer: all of it has to come in time, which an interim answer gives anew.
        Raises httpx.TransportError.
        """
        answer = self.answer
        assert answer is not None  # noqa: S101 - it has begun
        interim, deadline = 0, self._until()
        while not answer.begun:
            if self._fault is not None:
                raise self._fault
            if answer.interim != interim:
                interim, deadline = answer.interim, self._until()
            await self._wait(deadline)

    def __aiter__(self) -> Connection:
        return self

    async def __anext__(self) -> bytes:
        """All of the answer's body that is there, waited for where there is none. Raises httpx.TransportError, after
        what came before it.
        """
        answer = self.answer
        assert answer is not None  # noqa: S101 - it has begun
        while not answer.held:
            if answer.complete:
                raise StopAsyncIteration
            if self._fault is not None:
                raise self._fault
            await self._wait(self._until())
        data = answer.take()
        if self._read_paused:
            self._read_paused = False
            if not self.lost:
                self._transport.resume_reading()
        return data

    def end(self) -> bool:
        """The answer has been read, or is not wanted any more. Returns whether another request may follow.

        Where none may, the connection closes, and nothing waits for that.
        """
        answer, self.answer = self.answer, None
        fault, self._fault = self._fault, None
        self._stop_timer()
        if answer is None:
            self.abort()
            return False
        self.streamed = answer.chunked
        answer.close()
        usable = answer.complete and answer.clean and self.sent and fault is None
        if usable and not self._write_paused and not self._read_paused and not self._transport.is_closing():
            return True
        # What is still to be written would have to be taken first, and the upstream may not do that.
        if answer.complete and not self._transport.get_write_buffer_size():
            self._transport.close()
        else:
            self.abort()
        return False

    def abort(self) -> None:
        """Close it now: what has not left is lost."""
        self._transport.abort()

    # -- waiting -----------------------------------------------------------------------------------------------------

    def _until(self) -> float | None:
        return None if self._seconds is None else self._loop.time() + self._seconds

    async def _wait(self, deadline: float | None) -> None:
        """Wait until something has happened. Raises httpx.ReadTimeout at the event loop's `deadline`."""
        waiter = self._waiter = self._loop.create_future()
        self._deadline = deadline
        if deadline is not None and self._timer is None:
            # One timer for all waits: most end long before, and moving it would cost more than the look at its end.
            self._timer = self._loop.call_at(deadline, self._look_at_clock)
        try:
            await waiter
        finally:
            self._waiter = self._deadline = None

    def _look_at_clock(self) -> None:
        self._timer = None
        if self._waiter is None or self._deadline is None:
            return
        if self._loop.time() < self._deadline:
            self._timer = self._loop.call_at(self._deadline, self._look_at_clock)
        elif not self._waiter.done():
            self._waiter.set_exception(httpx.ReadTimeout("nothing came"))

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _has_input(self) -> bool:
        """Whether the system has bytes, or the end, that the event loop has not read yet."""
        number = self._transport.get_extra_info("socket").fileno()
        if number < 0:
            return True
        if hasattr(select, "poll"):
            poll = select.poll()
            poll.register(number, select.POLLIN)
            return bool(poll.poll(0))
        return bool(select.select([number], [], [], 0)[0])  # Windows, which has no poll


# Seconds: the RFC's own "Connection Attempt Delay".
_STAGGER = 0.25

P = TypeVar("P", bound=asyncio.BaseProtocol)


async def dial(make: Callable[[], P], host: str, port: int, tls: ssl.SSLContext | None) -> P:
    """The protocol that `make` gives, connected. Raises OSError, of the first address where there are several."""
    addresses = deque(await _addresses(host, port))
    if len(addresses) == 1:
        return await _connect(make, addresses[0], port, tls, host)
    running: set[asyncio.Task[P]] = set()
    fault: BaseException | None = None
    try:
        while addresses or running:
            if addresses:
                running.add(asyncio.ensure_future(_connect(make, addresses.popleft(), port, tls, host)))
            wait = _STAGGER if addresses else None
            done, _ = await asyncio.wait(running, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                running.discard(task)
                if task.exception() is None:
                    return task.result()
                fault = fault or task.exception()
        raise fault or OSError(f"{host} has no address")
    finally:
        for task in running:
            task.cancel()
        for late in await asyncio.gather(*running, return_exceptions=True):
            if not isinstance(late, BaseException):
                late.abort()  # type: ignore[attr-defined]


async def _connect(make: Callable[[], P], address: str, port: int, tls: ssl.SSLContext | None, host: str) -> P:
    loop = asyncio.get_running_loop()
    name = host if tls is not None else None
    _, protocol = await loop.create_connection(make, address, port, ssl=tls, server_hostname=name)
    return protocol


async def _addresses(host: str, port: int) -> list[str]:
    """Numeric, the kinds in turns, the resolver's first one first."""
    try:
        return [str(ipaddress.ip_address(host))]
    except ValueError:
        pass
    found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    kinds: dict[int, list[str]] = {}
    for kind, _, _, _, address in found:
        kinds.setdefault(kind, []).append(str(address[0]))
    turns = zip_longest(*kinds.values())
    return list(dict.fromkeys(address for turn in turns for address in turn if address is not None))


_READ_SIZE = 64 * 1024
_SETTLE = 0.05
"""Seconds for which a connection waits after a streamed answer. llama.cpp's server closes it there without having said
so: a request that is sent meanwhile is lost, and cannot be sent again, because it may have been read."""
_PORTS = {"http": 80, "https": 443}

_TOKEN = re.compile(rb"[-!#$%&'*+.^_`|~0-9a-zA-Z]+")
_TARGET = re.compile(rb"[\x21-\x7e]+")
# A name, and a value without blanks around it, and without control characters that any reader takes for a line end.
# Possessive, because what does not match need not be tried in another way.
_LINES = re.compile(rb"(?:[-!#$%&'*+.^_`|~0-9a-zA-Z]++: (?:[^\x00\s]++(?:[ \t]++[^\x00\s]++)*+)?\r\n)*+")


class OriginClient:
    """Asks `origin` alone, over HTTP/1.1, by `connections` at a time; the rest waits. At most `idle` are kept,
    for `keepalive` seconds.

    As a transport of httpx: the same timeouts, the same exceptions. No proxies, no cookies,
    no redirects, nothing decoded. A connection on which anything but answers has come is not used again.
    `tls`: for an origin of https.
    """

    def __init__(
        self,
        origin: httpx.URL,
        *,
        connections: int | None,
        idle: int,
        keepalive: float,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._host = origin.host
        self._port = origin.port or _PORTS[origin.scheme]
        self._tls = tls
        self._slots = None if connections is None else asyncio.Semaphore(connections)
        self._most_idle = idle
        self._keepalive = keepalive
        # Each with the timer that closes it; the one that was used last comes last.
        self._idle: dict[Connection, asyncio.TimerHandle] = {}
        self._open: set[Connection] = set()  # those in use, and those that wait after a stream
        self._closed = False
        self._buffer = memoryview(bytearray(_READ_SIZE))

    async def ask(self, question: Question) -> Reply:
        """See Client."""
        head = head_of(question.method, question.target, question.headers)
        seconds, progress = question.seconds, question.progress
        await self._take_slot(seconds.get("pool"))
        connection: Connection | None = None
        try:
            connection = self._idle_one()
            progress.reused = connection is not None
            if connection is None:
                connection = await self._dial(seconds.get("connect"))
            self._open.add(connection)
            answer = HttpAnswer(to_head=question.method == "HEAD")
            connection.begin(answer, seconds.get("read"))
            try:
                await connection.send(head + question.body, seconds.get("write"))
            finally:
                progress.sent = connection.sent
            await connection.head()
        except BaseException:
            self._give_back(connection)
            raise
        return Reply(answer.status, answer.headers, connection, partial(self._close, connection, answer))

    async def _close(self, connection: Connection, answer: HttpAnswer) -> None:
        """See Reply. Nothing is waited for, and a second close does nothing: the connection has another answer then."""
        if connection.answer is answer:
            self._give_back(connection)

    async def aclose(self) -> None:
        """Close all connections, also those in use."""
        self._closed = True
        for connection in list(self._idle):
            self._expire(connection)
        for connection in self._open:
            connection.abort()

    def _give_back(self, connection: Connection | None) -> None:
        """A request is over; `connection` is kept where another may follow."""
        if self._slots is not None:
            self._slots.release()
        if connection is None:
            return
        if not connection.end():
            self._open.discard(connection)
        elif connection.streamed:
            asyncio.get_running_loop().call_later(_SETTLE, self._keep, connection)
        else:
            self._keep(connection)

    def _keep(self, connection: Connection) -> None:
        self._open.discard(connection)
        if self._closed or not connection.usable or len(self._idle) >= self._most_idle:
            connection.abort()
            return
        closing = asyncio.get_running_loop().call_later(self._keepalive, self._expire, connection)
        self._idle[connection] = closing

    def _expire(self, connection: Connection) -> None:
        self._idle.pop(connection).cancel()
        connection.abort()

    async def _take_slot(self, seconds: float | None) -> None:
        if self._slots is None:
            return
        try:
            async with asyncio.timeout(seconds):
                await self._slots.acquire()
        except TimeoutError:
            raise httpx.PoolTimeout("no connection is free") from None

    def _idle_one(self) -> Connection | None:
        """One that can be asked; the last used is the least likely to be closed meanwhile."""
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection, closing = self._idle.popitem()
            closing.cancel()
            if closing.when() > now and connection.usable:
                return connection
            connection.abort()
        return None

    async def _dial(self, seconds: float | None) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(seconds):
                return await dial(lambda: Connection(loop, self._buffer), self._host, self._port, self._tls)
        except TimeoutError as error:
            raise httpx.ConnectTimeout("no connection") from error
        except OSError as error:
            raise httpx.ConnectError(str(error)) from error


def head_of(method: str, target: bytes, headers: Iterable[tuple[bytes, bytes]]) -> bytes:
    """Request line, headers and the blank line. Raises httpx.LocalProtocolError for what is no HTTP.

    The grammar is RFC 9112's, sections 3 and 5. The error does not quote what is wrong: it may be a key.
    """
    verb = method.encode("latin-1", "replace")
    if not _TOKEN.fullmatch(verb) or not _TARGET.fullmatch(target):
        raise httpx.LocalProtocolError("the method or the target is no HTTP")
    lines = [b"%b: %b\r\n" % pair for pair in headers]
    fields = b"".join(lines)
    # As many line ends as headers: none hides another one in it.
    if fields.count(b"\r\n") != len(lines) or not _LINES.fullmatch(fields):
        raise httpx.LocalProtocolError("a header is no HTTP")
    return b"%b %b HTTP/1.1\r\n%b\r\n" % (verb, target, fields)
