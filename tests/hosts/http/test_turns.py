"""Turns: one task at a time, in the order in which they came."""

from __future__ import annotations

import asyncio

import pytest

from toolcall_middleware.hosts.middleware.faces import Turns


async def test_tasks_take_turns_in_the_order_in_which_they_came() -> None:
    turns, seen = Turns(), list[str]()

    async def work(name: str) -> None:
        async with turns:
            seen.append(f"{name} comes")
            await asyncio.sleep(0)
            seen.append(f"{name} goes")

    await asyncio.gather(*map(work, "abc"))
    assert seen == ["a comes", "a goes", "b comes", "b goes", "c comes", "c goes"]
    assert not turns.taken


async def test_nobody_waits_for_a_task_that_was_cancelled() -> None:
    turns = Turns()
    async with turns:
        waiting = [asyncio.create_task(turns.come()) for _ in range(3)]
        await asyncio.sleep(0)
        waiting[0].cancel()
        await asyncio.sleep(0)
    waiting[1].cancel()  # it has got the turn, and does not know it yet
    await asyncio.wait_for(waiting[2], 1)
    assert turns.taken
    turns.leave()
    assert not turns.taken
    for task in waiting[:2]:
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_a_turn_ends_where_the_work_fails() -> None:
    turns = Turns()
    with pytest.raises(ValueError, match="no"):
        async with turns:
            raise ValueError("no")
    assert not turns.taken
