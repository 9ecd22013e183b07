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
_WORTH = 8

_large = ThreadPoolExecutor(4, "toolcall-large")
_huge = ThreadPoolExecutor(2, "toolcall-huge")

_Result = TypeVar("_Result")
_Given = TypeVarTuple("_Given")


class Held:
    """Bytes that a reader was fed and nothing has come of: its next piece, however small, may have it read them all.

    What comes of a piece makes room for `_WORTH` times as much: a comment that keeps a connection alive is no answer
    to what is held, and an answer that says less than the upstream did (no logprobs, say) is.
    """

    __slots__ = ("size",)

    def __init__(self) -> None:
        self.size = 0

    def note(self, given: int, out: int) -> None:
        """So many bytes were fed, and so many came of it."""
        self.size = max(0, self.size + given - _WORTH * out)

    async def read(self, feed: Callable[[bytes], bytes], data: bytes) -> bytes:
        """What `feed(data)` gives, in a thread where it may be much."""
        out = await offloaded(self.size + len(data), feed, data)
        self.note(len(data), len(out))
        return out


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
