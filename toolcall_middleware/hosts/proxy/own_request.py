"""A request of the proxy's own to an upstream: which models it has."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from starlette.types import Message, Scope

from ..http.bodies import giving
from ..http.request_record import RECORD, Record
from ..middleware.tenants import TENANT_KEY
from .loops import via
from .upstream.upstream import Upstream


class TooLongError(Exception):
    """The answer has more bytes than were wanted."""


async def ask_for_models(
    upstream: Upstream, scope: Scope, headers: Iterable[tuple[bytes, bytes]], record: Record, *, limit: int | None
) -> tuple[int, bytes]:
    """(status, body) of the upstream's answer to `GET /v1/models`; status 0 when it gave none.

    scope: of the client's request. headers: sent in place of its own, beside its `Via`. limit: the most bytes of a
    body, more is a TooLongError; None: the body is not kept.
    """
    parts: list[bytes] = []
    status = size = 0

    async def stay() -> Message:
        await asyncio.Event().wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        nonlocal status, size
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message["type"] == "http.response.body" and limit is not None:
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > limit:
                raise TooLongError

    own: Scope = {
        **scope,
        "method": "GET",
        "path": "/v1/models",
        "raw_path": b"/v1/models",
        "root_path": "",
        "query_string": b"",
        "headers": [*headers, *via(scope), (b"accept-encoding", b"identity")],
        RECORD: record,
        TENANT_KEY: None,
    }
    await upstream(own, giving(b"", stay), send)
    return status, b"".join(parts)
