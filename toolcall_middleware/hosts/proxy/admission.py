"""Who may ask the proxy for what, by a request's `Host`, `Origin`, key and path."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable

from starlette.types import Scope

from ...errors import ToolCallError
from ...settings import Settings
from ..http.cors import (
    admits_host,
    admits_origin,
    header_of,
    is_local_origin,
    is_loopback,
)
from ..http.headers import without
from ..http.paths import ends_with, matches, normal_path_of
from ..http.request_record import record_of
from ..middleware.tenants import TENANT_KEY


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
    return server is not None and server[1] is not None and is_loopback(str(server[0]))


def _has_one_host(scope: Scope) -> bool:
    hosts = sum(name.lower() == b"host" for name, _ in scope["headers"])
    return hosts == 1 or (not hosts and scope.get("http_version") == "1.0")


def _refusal(why: str) -> ToolCallError:
    return ToolCallError("host_not_allowed", f"This proxy does not answer here: {why}.")


def _short(value: str | None) -> str:
    return repr((value or "")[:100])


# `NAME=KEY`. A key that ends in base64's own `=` is one without a name.
_NAMED = re.compile(r"([A-Za-z0-9][A-Za-z0-9_.-]{0,63})=(?=.*[^=])(.+)")
_SHOW_KEYS = frozenset({b"authorization", b"x-api-key"})


class Keys:
    """The keys that clients show as `Authorization: Bearer KEY`, or else as `x-api-key: KEY`."""

    def __init__(self, keys: Iterable[str]) -> None:
        self._keys = [_named(key) for key in keys]

    def opened(self, scope: Scope) -> Scope:
        """The scope of a request that shows one of the keys, or of any request where there are none.

        Both headers hold the key then. The name of a key that was given as `NAME=KEY` is the request's tenant. Raises
        ToolCallError (401).
        """
        if not self._keys:
            return scope
        key, tenant = self._shown(scope)
        if key is None:
            message = "This proxy wants one of its own keys as `Authorization: Bearer KEY`."
            raise ToolCallError("invalid_api_key", message, headers={"www-authenticate": "Bearer"})
        headers = without(scope["headers"], _SHOW_KEYS)
        scope = {**scope, "headers": [*headers, (b"authorization", b"Bearer " + key), (b"x-api-key", key)]}
        if tenant is not None:
            record_of(scope).tenant = tenant
            scope = {**scope, TENANT_KEY: tenant}
        return scope

    def _shown(self, scope: Scope) -> tuple[bytes | None, str | None]:
        """(the key that was shown, its name); None for a key that is not ours."""
        shown = [value for name, value in scope["headers"] if name.lower() == b"authorization"]
        if not shown:
            shown = [b"Bearer " + value for name, value in scope["headers"] if name.lower() == b"x-api-key"]
        if len(shown) != 1:
            return None, None
        scheme, _, given = shown[0].partition(b" ")
        key = given.strip()
        # All keys are compared, so that the time does not reveal how much of one matched.
        matches = [(hmac.compare_digest(key, known), name) for name, known in self._keys]
        names = [name for matches_it, name in matches if matches_it]
        return (key, names[0]) if names and scheme.lower() == b"bearer" else (None, None)


def _named(key: str) -> tuple[str | None, bytes]:
    found = _NAMED.fullmatch(key)
    return (found[1], found[2].encode()) if found else (None, key.encode())


_LOOKS = frozenset({"GET", "HEAD", "OPTIONS"})
_LISTED = ("/models", "/models/*")
"""Clients only read these: OpenAI deletes a model by DELETE, llama.cpp's router unloads one by a POST below it."""


def check_path(scope: Scope, settings: Settings) -> None:
    """Refuse a request whose path is neither in `forward_paths` nor in `paths` (404). Raises ToolCallError.

    A path that servers may resolve in different ways (dot segments, `;params`, nested escapes) is a 400, because the
    upstream might resolve it to another one than was checked. For models any method that changes something is a 405:
    it would be done with the operator's key. `forward_paths=*` allows everything.
    """
    if "*" in settings.forward_paths:
        return
    path = normal_path_of(scope)
    given = scope["path"].removeprefix(scope.get("root_path", "").rstrip("/"))
    if path != "/" + "/".join(part for part in given.casefold().split("/") if part):
        raise ToolCallError("invalid_request", "The path must be spelled plainly, without dots, `;` or `\\`.")
    if not matches(path, settings.forward_paths) and not ends_with(path, settings.paths):
        message = f"There is no {scope['method']} {given[:100]} here; the setting forward_paths says what there is."
        raise ToolCallError("unknown_url", message)
    if scope["method"] not in _LOOKS and matches(path, _LISTED):
        message = f"{scope['method']} {given[:100]} is not forwarded; the setting forward_paths says what is."
        raise ToolCallError("method_not_allowed", message)
