"""Large work in threads: the event loop serves other requests meanwhile.

The threads are our own. asyncio's look up addresses too, which must not wait behind a body of 30 MiB. What is huge has
threads of its own, so that ordinary large requests do not wait behind it either; there are few of each, because every
thread that computes delays the event loop by some milliseconds, the interpreter's switch interval.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar, TypeVarTuple

LARGE = 32 * 1024
"""Bytes that may be read in the event loop: some milliseconds, also where each of them is a surprise."""
CODED = 4 * 1024
"""The same for bytes in a content coding, which may become a thousand times as many."""
_HUGE = 2 << 20

_large = ThreadPoolExecutor(4, "toolcall-large")
_huge = ThreadPoolExecutor(2, "toolcall-huge")

_Result = TypeVar("_Result")
_Given = TypeVarTuple("_Given")


async def offloaded(size: int, work: Callable[[*_Given], _Result], *given: *_Given) -> _Result:
    """What `work(*given)` gives. Done at once where it reads at most LARGE bytes, else in a thread.

    Where the caller is cancelled, it goes on once the thread is through: nobody else may use meanwhile what the work
    uses. Raises what `work` raises.
    """
    if size <= LARGE:
        return work(*given)
    pool = _large if size <= _HUGE else _huge
    running = pool.submit(contextvars.copy_context().run, partial(work, *given))
    try:
        return await asyncio.shield(asyncio.wrap_future(running))
    except asyncio.CancelledError:
        while not running.cancel() and not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([asyncio.wrap_future(running)])
        raise
