"""Codex's `compaction_trigger`: the model is asked for a summary, which comes as an item that the client sends back."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.helpers.fakes import TextBackend
from toolcall_middleware import ToolCallMiddleware

from .asking import WEATHER

USER: dict[str, Any] = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Tea, please."}]}
SUMMARY = "The user wants tea. Nothing was found \U0001f375."


async def ask(backend: TextBackend, *items: dict[str, Any], stream: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """The items of the answer, and the types of its events."""
    app = ToolCallMiddleware(backend, faces=("responses",))
    body = {"model": "m", "input": list(items), "tools": [WEATHER], "stream": stream, "store": False}
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=app), base_url="http://a/v1") as client:
        response = await client.post("/responses", json=body)
    assert response.status_code == 200
    if not stream:
        return response.json()["output"], []
    events = [json.loads(line[6:]) for line in response.text.splitlines() if line.startswith("data: {")]
    done = [event["item"] for event in events if event["type"] == "response.output_item.done"]
    assert done == events[-1]["response"]["output"]
    return done, [event["type"] for event in events]


@pytest.mark.parametrize("stream", [False, True])
async def test_the_summary_is_one_compaction_item_that_is_read_again(stream: bool) -> None:
    backend = TextBackend([SUMMARY, "Here is your tea."])
    (item,), events = await ask(backend, USER, {"type": "compaction_trigger"}, stream=stream)
    assert item.keys() == {"type", "id", "encrypted_content"}
    assert item["type"] == "compaction"
    assert not [name for name in events if "text" in name or "content_part" in name]
    asked = backend.bodies[0]["messages"]
    assert "Summarise the conversation so far" in asked[-1]["content"]
    (answer,), _ = await ask(backend, item, {**USER, "content": "And now?"}, stream=stream)
    assert answer["content"][0]["text"] == "Here is your tea."
    assert SUMMARY in str(backend.bodies[1]["messages"])


@pytest.mark.parametrize("stream", [False, True])
async def test_other_answers_stay_messages(stream: bool) -> None:
    (item,), _ = await ask(TextBackend([SUMMARY]), USER, stream=stream)
    assert item["type"] == "message"
