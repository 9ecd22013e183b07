"""Calls that a backend itself writes, and breaks: what their repair makes of the answer on each face."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from tests.apis.faces.asking import body_of, chat_tool, post
from tests.apis.responses import chat
from tests.apis.responses.received import check_stream
from toolcall_middleware import ToolCallMiddleware

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}, "n": {"type": "integer"}}}


def backend(*deltas: chat.Delta) -> Any:
    async def app(_scope: Scope, receive: Receive, send: Send) -> None:
        while (await receive()).get("more_body"):
            pass
        head = [(b"content-type", b"text/event-stream")]
        await send({"type": "http.response.start", "status": 200, "headers": head})
        events = chat.stream(deltas, "tool_calls").split(b"\n\n")[:-1]
        for at, event in enumerate(events):
            await send({"type": "http.response.body", "body": event + b"\n\n", "more_body": at + 1 < len(events)})

    return app


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
