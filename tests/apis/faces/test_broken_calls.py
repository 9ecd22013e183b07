"""Calls that a backend itself writes, and breaks: what their repair makes of the answer on each face."""

from __future__ import annotations

import json

import pytest

from tests.apis.faces.asking import body_of, chat_tool, post
from tests.apis.responses import chat
from tests.apis.responses.received import check_stream
from tests.helpers.asgi_client import Backend
from toolcall_middleware import ToolCallMiddleware

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "n": {"type": "integer"}}}


def backend(*deltas: chat.Delta) -> Backend:
    return Backend(*(event + b"\n\n" for event in chat.stream(deltas, "tool_calls").split(b"\n\n")[:-1]))


@pytest.mark.parametrize("mode", ["native", "auto"])
@pytest.mark.parametrize("between", [chat.text(" Done."), [{"reasoning_content": "so"}]])
async def test_a_call_without_its_last_brace_and_what_comes_behind_it(mode: str, between: list[chat.Delta]) -> None:
    deltas = [*chat.call(0, "f", '{"city": "A"'), *between]
    app = ToolCallMiddleware(backend(*deltas), faces="messages,responses", mode=mode)
    tool = chat_tool("f", SCHEMA)
    got = check_stream((await post(app, "responses", body_of("responses", tool, stream=True))).content)
    assert got.response["status"] == "completed"
    assert [called[3] for called in got.calls] == ['{"city": "A"}']
    assert got.text + got.thought == "".join(said for delta in between for said in delta.values())
    told = (await post(app, "messages", body_of("messages", tool, stream=True))).text
    events = [json.loads(line[6:]) for line in told.splitlines() if line.startswith("data: ")]
    pieces = [event["delta"].get("partial_json", "") for event in events if event["type"] == "content_block_delta"]
    assert "".join(pieces) == '{"city": "A"}'


async def test_a_value_that_is_cut_leaves_its_call_incomplete_though_text_follows() -> None:
    deltas = [*chat.call(0, "f", '{"city": "A", "n": "5'), *chat.text("x")]
    app = ToolCallMiddleware(backend(*deltas), faces="responses", mode="native")
    body = body_of("responses", chat_tool("f", SCHEMA), stream=True)
    got = check_stream((await post(app, "responses", body)).content)
    assert got.response["status"] == "incomplete"
    assert [item["status"] for item in got.output] == ["incomplete", "completed"]
    assert got.text == "x"
