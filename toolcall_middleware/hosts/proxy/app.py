"""The whole proxy, put together from the settings: signals, log, keys, router, each upstream behind the middleware."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlsplit

from starlette.types import ASGIApp

from ...errors import SettingsError
from ...observe.observers import observers_of
from ...settings import Settings
from ..http.metrics_page import MetricsPage
from .access_log import AccessLog, write_to_stdout
from .auth import Gate
from .connections import bound_logging
from .forward_paths import ForwardPaths
from .health import PATHS, Readiness
from .lifetime import Lifetime
from .props import with_template
from .router import Router
from .strangers import Strangers
from .upstream.config import UpstreamConfig
from .upstream.providers import PROVIDERS, with_mode
from .upstream.upstream import Upstream
from .upstreams_file import read_upstreams
from .watch import Watch


def create_proxy() -> ASGIApp:
    """The proxy as an ASGI app, configured by `TOOLCALL_*`: `uvicorn --factory toolcall_middleware:create_proxy`.

    Raises SettingsError or FormatError.
    """
    settings = Settings.from_env()
    bound_logging()
    # What the client shows is else a key of this proxy and nobody else's business.
    forward_authorization = not settings.api_keys
    app: Upstream | Router
    reload = None
    only: UpstreamConfig | None = None
    if settings.upstreams_file is None:
        only = _only(with_mode(settings))
    if only is None or settings.model_aliases:
        app = Router(
            partial(read_upstreams, settings.upstreams_file or "", settings) if only is None else lambda: [only],
            forward_authorization=forward_authorization,
            max_request_bytes=settings.max_request_bytes,
            max_response_bytes=settings.max_response_bytes,
            upload_timeout=settings.upload_timeout,
        )
        reload = app.reload if only is None else None
    else:
        app = Upstream(only, forward_authorization=forward_authorization)
    metrics_path = "/metrics" if settings.metrics == "on" else settings.metrics
    inner: ASGIApp = ForwardPaths(app, settings)
    if settings.metrics != "off" and not settings.metrics_open:
        inner = MetricsPage(inner, metrics_path)
    gate = Gate(inner, settings.api_keys)
    store = None
    if settings.inspector is not None:
        from .inspector.store import Store

        store = Store()
    observers = observers_of(settings, [] if store is None else [store])
    tell = None
    if settings.metrics != "off":
        from ...observe.metrics import shared_metrics

        tell = shared_metrics().upstream_is
    upstreams = partial(getattr, app, "apps") if isinstance(app, Router) else partial(tuple, [app])
    strangers = Strangers(gate, settings, open_with_key=partial(_opens_with_credentials, app, settings))
    outer: ASGIApp = Readiness(strangers, upstreams, tell)
    if settings.metrics != "off" and settings.metrics_open:
        outer = MetricsPage(outer, metrics_path)
    if observers is not None:
        outer = Watch(outer, observers, {*PATHS, metrics_path.encode()})
    if settings.access_log != "off":
        write_to_stdout()
    logged: ASGIApp = AccessLog(outer, style=settings.access_log, peek=isinstance(app, Upstream))
    if store is not None and settings.inspector is not None:
        from .inspector.app import Inspector

        logged = Inspector(logged, store, settings.inspector, template_of=partial(_template_of, app))

    def drain() -> None:
        gate.drain()
        if store is not None:
            store.close()

    return Lifetime(logged, drain=drain, grace=settings.shutdown_grace, reload=reload)


def _template_of(app: Upstream | Router, upstream: str | None) -> str | None:
    """Whose chat template the answers of an upstream are read by. upstream: its name, None where there is only one."""
    configs = app.upstreams if isinstance(app, Router) else (app.config,)
    return next((one.settings.template for one in configs if one.name == upstream), configs[0].settings.template)


def _opens_with_credentials(app: Upstream | Router, settings: Settings) -> bool:
    """Whether a client without a key asks an upstream with the operator's credentials. A reload may change that."""
    configs = app.upstreams if isinstance(app, Router) else (app.config,)
    return not settings.api_keys and any(config.holds_credentials for config in configs)


def _only(settings: Settings) -> UpstreamConfig:
    """The upstream of the `upstream_*` settings; every model is its own."""
    api = settings.upstream_api
    url = settings.upstream_url or (PROVIDERS[api].url if api in PROVIDERS else None)
    if url is None:
        raise SettingsError("There is no upstream: give --upstream URL or set TOOLCALL_UPSTREAM_URL.")
    return UpstreamConfig(urlsplit(url).netloc.rpartition("@")[2], ("*",), with_template(settings))
