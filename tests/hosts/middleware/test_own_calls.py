"""A backend that calls tools which nobody offered: while a guard is on, its calls meet the guard on every face."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest

from tests.exchange.test_modes import NativeBackend
from tests.helpers.asgi_client import Backend, post
from toolcall_middleware import ToolCallMiddleware

HI = [{"role": "user", "content": "Hi"}]
CALL = {
    "index": 0,
    "id": "call_abc",
    "type": "function",
    "function": {"name": "shell", "arguments": '{"command": "ls"}'},
}
OLD = {"function_call": CALL["function"]}


def agent(said: dict[str, Any]) -> NativeBackend:
    """A backend that calls tools of its own, or only answers (`said`)."""
    return NativeBackend({"role": "assistant", **said}, finish="stop" if "content" in said else "tool_calls")


async def ask(app: Any, body: dict[str, Any], path: str = "/v1/chat/completions") -> httpx.Response:
    return await post(app, {"model": "m", **body}, path, {"authorization": "Bearer t"})


BODIES: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": HI}),
    "usage": ("/v1/chat/completions", {"messages": HI, "stream_options": {"include_usage": True}}),
    "none": ("/v1/chat/completions", {"messages": HI, "tool_choice": "none"}),
    "messages": ("/v1/messages", {"messages": HI, "max_tokens": 100}),
    "responses": ("/v1/responses", {"input": "Hi"}),
}


@pytest.mark.parametrize("mode", ["prompt", "native", "auto"])
@pytest.mark.parametrize("face", BODIES)
@pytest.mark.parametrize("said", [{"tool_calls": [CALL]}, OLD], ids=["tool_calls", "function_call"])
@pytest.mark.parametrize("stream", [False, True])
async def test_an_enforced_list_stops_a_call_that_nobody_offered(
    mode: str, face: str, said: dict[str, Any], *, stream: bool
) -> None:
    path, body = BODIES[face]
    if face == "usage" and not stream:
        body = {"messages": HI}
    app = ToolCallMiddleware(
        agent(said), mode=mode, faces="chat,messages,responses", allowlist="search", allowlist_mode="enforce"
    )
    answer = await ask(app, {**body, "stream": stream}, path)
    assert "shell" not in answer.text or "tool_not_allowed" in answer.text + str(answer.headers)
    assert '"command' not in answer.text
    if face in {"chat", "usage", "none"}:
        assert answer.status_code == 403
        assert answer.json()["error"]["code"] == "tool_not_allowed"


@pytest.mark.parametrize("mode", ["prompt", "native", "auto"])
@pytest.mark.parametrize("face", BODIES)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_rate_counts_it(mode: str, face: str, *, stream: bool) -> None:
    path, body = BODIES[face]
    if face == "usage" and not stream:
        body = {"messages": HI}
    app = ToolCallMiddleware(
        agent({"tool_calls": [CALL]}), mode=mode, faces="chat,messages,responses", rate_limit="2/minute"
    )
    for _ in range(2):
        assert (await ask(app, {**body, "stream": stream}, path)).status_code == 200
    tool = {"type": "function", "function": {"name": "shell", "parameters": {"type": "object"}}}
    assert (await ask(app, {"messages": HI, "tools": [tool]})).status_code == 429


@pytest.mark.parametrize("stream", [False, True])
async def test_without_calls_the_request_and_the_answer_are_as_without_a_guard(*, stream: bool) -> None:
    messages = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hi"}, {"type": "text", "text": "there"}]},
        {"role": "user", "content": "And again", "name": "x"},
    ]
    body = {"messages": messages, "stream": stream, "temperature": 0.1, "top_k": 5, "response_format": {"type": "text"}}
    plain, guarded = agent({"content": "Hello"}), agent({"content": "Hello"})
    expected = await ask(ToolCallMiddleware(plain), body)
    answer = await ask(ToolCallMiddleware(guarded, allowlist="search", allowlist_mode="enforce"), body)
    assert guarded.bodies == plain.bodies
    if stream:
        assert answer.content == expected.content
    else:
        left_out = {"choices", "usage"}
        assert {k: v for k, v in answer.json().items() if k not in left_out} == {
            k: v for k, v in expected.json().items() if k not in left_out
        }
        (choice,), (plainly,) = answer.json()["choices"], expected.json()["choices"]
        # What is read is written with the members that OpenAI always has; they are null.
        assert choice.pop("logprobs") is None
        assert choice["message"].pop("refusal") is None
        assert choice == plainly


async def test_without_a_guard_it_passes() -> None:
    answer = await ask(ToolCallMiddleware(agent({"tool_calls": [CALL]})), {"messages": HI})
    assert answer.json()["choices"][0]["message"]["tool_calls"] == [CALL]


def other(data: str, media_type: str) -> Backend:
    """A backend that answers with these bytes, whatever it is asked."""
    return Backend(data.encode(), headers=[(b"content-type", media_type.encode())])


TEXTS = [
    ("{}", "application/json"),
    ('{"choices": [{"index": 0, "text": "Hi", "finish_reason": "stop"}]}', "application/json"),
    ("<html>", "text/html"),
    ("data: [DONE]\n\n", "text/event-stream"),
]


@pytest.mark.parametrize(("data", "media_type"), TEXTS)
async def test_an_answer_that_is_no_chat_completion_is_as_without_a_guard(data: str, media_type: str) -> None:
    app = ToolCallMiddleware(other(data, media_type), allowlist="search", allowlist_mode="enforce")
    for stream in (False, True):
        answer = await ask(app, {"messages": HI, "stream": stream})
        assert (answer.status_code, answer.text) == (200, data)


async def test_a_text_completion_is_as_without_a_guard() -> None:
    data = 'data: {"choices": [{"index": 0, "text": "Hi", "finish_reason": "stop"}]}\n\ndata: [DONE]\n\n'
    app = ToolCallMiddleware(
        other(data, "text/event-stream"), paths="/invocations", allowlist="search", allowlist_mode="enforce"
    )
    answer = await ask(app, {"prompt": "Hi", "stream": True}, "/invocations")
    assert (answer.status_code, answer.text) == (200, data)


async def test_a_call_in_a_broken_completion_does_not_pass() -> None:
    message = {"role": "assistant", "tool_calls": [CALL]}
    not_json = {"message": {**message, "x": float("nan")}}
    for choices in ([{"message": message}, {"text": ""}], [not_json]):
        data = json.dumps({"choices": choices})
        app = ToolCallMiddleware(other(data, "application/json"), allowlist="search", allowlist_mode="enforce")
        answer = await ask(app, {"messages": HI})
        assert answer.status_code in {403, 502}


async def test_a_refusal_is_the_backends() -> None:
    backend = Backend(b"no tea", status=418, headers=[])
    app = ToolCallMiddleware(backend, allowlist="search", allowlist_mode="enforce")
    answer = await ask(app, {"messages": HI})
    assert (answer.status_code, answer.text) == (418, "no tea")
    answer = await ask(app, {"messages": HI, "stream": True, "stream_options": {"include_usage": True}})
    assert (answer.status_code, answer.text) == (418, "no tea")
