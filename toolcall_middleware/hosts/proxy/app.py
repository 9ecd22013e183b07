"""The proxy: every request takes one way in, `Proxy.__call__`, and `create_proxy` builds it from the settings."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from ...errors import SettingsError, ToolCallError
from ...observe.report import observers_of
from ...settings import Settings
from ..http.cors import ReadableAnswer, is_preflight, send_preflight
from ..http.errors import send_json
from ..http.headers import raw_path
from ..http.watch import watched
from ..middleware.face_answer import refuse
from .access_log import AccessLog, write_to_stdout
from .admission import Keys, admitted_origin, check_path, marked, new_mark
from .connections import bound_logging
from .health import Readiness
from .lifetime import Lifetime
from .props import with_template
from .router import Router
from .upstream.providers import PROVIDERS, with_mode
from .upstream.upstream import Upstream, UpstreamConfig
from .upstreams_file import read_upstreams

if TYPE_CHECKING:
    from .inspector.store import Store

# The connection closes with the answer: the client's next attempt reaches another process.
_LEAVE = {"connection": "close", "retry-after": "1"}
_HEALTH, _READY, _HELLO = b"/healthz", b"/readyz", (b"/", b"/api/hello")


def create_proxy() -> ASGIApp:
    """The proxy as an ASGI app, configured by `TOOLCALL_*`: `uvicorn --factory toolcall_middleware:create_proxy`.

    Raises SettingsError or FormatError.
    """
    return proxy_of(Settings.from_env())


def proxy_of(settings: Settings) -> Proxy:
    """The proxy that the settings describe. Raises SettingsError or FormatError."""
    bound_logging()
    # Where the proxy has keys of its own, a client's `authorization` is one of them and is not sent to an upstream.
    forward_authorization = not settings.api_keys
    only = _only(with_mode(settings)) if settings.upstreams_file is None else None
    app: Upstream | Router
    if only is None or settings.model_aliases:
        app = Router(
            partial(read_upstreams, settings.upstreams_file or "", settings) if only is None else lambda: [only],
            forward_authorization=forward_authorization,
            max_request_bytes=settings.max_request_bytes,
            max_response_bytes=settings.max_response_bytes,
            upload_timeout=settings.upload_timeout,
        )
    else:
        app = Upstream(only, forward_authorization=forward_authorization)
    if settings.access_log != "off":
        write_to_stdout()
    upstreams = app.apps if isinstance(app, Router) else lambda: (app,)
    return Proxy(
        app,
        settings,
        upstreams=upstreams,
        reload=app.reload if isinstance(app, Router) and only is None else None,
        peek=isinstance(app, Upstream),
    )


class Proxy:
    """An ASGI app before `app`, which is the upstream or chooses one. Each step either answers or lets pass.

    upstreams: those in use. reload: what SIGHUP does. peek: `app` does not note a request's model, so the log reads it.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        *,
        upstreams: Callable[[], Sequence[Upstream]] = tuple,
        reload: Callable[[], object] | None = None,
        peek: bool = False,
    ) -> None:
        self._app = app
        self._settings = settings
        self._upstreams = upstreams
        self._drains = False
        self._mark = new_mark()
        self._keys = Keys(settings.api_keys)
        self._log = AccessLog(style=settings.access_log, peek=peek)
        self._lifetime = Lifetime(drain=self.drain, grace=settings.shutdown_grace, reload=reload)
        self._store: Store | None = None
        self._inspector: ASGIApp | None = None
        if settings.inspector is not None:
            self._inspect(settings.inspector)
        self._observers = observers_of(settings, [] if self._store is None else [self._store])
        self._metrics: ASGIApp | None = None
        self._metrics_path = b""
        up = None
        if settings.metrics != "off":
            from ...observe.metrics import shared_metrics
            from ..http.metrics_page import MetricsApp

            self._metrics = MetricsApp(shared_metrics())
            self._metrics_path = b"/metrics" if settings.metrics == "on" else settings.metrics.encode()
            up = shared_metrics().upstream_is
        self._readiness = Readiness(upstreams, up)
        self._unwatched = {_HEALTH, _READY, self._metrics_path}

    def _inspect(self, token: str) -> None:
        from .inspector.app import Inspector
        from .inspector.store import Store

        self._store = Store()
        self._inspector = Inspector(self._logged, self._store, token, template_of=self._template_of, sends=True)

    @property
    def addresses(self) -> list[str]:
        """The upstreams' base addresses."""
        return [one.config.settings.upstream_url or "" for one in self._upstreams()]

    def drain(self) -> None:
        """Take no new requests: the process is about to end."""
        self._drains = True
        if self._store is not None:
            self._store.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry: log, host, key, path; `app` limits and routes."""
        if scope["type"] == "lifespan":
            await self._lifetime.lifespan(self._app, scope, receive, send)
            return
        with self._lifetime.request():
            if scope["type"] != "http":
                await self._app(scope, receive, send)  # a websocket, which it closes
                return
            # ASGI allows any iterable of headers; a generator can be read only once.
            scope = {**scope, "headers": list(scope["headers"])}
            await (self._inspector or self._logged)(scope, receive, send)

    async def _logged(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._log.line(scope, receive, send) as (own, taking, giving):
            if self._observers is None or raw_path(scope).rstrip(b"/") in self._unwatched:
                await self._answer(own, taking, giving)
            else:
                await watched(self._answer, self._observers, own, taking, giving)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        settings, method, path = self._settings, scope["method"], raw_path(scope)
        try:
            scope = marked(scope, self._mark)
        except ToolCallError as refusal:
            await refuse(scope, send, refusal)
            return
        looks = method in {"GET", "HEAD"}
        metrics = self._metrics if path.rstrip(b"/") == self._metrics_path else None
        if looks and path == _READY and not self._drains:
            await self._readiness.answer(scope, send)
            return
        if metrics is not None and settings.metrics_open:
            await metrics(scope, receive, send)
            return
        try:
            origin = admitted_origin(scope, settings, guards=self._opens_with_credentials())
            if origin is not None:
                if is_preflight(scope):
                    await send_preflight(scope, send, origin)
                    return
                send = ReadableAnswer(send, origin, replace=True).send
            if looks and path in {_HEALTH, _READY}:
                if self._drains:
                    await send_json(send, 503, b'{"status":"draining"}', _LEAVE)
                else:
                    await send_json(send, 200, b'{"status":"ok"}')
                return
            if method == "HEAD" and path in _HELLO:  # Claude Code asks whether there is a server
                await send_json(send, 200, b"")
                return
            scope = self._opened(scope)
            if metrics is not None:
                await metrics(scope, receive, send)
                return
            check_path(scope, settings)
        except ToolCallError as refusal:
            await refuse(scope, send, refusal)
            return
        await self._app(scope, receive, send)

    def _opened(self, scope: Scope) -> Scope:
        """The scope for the app, once the client has shown a key. Raises ToolCallError."""
        if self._drains:
            message = "This proxy is about to end and takes no new requests."
            raise ToolCallError("upstream_error", message, status=503, headers=_LEAVE)
        return self._keys.opened(scope)

    def _opens_with_credentials(self) -> bool:
        """Whether a client without a key asks an upstream with the operator's credentials. A reload may change that."""
        return not self._settings.api_keys and any(one.config.holds_credentials for one in self._upstreams())

    def _template_of(self, upstream: str | None) -> str | None:
        """Whose chat template an upstream's answers are read by. upstream: its name, None where there is only one."""
        configs = [one.config for one in self._upstreams()]
        return next((one.settings.template for one in configs if one.name == upstream), configs[0].settings.template)


def _only(settings: Settings) -> UpstreamConfig:
    """The upstream of the `upstream_*` settings; every model is its own."""
    api = settings.upstream_api
    url = settings.upstream_url or (PROVIDERS[api].url if api in PROVIDERS else None)
    if url is None:
        raise SettingsError("There is no upstream: give --upstream URL or set TOOLCALL_UPSTREAM_URL.")
    return UpstreamConfig(urlsplit(url).netloc.rpartition("@")[2], ("*",), with_template(settings))
