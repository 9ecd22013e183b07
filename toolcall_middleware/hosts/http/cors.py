"""Which web pages may ask: the names under which a host is asked (`Host`), where a page came from (`Origin`), and CORS.

A page of any site can send requests to a server on loopback, and by DNS rebinding even read the answers. A proxy that
holds a key and wants none must tell such a page from the user's own programs.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.types import Message, Scope, Send

from .headers import Headers

_PORT = re.compile(r":[0-9]*$")
_EXPOSED = b"x-request-id, x-toolcall, x-toolcall-error, x-ratelimit-limit, x-ratelimit-remaining, x-ratelimit-reset"
_ALLOW_ORIGIN = b"access-control-allow-origin"


def header_of(scope: Scope, name: bytes) -> str | None:
    """The header's value, or None. Two values are joined to one that no list holds."""
    values = [value for key, value in scope.get("headers", ()) if key.lower() == name]
    return b", ".join(values).decode("latin-1") if values else None


def is_loopback(host: str) -> bool:
    """Whether a host's name, without a port, is one that only this machine answers to."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    mapped = address.ipv4_mapped if isinstance(address, ipaddress.IPv6Address) else None
    return (mapped or address).is_loopback


def admits_host(host: str | None, allowed: Iterable[str]) -> bool:
    """Whether a `Host` header is one of `allowed`; where none are given, a name of this machine."""
    name = _PORT.sub("", (host or "").strip().lower())
    allowed = tuple(allowed)
    if not allowed:
        return is_loopback(name)
    return any(each == "*" or name == each or (each.startswith("*.") and name.endswith(each[1:])) for each in allowed)


def admits_origin(origin: str, allowed: Iterable[str]) -> bool:
    """Whether a page of `origin` is one of `allowed`."""
    given = origin.strip().lower().rstrip("/")
    return any(each in {"*", given} for each in allowed)


def is_local_origin(origin: str) -> bool:
    """Whether a page comes from this machine."""
    try:
        return is_loopback(urlsplit(origin.strip().lower()).hostname or "")
    except ValueError:
        return False


def is_preflight(scope: Scope) -> bool:
    """Whether a browser asks what a page may send."""
    return scope["method"] == "OPTIONS" and header_of(scope, b"access-control-request-method") is not None


async def send_preflight(scope: Scope, send: Send, origin: str) -> None:
    """Answer the preflight of an admitted page."""
    asked = header_of(scope, b"access-control-request-headers") or "authorization, content-type"
    headers = [
        *_allowing(origin),
        (b"access-control-allow-methods", b"GET, HEAD, POST, DELETE, OPTIONS"),
        (b"access-control-allow-headers", asked.encode("latin-1")),
        (b"access-control-max-age", b"600"),
    ]
    await send({"type": "http.response.start", "status": 204, "headers": headers})
    await send({"type": "http.response.body", "body": b"", "more_body": False})


def with_cors(send: Send, origin: str, *, replace: bool) -> Send:
    """A `send` whose answers an admitted page may read. `replace`: whatever the app says of it itself."""

    async def send_with_cors(message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = list(message.get("headers", ()))
            own = any(name.lower() == _ALLOW_ORIGIN for name, _ in headers)
            if replace or not own:
                kept = [pair for pair in headers if not pair[0].lower().startswith(b"access-control-")]
                exposed = (b"access-control-expose-headers", _EXPOSED)
                message = {**message, "headers": [*kept, *_allowing(origin), exposed]}
        await send(message)

    return send_with_cors


def _allowing(origin: str) -> Headers:
    return [(_ALLOW_ORIGIN, origin.encode("latin-1")), (b"vary", b"origin")]
