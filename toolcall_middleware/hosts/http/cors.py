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

from .answer import PassingAnswer
from .head import Headers, header_of, values_of

_PORT = re.compile(r":[0-9]*$")
_RATES = [
    f"x-ratelimit-{what}{unit}" for unit in ("", "-requests", "-tokens") for what in ("limit", "remaining", "reset")
]
_EXPOSED = ", ".join(["x-request-id", "x-toolcall", "x-toolcall-error", *_RATES]).encode()
_ALLOW_ORIGIN = b"access-control-allow-origin"


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


class ReadableAnswer(PassingAnswer):
    """An answer that an admitted page may read. replace: whatever the app says of it itself."""

    __slots__ = ("_origin", "_replace")

    def __init__(self, send: Send, origin: str, *, replace: bool) -> None:
        super().__init__(send)
        self._origin = origin
        self._replace = replace

    def started(self, start: Message) -> Message:
        """See PassingAnswer."""
        headers = list(start.get("headers", ()))
        if not self._replace and values_of(headers, _ALLOW_ORIGIN):
            return start
        kept = [pair for pair in headers if not pair[0].lower().startswith(b"access-control-")]
        exposed = (b"access-control-expose-headers", _EXPOSED)
        return {**start, "headers": [*kept, *_allowing(self._origin), exposed]}


def _allowing(origin: str) -> Headers:
    return [(_ALLOW_ORIGIN, origin.encode("latin-1")), (b"vary", b"origin")]
