"""What engines say of a prompt that has no room: every face recognises the same errors."""

from __future__ import annotations

import json

import pytest

from tests.helpers.chat_answers import error_body
from toolcall_middleware.apis.context_errors import is_context_error
from toolcall_middleware.apis.face import Face
from toolcall_middleware.apis.messages.client.face import MessagesFace
from toolcall_middleware.apis.responses.face import ResponsesFace
from toolcall_middleware.errors import ToolCallError

TOO_LONG = [
    # vLLM, OpenAI
    "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4000 in the messages).",
    "The decoder prompt (length 5000) is longer than the maximum model length of 4096.",
    "Input length (5000) exceeds model's maximum context length (4096).",
    "max_tokens=10000000 cannot be greater than max_model_len=2048. Please request fewer output tokens.",
    # llama.cpp, llama-cpp-python
    "the request exceeds the available context size, try increasing it",
    "request (5000 tokens) exceeds the available context size (4096 tokens), try increasing it",
    "Requested tokens (5000) exceed context window of 4096",
    "the context size is exceeded",
    # SGLang
    "The input (5000 tokens) is longer than the model's context length (4096 tokens).",
    # Ollama, LM Studio
    "the input length exceeds the context length",
    "Trying to keep the first 5000 tokens. However, the model is loaded with context length of only 4096 tokens.",
    # TGI, Anthropic, Google, Bedrock
    "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 4096. Given: 5000 `inputs` tokens",
    "Input validation error: `inputs` must have less than 1024 tokens. Given: 5000",
    "prompt is too long: 210000 tokens > 200000 maximum",
    "The input token count (2000000) exceeds the maximum number of tokens allowed (1048576).",
    "Input is too long for requested model.",
]
OTHER = [
    "The context of this tool is missing.",
    "tools[0].function.name exceeds 64 characters.",
    "context window 'left' is no value of truncation_side",
    "The context length must be a positive integer.",
    "bad key",
]


def told(face: Face, status: int, message: str, code: object) -> bool:
    """Whether the face tells its client that the prompt is too long."""
    error = error_body(message, type="BadRequestError", code=code)
    said = json.loads(face.whole(status, {}, error).body)["error"]
    long: bool = said.get("code") == "context_length_exceeded" or said["message"].startswith("prompt is too long")
    return long


@pytest.mark.parametrize("face", [MessagesFace, ResponsesFace])
@pytest.mark.parametrize("status", [400, 413, 422, 500, 502])
@pytest.mark.parametrize("message", TOO_LONG)
def test_every_face_knows_a_prompt_that_is_too_long(face: type[Face], status: int, message: str) -> None:
    assert told(face(), status, message, status)


@pytest.mark.parametrize("face", [MessagesFace, ResponsesFace])
@pytest.mark.parametrize(
    "code", ["context_length_exceeded", "exceed_context_size_error", "context_window_exceeded", "prompt_too_long"]
)
def test_every_face_knows_the_engines_codes(face: type[Face], code: str) -> None:
    assert told(face(), 400, "too big", code)


@pytest.mark.parametrize("face", [MessagesFace, ResponsesFace])
@pytest.mark.parametrize("message", OTHER)
def test_no_face_takes_another_error_for_one(face: type[Face], message: str) -> None:
    assert not told(face(), 400, message, None)


@pytest.mark.parametrize("face", [MessagesFace, ResponsesFace])
@pytest.mark.parametrize("status", [401, 403, 404, 429])
def test_a_status_of_another_kind_is_none(face: type[Face], status: int) -> None:
    assert not told(face(), status, "Rate limit: maximum context length is 5 tokens per minute", status)


def test_our_own_codes_are_none() -> None:
    assert not is_context_error(ToolCallError("limit_exceeded", "the description exceeds the context of 9."))
    assert not is_context_error(ToolCallError("upstream_error", "The answer exceeds the context length."))
