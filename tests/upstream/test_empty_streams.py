"""A stream without a single event: llama-cpp-python's way to refuse a request (recorded: status 200, no bytes).

The same request without `stream` is refused in words, so it is asked that way once.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.driven import Driven
from tests.helpers.engines import recorded
from tests.helpers.stream_rules import check_stream
from tests.response.streams import completion
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.settings import Settings

TOOL = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}
ROW = recorded("llama_cpp_python")["err_context_overflow_stream"]
TOO_LONG = {
    "message": "This model's maximum context length is 512 tokens. However, you requested 2123 tokens (2107 in the"
    " messages, 16 in the completion). Please reduce the length of the messages or completion.",
    "type": "invalid_request_error",
    "param": "messages",
    "code": "context_length_exceeded",
}
BODY = {
    "model": "m", "messages": [{"role": "user", "content": "x " * 2000}], "tools": [TOOL], "stream": True,
    "stream_options": {"include_usage": True}, "max_tokens": 16,
}  # fmt: skip


def asked_whole(mode: str = "prompt", row: bytes = b"") -> tuple[Driven, dict[str, Any], dict[str, Any]]:
    """An exchange whose stream was empty: (it, the first body, the next one)."""
    made = Driven(Settings(mode=mode))
    first = made.on_request(json.dumps(BODY).encode())
    assert first is not None
    assert (ROW.status, ROW.response) == (200, "")
    made.on_response_start(ROW.status, [(b"content-type", ROW.content_type.encode())])
    assert made.feed(row) + made.finish() == b""
    second = made.take_next()
    assert second is not None
    return made, json.loads(first), json.loads(second)


@pytest.mark.parametrize("mode", ["prompt", "native", "auto"])
def test_it_is_asked_once_more_without_stream(mode: str) -> None:
    _, first, second = asked_whole(mode)
    assert first.pop("stream") is True
    del first["stream_options"]
    assert second.pop("stream", False) is False
    assert first == second


def test_the_refusal_in_words_is_the_clients() -> None:
    made, _, _ = asked_whole()
    reply = made.answers(json.dumps({"error": TOO_LONG}).encode(), 400)
    assert (reply.status, json.loads(reply.body)["error"]) == (400, TOO_LONG)


def test_an_answer_becomes_the_stream_that_was_wanted() -> None:
    made, _, _ = asked_whole()
    usage = {"prompt_tokens": 9, "completion_tokens": 2, "total_tokens": 11}
    reply = made.answers(completion("Hello.", usage=usage))
    answered = check_stream(reply.body, include_usage=True)
    assert answered.only.content == "Hello."
    assert answered.usage == usage


def test_one_that_says_nothing_either_is_an_error_of_the_backend() -> None:
    made, _, _ = asked_whole()
    made.on_response_start(200, [(b"content-type", b"application/json")])
    with pytest.raises(ToolCallError) as caught:
        made.whole(b"")
    assert caught.value.status == 502
    assert made.take_next() is None


def test_a_stream_that_only_says_done_is_asked_so_too() -> None:
    made, _, second = asked_whole(row=b"data: [DONE]\n\n")
    assert "stream" not in second or second["stream"] is False
    assert made.started is None


def test_a_whole_request_with_an_empty_answer_is_not_asked_again() -> None:
    made = Driven(Settings(mode="prompt"))
    made.on_request(json.dumps({**BODY, "stream": False, "stream_options": None}).encode())
    made.on_response_start(200, [(b"content-type", b"application/json")])
    with pytest.raises(ToolCallError, match="empty"):
        made.whole(b"")


def test_a_model_that_the_engine_does_not_know_is_answered_whole() -> None:
    row = recorded("llama_cpp_python")["err_unknown_model"]
    made = Driven(Settings(mode="prompt"))
    made.on_request(json.dumps({**row.request, "tools": [TOOL]}).encode())
    made.on_response_start(row.status, [(b"content-type", row.content_type.encode())])
    reply = made.whole(row.response.encode())
    assert reply is not None
    assert reply.status == 200
    assert json.loads(reply.body)["choices"][0]["message"]["content"] == "I'm here to"
