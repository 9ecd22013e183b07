"""Anthropic's answers as chat completions: built from the SDK's types, read by OpenAI's, streamed in every cut."""

from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from anthropic.types import Message, RefusalStopDetails, ServerToolUseBlock, ThinkingBlock, Usage
from anthropic.types.output_tokens_details import OutputTokensDetails

from tests.apis import translated
from tests.apis.translated import chunks, stream_of, streamed_by, whole_by
from tests.helpers import anthropic_api as api
from tests.helpers.stream_rules import check_stream, check_whole
from toolcall_middleware.apis.messages.upstream.translation import AnthropicAnswer, AnthropicTranslation
from toolcall_middleware.apis.upstream import Translation, UpstreamAnswer
from toolcall_middleware.errors import ToolCallError

WEATHER = {"weather", "mail"}
TWO_CALLS = api.answer(
    api.thought("The user wants\nthe weather. ☀"),
    api.hidden("eA=="),
    api.text("Let me look 🌍."),
    api.call("toolu_01A", "weather", {"city": "Zürich 🌍", "days": [1, 2.5], "deep": {"a": None}}),
    api.call("toolu_01B", "mail", {}),
    stop_reason="tool_use",
)
PROSE = api.answer(api.text("Grüße, 世界! "), api.text("Bye."))


def translation(**fields: Any) -> Translation:
    made = AnthropicTranslation(default_max_tokens=100, created=1_700_000_000, limit=1_000_000)
    return translated.begun(made, "claude-sonnet-4-5", **fields)


def whole(message: Message) -> dict[str, Any]:
    return whole_by(translation(), message.model_dump_json().encode())


def streamed(data: bytes, *, usage: bool = False) -> bytes:
    return streamed_by(translation(stream=True, stream_options={"include_usage": usage}), data)


def deltas(stream: bytes) -> list[dict[str, Any]]:
    return [chunk["choices"][0]["delta"] for chunk in chunks(stream) if chunk["choices"]]


# -- whole ---------------------------------------------------------------------------------------------------------


def test_text_and_calls_are_a_message() -> None:
    answer = whole(TWO_CALLS)
    message = answer["choices"][0]["message"]
    assert answer["id"] == "msg_01XFDUDYJgAACzvnptvVoYEL"
    assert (answer["created"], answer["model"]) == (1_700_000_000, "claude-sonnet-4-5")
    assert answer["choices"][0]["finish_reason"] == "tool_calls"
    assert message["content"] == "Let me look 🌍."
    assert message["reasoning"] == "The user wants\nthe weather. ☀"
    assert [(call["id"], call["function"]["name"]) for call in message["tool_calls"]] == [
        ("toolu_01A", "weather"),
        ("toolu_01B", "mail"),
    ]
    assert [json.loads(call["function"]["arguments"]) for call in message["tool_calls"]] == [
        {"city": "Zürich 🌍", "days": [1, 2.5], "deep": {"a": None}},
        {},
    ]
    status, body = translation().whole(200, TWO_CALLS.model_dump_json().encode())
    check_whole(body, tools=WEATHER, own_ids=False)
    assert status == 200


def test_content_is_null_with_calls_alone_and_empty_with_nothing() -> None:
    calls = whole(api.answer(api.call("toolu_1", "weather", {}), stop_reason="tool_use"))
    assert calls["choices"][0]["message"]["content"] is None
    nothing = whole(api.answer())
    assert nothing["choices"][0]["message"] == {"role": "assistant", "content": "", "refusal": None}


def test_usage_counts_what_the_cache_gave_and_took() -> None:
    assert whole(PROSE)["usage"] == {
        "prompt_tokens": 18,
        "completion_tokens": 7,
        "total_tokens": 25,
        "prompt_tokens_details": {"cached_tokens": 5, "cache_creation_tokens": 3},
    }
    usage = Usage(input_tokens=1, output_tokens=9, output_tokens_details=OutputTokensDetails(thinking_tokens=4))
    assert whole(api.answer(usage=usage))["usage"] == {
        "prompt_tokens": 1,
        "completion_tokens": 9,
        "total_tokens": 10,
        "prompt_tokens_details": {"cached_tokens": 0},
        "completion_tokens_details": {"reasoning_tokens": 4},
    }


@pytest.mark.parametrize(
    ("stop_reason", "finish_reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
    ],
)
def test_every_stop_reason_is_told_apart(stop_reason: Any, finish_reason: str) -> None:
    message = api.answer(api.text("x"), stop_reason=stop_reason)
    assert whole(message)["choices"][0]["finish_reason"] == finish_reason
    assert chunks(streamed(api.wire(api.events(message))))[-1]["choices"][0]["finish_reason"] == finish_reason


def test_a_refusal_says_why() -> None:
    details = RefusalStopDetails(type="refusal", category="bio", explanation="Not that.")
    message = api.answer(stop_reason="refusal", stop_details=details)
    assert whole(message)["choices"][0]["message"]["refusal"] == "Not that."
    assert {"refusal": "Not that."} in deltas(streamed(api.wire(api.events(message))))


def test_a_thought_without_text_is_no_text() -> None:
    thoughts = [ThinkingBlock(type="thinking", thinking=text, signature=f"sig{text}") for text in ("", "a", "", "b")]
    message = api.answer(*thoughts, api.text("x"))
    assert whole(message)["choices"][0]["message"]["reasoning"] == "a\n\nb"
    alone = whole(api.answer(thoughts[0], api.text("x")))["choices"][0]["message"]
    assert "reasoning" not in alone
    assert alone["reasoning_details"][0]["signature"] == "sig"


def test_blocks_of_the_providers_own_tools_are_passed_over() -> None:
    search = ServerToolUseBlock(type="server_tool_use", id="srvtoolu_1", name="web_search", input={"query": "x"})
    message = api.answer(search, api.text("Found."))
    assert whole(message)["choices"][0]["message"]["content"] == "Found."
    assert [delta.get("content") for delta in deltas(streamed(api.wire(api.events(message, size=99))))] == [
        "",
        "Found.",
        None,
    ]


@pytest.mark.parametrize(
    ("status", "kind", "text"),
    [
        (400, "invalid_request_error", "max_tokens: too large"),
        (401, "authentication_error", "invalid x-api-key"),
        (429, "rate_limit_error", "slow down"),
        (529, "overloaded_error", "Overloaded"),
    ],
)
def test_an_error_keeps_status_type_and_text(status: int, kind: str, text: str) -> None:
    body = json.dumps({"type": "error", "error": {"type": kind, "message": text}, "request_id": "req_1"}).encode()
    told, out = translation().whole(status, body)
    assert told == status
    assert json.loads(out) == {"error": {"message": text, "type": kind, "param": None, "code": None}}


def test_a_prompt_that_is_too_long_has_openai_s_code() -> None:
    said = {"type": "invalid_request_error", "message": "prompt is too long: 250000 tokens > 200000 maximum"}
    body = json.dumps({"type": "error", "error": said}).encode()
    status, answer = translation().whole(400, body)
    assert (status, json.loads(answer)["error"]) == (400, {**said, "param": None, "code": "context_length_exceeded"})


# -- streamed ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("message", [TWO_CALLS, PROSE, api.answer()], ids=["calls", "prose", "empty"])
def test_stream_and_whole_say_the_same(message: Message) -> None:
    data = streamed(api.wire(api.events(message)), usage=True)
    expected = whole(message)
    whole_message = expected["choices"][0]["message"]
    found = check_stream(data, tools=WEATHER, own_ids=False, include_usage=True)
    assert "".join(delta.get("content") or "" for delta in deltas(data)) == (whole_message["content"] or "")
    assert "".join(delta.get("reasoning") or "" for delta in deltas(data)) == whole_message.get("reasoning", "")
    details = [item for delta in deltas(data) for item in delta.get("reasoning_details", [])]
    assert details == whole_message.get("reasoning_details", [])
    calls = [
        (call["id"], call["function"]["name"], json.loads(call["function"]["arguments"]))
        for call in whole_message.get("tool_calls", [])
    ]
    assert joined(data) == calls
    last = chunks(data)[-1]
    assert last["choices"] == []
    assert last["usage"] == expected["usage"]
    assert found.chunks


def joined(data: bytes) -> list[tuple[str, str, Any]]:
    calls: dict[int, list[str]] = {}
    for delta in deltas(data):
        for item in delta.get("tool_calls", []):
            call = calls.setdefault(item["index"], [item.get("id", ""), item["function"].get("name", ""), ""])
            call[2] += item["function"]["arguments"]
    assert sorted(calls) == list(range(len(calls)))
    return [(call_id, name, json.loads(text)) for call_id, name, text in calls.values()]


def test_each_delta_leaves_with_its_event() -> None:
    made = stream_of(translation(stream=True))
    sent = []
    for event in api.events(TWO_CALLS):
        data = api.wire([event], ping=False)
        assert made.feed(data[:-1]) == b""
        sent.append(made.feed(data[-1:]))
    arguments = [out for out in sent if b'"arguments":"' in out and b'"arguments":""' not in out]
    assert len(arguments) > 10
    assert all(out.count(b"data: ") == 1 for out in arguments)


def test_the_first_delta_of_a_call_is_exact() -> None:
    data = streamed(api.wire(api.events(TWO_CALLS)))
    first = next(delta for delta in deltas(data) if "tool_calls" in delta)
    function = {"name": "weather", "arguments": ""}
    assert first == {"tool_calls": [{"index": 0, "id": "toolu_01A", "type": "function", "function": function}]}


def test_arguments_that_come_whole_with_the_start_leave_at_the_stop() -> None:
    given = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Rom"}}
    data = lines(
        {"type": "message_start", "message": {"id": "m", "model": "x", "usage": {}}},
        {"type": "content_block_start", "index": 0, "content_block": given},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {}},
        {"type": "message_stop"},
    )
    assert joined(streamed(data)) == [("toolu_1", "weather", {"city": "Rom"})]


def lines(*values: Any) -> bytes:
    return b"".join(b"data: " + json.dumps(value).encode() + b"\n\n" for value in values)


def test_the_usage_of_the_end_wins_and_null_takes_nothing_away() -> None:
    start = {"id": "m", "model": "x", "usage": {"input_tokens": 5, "output_tokens": 1}}
    data = lines(
        {"type": "message_start", "message": start},
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"},
         "usage": {"input_tokens": None, "output_tokens": 9}},
        {"type": "message_stop"},
    )  # fmt: skip
    usage = chunks(streamed(data, usage=True))[-1]["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"]) == (5, 9)


@pytest.mark.parametrize(("kind", "code"), [("overloaded_error", 529), ("rate_limit_error", 429), ("odd_error", None)])
def test_an_error_event_ends_the_stream(kind: str, code: int | None) -> None:
    error = {"type": "error", "error": {"type": kind, "message": "Overloaded"}}
    data = api.wire(list(api.events(PROSE))[:3]) + b"event: error\n" + lines(error) + lines({"type": "message_stop"})
    found = chunks(streamed(data))
    assert found[-1] == {"error": {"message": "Overloaded", "type": kind, "param": None, "code": code}}


def test_a_stream_that_breaks_off_never_looks_complete() -> None:
    data = api.wire(api.events(TWO_CALLS))
    ends = [place for place in range(len(data)) if data[place - 2 : place] == b"\n\n"]
    said = data.index(b"event: message_delta")
    for end in ends:
        found = chunks(streamed(data[:end]))
        assert ("error" in found[-1]) is (end <= said)
    cut = stream_of(translation(stream=True))  # a break is an error even where only the last event is missing
    cut.feed(data[: ends[-1]])
    assert (cut.finish(cut=True), cut.done) == (b"", False)


@pytest.mark.parametrize(
    "noise",
    [
        b": comment\n\n",
        b"data: not json\n\n",
        b"data: []\n\n",
        b'data: {"type": "content_block_delta", "index": 7, "delta": {"type": "text_delta", "text": "x"}}\n\n',
        b'data: {"type": "content_block_stop", "index": 7}\n\n',
        b'data: {"type": "content_block_delta", "index": 0, "delta": {"type": "new_delta"}}\n\n',
        b'data: {"type": "content_block_delta", "index": [], "delta": 1}\n\n',
        b'data: {"type": "vendor_event"}\n\n',
    ],
)
def test_what_is_not_known_is_passed_over(noise: bytes) -> None:
    parts = [api.wire([event], ping=False) for event in api.events(PROSE)]
    assert streamed(noise.join(parts)) == streamed(b"".join(parts))


def held_after(reader: UpstreamAnswer, block: dict[str, Any], *deltas: dict[str, Any]) -> int:
    """Bytes that a reader holds after forty blocks like this."""
    tracemalloc.start()
    try:
        for index in range(40):
            start = {"type": "content_block_start", "index": index, "content_block": block}
            told = [{"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas]
            for event in (start, *told, {"type": "content_block_stop", "index": index}):
                reader.feed(b"data: " + json.dumps(event).encode() + b"\n\n")
        return tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()


def test_nothing_of_a_block_is_held_after_its_end() -> None:
    long = "x" * 100_000
    thought = {"type": "thinking", "thinking": "", "signature": "s"}
    said = {"type": "thinking_delta", "thinking": long}
    call = {"type": "tool_use", "id": "toolu_1", "name": "mail", "input": {"text": long}}
    found = {"type": "web_search_tool_result", "tool_use_id": "srv", "content": [long]}
    for block, *told in ([thought, said], [call], [found]):
        assert held_after(stream_of(translation(stream=True)), block, *told) < 500_000
    # An answer that passes as it is may need the content of a block later, but not the text that followed.
    assert held_after(AnthropicAnswer(created=0, on_event=lambda _: None), thought, said) < 500_000


def test_an_event_without_end_is_an_error() -> None:
    made = stream_of(translation(stream=True))
    with pytest.raises(ToolCallError, match="too large"):
        made.feed(b"data: " + b"x" * 1_000_001)


# -- models --------------------------------------------------------------------------------------------------------


def test_models_are_listed_as_openai_lists_them() -> None:
    made = AnthropicTranslation(default_max_tokens=1)
    request = made.models(None)
    assert (request.method, request.path, request.query) == ("GET", "/v1/models", b"limit=1000")
    model = {"type": "model", "id": "claude-opus-5", "display_name": "Claude Opus 5", "created_at": "2026-07-01"}
    status, body = made.whole(200, json.dumps({"data": [model], "has_more": False}).encode())
    listed = {
        "id": "claude-opus-5",
        "object": "model",
        "created": 0,
        "owned_by": "anthropic",
        "display_name": "Claude Opus 5",
        "created_at": "2026-07-01",
    }
    assert (status, json.loads(body)) == (200, {"object": "list", "data": [listed]})
    one = AnthropicTranslation(default_max_tokens=1)
    assert one.models("a/b c").path == "/v1/models/a%2Fb%20c"
    assert json.loads(one.whole(200, json.dumps(model).encode())[1]) == listed
