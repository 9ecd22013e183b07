"""A chat stream as the events of Messages."""

from __future__ import annotations

from typing import Any

import pytest

from tests.apis.fed import however_cut
from toolcall_middleware.errors import ToolCallError

from .chat import HEAD, asked, chunk, end, event, more, opening
from .received import Received, error_of, frames, read_stream

STREAM = {"stream": True, "thinking": {"type": "enabled", "budget_tokens": 1024}, "stop_sequences": ["END"]}
ROLE = chunk({"role": "assistant", "content": ""})
WHOLE = (
    ROLE
    + chunk({"reasoning": "I think: "})
    + chunk({"reasoning": "grüß 🙂"})
    + chunk({"content": "Let me "})
    + chunk({"content": 'look "there".\n'})
    + opening(0, "call_aaaaaaaaaaaaaaaaaaaaaaaa", "Read")
    + more(0, '{"path": "/x')
    + more(0, '\\n\\u00e9"}')
    + opening(1, "call_bbbbbbbbbbbbbbbbbbbbbbbb", "Read")
    + more(1, "{}")
    + end("tool_calls")
)


def stream(data: bytes, **fields: Any) -> Received:
    return read_stream(however_cut(lambda: asked(**{**STREAM, **fields}), data))


def test_the_events_are_those_of_the_api_in_order() -> None:
    face = asked(**STREAM)
    events = frames(face.feed(WHOLE) + face.finish(cut=False))
    steps = [event["type"] + (f":{event['index']}" if "index" in event else "") for event in events]
    assert steps == [
        "message_start", "ping",
        "content_block_start:0", "content_block_delta:0", "content_block_delta:0", "content_block_delta:0",
        "content_block_stop:0",
        "content_block_start:1", "content_block_delta:1", "content_block_delta:1", "content_block_stop:1",
        "content_block_start:2", "content_block_delta:2", "content_block_delta:2", "content_block_stop:2",
        "content_block_start:3", "content_block_delta:3", "content_block_stop:3",
        "message_delta", "message_stop",
    ]  # fmt: skip
    assert [event["delta"]["type"] for event in events[:-2] if "delta" in event][:4] == [
        "thinking_delta", "thinking_delta", "signature_delta", "text_delta",
    ]  # fmt: skip


def test_a_client_gets_thoughts_text_and_calls() -> None:
    received = stream(WHOLE)
    assert received.thinking == "I think: grüß 🙂"
    assert received.text == 'Let me look "there".\n'
    assert received.calls == [("Read", {"path": "/x\né"}), ("Read", {})]
    assert received.content[2]["id"] == "call_aaaaaaaaaaaaaaaaaaaaaaaa"
    assert received.message.stop_reason == "tool_use"
    assert received.message.model == "m"
    assert received.usage["input_tokens"] == 20
    assert received.usage["output_tokens"] == 5


def test_fragments_leave_as_they_come() -> None:
    face = asked(**STREAM)
    face.feed(ROLE + opening(0, "call_a", "Read") + more(0, '{"path"'))
    out = face.feed(more(0, ': "/x'))
    assert frames(out) == [
        {
            "type": "content_block_delta",
            "index": 0,
            "delta": {"type": "input_json_delta", "partial_json": ': "/x'},
        }
    ]


def test_omitted_thoughts_come_back_by_their_signature() -> None:
    face = asked(**{**STREAM, "thinking": {"type": "adaptive", "display": "omitted"}})
    received = read_stream(face.feed(WHOLE) + face.finish(cut=False))
    block = received.content[0]
    assert block["type"] == "thinking"
    assert block["thinking"] == ""
    again = asked(messages=[{"role": "user", "content": "hi"}, {"role": "assistant", "content": [block]}])
    assert again.read.chat["messages"][1]["reasoning_content"] == "I think: grüß 🙂"


def test_shown_thoughts_come_back_as_they_are() -> None:
    received = stream(WHOLE)
    history = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": received.content}]
    said = asked(messages=history).read.chat["messages"][1]
    assert said["reasoning_content"] == "I think: grüß 🙂"
    assert said["content"] == 'Let me look "there".\n'
    assert [call["function"]["name"] for call in said["tool_calls"]] == ["Read", "Read"]


def test_without_usage_the_numbers_are_estimates() -> None:
    data = ROLE + chunk({"content": "Hello, world. " * 4}) + chunk({}, "stop") + b"data: [DONE]\n\n"
    received = stream(data)
    assert received.usage["input_tokens"] > 0
    assert received.usage["output_tokens"] > 0


def test_the_first_event_has_an_estimate() -> None:
    face = asked(**{**STREAM, "messages": [{"role": "user", "content": "word " * 1000}]})
    start = frames(face.feed(ROLE + chunk({"content": "Hi"})))[0]
    assert 900 <= start["message"]["usage"]["input_tokens"] <= 1600


def test_the_next_call_leaves_as_soon_as_the_one_before_is_whole() -> None:
    face = asked(**STREAM)
    face.feed(ROLE + opening(0, "call_a", "Read") + more(0, '{"a": [1, "}"'))
    assert face.feed(opening(1, "call_b", "Read") + more(1, "{")) == b""
    out = frames(face.feed(more(0, "]}")))
    assert [event["type"] for event in out] == [
        "content_block_delta", "content_block_stop", "content_block_start", "content_block_delta",
    ]  # fmt: skip


def test_a_call_that_is_cut_stays_cut() -> None:
    received = stream(ROLE + opening(0, "call_a", "Read") + more(0, '{"path": "/x') + end("length"))
    assert received.message.stop_reason == "max_tokens"
    assert "".join(received.fragments()) == '{"path": "/x'


@pytest.mark.parametrize("call_id", ["functions.Read:0", "", "call_a b", "call_known"])
def test_ids_that_cannot_be_are_made_anew(call_id: str) -> None:
    known = [
        {"role": "user", "content": "hi"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "call_known", "name": "Read", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "call_known"}]},
    ]
    received = stream(ROLE + opening(0, call_id, "Read") + more(0, "{}") + end("tool_calls"), messages=known)
    assert received.content[0]["id"].startswith("call_")
    assert received.content[0]["id"] != "call_known"


def test_two_calls_of_one_id_become_two() -> None:
    data = ROLE + opening(0, "call_0", "Read") + more(0, "{}") + opening(1, "call_0", "Read") + more(1, "{}")
    received = stream(data + end("tool_calls"))
    assert len({block["id"] for block in received.content}) == 2


def test_other_choices_and_unknown_fields_are_left_out() -> None:
    other = event({**HEAD, "choices": [{"index": 1, "delta": {"content": "other"}}], "x": {"y": 1}})
    received = stream(ROLE + other + chunk({"content": "Hi", "x": 1}) + end("stop"))
    assert received.text == "Hi"


# -- errors and ends -----------------------------------------------------------------------------------------------


def test_an_error_in_the_stream_is_an_error_event_and_the_end() -> None:
    face = asked(**STREAM)
    error = {"error": {"message": "boom", "type": "upstream_error", "param": None, "code": "upstream_error"}}
    out = face.feed(ROLE + chunk({"content": "Hi"}) + event(error) + b"data: [DONE]\n\n")
    assert error_of(out) == {"type": "api_error", "message": "boom"}
    assert b"message_stop" not in out
    assert face.feed(chunk({"content": "more"})) == b""
    assert face.finish(cut=False) == b""
    assert face.keepalive() == b""


def test_a_fault_of_the_model_is_an_api_error() -> None:
    fault = ToolCallError("malformed_tool_arguments", "The arguments are broken.")
    face = asked(**STREAM)
    assert error_of(face.feed(ROLE + fault.sse())) == {"type": "api_error", "message": "The arguments are broken."}


@pytest.mark.parametrize("cut", [True, False])
def test_a_stream_without_its_end_gets_an_error(cut: bool) -> None:
    face = asked(**STREAM)
    out = face.feed(ROLE + chunk({"content": "Hi"})) + face.finish(cut=cut)
    assert error_of(out)["type"] == "api_error"
    assert b"message_delta" not in out


def test_a_stream_that_said_all_ends_well_however_it_ends() -> None:
    face = asked(**STREAM)
    out = face.feed(ROLE + chunk({"content": "Hi"}) + chunk({}, "stop")) + face.finish(cut=True)
    assert read_stream(out).message.stop_reason == "end_turn"


def test_what_is_no_json_is_an_error() -> None:
    face = asked(**STREAM)
    assert error_of(face.feed(ROLE + b"data: {oops\n\n" + end("stop")))["type"] == "api_error"


def test_pings_keep_a_client_waiting_only_between_begin_and_end() -> None:
    face = asked(**STREAM)
    assert face.keepalive() == b""
    assert frames(face.begin())[0]["type"] == "message_start"
    assert frames(face.keepalive()) == [{"type": "ping"}]
    assert b"message_start" not in face.feed(ROLE)
    assert frames(face.feed(b": waiting\n\n")) == [{"type": "ping"}]
    face.feed(end("stop"))
    assert face.keepalive() == b""


def test_an_error_of_our_own_ends_the_stream_once() -> None:
    face = asked(**STREAM)
    face.feed(ROLE)
    out = face.fail(ToolCallError("upstream_timeout", "too slow"))
    assert error_of(out) == {"type": "timeout_error", "message": "too slow"}
    assert face.fail(ToolCallError("upstream_timeout", "too slow")) == b""


def test_the_headers_of_a_stream() -> None:
    headers = dict(asked(**STREAM).headers(stream=True))
    assert headers[b"content-type"].startswith(b"text/event-stream")
    assert headers[b"request-id"].startswith(b"req_")


def test_what_waits_behind_a_call_that_never_ends_comes_at_the_end() -> None:
    data = ROLE + opening(0, "call_a", "First") + opening(1, "call_b", "Second") + more(1, '{"b": 1}')
    received = stream(data + chunk({"content": "last"}) + end("tool_calls"))
    assert received.calls == [("First", {}), ("Second", {"b": 1})]
    assert received.text == "last"


def test_half_an_emoji_is_read_by_the_sdk() -> None:
    face = asked()
    data = b'data: {"choices": [{"index": 0, "delta": {"tool_calls": [{"index": 0, "id": "call_1", "function": {"name":'
    data += b' "Read", "arguments": "{\\"a\\": \\"x\\ud83d\\"}"}}]}}]}\n\n'
    received = read_stream(face.feed(data + end("tool_calls")) + face.finish(cut=False))
    assert received.calls == [("Read", {"a": "x\ufffd"})]


def test_half_an_emoji_that_is_an_escape_of_the_arguments_is_read_by_the_sdk() -> None:
    pieces = ['{"a": "', "x", "\\", "ud8", "3d", '"}']
    data = ROLE + opening(0, "call_a", "Read") + b"".join(more(0, piece) for piece in pieces) + end("tool_calls")
    assert stream(data).calls == [("Read", {"a": "x\ufffd"})]
