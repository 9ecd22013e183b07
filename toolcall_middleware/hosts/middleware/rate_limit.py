"""Rates of tool calls: asked before the backend is, charged when calls leave. Counted by the library `limits`.

A window begins with a tenant's first unit and ends a minute (an hour, …) later. It is asked for at least one unit and
charged what the answer holds: the last answer in a window may hold more calls than were left, and all of them count.
Nothing is reserved for a request that runs, because nobody knows how many calls it will make: requests that come while
units are left are all admitted, also when together they use more. What is used up is exact for those that follow. One
unit reserved for each would refuse requests that in the end hold no call and cost nothing, would still not keep the
rest within the window, and what a worker had reserved when it died would be gone until the window's end.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
import weakref
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.types import Message, Send

from ...errors import SettingsError, ToolCallError
from ...installed import install_command
from ...settings import OPTIONS, Settings, hide_login

if TYPE_CHECKING:
    from limits import RateLimitItem, WindowStats
    from limits.aio.strategies import FixedWindowRateLimiter

_PATIENCE = 2.0  # seconds for one question to the storage

_log = logging.getLogger("toolcall_middleware")
_T = TypeVar("_T")


def require_limits(storage: str) -> None:
    """Raises SettingsError where rates cannot be counted in `storage`: a library is missing, or it is no storage."""
    _limiter(storage)


def refuse_workers_that_count_alone(settings: Settings, workers: int) -> None:
    """Raises SettingsError where each of several `workers` would count rates by itself."""
    from .tenants import Tenancy

    if workers <= 1 or not _is_memory(settings.rate_limit_storage):
        return
    if settings.rate_limit is not None or (settings.tenants_file is not None and Tenancy(settings).limits_rates):
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
        return limiter  # noqa: TRY300 - what may raise stands above
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
        self._first: FixedWindowRateLimiter | None = _limiter(storage)
        self._memory = _is_memory(storage)
        # Connections belong to an event loop, and a process may run several.
        self._limiters: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, FixedWindowRateLimiter] = (
            weakref.WeakKeyDictionary()
        )
        self._down = False

    @property
    def _here(self) -> FixedWindowRateLimiter:
        if self._memory:
            return _limiter(self._storage)
        loop = asyncio.get_running_loop()
        limiter = self._limiters.get(loop)
        if limiter is None:
            limiter, self._first = self._first or _limiter(self._storage), None
            self._limiters[loop] = limiter
        return limiter

    async def admit(self, tenant: str, rate: str) -> Budget:
        """What `tenant` may still spend of `rate`. Raises ToolCallError where that is nothing."""
        from limits import parse

        item = parse(rate)
        limiter = self._here
        counts = self._down
        stats = await self._ask(_window(limiter, item, tenant, counts=counts), counts=counts)
        if stats is None:
            if self._failure == "closed":
                message = "The rate limit cannot be checked now, and rate_limit_failure is closed. Try again soon."
                raise ToolCallError("rate_limit_unavailable", message, headers={"retry-after": "1"})
            return Budget(item.amount, None, 0.0, None, item.get_expiry())
        charge = self._charge(limiter, item, tenant)
        budget = Budget(item.amount, stats.remaining, stats.reset_time, charge, item.get_expiry())
        if stats.remaining < 1:
            headers = budget.headers()
            headers["retry-after"] = str(max(1, int(headers["x-ratelimit-reset"])))
            message = f"rate_limit is {rate} tool calls, and all of them are used up."
            raise ToolCallError("rate_limit_exceeded", message, headers=headers)
        return budget

    async def unasked(self, tenant: str, rate: str) -> Budget:
        """For a request without tools, which is admitted whatever is left: a backend may call some all the same."""
        from limits import parse

        item = parse(rate)
        return Budget(item.amount, None, 0.0, self._charge(self._here, item, tenant), item.get_expiry())

    def _charge(
        self, limiter: FixedWindowRateLimiter, item: RateLimitItem, tenant: str
    ) -> Callable[[int], Awaitable[None]]:
        lost = False

        async def charge(units: int) -> None:
            nonlocal lost
            # An answer waits once for a storage that says nothing, not with each of its calls.
            lost = lost or await self._ask(limiter.hit(item, "toolcall", tenant, cost=units), counts=True) is None
            if lost:
                _log.warning("rate_limit: %d tool calls of %s were not counted.", units, tenant)

        return charge

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


async def _window(limiter: FixedWindowRateLimiter, item: RateLimitItem, tenant: str, *, counts: bool) -> WindowStats:
    """What is left of a tenant's window, and until when. counts: prove first that the storage counts, with nothing."""
    if counts:
        await limiter.hit(item, "toolcall", tenant, cost=0)
    return await limiter.get_window_stats(item, "toolcall", tenant)


class Budget:
    """What one request may spend. Everything that it sends goes through `sender`, which charges for calls.

    reset: when the window ends, as `time.time` counts; window: how long one lasts, from its first charge.
    """

    def __init__(
        self,
        amount: int,
        remaining: int | None,
        reset: float,
        charge: Callable[[int], Awaitable[None]] | None,
        window: float,
    ) -> None:
        self._amount = amount
        self._remaining = remaining
        self._reset = reset
        self._charge = charge
        self._window = window
        self._charged = 0

    def headers(self) -> dict[str, str]:
        """`x-ratelimit-limit`, `-remaining` and `-reset` (seconds until a new window), as of this request."""
        if self._remaining is None:
            return {}
        return {
            "x-ratelimit-limit": str(self._amount),
            "x-ratelimit-remaining": str(max(0, self._remaining - self._charged)),
            "x-ratelimit-reset": str(max(0, math.ceil(self._reset - time.time()))),
        }

    def sender(self, send: Send, spent: Callable[[], int]) -> Send:
        """`send` with the headers added, which charges first for what is about to leave: `spent` calls by now."""

        async def charged(message: Message) -> None:
            units = spent() - self._charged
            if units > 0 and self._charge is not None:
                self._charged += units
                self._reset = self._reset if self._reset > time.time() else time.time() + self._window
                await self._charge(units)
            if message["type"] == "http.response.start":
                own = [(name.encode(), value.encode()) for name, value in self.headers().items()]
                names = {name for name, _ in own}
                kept = [(name, value) for name, value in message.get("headers", ()) if name.lower() not in names]
                message = {**message, "headers": [*kept, *own]}
            await send(message)

        return charged
