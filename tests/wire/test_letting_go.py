"""A million objects are freed in steps, so that others get their turns."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.helpers.loop_watch import standstill
from toolcall_middleware.wire.json_input import let_go


@pytest.mark.parametrize("depth", [0, 1, 5])
def test_a_large_list_is_emptied_wherever_it_stands(depth: int) -> None:
    large: list[Any] = [{"type": "text"} for _ in range(5000)]
    value: Any = large
    for level in range(depth):
        value = [{"content": value}, "x", 1] if level % 2 else {"a": None, "parts": value}
    let_go(value, "text", None, [], {})
    assert large == []


def test_what_is_small_or_nested_without_end_is_left() -> None:
    small = [{"a": [1, 2]}] * 10
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    let_go(small, deep)
    assert (len(small), len(deep)) == (10, 1)
    while deep:
        deep = deep[0]


@pytest.mark.slow
def test_a_million_objects_are_freed_while_others_run() -> None:
    """Against the time of the whole in the same run."""
    value = [{"role": "user", "content": [{"type": "text", "text": str(at)}]} for at in range(400_000)]
    longest, seconds = asyncio.run(standstill(asyncio.to_thread(let_go, value)))
    assert value == []
    assert longest < seconds / 3 + 0.05
