"""A request to an upstream and its answer, as the Forwarder sees them, whichever HTTP client is between."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, cast

from ...http.client_library import httpx
from .connection import AtOnce, Connection, Target, close
from .request_stream import RequestBody

Headers = list[tuple[bytes, bytes]]


@dataclass(frozen=True, slots=True)
class Question:
    """What an upstream is asked. `seconds`: the timeouts, by httpx's names. `connection` is told how it goes."""

    method: str
    target: bytes
    headers: Headers
    body: RequestBody
    seconds: Mapping[str, float | None]
    connection: Connection


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer of which the head is there. To be closed."""

    status: int
    headers: Headers
    stream: httpx.AsyncByteStream
    response: httpx.Response | None = None
    """Where it is httpx's."""
    first: bytes = b""
    rest: AsyncIterator[bytes] | None = None
    """The beginning of `stream`, where it was waited for, and what follows it."""

    async def begun(self) -> Reply:
        """The same as soon as there is something of its body, or its end. Raises httpx.TransportError."""
        rest = aiter(self.stream)
        return replace(self, first=await anext(rest, b""), rest=rest)

    async def close(self) -> None:
        """The connection closes, or is given back; also where this task is cancelled meanwhile."""
        if isinstance(self.stream, AtOnce):
            self.stream.close()
        elif self.response is not None:
            await close(self.response)


class Client(Protocol):
    """Who asks without requests and answers of httpx's: a short answer costs a fifth less without them."""

    async def ask(self, question: Question) -> Reply:
        """The answer as soon as its head is there. Raises httpx.TransportError, and what the body raises."""
        ...

    async def aclose(self) -> None:
        """Close all connections."""
        ...


async def ask(client: Client | httpx.AsyncBaseTransport, question: Question, origin: httpx.URL) -> Reply:
    """The upstream's answer, by `client`. Raises httpx.TransportError, and what the body raises."""
    if not isinstance(client, httpx.AsyncBaseTransport):
        return await client.ask(question)
    extensions = {"timeout": dict(question.seconds), "trace": question.connection.trace}
    request = httpx.Request(
        question.method, origin, headers=question.headers, stream=question.body, extensions=extensions
    )
    request.url = Target(origin, question.target)
    response = await client.handle_async_request(request)
    return Reply(response.status_code, response.headers.raw, cast("httpx.AsyncByteStream", response.stream), response)
