"""Joining many messages of one role takes time in proportion to them, and never keeps the event loop."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest

from tests.helpers.asgi_client import TOOL, Client, ask, middleware
from tests.helpers.fakes import TextBackend
from tests.helpers.loop_watch import standstill
from toolcall_middleware.formats import registry
from toolcall_middleware.formats.prompt.thoughts import Thoughts
from toolcall_middleware.upstream.history import appended, plain

HERMES = registry.get("hermes")


def cost_of(messages: list[dict[str, Any]]) -> float:
    best = 1e9
    for _ in range(3):
        begin = time.process_time()
        plain(messages, HERMES, max_result_bytes=None, offered=(), thoughts=Thoughts(), model="m")
        best = min(best, time.process_time() - begin)
    return best


def short(count: int) -> list[dict[str, Any]]:
    return [{"role": "user", "content": "x" * 100} for _ in range(count)]


def parts(count: int) -> list[dict[str, Any]]:
    image = {"type": "image_url", "image_url": {"url": "x"}}
    return [{"role": "user", "content": [image]} for _ in range(count)]


@pytest.mark.slow
@pytest.mark.parametrize("make", [short, parts])
def test_joining_neighbours_is_linear(make: Any) -> None:
    cost_of(make(100))
    assert cost_of(make(40_000)) < 8 * cost_of(make(10_000)) + 0.02


@pytest.mark.parametrize(
    ("contents", "joined"),
    [
        (("a", "b", "c"), "a\n\nb\n\nc"),
        (("a", " ", "c"), "a\n\nc"),
        (("a", "b", [{"type": "x"}], "c", "d"), ["a\n\nb", {"type": "x"}, "c", "d"]),
        (([{"type": "x"}], [{"type": "y"}]), [{"type": "x"}, {"type": "y"}]),
        ((" ", [{"type": "x"}]), [" ", {"type": "x"}]),
    ],
)
def test_contents_are_joined_as_pair_by_pair(contents: Any, joined: Any) -> None:
    if isinstance(joined, list):
        joined = [{"type": "text", "text": part} if isinstance(part, str) else part for part in joined]
    assert appended(*contents) == joined


@pytest.mark.slow
async def test_a_large_request_lets_others_be_served() -> None:
    """The longest that the loop is away, against the time of the whole work."""
    messages = [{"role": "user", "content": ""} for _ in range(20_000)]
    body = json.dumps({"model": "m", "messages": messages, "tools": [TOOL]}).encode()
    client, app = Client(body), middleware(TextBackend(["ok", "ok"]))
    await Client(ask()).run(app)  # imports take time, once
    longest, whole = await standstill(client.run_with_others(app))
    assert client.status == 200
    assert longest < whole / 2 + 0.05
