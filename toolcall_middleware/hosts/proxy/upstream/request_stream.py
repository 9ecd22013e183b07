"""A client's request body on its way to an upstream, as it comes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

from starlette.types import Message, Receive

from ....errors import ToolCallError
from ...http.client_library import httpx


class ClientGoneError(Exception):
    """The client does not wait for the answer any more."""


class RequestBody(httpx.AsyncByteStream):
    """The client's request body, piece by piece. `on_end` is called once, when nothing more is to be received."""

    def __init__(self, first: Message, receive: Receive, *, on_end: Callable[[], object]) -> None:
        self._first = first
        self._receive = receive
        self._on_end: Callable[[], object] | None = on_end
        self.length: int | None = None
        """Known when the whole body came at once."""
        self._declared: int | None = None
        if not first.get("more_body", False):
            self.length = len(first.get("body", b""))
            self.stop()

    def declare(self, length: bytes | None) -> None:
        """What the upstream is told of the length. A body that turns out not to fit raises ToolCallError."""
        self._declared = None if length is None else int(length)

    def stop(self) -> None:
        on_end, self._on_end = self._on_end, None
        if on_end is not None:
            on_end()

    @property
    def whole(self) -> bytes | None:
        """All of it, where it came at once. Raises ToolCallError where it is not what was declared."""
        if self.length is None:
            return None
        self._check(self.length, more=False)
        body: bytes = self._first.get("body", b"")
        return body

    def _check(self, size: int, *, more: bool) -> None:
        if self._declared is not None and (size > self._declared or (not more and size < self._declared)):
            raise ToolCallError("invalid_request", "The request's body does not fit its content-length.")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        message = self._first
        more, size = True, 0
        while more:
            if message["type"] == "http.disconnect":
                raise ClientGoneError
            part, more = message.get("body", b""), message.get("more_body", False)
            if not more:
                self.stop()
            size += len(part)
            self._check(size, more=more)
            if part:
                yield part
            if more:
                message = await self._receive()
