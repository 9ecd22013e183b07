"""How an upstream is asked: one interface, and which HTTP client has it, our own on httptools' parser or httpx. Why a
connection failed, which HTTP proxy is used, and which certificates are trusted.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import importlib.util
import json
import os
import re
import socket
import ssl
import urllib.request
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Protocol, cast
from urllib.parse import urlsplit

import anyio

from ....errors import SettingsError
from ....settings import read_variable
from ....wire import openai
from ...http.client_library import httpx
from ...http.cors import is_loopback

Headers = list[tuple[bytes, bytes]]
_MOST_ASKED = 8 << 20
"""Bytes of what a server says of itself."""


@dataclass(slots=True)
class Progress:
    """How far a request got. `reused`: its connection was not opened for it. `sent`: all of it has left."""

    reused: bool = False
    sent: bool = False


@dataclass(frozen=True, slots=True)
class Question:
    """A request to an upstream. `seconds`: the timeouts, by httpx's names. The client writes to `progress`."""

    method: str
    target: bytes
    headers: Headers
    body: bytes
    seconds: Mapping[str, float | None]
    progress: Progress


@dataclass(frozen=True, slots=True)
class Reply:
    """An answer whose head has come. It must be closed.

    `headers`: as they came. `pieces`: the body as it comes; it raises httpx.TransportError. `close` gives the
    connection back, or closes it; also where this task is cancelled meanwhile.
    """

    status: int
    headers: Headers
    pieces: AsyncIterator[bytes]
    close: Callable[[], Awaitable[None]]


class Client(Protocol):
    """Asks one upstream."""

    async def ask(self, question: Question) -> Reply:
        """The answer as soon as its head has come. Raises httpx.TransportError."""

    async def aclose(self) -> None:
        """Close all connections."""


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
        from .http1 import OriginClient

        return OriginClient(origin, connections=connections, idle=_IDLE, keepalive=_KEEPALIVE, tls=tls)
    limits = httpx.Limits(max_connections=connections, max_keepalive_connections=_IDLE, keepalive_expiry=_KEEPALIVE)
    return HttpxClient(origin, httpx.AsyncHTTPTransport(limits=limits, proxy=proxy, verify=tls or False))


class HttpxClient:
    """Asks `origin`. It has a transport and not an httpx.AsyncClient, which would add headers of its own and keep a
    cookie jar that all users share.
    """

    def __init__(self, origin: httpx.URL, transport: httpx.AsyncBaseTransport) -> None:
        self._origin = origin
        self._transport = transport

    async def ask(self, question: Question) -> Reply:
        """See Client."""
        progress, opened = question.progress, False

        async def trace(event: str, _info: object) -> None:
            nonlocal opened
            if event.startswith("connection.connect"):
                opened = True
            elif ".send_request_headers" in event and not opened:
                progress.reused = True
            elif event.endswith(".send_request_body.complete"):
                progress.sent = True

        extensions = {"timeout": dict(question.seconds), "trace": trace}
        request = httpx.Request(
            question.method,
            self._origin,
            headers=question.headers,
            stream=httpx.ByteStream(question.body),
            extensions=extensions,
        )
        request.url = _Target(self._origin, question.target)
        response = await self._transport.handle_async_request(request)
        pieces = aiter(cast("httpx.AsyncByteStream", response.stream))
        return Reply(response.status_code, response.headers.raw, pieces, partial(_close_shielded, response))

    async def aclose(self) -> None:
        """See Client."""
        await self._transport.aclose()


async def _close_shielded(response: httpx.Response) -> None:
    """Close an answer. Half of a close would leave the pool a connection short.

    The shield is for anyio's scopes, the task of its own for `Task.cancel`.
    """
    cancelled: asyncio.CancelledError | None = None
    with anyio.CancelScope(shield=True):
        closing = asyncio.ensure_future(_close(response))
        while not closing.done():
            try:
                await asyncio.shield(closing)
            except asyncio.CancelledError as error:
                cancelled = error
    if cancelled is not None:
        try:
            raise cancelled
        finally:
            cancelled = None  # it knows this frame, and would keep request and answer until the collector comes
    closing.result()


async def _close(response: httpx.Response) -> None:
    stream = response.extensions.get("network_stream")
    if stream is not None and _has_more(response):
        # The pool checks whether the socket has input. Bytes that were read with this answer it would take for the
        # answer to the next request, which is another client's.
        await stream.aclose()
    await response.aclose()


def _has_more(response: httpx.Response) -> bool:
    """Whether bytes followed the answer. httpcore does not say, so this looks inside; False where that differs."""
    found: Any = response.stream
    for name in ("_httpcore_stream", "_stream", "_connection", "_h11_state"):
        found = getattr(found, name, None)
    return bool(getattr(found, "trailing_data", (b"",))[0])


class _Target(httpx.URL):
    """An origin with the client's own bytes as target: httpx.URL alone would resolve dots and quote anew."""

    def __init__(self, origin: httpx.URL, target: bytes) -> None:
        super().__init__(origin)
        self._target = target

    @property
    def raw_path(self) -> bytes:
        return self._target


_VERSION = re.compile(r"/v\d")
_LONGEST_WORDS = 200  # characters of a server's own
# This machine has no such address; another one of the same name may do.
_ANOTHER_ADDRESS = frozenset({errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT})


def free_port(host: str, port: int = 0) -> int:
    """`port` of `host`, or for 0 a free one. Raises SettingsError where a server could not listen."""
    what = f"--host {host} --port {port}"
    try:
        places = socket.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as error:
        raise SettingsError(f"{what}: {error.strerror}; give an address of this machine as --host.") from None
    found: int | None = None
    fault: OSError | None = None
    with contextlib.ExitStack() as probes:
        # All of them, as asyncio does: `localhost` has two.
        for family, kind, protocol, _, address in dict.fromkeys(places):
            try:
                probe = probes.enter_context(socket.socket(family, kind, protocol))
                if os.name == "posix":  # elsewhere it would let two servers listen
                    probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.bind((address[0], found or port, *address[2:]))
                found = found or probe.getsockname()[1]
            except OSError as error:
                fault = error
                if error.errno not in _ANOTHER_ADDRESS:
                    found = None
                    break
    if found is None:
        elsewhere = fault is None or fault.errno in _ANOTHER_ADDRESS
        fix = "give an address of this machine as --host" if elsewhere else "give another --port; 0 takes a free one"
        raise SettingsError(f"{what}: {reason(fault or OSError('it has no address'))}; {fix}.")
    return found


def reason(error: BaseException) -> str:
    """Why a connection failed, in the system's words."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        if isinstance(cause, OSError) and cause.strerror:
            # asyncio puts its own words and the address before the system's.
            if isinstance(cause, ConnectionError) and cause.errno is not None:
                return os.strerror(cause.errno)
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return str(error) or type(error).__name__


def refusal(status: int, body: bytes) -> str:
    """What an answer with this status says. Of faults of its own the server's words: llama.cpp's say that the model is
    still loading. Refusals of a client may repeat its key.
    """
    summary = f"status {status}"
    if status < HTTPStatus.INTERNAL_SERVER_ERROR or not isinstance(openai.read_value(body), dict):
        return summary
    words = openai.read_error(body, status).message.strip().rstrip(".")
    return f"{summary}: {words}" if words.isprintable() and 0 < len(words) <= _LONGEST_WORDS else summary


def version_hint(url: str) -> str:
    """What to add to a 404 of an upstream whose base address names no version of its API; empty where it does."""
    parts = urlsplit(url)
    if _VERSION.search(parts.path):
        return ""
    return f"Is /v1 missing in the upstream's address, {parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}?"


def proxy_of_environment(url: httpx.URL) -> httpx.Proxy | None:
    """HTTP_PROXY, HTTPS_PROXY, ALL_PROXY and NO_PROXY, as everywhere; never between us and this machine itself.

    Raises SettingsError where it cannot be used. The message names the variable; its value may hold a password.
    """
    if is_loopback(url.host) or urllib.request.proxy_bypass(url.host):
        return None
    proxies = urllib.request.getproxies()
    kind = next((kind for kind in (url.scheme, "all") if proxies.get(kind)), None)
    if kind is None:
        return None
    address = proxies[kind]
    name = f"{kind.upper()}_PROXY"
    try:
        proxy = httpx.Proxy(address if "://" in address else f"http://{address}")
    except (httpx.InvalidURL, ValueError):
        places = "http://HOST:PORT, https://HOST:PORT or socks5://HOST:PORT"
        raise SettingsError(f"{name}: it is no address of a proxy; use {places}.") from None
    # httpx looks for it only where it makes a connection.
    if proxy.url.scheme.startswith("socks") and importlib.util.find_spec("socksio") is None:
        raise SettingsError(f"{name}: SOCKS needs the library socksio: pip install 'httpx[socks]'.")
    return proxy


def tls_to(origin: httpx.URL) -> ssl.SSLContext | None:
    """Whom to trust on the way to `origin`: the authorities that SSL_CERT_FILE or SSL_CERT_DIR names, or else those of
    the HTTP library. None where no TLS is spoken: reading the certificates takes longer than some requests may.

    Raises SettingsError, naming the variable and its value, where they cannot be read, and for a proxy that cannot be
    used.
    """
    if proxy_of_environment(origin) is None and origin.scheme != "https":
        return None
    places = ((name, read_variable(name)) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR"))
    name, place = next(((name, place) for name, place in places if place), ("", ""))
    # A folder that is not there is no error for OpenSSL, and no certificate would be trusted.
    if name == "SSL_CERT_DIR" and not Path(place).is_dir():
        raise SettingsError(f"{name}: {place!r} is no folder; use one with certificate authorities.")
    try:
        context = httpx.create_ssl_context()
    except OSError as error:
        if not name:
            raise
        why = "it holds no certificate" if isinstance(error, ssl.SSLError) else error.strerror
        raise SettingsError(f"{name}: {place!r} cannot be read ({why}); use a file of PEM certificates.") from None
    context.set_alpn_protocols(["http/1.1"])
    return context


def ask_json(url: str, key: str | None, seconds: float) -> Any:
    """Asks a server about itself before the proxy serves, over the way that requests take: the JSON of its answer.

    Raises ValueError, whose message says why there is none, and SettingsError.
    """
    body = bytearray()
    try:
        parsed = httpx.URL(url)
        # The client itself takes a `proxy` since httpx 0.26 only.
        transport = httpx.HTTPTransport(proxy=proxy_of_environment(parsed), verify=tls_to(parsed) or False)
        headers = {} if key is None else {"authorization": f"Bearer {key}"}
        with (
            httpx.Client(headers=headers, timeout=seconds, transport=transport, trust_env=False) as client,
            client.stream("GET", url) as answer,
        ):
            for piece in answer.iter_bytes():
                body += piece
                if len(body) > _MOST_ASKED:
                    raise ValueError(f"its answer has more than {_MOST_ASKED >> 20} MiB")
    except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
        raise ValueError(reason(error)) from None
    if answer.status_code != HTTPStatus.OK:
        raise ValueError(refusal(answer.status_code, bytes(body)))
    try:
        return json.loads(body)  # also NaN and a lone surrogate, which servers write
    except (ValueError, RecursionError):
        raise ValueError("its answer is not JSON") from None
