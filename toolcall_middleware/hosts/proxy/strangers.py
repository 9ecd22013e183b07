"""Who may ask at all, by the request's `Host` and `Origin`; CORS for web pages that the operator names."""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import ASGIApp, Receive, Scope, Send

from ...errors import ToolCallError
from ...settings import Settings
from ..http.cors import (
    admits_host,
    admits_origin,
    header_of,
    is_local_origin,
    is_of_this_machine,
    preflight_headers,
    with_cors,
)
from ..middleware.face_errors import refuse


class Strangers:
    """Refuses what a foreign web page sends, with a 403; answers preflights of pages in `cors_origins`.

    `Host` must be in `allowed_hosts`. Where that is empty, the proxy is asked on loopback, and `open_with_key` says
    that a client without a key uses the operator's credentials, `Host` and `Origin` must name this machine.
    A request without exactly one `Host` is a 400 (RFC 9112, 3.2); HTTP/1.0 may omit it.
    """

    def __init__(self, app: ASGIApp, settings: Settings, *, open_with_key: Callable[[], bool]) -> None:
        self._app = app
        self._hosts = settings.allowed_hosts
        self._origins = settings.cors_origins
        self._open_with_key = open_with_key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        guards = self._open_with_key() and _on_loopback(scope)
        if not _has_one_host(scope):
            await refuse(scope, send, ToolCallError("invalid_request", "Send exactly one Host header."))
            return
        host, origin = header_of(scope, b"host"), header_of(scope, b"origin")
        if (self._hosts or guards) and not admits_host(host, self._hosts):
            await refuse(scope, send, _refusal(f"the host {_short(host)} is not in allowed_hosts"))
            return
        if origin is None:
            await self._app(scope, receive, send)
            return
        admitted = admits_origin(origin, self._origins)
        if guards and not admitted and not is_local_origin(origin):
            await refuse(scope, send, _refusal(f"the origin {_short(origin)} is not in cors_origins"))
            return
        if not admitted:
            await self._app(scope, receive, send)
        elif scope["method"] == "OPTIONS" and header_of(scope, b"access-control-request-method") is not None:
            await send({"type": "http.response.start", "status": 204, "headers": preflight_headers(scope, origin)})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        else:
            await self._app(scope, receive, with_cors(send, origin, replace=True))


def _on_loopback(scope: Scope) -> bool:
    """Whether the request came in at an address of this machine alone; a Unix socket has no pages."""
    server = scope.get("server")
    return server is not None and server[1] is not None and is_of_this_machine(str(server[0]))


def _has_one_host(scope: Scope) -> bool:
    hosts = sum(name.lower() == b"host" for name, _ in scope["headers"])
    return hosts == 1 or (not hosts and scope.get("http_version") == "1.0")


def _refusal(why: str) -> ToolCallError:
    return ToolCallError("host_not_allowed", f"This proxy does not answer here: {why}.")


def _short(value: str | None) -> str:
    return repr((value or "")[:100])
