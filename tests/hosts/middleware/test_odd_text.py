"""What a model or backend writes in any string of an answer stays data: half characters, line ends, control characters,
quotes. It can neither break the answer, nor become a header, another event or another line of the log.
"""

from __future__ import annotations

import contextlib
import json
import logging
import re
from typing import Any

import pytest

from tests.helpers.asgi_client import BLOCK, HELLO, JSON_TYPE, SSE_TYPE, Backend, Client, ask, middleware
from tests.helpers.fakes import TextBackend
from tests.helpers.stream_rules import check_error, check_stream, check_whole, read_events
from toolcall_middleware.apis.google.request import translate
from toolcall_middleware.errors import ToolCallError
from toolcall_middleware.wire import openai

from ...response.streams import DONE, HEAD, event
from ..proxy.test_any_await import Yielding, of_another_api

# Line ends of every kind, a header, an event, half an emoji, NUL, a terminal's code, a quote.
ODD = 'x\r\nx-evil: 1\r\n\r\ndata: [DONE]\n\ndata: {}\ud83d\x00\x1b[31m"\\\u2028\u2029\x85\x0b\u202e\udc00'
CALL = f'<tool_call>{{"name": "weather", "arguments": {{"city": {json.dumps(ODD)}}}}}</tool_call>'
UNKNOWN = f'<tool_call>{{"name": {json.dumps(ODD)}, "arguments": {{}}}}</tool_call>'
SETTINGS: list[dict[str, Any]] = [
    {},
    {"mode": "native"},
    {"mode": "auto"},
    {"extension_field": "_note", "validate_arguments": "warn"},
    {"validate_arguments": "error"},
    {"validate_arguments": "retry"},
    {"mode": "native", "validate_arguments": "retry", "malformed_arguments": "error"},
    {"unknown_tool": "error"},
    {"unknown_tool": "forward", "mode": "native", "allowlist": "weather", "allowlist_mode": "warn"},
    {"unknown_tool": "forward", "allowlist": "weather", "allowlist_mode": "warn", "extension_field": "x"},
    {"unknown_tool": "drop"},
    {"arguments_as_object": True},
    {"reasoning_field": "reasoning", "reasoning": "parse"},
    {"rewrite_ids": True, "mode": "native"},
    {"usage": "count"},
]  # fmt: skip


def messages() -> list[tuple[dict[str, Any], str]]:
    """Messages (or deltas) with the odd text in every place, and their finish_reason."""
    native = {
        "index": 0,
        "id": ODD,
        "type": "function",
        "function": {"name": "weather", "arguments": json.dumps({"city": ODD})},
    }
    as_object = {**native, "function": {"name": "weather", "arguments": {"city": ODD, ODD: 1}}}
    unknown = {**native, "function": {"name": ODD, "arguments": ODD}}
    odd_field = {**native, "type": ODD, ODD: ODD}
    return [
        ({"role": "assistant", "content": ODD}, "stop"),
        ({"role": "assistant", "content": ODD + BLOCK + ODD}, "stop"),
        ({"role": "assistant", "content": CALL}, "stop"),
        ({"role": "assistant", "content": UNKNOWN}, "stop"),
        ({"role": "assistant", "content": f"<think>{ODD}</think>{CALL}"}, "stop"),
        ({"role": ODD, "content": "x"}, "stop"),
        ({"role": "assistant", "content": "x", "reasoning": ODD, "refusal": ODD, ODD: ODD}, "stop"),
        ({"role": "assistant", "content": "x", "reasoning_content": ODD}, "stop"),
        ({"role": "assistant", "content": "x"}, ODD),
        *[
            ({"role": "assistant", "content": None, "tool_calls": [one]}, "tool_calls")
            for one in (native, as_object, unknown, odd_field)
        ],
        ({"role": "assistant", "content": None, "function_call": {"name": ODD, "arguments": ODD}}, "function_call"),
    ]  # fmt: skip


def whole(message: dict[str, Any], reason: str) -> bytes:
    choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": {"content": [{"token": ODD}]}}
    head = {**HEAD, "object": "chat.completion", "id": ODD, "model": ODD, "system_fingerprint": ODD, ODD: ODD}
    return json.dumps({**head, "choices": [choice]}).encode()


def streamed(message: dict[str, Any], reason: str) -> bytes:
    head = {**HEAD, "id": ODD, "model": ODD, "system_fingerprint": ODD, ODD: ODD}

    def chunk(delta: dict[str, Any], why: str | None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": why, "logprobs": {"content": [{"token": ODD}]}}
        return b"data: " + json.dumps({**head, "choices": [choice]}).encode() + b"\n\n"

    return chunk(message, None) + chunk({"content": ODD}, None) + chunk({}, reason) + DONE


def check(made: Client, *, stream: bool) -> None:
    """Headers are ours, and the body is what it says to be."""
    names = [name.lower() for name, _ in made.got[0]["headers"]]
    assert b"x-evil" not in names
    assert not any(char in value for _, value in made.got[0]["headers"] for char in b"\r\n\0\x1b")
    if stream and made.status == 200:
        *events, done = read_events(made.body)
        assert done == "[DONE]"
        for one in events:
            assert isinstance(json.loads(one), dict)
    else:
        assert int(made.headers["content-length"]) == len(made.body)
        json.loads(made.body)


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_odd_text_in_any_place_of_an_answer_stays_data(
    settings: dict[str, Any], stream: bool, caplog: pytest.LogCaptureFixture
) -> None:
    more = {"stream_options": {"include_usage": True}} if stream else {}
    with caplog.at_level(logging.DEBUG):
        for message, reason in messages():
            body = streamed(message, reason) if stream else whole(message, reason)
            for request in (ask(stream=stream, **more), ask(stream=stream, n=1, tool_choice="required", **more)):
                backend = Backend(body, headers=[SSE_TYPE if stream else JSON_TYPE])
                made = await Client(request).run(middleware(backend, **settings))
                check(made, stream=stream)
    lines = [record.getMessage() for record in caplog.records if record.name.startswith("toolcall_middleware")]
    assert all(line.isprintable() for line in lines)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
@pytest.mark.parametrize("status", [200, 400, 429, 500])
async def test_odd_text_in_an_error_stays_data(status: int, stream: bool) -> None:
    error = {"message": ODD, "type": ODD, "param": ODD, "code": ODD, ODD: ODD}
    refusals: list[dict[str, Any]] = [{"detail": ODD}, {"detail": [{"msg": ODD}]}] if status != 200 else []
    for body in ({"error": error}, {"error": ODD}, *refusals):
        data = json.dumps(body).encode()
        headers = [SSE_TYPE if stream and status == 200 else JSON_TYPE]
        sent = b"data: " + data + b"\n\n" if stream and status == 200 else data
        made = await Client(ask(stream=stream)).run(middleware(Backend(sent, status=status, headers=headers)))
        check(made, stream=stream)
        assert made.status >= 400
        assert "x-evil" in check_error(made.json)["message"]
    plain = ODD.encode("utf-8", "surrogatepass")
    made = await Client(ask(stream=stream)).run(middleware(Backend(plain, status=status, headers=[JSON_TYPE])))
    assert made.status == (502 if status == 200 else status)
    check_error(made.json)


@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
async def test_numbers_that_are_no_json_are_null_behind_another_api(stream: bool) -> None:
    odd = '{"city": NaN, "b": [-Infinity]}'
    block = '{"type": "tool_use", "id": "a", "name": "weather", "input": '
    if stream:
        delta = {"type": "input_json_delta", "partial_json": odd}
        events: list[Any] = [{"type": "message_start", "message": {"id": "m", "model": "m"}}]
        events += [f'{{"type": "content_block_start", "index": 0, "content_block": {block}{{}}}}}}']
        events += [{"type": "content_block_delta", "index": 0, "delta": delta}]
        events += [{"type": "content_block_stop", "index": 0}]
        events += [{"type": "message_delta", "delta": {"stop_reason": "tool_use"}}, {"type": "message_stop"}]
        upstream = b"".join(event(one) for one in events)
    else:
        head = '{"id": "m", "type": "message", "role": "assistant", "model": "m", "stop_reason": "tool_use"'
        upstream = f'{head}, "content": [{block}{odd}}}]}}'.encode()
    made = await Client(ask(stream=stream)).run(of_another_api(Yielding(upstream)))
    answer = check_stream(made.body, own_ids=False) if stream else check_whole(made.json, own_ids=False)
    (call,) = answer.only.calls
    assert json.loads(call.arguments, parse_constant=pytest.fail) == {"city": None, "b": [None]}


@pytest.mark.parametrize("field", ["model", "user", "tool_choice", "stop", "toolcall"])
async def test_odd_text_of_a_client_becomes_no_header_and_no_line(field: str, caplog: pytest.LogCaptureFixture) -> None:
    odd = ODD.encode("utf-8", "ignore").decode()
    value: Any = {"format": odd} if field == "toolcall" else odd
    if field == "tool_choice":
        value = {"type": "function", "function": {"name": odd}}
    with caplog.at_level(logging.DEBUG):
        backend = Backend(whole({"role": "assistant", "content": "x"}, "stop"), headers=[JSON_TYPE])
        made = await Client(ask(stream=False, **{field: value})).run(
            middleware(backend, allowlist="nothing", allowlist_mode="warn")
        )
    check(made, stream=False)
    assert all(record.getMessage().isprintable() for record in caplog.records)


# --- huge numbers

HUGE = ["1" * 400, "-" + "1" * 400, "9" * 5000]
BOUNDS = ("minimum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "maxLength", "minItems", "const", "default")
SCHEMA = {"type": "object", "properties": {name: {"type": "integer", name: 7} for name in BOUNDS}}
PARAMETERS = dict.fromkeys(
    (
        "max_tokens",
        "max_completion_tokens",
        "max_output_tokens",
        "n",
        "temperature",
        "top_p",
        "top_k",
        "seed",
        "created",
    ),
    7,
)
CHAT = {
    **{name: value for name, value in PARAMETERS.items() if name != "n"},
    "model": "m",
    "messages": [*HELLO, {"role": "user", "content": "x", "extra": 7}],
    "tools": [{"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}],
    "toolcall": {"max_tools": 7},
    "thinking": {"type": "enabled", "budget_tokens": 7},
    "unknown": {"deep": [7]},
}
MESSAGES = {**CHAT, "tools": [{"name": "weather", "input_schema": SCHEMA}]}
RESPONSES = {
    **{name: value for name, value in CHAT.items() if name != "messages"},
    "input": [*HELLO, {"type": "function_call", "call_id": "c", "name": "weather", "arguments": "{}", "id": 7}],
    "tools": [{"type": "function", "name": "weather", "parameters": SCHEMA}],
}
PATHS = {"/v1/chat/completions": CHAT, "/v1/messages": MESSAGES, "/v1/responses": RESPONSES}


def spelled(body: dict[str, Any], digits: str) -> list[bytes]:
    """The body once for each 7 in it, with `digits` in its place; the other numbers are 1."""
    text = json.dumps(body)
    places = [found.start() for found in re.finditer(r"\b7\b", text)]
    return [(text[:at].replace("7", "1") + digits + text[at + 1 :].replace("7", "1")).encode() for at in places]


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("digits", HUGE, ids=len)
async def test_a_request_with_it_is_answered_or_refused(path: str, digits: str) -> None:
    for body in spelled(PATHS[path], digits):
        app = middleware(TextBackend([BLOCK]), faces="chat,messages,responses")
        client = await Client(body, path=path, headers=[JSON_TYPE, (b"anthropic-version", b"1")]).run(app)
        assert client.status in {200, 400}, client.body


@pytest.mark.parametrize("digits", HUGE, ids=len)
@pytest.mark.parametrize("stream", [True, False])
async def test_a_model_that_writes_it_is_read(digits: str, *, stream: bool) -> None:
    tool = {"type": "function", "function": {"name": "weather", "parameters": SCHEMA}}
    body = json.dumps({"model": "m", "stream": stream, "messages": HELLO, "tools": [tool]}).encode()
    for policy in ("off", "warn"):
        for sample in spelled({"tool_calls": [{"name": "weather", "arguments": dict.fromkeys(BOUNDS, 7)}]}, digits):
            app = middleware(TextBackend([f"```json\n{sample.decode()}\n```"]), validate_arguments=policy)
            client = await Client(body).run(app)
            assert client.status == 200
            assert b"weather" in client.body


@pytest.mark.parametrize("digits", HUGE, ids=len)
def test_google_s_form_is_made_or_refused(digits: str) -> None:
    for body in spelled(CHAT, digits):
        fields = openai.read_object(body)
        if fields is None:
            continue
        with contextlib.suppress(ToolCallError):
            translate(fields)
