"""Which hosts and web pages may use the proxy, by the request's `Host` and `Origin`."""

from __future__ import annotations

from starlette.types import Scope

from ...errors import ToolCallError
from ...settings import Settings
from ..http.cors import (
    admits_host,
    admits_origin,
    header_of,
    is_local_origin,
    is_of_this_machine,
)


def admitted_origin(scope: Scope, settings: Settings, *, guards: bool) -> str | None:
    """The request's `Origin` where it is in `cors_origins`; None for any other. Raises ToolCallError.

    `Host` must be in `allowed_hosts`. Where that is empty, the proxy is asked on loopback, and `guards` says that
    a client without a key uses the operator's credentials, `Host` and `Origin` must name this machine (403).
    A request without exactly one `Host` is a 400 (RFC 9112, 3.2); HTTP/1.0 may omit it.
    """
    if not _has_one_host(scope):
        raise ToolCallError("invalid_request", "Send exactly one Host header.")
    guards = guards and _on_loopback(scope)
    host, origin = header_of(scope, b"host"), header_of(scope, b"origin")
    if (settings.allowed_hosts or guards) and not admits_host(host, settings.allowed_hosts):
        raise _refusal(f"the host {_short(host)} is not in allowed_hosts")
    if origin is None or admits_origin(origin, settings.cors_origins):
        return origin
    if guards and not is_local_origin(origin):
        raise _refusal(f"the origin {_short(origin)} is not in cors_origins")
    return None


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
