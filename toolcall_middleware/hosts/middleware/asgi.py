"""The middleware: guards the scope, collects the body, and hands a request that is ours to a `Responder` of its own.

The object holds configuration and what was learned of the backend. The wrapped app runs in the caller's task, so
context variables and cancellation reach it as without us.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from ...errors import ToolCallError
from ...exchange import Action, Ask, Exchange, Fail, Request
from ...formats import registry
from ...request.one_reading import one_reading
from ...request.overrides import without_overrides
from ...settings import Settings
from ...upstream.backend_memory import BackendMemory
from ...usage.pending_count import completes_whole_answers
from ...usage.tokenizers.load import load
from ..http.bodies import Receive, replay
from ..http.cors import admits_origin, header_of, with_cors
from ..http.messages import App, Scope, Send, answer_error, is_chat, with_length
from ..http.upload import collect, in_the_clear
from .first_word import refusal_of, wants_keys
from .responder import Responder
from .token_counting import WholeUsage
from .unread import is_guarded, pass_without_tools
from .warmup import warm

if TYPE_CHECKING:
    from .rate_limit import RateLimiter
    from .tenants import Tenancy

_log = logging.getLogger("toolcall_middleware")
# Bytes of a body that are read in the event loop: some milliseconds. A larger one would keep others waiting.
_LARGE = 128 * 1024

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
            load(settings.tokenizer)  # now, because it takes time, and its errors are the operator's
            self.app = app
            self.settings = settings
            self._memory = BackendMemory()
            self._guarded = settings.mode != "off" and is_guarded(settings)
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
    _guarded: bool
    _tenancy: Tenancy | None
    _rates: RateLimiter | None

    def _limiter(self) -> RateLimiter:
        if self._rates is None:
            from .rate_limit import RateLimiter

            self._rates = RateLimiter(self.settings.rate_limit_storage, self.settings.rate_limit_failure)
        return self._rates

    async def _other(self, scope: Scope, receive: Receive, send: Send) -> None:
        """What is not read here."""
        if scope["type"] == "lifespan":
            if self.settings.mode != "off":
                warm(self.settings)
            await self.app(scope, receive, send)
            if self._rates is not None:
                await self._rates.aclose()
        elif self._guarded:
            await pass_without_tools(self.app, scope, receive, send, self.settings)
        else:
            await self.app(scope, receive, send)

    async def _refuse(self, scope: Scope, send: Send, error: ToolCallError) -> None:
        scope[REFUSED] = error.code
        await self._refuse_first(scope, send, error)

    async def _refuse_first(self, scope: Scope, send: Send, error: ToolCallError) -> None:
        """Refuse a request, in the app's own words where it would not have let the client in."""
        if wants_keys(self.app):
            for message in (told := await refusal_of(self.app, scope)):
                await send(message)
            if told:
                return
        await answer_error(send, error)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry."""
        settings = self.settings
        if settings.cors_origins and scope["type"] == "http":
            origin = header_of(scope, b"origin")
            if origin is not None and admits_origin(origin, settings.cors_origins):
                # Our errors are sent from outside of the app's own CORS layer.
                send = with_cors(send, origin, replace=False)
        if scope["type"] != "http" or settings.mode == "off" or not is_chat(scope, settings.paths):
            await self._other(scope, receive, send)
            return
        tenant = None
        if self._tenancy is not None:
            try:
                tenant = await self._tenancy.find(scope)
            except ToolCallError as refusal:
                await self._refuse_first(scope, send, refusal)
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
            await self._refuse_first(scope, send, refusal)
            return
        if body is None:  # the client went away in the middle: the app is told as it would have been
            await self.app(scope, replay(messages, receive), send)
            return
        exchange = Exchange(settings, self._memory, defer=True)
        action = await _first_action(exchange, body)
        if isinstance(action, Fail):
            await self._refuse(scope, send, action.error)
            return
        if not isinstance(action, Ask):
            plain = one_reading(without_overrides(body))
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
                await self._refuse(scope, send, refusal)
                return
            send = budget.sender(send, lambda: exchange.emitted_calls)
        await Responder(self.app, scope, receive, send, exchange, settings.paths).run(action.body)


async def _first_action(exchange: Exchange, body: bytes) -> Action:
    """What is to be done with a request. A large one is read in a thread, so that others are answered meanwhile."""
    if len(body) <= _LARGE:
        return exchange.receive(Request(body))[0]
    return (await asyncio.to_thread(exchange.receive, Request(body)))[0]
