"""A whole chat completion as a message, and models and counts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from anthropic.types import MessageTokensCount, ModelInfo

from tests.apis.fed import however_cut
from toolcall_middleware.apis.messages.client.face import models_reply

from .chat import asked, call, chunk, end, more, opening, whole
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


def read(arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [call("call_a", "Read", arguments)]}


ADAPTIVE = {"thinking": {"type": "adaptive"}}
STOPS = {"stop_sequences": ["END"]}
CACHED = {
    "prompt_tokens": 100, "completion_tokens": 9, "total_tokens": 109,
    "prompt_tokens_details": {"cached_tokens": 60}, "completion_tokens_details": {"reasoning_tokens": 4},
}  # fmt: skip
CALLED: tuple[str, Any] = ("call", {})
# (request's fields, message, finish reason, other fields of the choice, blocks, stop reason, stop sequence)
ANSWERS: dict[str, tuple[dict[str, Any], dict[str, Any], str, dict[str, Any], list[Any], str, str | None]] = {
    "text": ({}, {"content": "a"}, "stop", {}, [("text", "a")], "end_turn", None),
    "length": ({}, {"content": "a"}, "length", {}, [("text", "a")], "max_tokens", None),
    "a full context": (
        {}, {"content": "a"}, "model_length", {}, [("text", "a")], "model_context_window_exceeded", None
    ),
    "filtered": ({}, {"content": "a"}, "content_filter", {}, [("text", "a")], "refusal", None),
    "no call came": ({}, {"content": "a"}, "tool_calls", {}, [("text", "a")], "end_turn", None),
    "vllm's stop": (STOPS, {"content": "a"}, "stop", {"stop_reason": "END"}, [("text", "a")], "stop_sequence", "END"),
    "sglang's stop": (
        STOPS, {"content": "a"}, "stop", {"matched_stop": "END"}, [("text", "a")], "stop_sequence", "END"
    ),
    "another stop": (STOPS, {"content": "a"}, "stop", {"matched_stop": "OTHER"}, [("text", "a")], "end_turn", None),
    "a token's number": (STOPS, {"content": "a"}, "stop", {"stop_reason": 128009}, [("text", "a")], "end_turn", None),
    "no stop": (STOPS, {"content": "a"}, "stop", {"matched_stop": None}, [("text", "a")], "end_turn", None),
    "a refusal": ({}, {"refusal": "I will not."}, "stop", {}, [("text", "I will not.")], "refusal", None),
    "nothing": ({}, {"content": ""}, "stop", {}, [], "end_turn", None),
    "white space": ({}, {"content": "\n \t"}, "stop", {}, [], "end_turn", None),
    "white space before a call": (
        ADAPTIVE, {"reasoning": "\n", "content": "\n\n", **read("{}")}, "tool_calls", {}, [CALLED], "tool_use", None
    ),
    "white space before text": (
        {}, {"content": "\n\u3000\nHi"}, "stop", {}, [("text", "\n\u3000\nHi")], "end_turn", None
    ),
    "a call that ends with stop": ({}, read("{}"), "stop", {}, [CALLED], "tool_use", None),
    "no arguments": ({}, read(""), "tool_calls", {}, [CALLED], "tool_use", None),
    "blank arguments": ({}, read("  "), "tool_calls", {}, [CALLED], "tool_use", None),
    "null": ({}, read("null"), "tool_calls", {}, [CALLED], "tool_use", None),
    "no argument field": ({}, read(None), "tool_calls", {}, [CALLED], "tool_use", None),
    "blanks before arguments": ({}, read(' \n{"a": 1}'), "tool_calls", {}, [("call", {"a": 1})], "tool_use", None),
    "arguments as an object": ({}, read({"p": "/ü"}), "tool_calls", {}, [("call", {"p": "/ü"})], "tool_use", None),
    "a thought not asked for": (
        {}, {"content": "a", "reasoning_content": "hm"}, "stop", {}, [("text", "a")], "end_turn", None
    ),
    "thinking disabled": (
        {"thinking": {"type": "disabled"}}, {"content": "a", "reasoning": "hm"}, "stop", {}, [("text", "a")],
        "end_turn", None,
    ),
    # What a backend tells apart and what it wrote into the text are one thought.
    **{
        f"thoughts {own!r} and {found!r}": (
            ADAPTIVE, {"content": "a", "reasoning_content": own, "reasoning": found}, "stop", {},
            [("thinking", thought), ("text", "a")], "end_turn", None,
        )
        for own, found, thought in [
            ("one, ", "two", "one, two"), ("one", "one, two", "one, two"), ("one", "one", "one"), ("one", "", "one"),
        ]
    },
}  # fmt: skip


def stream_of(message: dict[str, Any], reason: str, **choice: Any) -> bytes:
    """The chat stream of this message: its text by characters, all else at once."""
    said = {name: value for name, value in message.items() if name not in {"content", "tool_calls"}}
    out = [chunk({"role": "assistant", "content": ""}), chunk(said) if said else b""]
    out += [chunk({"content": character}) for character in message.get("content", "")]
    for index, made in enumerate(message.get("tool_calls", ())):
        arguments = made["function"]["arguments"]
        pieces = arguments if isinstance(arguments, str) else [arguments]
        out += [opening(index, made["id"], made["function"]["name"]), *(more(index, piece) for piece in pieces)]
    return b"".join(out) + end(reason, CACHED, **choice)


def seen(received: Received) -> tuple[list[Any], str | None, str | None]:
    blocks = [
        ("call", block["input"]) if block["type"] == "tool_use" else (block["type"], block[block["type"]])
        for block in received.content
    ]
    return blocks, received.message.stop_reason, received.message.stop_sequence


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_streamed_and_whole(name: str) -> None:
    fields, message, reason, choice, *expected = ANSWERS[name]
    streamed = read_stream(however_cut(lambda: asked(stream=True, **fields), stream_of(message, reason, **choice)))
    received = answered(whole(message, reason, usage=CACHED, **choice), **fields)
    assert list(seen(streamed)) == list(seen(received)) == expected
    for usage in (streamed.usage, received.usage):
        counts = [usage[name] for name in ("input_tokens", "cache_read_input_tokens", "output_tokens")]
        assert counts == [40, 60, 9]
        assert usage["output_tokens_details"] == {"thinking_tokens": 4}


def test_a_whole_answer_without_a_reason_ends_its_turn() -> None:
    assert answered(whole({"content": "a"}, None)).message.stop_reason == "end_turn"  # type: ignore[arg-type]


def test_arguments_that_are_cut_are_held_as_text() -> None:
    received = answered(whole(read('{"path": "/x'), "length"))
    assert received.calls == [("Read", {"arguments": '{"path": "/x'})]
    assert received.message.stop_reason == "max_tokens"


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
