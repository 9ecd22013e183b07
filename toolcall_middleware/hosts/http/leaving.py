"""A client that leaves takes its request with it."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Any, Self

from starlette.types import Receive


class Leaving:
    """`async with`: from `watch` on, what runs inside is cancelled when the client has gone. That is no error outside.

    A task of its own for who receives, and none for the request: its context and its cancellation are its caller's.
    What `receive` raises comes out.
    """

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._watcher: asyncio.Task[None] | None = None
        self._left = False
        self._over = False

    async def __aenter__(self) -> Self:
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - this is a coroutine of a task
        self._task = task
        self._cancelling = task.cancelling()
        return self

    def watch(self) -> None:
        """The request has been received: the next message can only be that the client leaves."""
        if self._watcher is None and not self._over:
            self._watcher = asyncio.create_task(self._watch())

    async def _watch(self) -> None:
        try:
            while (await self._receive())["type"] != "http.disconnect":  # noqa: ASYNC110 - it gives way, no more
                await asyncio.sleep(0)
        finally:
            # Also where the server's receive failed; not where the request was quicker.
            if not self._over:
                self._left = True
                self._task.cancel()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _traceback: TracebackType | None
    ) -> bool:
        self._over = True
        ours = self._left and self._task.uncancel() <= self._cancelling and kind is asyncio.CancelledError
        # A cancelled task keeps its frames, and so this object: without this it would be a reference cycle.
        watcher, self._watcher = self._watcher, None
        if watcher is not None:
            watcher.cancel()
            # It may be receiving: whoever receives next must not meet it.
            await done_one(watcher)
            if not watcher.cancelled() and (fault := watcher.exception()) is not None:
                raise fault
        return ours


async def done_one(*futures: asyncio.Future[Any]) -> None:
    """Wait until one of `futures` is done, whatever became of it. As `asyncio.wait`, at a third of its cost."""
    waiter = futures[0].get_loop().create_future()

    def wake(_: asyncio.Future[Any]) -> None:
        if not waiter.done():
            waiter.set_result(None)

    for future in futures:
        future.add_done_callback(wake)
    try:
        await waiter
    finally:
        for future in futures:
            future.remove_done_callback(wake)
