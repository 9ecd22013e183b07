"""What a backend writes that no JSON has (NaN, Infinity, numbers without bounds) never leaves us: it is null."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.apis.translated import stream_of
from tests.helpers.policies import policy as made_policy
from tests.helpers.policies import written_whole
from toolcall_middleware.apis.google.translation import GoogleTranslation
from toolcall_middleware.apis.messages.upstream.translation import AnthropicTranslation
from toolcall_middleware.model import ToolSet
from toolcall_middleware.response.answer_form import as_stream
from toolcall_middleware.response.choice import ChoiceAnswer, Verbatim
from toolcall_middleware.response.native_calls import NativeCalls
from toolcall_middleware.wire import openai

# As engines and libraries spell it; with half an emoji it cannot be written in the quickest way either.
ODD = '{"a": NaN, "b": [-Infinity, Infinity, 1e999, "NaN"], "c": "\\ud83d"}'
READ = {"a": None, "b": [None, None, None, "NaN"], "c": "\ud83d"}
ASK = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9}


def strictly(data: str | bytes) -> Any:
    """The value, by the grammar of JSON and no more."""

    def refuse(word: str) -> None:
        raise AssertionError(f"{word} is no JSON: {data!r}")

    return json.loads(data, parse_constant=refuse)


def arguments(events: bytes) -> str:
    """The joined arguments of a stream, every event of which is JSON."""
    said = [strictly(line[6:]) for line in events.splitlines() if line.startswith(b"data: {")]
    calls = [call for one in said for choice in one["choices"] for call in choice["delta"].get("tool_calls") or ()]
    return "".join(call["function"]["arguments"] for call in calls)


def sse(*events: str) -> bytes:
    return "".join(f"data: {event}\n\n" for event in events).encode()


def test_values_are_read_as_null_and_written_so() -> None:
    assert openai.read_value(ODD.encode()) == READ
    fields = openai.read_object(ODD.encode())
    assert fields is not None
    assert strictly(openai.encode(fields)) == READ
    assert strictly(openai.encode({"x": fields, "y": "\ud83d"})) == {"x": READ, "y": "\ud83d"}
    assert strictly(openai.without_constants(ODD.encode())) == READ


@pytest.mark.parametrize("data", [b'{"a": 1.50, "b": "NaN"}', b"[1]", b'"Infinity"', b"{NaN", b'{"a": 1e999}'])
def test_other_json_keeps_its_bytes(data: bytes) -> None:
    assert openai.without_constants(data) is data


def test_whole_answers() -> None:
    message = '{"role": "assistant", "content": "x"}'
    data = f'{{"choices": [{{"index": 0, "message": {message}, "logprobs": {ODD}}}], "x": {ODD}}}'.encode()
    answer = written_whole(data, lambda: ChoiceAnswer(Verbatim(), made_policy()))
    assert answer is not None
    assert strictly(answer[0])["choices"][0]["logprobs"] == strictly(answer[0])["x"] == READ
    stream = as_stream(data)
    assert stream is not None
    assert all(strictly(line[6:]) for line in stream.splitlines() if line.startswith(b"data: {"))


def own_calls() -> ChoiceAnswer:
    policy = made_policy(native=True, arguments_as_object=True)
    return ChoiceAnswer(Verbatim(), policy, lambda: NativeCalls(ToolSet(()), free=True))


def test_a_backends_own_calls_that_leave_as_objects() -> None:
    call = {"type": "function", "id": "c", "function": {"name": "f", "arguments": ODD}}
    message = json.dumps({"role": "assistant", "content": None, "tool_calls": [call]})
    data = f'{{"choices": [{{"index": 0, "message": {message}}}]}}'.encode()
    made = written_whole(data, own_calls, arguments_as_object=True)
    assert made is not None
    assert strictly(made[0])["choices"][0]["message"]["tool_calls"][0]["function"]["arguments"] == READ


def anthropic(*, stream: bool) -> AnthropicTranslation:
    made = AnthropicTranslation(default_max_tokens=9, created=1, limit=None)
    made.request(json.dumps({**ASK, "stream": stream}).encode())
    return made


def test_anthropics_calls() -> None:
    block = f'{{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {ODD}}}'
    data = f'{{"type": "message", "id": "m", "content": [{block}], "stop_reason": "tool_use", "usage": {{}}}}'
    _, body = anthropic(stream=False).whole(200, data.encode())
    call = strictly(body)["choices"][0]["message"]["tool_calls"][0]
    assert strictly(call["function"]["arguments"]) == READ
    out = stream_of(anthropic(stream=True)).feed(
        sse(
            '{"type": "message_start", "message": {"usage": {"input_tokens": NaN}}}',
            f'{{"type": "content_block_start", "index": 0, "content_block": {block}}}',
            '{"type": "content_block_stop", "index": 0}',
            '{"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": Infinity}}',
            '{"type": "message_stop"}',
        )
    )
    assert strictly(arguments(out)) == READ


def test_googles_calls() -> None:
    content = f'{{"role": "model", "parts": [{{"functionCall": {{"name": "f", "args": {ODD}}}}}]}}'
    data = f'{{"candidates": [{{"content": {content}, "finishReason": "STOP"}}], "usageMetadata": {{"x": NaN}}}}'
    made = GoogleTranslation()
    made.request(json.dumps(ASK).encode())
    _, body = made.whole(200, data.encode())
    call = strictly(body)["choices"][0]["message"]["tool_calls"][0]
    assert strictly(call["function"]["arguments"]) == READ
    made = GoogleTranslation()
    made.request(json.dumps({**ASK, "stream": True}).encode())
    reader = stream_of(made)
    assert strictly(arguments(reader.feed(sse(data)) + reader.finish(cut=False))) == READ


def test_errors() -> None:
    error = openai.read_error(f'{{"error": {{"message": "x", "code": 500, "more": {ODD}}}}}'.encode(), 500)
    assert strictly(error.body())["error"]["more"] == READ
