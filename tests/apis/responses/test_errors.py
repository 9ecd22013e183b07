"""Errors: the status and the code decide whether agents show them, or try thirty times."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.chat_answers import error_body
from toolcall_middleware.errors import ToolCallError

from . import chat
from .asking import asked, streamed
from .received import check_stream

MODEL_FAULTS = ["unknown_tool_call", "malformed_tool_arguments", "invalid_tool_arguments", "tool_choice_not_satisfied"]


def replied(status: int, body: bytes) -> tuple[int, dict[str, Any], dict[bytes, bytes]]:
    face, _ = asked()
    reply = face.whole(status, {}, body)
    error: dict[str, Any] = json.loads(reply.body)["error"]
    return reply.status, error, dict(reply.headers)


@pytest.mark.parametrize("code", MODEL_FAULTS)
def test_a_fault_of_the_model_is_a_400_before_the_stream(code: str) -> None:
    fault = ToolCallError(code, "The model called no tool.", param="tool_choice")
    for reply in (asked()[0].error(fault), asked()[0].whole(422, {}, fault.body())):
        assert reply.status == 400
        error = json.loads(reply.body)["error"]
        assert error == {"message": fault.message, "type": "model_error", "param": "tool_choice", "code": code}
        assert dict(reply.headers)[b"x-toolcall-error"] == code.encode()
        assert dict(reply.headers)[b"x-should-retry"] == b"false"


@pytest.mark.slow
def test_a_limit_that_the_model_passed_is_a_fault_of_the_model() -> None:
    fault = ToolCallError("limit_exceeded", "Too many bytes.", status=422, type="model_error")
    for reply in (asked()[0].error(fault), asked()[0].whole(422, {}, fault.body())):
        assert (reply.status, json.loads(reply.body)["error"]["code"]) == (400, "limit_exceeded")
    for data in (fault.sse(), chat.chunk({"content": "a"}) + fault.sse()):
        assert check_stream(streamed(data)).response["error"]["code"] == "invalid_prompt"


@pytest.mark.parametrize("code", MODEL_FAULTS)
@pytest.mark.parametrize("said", [[], chat.text("One moment"), chat.call(0, "get_weather", '{"ci')])
def test_a_fault_of_the_model_is_invalid_prompt_in_the_stream(code: str, said: list[chat.Delta]) -> None:
    fault = ToolCallError(code, "Not in the list.")
    data = b"".join(map(chat.chunk, said)) + fault.sse() + b"data: [DONE]\n\n"
    got = check_stream(streamed(data))
    assert got.types[-1] == "response.failed"
    assert got.response["error"] == {"code": "invalid_prompt", "message": "Not in the list."}
    assert all(item["status"] == "incomplete" for item in got.output)
    assert "response.output_item.done" not in got.types


@pytest.mark.parametrize("status", [400, 422, 500])
def test_a_prompt_that_is_too_long_is_told_as_agents_understand_it(status: int) -> None:
    """What else engines say of it is in tests/apis/test_context_errors.py."""
    message = "Requested tokens (5000) exceed context window of 4096"
    got, error, _ = replied(status, error_body(message, type="BadRequestError", code=status))
    assert (got, error["code"], error["type"]) == (400, "context_length_exceeded", "invalid_request_error")
    assert error["message"] == message
    stream = check_stream(streamed(b"data: " + error_body(message, type="x", code=status) + b"\n\n"))
    assert stream.response["error"] == {"code": "context_length_exceeded", "message": message}


def test_llama_cpps_own_type_is_enough() -> None:
    body = json.dumps({"error": {"code": 400, "message": "too big", "type": "exceed_context_size_error", "n_ctx": 9}})
    status, error, _ = replied(400, body.encode())
    assert (status, error["code"], error["n_ctx"]) == (400, "context_length_exceeded", 9)


@pytest.mark.parametrize(
    "message", ["The context of this tool is missing.", "tools[0].function.name exceeds 64 characters.", "bad key"]
)
def test_other_errors_keep_their_code_and_status(message: str) -> None:
    status, error, headers = replied(403, error_body(message, type="permission", code="own"))
    assert (status, error["code"], error["type"], error["message"]) == (403, "own", "permission", message)
    assert b"x-toolcall-error" not in headers
    assert replied(400, error_body(message, type="x"))[1]["code"] is None


def test_errors_name_the_clients_fields() -> None:
    body = error_body("no", type="x", param="messages[0].content", code="own")
    assert replied(400, body)[1]["param"] == "input"


def test_retry_after_is_kept() -> None:
    error = ToolCallError("rate_limit_exceeded", "slow", headers={"retry-after": "7"})
    reply = asked()[0].error(error)
    assert reply.status == 429
    assert dict(reply.headers) == {b"retry-after": b"7", b"x-toolcall-error": b"rate_limit_exceeded"}


@pytest.mark.parametrize(
    ("code", "status_code"),
    [
        (429, "rate_limit_exceeded"),
        ("rate_limit_exceeded", "rate_limit_exceeded"),
        ("insufficient_quota", "insufficient_quota"),
        (503, "server_is_overloaded"),
        (400, "invalid_prompt"),
        ("invalid_tool_schema", "invalid_prompt"),
        (500, "server_error"),
        (None, "server_error"),
        ("upstream_error", "server_error"),
        ("upstream_timeout", "server_error"),
    ],
)
def test_errors_in_a_stream_have_the_code_that_says_who_tries_again(code: Any, status_code: str) -> None:
    data = chat.chunk({"content": "a"}) + b"data: " + error_body("no", type="x", code=code) + b"\n\ndata: [DONE]\n\n"
    got = check_stream(streamed(data))
    assert got.response["error"] == {"code": status_code, "message": "no"}
    assert got.text == "a"


def test_an_error_before_any_chunk_still_begins_the_response() -> None:
    got = check_stream(streamed(b'data: {"error": {"message": "no", "code": 500}}\n\n'))
    assert got.types == ["response.created", "response.in_progress", "response.failed"]


@pytest.mark.parametrize(
    "data", [b"", b"nonsense", b"[]", b'{"choices": []}', b'{"choices": 3}', b'{"object": "error", "message": "m"}',
             b'{"error": {"message": "m"}}']
)  # fmt: skip
def test_a_whole_answer_that_is_none_is_an_error(data: bytes) -> None:
    status, error, _ = replied(200, data)
    assert status == 502
    assert error["message"]
