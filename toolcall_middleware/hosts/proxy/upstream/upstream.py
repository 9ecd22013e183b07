"""One upstream as it is asked: its app, built once, how many ask it now, and whether it had better rest."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from random import Random
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...http.answer import no_client
from ...http.request_record import record_of
from ...middleware.asgi import ToolCallMiddleware
from ...middleware.warmup import warm
from .config import UpstreamConfig
from .connection import version_hint
from .error_envelope import ErrorEnvelope
from .masking import Mask, secrets_of
from .providers import upstream_app

# Seconds for which an upstream that refused is asked last.
_REST = 5.0
_LONGEST_REST = 60.0
# In a row, until one that says nothing rests.
_SILENCES = 2


ALL_FACES = ("chat", "messages", "responses")
"""What `faces=auto` means in a proxy."""


class Upstream:
    """An app: the middleware before an upstream. Its connections close once it is retired and idle.

    Raises SettingsError or FormatError.
    """

    def __init__(self, config: UpstreamConfig, *, forward_authorization: bool) -> None:
        settings = config.settings
        self.config = config
        app = upstream_app(
            settings,
            forward_authorization=forward_authorization,
            headers={name.decode(): value.decode() for name, value in config.headers},
        )
        if settings.faces == ("auto",):
            settings = settings.replace(faces=ALL_FACES)
        whole: ASGIApp = ToolCallMiddleware(app, settings=settings)
        secrets = secrets_of(settings.upstream_key, settings.upstream_url, config.headers)
        self._mask = Mask(secrets)
        hint = version_hint(settings.upstream_url or "") if settings.upstream_api == "openai" else ""
        self._app = ErrorEnvelope(whole, paths=settings.paths, secrets=secrets, hint=hint)
        self.origin = urlsplit(settings.upstream_url or settings.upstream_api).netloc.rpartition("@")[2]
        self._users = 0
        self._retired = False
        self._rests_until = 0.0
        self._silences = 0

    def __repr__(self) -> str:
        return f"Upstream({self.config.name!r})"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._users += 1
        if scope["type"] == "http":
            record = record_of(scope)
            record.upstream = self.config.name
            record.hide = self._mask.whole if self.config.settings.log_upstream_errors else None
            if self._mask and record.report is not None and record.report.recorder is not None:
                record.report.recorder.hide = self._mask.whole
        try:
            await self._app(scope, receive, send)
        finally:
            self._users -= 1
            if self._retired and not self._users:
                await self._close()

    def warm(self) -> None:
        """Load, in a thread, what the first request would wait for."""
        if self.config.settings.mode != "off":
            warm(self.config.settings)

    async def retire(self) -> None:
        """No request comes any more: what it has ends with the last one."""
        self._retired = True
        if not self._users:
            await self._close()

    async def _close(self) -> None:
        """By ASGI's lifespan, which the apps in between pass on."""

        async def receive() -> Message:
            return {"type": "lifespan.shutdown"}

        await self._app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, no_client)

    def was_silent(self) -> None:
        """It said nothing in time. Once may be chance; it rests when it happens again."""
        self._silences += 1
        if self._silences >= _SILENCES:
            self._rests_until = time.monotonic() + _LONGEST_REST

    def spoke(self) -> None:
        """It answered."""
        self._silences = 0

    def rest(self, retry_after: float | None) -> None:
        """It refused: it is asked after the others for as long as it said, or some seconds."""
        seconds = _REST if retry_after is None else min(retry_after, _LONGEST_REST)
        self._rests_until = time.monotonic() + seconds

    @property
    def rests(self) -> bool:
        """Whether it refused a moment ago."""
        return time.monotonic() < self._rests_until


def in_turn(upstreams: Sequence[Upstream], random: Random) -> list[Upstream]:
    """The order in which to ask: drawn among those with a weight, then the others; those that rest come last."""
    weighted = [upstream for upstream in upstreams if upstream.config.weight is not None]
    drawn = sorted(weighted, key=lambda upstream: _draw(upstream.config.weight or 0.0, random))
    others = [upstream for upstream in upstreams if upstream.config.weight is None]
    return sorted(drawn + others, key=lambda upstream: upstream.rests)


def _draw(weight: float, random: Random) -> float:
    # The first of exponential arrivals: an order drawn without putting back (Efraimidis and Spirakis, 2006).
    return random.expovariate(weight) if weight else math.inf
