"""Large work in threads: the event loop serves other requests meanwhile.

The threads are our own. asyncio's look up addresses too, which must not wait for a body of 30 MiB. What is huge has
threads of its own, so that ordinary large requests do not wait for it either; there are few of each, because every
thread that computes delays the event loop by some milliseconds, the interpreter's switch interval.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import gc
import threading
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
_NEVER = 1 << 30
_LONGEST = 60.0  # seconds without full collections, for one request

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


class _FullCollections:
    """Python's full garbage collections, which wait while huge work is done.

    One goes through all objects that there are, in one step, and hundreds of thousands of messages bring about one
    after the other, up to a second each. The collections of young objects go on. (Python 3.14 collects in small steps.)
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting = 0
        self._thresholds = gc.get_threshold()

    def wait(self) -> None:
        with self._lock:
            self._waiting += 1
            if self._waiting == 1:
                self._thresholds = gc.get_threshold()
                gc.set_threshold(*self._thresholds[:2], _NEVER)

    def go_on(self) -> None:
        with self._lock:
            self._waiting -= 1
            if not self._waiting:
                gc.set_threshold(*self._thresholds)


_full_collections = _FullCollections()


class WhileHuge:
    """As a context: while a request of `size` bytes is answered. Where that is huge, full collections wait.

    What was read of it stays until its answer's end, and one collection would go through all of that. Not longer than
    a minute: a stream may take hours.
    """

    def __init__(self, size: int) -> None:
        self._waits = size > _HUGE
        self._end: asyncio.TimerHandle | None = None

    def __enter__(self) -> None:
        if self._waits:
            self._end = asyncio.get_running_loop().call_later(_LONGEST, self._go_on)
            _full_collections.wait()

    def __exit__(self, *_: object) -> None:
        if self._end is not None:
            self._end.cancel()
        self._go_on()

    def _go_on(self) -> None:
        if self._waits:
            self._waits = False
            _full_collections.go_on()


def _without_full_collections(work: Callable[[], _Result]) -> _Result:
    _full_collections.wait()
    try:
        return work()
    finally:
        _full_collections.go_on()


def behind(size: int, work: Callable[[], object]) -> None:
    """Do `work` later in a thread, where `size` is huge. It is not waited for, and raises nothing."""
    if size > _HUGE:
        _huge.submit(work)


async def offloaded(size: int, work: Callable[[*_Given], _Result], *given: *_Given) -> _Result:
    """What `work(*given)` gives. Done at once where it reads at most LARGE bytes, else in a thread.

    Where the caller is cancelled, it goes on once the thread is through: nothing else may use meanwhile what the work
    uses. Raises what `work` raises.
    """
    if size <= LARGE:
        return work(*given)
    run = partial(contextvars.copy_context().run, work, *given)
    running = _large.submit(run) if size <= _HUGE else _huge.submit(_without_full_collections, run)
    try:
        return await asyncio.shield(asyncio.wrap_future(running))
    except asyncio.CancelledError:
        while not running.cancel() and not running.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([asyncio.wrap_future(running)])
        raise
