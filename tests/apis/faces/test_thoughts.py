"""Thoughts on the faces: a client gives them back, and the model reads them again; a call in one that never ends."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.helpers.fakes import TextBackend, write_calls
from toolcall_middleware import ToolCallMiddleware

CALL = write_calls("hermes", ("lookup_code", {"city": "Paris"}))
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}


async def post(app: Any, path: str, body: dict[str, Any]) -> Any:
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
        answer = await client.post(path, json=body)
    assert answer.status_code == 200, answer.text
    return answer.json()


def messages(**more: Any) -> dict[str, Any]:
    tool = {"name": "lookup_code", "input_schema": SCHEMA}
    return {"model": "m", "max_tokens": 2000, "tools": [tool], "thinking": {"type": "adaptive"}, **more}


def responses(**more: Any) -> dict[str, Any]:
    tool = {"type": "function", "name": "lookup_code", "parameters": SCHEMA}
    return {"model": "m", "tools": [tool], "include": ["reasoning.encrypted_content"], **more}


@pytest.mark.parametrize("display", [{}, {"display": "omitted"}])
async def test_a_thinking_block_that_comes_back_is_read_again(display: dict[str, str]) -> None:
    backend = TextBackend([f"<think>Hm, Paris.</think>{CALL}", "It is 7."], strict=True)
    app = ToolCallMiddleware(backend, faces="messages", format="hermes")
    thinking = {"type": "adaptive", **display}
    hi = {"role": "user", "content": "The code?"}
    first = await post(app, "/v1/messages", messages(messages=[hi], thinking=thinking))
    assert [block["type"] for block in first["content"]] == ["thinking", "tool_use"]
    result = {"type": "tool_result", "tool_use_id": first["content"][1]["id"], "content": "7"}
    history = [hi, {"role": "assistant", "content": first["content"]}, {"role": "user", "content": [result]}]
    await post(app, "/v1/messages", messages(messages=history, thinking=thinking))
    (said,) = [message["content"] for message in backend.last.body["messages"] if message["role"] == "assistant"]
    assert said.startswith("<think>\nHm, Paris.\n</think>\n\n<tool_call>")


async def test_a_reasoning_item_that_comes_back_is_read_again() -> None:
    backend = TextBackend([f"<think>Hm, Paris.</think>{CALL}", "It is 7."], strict=True)
    app = ToolCallMiddleware(backend, faces="responses", format="hermes")
    hi = {"role": "user", "content": "The code?"}
    first = await post(app, "/v1/responses", responses(input=[hi]))
    assert [item["type"] for item in first["output"]] == ["reasoning", "function_call"]
    result = {"type": "function_call_output", "call_id": first["output"][1]["call_id"], "output": "7"}
    await post(app, "/v1/responses", responses(input=[hi, *first["output"], result]))
    (said,) = [message["content"] for message in backend.last.body["messages"] if message["role"] == "assistant"]
    assert said.startswith("<think>\nHm, Paris.\n</think>\n\n<tool_call>")


async def test_a_call_in_a_thought_that_never_ends_is_one_on_each_face() -> None:
    text = f"<think>Hm, Paris. {CALL}"
    app = ToolCallMiddleware(TextBackend([text] * 2, strict=True), faces="messages,responses", format="hermes")
    hi = [{"role": "user", "content": "The code?"}]
    first = await post(app, "/v1/messages", messages(messages=hi))
    assert [block["type"] for block in first["content"]] == ["thinking", "tool_use"]
    assert (first["stop_reason"], first["content"][1]["input"]) == ("tool_use", {"city": "Paris"})
    second = await post(app, "/v1/responses", responses(input=hi))
    assert [item["type"] for item in second["output"]] == ["reasoning", "function_call"]
