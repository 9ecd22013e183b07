"""What every chunk and answer says of itself is there, and events leave whole with line ends of one kind."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.answers import GOOD, post
from tests.helpers.fakes import Quirks, TextBackend
from tests.helpers.stream_rules import read_events
from toolcall_middleware import ToolCallMiddleware
from toolcall_middleware.wire.sse import LineEnds, ServerEvent


def bare_backend(text: str) -> Any:
    """An app that answers with the choices and nothing else."""

    async def app(scope: Any, receive: Any, send: Any) -> None:
        del scope
        stream = json.loads((await receive())["body"]).get("stream")
        if stream:
            deltas: list[dict[str, Any]] = [{"role": "assistant"}, {"content": text[:9]}, {"content": text[9:]}]
            chunks: list[dict[str, Any]] = [
                {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
            ]
            end: dict[str, Any] = {"index": 0, "delta": {}, "finish_reason": "stop"}
            chunks.append({"choices": [end]})
            out = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"
        else:
            message = {"role": "assistant", "content": text}
            out = json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": "stop"}]}).encode()
        kind = b"text/event-stream" if stream else b"application/json"
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]})
        await send({"type": "http.response.body", "body": out})

    return app


@pytest.mark.parametrize("text", [GOOD, "Just some words, long enough."])
async def test_what_the_backend_leaves_out_is_filled_in(text: str) -> None:
    whole = (await post(ToolCallMiddleware(bare_backend(text)))).json()
    assert (whole["object"], whole["model"]) == ("chat.completion", "m")
    assert whole["id"].startswith("chatcmpl-")
    assert isinstance(whole["created"], int)
    streamed = await post(ToolCallMiddleware(bare_backend(text)), stream=True)
    chunks = [json.loads(event) for event in read_events(streamed.content)[:-1]]
    heads = {(chunk["id"], chunk["object"], chunk["created"], chunk["model"]) for chunk in chunks}
    assert [head[1::2] for head in heads] == [("chat.completion.chunk", "m")]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
@pytest.mark.parametrize("line_end", ["\r\n", "\r", "\n"])
async def test_events_leave_with_line_ends_of_one_kind(line_end: str, size: int) -> None:
    quirks = Quirks(line_end=line_end, bytes_per_write=size, comments=True)
    app = ToolCallMiddleware(TextBackend(["Some words and " + GOOD], quirks=quirks))
    body = (await post(app, stream=True)).content
    assert b"\r" not in body
    assert b"\n\n\n" not in body
    for event in body.removesuffix(b"\n\n").split(b"\n\n"):
        assert event.startswith((b"data: ", b":"))


def test_the_lf_of_a_cr_is_no_line() -> None:
    for before, expected in ((b"data: a\n\r", b"data: x\n\n"), (b"data: a\n\n", b"\ndata: x\n\n")):
        ends = LineEnds()
        ends.of_one_kind(ServerEvent(before, b"a"))
        assert ends.of_one_kind(ServerEvent(b"\ndata: x\r\n\r", b"x")).raw == expected
