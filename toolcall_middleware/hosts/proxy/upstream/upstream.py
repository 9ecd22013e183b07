"""One upstream as it is asked: its app, built once, how many ask it now, and whether it had better rest."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from random import Random
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ....settings import Settings
from ...http.answer import no_client
from ...http.paths import is_chat
from ...http.request_record import record_of
from ...middleware.asgi import ToolCallMiddleware
from ...middleware.warmup import warm
from .connection import version_hint
from .masking import Mask, MaskedAnswer, secrets_of
from .providers import upstream_app

_GLOB = re.compile(r"[*?\[]")


@dataclass(frozen=True, slots=True)
class Rename:
    """Client's models that match `pattern` are `target` to the upstream; a `*` on both sides is the same text."""

    pattern: str
    target: str

    def to_upstream(self, model: str) -> str | None:
        """The upstream's name of a client's `model`; None when this rule is about others."""
        return _carry(model, self.pattern, self.target)

    def to_client(self, model: str) -> str | None:
        """The client's name of an upstream's `model`; None when this rule gives it none."""
        return _carry(model, self.target, self.pattern)


@dataclass(frozen=True, slots=True)
class UpstreamConfig:
    """One `[[upstream]]`. `settings` hold its address, key and times as `upstream_*`, and what it says of formats."""

    name: str
    models: tuple[str, ...]
    settings: Settings
    rename: tuple[Rename, ...] = ()
    headers: tuple[tuple[bytes, bytes], ...] = field(default=(), repr=False)
    weight: float | None = None

    @property
    def holds_credentials(self) -> bool:
        """Whether its requests carry a key, a login or a header of the operator's, whatever their length or name."""
        login = urlsplit(self.settings.upstream_url or "").netloc.rpartition("@")[0]
        return bool(self.settings.upstream_key or login or self.headers)

    def serves(self, model: str) -> bool:
        """Whether requests for a client's `model` may go here."""
        return any(fnmatchcase(model, glob) for glob in self.models) or self._renamed(model) is not None

    def model_for(self, model: str) -> str:
        """What the upstream calls a client's `model`."""
        return self._renamed(model) or model

    def _renamed(self, model: str) -> str | None:
        return next((name for rule in self.rename if (name := rule.to_upstream(model)) is not None), None)

    @property
    def literal_models(self) -> tuple[str, ...]:
        """Clients' models that are named here in full."""
        names = (*self.models, *(rule.pattern for rule in self.rename))
        return tuple(dict.fromkeys(name for name in names if not _GLOB.search(name)))

    @property
    def has_globs(self) -> bool:
        """Whether the upstream's own list is needed to know its models."""
        return any(_GLOB.search(name) for name in (*self.models, *(rule.pattern for rule in self.rename)))

    def client_names(self, model: str) -> Iterator[str]:
        """Under which names clients reach the upstream's `model`, as far as globs tell."""
        for rule in self.rename:
            name = rule.to_client(model)
            if name is not None and self.model_for(name) == model:
                yield name
        if any(fnmatchcase(model, glob) for glob in self.models) and self.model_for(model) == model:
            yield model


def aliases_of(settings: Settings) -> list[Rename]:
    """The rules of `model_aliases`."""
    return [Rename(*rule.split("=", 1)) for rule in settings.model_aliases]


def _carry(model: str, pattern: str, target: str) -> str | None:
    """`model` rewritten from one pattern to the other; None when it does not match or the `*` has no value."""
    before, star, after = pattern.partition("*")
    if not star:
        return target if model == pattern and "*" not in target else None
    if len(model) < len(before) + len(after) or not (model.startswith(before) and model.endswith(after)):
        return None
    return target.replace("*", model[len(before) : len(model) - len(after)], 1)


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
        self._app: ASGIApp = ToolCallMiddleware(app, settings=settings)
        self._mask = Mask(secrets_of(settings.upstream_key, settings.upstream_url, config.headers))
        self._hint = version_hint(settings.upstream_url or "") if settings.upstream_api == "openai" else ""
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
            chat = is_chat(scope, self.config.settings.paths)
            send = MaskedAnswer(send, self._mask, chat=chat, hint=self._hint).send
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
