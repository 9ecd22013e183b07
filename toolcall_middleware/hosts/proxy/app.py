"""The whole proxy, put together from the settings: signals, log, keys, router, each upstream behind the middleware."""

from __future__ import annotations

from functools import partial
from urllib.parse import urlsplit

from starlette.types import ASGIApp

from ...errors import SettingsError
from ...settings import Settings
from .access_log import AccessLog, write_to_stdout
from .auth import Gate
from .connections import bound_logging
from .forward_paths import ForwardPaths
from .lifetime import Lifetime
from .router import Router
from .strangers import Strangers
from .upstream.config import UpstreamConfig
from .upstream.masking import secrets_of
from .upstream.providers import PROVIDERS, with_mode
from .upstream.upstream import Upstream
from .upstreams_file import read_upstreams


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
    if settings.upstreams_file is not None:
        app = Router(
            partial(read_upstreams, settings.upstreams_file, settings),
            forward_authorization=forward_authorization,
            max_request_bytes=settings.max_request_bytes,
            max_response_bytes=settings.max_response_bytes,
            upload_timeout=settings.upload_timeout,
        )
        reload = app.reload
    else:
        app = Upstream(_only(with_mode(settings, settings.upstream_api)), forward_authorization=forward_authorization)
    gate = Gate(ForwardPaths(app, settings), settings.api_keys)
    strangers = Strangers(gate, settings, open_with_key=not settings.api_keys and _holds_key(app))
    if settings.access_log != "off":
        write_to_stdout()
    logged = AccessLog(strangers, style=settings.access_log, peek=isinstance(app, Upstream))
    return Lifetime(logged, drain=gate.drain, grace=settings.shutdown_grace, reload=reload)


def _holds_key(app: Upstream | Router) -> bool:
    """Whether requests get a key of the operator's on their way."""
    configs = app.upstreams if isinstance(app, Router) else (app.config,)
    return any(
        secrets_of(config.settings.upstream_key, config.settings.upstream_url, config.headers) for config in configs
    )


def _only(settings: Settings) -> UpstreamConfig:
    """The upstream of the `upstream_*` settings; every model is its own."""
    api = settings.upstream_api
    url = settings.upstream_url or (PROVIDERS[api].url if api in PROVIDERS else None)
    if url is None and (api == "openai" or api in PROVIDERS):
        raise SettingsError("There is no upstream: give --upstream URL or set TOOLCALL_UPSTREAM_URL.")
    return UpstreamConfig(urlsplit(url or "").netloc.rpartition("@")[2], ("*",), settings)
