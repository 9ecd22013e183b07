"""Roles, contents, calls and the results that answer them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from . import offers

USER: dict[str, Any] = {"role": "user", "content": "hi"}
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "look"}}


def call(id_: Any = "call_a", **fields: Any) -> dict[str, Any]:
    return {"id": id_, "type": "function", "function": {"name": "look", "arguments": '{"x":1}'}, **fields}


def calls(*made: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": None, "tool_calls": list(made)}


def result(id_: Any = "call_a", **fields: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": id_, "content": "1", **fields}


def read(*messages: Any, **options: Any) -> list[dict[str, Any]]:
    return offers.read(TOOL, messages=list(messages), options=options).messages


def refusal(*messages: Any, **options: Any) -> tuple[str | int | None, str | None]:
    return offers.refusal(TOOL, messages=list(messages), options=options)


@pytest.mark.parametrize("role", ["system", "developer", "user", "assistant"])
@pytest.mark.parametrize(
    "content",
    [
        "text",
        "",
        None,
        [],
        [{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:"}}],
        [{"type": "input_audio", "input_audio": {}}, {"type": "file", "file": {}}, {"type": "unheard_of"}],
        [{"type": "refusal", "refusal": "no"}],
    ],
)
def test_every_kind_of_content_is_kept(role: str, content: Any) -> None:
    message = {"role": role, "content": content, "name": "n", "unknown": [1]}
    assert read(message) == [message]


def test_content_may_be_absent() -> None:
    assert read({"role": "assistant"}, {"role": "user"}) == [{"role": "assistant"}, {"role": "user"}]


@pytest.mark.parametrize(
    ("message", "path"),
    [
        (5, ""),
        (None, ""),
        ({}, ".role"),
        ({"role": "robot"}, ".role"),
        ({"role": 5}, ".role"),
        ({"role": []}, ".role"),
        ({"role": "user", "content": 5}, ".content"),
        ({"role": "user", "content": {}}, ".content"),
        ({"role": "assistant", "content": True}, ".content"),
        ({"role": "system", "content": ["text"]}, ".content[0]"),
        ({"role": "user", "content": [{"type": "text", "text": "a"}, {"text": "b"}]}, ".content[1].type"),
        ({"role": "user", "content": [{"type": "text"}]}, ".content[0].text"),
        ({"role": "user", "content": [{"type": "text", "text": 5}]}, ".content[0].text"),
        ({"role": "assistant", "tool_calls": {}}, ".tool_calls"),
        (calls(5), ".tool_calls[0]"),
        (calls(call(5)), ".tool_calls[0].id"),
        (calls(call(), call("b", type="retrieval")), ".tool_calls[1].type"),
        (calls({"id": "a"}), ".tool_calls[0].function"),
        (calls(call(function="look")), ".tool_calls[0].function"),
        (calls(call(function={})), ".tool_calls[0].function.name"),
        (calls(call(function={"name": ""})), ".tool_calls[0].function.name"),
        (calls(call(function={"name": "f", "arguments": [1]})), ".tool_calls[0].function.arguments"),
        (calls({"id": "a", "type": "custom"}), ".tool_calls[0].custom"),
        (calls({"id": "a", "type": "custom", "custom": {"name": "f"}}), ".tool_calls[0].custom.input"),
        ({"role": "assistant", "function_call": "f"}, ".function_call"),
        ({"role": "assistant", "function_call": {}}, ".function_call.name"),
        ({"role": "assistant", "function_call": {"name": "f", "arguments": 5}}, ".function_call.arguments"),
        ({"role": "function", "content": "x"}, ".name"),
    ],
)
def test_a_bad_message_is_named_by_its_path(message: Any, path: str) -> None:
    assert refusal(USER, USER, message) == ("invalid_request", f"messages[2]{path}")


def test_a_result_needs_an_earlier_call_of_its_id() -> None:
    assert refusal(USER, result()) == ("invalid_message_order", "messages[1].role")
    assert refusal(result(), calls(call())) == ("invalid_message_order", "messages[0].role")
    assert refusal(USER, calls(call()), result("call_b")) == ("invalid_tool_call_id", "messages[2].tool_call_id")
    assert refusal(calls(call()), result(), result("b"), calls(call("b"))) == (
        "invalid_tool_call_id",
        "messages[2].tool_call_id",
    )
    for missing in (None, ""):
        assert refusal(calls(call()), result(missing)) == ("invalid_tool_call_id", "messages[1].tool_call_id")
    assert refusal(calls(call()), {"role": "tool", "content": "1"})[0] == "invalid_tool_call_id"
    assert refusal(calls(call()), result(5)) == ("invalid_request", "messages[1].tool_call_id")


def test_a_result_may_name_its_call_in_id() -> None:
    # Qwen-Agent's only spelling of it.
    named = {"role": "tool", "name": "f", "content": "1", "id": "call_a"}
    paired = {"role": "tool", "name": "f", "content": "1", "tool_call_id": "call_a"}
    for missing in ({}, {"tool_call_id": None}):
        assert read(USER, calls(call()), {**named, **missing})[2] == paired
    chat = offers.read(TOOL, messages=[calls(call()), named])
    assert json.loads(bytes(chat.fields["messages"]))[1] == paired  # what a backend with tools of its own is sent
    # Where both stand, `id` is one more field that nobody here knows.
    assert read(calls(call()), result(id="call_b"))[1] == result(id="call_b")
    for other in ("call_b", "", None, 5):
        assert refusal(calls(call()), {**named, "id": other}) == (
            "invalid_tool_call_id",
            "messages[1].tool_call_id",
        )


def test_a_result_needs_content_of_any_kind() -> None:
    for content in ("", "text", 0, False, 1.5, {"a": [None]}, [], ["x", 1], [{"type": "text", "text": "a"}], None):
        assert read(calls(call()), result(content=content))[1]["content"] == content
    no_content = {"role": "tool", "tool_call_id": "call_a"}
    assert refusal(calls(call()), no_content) == ("invalid_request", "messages[1].content")


def test_is_error_is_a_boolean() -> None:
    for flag in (True, False, None):
        assert read(calls(call()), result(is_error=flag))[1]["is_error"] is flag
    assert refusal(calls(call()), result(is_error="yes")) == ("invalid_request", "messages[1].is_error")


def test_what_a_text_backend_can_live_with_passes() -> None:
    missing = [calls(call(), call("b")), result("b"), USER]
    late = [calls(call(), call("b")), USER, result("b"), calls(call("c")), result(), result()]
    assert read(*missing) == missing
    assert read(*late) == late


def test_calls_without_id_or_type_get_them() -> None:
    bare = {"function": {"name": "look", "arguments": "{}"}}
    first, second = read(calls(bare, call(None)))[0]["tool_calls"]
    assert first["id"] != second["id"]
    assert first["id"].startswith("call_")
    assert first["id"].isascii()
    assert first["type"] == "function"
    assert read(calls(bare, call(None)))[0]["tool_calls"] == [first, second]  # the prompt is the same at each turn


def test_arguments_become_text() -> None:
    given = [call(function={"name": "f", "arguments": a}) for a in ({"x": [1]}, None, "not json", "")]
    made = read(calls(*given))[0]["tool_calls"]
    assert [one["function"]["arguments"] for one in made] == ['{"x": [1]}', "{}", "not json", ""]


def test_unknown_fields_of_calls_are_kept() -> None:
    function = {"name": "f", "arguments": "{}", "parsed_arguments": {"a": 1}}
    message = {**calls({**call(), "index": 0, "function": function}), "refusal": None, "function_call": None}
    assert read(message) == [message]


def test_custom_calls_become_function_calls() -> None:
    made = read(calls({"id": "a", "type": "custom", "custom": {"name": "sql", "input": 'a "b"'}}), result("a"))
    assert made[0]["tool_calls"] == [
        {"id": "a", "type": "function", "function": {"name": "sql", "arguments": '{"input": "a \\"b\\""}'}}
    ]


def test_function_messages_become_calls_and_results() -> None:
    asked = {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": '{"x": 1}'}}
    answered = {"role": "function", "name": "look", "content": "1"}
    made = read(USER, asked, answered, asked, answered)
    assert [message["role"] for message in made] == ["user", "assistant", "tool", "assistant", "tool"]
    ids = [made[1]["tool_calls"][0]["id"], made[3]["tool_calls"][0]["id"]]
    assert [made[2]["tool_call_id"], made[4]["tool_call_id"]] == ids
    assert len(set(ids)) == 2
    assert made[1]["tool_calls"][0]["function"] == {"name": "look", "arguments": '{"x": 1}'}
    assert "function_call" not in made[1]
    assert (made[2]["content"], made[2]["name"]) == ("1", "look")


def test_a_function_result_without_its_call_gets_one() -> None:
    made = read(USER, {"role": "function", "name": "look", "content": None})
    assert [message["role"] for message in made] == ["user", "assistant", "tool"]
    assert made[1]["tool_calls"][0]["function"] == {"name": "look", "arguments": "{}"}
    assert (made[2]["tool_call_id"], made[2]["content"]) == (made[1]["tool_calls"][0]["id"], "")


def test_rounds_are_limited() -> None:
    turn = [calls(call()), result()]
    assert len(read(*turn, *turn, max_tool_rounds=2)) == 4
    assert refusal(*turn, *turn, *turn, max_tool_rounds=2) == ("limit_exceeded", "messages")
