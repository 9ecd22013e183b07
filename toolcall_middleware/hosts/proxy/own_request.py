"""A request of the proxy's own to an upstream: which models it has."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable

from starlette.types import Scope

from ..http.answer import Collected, TooLongError
from ..http.bodies import giving
from ..http.request_record import RECORD, Record
from ..middleware.tenants import TENANT_KEY
from .loops import via
from .upstream.upstream import Upstream

_MAX_BYTES = 8 << 20


async def ask_for_models(
    upstream: Upstream, scope: Scope, headers: Iterable[tuple[bytes, bytes]], record: Record
) -> Collected:
    """The upstream's answer to `GET /v1/models`; without a body where that has more than 8 MiB.

    scope: of the client's request. headers: sent in place of its own, beside its `Via`.
    """
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
    answer = Collected(_MAX_BYTES)
    with contextlib.suppress(TooLongError):
        await upstream(own, giving(b"", answer.gone), answer.send)
    return answer
