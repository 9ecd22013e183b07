"""The way to an upstream: why a connection failed, which HTTP proxy is used, and which certificates are trusted."""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import os
import re
import socket
import ssl
import urllib.request
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

from ....errors import SettingsError
from ....settings import read_variable
from ....wire import openai
from ...http.client_library import httpx
from ...http.cors import is_loopback

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
    told = f"status {status}"
    if status < HTTPStatus.INTERNAL_SERVER_ERROR or not isinstance(openai.read_value(body), dict):
        return told
    words = openai.read_error(body, status).message.strip().rstrip(".")
    return f"{told}: {words}" if words.isprintable() and 0 < len(words) <= _LONGEST_WORDS else told


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


def asking_client(url: str, key: str | None, seconds: float) -> httpx.Client:
    """Asks an upstream about itself before it serves, over the way that requests take. Raises SettingsError, and
    httpx.InvalidURL.
    """
    parsed = httpx.URL(url)
    headers = {} if key is None else {"authorization": f"Bearer {key}"}
    # The client itself takes a `proxy` since httpx 0.26 only.
    transport = httpx.HTTPTransport(proxy=proxy_of_environment(parsed), verify=tls_to(parsed) or False)
    return httpx.Client(headers=headers, timeout=seconds, transport=transport, trust_env=False)
