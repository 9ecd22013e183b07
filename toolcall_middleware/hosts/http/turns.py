"""Turns at something that one task at a time may use, in the order in which they came."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType


class Turns:
    """As `asyncio.Lock`, without a coroutine where nobody waits: each message of a stream takes a turn.

        if not turns.free():
            await turns.come()
        try:
            ...
        finally:
            turns.leave()
    """

    __slots__ = ("_taken", "_waiting")

    def __init__(self) -> None:
        self._taken = False
        self._waiting: deque[asyncio.Future[None]] = deque()

    def free(self) -> bool:
        """Whether nobody has the turn; the caller has it then."""
        if self._taken:
            return False
        self._taken = True
        return True

    async def come(self) -> None:
        """The caller has the turn after this. A task that is cancelled meanwhile has not, and nobody waits for it."""
        mine: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(mine)
        try:
            await mine
        except asyncio.CancelledError:
            if mine.done() and not mine.cancelled():
                self.leave()
            raise

    def leave(self) -> None:
        """The next one has the turn."""
        while self._waiting:
            next_one = self._waiting.popleft()
            if not next_one.done():
                next_one.set_result(None)
                return
        self._taken = False

    async def __aenter__(self) -> None:
        if not self.free():
            await self.come()

    async def __aexit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.leave()
