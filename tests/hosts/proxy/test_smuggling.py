"""Requests that could be read in two ways, over real sockets: whatever the server and the proxy make of them, the
upstream never sees a request that was hidden in another one, and no header that is not the client's to set.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import json
from collections.abc import AsyncIterator

import h11
import pytest

from tests.helpers.asgi_client import TOOL, middleware

from .proxy_servers import forwarder, raw_upstream, serving

HIDDEN = b"POST /v1/admin HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n"
CHUNKED_HIDDEN = b"0\r\n\r\n" + HIDDEN
CHAT = json.dumps({"model": "m", "messages": [{"role": "user", "content": "x"}], "tools": [TOOL]}).encode()


def head(*lines: bytes, path: bytes = b"/v1/x", method: bytes = b"POST") -> bytes:
    return b"\r\n".join([method + b" " + path + b" HTTP/1.1", b"host: proxy", *lines, b"", b""])


ATTEMPTS = {
    "length and chunked": head(b"content-length: 5", b"transfer-encoding: chunked") + CHUNKED_HIDDEN,
    "chunked and length": head(b"transfer-encoding: chunked", b"content-length: 47") + CHUNKED_HIDDEN,
    "two lengths": head(b"content-length: 0", b"content-length: %d" % len(HIDDEN)) + HIDDEN,
    "two lengths in one": head(b"content-length: 0, %d" % len(HIDDEN)) + HIDDEN,
    "a sign": head(b"content-length: +%d" % len(HIDDEN)) + HIDDEN,
    "a length in hex": head(b"content-length: 0x0") + HIDDEN,
    "a coding nobody knows": head(b"transfer-encoding: xchunked", b"content-length: 0") + CHUNKED_HIDDEN,
    "chunked twice": head(b"transfer-encoding: chunked", b"transfer-encoding: identity") + CHUNKED_HIDDEN,
    "a tab": head(b"transfer-encoding:\tchunked", b"content-length: 4") + CHUNKED_HIDDEN,
    "a blank before the colon": head(b"transfer-encoding : chunked", b"content-length: 4") + CHUNKED_HIDDEN,
    "a folded line": head(b"x-a: b\r\n transfer-encoding: chunked", b"content-length: 0") + CHUNKED_HIDDEN,
    "a bare LF": b"POST /v1/x HTTP/1.1\nhost: x\ncontent-length: 0\ntransfer-encoding: chunked\n\n" + CHUNKED_HIDDEN,
    "a chunk's extension": head(b"transfer-encoding: chunked") + b"0;a=\n" + HIDDEN + b"\r\n\r\n",
    "a chunk of wrong size": head(b"transfer-encoding: chunked") + b"3\r\nabcdef\r\n" + CHUNKED_HIDDEN,
    "a trailer": head(b"transfer-encoding: chunked") + b"0\r\ncontent-length: 50\r\nx-evil: 1\r\n\r\n",
    "connection names the length": head(b"connection: content-length, host", b"content-length: 3") + b"abc",
    "a target with a line": b"POST /v1/x\tHTTP/1.1\r\nx: HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n",
    "an escaped line": head(b"content-length: 0", path=b"/v1/x%0d%0a%0d%0aPOST%20/v1/admin%20HTTP/1.1"),
    "two hosts": head(b"host: other", b"content-length: 0"),
    "upgrade": head(b"connection: upgrade", b"upgrade: h2c", b"http2-settings: AA", b"content-length: 0"),
    "a chat with both": head(b"content-length: 5", b"transfer-encoding: chunked", path=b"/v1/chat/completions")
    + b"%x\r\n%s\r\n" % (len(CHAT), CHAT) + CHUNKED_HIDDEN,
    "a chat that is too short": head(b"content-length: %d" % (len(CHAT) - 1), path=b"/v1/chat/completions")
    + CHAT + HIDDEN,
}  # fmt: skip
HTTPS = ["h11", *(["httptools"] if importlib.util.find_spec("httptools") else [])]


class Seen:
    """An upstream that reads by h11, strictly, and keeps the target of each request."""

    def __init__(self) -> None:
        self.targets: list[bytes] = []
        self.headers: list[list[tuple[bytes, bytes]]] = []
        self.bodies: list[bytes] = []

    async def talk(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        state = h11.Connection(h11.SERVER)
        body = b""
        while True:
            event = state.next_event()
            if event is h11.NEED_DATA:
                data = await reader.read(65536)
                state.receive_data(data)
                if not data and state.their_state is h11.IDLE:
                    return
            elif isinstance(event, h11.Request):
                self.targets.append(event.target)
                self.headers.append(list(event.headers))
                body = b""
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage):
                self.bodies.append(body)
                head = h11.Response(status_code=200, headers=[("content-length", "2"), ("content-type", "text/plain")])
                writer.write((state.send(head) or b"") + (state.send(h11.Data(data=b"ok")) or b""))
                writer.write(state.send(h11.EndOfMessage()) or b"")
                await writer.drain()
                if state.our_state is not h11.DONE:
                    return
                state.start_next_cycle()
            else:
                return


@contextlib.asynccontextmanager
async def between(seen: Seen, http: str) -> AsyncIterator[int]:
    async with raw_upstream(seen.talk) as upstream:
        app = middleware(forwarder(upstream, upstream_key="sk-key"))
        async with serving(app, http=http) as address:
            yield int(address.rpartition(":")[2])


async def send(port: int, data: bytes) -> bytes:
    """What the proxy answers until it closes, or has nothing more to say."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(data)
    answer = b""
    with contextlib.suppress(TimeoutError, ConnectionError):
        while data := await asyncio.wait_for(reader.read(65536), 0.3):
            answer += data
    writer.close()
    return answer


@pytest.mark.parametrize("http", HTTPS)
async def test_no_hidden_request_reaches_the_upstream_as_part_of_another(http: str) -> None:
    async def attempt(name: str, data: bytes) -> None:
        seen = Seen()
        async with between(seen, http) as port:
            answer = await send(port, data)
        answers = answer.count(b"HTTP/1.1 ")
        # A server may read two requests where there are two, and answers both then: that is no smuggling. Never more
        # requests than answers, and a body is what its own framing says.
        assert len(seen.targets) <= answers, name
        for headers in seen.headers:
            names = [key for key, _ in headers]
            framing = [key for key in names if key in {b"content-length", b"transfer-encoding"}]
            assert len(framing) <= 1, (name, framing)
            assert names.count(b"host") == 1, name
            assert not set(names) & {b"upgrade", b"x-evil", b"trailer", b"te", b"connection"}
            assert dict(headers)[b"authorization"] == b"Bearer sk-key"
        for target in seen.targets:
            assert not any(char in target for char in b" \r\n\t")
        # What follows must be read as it stands: the connection to the upstream is in step.
        assert all(body in data for body in seen.bodies if b"messages" not in body), name

    await asyncio.gather(*(attempt(name, data) for name, data in ATTEMPTS.items()))


@pytest.mark.parametrize("http", HTTPS)
async def test_connections_stay_in_step_after_any_attempt(http: str) -> None:
    """The next client's request on the same upstream connections is its own, with its own answer."""
    seen = Seen()
    async with between(seen, http) as port:
        await asyncio.gather(*(send(port, data) for data in ATTEMPTS.values()))
        for number in range(2 * len(ATTEMPTS)):
            seen.targets.clear()
            answer = await send(port, head(b"content-length: 0", b"connection: close", path=b"/v1/after/%d" % number))
            assert answer.startswith(b"HTTP/1.1 200")
            assert seen.targets == [b"/v1/after/%d" % number]
