"""Joining many messages of one role takes time in proportion to them, and never keeps the event loop."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.asgi_client import TOOL, Client, ask, middleware
from tests.helpers.fakes import TextBackend
from tests.helpers.loop_watch import standstill
from toolcall_middleware.formats import registry
from toolcall_middleware.formats.prompt.thoughts import Thoughts
from toolcall_middleware.upstream import history
from toolcall_middleware.upstream.history import appended

HERMES = registry.get("hermes")


@pytest.mark.parametrize("content", ["x" * 100, [{"type": "image_url", "image_url": {"url": "x"}}]])
def test_neighbours_are_joined_once(content: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    joined: list[int] = []

    def counted(*contents: Any) -> Any:
        joined.append(len(contents))
        return appended(*contents)

    monkeypatch.setattr(history, "appended", counted)
    messages = [{"role": "user", "content": content}] * 40
    history.plain(messages, HERMES, max_result_bytes=None, offered=(), thoughts=Thoughts(), model="m")
    assert joined == [40]


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
