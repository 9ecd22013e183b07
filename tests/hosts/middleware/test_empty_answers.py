"""An answer without a word or a call is asked for once more, where tools were offered and nothing has been sent."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from tests.helpers.asgi_client import asked_on_each_face, post
from tests.helpers.auto_backend import TOOL
from tests.helpers.fakes import Answer, Quirks, TextBackend, write_calls
from tests.helpers.stream_rules import check_stream, check_whole
from toolcall_middleware import ToolCallMiddleware

CALL = write_calls("json", ("f", {"x": 3}))
ASKED = {"role": "assistant", "content": None, "tool_calls": [
    {"id": "call_a", "type": "function", "function": {"name": "f", "arguments": '{"x": 1}'}},
]}  # fmt: skip
HISTORY = [{"role": "user", "content": "Go."}, ASKED, {"role": "tool", "tool_call_id": "call_a", "content": "42"}]


async def ask(app: Any, **fields: Any) -> httpx.Response:
    return await post(app, {"model": "m", "messages": HISTORY, "tools": [TOOL], **fields})


def said(response: httpx.Response) -> tuple[str | None, list[str]]:
    assert response.status_code == 200, response.text
    check = check_stream if response.headers["content-type"].startswith("text/event-stream") else check_whole
    choice = check(response.content, tools={"f"}, own_ids=False).only
    return choice.content, [call.name for call in choice.calls]


@pytest.mark.parametrize("mode", ["prompt", "native"])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("second", "expected"), [("It is 42.", ("It is 42.", [])), (CALL, (None, ["f"]))])
async def test_an_empty_answer_is_asked_for_once_more(
    second: str, expected: tuple[str | None, list[str]], stream: bool, mode: str
) -> None:
    backend = TextBackend(["", second])
    response = await ask(ToolCallMiddleware(backend, mode=mode), stream=stream)
    assert said(response) == expected
    assert "; retried=1" in response.headers["x-toolcall"]
    *before, answer, note = backend.last.body["messages"]
    assert before == backend.bodies[0]["messages"]
    assert (answer["role"], note["role"]) == ("assistant", "user")
    assert "empty" in note["content"]


@pytest.mark.parametrize("stream", [False, True])
async def test_it_is_asked_once(stream: bool) -> None:
    backend = TextBackend(["", "", "Never."])
    response = await ask(ToolCallMiddleware(backend, retries=3), stream=stream)
    text, calls = said(response)
    assert (text or "", calls) == ("", [])
    assert len(backend.bodies) == 2


@pytest.mark.parametrize("stream", [False, True])
async def test_usage_is_of_both(stream: bool) -> None:
    backend = TextBackend(["", "It is 42."])
    options: dict[str, Any] = {"stream_options": {"include_usage": True}} if stream else {}
    response = await ask(ToolCallMiddleware(backend), stream=stream, **options)
    check = check_stream(response.content, include_usage=True) if stream else check_whole(response.content)
    assert check.usage is not None
    words = [sum(len(str(message["content"]).split()) for message in body["messages"]) for body in backend.bodies]
    assert check.usage["prompt_tokens"] == sum(words)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("settings", "fields", "answer"),
    [
        ({"retries": 0}, {}, ""),
        ({}, {"tool_choice": "none"}, ""),
        ({}, {}, Answer("", "length")),
        ({}, {}, Answer("", "content_filter")),
    ],
)
async def test_other_empty_answers_are_given(settings: Any, fields: Any, answer: Any, stream: bool) -> None:
    backend = TextBackend([answer, "Never."])
    response = await ask(ToolCallMiddleware(backend, **settings), stream=stream, **fields)
    assert response.status_code == 200
    assert "Never" not in response.text
    assert "retried" not in response.headers["x-toolcall"]
    if stream:
        check_stream(response.content)


async def test_what_has_been_sent_is_not_taken_back() -> None:
    """A comment keeps a slow stream alive: its client has the beginning of an answer."""
    backend = TextBackend(["", "Never."], quirks=Quirks(comments=True))
    response = await ask(ToolCallMiddleware(backend), stream=True)
    assert len(backend.bodies) == 1
    check_stream(response.content)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("validate", ["retry", "error"])
async def test_it_is_asked_again_where_calls_are_checked_too(stream: bool, validate: str) -> None:
    backend = TextBackend(["", CALL])
    response = await ask(ToolCallMiddleware(backend, validate_arguments=validate), stream=stream)
    assert said(response) == (None, ["f"])


@pytest.mark.parametrize("path", ["/v1/messages", "/v1/responses"])
@pytest.mark.parametrize("stream", [False, True])
async def test_the_other_apis_ask_again_too(path: str, stream: bool) -> None:
    backend = TextBackend(["", "It is 42."], chunk_size=None)
    body = {**asked_on_each_face("Go.", TOOL)[path], "stream": stream}
    response = await post(ToolCallMiddleware(backend), body, path)
    assert "t is 42." in response.text
    assert "; retried=1" in response.headers["x-toolcall"]
