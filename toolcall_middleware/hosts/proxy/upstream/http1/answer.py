"""One HTTP/1.1 answer as its bytes come, by httptools' parser (llhttp). No I/O.

The parser takes heads and trailers of any length, and does not report bytes after an answer. Both are watched
here: the first would fill the memory, the second would be the answer to another client's request.
"""

from __future__ import annotations

import httptools

from ....http.client_library import httpx

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
