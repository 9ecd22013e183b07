"""The other fields of a request: what the chat completion gets of them, what is refused, what is only repeated."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.apis.fed import ResponsesFace
from toolcall_middleware.errors import ToolCallError

from .asking import WEATHER, asked, body, chat_of


def refused(**fields: Any) -> ToolCallError:
    with pytest.raises(ToolCallError) as caught:
        asked(**fields)
    assert caught.value.status == 400
    return caught.value


@pytest.mark.parametrize(
    ("fields", "made"),
    [
        ({"max_output_tokens": 9}, {"max_tokens": 9}),
        ({"reasoning": {"effort": "high", "summary": "auto"}}, {"reasoning_effort": "high"}),
        ({"reasoning": {"summary": "auto"}}, {}),
        ({"temperature": 0.5, "top_p": 0.9}, {"temperature": 0.5, "top_p": 0.9}),
        ({"text": {"verbosity": "low"}}, {}),
        ({"text": {"format": {"type": "text"}}}, {}),
        ({"text": {"format": {"type": "json_object"}}}, {"response_format": {"type": "json_object"}}),
        (
            {"text": {"format": {"type": "json_schema", "name": "n", "schema": {"type": "object"}, "strict": True}}},
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "n", "schema": {"type": "object"}, "strict": True},
                }
            },
        ),
        ({"tools": [WEATHER], "parallel_tool_calls": False}, {"parallel_tool_calls": False}),
        ({"toolcall": {"format": "hermes"}}, {"toolcall": {"format": "hermes"}}),
        (
            {"request_options": {"validate_tool_arguments": True}},
            {"request_options": {"validate_tool_arguments": True}},
        ),
        ({"top_k": 3, "seed": 1, "user": "u"}, {"top_k": 3, "seed": 1, "user": "u"}),
    ],
)
def test_fields_that_a_chat_completion_has_are_given_to_it(fields: dict[str, Any], made: dict[str, Any]) -> None:
    chat = chat_of(**fields)
    for name in ("model", "messages", "stream", "tools"):
        chat.pop(name, None)
    assert chat == made


@pytest.mark.parametrize(
    "fields",
    [
        {"store": True, "include": ["reasoning.encrypted_content"], "metadata": {"a": "b"}, "prompt_cache_key": "k"},
        {"safety_identifier": "s", "service_tier": "flex", "truncation": "auto", "max_tool_calls": 3},
        {"client_metadata": {"x": "y"}, "top_logprobs": 3, "background": False, "stream_options": None},
        {"previous_response_id": None, "conversation": None, "prompt": None, "instructions": None, "tools": None},
        {"messages": [], "functions": [{"name": "f"}], "Tools": [1], "n": 4, "max_tokens": 3, "response_format": {}},
    ],
)
def test_other_fields_of_the_api_are_taken_and_do_not_go_on(fields: dict[str, Any]) -> None:
    assert set(chat_of(**fields)) == {"model", "messages", "stream"}


def test_a_stream_asks_for_usage() -> None:
    chat = chat_of(stream=True, stream_options={"include_obfuscation": False})
    assert chat["stream"] is True
    assert chat["stream_options"] == {"include_usage": True}


def test_thoughts_are_asked_for_in_their_own_field() -> None:
    assert asked()[0].settings == {"reasoning_field": "reasoning"}


@pytest.mark.parametrize(
    ("field", "value", "words"),
    [
        ("previous_response_id", "resp_1", "Previous response with id 'resp_1' not found."),
        ("previous_response_id", "resp_1", "store=False"),
        ("conversation", "conv_1", "'conversation'"),
        ("conversation", {"id": "conv_1"}, "'conversation'"),
        ("prompt", {"id": "pmpt_1"}, "'prompt'"),
        ("background", True, "'background'"),
    ],
)
def test_what_needs_a_memory_is_refused_by_name(field: str, value: Any, words: str) -> None:
    error = refused(**{field: value})
    assert error.param == field
    assert words in error.message


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("model", ""), ("model", 3), ("model", None), ("input", None), ("input", 3), ("input", {}),
        ("instructions", 3), ("stream", "yes"), ("temperature", "hot"), ("temperature", -1), ("top_p", 2),
        ("top_p", True), ("max_output_tokens", 0), ("max_output_tokens", 1.5), ("max_output_tokens", "3"),
        ("parallel_tool_calls", "x"), ("include", "x"), ("include", [1]), ("metadata", []), ("truncation", "x"),
        ("truncation", []), ("reasoning", "high"), ("text", []), ("store", 1), ("prompt_cache_key", 1),
        ("safety_identifier", []), ("service_tier", 1), ("background", 1), ("top_logprobs", -1),
        ("stream_options", 3),
    ],
)  # fmt: skip
def test_a_wrong_type_is_refused_by_name(field: str, value: Any) -> None:
    assert refused(**{field: value}).param == field


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"reasoning": {"effort": 3}}, "reasoning.effort"),
        ({"text": {"format": 3}}, "text.format"),
        ({"text": {"format": {"type": "x"}}}, "text.format.type"),
        ({"text": {"format": {"type": "json_schema", "schema": {}}}}, "text.format.name"),
        ({"text": {"format": {"type": "json_schema", "name": "n"}}}, "text.format.schema"),
    ],
)
def test_a_wrong_field_inside_is_refused_with_its_path(fields: dict[str, Any], param: str) -> None:
    assert refused(**fields).param == param


@pytest.mark.parametrize("data", [b"", b"[]", b"3", b"{", b'{"model": NaN}', b"\xff", b'{"model": "\xff"}', b"null"])
def test_what_is_no_json_object_is_refused(data: bytes) -> None:
    with pytest.raises(ToolCallError) as caught:
        ResponsesFace().request(data)
    assert caught.value.code == "invalid_json"


def test_the_same_request_makes_the_same_bytes() -> None:
    fields = {"tools": [WEATHER], "instructions": "a", "stream": True}
    first, second = asked(**fields)[1].body, asked(**fields)[1].body
    assert first == second
    longer = asked(**{**fields, "input": [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "a"}]})
    assert json.loads(longer[1].body)["messages"][:2] == json.loads(first)["messages"]


def test_a_nesting_that_cannot_be_written_is_refused() -> None:
    deep = b"[" * 2000 + b"]" * 2000
    for field in (b"input", b"tools", b"metadata", b"tool_choice", b"text"):
        with pytest.raises(ToolCallError):
            ResponsesFace().request(body()[:-1] + b', "' + field + b'": ' + deep + b"}")
    item = b'{"type": "function_call_output", "call_id": "c", "output": ' + b'{"a":' * 900 + b"1" + b"}" * 900 + b"}"
    call = b'{"type": "function_call", "call_id": "c", "name": "n", "arguments": "{}"}'
    data = b'{"model": "m", "input": [' + call + b"," + item + b"]}"
    try:
        ResponsesFace().request(data)
    except ToolCallError as error:
        assert error.status == 400  # noqa: PT017 - either is right, nothing else may be raised
