"""Who may ask the proxy for what, by a request's `Host`, `Origin`, key and path."""

from __future__ import annotations

import hmac
import ipaddress
import re
import secrets
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.types import Scope

from ...errors import SettingsError, ToolCallError
from ...settings import Settings, hide_login
from ..http.cors import admits_host, admits_origin, is_local_origin, is_loopback
from ..http.headers import Headers, header_of, logins, values_of, without
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
    hosts = len(values_of(scope["headers"], b"host"))
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
        shown = logins(scope["headers"])
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


_VIA = b"via"
_PORTS = {"http": 80, "https": 443}
_LOOPBACK = frozenset({"127.0.0.1", "::1"})
_EVERY = frozenset({"0.0.0.0", "::"})  # noqa: S104 - compared, not listened on


def new_mark() -> bytes:
    """A name for one proxy in `Via`, unlike that of any other."""
    return b"toolcall-" + secrets.token_hex(8).encode()


def via(scope: Scope) -> Headers:
    """The `Via` headers of a request."""
    return [pair for pair in scope["headers"] if pair[0].lower() == _VIA]


def marked(scope: Scope, mark: bytes) -> Scope:
    """The request with the mark added to its `Via`. Raises ToolCallError (508) where the mark is there already."""
    hops = values_of(scope["headers"], _VIA)
    if any(mark in hop for hop in hops):
        message = (
            "This request has already passed this proxy: the address of an upstream leads back here. "
            "Correct upstream_url, or the url in the upstreams file."
        )
        raise ToolCallError("loop_detected", message, headers={"x-should-retry": "false"})
    hops.append(b"1.1 " + mark)
    return {**scope, "headers": [*without(scope["headers"], {_VIA}), (_VIA, b", ".join(hops))]}


def refuse_itself(urls: Iterable[str], host: str, port: int) -> None:
    """Raises SettingsError where one of the upstreams' addresses is the one at which this proxy listens."""
    for url in urls:
        if _is_itself(url, host, port):
            raise SettingsError(
                f"The upstream {hide_login(url)} is the address of this proxy (--host {host} --port {port}): "
                "give the backend's own address, or another --port."
            )


def _is_itself(url: str, host: str, port: int) -> bool:
    try:
        parts = urlsplit(url)
        there = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return False  # refused where the upstream is made
    if there != port:
        return False
    asked, listening = _addresses(parts.hostname or ""), _addresses(host)
    if listening & _EVERY:
        return any(_is_of_this_machine(address) for address in asked)
    # To connect to `0.0.0.0` is to connect to this machine.
    return bool(asked & listening) or bool(asked & _EVERY and listening & _LOOPBACK)


def _addresses(host: str) -> frozenset[str]:
    """The addresses of a host's name, as far as no name server need be asked."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "":
        return _EVERY
    if name == "localhost" or name.endswith(".localhost") or name == socket.gethostname().lower():
        return _LOOPBACK | {name}
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return frozenset({name})
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return frozenset({str(mapped or address)})


def _is_of_this_machine(address: str) -> bool:
    """Whether a socket can be bound to an address."""
    if address in _EVERY | _LOOPBACK:
        return True
    try:
        family = socket.AF_INET6 if ipaddress.ip_address(address).version == 6 else socket.AF_INET
        with socket.socket(family) as probe:
            probe.bind((address, 0))
    except (OSError, ValueError):
        return False
    return True
