"""Which HTTP client asks an upstream: our own on httptools' parser, or httpx."""

from __future__ import annotations

import importlib.util
import ssl

from ...http.client_library import httpx
from .asking import Client
from .connection import proxy_of_environment
from .httpx_client import HttpxClient

# Below the five seconds after which uvicorn and Node close an idle connection, so that none is used while it closes.
_KEEPALIVE = 3.0
# Connections that are kept for later, at most.
_IDLE = 100

HAS_PARSER = importlib.util.find_spec("httptools") is not None
"""Whether httptools is there: it is compiled, and not for every machine."""


def client_to(origin: httpx.URL, *, connections: int | None, tls: ssl.SSLContext | None) -> Client:
    """What asks `origin`, over `connections` at a time at most. tls: what `tls_to` says of it.

    httpx asks by way of a proxy that the environment names, and everything where httptools is missing.
    """
    proxy = proxy_of_environment(origin)
    if proxy is None and HAS_PARSER:
        from .http1.client import OriginClient

        return OriginClient(origin, connections=connections, idle=_IDLE, keepalive=_KEEPALIVE, tls=tls)
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=_IDLE, keepalive_expiry=_KEEPALIVE)
    return HttpxClient(origin, httpx.AsyncHTTPTransport(limits=limits, proxy=proxy, verify=tls or False))
