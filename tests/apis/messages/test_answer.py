"""A whole chat completion as a message, and models and counts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types import MessageTokensCount, ModelInfo

from toolcall_middleware.apis.messages.client.face import models_reply

from .chat import asked, call, chunk, end, whole
from .received import Received, error_of, read_stream, read_whole

THINKING = {"thinking": {"type": "enabled", "budget_tokens": 1024}}


def answered(data: bytes, **fields: Any) -> Received:
    reply = asked(**fields).whole(200, {}, data)
    assert reply.status == 200
    headers = dict(reply.headers)
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"request-id"].startswith(b"req_")
    return read_whole(reply.body)


def test_a_whole_answer() -> None:
    data = whole(
        {
            "content": "Let me look.",
            "reasoning": "hm",
            "tool_calls": [call("call_a", "Read", '{"path": "/x", "n": 1.0}')],
        },
        "tool_calls",
        usage={"prompt_tokens": 30, "completion_tokens": 7, "prompt_tokens_details": {"cached_tokens": 12}},
    )
    reply = asked(**THINKING).whole(200, {}, data)
    value = json.loads(reply.body)
    assert value.pop("id").startswith("msg_")
    assert value.pop("content")[1:] == [
        {"type": "text", "text": "Let me look."},
        {"type": "tool_use", "id": "call_a", "name": "Read", "input": {"path": "/x", "n": 1.0}},
    ]
    assert value == {
        "type": "message",
        "role": "assistant",
        "model": "m",
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 18,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 12,
            "output_tokens": 7,
        },
    }
    assert b'"input":{"path": "/x", "n": 1.0}' in reply.body
    assert read_whole(reply.body).thinking == "hm"


def test_thoughts_only_where_asked_for() -> None:
    data = whole({"content": "a", "reasoning_content": "hm"})
    assert [block["type"] for block in answered(data).content] == ["text"]
    assert answered(data, **THINKING).thinking == "hm"
    omitted = answered(data, thinking={"type": "adaptive", "display": "omitted"})
    assert omitted.thinking == ""
    history = [{"role": "user", "content": "q"}, {"role": "assistant", "content": omitted.content}]
    assert asked(messages=history).read.chat["messages"][1]["reasoning_content"] == "hm"


@pytest.mark.parametrize(
    ("own", "read", "thought"),
    [("one, ", "two", "one, two"), ("one", "one, two", "one, two"), ("one", "one", "one"), ("one", "", "one")],
)
def test_what_a_backend_tells_apart_and_what_stood_in_the_text_are_one_thought(
    own: str, read: str, thought: str
) -> None:
    said = {"content": "a", "reasoning_content": own, "reasoning": read}
    assert answered(whole(said), **THINKING).thinking == thought
    face = asked(stream=True, **THINKING)
    out = face.feed(chunk(said) + end("stop")) + face.finish(cut=False)
    assert read_stream(out).thinking == thought


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", {}),
        ("null", {}),
        ('{"path": "/x', {"arguments": '{"path": "/x'}),
        ({"path": "/x"}, {"path": "/x"}),
        (None, {}),
    ],
)
def test_input_is_always_an_object(arguments: Any, expected: Any) -> None:
    data = whole({"tool_calls": [call("call_a", "Read", arguments)]}, "length")
    received = answered(data)
    assert received.calls == [("Read", expected)]
    assert received.message.stop_reason == "max_tokens"


@pytest.mark.parametrize("content", [None, "", "\n\n", " \t"])
def test_there_is_no_block_without_text(content: str | None) -> None:
    received = answered(whole({"content": content, "tool_calls": [call("call_a", "Read", "{}")]}, "tool_calls"))
    assert [block["type"] for block in received.content] == ["tool_use"]
    assert answered(whole({"content": content})).content == []


@pytest.mark.parametrize(
    ("reason", "fields", "expected"),
    [
        ("stop", {}, ("end_turn", None)),
        ("stop", {"stop_reason": "END"}, ("stop_sequence", "END")),
        ("stop", {"matched_stop": "OTHER"}, ("end_turn", None)),
        ("length", {}, ("max_tokens", None)),
        ("model_length", {}, ("model_context_window_exceeded", None)),
        ("content_filter", {}, ("refusal", None)),
        ("tool_calls", {}, ("end_turn", None)),
        (None, {}, ("end_turn", None)),
    ],
)
def test_stop_reasons(reason: str, fields: dict[str, Any], expected: tuple[str, str | None]) -> None:
    message = answered(whole({"content": "a"}, reason, **fields), stop_sequences=["END"]).message
    assert (message.stop_reason, message.stop_sequence) == expected


def test_content_in_parts_is_text() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "x"}, {"type": "text", "text": "b"}]
    assert answered(whole({"content": parts})).text == "ab"


def test_half_an_emoji_stays_an_escape() -> None:
    data = whole({"content": "a\ud83d", "tool_calls": [call("call_a", "Read", '{"p": "\ud83d"}')]}, "tool_calls")
    value = json.loads(asked().whole(200, {}, data).body)
    assert value["content"][0]["text"] == "a\ud83d"
    assert value["content"][1]["input"] == {"p": "\ud83d"}


@pytest.mark.parametrize("data", [b"", b"<html>", b"[]", b'{"choices": []}', b'{"choices": [{}]}', b'{"choices": 1}'])
def test_what_is_no_completion_is_an_error(data: bytes) -> None:
    reply = asked().whole(200, {}, data)
    assert reply.status == 502
    assert error_of(reply.body)["type"] == "api_error"


# -- counts and models ---------------------------------------------------------------------------------------------


def test_a_count() -> None:
    reply = asked().counted(17)
    assert MessageTokensCount.model_validate_json(reply.body).input_tokens == 17


LIST = json.dumps(
    {
        "object": "list",
        "data": [{"id": name, "object": "model", "created": 1_700_000_000, "max_model_len": 8192} for name in "abcde"],
    }
).encode()


def test_models_are_listed_as_the_sdk_has_them() -> None:
    page = json.loads(models_reply(LIST).body)
    assert page.keys() == {"data", "has_more", "first_id", "last_id"}
    models = [ModelInfo.model_validate(entry) for entry in page["data"]]
    assert [model.id for model in models] == list("abcde")
    assert models[0].display_name == "a"
    assert models[0].created_at.year == 2023
    assert models[0].max_input_tokens == 8192
    assert (page["has_more"], page["first_id"], page["last_id"]) == (False, "a", "e")


def test_one_model() -> None:
    assert ModelInfo.model_validate_json(models_reply(LIST, "c").body).id == "c"
    assert ModelInfo.model_validate_json(models_reply(b'{"id": "c"}', "c").body).created_at.year == 1970
    reply = models_reply(LIST, "x")
    assert reply.status == 404
    assert error_of(reply.body)["type"] == "not_found_error"


@pytest.mark.parametrize("data", [b"", b"[]", b'{"data": 1}'])
def test_what_is_no_list_of_models_is_an_error(data: bytes) -> None:
    assert models_reply(data).status == 502
