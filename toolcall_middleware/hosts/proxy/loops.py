"""A proxy whose upstream is itself, seen at start by its address, and later by its mark in `Via` (RFC 9110, 7.6.3)."""

from __future__ import annotations

import ipaddress
import secrets
import socket
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.types import Scope

from ...errors import SettingsError, ToolCallError
from ...settings import hide_login
from ..http.headers import Headers, without

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
    hops = [value for _, value in via(scope)]
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
