"""`GET /readyz`: whether the upstreams answer. `/healthz`, whether the process is up, is auth.py's."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import msgspec
from starlette.types import ASGIApp, Receive, Scope, Send

from ...errors import ToolCallError
from ..http.errors import send_json
from ..http.headers import raw_path
from ..http.request_record import Record
from .own_request import ask_for_models
from .upstream.upstream import Upstream

# Seconds: how long to wait for an upstream, and how long its answer holds.
_PATIENCE = 5.0
_FRESH = 5.0
PATHS = frozenset({b"/healthz", b"/readyz"})


class Readiness:
    """An app before `app`: 200 where an upstream answers, else 503; `{"status": ..., "upstreams": {name: ok}}`.

    Any answer below 500 is one, also that the key is wrong: then the client's key may be right. Nobody needs a key for
    it, and whoever asks often learns the same for some seconds. tell: is told of each upstream that was asked.
    """

    def __init__(
        self,
        app: ASGIApp,
        upstreams: Callable[[], Sequence[Upstream]],
        tell: Callable[[str, bool], None] | None = None,
    ) -> None:
        self._app = app
        self._upstreams = upstreams
        self._tell = tell
        self._until = 0.0
        self._known: dict[str, bool] = {}
        self._asking = asyncio.Lock()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or scope["method"] not in {"GET", "HEAD"} or raw_path(scope) != b"/readyz":
            await self._app(scope, receive, send)
            return
        known = await self._look(scope)
        ready = any(known.values())
        body = msgspec.json.encode({"status": "ready" if ready else "unready", "upstreams": known})
        await send_json(send, 200 if ready else 503, body, {"cache-control": "no-store"})

    async def _look(self, scope: Scope) -> dict[str, bool]:
        async with self._asking:
            if time.monotonic() >= self._until:
                upstreams = self._upstreams()
                answers = await asyncio.gather(*(_answers(upstream, scope) for upstream in upstreams))
                names = [upstream.config.name for upstream in upstreams]
                self._known = dict(zip(names, answers, strict=True))
                self._until = time.monotonic() + _FRESH
                if self._tell is not None:
                    for name, answered in self._known.items():
                        self._tell(name, answered)
            return self._known


async def _answers(upstream: Upstream, scope: Scope) -> bool:
    # Nothing of the asker's goes along: nobody knows who that is.
    record = Record(id="readyz", others=True)
    try:
        async with asyncio.timeout(_PATIENCE):
            status, _ = await ask_for_models(upstream, scope, [(b"host", b"localhost")], record, limit=None)
    except (TimeoutError, ToolCallError):
        return False
    return 0 < status < 500
