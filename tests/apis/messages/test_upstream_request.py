"""Requests for Anthropic: the SDK's own types and the API's rules hold for all that we build."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.helpers.anthropic_api import check_request
from toolcall_middleware.apis.messages.upstream import request as upstream_request
from toolcall_middleware.apis.messages.upstream.request import abilities, can_be_constrained
from toolcall_middleware.apis.messages.upstream.translation import AnthropicTranslation
from toolcall_middleware.apis.turns import NO_RESULT
from toolcall_middleware.errors import ToolCallError

OLD, NEW = "claude-sonnet-4-5", "claude-opus-4-8"
HELLO = {"role": "user", "content": "hello"}
WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
CLOSED = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
PNG = "data:image/png;base64,iVBORw0KGgo="


def sent(*messages: dict[str, Any], model: str = OLD, **fields: Any) -> dict[str, Any]:
    body = {"model": model, "messages": list(messages) or [HELLO], **fields}
    request = AnthropicTranslation(default_max_tokens=8192).request(json.dumps(body).encode())
    assert (request.method, request.path, request.query) == ("POST", "/v1/messages", b"")
    built: dict[str, Any] = json.loads(request.body)
    check_request(built)
    return built


def refused(*messages: dict[str, Any], **fields: Any) -> ToolCallError:
    with pytest.raises(ToolCallError) as caught:
        sent(*messages, **fields)
    return caught.value


def asks(*calls: tuple[str, str, str], content: Any = None, **fields: Any) -> dict[str, Any]:
    items = [
        {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
        for call_id, name, arguments in calls
    ]
    return {"role": "assistant", "content": content, "tool_calls": items, **fields}


def gives(call_id: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": call_id, "content": content, **fields}


# -- messages ------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_the_least_request_gets_a_length() -> None:
    assert sent() == {"model": OLD, "messages": [HELLO], "max_tokens": 8192}


def says(role: str, *content: Any) -> dict[str, Any]:
    return {"role": role, "content": content[0] if len(content) == 1 and isinstance(content[0], str) else [*content]}


def text(words: str) -> dict[str, Any]:
    return {"type": "text", "text": words}


def used(call_id: str, given: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"type": "tool_use", "id": call_id, "name": "weather", "input": given or {}}


def told(call_id: str, content: Any, **fields: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


def image(url: str, **fields: Any) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": url, **fields}}


def shown(kind: str, data: str, block: str = "image", **fields: Any) -> dict[str, Any]:
    return {"type": block, "source": {"type": "base64", "media_type": kind, "data": data}, **fields}


WAITS = asks(("a", "weather", "{}"))
SEEN = shown("image/png", "iVBORw0KGgo=")
HISTORIES: dict[str, tuple[list[dict[str, Any]], list[dict[str, Any]], str | None]] = {
    "system and developer messages are the system text": (
        [says("system", "One."), HELLO, says("developer", text("Two."))], [HELLO], "One.\n\nTwo."
    ),
    "a system message alone is the user's": (
        [says("system", "Tell a joke."), says("user", "")], [says("user", "Tell a joke.")], None
    ),
    "a call and its result are blocks": (
        [HELLO, asks(("call_1", "weather", '{"city": "Paris", "days": 2.50}'), content="Let me look."),
         gives("call_1", "Sunny."), says("user", "Thanks.")],
        [HELLO, says("assistant", text("Let me look."), used("call_1", {"city": "Paris", "days": 2.5})),
         says("user", told("call_1", "Sunny."), text("Thanks."))],
        None,
    ),
    "results are one message in the order of the calls and before text": (
        [HELLO, asks(("a", "weather", "{}"), ("b", "weather", "{}"), ("c", "weather", "{}")), gives("c", "3"),
         says("user", "quick!"), gives("a", "1"), gives("b", "2", is_error=True)],
        [HELLO, says("assistant", used("a"), used("b"), used("c")),
         says("user", told("a", "1"), told("b", "2", is_error=True), told("c", "3"), text("quick!"))],
        None,
    ),
    "a call without a result gets one": (
        [HELLO, WAITS, says("user", "never mind")],
        [HELLO, says("assistant", used("a")),
         says("user", told("a", NO_RESULT, is_error=True), text("never mind"))],
        None,
    ),
    "a result may hold an image": (
        [HELLO, WAITS, gives("a", [text("see"), image(PNG)])],
        [HELLO, says("assistant", used("a")), says("user", told("a", [text("see"), SEEN]))],
        None,
    ),
    "neighbours of one role are one turn, and the user begins": (
        [says("assistant", "Hi!"), says("assistant", "You there?"), HELLO, HELLO],
        [says("user", "Begin."), says("assistant", text("Hi!"), text("You there?")),
         says("user", text("hello"), text("hello"))],
        None,
    ),
    "empty text is no block, and a last answer ends without white space": (
        [HELLO, says("assistant", ""), says("user", text(" "), text("go")), says("assistant", "The answer is  \n")],
        [says("user", text("hello"), text("go")), says("assistant", "The answer is")],
        None,
    ),
    "images and files come as data or by address": (
        [says("user", text("What is this?"), image(PNG, detail="high"), image("https://example.org/a.png"),
              image("data:image/jpg;base64,AAAA"),
              {"type": "file", "file": {"file_data": "data:application/pdf;base64,AAAA", "filename": "a.pdf"}})],
        [says("user", text("What is this?"), SEEN,
              {"type": "image", "source": {"type": "url", "url": "https://example.org/a.png"}},
              shown("image/jpeg", "AAAA"), shown("application/pdf", "AAAA", "document", title="a.pdf"))],
        None,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", HISTORIES)
def test_messages_are_turns_of_blocks(name: str) -> None:
    messages, turns, system = HISTORIES[name]
    built = sent(*messages, tools=[WEATHER])
    assert (built["messages"], built.get("system")) == (turns, system)


def test_marks_for_the_providers_cache_are_kept() -> None:
    mark = {"type": "ephemeral"}
    built = sent(
        {"role": "system", "content": [{"type": "text", "text": "Long.", "cache_control": mark}]},
        {"role": "user", "content": [{"type": "text", "text": "hello", "cache_control": mark}]},
        tools=[{**WEATHER, "cache_control": mark}],
    )
    assert built["system"] == [{"type": "text", "text": "Long.", "cache_control": mark}]
    assert built["messages"][0]["content"] == [{"type": "text", "text": "hello", "cache_control": mark}]
    assert built["tools"][0]["cache_control"] == mark


def test_arguments_keep_their_spelling() -> None:
    arguments = '{"n": 1.50, "big": 123456789012345678901234567890, "e": "\\u00e9", "x": 1e2}'
    body = {"model": OLD, "messages": [HELLO, asks(("a", "weather", arguments)), gives("a", "x")], "tools": [WEATHER]}
    request = AnthropicTranslation(default_max_tokens=1).request(json.dumps(body).encode())
    assert arguments.encode() in request.body


@pytest.mark.parametrize(
    ("arguments", "given"),
    [
        ("", {}),
        ("  ", {}),
        ("{}", {}),
        ('{"city": "Par', {"arguments": '{"city": "Par'}),
        ("[1]", {"arguments": [1]}),
        ("NaN", {"arguments": "NaN"}),
        ('{"a": NaN}', {"arguments": '{"a": NaN}'}),
    ],
)
def test_arguments_that_are_no_object_go_into_one(arguments: str, given: dict[str, Any]) -> None:
    built = sent(HELLO, asks(("a", "weather", arguments)), gives("a", "x"), tools=[WEATHER])
    assert built["messages"][1]["content"][0]["input"] == given


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (None, None),
        ("", None),
        (" \n", None),
        ({"temperature": 20}, '{"temperature":20}'),
        ([1, "two"], '[1,"two"]'),
        (20, "20"),
        (False, "false"),
        ([{"type": "text", "text": "a"}, {"type": "text", "text": ""}], "a"),
        ([{"type": "other"}], '[{"type":"other"}]'),
    ],
)
def test_a_result_may_be_any_json(content: Any, shown: str | None) -> None:
    built = sent(HELLO, asks(("a", "weather", "{}")), gives("a", content), tools=[WEATHER])
    assert built["messages"][2]["content"][0].get("content") == shown


@pytest.mark.parametrize(
    ("part", "param", "said"),
    [
        ({"type": "image_url", "image_url": {"url": "data:image/tiff;base64,AAAA"}}, ".image_url.url", "data URL"),
        ({"type": "image_url", "image_url": {"url": "file:///etc/passwd"}}, ".image_url.url", "data URL"),
        ({"type": "image_url"}, ".image_url.url", "data URL"),
        ({"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}, "", "'input_audio'"),
        ({"type": "file", "file": {"file_id": "file-1"}}, ".file", "file_data"),
        ({"type": "text"}, ".text", "got null"),
        ({"type": "text", "text": ["a"]}, ".text", "got an array"),
        ("text", "", "must be an object, got a string"),
        (None, "", "must be an object, got null"),
    ],
)
def test_parts_that_cannot_be_said_are_refused_by_name(part: Any, param: str, said: str) -> None:
    error = refused({"role": "user", "content": [part]})
    assert said in error.message
    assert (error.status, error.code, error.param) == (400, "invalid_request", f"messages[0].content[0]{param}")


@pytest.mark.parametrize(
    ("messages", "code", "param"),
    [
        ([HELLO, gives("b", "1")], "invalid_tool_call_id", "messages[1].tool_call_id"),
        ([HELLO, asks(("", "w", "{}"))], "invalid_request", "messages[1].tool_calls[0]"),
        ([{"role": "user", "content": " "}], "invalid_request", "messages"),
        ([{"role": "user", "content": 1}], "invalid_request", "messages[0].content"),
    ],
)
def test_what_no_api_takes_is_refused_before_sending(messages: list[Any], code: str, param: str) -> None:
    error = refused(*messages)
    assert (error.status, error.code, error.param) == (400, code, param)


# -- ids -----------------------------------------------------------------------------------------------------------


def test_ids_that_the_api_takes_go_as_they_are() -> None:
    for call_id in ("toolu_01D7FLrfh4GYq7yT1ULFeyMV", "call_abc123", "a-b_c", "0"):
        built = sent(HELLO, asks((call_id, "weather", "{}")), gives(call_id, "1"), tools=[WEATHER])
        assert built["messages"][1]["content"][0]["id"] == call_id


def test_other_ids_are_derived_the_same_way_each_time() -> None:
    ids = ["functions.weather:0", "id with space", "é", "x" * 500, "a/b"]
    messages = [HELLO, asks(*[(call_id, "weather", "{}") for call_id in ids]), *[gives(i, i) for i in reversed(ids)]]
    first, second = sent(*messages, tools=[WEATHER]), sent(*messages, tools=[WEATHER])
    assert first == second
    results = first["messages"][2]["content"]
    assert [result["content"] for result in results] == ids
    assert len({result["tool_use_id"] for result in results}) == len(ids)


def test_an_id_that_comes_again_is_another_call() -> None:
    built = sent(
        HELLO,
        asks(("call_0", "weather", '{"city": "A"}')),
        gives("call_0", "first"),
        asks(("call_0", "weather", '{"city": "B"}'), ("call_0", "weather", '{"city": "C"}')),
        gives("call_0", "second"),
        gives("call_0", "third"),
        tools=[WEATHER],
    )
    results = [block["content"] for message in built["messages"][2::2] for block in message["content"]]
    assert results == ["first", "second", "third"]


def test_a_derived_id_never_takes_one_of_the_clients() -> None:
    built = sent(HELLO, asks(("a b", "weather", "{}")), gives("a b", "1"), tools=[WEATHER])
    derived = built["messages"][1]["content"][0]["id"]
    both = sent(
        HELLO,
        asks(("a b", "weather", "{}"), (derived, "weather", "{}")),
        gives(derived, "mine"),
        gives("a b", "1"),
        tools=[WEATHER],
    )
    calls = both["messages"][1]["content"]
    assert calls[1]["id"] == derived
    assert calls[0]["id"] != derived


# -- tools ---------------------------------------------------------------------------------------------------------


def test_a_tool_is_a_name_a_description_and_a_schema() -> None:
    assert sent(tools=[WEATHER])["tools"] == [
        {
            "name": "weather",
            "description": "The weather.",
            "input_schema": WEATHER["function"]["parameters"],  # type: ignore[index]
        }
    ]
    bare = {"type": "function", "function": {"name": "now"}}
    assert sent(tools=[bare])["tools"] == [{"name": "now", "input_schema": {"type": "object"}}]


@pytest.mark.parametrize(
    ("choice", "parallel", "expected"),
    [
        (None, None, None),
        ("auto", True, None),
        ("auto", False, {"type": "auto", "disable_parallel_tool_use": True}),
        ("required", None, {"type": "any"}),
        ("required", False, {"type": "any", "disable_parallel_tool_use": True}),
        ("none", False, {"type": "none"}),
        (
            {"type": "function", "function": {"name": "weather"}},
            None,
            {"type": "tool", "name": "weather", "disable_parallel_tool_use": True},
        ),
    ],
)
def test_tool_choice(choice: Any, parallel: bool | None, expected: Any) -> None:
    assert sent(tools=[WEATHER], tool_choice=choice, parallel_tool_calls=parallel).get("tool_choice") == expected


def test_allowed_tools_are_those_that_are_sent() -> None:
    other = {"type": "function", "function": {"name": "mail"}}
    allowed = {"mode": "required", "tools": [{"type": "function", "function": {"name": "mail"}}]}
    built = sent(tools=[WEATHER, other], tool_choice={"type": "allowed_tools", "allowed_tools": allowed})
    assert [tool["name"] for tool in built["tools"]] == ["mail"]
    assert built["tool_choice"] == {"type": "any"}


def test_a_model_that_cannot_be_forced_is_asked() -> None:
    assert "tool_choice" not in sent(tools=[WEATHER], tool_choice="required", model="claude-fable-5-1")


@pytest.mark.parametrize(
    ("model", "choice", "thinking"),
    [
        ("claude-opus-4-8", {"type": "any"}, None),
        ("claude-opus-5", {"type": "any"}, {"type": "disabled"}),
        ("claude-fable-5", {"type": "any"}, None),
        ("claude-opus-5-5", None, None),
        ("claude-mythos-5-2", None, None),
    ],
)
def test_a_forced_call_and_thinking_by_default_do_not_meet(model: str, choice: Any, thinking: Any) -> None:
    built = sent(tools=[WEATHER], tool_choice="required", model=model)
    assert built.get("tool_choice") == choice
    assert built.get("thinking") == thinking


def test_tools_of_the_history_are_declared_where_none_are_offered() -> None:
    built = sent(HELLO, asks(("a", "weather", "{}")), gives("a", "1"))
    assert built["tools"] == [{"name": "weather", "input_schema": {"type": "object"}}]
    assert built["tool_choice"] == {"type": "none"}


def test_strict_is_sent_where_the_api_can_keep_it() -> None:
    def tool(schema: Any) -> dict[str, Any]:
        return {"type": "function", "function": {"name": "w", "strict": True, "parameters": schema}}

    assert sent(tools=[tool(CLOSED)])["tools"][0]["strict"] is True
    assert "strict" not in sent(tools=[tool(CLOSED)], model="claude-sonnet-4-0")["tools"][0]
    assert "strict" not in sent(tools=[tool({**CLOSED, "minProperties": 1})])["tools"][0]


@pytest.mark.parametrize(
    ("schema", "features"),
    [
        ({"anyOf": [{"type": "object"}]}, ["anyOf"]),
        ({"type": "object", "oneOf": [], "allOf": []}, ["oneOf", "allOf"]),
        ({"type": "string"}, ["type string at the root"]),
    ],
)
def test_a_schema_that_the_api_refuses_is_refused_by_name(schema: Any, features: list[str]) -> None:
    error = refused(tools=[{"type": "function", "function": {"name": "w", "parameters": schema}}])
    assert (error.code, error.type, error.status) == ("tool_schema_incompatible", "semantic_error", 400)
    assert error.param == "tools[0].function.parameters"
    assert error.extra == {"incompatible_features": features, "tool": "w"}


# -- numbers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "expected"),
    [({"max_tokens": 5}, 5), ({"max_completion_tokens": 6}, 6), ({"max_tokens": 5, "max_completion_tokens": 6}, 6)],
)
def test_a_length_is_the_clients(fields: dict[str, Any], expected: int) -> None:
    assert sent(**fields)["max_tokens"] == expected


@pytest.mark.parametrize(
    ("model", "given", "expected"),
    [
        (OLD, {"temperature": 0.5}, {"temperature": 0.5}),
        (OLD, {"temperature": 1.7}, {"temperature": 1}),
        (OLD, {"temperature": 0, "top_p": 0.5}, {"temperature": 0}),
        (OLD, {"top_p": 0.5, "top_k": 3}, {"top_p": 0.5, "top_k": 3}),
        ("claude-3-haiku-20240307", {"temperature": 0, "top_p": 0.5}, {"temperature": 0, "top_p": 0.5}),
        (NEW, {"temperature": 0.5, "top_p": 0.5}, {}),
        ("claude-sonnet-5", {"temperature": 0.5}, {}),
        ("kimi-k2", {"temperature": 0.5, "top_p": 0.5}, {"temperature": 0.5, "top_p": 0.5}),
    ],
)
def test_sampling_goes_to_the_models_that_take_it(model: str, given: Any, expected: Any) -> None:
    built = sent(model=model, **given)
    assert {name: built[name] for name in ("temperature", "top_p", "top_k") if name in built} == expected


def test_a_temperature_that_is_lowered_is_said(caplog: pytest.LogCaptureFixture) -> None:
    sent(temperature=1.5)
    assert "1.5 is sent as 1" in caplog.text


@pytest.mark.parametrize(
    ("stop", "expected"), [("END", ["END"]), (["a", "\n", ""], ["a"]), ("\n\n", None), ([], None), (None, None)]
)
def test_stop_strings_of_white_space_are_left_out(stop: Any, expected: Any) -> None:
    assert sent(stop=stop).get("stop_sequences") == expected


@pytest.mark.parametrize(
    ("model", "effort", "fields", "thinking", "level"),
    [
        (OLD, "low", {}, {"type": "enabled", "budget_tokens": 2048}, None),
        (OLD, "high", {"max_tokens": 4096}, {"type": "enabled", "budget_tokens": 3072}, None),
        (OLD, "high", {"max_tokens": 1000}, None, None),
        (OLD, "none", {}, None, None),
        ("claude-3-5-haiku-latest", "high", {}, None, None),
        (NEW, "medium", {}, {"type": "adaptive", "display": "summarized"}, "medium"),
        (NEW, "xhigh", {}, {"type": "adaptive", "display": "summarized"}, "xhigh"),
        ("claude-opus-4-6", "xhigh", {}, {"type": "adaptive", "display": "summarized"}, "high"),
        (NEW, "none", {}, {"type": "disabled"}, None),
        ("claude-mythos-5", "none", {}, None, "low"),
        ("claude-opus-5", "none", {}, {"type": "disabled"}, None),
        ("claude-opus-5-5", "none", {}, None, "low"),
        (NEW, "high", {"tools": [WEATHER], "tool_choice": "required"}, None, None),
        (OLD, None, {"thinking": {"type": "enabled", "budget_tokens": 1024}},
         {"type": "enabled", "budget_tokens": 1024}, None),
    ],
)  # fmt: skip
def test_reasoning_effort(model: str, effort: Any, fields: Any, thinking: Any, level: Any) -> None:
    built = sent(model=model, reasoning_effort=effort, temperature=None, **fields)
    assert built.get("thinking") == thinking
    assert built.get("output_config", {}).get("effort") == level


def test_thinking_leaves_room_for_the_answer_and_no_sampling() -> None:
    built = sent(reasoning_effort="high", temperature=0.3)
    assert built["max_tokens"] == 8192 + 16384
    assert "temperature" not in built


def test_signed_thinking_goes_back_and_its_lack_turns_thinking_off() -> None:
    detail = {"type": "reasoning.text", "text": "Hm.", "signature": "c2ln", "format": "anthropic-claude-v1", "index": 0}
    secret = {"type": "reasoning.encrypted", "data": "eA==", "index": 1}
    loose = {"type": "reasoning.text", "text": "Not signed."}
    kept = asks(("a", "weather", "{}"), reasoning="Hm.", reasoning_details=[detail, secret, loose])
    built = sent(HELLO, kept, gives("a", "1"), tools=[WEATHER], reasoning_effort="high")
    assert built["messages"][1]["content"][:2] == [
        {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"},
        {"type": "redacted_thinking", "data": "eA=="},
    ]
    assert built["thinking"]["type"] == "enabled"
    blocks = asks(("a", "weather", "{}"), thinking_blocks=built["messages"][1]["content"][:2])
    assert sent(HELLO, blocks, gives("a", "1"), tools=[WEATHER])["messages"] == built["messages"]
    lost = sent(HELLO, asks(("a", "weather", "{}")), gives("a", "1"), tools=[WEATHER], reasoning_effort="high")
    assert "thinking" not in lost


# -- the rest ------------------------------------------------------------------------------------------------------


def test_a_format_is_constrained_or_asked_for_in_words() -> None:
    wanted = {"type": "json_schema", "json_schema": {"name": "city", "schema": CLOSED}}
    built = sent(response_format=wanted)
    assert built["output_config"] == {"format": {"type": "json_schema", "schema": CLOSED}}
    assert "system" not in built
    assert '"city"' in sent(response_format=wanted, model="claude-sonnet-4-0")["system"]
    loose = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object"}}}
    assert "JSON Schema" in sent(response_format=loose)["system"]
    assert "JSON object" in sent(response_format={"type": "json_object"})["system"]
    assert "system" not in sent(response_format={"type": "text"})
    both = sent(response_format=wanted, reasoning_effort="low", model=NEW)
    assert set(both["output_config"]) == {"format", "effort"}


def test_user_and_tier_are_named_as_the_api_names_them() -> None:
    assert sent(user="u1")["metadata"] == {"user_id": "u1"}
    assert sent(user="u1", safety_identifier="s1")["metadata"] == {"user_id": "s1"}
    assert sent(service_tier="default")["service_tier"] == "standard_only"
    assert "service_tier" not in sent(service_tier="flex")


def test_unknown_fields_do_not_reach_the_api() -> None:
    built = sent(skip_special_tokens=False, store=True, seed=1, metadata={"a": "b"}, logit_bias={}, stream=False)
    assert built.keys() == {"model", "messages", "max_tokens"}


def test_stream_is_passed_on() -> None:
    assert sent(stream=True)["stream"] is True


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"n": 2}, "n"),
        ({"n": [1]}, "n"),
        ({"logprobs": True}, "logprobs"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"modalities": ["text", "audio"]}, "modalities"),
        ({"model": ""}, "model"),
        ({"messages": []}, None),
        ({"messages": "hello"}, None),
        ({"tools": {"a": 1}}, "tools"),
        ({"tools": [{"type": "web_search"}]}, "tools[0]"),
        ({"tools": [WEATHER], "tool_choice": "maybe"}, "tool_choice"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"stop": 1}, "stop"),
        ({"reasoning_effort": "huge"}, "reasoning_effort"),
        ({"reasoning_effort": ["low"]}, "reasoning_effort"),
    ],
)
def test_what_the_api_cannot_do_is_refused_by_name(fields: dict[str, Any], param: str | None) -> None:
    body = {"model": OLD, "messages": [HELLO], **fields}
    with pytest.raises(ToolCallError) as caught:
        AnthropicTranslation(default_max_tokens=1).request(json.dumps(body).encode())
    assert (caught.value.status, caught.value.param) == (400, param)


@pytest.mark.parametrize("body", [b"", b"[]", b"{", b'"x"', b"\xff", b"[" * 100_000])
def test_a_body_that_is_no_object_is_refused(body: bytes) -> None:
    with pytest.raises(ToolCallError) as caught:
        AnthropicTranslation(default_max_tokens=1).request(body)
    assert caught.value.code == "invalid_json"


def test_half_an_emoji_becomes_a_question_mark() -> None:
    body = b'{"model": "claude-sonnet-4-5", "messages": [{"role": "user", "content": "hi \\ud83d"}]}'
    request = AnthropicTranslation(default_max_tokens=1).request(body)
    assert json.loads(request.body)["messages"] == [{"role": "user", "content": "hi ?"}]


@pytest.mark.parametrize(
    ("model", "sampling", "thinking", "structured"),
    [
        ("claude-3-haiku-20240307", True, (False, False), False),
        ("claude-3-7-sonnet-latest", True, (True, False), False),
        ("claude-sonnet-4-20250514", True, (True, False), False),
        ("anthropic.claude-opus-4-1-20250805-v1:0", True, (True, False), False),
        ("claude-haiku-4-5-20251001", True, (True, False), True),
        ("claude-sonnet-4-6", True, (True, True), True),
        ("claude-opus-4-7", False, (True, True), True),
        ("claude-sonnet-5-5", False, (True, True), True),
        ("claude-mythos-preview", False, (True, True), True),
        ("deepseek-chat", True, (True, False), False),
    ],
)
def test_what_a_model_takes_is_told_by_its_name(
    model: str, sampling: bool, thinking: tuple[bool, bool], structured: bool
) -> None:
    able = abilities(model)
    assert (able.sampling, (able.thinks, able.adaptive), able.structured) == (sampling, thinking, structured)


# -- which schemas the decoder is given ----------------------------------------------------------------------------


STRICT = {"type": "object", "additionalProperties": False}


@pytest.mark.parametrize(
    ("schema", "plain"),
    [
        ({**STRICT, "$defs": {"A<b>": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/A%3Cb%3E"}}}, True),
        ({**STRICT, "definitions": {"A": STRICT}, "properties": {"a": {"$ref": "#/definitions/A"}}}, True),
        ({**STRICT, "$defs": {"A": {"pattern": "x"}}, "properties": {"a": {"$ref": "#/$defs/A"}}}, False),
        ({**STRICT, "$defs": {"A": {"$ref": "#/$defs/A"}}, "properties": {"a": {"$ref": "#/$defs/A"}}}, False),
        (
            {**STRICT, "$defs": {"A": {"items": {"$ref": "#/$defs/A"}}}, "properties": {"a": {"$ref": "#/$defs/A"}}},
            False,
        ),
        ({**STRICT, "properties": {"a": {"$ref": "#"}}}, False),
        ({**STRICT, "properties": {"a": {"$ref": "#/properties/b"}, "b": {"type": "string"}}}, False),
        ({**STRICT, "properties": {"a": {"$ref": "#/$defs/none"}}}, False),
        ({**STRICT, "properties": {"a": {"$ref": 5}}}, False),
        ({**STRICT, "properties": {"a": {"$ref": "http://example.org/x"}}}, False),
        ({**STRICT, "additionalProperties": True}, False),
        ({**STRICT, "patternProperties": {}}, False),
        ({**STRICT, "minProperties": 1}, False),
    ],
)
def test_schemas_that_the_decoder_takes(schema: dict[str, Any], plain: bool) -> None:
    assert can_be_constrained(schema) is plain


def test_a_definition_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two ways lead to each definition from the one before it: two to the power of 20 to the last."""
    looked: list[int] = []
    holds = upstream_request._Plain.holds

    def counted(self: Any, schema: Any, depth: int) -> bool:
        looked.append(depth)
        return holds(self, schema, depth)

    monkeypatch.setattr(upstream_request._Plain, "holds", counted)
    defs: dict[str, Any] = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(20)}
    root = {**STRICT, "$defs": {**defs, "d20": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/d0"}}}
    assert can_be_constrained(root)
    assert len(looked) < 100
