"""The one interface to an upstream: send a question; the reply has a status, headers and pieces, and is closed."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Protocol

from .request_stream import RequestBody

Headers = list[tuple[bytes, bytes]]


class Progress:
    """How far a request got. `reused`: its connection was not opened for it. `sent`: all of it has left."""

    __slots__ = ("reused", "sent")

    def __init__(self) -> None:
        self.reused = False
        self.sent = False


@dataclass(frozen=True, slots=True)
class Question:
    """A request to an upstream. `seconds`: the timeouts, by httpx's names. The client writes to `progress`."""

    method: str
    target: bytes
    headers: Headers
    body: RequestBody
    seconds: Mapping[str, float | None]
    progress: Progress


class Reply(Protocol):
    """An answer whose head has come. It must be closed."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Headers:
        """As they came."""
        ...

    @property
    def pieces(self) -> AsyncIterator[bytes]:
        """The body as it comes. Raises httpx.TransportError."""
        ...

    async def close(self) -> None:
        """Give the connection back, or close it; also where this task is cancelled meanwhile."""


class Client(Protocol):
    """Asks one upstream."""

    async def ask(self, question: Question) -> Reply:
        """The answer as soon as its head has come. Raises httpx.TransportError, and what the body raises."""

    async def aclose(self) -> None:
        """Close all connections."""
