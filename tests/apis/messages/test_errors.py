"""Errors as Messages has them, and what is asked once more."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.chat_answers import error_body
from toolcall_middleware.errors import ToolCallError

from .chat import READ, asked
from .received import error_of

VLLM_PROMPT = (
    "This model's maximum context length is 2048 tokens. However, your prompt contains at least 2049 input tokens,"
    " which exceeds this limit even without any output tokens. Please reduce the length of the input prompt."
    " (parameter=input_tokens, value=2049)"
)
OPENAI_BOTH = (
    "This model's maximum context length is 16384 tokens. However, you requested 19591 tokens (9591 in the messages,"
    " 10000 in the completion). Please reduce the length of the messages or completion."
)
SGLANG_BOTH = (
    "Requested token count exceeds the model's maximum context length of 8192 tokens. You requested a total of 33000"
    " tokens: 1000 tokens from the input messages and 32000 tokens for the completion."
)
SGLANG_PROMPT = "The input (61709 tokens) is longer than the model's context length (40960 tokens)."
GOOGLE_PROMPT = "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576)."
LLAMA = {
    "code": 400,
    "message": "request (12031 tokens) exceeds the available context size (2048 tokens), try increasing it",
    "type": "exceed_context_size_error",
    "n_prompt_tokens": 12031,
    "n_ctx": 2048,
}


def refusal(message: str, **fields: Any) -> bytes:
    return json.dumps(
        {"error": {"message": message, "type": "BadRequestError", "param": None, "code": 400, **fields}}
    ).encode()


@pytest.mark.parametrize(
    ("error", "status", "kind"),
    [
        (ToolCallError("invalid_request", "m"), 400, "invalid_request_error"),
        (ToolCallError("invalid_api_key", "m"), 401, "authentication_error"),
        (ToolCallError("tool_not_allowed", "m"), 403, "permission_error"),
        (ToolCallError("model_not_found", "m"), 404, "not_found_error"),
        (ToolCallError("request_timeout", "m"), 408, "invalid_request_error"),
        (ToolCallError("request_too_large", "m"), 413, "request_too_large"),
        (ToolCallError("rate_limit_exceeded", "m", headers={"Retry-After": "3"}), 429, "rate_limit_error"),
        (ToolCallError("upstream_error", "m"), 502, "api_error"),
        (ToolCallError("rate_limit_unavailable", "m"), 503, "overloaded_error"),
        (ToolCallError("upstream_timeout", "m"), 504, "timeout_error"),
        (ToolCallError("unknown_tool_call", "m"), 500, "api_error"),
        (ToolCallError("malformed_tool_arguments", "m"), 500, "api_error"),
        (ToolCallError("invalid_tool_arguments", "m"), 500, "api_error"),
        (ToolCallError("tool_choice_not_satisfied", "m", param="tool_choice"), 500, "api_error"),
    ],
)
def test_our_errors(error: ToolCallError, status: int, kind: str) -> None:
    reply = asked().error(error)
    headers = dict(reply.headers)
    assert reply.status == status
    assert error_of(reply.body) == {"type": kind, "message": "m"}
    assert headers[b"x-toolcall-error"] == str(error.code).encode()
    assert headers[b"request-id"].decode() == json.loads(reply.body)["request_id"]
    assert (headers.get(b"x-should-retry") == b"false") == (status == 500)
    if error.code == "rate_limit_exceeded":
        assert headers[b"retry-after"] == b"3"


def test_errors_of_the_exchange_that_were_written_already() -> None:
    fault = ToolCallError("invalid_tool_arguments", "wrong")
    reply = asked().whole(422, {b"x-should-retry": b"false"}, fault.body())
    assert reply.status == 500
    assert error_of(reply.body) == {"type": "api_error", "message": "wrong"}
    assert dict(reply.headers)[b"x-toolcall-error"] == b"invalid_tool_arguments"
    assert dict(reply.headers)[b"x-should-retry"] == b"false"


@pytest.mark.parametrize("code", ["INVALID_ARGUMENT", "NOT_FOUND", "insufficient_quota", 429, None])
def test_a_code_of_the_upstreams_is_not_told_as_ours(code: Any) -> None:
    reply = asked().whole(429, {}, error_body("said so", type="x", code=code))
    assert reply.status == 429
    assert b"x-toolcall-error" not in dict(reply.headers)


@pytest.mark.parametrize("status", [400, 401, 403, 409, 413, 422, 429, 500, 502, 503, 529])
def test_the_backends_errors_keep_status_and_text(status: int) -> None:
    reply = asked().whole(status, {b"retry-after": b"7"}, error_body("said so", type="x", code="odd code\n"))
    assert reply.status == status
    assert error_of(reply.body)["message"] == "said so"
    assert dict(reply.headers)[b"retry-after"] == b"7"
    assert b"x-toolcall-error" not in dict(reply.headers)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"Internal Server Error",
        b'{"detail": "no"}',
        b'{"error": "no"}',
        b"\xff\xfe",
        b'{"error": {"message": [1]}}',
    ],
)
def test_errors_of_any_form_are_read(data: bytes) -> None:
    assert error_of(asked().whole(500, {}, data).body)["type"] == "api_error"


def test_only_an_unknown_model_is_not_found() -> None:
    missing = asked().whole(404, {}, refusal("The model `x` does not exist.", code=404))
    assert (missing.status, error_of(missing.body)["type"]) == (404, "not_found_error")
    path = asked().whole(404, {}, b'{"detail":"Not Found"}')
    assert (path.status, error_of(path.body)["type"]) == (502, "api_error")
    assert dict(path.headers)[b"x-should-retry"] == b"false"


# -- room ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "data", "start"),
    [
        (400, refusal(VLLM_PROMPT), "prompt is too long: 2049 tokens > 2048 maximum ("),
        (400, json.dumps({"error": LLAMA}).encode(), "prompt is too long: 12031 tokens > 2048 maximum ("),
        (400, refusal(OPENAI_BOTH), "prompt is too long: 19591 tokens > 16384 maximum ("),
        (400, refusal(SGLANG_BOTH), "prompt is too long: 33000 tokens > 8192 maximum ("),
        (400, refusal(SGLANG_PROMPT), "prompt is too long: 61709 tokens > 40960 maximum ("),
        (400, refusal("too much", code="context_length_exceeded"), "prompt is too long: too much"),
        (400, refusal("prompt is too long: 9 tokens > 5 maximum"), "prompt is too long: 9 tokens > 5 maximum"),
        (500, refusal("the context size is exceeded"), "prompt is too long: the context"),
        (413, refusal("Input is too long for requested model."), "prompt is too long: Input"),
        (400, refusal(GOOGLE_PROMPT), "prompt is too long: 2000000 tokens > 1048576 maximum ("),
    ],
)
def test_what_does_not_fit_is_told_as_agents_understand_it(status: int, data: bytes, start: str) -> None:
    reply = asked().whole(status, {}, data)
    assert reply.status == 400
    error = error_of(reply.body)
    assert error["type"] == "invalid_request_error"
    assert error["message"].startswith(start)
    assert b"x-should-retry" not in dict(reply.headers)


# -- places --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("param", "path"),
    [
        ("messages[0].content", "system"),
        ("messages[1]", "messages.0"),
        ("messages[2].tool_calls[0].function.arguments", "messages.1"),
        ("messages[3].tool_call_id", "messages.2.content.0"),
        ("messages[4].content", "messages.2"),
        ("messages[9]", "messages"),
        ("tools[0].function.parameters", "tools.1.input_schema"),
        ("tools[0].function.parameters.properties[3]", "tools.1.input_schema.properties.3"),
        ("tools[0].function.name", "tools.1.name"),
        ("tools[0]", "tools.1"),
        ("tools[7].x", "tools"),
        ("tools", "tools"),
        ("stop", "stop_sequences"),
        ("response_format.json_schema", "output_config.format"),
        ("tool_choice.function.name", "tool_choice.function.name"),
        ("messages.0.content.1.tool_use_id", "messages.0.content.1.tool_use_id"),
    ],
)
def test_places_of_the_chat_completion_are_the_clients(param: str, path: str) -> None:
    face = asked(
        system="s",
        tools=[{"type": "web_search_20250305", "name": "web_search"}, READ],
        messages=[
            {"role": "user", "content": "hi"},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "Read", "input": {}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}, {"type": "text", "text": "q"}]},
        ],
    )
    reply = face.error(ToolCallError("invalid_request", "wrong", param=param))
    assert error_of(reply.body)["message"] == f"{path}: wrong"
