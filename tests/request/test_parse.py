"""Which bodies are ours, and what each field of ours may be."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.model import ChoiceMode
from toolcall_middleware.request.messages import _is_deeper
from toolcall_middleware.request.parse import ChatRequest, UsageOnly, asks_for_json, read_request
from toolcall_middleware.settings import Settings

CLIENTS = sorted((Path(__file__).parent.parent / "clients_data").glob("*.json"))
PLAIN = Settings()
TOOL: dict[str, Any] = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
USER = {"role": "user", "content": "hi"}
BASE: dict[str, Any] = {"model": "m", "messages": [USER], "tools": [TOOL]}


def encode(**fields: Any) -> bytes:
    return json.dumps({**BASE, **fields}).encode()


def read(body: bytes, options: Settings = PLAIN) -> ChatRequest:
    chat = read_request(body, options)
    assert isinstance(chat, ChatRequest)
    return chat


def refusal(body: bytes, options: Settings = PLAIN) -> tuple[str | int | None, str | None]:
    with pytest.raises(ToolCallError) as caught:
        read_request(body, options)
    assert caught.value.status == 400
    return caught.value.code, caught.value.param


# Real clients


@pytest.mark.parametrize("path", CLIENTS, ids=lambda path: path.stem)
def test_real_clients_are_accepted_and_nothing_changes_its_meaning(path: Path) -> None:
    raw = path.read_bytes()
    body = json.loads(raw)
    chat = read(raw)
    assert chat.messages == body["messages"]
    assert {name: json.loads(bytes(value)) for name, value in chat.fields.items()} == body
    assert list(chat.fields) == list(body)
    assert json.loads(chat.tools_raw) == body["tools"]
    assert [(tool.name, tool.parameters) for tool in chat.tools.tools] == [
        (tool["function"]["name"], tool["function"]["parameters"]) for tool in body["tools"]
    ]
    assert [tool.strict for tool in chat.tools.tools] == [
        tool["function"].get("strict", False) for tool in body["tools"]
    ]
    assert (chat.model, chat.stream) == (body["model"], body.get("stream", False))
    assert chat.include_usage is body.get("stream_options", {}).get("include_usage", False)
    assert list(chat.stop) == body.get("stop", [])
    assert (chat.n, chat.legacy, chat.overrides, chat.custom) == (1, False, {}, frozenset())


def test_there_are_client_bodies_to_test_with() -> None:
    assert len(CLIENTS) == 20


# What is ours


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"not json",
        b"[1, 2]",
        b"\xff\xfe",
        b"[" * 100_000,
        b'{"prompt": "hi"}',
        b'{"messages": "say \\"tools\\" and \\"tool_calls\\""}',
        json.dumps({"messages": [USER]}).encode(),
        json.dumps({"messages": [USER], "temperature": -1, "model": None}).encode(),
        json.dumps({"messages": [USER], "tools": None, "functions": []}).encode(),
        json.dumps({"messages": [USER], "tools": [], "tool_choice": "auto"}).encode(),
        json.dumps({"messages": [{"role": "assistant", "content": '"tool_calls": [{}]', "tool_calls": []}]}).encode(),
        json.dumps({"messages": [{"role": "assistant", "content": "", "function_call": None}]}).encode(),
        json.dumps({"messages": [USER], "stream_options": {"include_usage": True}}).encode(),
        json.dumps({"messages": [USER], "stream": True, "stream_options": {"include_usage": False}}).encode(),
        json.dumps({"messages": [USER], "stream": True, "stream_options": 7}).encode(),
        json.dumps({"messages": 7, "stream": True}).encode(),
        b'{"messages": [{"role": "user", "content": "half an emoji: \\ud83d"}]}',
        b'{"messages": [], "temperature": NaN}',
    ],
)
def test_requests_without_tools_pass_unread(body: bytes) -> None:
    assert read_request(body, PLAIN) is None


@pytest.mark.parametrize(
    "fields",
    [
        {"tools": [TOOL]},
        {"functions": [{"name": "look"}]},
        {"messages": [{"role": "tool", "tool_call_id": "x", "content": "y"}]},
        {"messages": [{"role": "function", "name": "x", "content": "y"}]},
        {"messages": [{"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f"}}]}]},
        {"messages": [{"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}}]},
    ],
)
def test_tools_calls_and_results_are_ours(fields: dict[str, Any]) -> None:
    body = json.dumps({"model": "m", "messages": [USER], **fields}).encode()
    with contextlib.suppress(ToolCallError):  # what is ours may be refused
        assert read_request(body, PLAIN) is not None


def test_names_written_with_escapes_are_still_names() -> None:
    body = encode().replace(b'"tools"', b'"\\u0074oo\\u006Cs"')
    assert [tool.name for tool in read(body).tools.tools] == ["look"]


def test_usage_alone_is_told_apart() -> None:
    body = json.dumps({"stream": True, "stream_options": {"include_usage": True}, "messages": 7}).encode()
    assert read_request(body, PLAIN) == UsageOnly()


@pytest.mark.parametrize("usage", ["off", "backend"])
def test_usage_alone_is_not_ours_when_none_is_to_be_added(usage: str) -> None:
    body = json.dumps({"stream": True, "stream_options": {"include_usage": True}, "messages": [USER]}).encode()
    assert read_request(body, Settings(usage=usage)) is None


def test_mode_off_reads_nothing() -> None:
    off = Settings(mode="off")
    assert read_request(encode(model=None), off) is None


# Broken bodies


@pytest.mark.parametrize(
    "body",
    [
        b'{"tools": [',
        b'{"tools": [1], "x": NaN}',
        b'{"tools": [1]} trailing',
        b'[{"tools": [1]}]',
        b'"the \\"tools\\": "tools"',
        b'{"tools": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
        b'{"tools": ' + b'{"a":' * 100_000,
        # Where no name is spelled out, what msgspec refuses is read by json, and int() has a limit of its own.
        b'{"\\u0074ools": [1], "x": NaN, "y": ' + b"9" * 5000 + b"}",
        encode()[:-1] + b', "user": "\xff"}',
        encode()[:-1] + b', "\xff": 1}',
    ],
)
def test_a_body_that_is_no_json_object_is_refused(body: bytes) -> None:
    assert refusal(body)[0] == "invalid_json"


def test_nested_messages_are_refused_before_they_can_hurt() -> None:
    content = b'{"a":' * 300 + b"1" + b"}" * 300
    call = b'{"role":"assistant","tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}}]}'
    body = b'{"model":"m","messages":[%b,{"role":"tool","tool_call_id":"a","content":%b}]}' % (call, content)
    assert refusal(body) == ("invalid_request", "messages")
    shallow = body.replace(content, b'{"a":' * 150 + b'"[{[{"' + b"}" * 150)
    assert read(shallow).messages[1]["content"]["a"]


def test_text_is_not_searched_for_levels() -> None:
    class Text(str):
        __slots__ = ()

        def __iter__(self) -> Iterator[str]:
            raise AssertionError

    assert not _is_deeper(Text("[" * 300), 200)


@pytest.mark.parametrize("padding", [0, 200_000])  # a large body is decoded message by message
@pytest.mark.parametrize(("levels", "fits"), [(200, True), (201, False)])
def test_messages_have_at_most_so_many_levels(levels: int, fits: bool, padding: int) -> None:
    nested: Any = "x" * padding
    for _ in range(levels - 2):  # the list of messages and the message are two
        nested = [nested]
    turn = {"role": "assistant", "tool_calls": [{"id": "a", "function": {"name": "f"}}]}
    body = encode(messages=[turn, {"role": "tool", "tool_call_id": "a", "content": nested}])
    if fits:
        assert read(body).messages[1]["content"] == nested
    else:
        assert refusal(body) == ("invalid_request", "messages")


def test_json_is_asked_for_by_a_chat_without_tools() -> None:
    wanted = {"response_format": {"type": "json_object"}}
    assert asks_for_json(json.dumps({"messages": [USER], **wanted}).encode())
    for body in ({"messages": 7, **wanted}, {"messages": [USER], "tools": [TOOL], **wanted}, {"messages": [USER]}):
        assert not asks_for_json(json.dumps(body).encode())


def test_the_last_of_two_equal_keys_wins() -> None:
    body = b'{"model": "a", "tools": [], "model": "b", "messages": [], ' + encode()[1:-1] + b', "n": 1, "n": 2}'
    chat = read(body)
    assert (chat.model, chat.n, len(chat.messages), len(chat.tools)) == ("m", 2, 1, 1)


def test_half_an_emoji_becomes_a_replacement_character() -> None:
    body = encode(messages=[{"role": "user", "content": "HALF"}])
    for half in (rb"\ud83d", rb"\ude00", rb"\uD83D.", rb"\ud83d\ud83d"):
        content = read(body.replace(b"HALF", half)).messages[0]["content"]
        assert content.rstrip(".") in {"�", "��"}
    for whole, text in ((rb"\ud83d\ude00", "😀"), (rb"\\ud83d", "\\ud83d"), (rb"\\\ud83d\\", "\\�\\")):
        assert read(body.replace(b"HALF", whole)).messages[0]["content"] == text


def test_numbers_too_large_to_hold_are_refused_where_they_are_read_and_kept_where_not() -> None:
    assert refusal(encode().replace(b'"hi"', b"1e999")) == ("invalid_json", "messages")
    assert refusal(encode()[:-1] + b', "temperature": 1e999}') == ("invalid_json", "temperature")
    assert bytes(read(encode()[:-1] + b', "user": 1e999}').fields["user"]) == b"1e999"


# Fields


@pytest.mark.parametrize(
    ("fields", "param"),
    [
        ({"model": None}, "model"),
        ({"model": ""}, "model"),
        ({"model": 5}, "model"),
        ({"messages": []}, "messages"),
        ({"messages": None}, "messages"),
        ({"messages": "hi"}, "messages"),
        ({"messages": {}}, "messages"),
        # Large ones are decoded message by message.
        ({"messages": "x" * 2_000_000}, "messages"),
        ({"messages": {"x" * 2_000_000: 1}}, "messages"),
        ({"messages": ["x" * 2_000_000]}, "messages[0]"),
        ({"temperature": -0.1}, "temperature"),
        ({"temperature": "1"}, "temperature"),
        ({"temperature": True}, "temperature"),
        ({"top_p": 1.01}, "top_p"),
        ({"top_p": -1}, "top_p"),
        ({"top_p": []}, "top_p"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"max_tokens": -5}, "max_tokens"),
        ({"max_tokens": 1.5}, "max_tokens"),
        ({"max_tokens": True}, "max_tokens"),
        ({"max_completion_tokens": 0}, "max_completion_tokens"),
        ({"max_completion_tokens": "9"}, "max_completion_tokens"),
        ({"n": 0}, "n"),
        ({"n": "1"}, "n"),
        ({"stream": 1}, "stream"),
        ({"stream": "true"}, "stream"),
        ({"stream_options": {"include_usage": True}}, "stream_options"),
        ({"stream_options": {}, "stream": False}, "stream_options"),
        ({"stream_options": [], "stream": True}, "stream_options"),
        ({"stream_options": {"include_usage": 1}, "stream": True}, "stream_options.include_usage"),
        ({"stop": 5}, "stop"),
        ({"stop": ["a", 5]}, "stop"),
        ({"stop": {}}, "stop"),
        ({"parallel_tool_calls": "no"}, "parallel_tool_calls"),
        ({"tools": {}}, "tools"),
        ({"tools": "look"}, "tools"),
        ({"tools": [TOOL, 5]}, "tools[1]"),
    ],
)
def test_a_bad_value_is_named_by_its_path(fields: dict[str, Any], param: str) -> None:
    assert refusal(encode(**fields)) == ("invalid_request", param)


def test_model_and_messages_cannot_be_left_out() -> None:
    for name in ("model", "messages"):
        body = {key: value for key, value in BASE.items() if key != name}
        assert refusal(json.dumps(body).encode()) == ("invalid_request", name)


OPTIONAL = [
    *("temperature", "top_p", "max_tokens", "max_completion_tokens", "n", "stream", "stream_options", "stop"),
    *("tool_choice", "parallel_tool_calls", "functions", "function_call", "toolcall", "request_options"),
]


@pytest.mark.parametrize("name", OPTIONAL)
def test_null_is_absent(name: str) -> None:
    given, absent = read(encode(**{name: None})), read(encode())
    for field in ("choice", "stream", "include_usage", "stop", "n", "overrides", "legacy"):
        assert getattr(given, field) == getattr(absent, field)


def test_good_values_are_read() -> None:
    chat = read(
        encode(
            temperature=3,
            top_p=0,
            max_tokens=1.0,
            max_completion_tokens=10**12,
            n=3,
            stream=True,
            stream_options={"include_usage": True, "more": 1},
            stop=["a", "", "b", "c", "d", "e"],
        )
    )
    assert (chat.n, chat.stream, chat.include_usage, chat.stop) == (3, True, True, ("a", "b", "c", "d", "e"))
    assert read(encode(stop="x")).stop == ("x",)
    assert not read(encode(stream=True, stream_options={})).include_usage


def test_unknown_fields_keep_their_bytes_and_their_place() -> None:
    body = b'{"zz": 1.50e+3 , "model": "m", "messages": [{"role": "user", "content": "x"}], "a": {"b":  "\\u00e9"}, '
    body += b'"tools": [ {"type": "function", "function": {"name": "f"}} ], "toolcall": {}, "request_options": null}'
    chat = read(body)
    assert list(chat.fields) == ["zz", "model", "messages", "a", "tools"]
    assert bytes(chat.fields["zz"]) == b"1.50e+3"
    assert bytes(chat.fields["a"]) == b'{"b":  "\\u00e9"}'
    assert chat.tools_raw == b'[ {"type": "function", "function": {"name": "f"}} ]'


def test_history_without_tools_is_read_and_offers_nothing() -> None:
    calls = [{"id": "a", "type": "function", "function": {"name": "gone", "arguments": "{}"}}]
    messages = [USER, {"role": "assistant", "tool_calls": calls}, {"role": "tool", "tool_call_id": "a", "content": "1"}]
    chat = read(json.dumps({"model": "m", "messages": messages, "tools": []}).encode())
    assert (len(chat.tools), chat.tools_raw, chat.choice.mode) == (0, b"", ChoiceMode.NONE)
    assert chat.messages == messages


# Nothing else is ever raised

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
WORDS = """
type object string properties required items enum $ref $defs $id $schema $anchor anyOf pattern not if minimum
additionalProperties dependencies dependentRequired patternProperties function custom name description parameters
strict format role content tool_calls tool_call_id id arguments function_call input allowed_tools tools mode
include_usage validate_tool_arguments retries max_tools text system user assistant tool required auto none
"""
NAMES = st.sampled_from(WORDS.split())
NEAR = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-2, 70)
    | NAMES
    | st.sampled_from(["#/$defs/a", "#a", "(", "http://x/", ""]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=15,
)
FIELDS = st.sampled_from(["model", "messages", "tools", "functions", *OPTIONAL])


def check_only_tool_call_errors(body: bytes) -> None:
    error = answer = None
    try:
        answer = read_request(body, PLAIN)
    except ToolCallError as raised:
        error = raised
    if error is not None:
        assert error.status == 400
        assert msgspec.json.decode(error.body())["error"]["message"]
    if isinstance(answer, ChatRequest):
        assert msgspec.json.decode(msgspec.json.encode([answer.fields, answer.messages]))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.dictionaries(FIELDS, JSON | NEAR), st.booleans())
def test_any_json_is_read_or_refused(fields: dict[str, Any], whole: bool) -> None:
    check_only_tool_call_errors(json.dumps({**BASE, **fields} if whole else fields).encode())


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(NEAR)
def test_any_tool_schema_is_read_or_refused(parameters: Any) -> None:
    tool = {"type": "function", "function": {"name": "f", "parameters": parameters}}
    check_only_tool_call_errors(encode(tools=[tool]))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from(["role", "content", "tool_calls", "tool_call_id", "name"]), NEAR)))
def test_any_messages_are_read_or_refused(messages: Any) -> None:
    check_only_tool_call_errors(encode(messages=messages))


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(st.binary(), st.integers(0, 200), st.integers(0, 5))
def test_any_bytes_are_read_or_refused(noise: bytes, place: int, cut: int) -> None:
    body = encode()
    check_only_tool_call_errors(noise)
    check_only_tool_call_errors(body[:place] + noise + body[place + cut :])
