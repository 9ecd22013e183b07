"""The middleware: guards the scope, collects the body, and hands a request that is ours to a `Responder` of its own.

The object holds configuration and what was learned of the backend. The wrapped app runs in the caller's task, so
context variables and cancellation reach it as without us.
"""

from __future__ import annotations

import logging
from importlib import metadata
from typing import TYPE_CHECKING, Any

from ...errors import ToolCallError
from ...exchange import Ask, Exchange, Fail, Request
from ...formats import registry
from ...request.overrides import without_overrides
from ...settings import Settings
from ...upstream.backend_memory import BackendMemory
from ...usage.pending_count import completes_whole_answers
from ...usage.tokenizers.load import load
from ..http.bodies import Receive, replay
from ..http.messages import App, Scope, Send, answer_error, is_chat, with_length
from ..http.upload import collect, in_the_clear
from .responder import Responder
from .token_counting import WholeUsage
from .warmup import warm

if TYPE_CHECKING:
    from .rate_limit import RateLimiter
    from .tenants import Tenancy

_log = logging.getLogger("toolcall_middleware")

REFUSED = "toolcall.refused"
"""Where a scope holds the code of a request that the middleware refused before it asked the app: who chooses among
apps must not take that for the app's own refusal."""


class ToolCallMiddleware:
    """Gives a chat-completions app OpenAI tool calling.

    app: any ASGI app. settings: a Settings; without one they come from the `TOOLCALL_*` variables.
    options: fields of Settings, which win over both.
    Raises SettingsError or FormatError for what is not allowed.
    """

    if TYPE_CHECKING:
        # For Starlette's add_middleware, whose type wants `app` by position. It passes it by name in older versions.
        def __init__(self, app: App, /, *, settings: Settings | None = None, **options: Any) -> None: ...

    else:

        def __init__(self, app: App, *, settings: Settings | None = None, **options: Any) -> None:
            if settings is None:
                settings = Settings.from_env(**options)
            elif options:
                settings = settings.replace(**options)
            registry.of_settings(settings)
            if settings.allowlist and not settings.by_hand("allowlist_mode"):
                _log.warning(
                    "%s is set and does nothing, because allowlist_mode is off: set it to enforce, warn or off.",
                    settings.where("allowlist"),
                )
            if settings.mode != "off":
                shown = (_version(), settings.mode, settings.format, ",".join(settings.paths))
                _log.info("active: version=%s; mode=%s; format=%s; paths=%s", *shown)
            load(settings.tokenizer)  # now, because it takes time, and its errors are the operator's
            self.app = app
            self.settings = settings
            self._memory = BackendMemory()
            self._tenancy: Tenancy | None = None
            self._rates: RateLimiter | None = None
            if settings.rate_limit is not None or settings.tenants_file is not None:
                from .tenants import Tenancy

                self._tenancy = Tenancy(settings)
                if self._tenancy.limits_rates:
                    self._limiter()

    app: App
    settings: Settings
    _memory: BackendMemory
    _tenancy: Tenancy | None
    _rates: RateLimiter | None

    def _limiter(self) -> RateLimiter:
        if self._rates is None:
            from .rate_limit import RateLimiter

            self._rates = RateLimiter(self.settings.rate_limit_storage, self.settings.rate_limit_failure)
        return self._rates

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry."""
        settings = self.settings
        if scope["type"] != "http" or settings.mode == "off" or not is_chat(scope, settings.paths):
            if scope["type"] == "lifespan" and settings.mode != "off":
                warm(settings)
            await self.app(scope, receive, send)
            if scope["type"] == "lifespan" and self._rates is not None:
                await self._rates.aclose()
            return
        tenant = None
        if self._tenancy is not None:
            try:
                tenant = self._tenancy.find(scope)
            except ToolCallError as refusal:
                await answer_error(send, refusal)
                return
            settings = tenant.settings
        try:
            body, messages = await collect(
                receive, scope, limit=settings.max_request_bytes, within=settings.upload_timeout
            )
            untouched = messages, scope
            if body is not None:
                body, messages, scope = in_the_clear(body, messages, scope, settings.max_request_bytes)
        except ToolCallError as refusal:
            await answer_error(send, refusal)
            return
        if body is None:  # the client went away in the middle: the app is told as it would have been
            await self.app(scope, replay(messages, receive), send)
            return
        exchange = Exchange(settings, self._memory, defer=True)
        action = exchange.receive(Request(body))[0]
        if isinstance(action, Fail):
            await _refuse(scope, send, action.error)
            return
        if not isinstance(action, Ask):
            plain = without_overrides(body)
            if plain is body:
                messages, scope = untouched
            else:
                scope = {**scope, "headers": with_length(scope, len(plain))}
                messages = [{"type": "http.request", "body": plain, "more_body": False}]
            if completes_whole_answers(settings):
                passing = WholeUsage(self.app, settings, self._memory, plain)
                await passing.run(scope, replay(messages, receive), send)
            else:
                await self.app(scope, replay(messages, receive), send)
            return
        if tenant is not None and settings.rate_limit is not None and exchange.offers_tools:
            try:
                budget = await self._limiter().admit(tenant.key, settings.rate_limit)
            except ToolCallError as refusal:
                await _refuse(scope, send, refusal)
                return
            send = budget.sender(send, lambda: exchange.emitted_calls)
        await Responder(self.app, scope, receive, send, exchange, settings.paths).run(action.body)


def _version() -> str:
    """The installed version, for the log; `unknown` for a source tree that nobody has installed."""
    try:
        return metadata.version("toolcall-middleware")
    except metadata.PackageNotFoundError:
        return "unknown"


async def _refuse(scope: Scope, send: Send, error: ToolCallError) -> None:
    scope[REFUSED] = error.code
    _log.info("refused: status=%s; code=%s; param=%s", error.status, error.code, error.param or "-")
    await answer_error(send, error)
