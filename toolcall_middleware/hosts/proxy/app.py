"""The proxy: every request takes one way in, `Proxy.__call__`, and `create_proxy` builds it from the settings.

A request's `Host`, `Origin`, key and path decide who may ask for what. A signal to stop waits for running answers:
uvicorn alone closes its sockets at once, so that a health check could not tell a proxy that drains from a dead one, and
new connections would be refused instead of answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import hmac
import ipaddress
import logging
import os
import re
import secrets
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import FrameType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ...errors import SettingsError, ToolCallError
from ...observe.report import observers_of
from ...settings import Settings, hide_login
from ..http.cors import (
    ReadableAnswer,
    admits_host,
    admits_origin,
    is_local_origin,
    is_loopback,
    is_preflight,
    send_preflight,
)
from ..http.errors import send_json
from ..http.head import ends_with, header_of, logins, matches, normal_path_of, raw_path, values_of, without
from ..http.request_record import AccessLog, record_of, watched, write_to_stdout
from ..middleware.faces import refuse
from ..middleware.start_up import settle
from ..middleware.tenants import TENANT_KEY
from .model_list import Readiness
from .router import Router
from .upstream.upstream import Upstream

if TYPE_CHECKING:
    from .inspector.store import Store


logger = logging.getLogger("toolcall_middleware.proxy")

# The connection closes with the answer: the client's next attempt reaches another process.
_LEAVE = {"connection": "close", "retry-after": "1"}
_HEALTH, _READY, _HELLO = b"/healthz", b"/readyz", (b"/", b"/api/hello")


def create_proxy() -> ASGIApp:
    """The proxy as an ASGI app, configured by `TOOLCALL_*`: `uvicorn --factory toolcall_middleware:create_proxy`.

    Raises SettingsError or FormatError.
    """
    return proxy_of(Settings.from_env())


def proxy_of(settings: Settings) -> Proxy:
    """The proxy that the settings describe. Raises SettingsError or FormatError."""
    logging.getLogger("asyncio").addFilter(once_a_second)
    router = Router(settings)
    if settings.access_log != "off":
        write_to_stdout()
    if router.is_direct:
        upstreams = router.apps()
        return Proxy(upstreams[0], settings, upstreams=lambda: upstreams, peek=True)
    return Proxy(
        router,
        settings,
        upstreams=router.apps,
        reload=None if settings.upstreams_file is None else router.reload,
    )


class Proxy:
    """An ASGI app before `app`, which asks an upstream. Each step either answers or lets pass.

    upstreams: those in use. reload: what SIGHUP does. peek: `app` does not note a request's model, so the log reads it.
    """

    def __init__(
        self,
        app: ASGIApp,
        settings: Settings,
        *,
        upstreams: Callable[[], Sequence[Upstream]] = tuple,
        reload: Callable[[], object] | None = None,
        peek: bool = False,
    ) -> None:
        self._app = app
        self._settings = settings
        self._upstreams = upstreams
        self._drains = False
        self._mark = new_mark()
        self._keys = Keys(settings.api_keys)
        self._log = AccessLog(style=settings.access_log, peek=peek)
        self._lifetime = Lifetime(drain=self.drain, grace=settings.shutdown_grace, reload=reload)
        self._store: Store | None = None
        self._inspector: ASGIApp | None = None
        if settings.inspector is not None:
            self._inspect(settings.inspector)
        self._observers = observers_of(settings, [] if self._store is None else [self._store])
        self._metrics: ASGIApp | None = None
        self._metrics_path = b""
        up = None
        if settings.metrics != "off":
            from ...observe.metrics import shared_metrics
            from ..http.errors import metrics_app

            self._metrics = metrics_app()
            self._metrics_path = b"/metrics" if settings.metrics == "on" else settings.metrics.encode()
            up = shared_metrics().upstream_is
        self._readiness = Readiness(upstreams, up)
        self._unwatched = {_HEALTH, _READY, self._metrics_path}

    def _inspect(self, token: str) -> None:
        from .inspector.app import Inspector
        from .inspector.store import Store

        self._store = Store()
        self._inspector = Inspector(self._logged, self._store, token, template_of=self._template_of, sends=True)

    @property
    def addresses(self) -> list[str]:
        """The upstreams' base addresses."""
        return [one.config.settings.upstream_url or "" for one in self._upstreams()]

    def drain(self) -> None:
        """Take no new requests: the process is about to end."""
        self._drains = True
        if self._store is not None:
            self._store.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI entry: log, host, key, path; `app` limits and routes."""
        if scope["type"] == "lifespan":
            await self._lifetime.lifespan(self._app, scope, receive, send)
            return
        with self._lifetime.request():
            if scope["type"] != "http":
                await self._app(scope, receive, send)  # a websocket, which it closes
                return
            # ASGI allows any iterable of headers; a generator can be read only once.
            scope = {**scope, "headers": list(scope["headers"])}
            await (self._inspector or self._logged)(scope, receive, send)

    async def _logged(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._log.line(scope, receive, send) as (own, taking, giving):
            if not self._observers or raw_path(scope).rstrip(b"/") in self._unwatched:
                await self._answer(own, taking, giving)
            else:
                await watched(self._answer, self._observers, own, taking, giving)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        settings, method, path = self._settings, scope["method"], raw_path(scope)
        try:
            scope = marked(scope, self._mark)
        except ToolCallError as refusal:
            await refuse(scope, send, refusal)
            return
        looks = method in {"GET", "HEAD"}
        metrics = self._metrics if path.rstrip(b"/") == self._metrics_path else None
        if looks and path == _READY and not self._drains:
            await self._readiness.answer(scope, send)
            return
        if metrics is not None and settings.metrics_open:
            await metrics(scope, receive, send)
            return
        try:
            origin = admitted_origin(scope, settings, guards=self._opens_with_credentials())
            if origin is not None:
                if is_preflight(scope):
                    await send_preflight(scope, send, origin)
                    return
                send = ReadableAnswer(send, origin, replace=True).send
            if looks and path in {_HEALTH, _READY}:
                if self._drains:
                    await send_json(send, 503, b'{"status":"draining"}', _LEAVE)
                else:
                    await send_json(send, 200, b'{"status":"ok"}')
                return
            if method == "HEAD" and path in _HELLO:  # Claude Code asks whether there is a server
                await send_json(send, 200, b"")
                return
            scope = self._opened(scope)
            if metrics is not None:
                await metrics(scope, receive, send)
                return
            check_path(scope, settings)
        except ToolCallError as refusal:
            await refuse(scope, send, refusal)
            return
        await self._app(scope, receive, send)

    def _opened(self, scope: Scope) -> Scope:
        """The scope for the app, once the client has shown a key. Raises ToolCallError."""
        if self._drains:
            message = "This proxy is about to end and takes no new requests."
            raise ToolCallError("upstream_error", message, status=503, headers=_LEAVE)
        return self._keys.opened(scope)

    def _opens_with_credentials(self) -> bool:
        """Whether a client without a key asks an upstream with the operator's credentials. A reload may change that."""
        return not self._settings.api_keys and any(one.config.holds_credentials for one in self._upstreams())

    def _template_of(self, upstream: str | None) -> str | None:
        """Whose chat template an upstream's answers are read by. upstream: its name, None where there is only one."""
        configs = [one.config for one in self._upstreams()]
        return next((one.settings.template for one in configs if one.name == upstream), configs[0].settings.template)


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


_STOPS = (signal.SIGINT, signal.SIGTERM)
Handler = Callable[[int, FrameType | None], object]


class Lifetime:
    """Counts running requests. Under uvicorn, in the main thread, it takes signals; elsewhere it does nothing else.

    At SIGINT or SIGTERM `drain` is called; the server gets the signal when the last request has ended, or after
    `grace` seconds, when those that still run are cancelled; at once for a second SIGINT. At SIGHUP `reload` is
    called; without one SIGHUP does what SIGTERM does, unless it is ignored (`nohup`).
    """

    def __init__(self, *, drain: Callable[[], None], grace: float, reload: Callable[[], object] | None = None) -> None:
        self._drain = drain
        self._grace = grace
        self._reload = reload
        self._running: set[asyncio.Task[object]] = set()
        self._stopping: asyncio.Task[None] | None = None
        self._previous: dict[int, Handler] = {}
        self._idle = asyncio.Event()

    @contextlib.contextmanager
    def request(self) -> Iterator[None]:
        """While a request is answered by the current task."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - this is a coroutine of a task
        self._running.add(task)
        try:
            yield
        finally:
            self._running.discard(task)
            if not self._running:
                self._idle.set()

    async def lifespan(self, app: ASGIApp, scope: Scope, receive: Receive, send: Send) -> None:
        """Run `app` for the server's lifespan; when its start is complete, the process settles."""

        async def started(message: Message) -> None:
            await send(message)
            if message["type"] == "lifespan.startup.complete" and self._previous:
                settle()

        with self._signals():
            await app(scope, receive, started)

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """Signals are ours while the server's lifespan runs."""
        if threading.current_thread() is not threading.main_thread() or os.name == "nt":
            yield
            return
        loop = asyncio.get_running_loop()
        if self._reload is not None:
            loop.add_signal_handler(signal.SIGHUP, self._reload)
        for number in _STOPS:
            handler = signal.getsignal(number)
            # Another server's handler may be one that cannot be called later: it keeps its signals.
            if callable(handler) and type(getattr(handler, "__self__", None)).__module__.startswith("uvicorn"):
                self._previous[number] = handler
                loop.add_signal_handler(number, self._stop, number)
        if self._reload is None and self._previous and signal.getsignal(signal.SIGHUP) is signal.SIG_DFL:
            loop.add_signal_handler(signal.SIGHUP, self._stop, signal.SIGTERM)
        try:
            yield
        finally:
            if self._reload is not None:
                loop.remove_signal_handler(signal.SIGHUP)

    def _stop(self, number: int) -> None:
        if self._stopping is not None:
            if number == signal.SIGINT:
                self._previous[number](number, None)
            return
        self._drain()
        self._stopping = asyncio.get_running_loop().create_task(self._wait(number))

    async def _wait(self, number: int) -> None:
        if self._running:
            logger.info("Waiting at most %g s for %d answers to end.", self._grace, len(self._running))
            self._idle.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._grace):
                    await self._idle.wait()
        if self._running:
            logger.error("%d answers did not end within %g s and are cut off.", len(self._running), self._grace)
            for task in self._running:
                task.cancel("the grace period is over")
        self._previous[number](number, None)


_accept_errors: dict[str, float] = {}
"""When asyncio's last error about the limit of open files was logged."""


def once_a_second(record: logging.LogRecord) -> bool:
    """Whether a record of asyncio is logged. Its errors about the limit of open files, one for each connection in the
    backlog, are logged once a second.
    """
    message = record.getMessage().partition("\n")[0][:200]
    if "accept" not in message:
        return True
    now = time.monotonic()
    passes = now - _accept_errors.get(message, -1.0) >= 1.0
    if passes:
        _accept_errors.clear()
        _accept_errors[message] = now
    return passes
