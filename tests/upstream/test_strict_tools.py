"""`strict: true` under `tool_choice: auto`: constrained where the backend can, checked where it cannot."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from tests.helpers.driven import Driven
from tests.helpers.fakes import write_calls
from toolcall_middleware.formats import registry
from toolcall_middleware.settings import Settings
from toolcall_middleware.upstream.constraints import constraint_requests

from ..request.chats import HELLO, request

PARAMETERS = {
    "type": "object", "properties": {"x": {"type": "boolean"}}, "required": ["x"], "additionalProperties": False,
}  # fmt: skip
TOOL = {
    "type": "function", "function": {"name": "f", "description": "F.", "strict": True, "parameters": PARAMETERS}
}  # fmt: skip
BAD = write_calls("hermes", ("f", {"x": 7}))


@pytest.mark.parametrize(
    ("fmt", "begin", "end", "style"),
    [
        ("qwen3_coder", "<tool_call>\n<function=f>\n", "\n</function>\n</tool_call>", "qwen_xml"),
        ("glm45", "<tool_call>f\n", "</tool_call>", "glm_xml"),
        ("glm47", "<tool_call>f", "</tool_call>", "glm_xml"),
        (
            "deepseek_v32",
            '<｜DSML｜function_calls>\n<｜DSML｜invoke name="f">\n',
            "</｜DSML｜invoke>\n</｜DSML｜function_calls>",
            "deepseek_xml",
        ),
        (
            "kimi_k3",
            '<|open|>tools<|sep|><|open|>call tool="f" index="1"<|sep|>',
            "<|close|>call<|sep|><|close|>tools<|sep|>",
            "kimi_k3_xml",
        ),
        ("minimax_m2", '<minimax:tool_call>\n<invoke name="f">\n', "</invoke>\n</minimax:tool_call>", "minimax_xml"),
    ],
)
def test_arguments_in_xml_are_constrained_too(fmt: str, begin: str, end: str, style: str) -> None:
    chat = request(HELLO, tools=(TOOL,), tool_choice="auto")
    [asked] = constraint_requests(chat, registry.get(fmt), Settings())
    form = json.loads(json.dumps(asked.fields))["response_format"]["format"]
    assert form["tags"] == [
        {"begin": begin, "content": {"type": "json_schema", "json_schema": PARAMETERS, "style": style}, "end": end}
    ]
    assert all(begin.startswith(trigger) for trigger in form["triggers"])


def ask(text: str, *, stream: bool = False, tool: Any = TOOL, **set_: Any) -> tuple[int, bytes, str]:
    """(status, body, x-toolcall) where the model writes `text`."""
    exchange = Driven(Settings(format="hermes", constrain="off", **set_))
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": [tool], "stream": stream}
    if set_.get("profile") == "strict":
        described = {**PARAMETERS, "properties": {"x": {"type": "boolean", "description": "X."}}}
        body["tools"] = [{**tool, "function": {**tool["function"], "parameters": described}}]
        body["parallel_tool_calls"] = False
    exchange.on_request(json.dumps(body).encode())
    head = {"id": "c", "created": 1, "model": "m"}
    if stream:
        chunk = {
            **head,
            "object": "chat.completion.chunk",
            "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": "stop"}],
        }
        exchange.on_response_start(200, [(b"content-type", b"text/event-stream")])
        return 200, exchange.feed(f"data: {json.dumps(chunk)}\n\ndata: [DONE]\n\n".encode()) + exchange.finish(), ""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    exchange.on_response_start(200, [(b"content-type", b"application/json")])
    reply = exchange.whole(json.dumps({**head, "object": "chat.completion", "choices": [choice]}).encode())
    assert reply is not None
    return reply.status, reply.body, (reply.headers or {})["x-toolcall"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_call_of_a_strict_tool_is_checked_and_told_of(stream: bool, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "toolcall_middleware")
    _, body, told = ask(BAD, stream=stream)
    assert b'"name":"f"' in body.replace(b": ", b":")
    assert stream or "; invalid=1" in told
    assert any("outcome=invalid path=arguments.x" in line for line in caplog.messages)
    assert not any("7" in line for line in caplog.messages)


def test_other_tools_are_not_checked() -> None:
    loose = {**TOOL, "function": {**TOOL["function"], "strict": False}}  # type: ignore[dict-item]
    assert "invalid" not in ask(BAD, tool=loose)[2]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("options", [{"profile": "gateway"}, {"profile": "strict"}, {"validate_arguments": "error"}])
def test_it_is_refused_where_a_profile_or_a_setting_asks_for_that(options: dict[str, Any], stream: bool) -> None:
    with pytest.raises(Exception, match="do not fit its schema"):
        ask(BAD, stream=stream, **options)


@pytest.mark.parametrize("calls", ["auto", "required"])
def test_where_the_schema_is_refused_a_call_is_let_pass_and_told_of_unless_it_must_come(calls: str) -> None:
    exchange = Driven(Settings(format="hermes", coerce_arguments=False))
    body = {"model": "m", "messages": [{"role": "user", "content": "Hi"}], "tools": [TOOL], "tool_choice": calls}
    exchange.on_request(json.dumps(body).encode())
    exchange.on_response_start(400, [(b"content-type", b"application/json")])
    assert exchange.whole(b'{"error": {"message": "response_format: this schema is not supported"}}') is None
    assert b"structural_tag" in (exchange.take_next() or b"")
    exchange.on_response_start(200, [(b"content-type", b"application/json")])
    choice = {"index": 0, "message": {"role": "assistant", "content": BAD}, "finish_reason": "stop"}
    reply = exchange.whole(json.dumps({"id": "c", "created": 1, "model": "m", "choices": [choice]}).encode())
    if calls == "required":
        assert reply is None  # asked again
    else:
        assert reply is not None
        assert "; invalid=1" in (reply.headers or {})["x-toolcall"]
