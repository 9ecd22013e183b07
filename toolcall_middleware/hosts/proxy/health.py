"""`GET /readyz`: whether the upstreams answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

import msgspec
from starlette.types import Scope, Send

from ...errors import ToolCallError
from ..http.errors import send_json
from ..http.request_record import Record
from .model_list import ask_for_models
from .upstream.upstream import Upstream

# Seconds: how long to wait for an upstream, and how long its answer holds.
_PATIENCE = 5.0
_FRESH = 5.0


class Readiness:
    """Answers 200 where an upstream answers, else 503: `{"status": ..., "upstreams": {name: whether it answers}}`.

    Any upstream answer below 500 counts, also a refusal of the key: a client's own key may be right. An answer holds
    for some seconds. tell: called with each upstream's name and whether it answered.
    """

    def __init__(
        self, upstreams: Callable[[], Sequence[Upstream]], tell: Callable[[str, bool], None] | None = None
    ) -> None:
        self._upstreams = upstreams
        self._tell = tell
        self._until = 0.0
        self._known: dict[str, bool] = {}
        self._asking = asyncio.Lock()

    async def answer(self, scope: Scope, send: Send) -> None:
        """Answer a request for `/readyz`."""
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
    # None of the client's headers are sent: a client without a key may ask this.
    record = Record(others=True)
    try:
        async with asyncio.timeout(_PATIENCE):
            answer = await ask_for_models(upstream, scope, [(b"host", b"localhost")], record)
    except (TimeoutError, ToolCallError):
        return False
    return 0 < answer.status < 500
