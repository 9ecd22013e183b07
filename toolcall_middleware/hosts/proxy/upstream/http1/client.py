"""Connections to one origin, kept for later requests."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections import deque
from collections.abc import Iterable

from ....http.client_library import httpx
from ..client import Headers, Question
from .connection import Connection, HttpAnswer, dial

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
        self._idle: deque[Connection] = deque()  # the one that was used last comes last
        self._open: set[Connection] = set()  # those in use, and those that wait after a stream
        self._sweeping: asyncio.TimerHandle | None = None
        self._closed = False
        self._buffer = memoryview(bytearray(_READ_SIZE))

    async def ask(self, question: Question) -> OriginReply:
        """See Client."""
        head = head_of(question.method, question.target, question.headers)
        seconds, told = question.seconds, question.progress
        await self._take_slot(seconds.get("pool"))
        connection: Connection | None = None
        try:
            connection = self._idle_one()
            told.reused = connection is not None
            if connection is None:
                connection = await self._dial(seconds.get("connect"))
            self._open.add(connection)
            answer = HttpAnswer(to_head=question.method == "HEAD")
            connection.begin(answer)
            try:
                await _send(connection, head, question)
            finally:
                told.sent = connection.sent
            await connection.head(seconds.get("read"))
        except BaseException:
            self.give_back(connection)
            raise
        return OriginReply(self, connection, answer, seconds.get("read"))

    async def aclose(self) -> None:
        """Close all connections, also those in use."""
        self._closed = True
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        for connection in (*self._idle, *self._open):
            connection.abort()
        self._idle.clear()

    def give_back(self, connection: Connection | None) -> None:
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
        loop = asyncio.get_running_loop()
        connection.idle_since = loop.time()
        self._idle.append(connection)
        if self._sweeping is None:
            self._sweeping = loop.call_later(self._keepalive, self._sweep)

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
        oldest = asyncio.get_running_loop().time() - self._keepalive
        while self._idle:
            connection = self._idle.pop()
            if connection.idle_since > oldest and connection.usable:
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

    def _sweep(self) -> None:
        """Close those that were not used for long."""
        self._sweeping = None
        loop = asyncio.get_running_loop()
        oldest = loop.time() - self._keepalive
        while self._idle and (self._idle[0].idle_since <= oldest or self._idle[0].lost):
            self._idle.popleft().abort()
        if self._idle:
            self._sweeping = loop.call_at(self._idle[0].idle_since + self._keepalive, self._sweep)


async def _send(connection: Connection, head: bytes, question: Question) -> None:
    seconds = question.seconds.get("write")
    whole = question.body.whole
    if whole is not None:
        await connection.send_whole(head + whole, seconds)
        return
    chunked = any(name == b"transfer-encoding" for name, _ in question.headers)
    await connection.send_parts(head, question.body, chunked=chunked, seconds=seconds)


class OriginReply:
    """See Reply. It is its own `pieces`: what came together is one piece."""

    __slots__ = ("_client", "_connection", "_seconds", "headers", "status")

    def __init__(self, client: OriginClient, connection: Connection, answer: HttpAnswer, seconds: float | None) -> None:
        self._client: OriginClient | None = client
        self._connection = connection
        self._seconds = seconds
        self.status: int = answer.status
        self.headers: Headers = answer.headers

    @property
    def pieces(self) -> OriginReply:
        """The body."""
        return self

    def __aiter__(self) -> OriginReply:
        return self

    async def __anext__(self) -> bytes:
        data = await self._connection.part(self._seconds)
        if not data:
            raise StopAsyncIteration
        return data

    async def close(self) -> None:
        """See Reply. Nothing is waited for."""
        client, self._client = self._client, None
        if client is not None:
            client.give_back(self._connection)


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
