"""Turns at something that one task at a time may use, in the order in which they came."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType


class Turns:
    """As `asyncio.Lock`, for what is done thousands of times: where none waits, a turn costs no call.

        if turns.taken:
            await turns.come()
        turns.taken = True
        try:
            ...
        finally:
            if turns.waiting:
                turns.leave()
            else:
                turns.taken = False

    taken: a task has the turn. waiting: those that come next.
    """

    __slots__ = ("taken", "waiting")

    def __init__(self) -> None:
        self.taken = False
        self.waiting: deque[asyncio.Future[None]] = deque()

    async def come(self) -> None:
        """Wait for the turn. A task that is cancelled meanwhile does not get it, and does not hold up others."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.waiting.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """Nobody else can take the turn between this and the next one's going on: it stays taken."""
        while self.waiting:
            next_one = self.waiting.popleft()
            if not next_one.done():
                next_one.set_result(None)
                return
        self.taken = False

    async def __aenter__(self) -> None:
        if self.taken:
            await self.come()
        self.taken = True

    async def __aexit__(
        self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None
    ) -> None:
        self.leave()
