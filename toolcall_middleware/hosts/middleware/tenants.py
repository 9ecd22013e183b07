"""Who asks, by which settings, and what of the tenant's limits is left.

The tenants file is read again when it has changed. Tool calls, requests and tokens are counted by the library `limits`.
A window begins with a tenant's first unit and ends a minute (an hour, …) later. Each limit has counters of its own:

- `request_limit` is charged when a request is admitted, in one step with the check.
- `rate_limit` is charged when calls are sent, and `token_limit` at the answer's end. Both ask beforehand for at least
  one unit: the last answer in a window may hold more than was left, and all of it counts.

Nothing is reserved for a request that runs, because its calls and tokens are not known: requests that come while units
are left are all admitted, also when together they use more. What is used up is exact for those that follow. One unit
reserved for each would refuse requests that in the end hold no call and cost nothing, would still not keep the rest
within the window, and what a worker had reserved when it died would be gone until the window's end.
"""

from __future__ import annotations

import asyncio
import logging
import math
import os
import stat
import time
import weakref
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from starlette.types import Message, Scope, Send

from ...errors import SettingsError, ToolCallError, on_one_line
from ...installed import install_command
from ...settings import OPTIONS, Settings, hide_login
from ...settings.tenants_file import Tenant, Tenants, read_tenants, without_file
from ..http.head import logins, values_of
from .start_up import with_tokenizer

if TYPE_CHECKING:
    from limits import RateLimitItem, WindowStats
    from limits.aio.strategies import FixedWindowRateLimiter


TENANT_KEY = "toolcall.tenant"
"""Where a scope holds the name of the tenant, when the host knows it: the proxy puts there whose API key was shown."""

_SECONDS = 1.0  # between two looks at the file
_MAX_BYTES = 16 << 20

_log = logging.getLogger("toolcall_middleware")
_Stamp = tuple[int, int, int]


class Tenancy:
    """The tenants of one middleware. Raises SettingsError when the file cannot be used.

    A file that changes is read again, without a restart, once it has been left alone for a second. Where the new one
    is bad, that is logged and the old one holds.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._header = settings.tenant_header.encode("ascii")
        self._path = settings.tenants_file
        self._stamp: _Stamp | None = None
        self._looked = time.monotonic()
        self._tenants = without_file(settings)
        if self._path is not None:
            self._stamp = _stamp(self._path)
            self._tenants = self._read(self._path)

    @property
    def tenants(self) -> Tenants:
        """Those of the file, as it was last read."""
        return self._tenants

    @property
    def limits_rates(self) -> bool:
        """Whether the rate of any tenant is limited."""
        return _limits_rates(self._tenants)

    async def find(self, scope: Scope) -> Tenant:
        """Who asks in `scope`. Raises ToolCallError where the request says two things: the app might believe the other.

        The request that finds the file changed waits until a thread has read it; others use the tenants from before.
        """
        if self._path is not None and time.monotonic() - self._looked >= _SECONDS:
            self._looked = time.monotonic()
            if self._has_changed(self._path):
                await asyncio.to_thread(self._look, self._path)
        name = scope.get(TENANT_KEY)
        headers = scope.get("headers", ())
        values = set(values_of(headers, self._header))
        if not values and self._header == b"authorization":
            values = set(logins(headers))
        elif not values and self._header == b"x-api-key":
            shown = (login.partition(b" ") for login in logins(headers))
            values = {key.strip() for scheme, _, key in shown if scheme.lower() == b"bearer"}
        if len(values) > 1:
            message = f"The header {self._header.decode()} says who asks, and stands there with different values."
            raise ToolCallError("invalid_request", message)
        return self._tenants.find(name if isinstance(name, str) else None, values.pop() if values else None)

    def _has_changed(self, path: str) -> bool:
        try:
            return _stamp(path) != self._stamp
        except SettingsError:
            return True

    def _look(self, path: str) -> None:
        try:
            stamp = _stamp(path)
        except SettingsError as error:
            if self._stamp is not None:
                _log.error("%s The tenants stay as they were.", on_one_line(str(error)))
            self._stamp = None
            return
        if stamp == self._stamp:
            return
        if abs(time.time() - stamp[0] / 1e9) < _SECONDS:
            # It may be half written: the part that is there would be read as a file with fewer tenants and limits.
            return
        self._stamp = stamp
        try:
            self._tenants = self._read(path)
        except SettingsError as error:
            _log.error("%s The tenants stay as they were.", on_one_line(str(error)))
        else:
            _log.info("%s has been read again.", path)

    def _read(self, path: str) -> Tenants:
        try:
            text = Path(path).read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(f"tenants_file: {path} cannot be read: {error}.") from None
        tenants = read_tenants(text, path, self._settings)
        for settings in (tenants.default, *tenants.by_name.values()):
            with_tokenizer(settings)
        if _limits_rates(tenants):
            require_limits(self._settings.rate_limit_storage)
        return tenants


def _limits_rates(tenants: Tenants) -> bool:
    return any(settings.has_rates for settings in (tenants.default, *tenants.by_name.values()))


def _stamp(path: str) -> _Stamp:
    try:
        status = os.stat(path)  # noqa: PTH116 - the path is text, and this runs in a request
    except OSError as error:
        raise SettingsError(f"tenants_file: {path} cannot be read: {error.strerror}.") from None
    if not stat.S_ISREG(status.st_mode):
        # A pipe would be waited for.
        raise SettingsError(f"tenants_file: {path} is no file.")
    if status.st_size > _MAX_BYTES:
        raise SettingsError(f"tenants_file: {path} is larger than {_MAX_BYTES} bytes.")
    return status.st_mtime_ns, status.st_size, status.st_ino


_PATIENCE = 2.0  # seconds for one question to the storage

_T = TypeVar("_T")


class Limit(NamedTuple):
    """One kind of limit. counter: the namespace of its counters. header: the end of its `x-ratelimit-*` headers."""

    counter: str
    unit: str
    header: str


LIMITS = {
    "rate_limit": Limit("toolcall", "tool calls", ""),
    "request_limit": Limit("request", "requests", "-requests"),
    "token_limit": Limit("token", "tokens", "-tokens"),
}
"""By the setting that holds the rate. The ends of the headers are OpenAI's."""


def require_limits(storage: str) -> None:
    """Raises SettingsError where rates cannot be counted in `storage`: a library is missing, or it is no storage."""
    _limiter(storage)


def refuse_workers_that_count_alone(settings: Settings, workers: int) -> None:
    """Raises SettingsError where each of several `workers` would count rates by itself."""
    if workers <= 1 or not _is_memory(settings.rate_limit_storage):
        return
    if settings.has_rates or (settings.tenants_file is not None and Tenancy(settings).limits_rates):
        raise SettingsError(
            f"rate_limit_storage: with memory:// each of the {workers} workers would count rates by itself; "
            "use redis://HOST:PORT, or one worker."
        )


_memory: list[FixedWindowRateLimiter] = []
"""What `memory://` means: the memory of this process, which several middlewares (one an upstream) have in common."""


def _is_memory(storage: str) -> bool:
    return storage.removeprefix("async+").startswith("memory")


def _limiter(storage: str) -> FixedWindowRateLimiter:
    if _memory and _is_memory(storage):
        return _memory[0]
    try:
        from limits.aio.strategies import FixedWindowRateLimiter
        from limits.errors import ConfigurationError
        from limits.storage import storage_from_string
    except ImportError:
        message = f"rate_limit needs the library limits: {install_command('limits')}"
        raise SettingsError(f"{message} (with [redis] instead where several workers share a Redis).") from None
    uri = storage.removeprefix("async+")
    options: dict[str, Any] = {"wrap_exceptions": True}
    if uri.startswith("redis"):
        try:
            from redis.asyncio.retry import Retry
            from redis.backoff import NoBackoff
            from redis.exceptions import ConnectionError as BrokenConnectionError
        except ImportError:
            message = f"a Redis needs its client library: {install_command('redis')}"
            raise SettingsError(f"rate_limit_storage: {message}.") from None
        # Once more where a connection is found to be closed, as all are after a Redis has been started anew. Not after
        # a timeout: what has been counted by then would be counted twice.
        options |= {
            "implementation": "redispy",
            # What every Redis speaks. The client's default begins with HELLO, which Redis 5 and proxies do not know.
            "protocol": 2,
            "socket_timeout": _PATIENCE,
            "socket_connect_timeout": _PATIENCE,
            "retry": Retry(NoBackoff(), 1, (BrokenConnectionError,)),
        }
    try:
        limiter = FixedWindowRateLimiter(storage_from_string(f"async+{uri}", **options))
        if _is_memory(storage):
            _memory.append(limiter)
        return limiter  # noqa: TRY300 - what may raise is above
    except (ConfigurationError, ValueError) as error:
        reason = hide_login(str(error).replace("async+", "")).rstrip(".")
        raise SettingsError(f"rate_limit_storage: {reason}; use {OPTIONS['rate_limit_storage'].allowed}.") from None


class RateLimiter:
    """Counts units by tenant. `failure`: `open` lets requests pass uncounted while the storage is down, `closed`
    refuses them; both are logged, and neither waits longer than two seconds.
    """

    def __init__(self, storage: str, failure: str) -> None:
        self._storage = storage
        self._failure = failure
        require_limits(storage)
        # Connections belong to an event loop, and a process may run several.
        self._limiters: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, FixedWindowRateLimiter] = (
            weakref.WeakKeyDictionary()
        )
        self._down = False

    @property
    def _here(self) -> FixedWindowRateLimiter:
        loop = asyncio.get_running_loop()
        limiter = self._limiters.get(loop)
        if limiter is None:
            limiter = self._limiters[loop] = _limiter(self._storage)
        return limiter

    async def look(self, item: RateLimitItem, key: tuple[str, str], cost: int) -> tuple[bool, WindowStats] | None:
        """Charge `cost` units. Return whether they fit (without a cost: whether one more would), and what is left.

        None where the storage does not answer and `rate_limit_failure` is `open`. Raises ToolCallError for `closed`.
        """
        counts = self._down or cost > 0
        seen = await self._ask(_window(self._here, item, key, cost, counts=counts), counts=counts)
        if seen is None and self._failure == "closed":
            message = "The rate limit cannot be checked now, and rate_limit_failure is closed. Try again soon."
            raise ToolCallError("rate_limit_unavailable", message, headers={"retry-after": "1"})
        return seen

    async def charge(self, item: RateLimitItem, key: tuple[str, str], units: int) -> bool:
        """Charge `units`. Return False where the storage does not answer."""
        return await self._ask(self._here.hit(item, *key, cost=units), counts=True) is not None

    async def _ask(self, question: Awaitable[_T], *, counts: bool) -> _T | None:
        """The storage's answer; None when it has none in time.

        counts: it has to write for it. A storage that was down is back when it does: a full Redis, or a replica, can
        still be read.
        """
        from limits.errors import StorageError

        try:
            async with asyncio.timeout(_PATIENCE):
                answer = await question
        except (StorageError, OSError) as error:  # TimeoutError is an OSError
            if not self._down:
                reason = hide_login(str(error)) or type(error).__name__
                policy = "requests pass uncounted" if self._failure == "open" else "requests are refused"
                _log.error("rate_limit_storage cannot be reached: %s; %s.", reason, policy)
            self._down = True
            return None
        if self._down and counts:
            self._down = False
            _log.warning("rate_limit_storage is back.")
        return answer

    async def aclose(self) -> None:
        """Close the connections of this event loop."""
        limiter = self._limiters.pop(asyncio.get_running_loop(), None)
        storage = limiter and limiter.storage
        client = getattr(getattr(storage, "bridge", None), "storage", storage)
        if client is not None and hasattr(client, "aclose"):
            await client.aclose()


async def _window(
    limiter: FixedWindowRateLimiter, item: RateLimitItem, key: tuple[str, str], cost: int, *, counts: bool
) -> tuple[bool, WindowStats]:
    """See `RateLimiter.look`. counts: prove that the storage counts, also with nothing."""
    fits = await limiter.hit(item, *key, cost=cost) if counts else True
    stats = await limiter.get_window_stats(item, *key)
    return (fits if cost else stats.remaining > 0), stats


@dataclass(slots=True)
class _Window:
    """One limit of a tenant. remaining, reset: as of this request; `charged` units of it are the request's own."""

    limit: Limit
    item: RateLimitItem
    remaining: int | None = None
    reset: float = 0.0
    charged: int = 0

    def headers(self) -> dict[str, str]:
        if self.remaining is None:
            return {}
        end = self.limit.header
        return {
            f"x-ratelimit-limit{end}": str(self.item.amount),
            f"x-ratelimit-remaining{end}": str(max(0, self.remaining - self.charged)),
            f"x-ratelimit-reset{end}": f"{self.seconds}s" if end else str(self.seconds),
        }

    @property
    def seconds(self) -> int:
        return max(0, math.ceil(self.reset - time.time()))


class Budget:
    """What one request of `tenant` may spend of its limits. All that it sends goes through `sender`, which charges.

    calls, tokens: how many the request has taken by now. To count tokens may take time.
    """

    def __init__(self, limiter: RateLimiter, tenant: Tenant) -> None:
        from limits import parse

        self._limiter = limiter
        self._tenant = tenant
        rates = {name: getattr(tenant.settings, name) for name in LIMITS}
        self._windows = {name: _Window(LIMITS[name], parse(rate)) for name, rate in rates.items() if rate is not None}
        self._lost = False
        self.calls: Callable[[], int] = int
        self.tokens: Callable[[], Awaitable[int]] | None = None

    async def admit(self, name: str, *, cost: int = 0) -> None:
        """Charge `cost` units of the setting's limit. Raises ToolCallError where they do not fit, or none is left."""
        window = self._windows.get(name)
        if window is None:
            return
        seen = await self._limiter.look(window.item, (window.limit.counter, self._tenant.key), cost)
        if seen is None:
            self._windows.clear()  # the request passes uncounted, and waits for the storage only once
            return
        fits, stats = seen
        window.remaining, window.reset = stats.remaining, stats.reset_time
        if not fits:
            headers = window.headers()
            headers["retry-after"] = str(max(1, window.seconds))
            rate = getattr(self._tenant.settings, name)
            message = f"No {window.limit.unit} are left: {name} is {rate}. Try again in {headers['retry-after']} s."
            raise ToolCallError("rate_limit_exceeded", message, headers=headers)

    async def _charge(self, name: str, spent: int) -> None:
        """Charge what the request has spent since the last time."""
        window = self._windows[name]
        units = spent - window.charged
        if units <= 0:
            return
        window.charged = spent
        if window.reset <= time.time():
            window.reset = time.time() + window.item.get_expiry()
        # An answer waits once for a storage that does not answer, not with each of its calls.
        key = (window.limit.counter, self._tenant.key)
        self._lost = self._lost or not await self._limiter.charge(window.item, key, units)
        if self._lost:
            _log.warning("%s: %d %s of %s were not counted.", name, units, window.limit.unit, self._tenant.key)

    async def settle(self) -> None:
        """Charge what the answer has taken by now, also where the request is cancelled."""
        if "token_limit" in self._windows and self.tokens is not None:
            await asyncio.shield(asyncio.ensure_future(self._settle(self.tokens)))

    async def _settle(self, tokens: Callable[[], Awaitable[int]]) -> None:
        await self._charge("token_limit", await tokens())

    def sender(self, send: Send) -> Send:
        """`send` with the headers added, which charges first: calls with each message, tokens with the last one."""

        async def charged(message: Message) -> None:
            if "rate_limit" in self._windows:
                await self._charge("rate_limit", self.calls())
            if message["type"] == "http.response.start":
                pairs = (pair for window in self._windows.values() for pair in window.headers().items())
                own = [(name.encode(), value.encode()) for name, value in pairs]
                names = {name for name, _ in own}
                kept = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in names]
                message = {**message, "headers": [*kept, *own]}
            elif not message.get("more_body", False):
                await self.settle()
            await send(message)

        return charged
