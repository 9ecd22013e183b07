"""How long the event loop stands still while something is done."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from typing import Any


async def standstill(work: Awaitable[Any]) -> tuple[float, float]:
    """(the longest that the loop was away, the seconds of the whole work)."""
    longest, done = 0.0, False

    async def watch() -> None:
        nonlocal longest
        while not done:
            begin = time.monotonic()
            await asyncio.sleep(0.001)
            longest = max(longest, time.monotonic() - begin)

    watching = asyncio.ensure_future(watch())
    await asyncio.sleep(0)
    begin = time.monotonic()
    await work
    seconds = time.monotonic() - begin
    done = True
    await watching
    return longest, seconds
